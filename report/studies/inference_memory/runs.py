"""One run of inference_memory: peaks and times of calls, and requests to a GPU's allocator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.core.records.operations import Operator
from report.core.records.record import Level
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
from report.theory.networks import CapturedNetwork

#: A workspace of copies differs from their sizes by less than this share.
SMALL: Final = 1e-3
#: The axes of maps and of a convolution's weights.
_MAP_AXES: Final = 4


class History(NamedTuple):
    """Requests to a GPU's allocator in a call.

    ``tensors`` and ``workspace`` are the bytes of the call that are alive at its peak;
    ``workspaces`` are all workspaces: the number of the operator, and the bytes.
    """

    tensors: int
    workspace: int
    workspaces: tuple[tuple[int, int], ...]


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

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """Outcomes under limits of memory."""
        return tuple(filter(None, map(limit_of, self.stored.record.cases)))

    def has_changes(self) -> bool:
        """Tell whether networks with one allocation changed ran under limits."""
        return any(limit.change for limit in self.limits)

    def time(self, call: Call) -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", call.factors)

    # --------------------------------------------------------------------------------- memory

    def held(self, call: Call, when: str) -> Quantity:
        """The bytes of live blocks before a call or at its peak; of a GPU as they were asked for.

        Its allocator gives up to 1 MiB more to a block than was asked for.
        """
        size = "requested" if self.on_gpu else "allocated"
        return self.repeated(f"{size}_{when}", call.factors)

    def peak(self, call: Call) -> Quantity:
        """Most bytes allocated during a call, with parameters and input."""
        return self.held(call, "peak")

    @cached_property
    def _ran(self) -> dict[Call, tuple[Layer, ...]]:
        cases = ((call_of(case), case.layers) for case in self.stored.record.cases)
        return {call: layers for call, layers in cases if call is not None}

    @cached
    def network(self, call: Call) -> CapturedNetwork | Missing:
        """The operators of an eager call; missing where other layers ran than were captured."""
        return theory.network(call, self._ran.get(call, ()))

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
    def history(self, call: Call) -> History | Missing:
        """Split the requests to a GPU's allocator in a call into tensors and workspaces.

        Requests that are the tensors of theory, in its order, are tensors; others are workspaces.
        """
        network, events = self.network(call), self.samples("memory_events", call.factors)
        before = self.samples("memory_events_before", call.factors)
        owners = self.samples("memory_owners", call.factors)
        if isinstance(network, Missing):
            return network
        for series in (events, before, owners):
            if isinstance(series, Missing):
                return series
        of_call = owners[len(before) :]  # type: ignore[index, arg-type]
        return _history(zip(events, of_call, strict=True), network, call.batch)  # type: ignore[arg-type]

    @cached
    def copies(self, call: Call) -> tuple[int, int, int]:
        """Count the convolutions of a call, those with a workspace, and those with just copies.

        A workspace of just copies has the size of input, output and weights together.
        """
        network, history = self.network(call), self.history(call)
        if isinstance(network, Missing) or isinstance(history, Missing):
            return 0, 0, 0
        convolutions = _convolutions(network)
        taken = copies = 0
        for number, size in history.workspaces:
            if number in convolutions:
                copied = _copied(network.operator(number, call.batch))
                taken += size > SMALL * copied
                copies += abs(size - copied) < SMALL * copied
        return len(convolutions), taken, copies

    def correct(self, precision: InferencePrecision) -> Sequence[Any]:
        """Return 1 for each digit that ResNet-20 recognized, else 0; nothing if not scored."""
        factors: dict[str, Level] = {"subject": "accuracy", "dataset": "digits", "network": SHOWN}
        scores = self.samples("image_correct", {**factors, "precision": precision})
        return () if isinstance(scores, Missing) else scores


def _history(
    events: Iterable[tuple[int, int]], captured: CapturedNetwork, batch: int
) -> History | Missing:
    """Match the events of a call, which name their request, with the tensors of theory."""
    sizes = captured.sizes(batch)
    predicted: list[tuple[int, int]] = []
    for number, allocating in enumerate(captured.network.operators):
        predicted += [(sizes[s], number) for s in allocating.allocated if sizes[s]]
    alive: dict[int, tuple[int, int]] = {}
    workspaces: list[tuple[int, int]] = []
    tensors = workspace = seen = operator = 0
    most = (0, 0)
    for change, owner in events:
        if change > 0:
            if seen < len(predicted) and change == predicted[seen][0]:
                operator = predicted[seen][1]
                alive[owner], seen = (change, 0), seen + 1
            else:
                alive[owner] = (0, change)
                workspaces.append((operator, change))
        of_tensor, of_workspace = alive[owner] if change > 0 else alive.pop(owner, (-change, 0))
        sign = 1 if change > 0 else -1
        tensors, workspace = tensors + sign * of_tensor, workspace + sign * of_workspace
        most = max(most, (tensors, workspace), key=sum)
    if seen < len(predicted):
        return Missing("the allocator's history lacks tensors of theory")
    return History(*most, tuple(workspaces))


def _copied(operator: Operator) -> int:
    """Return the bytes of an operator's maps and weights."""
    tensors = (*operator.read, *operator.writes)
    return sum(tensor.bytes for tensor in tensors if len(tensor.shape) == _MAP_AXES)


def _convolutions(captured: CapturedNetwork) -> list[int]:
    """Return the numbers of the operators that are convolutions."""
    operators = enumerate(captured.network.operators)
    return [number for number, operator in operators if operator.base == "convolution"]
