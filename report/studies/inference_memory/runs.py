"""What one run measured of each call, and what its GPU's allocator held at the peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final, NamedTuple

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.core.records.operations import Operator
from report.core.records.record import Factor
from report.evidence import runs as any_study
from report.evidence.cached import cached
from report.quantity.expression import Quantity, absent, exact, named
from report.studies.inference_memory import theory
from report.studies.inference_memory.subject import (
    NETWORKS,
    SHOWN,
    Call,
    Limit,
    Precision,
    call_of,
    limit_of,
)
from report.theory import peaks
from report.theory.conditions import conditions_of
from report.theory.networks import CapturedNetwork

#: What is beside the copies in a workspace is below this share of them.
_SMALL: Final = 1e-3
#: The axes of maps and of a convolution's weights.
_MAP_AXES: Final = 4
#: The elements that a signed index of 32 bits can name.
_INDEXED: Final = 2**31


class History(NamedTuple):
    """What a GPU's allocator was asked for in a call.

    ``tensors`` and ``workspace`` are alive at the peak beyond what was there before the call (B);
    ``workspaces`` are all of them, each with the number of its operator.
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
        found = filter(None, map(call_of, self.stored.record.cases))
        return tuple(sorted(found, key=lambda call: (NETWORKS.index(call.network), call.batch)))

    @cached
    def chosen(self, /, **where: object) -> tuple[Call, ...]:
        """The calls with these attributes."""
        wanted = where.items()
        return tuple(c for c in self.calls if all(getattr(c, n) == level for n, level in wanted))

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """What ran under limits of memory."""
        return tuple(filter(None, map(limit_of, self.stored.record.cases)))

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
        """What theory says is alive at the peak of a call."""
        if self.on_gpu or call.tile is not None:
            return Missing("workspaces are known for calls of whole maps on a CPU only")
        network = self.network(call)
        if isinstance(network, Missing):
            return network
        return peaks.peak(network, call.batch, conditions_of(self.stored.record.environment))

    def predicted_peak(self, call: Call) -> Quantity:
        """Its bytes."""
        found = self.predicted(call)
        if isinstance(found, Missing):
            return absent("predicted peak", "B", found.reason)
        return exact("predicted peak", "B", found.total, self.file)

    def per_image(self, call: Call) -> Quantity:
        """What a call allocates at its peak beyond all that was there before it, an image (B)."""
        grown = self.held(call, "peak") - self.held(call, "before")
        return named("bytes an image", grown / call.batch)

    def needed_per_image(self, call: Call) -> Quantity:
        """What tensors alone need of it (B)."""
        network, name = self.network(call), "needed bytes an image"
        if isinstance(network, Missing):
            return absent(name, "B", network.reason)
        size = peaks.needed(network, call.batch) - peaks.before(network, call.batch)
        return exact(name, "B", size / call.batch, self.file)

    def kept(self, call: Call) -> Quantity:
        """Bytes that are allocated before a call and are neither parameters nor images."""
        before, network = self.held(call, "before"), self.network(call)
        if isinstance(network, Missing):
            return absent("kept bytes", "B", network.reason)
        there = exact("parameters and images", "B", peaks.before(network, call.batch))
        return named("kept bytes", before - there)

    @cached
    def history(self, call: Call) -> History | Missing:
        """What a GPU's allocator was asked for in a call.

        Requests that are the tensors of theory, in its order, are tensors; others are workspaces.
        """
        network, events = self.network(call), self.samples("memory_events", call.factors)
        before = self.samples("memory_events_before", call.factors)
        owners = self.samples("memory_owners", call.factors)
        if isinstance(network, Missing):
            return network
        for each in (events, before, owners):
            if isinstance(each, Missing):
                return each
        of_call = owners[len(before) :]  # type: ignore[index, arg-type]
        return _history(zip(events, of_call, strict=True), network, call.batch)  # type: ignore[arg-type]

    @cached
    def copies(self, call: Call) -> tuple[int, int, int]:
        """The convolutions of a call, those that took a workspace on a GPU, and just copies.

        Copies are those of input, output and weights, as a change of their layout takes; what is
        beside them is below a thousandth.
        """
        network, history = self.network(call), self.history(call)
        if isinstance(network, Missing) or isinstance(history, Missing):
            return 0, 0, 0
        operators = network.network.operators
        taken = [
            (size, _copied(network.operator(number, call.batch)))
            for number, size in history.workspaces
            if operators[number].base == "convolution"
        ]
        large = [(size, copied) for size, copied in taken if size > _SMALL * copied]
        return (
            sum(each.base == "convolution" for each in operators),
            len(large),
            sum(abs(size - copied) < _SMALL * copied for size, copied in large),
        )

    def split(self, call: Call) -> tuple[int, int] | None:
        """The workspace at the peak of a call whose widest map has too many elements for an index.

        Beside it what copies take of as many whole images as have 2³¹ elements; None of other
        calls.
        """
        network, history = self.network(call), self.history(call)
        if isinstance(network, Missing) or isinstance(history, Missing):
            return None
        operators = enumerate(network.network.operators)
        convolutions = [n for n, each in operators if each.base == "convolution"]
        widest = max(prod(network.operator(n, 1).writes[0].shape) for n in convolutions)
        if call.batch * widest <= _INDEXED:
            return None
        images = _INDEXED // widest
        copied = max(_copied(network.operator(n, images)) for n in convolutions)
        return history.workspace, copied

    def correct(self, precision: Precision) -> Sequence[Any]:
        """Of each of the digits whether ResNet-20 recognized it (0 or 1); nothing if not scored."""
        factors: dict[str, Factor] = {"subject": "accuracy", "dataset": "digits", "network": SHOWN}
        found = self.samples("image_correct", {**factors, "precision": precision})
        return () if isinstance(found, Missing) else found


def _history(
    events: Iterable[tuple[int, int]], captured: CapturedNetwork, batch: int
) -> History | Missing:
    """The events of a call, each with the number of its request, beside the tensors of theory."""
    sizes, operators = captured.sizes(batch), captured.network.operators
    made = [(sizes[s], n) for n, o in enumerate(operators) for s in o.allocated if sizes[s]]
    alive: dict[int, tuple[int, int]] = {}
    workspaces: list[tuple[int, int]] = []
    tensors = workspace = seen = operator = 0
    most = (0, 0)
    for change, owner in events:
        if change > 0:
            if seen < len(made) and change == made[seen][0]:
                operator = made[seen][1]
                alive[owner], seen = (change, 0), seen + 1
            else:
                alive[owner] = (0, change)
                workspaces.append((operator, change))
        of_tensor, of_workspace = alive[owner] if change > 0 else alive.pop(owner, (-change, 0))
        sign = 1 if change > 0 else -1
        tensors, workspace = tensors + sign * of_tensor, workspace + sign * of_workspace
        most = max(most, (tensors, workspace), key=sum)
    if seen < len(made):
        return Missing("the allocator's history lacks tensors of theory")
    return History(*most, tuple(workspaces))


def _copied(operator: Operator) -> int:
    """The bytes of an operator's maps and weights (B)."""
    tensors = (*operator.read, *operator.writes)
    return sum(each.bytes for each in tensors if len(each.shape) == _MAP_AXES)
