"""One processor with fewer threads and with more: two ceilings, and what a step gains by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity
from report.records.pooling import same_processor
from report.statistics.estimates import Estimate
from report.studies.training_roofline.batches import sweep
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.settings import image_steps
from report.studies.training_roofline.subject import NETWORKS, Step


@dataclass(frozen=True)
class Threads:
    """Two runs on one processor, and the plain steps that both timed."""

    few: Run
    many: Run
    steps: tuple[Step, ...]

    def gain(self, step: Step) -> Quantity:
        """Images a second with more threads over those with fewer."""
        return self.many.images(step) / self.few.images(step)

    @property
    def gains(self) -> dict[Step, Quantity]:
        """The gains of all steps that both timed."""
        return {step: self.gain(step) for step in self.steps}

    @property
    def superlinear(self) -> tuple[Step, ...]:
        """The steps whose gain exceeds that of the threads, at the level that it reaches.

        No verdict: an anomaly that the text names.
        """
        few, many = (run.threads for run in (self.few, self.many))
        found = {step: estimate(gain) for step, gain in self.gains.items()}
        return tuple(
            step for step, e in found.items() if isinstance(e, Estimate) and e.low > many / few
        )

    def product(self) -> Quantity:
        """The matrix product in float32 with more threads over that with fewer."""
        return self.many.peak("float32") / self.few.peak("float32")

    def copy(self) -> Quantity:
        """The copy with more threads over that with fewer."""
        return self.many.copy() / self.few.copy()

    def copy_superlinear(self) -> bool:
        """Whether the copy gains more than the threads by themselves can give."""
        gain = point(self.copy())
        return isinstance(gain, float) and gain > self.many.threads / self.few.threads


def compared(all_runs: Sequence[Run], primary: Run | None) -> Threads | None:
    """Two runs on one processor with more and with fewer threads; the primary one's come first."""
    ordered = sorted(all_runs, key=lambda run: run is not primary)
    pairs = (_pair(all_runs, run) for run in ordered if not run.on_gpu)
    return next((pair for pair in pairs if pair is not None), None)


def _pair(all_runs: Sequence[Run], many: Run) -> Threads | None:
    """``many`` beside the newest run on the same processor with fewer threads, if there is one."""
    own = many.stored.record.environment
    fewer = (
        run
        for run in all_runs
        if not run.on_gpu
        and same_processor(run.stored.record.environment, own)
        and run.threads < own.threads
    )
    few = next(fewer, None)
    return None if few is None else _both(few, many)


def _both(few: Run, many: Run) -> Threads | None:
    wanted = [s for n in NETWORKS for s in (*sweep(many, n), *image_steps(many, n))]
    timed = tuple(s for s in dict.fromkeys(wanted) if s in few.timed(few.steps))
    steps = many.timed(timed)
    return Threads(few, many, steps) if steps else None
