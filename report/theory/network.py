"""Theory of a network: parameters, work, traffic and memory, by module and by operator.

``experiments.theory.theory_of`` captures a module and returns its theory::

    theory = theory_of(torchvision.models.resnet50, (64, 3, 224, 224))
    theory.parameters, theory.multiply_adds, theory.peak.total

``Theory.refused`` lists operators without a rule, with their shapes; their work is unknown, and so
are the sums over all operators.

Live memory grows with the batch, so that a secant needs few predictions to find the largest batch
that fits.  Where no rule gives the memory of an operator, a prediction is a lower bound: a batch
below the limit is then undecided, and a batch above the limit still does not fit.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeAlias

from report.core.errors import StudyError
from report.core.records.operations import Network, Operator
from report.theory.allocator import Sum
from report.theory.conditions import Conditions
from report.theory.networks import BATCH, CapturedNetwork
from report.theory.operators import OperatorWork, operator_work
from report.theory.roofline import Roof
from report.theory.timeline import ONLY_ON_CPU, LiveBytes, cuda_memory, timeline

FitVerdict: TypeAlias = Literal["fits", "does not fit", "undecided"]

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B")
_UNITS: Final = {None: 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** power
    for power, letter in enumerate("kMGT", start=1)
    for i in ("", "i")
}
#: Batch of the trial that shows whether a capture at ``BATCH`` can be scaled.
PROBE: Final = 2
#: The search ends at this batch.
MOST: Final = 2**20
#: Name of the row for operators that no module within the network calls.
_ITSELF: Final = "(the network itself)"


@dataclass(frozen=True)
class Row:
    """Work of a group of operators; a parameter counts in the row that reads it first.

    ``allocated`` are the bytes of new storages; ``seconds`` is the least time under a roof, each
    operator at its nearer ceiling, and None without a roof.
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
        """Attainable FLOP/s; None without a roof, or in a time of 0."""
        return 2 * self.multiply_adds / self.seconds if self.seconds else None

    @property
    def intensity(self) -> float:
        """FLOP/B; 0 without traffic."""
        return 2 * self.multiply_adds / self.bytes if self.bytes else 0.0

    @property
    def cells(self) -> dict[str, str]:
        """The numbers as text, under their headings."""
        known = {
            "Calls": f"{self.calls:,}",
            "Multiply-adds": f"{self.multiply_adds:,}",
            "Traffic (B)": f"{self.bytes:,}",
            "Intensity (FLOP/B)": f"{self.intensity:.3g}",
            "Parameters": f"{self.parameters:,}",
            "Allocated (B)": f"{self.allocated:,}",
        }
        if self.seconds is None:
            return known
        rate = "" if self.rate is None else f"{self.rate / 1e9:,.4g}"
        return known | {
            "Least time (µs)": f"{1e6 * self.seconds:,.4g}", "Attainable (GFLOP/s)": rate,
        }  # fmt: skip


@dataclass(frozen=True)
class Theory:
    """Theory of one call of a network, or of one training step.

    With a ``roof`` the rows have the least time on a device.  On a GPU ``history`` is the previous
    call, which fills the allocator's cache, and ``other_on_gpu`` are modules that run as operators
    other than the captured ones.  ``compiled`` modules are predicted as uncompiled.
    ``captured(batch, probe)`` captures the network at another batch and tries it at the batch
    ``probe``, unless that is None; ``scales`` tells whether the trial has the same operators.
    ``classes`` are the modules' classes by the modules' names.
    """

    network: Network
    conditions: Conditions
    history: tuple[Operator, ...] = ()
    other_on_gpu: tuple[str, ...] = ()
    roof: Roof | None = None
    compiled: tuple[str, ...] = ()
    captured: Callable[[int, int | None], "Theory"] | None = field(
        default=None, compare=False, repr=False
    )
    scales: bool = True
    classes: Mapping[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> str:
        """Type and shape of each input, as text."""
        inputs = ((t.dtype, "×".join(map(str, t.shape))) for t in self.network.inputs)
        return ", ".join(map(" ".join, inputs))

    def title(self, module: str) -> str:
        """Return a module's class and name."""
        return f"{self.classes.get(module, '')} {module or _ITSELF}".strip()

    @property
    def seconds(self) -> float | None:
        """The least time of all operators, one by one (s); None without a roof."""
        if self.roof is None or self.refused:
            return None
        return sum(row.seconds or 0.0 for row in self.by_kind)

    @cached_property
    def work(self) -> tuple[OperatorWork | None, ...]:
        """Work and traffic of each operator; None for an unknown operator."""
        return tuple(map(operator_work, self.network.operators))

    @property
    def _known(self) -> list[tuple[Operator, OperatorWork]]:
        """The known operators with their work."""
        pairs = zip(self.network.operators, self.work, strict=True)
        return [(operator, work) for operator, work in pairs if work is not None]

    @property
    def refused(self) -> tuple[str, ...]:
        """The unknown operators with the shapes that they read, without repetitions."""
        pairs = zip(self.network.operators, self.work, strict=True)
        unknown = (_described(operator) for operator, work in pairs if work is None)
        return tuple(dict.fromkeys(unknown))

    @property
    def parameters(self) -> int:
        """Elements of all parameters, shared ones once."""
        return self.network.parameter_count

    @property
    def multiply_adds(self) -> int | None:
        """Multiply-adds of all operators (MAC); None if an operator is unknown."""
        return None if self.refused else sum(row.multiply_adds for row in self.by_kind)

    @property
    def effective(self) -> int | None:
        """Multiply-adds without padding and without scores that causality masks (MAC)."""
        return None if self.refused else sum(work.effective for _, work in self._known)

    @property
    def bytes(self) -> int | None:
        """Sum of the operators' compulsory traffic (B); None if an operator is unknown."""
        return None if self.refused else sum(row.bytes for row in self.by_kind)

    @cached_property
    def moments(self) -> tuple[LiveBytes, ...]:
        """Live memory while each operator runs."""
        return tuple(timeline(self.network, self.conditions))

    @cached_property
    def peak(self) -> LiveBytes | None:
        """The first moment at which most bytes are alive.

        None for a network without operators, and on a GPU for one with ``unlike_gpu``.
        """
        if self.unlike_gpu:
            return None
        return max(self.moments, key=attrgetter("total"), default=None)

    @cached_property
    def cuda(self) -> dict[Sum, int] | None:
        """Largest value of each sum of the allocator (B); None on a processor or without a peak."""
        options = self.conditions.allocator
        if options is None or self.unlike_gpu:
            return None
        return cuda_memory(self.network, self.history, options)

    @property
    def unlike_gpu(self) -> tuple[str, ...]:
        """Modules and operators that a GPU replaces by others; empty on a processor."""
        if self.conditions.allocator is None:
            return ()
        operators = dict.fromkeys(o.base for o in self.network.operators if o.base in ONLY_ON_CPU)
        return (*self.other_on_gpu, *operators)

    @property
    def may_take_more(self) -> tuple[str, ...]:
        """The operators that may allocate a workspace for which there is no rule."""
        names = (moment.operator.name for moment in self.moments if not moment.workspace.complete)
        return tuple(dict.fromkeys(names))

    @property
    def complete(self) -> bool:
        """True if the peak includes all memory; otherwise the peak is a lower bound."""
        return not (self.may_take_more or self.unlike_gpu or self.compiled)

    def fits(self, limit: str | int) -> "Fits":
        """Search for the largest batch that fits into ``limit``, in bytes or such as ``16GB``.

        Raises ``StudyError`` without a peak, and for a text that is no size.
        """
        if self.captured is None:
            raise StudyError("This theory has one batch only; use theory_of for other batches.")
        return fits(self.captured, limit if isinstance(limit, int) else bytes_of(limit))

    def at_batch(self, captured: CapturedNetwork, batch: int) -> "Theory":
        """Return the theory at another batch of the network ``captured`` at ``BATCH``."""
        history = tuple(captured.scaled(operator, batch) for operator in self.history)
        return replace(self, network=captured.at(batch), history=history)

    @cached_property
    def by_kind(self) -> tuple[Row, ...]:
        """The known operators by kind, most multiply-adds first, then most bytes."""
        rows = self._rows([work.kind for _, work in self._known])
        return tuple(sorted(rows, key=attrgetter("multiply_adds", "bytes"), reverse=True))

    @cached_property
    def by_module(self) -> tuple[Row, ...]:
        """The known operators by calling module, in the order of the modules' first calls."""
        return self._rows([operator.module or _ITSELF for operator, _ in self._known])

    def _rows(self, names: Sequence[str]) -> tuple[Row, ...]:
        """Group the known operators by their ``names``, one per operator."""
        groups: dict[str, list[tuple[Operator, OperatorWork]]] = {}
        readers: dict[int, str] = {}
        viewers: dict[int, str] = {}
        for name, (operator, work) in zip(names, self._known, strict=True):
            groups.setdefault(name, []).append((operator, work))
            for tensor in operator.read:
                (viewers if work.kind == "view" else readers).setdefault(tensor.storage, name)
        # An operator that only views a parameter reads it if no other operator does.
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
        roof = self.roof
        return Row(
            name=name,
            calls=len(group),
            multiply_adds=sum(work.multiply_adds for _, work in group),
            bytes=sum(work.bytes for _, work in group),
            parameters=parameters,
            allocated=sum(self.network.storages[s] for o, _ in group for s in o.allocated),
            seconds=sum(roof.least(work.flops, work.bytes) for _, work in group) if roof else None,
        )

    @property
    def sums(self) -> tuple[tuple[str, str], ...]:
        """The known sums below the rows, as names and texts."""
        sums = [("Input", self.inputs), ("Parameters", f"{self.parameters:,}")]
        if unused := self.network.unused:
            sums.append(("Never read", ", ".join(unused)))
        if not self.refused:
            sums.append(("Multiply-adds", f"{self.multiply_adds:,}"))
            if self.effective != self.multiply_adds:
                sums.append(("Without padding and masked scores", f"{self.effective:,}"))
            sums.append(("Compulsory traffic", f"{self.bytes:,} B, operator by operator"))
        if self.seconds is not None:
            sums.append(("Least time on this roof", f"{1e3 * self.seconds:.4g} ms"))
        return (*sums, *self.memory_sums())

    def memory_sums(self) -> Iterable[tuple[str, str]]:
        """Yield the known facts of the peak, as names and texts."""
        peak = self.peak
        if peak is None:
            return
        least = "" if self.complete else "at least "
        number = self.moments.index(peak) + 1
        where = f"{peak.operator.name} of {self.title(peak.operator.module)}"
        place = f"{peak.operator.phase}, operator {number} of {len(self.moments)}"
        yield "Peak memory", f"{least}{peak.total:,} B, in {where} ({place})"
        if self.compiled:
            yield "Compiled, counted as eager", ", ".join(self.compiled)
        if self.may_take_more:
            yield "May take more", ", ".join(self.may_take_more)
        for name, size in (self.cuda or {}).items():
            yield f"{name.capitalize()}, without that", f"{size:,} B"

    def _repr_html_(self) -> str:
        """A notebook shows the kinds of operators as a table, and the sums below."""
        from pandas import DataFrame

        rows = [{"Operators": row.name} | row.cells for row in self.by_kind]
        sums = "<br>".join(f"{escape(name)}: {escape(value)}" for name, value in self.sums)
        return f"{DataFrame(rows).to_html(index=False)}<p>{sums}</p>"


def _described(operator: Operator) -> str:
    shapes = ("×".join(map(str, tensor.shape)) for tensor in operator.read)
    return f"{operator.name}({', '.join(shapes)})"


# ---------------------------------------------------------------------------- the largest batch


def bytes_of(text: str) -> int:
    """Return the bytes of a size such as ``16GB`` or ``15.8 GiB``; raises ``StudyError``."""
    matched = _SIZE.fullmatch(text)
    if matched is None or (size := int(float(matched[1]) * _UNITS[matched[2]])) < 1:
        raise StudyError(f"{text!r} is no size of memory; give one such as 16GB or 15.8GiB.")
    return size


@dataclass(frozen=True)
class Fits:
    """Predictions by batch for a ``limit`` in bytes, and the batches at its border.

    ``largest`` is the largest batch that may fit: 0 if none may, ``MOST`` if no smaller batch
    exceeds the limit.  ``certain`` is the largest batch that is known to fit; batches between the
    two are undecided.
    """

    limit: int
    predicted: dict[int, Theory]
    largest: int
    certain: int = 0

    @property
    def bracket(self) -> dict[int, Theory]:
        """The batches ``certain``, ``largest`` and the next one, as far as predicted."""
        batches = sorted({self.certain, self.largest, self.largest + 1})
        return {n: self.predicted[n] for n in batches if n in self.predicted}

    def verdict(self, batch: int) -> FitVerdict:
        """Judge a predicted batch; on a GPU it fits if the allocator's segments fit."""
        prediction = self.predicted[batch]
        if least(prediction) > self.limit and not prediction.compiled:
            return "does not fit"
        most = prediction.cuda["reserved"] if prediction.cuda else least(prediction)
        return "fits" if prediction.complete and most <= self.limit else "undecided"


def least(prediction: Theory) -> int:
    """Return the lower bound of a call's memory (B); raises ``StudyError`` without a peak."""
    if prediction.peak is None:
        reason = ", ".join(prediction.unlike_gpu) or "it runs no operator"
        raise StudyError(f"The network has no known peak of memory, so no largest batch: {reason}.")
    return prediction.peak.total


class Border(NamedTuple):
    """The largest batch that may fit, and the sizes (B) of all batches that were tried."""

    largest: int
    sizes: dict[int, int]


def search(size: Callable[[int], int], limit: int, near: int | None = None) -> Border:
    """Search for the largest batch of at most ``limit`` bytes, starting ``near`` one if given."""
    sizes: dict[int, int] = {}
    low, high, batch = 0, MOST + 1, 1
    last, last_size = 0, 0
    while high - low > 1:
        sizes[batch] = size(batch)
        low, high = (low, batch) if sizes[batch] > limit else (batch, high)
        slope = (sizes[batch] - last_size) / (batch - last)
        last, last_size = batch, sizes[batch]
        if near is None:
            batch += int((limit - last_size) // slope) if slope > 0 else MOST
        else:
            batch, near = near, None
        batch = min(max(batch, low + 1), high - 1)
    return Border(low, sizes)


def first_guess(captured: CapturedNetwork, limit: int) -> int:
    """Return the largest batch whose tensors fit, without the workspaces of operators."""
    near = MOST
    for fixed, per_image in captured.live_bytes:
        if per_image:
            near = min(near, (limit - fixed) // per_image)
    return near


def _certain(frontier: Fits, at: Callable[[int], Theory]) -> int:
    """Return the largest batch that is known to fit; 0 if a batch of 1 is not known to."""

    def is_unknown(batch: int) -> bool:
        if batch not in frontier.predicted:
            frontier.predicted[batch] = at(batch)
        return frontier.verdict(batch) != "fits"

    if frontier.largest and not is_unknown(frontier.largest):
        return frontier.largest
    if not frontier.largest or is_unknown(1):
        return 0
    return bisect_left(range(1, frontier.largest), True, key=is_unknown)


def fits(captured: Callable[[int, int | None], Theory], limit: int) -> Fits:
    """Search for the largest batch whose peak is at most ``limit`` bytes.

    ``captured(batch, probe)`` returns a theory.  A network is captured once and scaled; if its
    forward pass at the batch ``PROBE`` differs, it is captured at every batch that the search
    needs.  Raises ``StudyError`` without a peak.
    """
    whole = captured(BATCH, PROBE)
    scaled = CapturedNetwork(whole.network) if whole.scales else None
    near = first_guess(scaled, limit) if scaled else None
    predicted: dict[int, Theory] = {}

    def at(batch: int) -> Theory:
        return whole.at_batch(scaled, batch) if scaled else captured(batch, None)

    def size(batch: int) -> int:
        predicted[batch] = at(batch)
        return least(predicted[batch])

    frontier = Fits(limit, predicted, search(size, limit, near).largest)
    return replace(frontier, certain=_certain(frontier, at))
