"""One record of inference_memory: peaks beside theory, limits, requests to a GPU's allocator."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.evidence import runs as any_study
from report.evidence.cached import cached
from report.quantity.expression import Quantity, absent, exact
from report.studies.inference_memory import theory
from report.studies.inference_memory.subject import (
    NETWORKS,
    OTHERS,
    SHOWN,
    Call,
    InferencePrecision,
    Limit,
    call_of,
    limit_of,
)
from report.theory import peaks
from report.theory.conditions import conditions_of
from report.theory.network import Fits
from report.theory.networks import CapturedNetwork
from report.theory.reconciliation import Reconciliation, Term

#: A number of a call (of a run).
Of: TypeAlias = Callable[["Run", Call], Quantity]

#: A workspace of copies differs from their sizes by less than this share.
_SAME: Final = 1e-3
#: The axes of maps and of a convolution's weights.
_MAP_AXES: Final = 4
NO_BYTES = absent("bytes", "B", "no such call was measured")
NO_RATIO = absent("ratio", "1", "no such call was measured")


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call with any outcome, by network, then by batch."""
        calls, order = filter(None, map(call_of, self.stored.record.cases)), (*NETWORKS, *OTHERS)
        return tuple(sorted(calls, key=lambda call: (order.index(call.network), call.batch)))

    @cached
    def chosen(self, /, **where: object) -> tuple[Call, ...]:
        """Select the calls with these attributes."""
        return tuple(call for call in self.calls if where.items() <= vars(call).items())

    def time(self, call: Call) -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", call.factors)

    def peak(self, call: Call) -> Quantity:
        """Most bytes of live blocks in a call, with parameters and input; of a GPU as requested.

        Its allocator gives up to 1 MiB more to a block than was asked for.
        """
        return self.repeated(f"{'requested' if self.on_gpu else 'allocated'}_peak", call.factors)

    # ------------------------------------------------------------------- peaks beside theory

    @cached_property
    def _ran(self) -> dict[Call, tuple[Layer, ...]]:
        cases = ((call_of(case), case.layers) for case in self.stored.record.cases)
        return {call: layers for call, layers in cases if call is not None}

    @cached
    def network(self, call: Call) -> CapturedNetwork | Missing:
        """The operators of an eager call; missing where other layers ran than were captured."""
        return theory.operators(call, self._ran.get(call, ()))

    @cached
    def predicted(self, call: Call) -> peaks.Peak | Missing:
        """Predict the live bytes at the peak of a call."""
        if self.on_gpu or call.tile is not None:
            return Missing("workspaces are known for calls of whole maps on a CPU only")
        network = self.network(call)
        if isinstance(network, Missing):
            return network
        return peaks.peak(network, call.batch, conditions_of(self.stored.record.environment))

    def predicted_peak(self, call: Call) -> Quantity:
        """Predict the peak of a call (B)."""
        peak = self.predicted(call)
        if isinstance(peak, Missing):
            return absent("predicted peak", "B", peak.reason)
        return exact("predicted peak", "B", peak.total, self.file)

    @cached
    def reconciled(self, *precisions: InferencePrecision) -> dict[Call, Reconciliation]:
        """Lead theory to the peak of every call that is predicted and measured, term by term."""
        rows = {}
        for call in (call for call in self.calls if call.precision in precisions):
            size, predicted = self.fixed("allocated_peak", call.factors), self.predicted(call)
            if isinstance(size, Missing) or isinstance(predicted, Missing):
                continue
            start, *terms = predicted.terms
            words = f"{call.image}-{call.batch}-{call.layout}-{call.precision}"
            rows[call] = Reconciliation(
                f"peak-{self.key}-{call.network}-{words}",
                f"Peak memory of {call.network} on {call.batch:,} images, {call.layout}, "
                f"{call.precision}, {self.label}",
                "B",
                start,
                tuple(terms),
                Term("Measured", size, "most bytes in live blocks", "the allocator's events"),
            )
        return rows

    @property
    def peaks(self) -> dict[Call, Reconciliation]:
        """The float32 peaks of a CPU that are both predicted and measured."""
        return self.reconciled("float32")

    def is_bound(self, call: Call) -> bool:
        """Tell if a prediction is a lower bound, since some operator has no rule."""
        return not getattr(self.predicted(call), "complete", True)

    def rests(self, *, bounded: bool) -> list[Quantity]:
        """Subtract predictions from peaks, either of lower bounds or of all others."""
        rests: list[Quantity] = []
        for call, row in self.peaks.items():
            if not isinstance(row.residual, Missing) and self.is_bound(call) == bounded:
                rests.append(exact("residual", "B", row.residual, self.file))
        return rests or [NO_BYTES]

    # --------------------------------------------------------------------------------- limits

    @cached_property
    def _limits(self) -> tuple[Limit, ...]:
        return tuple(filter(None, map(limit_of, self.stored.record.cases)))

    def has_limits(self, changed: bool = False) -> bool:
        """Tell if networks ran under limits, as written or with one allocation changed."""
        return any(bool(limit.change) == changed for limit in self._limits)

    @cached
    def limits(self, *, changed: bool = False) -> list[tuple[Limit, Fits]]:
        """Return the outcomes under limits with the predictions of ``--fits``, sorted.

        ``changed`` selects the networks with one allocation changed instead of the others.
        """
        conditions, rows = conditions_of(self.stored.record.environment), []
        for limit in self._limits:
            fits = theory.fits(limit, conditions)
            if not isinstance(fits, Missing) and bool(limit.change) == changed:
                rows.append((limit, fits))
        order = NETWORKS.index
        return sorted(rows, key=lambda row: (order(row[0].network), *row[0].setting[1:]))

    def frontier_ratios(self, change: str) -> dict[Limit, Quantity]:
        """Divide the largest batch that ran with a change by that without, under each limit."""
        ran = {limit: exact("largest batch", "1", limit.ran, self.file) for limit in self._limits}
        plain = {limit.setting: batch for limit, batch in ran.items() if not limit.change}
        ratios = {}
        for limit, batch in ran.items():
            if limit.change == change and limit.ran and limit.setting in plain:
                ratios[limit] = batch / plain[limit.setting]
        return ratios

    # --------------------------------------------------------------------- requests on a GPU

    @cached
    def copies(self, call: Call) -> tuple[int, int] | Missing:
        """Count the workspaces of a call's convolutions, and those of the size of copies.

        Requests that are the tensors of theory, in its order, are tensors; others are workspaces.
        Copies have the size of input, output and weights together.
        """
        network, events = self.network(call), self.samples("memory_events", call.factors)
        if isinstance(network, Missing) or isinstance(events, Missing):
            return network if isinstance(network, Missing) else events  # type: ignore[return-value]
        sizes = network.sizes(call.batch)
        tensors: list[tuple[int, int]] = []
        for number, operator in enumerate(network.network.operators):
            tensors += [(sizes[s], number) for s in operator.allocated if sizes[s]]
        workspaces, copies, matched, running = 0, 0, 0, 0
        for size in (int(change) for change in events if change > 0):
            if matched < len(tensors) and size == tensors[matched][0]:
                running, matched = tensors[matched][1], matched + 1
            elif network.network.operators[running].base == "convolution":
                operator = network.operator(running, call.batch)
                maps = [t for t in (*operator.read, *operator.writes) if len(t.shape) == _MAP_AXES]
                needed = sum(tensor.bytes for tensor in maps)
                workspaces += size > _SAME * needed
                copies += abs(size - needed) < _SAME * needed
        if matched < len(tensors):
            return Missing("the allocator's history lacks tensors of theory")
        return workspaces, copies

    # ---------------------------------------------------------------------------------- tiles

    def over_whole(
        self, of: Of, form: str | None = None, tile: int | None = None
    ) -> list[Quantity]:
        """Divide a quantity of tiled calls, of one form or size, by that of whole maps."""
        ratios = []
        for call in self.chosen(network=SHOWN):
            if call.tile and form in (None, call.execution) and tile in (None, call.tile):
                ratios.append(
                    of(self, call) / of(self, replace(call, execution="eager", tile=None))
                )
        return ratios or [NO_RATIO]
