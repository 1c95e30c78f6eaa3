"""The memory of a training step by category: as a profiler saw it, and as theory predicts it.

Both are given over the tensors that the step allocates, since a prediction knows their order and
not their times.  Forward and backward pass take one unit of the course each, so that their ends
meet also where one of the two allocates some tensors more, such as the sums of residual connections
that can be added in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Literal, TypeAlias

import msgspec

from report.instruments.memory_timeline import CATEGORIES, Event, MemoryTimeline
from report.instruments.trace import unpacked
from report.records import strict
from report.records.lifetimes import Lifetimes
from report.records.operations import Network
from report.theory.allocator_options import ROUNDING
from report.theory.timeline import timeline
from report.theory.workspaces import Conditions

#: What is compared: held by every step, and made by it; the rest has no prediction.
Kind: TypeAlias = Literal["resident", "activations", "gradients", "other"]
KINDS: Final[tuple[Kind, ...]] = ("resident", "activations", "gradients", "other")
#: The kinds of the profiler's categories, and of theory's.
_MEASURED: Final[dict[str, Kind]] = {
    "parameter": "resident", "optimizer state": "resident", "input": "resident",
    "activation": "activations", "gradient": "gradients", "autograd detail": "gradients",
    "temporary": "other", "unknown": "other",
}  # fmt: skip
_PREDICTED: Final[dict[str, Kind]] = {
    "parameters": "resident", "buffers": "resident", "inputs": "resident",
    "optimiser state": "resident", "activations": "activations", "gradients": "gradients",
}  # fmt: skip
_KIND_OF: Final = tuple(_MEASURED[name] for name in CATEGORIES)
_REMEDY: Final = "restore the file with git, or import the timeline again"


@dataclass(frozen=True)
class Course:
    """Bytes of each kind over a step: ``at[i]`` is 0 at its begin, 1 after the forward pass."""

    at: tuple[float, ...]
    bytes: dict[Kind, tuple[int, ...]]

    @property
    def total(self) -> tuple[int, ...]:
        """All kinds together."""
        return tuple(map(sum, zip(*self.bytes.values(), strict=True)))

    def highest(self, kind: Kind) -> int:
        """The most bytes of a kind."""
        return max(self.bytes[kind])


# ------------------------------------------------------------------------------------- measured


def measured_steps(found: MemoryTimeline) -> tuple[Course, ...]:
    """The whole steps of a timeline: each begins with an activation after gradients were made."""
    live = dict.fromkeys(KINDS, 0)
    for event in found.events:
        if event.moment < 0:
            live[_KIND_OF[event.category]] += event.change
    courses = []
    for forward, backward in _steps([e for e in found.events if e.moment >= 0]):
        courses.append(_measured(live, forward, backward))
        live = {kind: values[-1] for kind, values in courses[-1].bytes.items()}
    return tuple(courses)


def _steps(events: Sequence[Event]) -> Iterator[tuple[list[Event], list[Event]]]:
    """Events of the forward and of the backward pass, with the update, step by step."""
    forward: list[Event] = []
    backward: list[Event] = []
    for event in events:
        kind = _KIND_OF[event.category]
        if event.creates and kind == "activations" and backward:
            yield forward, backward
            forward, backward = [], []
        makes_gradient = event.creates and kind == "gradients"
        (backward if backward or makes_gradient else forward).append(event)
    if backward:
        yield forward, backward


def _measured(
    before: dict[Kind, int], forward: Sequence[Event], backward: Sequence[Event]
) -> Course:
    at, rows = [0.0], [tuple(before.values())]
    live = dict(before)
    for start, events, made in ((0, forward, "activations"), (1, backward, "gradients")):
        counted = [event.creates and _KIND_OF[event.category] == made for event in events]
        for event, number in zip(events, accumulate(counted), strict=True):
            live[_KIND_OF[event.category]] += event.change
            at.append(start + number / max(sum(counted), 1))
            rows.append(tuple(live.values()))
    columns = zip(*rows, strict=True)
    return Course(tuple(at), dict(zip(KINDS, columns, strict=True)))


# ------------------------------------------------------------------------------------ predicted


def predicted_step(network: Network) -> Course:
    """The step by theory, in blocks of the CUDA allocator; nothing of what operators take beside.

    Operators of the update stand at the end of the course.
    """
    blocks = tuple(-(-size // ROUNDING) * ROUNDING for size in network.storages)
    moments = tuple(timeline(msgspec.structs.replace(network, storages=blocks), Conditions()))
    made = dict.fromkeys(("forward", "backward", "update"), 0)
    numbers = []
    for moment in moments:
        made[moment.operator.phase] += sum(blocks[s] > 0 for s in moment.operator.made)
        numbers.append((moment.operator.phase, made[moment.operator.phase]))
    starts = {"forward": 0.0, "backward": 1.0, "update": 2.0}
    at = tuple(
        starts[phase] + (number / max(made[phase], 1) if phase != "update" else 0.0)
        for phase, number in numbers
    )
    bytes_ = {
        kind: tuple(
            sum(size for name, size in moment.alive.items() if _PREDICTED[name] == kind)
            for moment in moments
        )
        for kind in KINDS
    }
    return Course(at, bytes_)


_decoder = msgspec.json.Decoder(Lifetimes)


@lru_cache(maxsize=2)
def read_lifetimes(content: bytes, place: str) -> Lifetimes:
    """Lifetimes from the bytes of their file, gzipped JSON; raises ``RecordError``."""
    return strict.parse_json(unpacked(content, place), _decoder.decode, place, _REMEDY)
