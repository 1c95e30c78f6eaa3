"""The memory of a training step on a GPU by category, as others measured it and as predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from figures import levels
from figures.canvas import Drawing
from figures.levels import Levels
from report.evidence.step_memory import (
    KINDS,
    Course,
    Kind,
    measured_steps,
    predicted_step,
    read_lifetimes,
)
from report.instruments.memory_timeline import MemoryTimeline, read_timeline
from report.paper.claims import judge
from report.paper.findings import Claim, Figure, Inputs
from report.paper.values import Value, declare
from report.quantity.expression import Quantity, exact
from report.quantity.verdicts import Statement, all_of, equals, exactly
from report.records.imported_files import StoredImport
from report.text.escape import markdown
from report.text.format import Style
from report.theory.architectures import ARCHITECTURES
from report.theory.training_memory import categories

_TIMELINE: Final = ".raw.gz"
_LIFETIMES: Final = "lifetimes.json.gz"
_GIGA: Final = 1e9
#: How numbers are printed that are not printed in full.
_STYLES: Final[dict[str, Style]] = {
    "activations": "measured", "excess": "measured", "excess_share": "percent",
    "other": "measured", "peak": "measured", "predicted_peak": "measured",
}  # fmt: skip
#: How far the activations may be from theory: blocks that the allocator hands out whole.
_WITHIN: Final = 0.002
_WORDS: Final[dict[Kind, str]] = {
    "resident": "Parameters, momentum, batch", "activations": "Activations",
    "gradients": "Gradients", "other": "Workspaces and unnamed",
}  # fmt: skip


@dataclass(frozen=True)
class Published:
    """A timeline of several steps, and the same step by theory."""

    stored: StoredImport
    timeline: MemoryTimeline
    predicted: Course

    @cached_property
    def measured(self) -> Course:
        """The second step, which is the first that begins as every other does."""
        return self.steps[min(1, len(self.steps) - 1)]

    @cached_property
    def steps(self) -> tuple[Course, ...]:
        """All whole steps."""
        return measured_steps(self.timeline)

    def highest(self, kind: Kind) -> Quantity:
        """The most bytes of a kind at any moment of the step."""
        most = self.measured.highest(kind)
        return exact(f"most {kind}, measured", "B", most, self.stored.file)

    def predicted_highest(self, kind: Kind) -> Quantity:
        """The same by theory."""
        return exact(f"most {kind}, predicted", "B", self.predicted.highest(kind))


def published(inputs: Inputs) -> Published | None:
    """The first imported timeline with lifetimes beside it and whole steps; None without one."""
    for stored in inputs.imported:
        files = inputs.attachments.get(stored.file, {})
        timeline = next((name for name in files if name.endswith(_TIMELINE)), None)
        if timeline is None or _LIFETIMES not in files:
            continue
        place = f"data/{stored.file.removesuffix('.json')}"
        found = Published(
            stored,
            read_timeline(files[timeline], f"{place}/{timeline}"),
            predicted_step(read_lifetimes(files[_LIFETIMES], f"{place}/{_LIFETIMES}").network),
        )
        if found.steps:
            return found
    return None


def values(found: Published | None) -> Iterator[Value]:
    """What the paragraph prints; nothing without a timeline."""
    if found is None:
        return
    file, activations = found.stored.file, found.highest("activations")
    excess = activations - found.predicted_highest("activations")
    highest = found.timeline.highest
    numbers = {
        "activations": activations,
        "excess": excess,
        "excess_share": excess / activations,
        "parameters": exact("most parameters", "B", highest["parameter"], file),
        "momentum": exact("most optimizer state", "B", highest["optimizer state"], file),
        "other": found.highest("other"),
        "peak": exact("most in all, measured", "B", max(found.measured.total), file),
        "predicted_peak": exact("most in all, predicted", "B", max(found.predicted.total)),
        "steps": exact("steps", "1", len(found.steps), file),
        "batch": exact("batch", "1", int(found.stored.record.conditions["batch"]), file),
    }
    for id_, quantity in numbers.items():
        yield declare(f"timeline_{id_}", quantity, _STYLES.get(id_))


def claims(found: Published | None) -> Iterator[Claim]:
    """What the timeline decides; nothing without one."""
    if found is None:
        return
    ratio = found.highest("activations") / found.predicted_highest("activations")
    yield judge("activations-predicted", Statement(ratio, equals(1, within=_WITHIN)))
    yield judge(
        "parameters-predicted", all_of(*(Statement(q, exactly(0)) for q in _differences(found)))
    )


def _differences(found: Published) -> Iterator[Quantity]:
    """Parameters with running statistics, and momentum, less what shapes say."""
    conditions, file = found.stored.record.conditions, found.stored.file
    network = ARCHITECTURES[str(conditions["network"])]
    layers = network(int(conditions["batch"]), int(conditions["image"]))
    theory, highest = categories(layers, on_host=False), found.timeline.highest
    counts = sum(8 for layer in layers if type(layer).__name__ == "BatchNorm")
    statistics = theory.parameters + theory.statistics - counts
    for name, size in (("parameter", statistics), ("optimizer state", theory.momentum)):
        yield exact(f"most {name}", "B", highest[name], file) - exact("theory", "B", size)


def figures(found: Published | None) -> Iterator[Figure]:
    """Measured categories with the predictions drawn over them; nothing without a timeline."""
    if found is None:
        return
    own, theory = found.measured, found.predicted
    bounded = map(sum, zip(theory.bytes["resident"], theory.bytes["activations"], strict=True))
    drawn = Levels(
        tuple(levels.Course(_WORDS[k], own.at, _scaled(own.bytes[k])) for k in KINDS),
        (
            levels.Course("Predicted", theory.at, _scaled(theory.total)),
            levels.Course("Predicted, no gradients", theory.at, _scaled(tuple(bounded))),
        ),
        ((1.0, "Forward"), (2.0, "Backward and update")),
        "Tensors allocated so far",
        "Memory (GB)",
    )
    yield Figure(
        "fig-published", "", "", Drawing((drawn,), wide=True, height=2.6), (found.stored.file,)
    )


def _scaled(sizes: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(size / _GIGA for size in sizes)


def facts(found: Published | None) -> dict[str, Any]:
    """Words and switches of the paragraph."""
    if found is None:
        return {"timeline": {}}
    by = found.stored.record.origin.attribution
    return {
        "timeline": {
            "network": markdown(str(found.stored.record.conditions["network"])),
            "by": markdown(f"{by[:1].upper()}{by[1:]}"),
        }
    }
