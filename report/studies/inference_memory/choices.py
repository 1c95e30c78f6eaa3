"""Fusion, the best of layout, precision and execution, and what to choose for which goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.tables import Cell, Column, Table
from report.statistics.estimates import CONFIDENCE, Estimate, bonferroni, ratio_of_medians
from report.studies.inference_memory.batches import sweep
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import NETWORKS, Call

LATENCY, MEMORY, THROUGHPUT = "latency", "memory", "throughput"
GOALS: Final = (LATENCY, MEMORY, THROUGHPUT)
_NO_CHOICE: Final = Missing("no other setting of this network was timed at this batch")


def plain(call: Call) -> Call:
    """The same call, contiguous, in float32, eager."""
    return Call(call.network, call.image, call.batch)


def speedup(run: Run, call: Call, choices: int = 1) -> Estimate | Missing:
    """How many times as fast a call is as the plain one; for the best of ``choices`` settings.

    The best of several looks better than it is, so that its interval is one of all of them
    together (Bonferroni).
    """
    base, new = run.samples("time", plain(call).factors), run.samples("time", call.factors)
    if isinstance(base, Missing):
        return base
    if isinstance(new, Missing):
        return new
    return ratio_of_medians(base, new, bonferroni(CONFIDENCE, max(choices, 1)))


# -------------------------------------------------------------------------------------- fusion


_FUSED: Final = (
    ("channels last", "channels_last", "eager"),
    ("folded", "contiguous", "folded"),
    ("folded, channels last", "channels_last", "folded"),
    ("compiled", "contiguous", "compiled"),
)


def fused_bases(run: Run) -> tuple[Call, ...]:
    """The plain float32 calls of which a fused form was measured too."""
    fused = [c for c in run.chosen(precision="float32") if c.execution in ("folded", "compiled")]
    return tuple(dict.fromkeys(plain(call) for call in fused))


def fusion_table(run: Run) -> Table:
    """Speed-ups by folding, compiling and layout alone, each over the plain call."""
    rows = tuple(_fusion_row(run, base) for base in fused_bases(run))
    return Table(
        "tbl-fusion",
        f"Speed-up over the plain call (contiguous, float32, eager) by layout, by folding "
        f"convolution and batch normalisation, and by compiling, on {run.label}, with 95 % "
        "intervals; the first compiled call holds the compilation.",
        (
            Column("Network"),
            Column("Batch", "1"),
            Column("Plain", "s", "ms"),
            *(Column(name.capitalize(), "1") for name, *_ in _FUSED),
            Column("First compiled call", "s"),
        ),
        rows,
        sources=(run.file,),
        wide=True,
    )


def _fusion_row(run: Run, base: Call) -> tuple[Cell, ...]:
    calls = [_as(base, layout, execution) for _, layout, execution in _FUSED]
    first = run.samples("first_call_time", calls[-1].factors)
    return (
        base.network,
        base.batch,
        run.time(base),
        *(speedup(run, call) for call in calls),
        first if isinstance(first, Missing) else first[0],
    )


def _as(base: Call, layout: str, execution: str) -> Call:
    how = {"layout": layout, "execution": execution}
    return Call(base.network, base.image, base.batch, **how)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- published speed-ups


@dataclass(frozen=True)
class Best:
    """The fastest of the timed settings of a network at one batch, and how many there were."""

    base: Call
    call: Call
    choices: int


def compared_base(run: Run, network: str) -> Call | None:
    """The plain call of a network with most other settings beside it, the largest such batch."""
    bases = [c for c in run.timed(run.chosen(network=network)) if c == plain(c)]
    return max(bases, key=lambda base: (len(settings(run, base)), base.batch), default=None)


def settings(run: Run, base: Call, *, same_precision: bool = False) -> tuple[Call, ...]:
    """The timed calls of the same network, image and batch in other settings, without tiles."""
    found = run.chosen(network=base.network, image=base.image, batch=base.batch, tile=None)
    return tuple(
        call
        for call in run.timed(found)
        if call != base and (call.precision == base.precision or not same_precision)
    )


def best(run: Run, network: str, *, same_precision: bool) -> Best | Missing:
    """The fastest setting of a network by its median time."""
    base = compared_base(run, network)
    if base is None:
        return Missing(f"no call of {network} was timed on {run.label}")
    found = settings(run, base, same_precision=same_precision)
    if not found:
        return _NO_CHOICE
    return Best(base, min(found, key=lambda call: _seconds(run, call)), len(found))


def _seconds(run: Run, call: Call) -> float:
    found = run.time(call)
    return float("inf") if isinstance(found, Missing) else found.value


def best_speedup(run: Run, network: str, *, same_precision: bool) -> Estimate | Missing:
    """The speed-up of the fastest setting."""
    found = best(run, network, same_precision=same_precision)
    return found if isinstance(found, Missing) else speedup(run, found.call, found.choices)


def reported_speedups(inputs: Inputs) -> dict[str, float]:
    """The published speed-ups by network."""
    table = inputs.reported.table("speedups")
    pairs = zip(table.column("network"), table.column("speedup"), strict=True)
    return {str(name): float(cell) for name, cell in pairs if isinstance(cell, int | float)}


def published_networks(inputs: Inputs, run: Run) -> tuple[str, ...]:
    """The networks of the publication, and those others whose settings were compared here."""
    published = reported_speedups(inputs)
    small = [n for n in ("CIFAR",) if compared_base(run, n) is not None]
    return tuple(sorted({*published, *small}, key=NETWORKS.index))


def published_table(inputs: Inputs, run: Run) -> Table:
    """Published speed-ups beside those of the best setting here."""
    rows = tuple(_published_row(inputs, run, n) for n in published_networks(inputs, run))
    return Table(
        "tbl-published",
        f"Speed-up of whole networks: published for layouts on a GPU, and of the fastest setting "
        f"over the plain call on {run.label}, in float32 and in any precision.",
        (
            Column("Network"),
            Column("Published", "1"),
            Column("Batch", "1"),
            Column("Plain", "s", "ms"),
            Column("In float32", "1"),
            Column("By"),
            Column("In any precision", "1"),
            Column("By "),
        ),
        rows,
        notes=(
            f"Intervals hold for all compared settings together; the lowest confidence that the "
            f"samples reach is {_reached(inputs, run)}.",
        ),
        sources=(inputs.reported_file, run.file),
        wide=True,
    )


def _published_row(inputs: Inputs, run: Run, network: str) -> tuple[Cell, ...]:
    printed = reported_speedups(inputs).get(network)
    base = compared_base(run, network)
    own = (best(run, network, same_precision=True), best(run, network, same_precision=False))
    told = tuple(cell for found in own for cell in _told(run, found))
    return (
        network,
        Missing("no number is printed") if printed is None else printed,
        Missing(f"no call of {network} was timed on {run.label}") if base is None else base.batch,
        run.time(base) if base else Missing(f"no call of {network} was timed on {run.label}"),
        *told,
    )


def _told(run: Run, found: Best | Missing) -> tuple[Cell, Cell]:
    if isinstance(found, Missing):
        return found, found
    return speedup(run, found.call, found.choices), found.call.setting


def _reached(inputs: Inputs, run: Run) -> str:
    found = [
        estimate.confidence
        for network in published_networks(inputs, run)
        for same in (True, False)
        if isinstance(estimate := best_speedup(run, network, same_precision=same), Estimate)
    ]
    return f"{100 * min(found):.1f} %" if found else "none"


def published_figure(inputs: Inputs, run: Run) -> Figure:
    """Published and own speed-ups, a row a network."""
    names = published_networks(inputs, run)
    printed = reported_speedups(inputs)
    own = {same: [_value(best_speedup(run, n, same_precision=same)) for n in names]
           for same in (True, False)}  # fmt: skip
    dots = Dots(
        names,
        (
            DotSeries("published", tuple(printed.get(name) for name in names), 1, hollow=True),
            DotSeries("own, float32", tuple(own[True]), 0),
            DotSeries("own, any precision", tuple(own[False]), 2),
        ),
        "Speed-up",
        reference=1.0,
    )
    told = [f"{n}: {v:.3g} times" for n, v in zip(names, own[False], strict=True) if v]
    return Figure(
        "fig-published",
        f"Speed-up of whole networks: published for a GPU, and of the fastest setting on "
        f"{run.label} in float32 and in any precision.",
        f"Dots by network; own speed-ups in any precision: {', '.join(told) or 'none measured'}.",
        Drawing((dots,), height=dots.height + 0.2),
        (inputs.reported_file, run.file),
    )


def _value(found: Estimate | Missing) -> float | None:
    return None if isinstance(found, Missing) else found.value


# ----------------------------------------------------------------------------------- decisions


@dataclass(frozen=True)
class Decision:
    """The best call for a goal, and the plain one that it is set against."""

    goal: str
    call: Call
    base: Call


def decision(run: Run, network: str, goal: str) -> Decision | Missing:
    """What to choose for a goal among all timed settings of a network, by medians.

    Latency: the shortest call at the smallest batch.  Memory: the lowest peak there.  Throughput:
    most images a second at any batch, against the best plain batch.
    """
    calls = _candidates(run, network)
    if not calls:
        return Missing(f"no call of {network} was timed on {run.label}")
    smallest = [call for call in calls if call.batch == min(c.batch for c in calls)]
    if goal == LATENCY:
        return _decide(goal, smallest, lambda call: _seconds(run, call))
    if goal == MEMORY:
        return _decide(goal, smallest, lambda call: _bytes(run, call))
    return _decide(goal, calls, lambda call: _seconds(run, call) / call.batch)


def _candidates(run: Run, network: str) -> tuple[Call, ...]:
    image = min((call.image for call in sweep(run, network)), default=0)
    return run.timed(run.chosen(network=network, image=image, tile=None))


def _decide(goal: str, calls: Sequence[Call], cost: Callable[[Call], float]) -> Decision | Missing:
    bases = [call for call in calls if call == plain(call)]
    if not bases:
        return _NO_CHOICE
    return Decision(goal, min(calls, key=cost), min(bases, key=cost))


def _bytes(run: Run, call: Call) -> float:
    found = run.peak(call)
    return float("inf") if isinstance(found, Missing) else found


def gain(run: Run, made: Decision) -> Estimate | float | Missing:
    """How many times as good the choice is as the plain call, by the goal's own measure."""
    if made.call == made.base:
        return 1
    if made.goal == MEMORY:
        old, new = run.peak(made.base), run.peak(made.call)
        if isinstance(old, Missing):
            return old
        return new if isinstance(new, Missing) else old / new
    return run.image_time_ratio(made.base, made.call)


def decision_table(run: Run) -> Table:
    """For each network and goal the best setting, what it takes, and what it gains."""
    rows = tuple(
        _decision_row(run, network, made)
        for network in run.networks()
        for goal in GOALS
        if not isinstance(made := decision(run, network, goal), Missing)
    )
    return Table(
        "tbl-decisions",
        f"What to choose on {run.label}, by goal, among all timed settings: latency and memory at "
        "the smallest batch of a network, throughput at any. Gain is over the plain call "
        "(contiguous, float32, eager) at the same goal, with a 95 % interval.",
        (
            Column("Network"),
            Column("Goal"),
            Column("Batch", "1"),
            Column("Setting"),
            Column("Time", "s", "ms"),
            Column("Rate", "image/s"),
            Column("Peak", "B", "MB"),
            Column("Gain", "1"),
            Column("Clear"),
        ),
        rows,
        notes=("Clear: the interval of the gain excludes one; bytes have no interval.",),
        sources=(run.file,),
        wide=True,
    )


def _decision_row(run: Run, network: str, made: Decision) -> tuple[Cell, ...]:
    found, call = gain(run, made), made.call
    return (
        network,
        made.goal,
        call.batch,
        call.setting,
        run.time(call),
        run.image_rate(call),
        run.peak(call),
        found,
        "yes" if is_clear(found) else "no",
    )


def is_clear(found: Estimate | float | Missing) -> bool:
    """Whether a gain is more than scatter."""
    if isinstance(found, Missing):
        return False
    return found.low > 1 if isinstance(found, Estimate) else found > 1
