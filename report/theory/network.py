"""A network's theory in one value: parameters, work, traffic and memory, by module and by operator.

From a capture (``experiments.theory.theory_of`` makes one of a module)::

    found = theory_of(torchvision.models.resnet50, (64, 3, 224, 224))
    found.parameters, found.multiply_adds, found.peak.total

An operator that stands in no table is refused by name with its shapes: its work is unknown, and so
are the sums that it would belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Final

from report.core.errors import StudyError
from report.core.records.operations import Network, Operator
from report.theory.allocator import Sum
from report.theory.conditions import Conditions
from report.theory.fits import Fits, bytes_of, fits
from report.theory.operators import Load, load
from report.theory.roofline import Roof
from report.theory.timeline import ONLY_ON_CPU, Moment, cuda_memory, timeline

#: The row of what no module within the network calls.
_ITSELF: Final = "(the network itself)"


@dataclass(frozen=True)
class Row:
    """Work of some operators together; a parameter counts in the row that reads it first.

    ``made`` are the bytes of storages that they allocate; ``seconds`` is the least time under a
    roof, each operator at its nearer ceiling, and None without one.
    """

    name: str
    calls: int
    multiply_adds: int
    bytes: int
    parameters: int
    made: int
    seconds: float | None = None

    @property
    def rate(self) -> float | None:
        """Attainable FLOP/s; None without a roof, and where no time passes."""
        return 2 * self.multiply_adds / self.seconds if self.seconds else None

    @property
    def intensity(self) -> float:
        """FLOP/B; 0 where nothing moves."""
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
            "Allocated (B)": f"{self.made:,}",
        }
        if self.seconds is None:
            return known
        rate = "" if self.rate is None else f"{self.rate / 1e9:,.4g}"
        return known | {
            "Least time (µs)": f"{1e6 * self.seconds:,.4g}", "Attainable (GFLOP/s)": rate,
        }  # fmt: skip


@dataclass(frozen=True)
class Theory:
    """What theory says of one call of a network, or of one training step.

    With a ``roof`` its rows tell the least time on a device.  On a GPU ``history`` is the call
    before, which fills the allocator's cache, and ``other_on_gpu`` are modules that run there as
    other operators than those captured.  ``compiled`` modules are predicted as if they were not.
    ``captured`` makes the theory of the same network at another batch, and tries it at a second
    one if that is given; ``scales`` is whether that batch has the same operators.  ``classes`` are
    those of modules, by their names.
    """

    network: Network
    conditions: Conditions
    history: tuple[Operator, ...] = ()
    other_on_gpu: tuple[str, ...] = ()
    roof: Roof | None = None
    compiled: tuple[str, ...] = ()
    captured: Callable[[int, int | None], Theory] | None = field(
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
        """A module by its class and name."""
        return f"{self.classes.get(module, '')} {module or _ITSELF}".strip()

    @property
    def seconds(self) -> float | None:
        """The least time of all operators, one by one (s); None without a roof."""
        if self.roof is None or self.refused:
            return None
        return sum(row.seconds or 0.0 for row in self.by_kind)

    @cached_property
    def loads(self) -> tuple[Load | None, ...]:
        """Work and traffic of each operator; None of those that are not known."""
        return tuple(map(load, self.network.operators))

    @property
    def _loads(self) -> Iterable[tuple[Operator, Load | None]]:
        return zip(self.network.operators, self.loads, strict=True)

    @property
    def refused(self) -> tuple[str, ...]:
        """The operators that are not known, each once, with the shapes that they read."""
        return tuple(dict.fromkeys(_described(o) for o, found in self._loads if found is None))

    @property
    def parameters(self) -> int:
        """Elements of all parameters, shared ones once."""
        return self.network.parameter_count

    @property
    def multiply_adds(self) -> int | None:
        """Of all operators (MAC); None where one of them is not known."""
        return None if self.refused else sum(row.multiply_adds for row in self.by_kind)

    @property
    def effective(self) -> int | None:
        """Those that meet data: no padding, no score that causality masks (MAC)."""
        return None if self.refused else sum(each.effective for each in self.loads if each)

    @property
    def bytes(self) -> int | None:
        """The compulsory traffic of all operators, one by one (B); None where one is not known."""
        return None if self.refused else sum(row.bytes for row in self.by_kind)

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """What is alive while each operator runs."""
        return tuple(timeline(self.network, self.conditions))

    @cached_property
    def peak(self) -> Moment | None:
        """The first operator at which most is alive.

        None of a network that runs nothing, and on a GPU of one that runs ``unlike_gpu``.
        """
        if self.unlike_gpu:
            return None
        return max(self.moments, key=lambda moment: moment.total, default=None)

    @cached_property
    def cuda(self) -> dict[Sum, int] | None:
        """The most of each sum of the allocator (B); None on a processor, and where ``peak`` is."""
        options = self.conditions.allocator
        if options is None or self.unlike_gpu:
            return None
        return cuda_memory(self.network, self.history, options)

    @property
    def unlike_gpu(self) -> tuple[str, ...]:
        """What makes other tensors on a GPU than were captured; nothing on a processor."""
        if self.conditions.allocator is None:
            return ()
        operators = dict.fromkeys(o.base for o in self.network.operators if o.base in ONLY_ON_CPU)
        return (*self.other_on_gpu, *operators)

    @property
    def may_take_more(self) -> tuple[str, ...]:
        """The operators that may take memory of their own, of which no rule tells how much."""
        names = (moment.operator.name for moment in self.moments if not moment.workspace.complete)
        return tuple(dict.fromkeys(names))

    @property
    def complete(self) -> bool:
        """Whether the peak is all that a call takes; else it takes at least that."""
        return not (self.may_take_more or self.unlike_gpu or self.compiled)

    def fits(self, limit: str | int) -> Fits:
        """The largest batch whose memory fits into ``limit``: bytes, or a size such as ``16GB``.

        Raises ``StudyError`` where no peak is known, and for what is no size.
        """
        if self.captured is None:
            raise StudyError("This theory holds one batch; make it by theory_of to ask for others.")
        return fits(self.captured, limit if isinstance(limit, int) else bytes_of(limit))

    @cached_property
    def by_kind(self) -> tuple[Row, ...]:
        """The known operators by kind, most multiply-adds first, then most bytes."""
        rows = self._rows(lambda operator, found: found.kind)
        return tuple(sorted(rows, key=lambda row: (-row.multiply_adds, -row.bytes)))

    @cached_property
    def by_module(self) -> tuple[Row, ...]:
        """The same by the module that called them, in the order of their first call."""
        return self._rows(lambda operator, found: operator.module or _ITSELF)

    def _rows(self, name: Callable[[Operator, Load], str]) -> tuple[Row, ...]:
        known = [(operator, found) for operator, found in self._loads if found is not None]
        groups: dict[str, list[tuple[Operator, Load]]] = {}
        for operator, found in known:
            groups.setdefault(name(operator, found), []).append((operator, found))
        readers: dict[int, str] = {}
        # Whoever takes a view of a parameter reads it only if nobody else does.
        for operator, found in sorted(known, key=lambda each: each[1].kind == "view"):
            for tensor in operator.read:
                readers.setdefault(tensor.storage, name(operator, found))
        parameters = dict.fromkeys(groups, 0)
        sizes = {tensor.storage: tensor.elements for tensor in self.network.parameters.values()}
        for storage in sizes.keys() & readers.keys():
            parameters[readers[storage]] += sizes[storage]
        return tuple(self._row(name, group, parameters[name]) for name, group in groups.items())

    def _row(self, name: str, group: Sequence[tuple[Operator, Load]], parameters: int) -> Row:
        """The row of a group."""
        roof = self.roof
        return Row(
            name=name,
            calls=len(group),
            multiply_adds=sum(found.multiply_adds for _, found in group),
            bytes=sum(found.bytes for _, found in group),
            parameters=parameters,
            made=sum(self.network.storages[s] for o, _ in group for s in o.made),
            seconds=sum(roof.least(load.flops, load.bytes) for _, load in group) if roof else None,
        )

    @property
    def sums(self) -> tuple[tuple[str, str], ...]:
        """What stands under the rows: names and values as text, those that are known."""
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
        """What is known of the peak, as text."""
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
