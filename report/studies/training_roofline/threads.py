"""One processor with fewer threads and with more: two ceilings, and what a step gains by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from report.paper.findings import Claim
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity
from report.quantity.verdicts import all_of, expect
from report.studies.training_roofline.batches import sweep
from report.studies.training_roofline.measured import Repeated, Run
from report.studies.training_roofline.phrases import counted, with_interval
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

    def product(self) -> Quantity:
        """The matrix product in float32 with more threads over that with fewer."""
        return self.many.peak("float32") / self.few.peak("float32")


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
        and run.stored.record.environment.cpu.model == own.cpu.model
        and run.stored.record.environment.threads < own.threads
    )
    few = next(fewer, None)
    return None if few is None else _both(few, many)


def _both(few: Run, many: Run) -> Threads | None:
    wanted = [s for n in NETWORKS for s in (*sweep(many, n), *image_steps(many, n))]
    timed = tuple(s for s in dict.fromkeys(wanted) if s in few.timed(few.steps))
    steps = many.timed(timed)
    return Threads(few, many, steps) if steps else None


def threads_table(found: Threads) -> Table:
    """Plain steps with fewer and with more threads, with absolute times."""
    made: tuple[tuple[Cell, ...], ...] = tuple(
        (
            *(step.network, step.image, step.batch),
            *map(estimate, (found.few.time(step), found.many.time(step), found.gain(step))),
        )
        for step in found.steps
    )
    few, many = (_threads(run) for run in (found.few, found.many))
    return Table(
        "tbl-threads",
        f"The same plain training steps on {found.few.label} and on {found.many.label}: times of "
        "a step, and images a second over those with fewer threads.",
        (
            *(Column("Network"), Column("Image", "1"), Column("Batch", "1")),
            *(Column(few, "s", "ms"), Column(many, "s", "ms"), Column("Speed-up", "1")),
        ),
        made,
        sources=(found.few.file, found.many.file),
    )


def _threads(run: Run) -> str:
    number = run.stored.record.environment.threads
    return f"{number} thread{'s' if number > 1 else ''}"


def threads_claim(found: Threads | None) -> tuple[Claim, ...]:
    """Whether the processor with more threads, a device with a higher peak, trains faster."""
    if found is None or found.product().missing:
        return ()
    gains = found.gains.values()
    return (
        Claim(
            "threads",
            f"H1: {found.many.label}, trains faster than {found.few.label}.",
            all_of(*(Repeated(gain, expect("> 1")) for gain in gains)).judge(),
            f"its matrix product is {with_interval(found.product())} times as fast; "
            f"{counted(gains)}",
        ),
    )
