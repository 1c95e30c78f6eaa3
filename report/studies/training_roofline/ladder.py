"""The optimisation ladder: one change at a time, its gain, and the efficiency it reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from report.studies.training_roofline.declared import WORDS
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import Step

#: Each rung changes one thing of the rung before: its name, and what is changed.
RUNGS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("float32", {}),
    ("tfloat32", {"precision": "tfloat32"}),
    ("bfloat16", {"precision": "bfloat16"}),
    ("channels last", {"layout": "channels_last"}),
    ("compiled", {"execution": "compiled"}),
    ("fused update", {"optimizer": "fused"}),
    ("CUDA graph", {"execution": "compiled_cuda_graph"}),
)


@dataclass(frozen=True)
class Rung:
    """A rung that a run tried, and the one below it."""

    name: str
    step: Step
    below: Step | None


def base(run: Run, network: str) -> Step | None:
    """Where the ladder of a network starts: the plain step with most rungs above it."""
    plain = dict.fromkeys(step.plain for step in run.chosen(network=network, dataset="synthetic"))
    return max(
        (step for step in plain if step in run.steps),
        key=lambda step: (len(_climb(run, step)), step.batch),
        default=None,
    )


def ladder(run: Run, network: str) -> tuple[Rung, ...]:
    """The rungs of a network that are in the plan of a run; none where only the base is."""
    start = base(run, network)
    found = _climb(run, start) if start else ()
    return found if len(found) > 1 else ()


def _climb(run: Run, start: Step) -> tuple[Rung, ...]:
    """The rungs above ``start``: a change that the run did not try is left out, the rest stays."""
    rungs: list[Rung] = []
    step = start
    for name, change in RUNGS:
        changed = step.with_(**change)
        if changed in run.steps:
            below = rungs[-1].step if rungs else None
            rungs.append(Rung(name, changed, below))
            step = changed
    return tuple(rungs)


def gain_id(network: str, rung: Rung) -> str:
    """The id of the value that is the gain of a rung over the one below."""
    return f"{WORDS[network]}_gain_{rung.name.replace(' ', '_')}"
