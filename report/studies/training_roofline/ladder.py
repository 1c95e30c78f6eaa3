"""The optimisation ladder: one change at a time, its gain, and the efficiency it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence.runs import known
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import estimate, faster, point
from report.quantity.expression import Quantity
from report.studies.training_roofline.measured import (
    Run,
    alone_mark,
    product_mark,
)
from report.studies.training_roofline.source import rows
from report.studies.training_roofline.subject import HEAVY, NETWORKS, Step
from report.studies.training_roofline.theory import TERA, Complexity

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


def top(run: Run, network: str) -> Rung | None:
    """The rung with the most images a second of those clearly faster than the base, if any is."""
    gains = {rung: gain_over_base(run, network, rung) for rung in ladder(run, network)[1:]}
    clear = {rung: known(point(gain)) for rung, gain in gains.items() if faster(gain)}
    return max(clear, key=lambda rung: clear[rung], default=None)


def helping(run: Run) -> tuple[tuple[str, Rung], ...]:
    """The networks and rungs that are clearly faster than the rung below."""
    return tuple(
        (network, rung)
        for network in NETWORKS
        for rung in ladder(run, network)
        if rung.below is not None and faster(run.speedup(rung.below, rung.step))
    )


def gain_over_base(run: Run, network: str, rung: Rung) -> Quantity:
    """Images a second over the base of the ladder."""
    return run.speedup(ladder(run, network)[0].step, rung.step)


def ladder_table(run: Run) -> Table:
    """Every rung with its absolute time, gains and efficiency."""
    made = tuple(_row(run, n, rung) for n in NETWORKS for rung in ladder(run, n))
    first = next(rung.step for n in NETWORKS for rung in ladder(run, n))
    return Table(
        f"tbl-ladder-{run.key}",
        f"The ladder of optimisations on {run.label}: images of {first.image} pixels, batch "
        f"{first.batch}. Every rung keeps what the rungs above it in the table changed; gains are "
        "ratios of images a second with their intervals, over the rung before and over the base.",
        (
            Column("Network"),
            Column("Rung"),
            Column("Time of a step", "s", "ms"),
            Column("Images / s", "1"),
            Column("Gain", "1"),
            Column("Over the base", "1"),
            Column("Efficiency", "1", "%"),
        ),
        made,
        notes=(
            "The efficiency is over the measured matrix product in the same precision.",
            *alone_mark(run, (rung.step for n in NETWORKS for rung in ladder(run, n))),
            *product_mark(run),
        ),
        sources=(run.file,),
        wide=True,
    )


def _row(run: Run, network: str, rung: Rung) -> tuple[Cell, ...]:
    gains: tuple[Cell, Cell] = ("", "")
    if rung.below is not None:
        below = run.speedup(rung.below, rung.step)
        gains = (estimate(below), estimate(gain_over_base(run, network, rung)))
    return (
        *(network, rung.name, estimate(run.time(rung.step)), estimate(run.images(rung.step))),
        *(*gains, estimate(run.efficiency(rung.step))),
    )


def anchor_table(inputs: Inputs, found: dict[str, Complexity]) -> Table:
    """What NVIDIA publishes of ResNet-50, with the utilisation that it means."""
    work = found[HEAVY].training
    made = []
    for item in rows(inputs.reported, "anchors"):
        images = float(item.number_of("throughput").number)
        peak = float(item.number_of("peak").number) * TERA
        rate = work * images
        made.append((item.text("device"), item.text("precision"), images, peak, rate, rate / peak))
    return Table(
        "tbl-anchors",
        "Published throughput of ResNet-50 v1.5 in training on one GPU, and the utilisation of the "
        "peak on the data sheet that follows from it.",
        (
            Column("Device"),
            Column("Precision"),
            Column("Images / s", "1"),
            Column("Peak", "FLOP/s", "TFLOP/s"),
            Column("Rate", "FLOP/s", "TFLOP/s"),
            Column("Utilisation", "1", "%"),
        ),
        tuple(made),
        sources=(inputs.reported_file,),
    )


def all_rungs(all_runs: Sequence[Run]) -> tuple[Run, ...]:
    """The runs that climbed a ladder."""
    return tuple(run for run in all_runs if any(ladder(run, n) for n in NETWORKS))
