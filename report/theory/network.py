"""Theory of a network: parameters, work, traffic and memory, by module and by operator.

``experiments.theory.theory_of`` captures a module and returns the module's theory::

    theory = theory_of(torchvision.models.resnet50, (64, 3, 224, 224))
    theory.parameters, theory.multiply_adds, theory.peak.total

``Theory.unknown_operators`` lists operators of unknown work, with shapes.  If there are any, the
sums over all operators are unknown too.

The search for the largest batch that fits is a secant method, since live memory grows with the
batch.  If the workspace of an operator is unknown, predictions are lower bounds: a batch predicted
above the limit does not fit, and a batch predicted below the limit is undecided.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from itertools import chain
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

from report.core.errors import StudyError
from report.core.records.operations import Network, Operator
from report.theory.allocator import Sum
from report.theory.conditions import Conditions
from report.theory.networks import CAPTURED_BATCH, CapturedNetwork
from report.theory.operators import OperatorWork, operator_work
from report.theory.roofline import Roof
from report.theory.timeline import ONLY_ON_CPU, LiveBytes, cuda_memory, timeline

FitVerdict: TypeAlias = Literal["fits", "does not fit", "undecided"]

#: A size of memory, as number and unit prefix.
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B")
#: Unit prefix → factor.
_PREFIXES: Final = {
    None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
    "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip
#: Batch of the forward pass that tests whether a capture at ``CAPTURED_BATCH`` scales.
PROBE_BATCH: Final = 2
#: Largest batch of the search.
LARGEST_BATCH: Final = 2**20
#: Name of the row for operators that the network itself calls, not one of its modules.
_NETWORK_ROW: Final = "(the network itself)"


@dataclass(frozen=True)
class Row:
    """Work of a group of operators; a parameter counts in the first row that reads it.

    ``bytes``: compulsory traffic.  ``allocated``: bytes of new storages.  ``seconds``: sum of the
    operators' least times (``Roof.least_time``), None if the ceilings of the device are unknown.
    """

    name: str
    calls: int
    multiply_adds: int
    bytes: int
    parameters: int
    allocated: int
    seconds: float | None = None

    @property
    def rate(self) -> float | None:
        """Attainable FLOP/s, or None if the least time is unknown or 0."""
        return 2 * self.multiply_adds / self.seconds if self.seconds else None

    @property
    def intensity(self) -> float:
        """FLOP/B, or 0 if no bytes move."""
        return 2 * self.multiply_adds / self.bytes if self.bytes else 0.0

    @property
    def cells(self) -> dict[str, str]:
        """Heading of a table → number as text; times are included only if a roof is known."""
        cells = {
            "Calls": f"{self.calls:,}",
            "Multiply-adds": f"{self.multiply_adds:,}",
            "Traffic (B)": f"{self.bytes:,}",
            "Intensity (FLOP/B)": f"{self.intensity:.3g}",
            "Parameters": f"{self.parameters:,}",
            "Allocated (B)": f"{self.allocated:,}",
        }
        if self.seconds is None:
            return cells
        rate = "" if self.rate is None else f"{self.rate / 1e9:,.4g}"
        return cells | {
            "Least time (µs)": f"{1e6 * self.seconds:,.4g}", "Attainable (GFLOP/s)": rate,
        }  # fmt: skip


@dataclass(frozen=True)
class Theory:
    """Theory of one call of a network, or of one training step.

    - ``history``: operators of a previous call, which fill the cache of a GPU's allocator;
    - ``modules_replaced_on_gpu``: modules for which a GPU does not run the captured operators;
    - ``roof``: a device's peak rate and bandwidth, which determine the least time;
    - ``compiled``: compiled modules, which are predicted as if uncompiled;
    - ``captured(batch, probe)``: captures the network at another batch.  Unless ``probe`` is None,
      it also captures a forward pass at the batch ``probe``;
    - ``scales``: whether the capture, scaled to the batch ``probe``, has that pass's operators;
    - ``classes``: name of a module → class.
    """

    network: Network
    conditions: Conditions
    history: tuple[Operator, ...] = ()
    modules_replaced_on_gpu: tuple[str, ...] = ()
    roof: Roof | None = None
    compiled: tuple[str, ...] = ()
    captured: Callable[[int, int | None], "Theory"] | None = field(
        default=None, compare=False, repr=False
    )
    scales: bool = True
    classes: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> str:
        """Types and shapes of the inputs, as text."""
        inputs = ((t.dtype, "×".join(map(str, t.shape))) for t in self.network.inputs)
        return ", ".join(map(" ".join, inputs))

    def title(self, module: str) -> str:
        """Return a module's class and name."""
        return f"{self.classes.get(module, '')} {module or _NETWORK_ROW}".strip()

    @property
    def seconds(self) -> float | None:
        """Sum of the operators' least times (s), or None if the roof or an operator is unknown."""
        if self.roof is None or self.unknown_operators:
            return None
        return sum(row.seconds or 0.0 for row in self.by_kind)

    @cached_property
    def work(self) -> tuple[OperatorWork | None, ...]:
        """Work and traffic of every operator, with None for each unknown operator."""
        return tuple(map(operator_work, self.network.operators))

    @property
    def _known_work(self) -> list[tuple[Operator, OperatorWork]]:
        """All operators with known work, paired with the work."""
        pairs = zip(self.network.operators, self.work, strict=True)
        return [(operator, work) for operator, work in pairs if work is not None]

    @property
    def unknown_operators(self) -> tuple[str, ...]:
        """Operators of unknown work with the shapes of arguments, without repetitions."""
        unknown: list[str] = []
        for operator, work in zip(self.network.operators, self.work, strict=True):
            if work is None:
                shapes = ("×".join(map(str, tensor.shape)) for tensor in operator.read_tensors)
                unknown.append(f"{operator.name}({', '.join(shapes)})")
        return tuple(dict.fromkeys(unknown))

    @property
    def parameters(self) -> int:
        """Number of elements of all parameters; a shared parameter counts once."""
        return self.network.parameter_count

    @property
    def multiply_adds(self) -> int | None:
        """Multiply-adds of all operators (MAC), or None if an operator is unknown."""
        return None if self.unknown_operators else sum(row.multiply_adds for row in self.by_kind)

    @property
    def effective_multiply_adds(self) -> int | None:
        """Multiply-adds (MAC) without operations on padding and on causally masked scores."""
        return (
            None if self.unknown_operators else sum(work.effective for _, work in self._known_work)
        )

    @property
    def bytes(self) -> int | None:
        """Sum of the operators' compulsory traffic (B), or None if an operator is unknown."""
        return None if self.unknown_operators else sum(row.bytes for row in self.by_kind)

    @cached_property
    def moments(self) -> tuple[LiveBytes, ...]:
        """Live memory at every operator."""
        return tuple(timeline(self.network, self.conditions))

    @cached_property
    def peak(self) -> LiveBytes | None:
        """Live memory at the first operator with the most live bytes.

        None if the network has no operators, or if a GPU replaces operators
        (``names_replaced_on_gpu``).
        """
        if self.names_replaced_on_gpu:
            return None
        return max(self.moments, key=attrgetter("total"), default=None)

    @cached_property
    def cuda(self) -> dict[Sum, int] | None:
        """Maxima of the GPU allocator's sums (B); None on a CPU or if a GPU replaces operators."""
        options = self.conditions.allocator
        if options is None or self.names_replaced_on_gpu:
            return None
        return cuda_memory(self.network, self.history, options)

    @property
    def names_replaced_on_gpu(self) -> tuple[str, ...]:
        """Modules and operators for which a GPU runs other operators, or () on a CPU."""
        if self.conditions.allocator is None:
            return ()
        base_names = dict.fromkeys(operator.base_name for operator in self.network.operators)
        replaced_operators = (name for name in base_names if name in ONLY_ON_CPU)
        return (*self.modules_replaced_on_gpu, *replaced_operators)

    @property
    def may_take_more(self) -> tuple[str, ...]:
        """Names of operators whose workspace is unknown, or known only as a lower bound."""
        names = (moment.operator.name for moment in self.moments if not moment.workspace.complete)
        return tuple(dict.fromkeys(names))

    @property
    def complete(self) -> bool:
        """Whether the peak is exact: neither a lower bound nor predicted as if uncompiled."""
        return not (self.may_take_more or self.names_replaced_on_gpu or self.compiled)

    def fits(self, limit: str | int) -> "BatchSearch":
        """Search for the largest batch that fits into ``limit`` (bytes, or text such as ``16GB``).

        Raises ``StudyError`` if other batches cannot be captured, if no peak is known, or if the
        text is not a size.
        """
        if self.captured is None:
            raise StudyError("This theory has one batch only; use theory_of for other batches.")
        return search_batches(self.captured, limit if isinstance(limit, int) else bytes_of(limit))

    def at_batch(self, captured: CapturedNetwork, batch: int) -> "Theory":
        """Return the theory of the network ``captured`` scaled to another batch."""
        history = tuple(captured.scale_operator(operator, batch) for operator in self.history)
        return replace(self, network=captured.scale_network(batch), history=history)

    @cached_property
    def by_kind(self) -> tuple[Row, ...]:
        """Rows by kind of operator, sorted by multiply-adds and bytes, largest first."""
        rows = self._rows([work.kind for _, work in self._known_work])
        return tuple(sorted(rows, key=attrgetter("multiply_adds", "bytes"), reverse=True))

    @cached_property
    def by_module(self) -> tuple[Row, ...]:
        """Rows by calling module, in the order of first calls."""
        return self._rows([operator.module or _NETWORK_ROW for operator, _ in self._known_work])

    def _rows(self, names: Sequence[str]) -> tuple[Row, ...]:
        """Group the operators with known work into rows; ``names`` has the row of each operator."""
        groups: dict[str, list[tuple[Operator, OperatorWork]]] = {}
        readers: dict[int, str] = {}
        viewers: dict[int, str] = {}
        for name, (operator, work) in zip(names, self._known_work, strict=True):
            groups.setdefault(name, []).append((operator, work))
            for tensor in operator.read_tensors:
                (viewers if work.kind == "view" else readers).setdefault(tensor.storage, name)
        # A view counts as the reader of a parameter only if no other operator reads the parameter.
        readers = viewers | readers
        parameters = dict.fromkeys(groups, 0)
        sizes = {tensor.storage: tensor.elements for tensor in self.network.parameters.values()}
        for storage in sizes.keys() & readers.keys():
            parameters[readers[storage]] += sizes[storage]
        return tuple(self._row(name, group, parameters[name]) for name, group in groups.items())

    def _row(
        self, name: str, group: Sequence[tuple[Operator, OperatorWork]], parameters: int
    ) -> Row:
        """Sum the work of a group of operators."""
        roof, seconds = self.roof, None
        if roof is not None:
            seconds = sum(roof.least_time(work.flops, work.bytes) for _, work in group)
        storages = chain.from_iterable(operator.allocated for operator, _ in group)
        return Row(
            name=name,
            calls=len(group),
            multiply_adds=sum(work.multiply_adds for _, work in group),
            bytes=sum(work.bytes for _, work in group),
            parameters=parameters,
            allocated=sum(self.network.storages[storage] for storage in storages),
            seconds=seconds,
        )

    @property
    def sums(self) -> tuple[tuple[str, str], ...]:
        """The inputs, and the known sums over all rows, as (name, text)."""
        sums = [("Input", self.inputs), ("Parameters", f"{self.parameters:,}")]
        if unused := self.network.unused_parameters:
            sums.append(("Never read", ", ".join(unused)))
        if not self.unknown_operators:
            sums.append(("Multiply-adds", f"{self.multiply_adds:,}"))
            if (effective := self.effective_multiply_adds) != self.multiply_adds:
                sums.append(("Without padding and masked scores", f"{effective:,}"))
            sums.append(("Compulsory traffic", f"{self.bytes:,} B, operator by operator"))
        if self.seconds is not None:
            sums.append(("Least time on this roof", f"{1e3 * self.seconds:.4g} ms"))
        return (*sums, *self.memory_sums())

    def memory_sums(self) -> Iterable[tuple[str, str]]:
        """Yield facts about the peak as (name, text); yield nothing if no peak is known."""
        peak = self.peak
        if peak is None:
            return
        least = "" if self.complete else "at least "
        number = self.moments.index(peak) + 1
        operator = f"{peak.operator.name} of {self.title(peak.operator.module)}"
        place = f"{peak.operator.phase}, operator {number} of {len(self.moments)}"
        yield "Peak memory", f"{least}{peak.total:,} B, in {operator} ({place})"
        if self.compiled:
            yield "Compiled, counted as eager", ", ".join(self.compiled)
        if self.may_take_more:
            yield "May take more", ", ".join(self.may_take_more)
        for name, size in (self.cuda or {}).items():
            yield f"{name.capitalize()}, without workspaces", f"{size:,} B"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: a table with a row per kind of operator, and the sums."""
        from pandas import DataFrame

        rows = [{"Operators": row.name} | row.cells for row in self.by_kind]
        sums = "<br>".join(f"{escape(name)}: {escape(value)}" for name, value in self.sums)
        return f"{DataFrame(rows).to_html(index=False)}<p>{sums}</p>"


def bytes_of(text: str) -> int:
    """Parse a size such as ``16GB`` to bytes; raise ``StudyError`` if the text is not a size."""
    matched = _SIZE.fullmatch(text)
    if matched is None or (size := int(float(matched[1]) * _PREFIXES[matched[2]])) < 1:
        raise StudyError(f"{text!r} is not a size of memory; give one such as 16GB or 15.8GiB.")
    return size


@dataclass(frozen=True)
class BatchSearch:
    """Result of the search for the largest batch that fits into ``limit`` bytes.

    - ``predicted``: each batch that the search tried → its prediction;
    - ``largest``: largest batch that may fit (0 if none fits, ``LARGEST_BATCH`` if all tried fit);
    - ``certain``: largest batch that is known to fit.  Batches between both are undecided.
    """

    limit: int
    predicted: dict[int, Theory]
    largest: int
    certain: int = 0

    @property
    def bracket(self) -> dict[int, Theory]:
        """The computed predictions among the batches ``certain``, ``largest``, ``largest`` + 1."""
        batches = sorted({self.certain, self.largest, self.largest + 1})
        return {n: self.predicted[n] for n in batches if n in self.predicted}

    def verdict(self, batch: int) -> FitVerdict:
        """Tell whether a predicted batch fits; on a GPU the allocator's reserved bytes must fit."""
        prediction = self.predicted[batch]
        # A compiled network may need less memory than predicted, so it is never known not to fit.
        if least_bytes(prediction) > self.limit and not prediction.compiled:
            return "does not fit"
        most = prediction.cuda["reserved"] if prediction.cuda else least_bytes(prediction)
        return "fits" if prediction.complete and most <= self.limit else "undecided"


def least_bytes(prediction: Theory) -> int:
    """Return a lower bound of a call's memory (B); raise ``StudyError`` if no peak is known."""
    if prediction.peak is None:
        reason = ", ".join(prediction.names_replaced_on_gpu) or "it runs no operator"
        raise StudyError(f"The network has no known peak of memory, so no largest batch: {reason}.")
    return prediction.peak.total


class SearchResult(NamedTuple):
    """Largest batch that may fit, and the sizes (B) of all tried batches."""

    largest: int
    sizes: dict[int, int]


def search(size: Callable[[int], int], limit: int, guess: int | None = None) -> SearchResult:
    """Find the largest batch whose ``size`` (B) is at most ``limit``; try 1, then any ``guess``."""
    sizes: dict[int, int] = {}
    low, high, batch = 0, LARGEST_BATCH + 1, 1
    previous, previous_size = 0, 0
    while high - low > 1:
        sizes[batch] = size(batch)
        low, high = (low, batch) if sizes[batch] > limit else (batch, high)
        slope = (sizes[batch] - previous_size) / (batch - previous)
        previous, previous_size = batch, sizes[batch]
        if guess is None:
            batch += int((limit - previous_size) // slope) if slope > 0 else LARGEST_BATCH
        else:
            batch, guess = guess, None
        batch = min(max(batch, low + 1), high - 1)
    return SearchResult(low, sizes)


def largest_batch_by_tensors(captured: CapturedNetwork, limit: int) -> int:
    """Return the largest batch whose tensors fit into ``limit`` bytes, without workspaces."""
    guess = LARGEST_BATCH
    for fixed, per_image in captured.live_bytes:
        if per_image:
            guess = min(guess, (limit - fixed) // per_image)
    return guess


def _largest_certain(result: BatchSearch, theory_at: Callable[[int], Theory]) -> int:
    """Return the largest batch that is known to fit, or 0 if no batch is known to fit."""

    def is_uncertain(batch: int) -> bool:
        if batch not in result.predicted:
            result.predicted[batch] = theory_at(batch)
        return result.verdict(batch) != "fits"

    if result.largest and not is_uncertain(result.largest):
        return result.largest
    if not result.largest or is_uncertain(1):
        return 0
    # The number of batches before the first uncertain batch is the largest certain batch.
    return bisect_left(range(1, result.largest), True, key=is_uncertain)


def search_batches(captured: Callable[[int, int | None], Theory], limit: int) -> BatchSearch:
    """Search for the largest batch whose peak is at most ``limit`` bytes.

    ``captured(batch, probe)`` captures the network (see ``Theory``).  It is captured once and
    scaled to other batches.  If the forward pass at the batch ``PROBE_BATCH`` differs from the
    scaled capture, the network is captured at every batch of the search.  Raises ``StudyError`` if
    no peak is known.
    """
    reference = captured(CAPTURED_BATCH, PROBE_BATCH)
    scaled = CapturedNetwork(reference.network) if reference.scales else None
    guess = largest_batch_by_tensors(scaled, limit) if scaled else None
    predicted: dict[int, Theory] = {}

    def theory_at(batch: int) -> Theory:
        return reference.at_batch(scaled, batch) if scaled else captured(batch, None)

    def size(batch: int) -> int:
        predicted[batch] = theory_at(batch)
        return least_bytes(predicted[batch])

    result = BatchSearch(limit, predicted, search(size, limit, guess).largest)
    return replace(result, certain=_largest_certain(result, theory_at))
