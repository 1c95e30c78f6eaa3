"""Fusion, the best of layout, precision and execution, and what to choose for which goal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.evidence.runs import remembered
from report.missing import Missing
from report.paper.declared import cells
from report.paper.findings import Figure, Inputs
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Quantity, absent, as_quantity
from report.quantity.operations import at_least
from report.quantity.verdicts import Statement, expect
from report.statistics.estimates import CONFIDENCE, bonferroni
from report.studies.inference_memory.batches import sweep
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.subject import FUSED, NETWORKS, REDUCED, Call

LATENCY, MEMORY, THROUGHPUT = "latency", "memory", "throughput"
GOALS: Final = (LATENCY, MEMORY, THROUGHPUT)
_NO_CHOICE: Final = Missing("no other setting of this network was timed at this batch")


def plain(call: Call) -> Call:
    """The same call, contiguous, in float32, eager."""
    return Call(call.network, call.image, call.batch)


def speedup(run: Run, call: Call) -> Quantity:
    """How many times as fast a call is as the plain one."""
    return run.time_ratio(plain(call), call)


# -------------------------------------------------------------------------------------- fusion


_FUSED: Final = (
    ("channels last", "channels_last", "eager"),
    ("folded", "contiguous", "folded"),
    ("folded, channels last", "channels_last", "folded"),
    ("compiled", "contiguous", "compiled"),
)


def fused_bases(run: Run) -> tuple[Call, ...]:
    """The plain float32 calls of which a fused form was measured too."""
    fused = [c for c in run.chosen(precision="float32") if c.execution in FUSED]
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
    return cells(
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
    """The fastest of the timed settings of a network at one batch, by medians.

    ``gain`` is how many times as fast as the plain call the fastest of all ``choices`` is,
    whichever that may be.
    """

    base: Call
    call: Call
    choices: int
    gain: Quantity


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


def untried(calls: Iterable[Call]) -> tuple[str, ...]:
    """The kinds of settings, beside the layout, that none of ``calls`` is of.

    Not every network has something to fold, so that compiling alone tries fusion too.
    """
    found = list(calls)
    kinds = {
        "in reduced precision": any(call.precision in REDUCED for call in found),
        "folded or compiled": any(call.execution in FUSED for call in found),
    }
    return tuple(kind for kind, tried in kinds.items() if not tried)


def best(run: Run, network: str, *, same_precision: bool) -> Best | Missing:
    """The fastest setting of a network by its median time."""
    base = compared_base(run, network)
    if base is None:
        return Missing(f"no call of {network} was timed on {run.label}")
    found = settings(run, base, same_precision=same_precision)
    if not found:
        return _NO_CHOICE
    gain = at_least(*(speedup(run, call) for call in found))
    return Best(base, min(found, key=run.seconds), len(found), gain)


def best_speedup(run: Run, network: str, *, same_precision: bool) -> Quantity:
    """The speed-up of the fastest setting."""
    found = best(run, network, same_precision=same_precision)
    return absent("speed-up", "1", found.reason) if isinstance(found, Missing) else found.gain


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
        notes=("Intervals hold for all compared settings together.",),
        sources=(inputs.reported_file, run.file),
        wide=True,
    )


def _published_row(inputs: Inputs, run: Run, network: str) -> tuple[Cell, ...]:
    printed = reported_speedups(inputs).get(network)
    base = compared_base(run, network)
    own = (best(run, network, same_precision=True), best(run, network, same_precision=False))
    told = tuple(cell for found in own for cell in _told(found))
    return cells(
        network,
        Missing("no number is printed") if printed is None else printed,
        Missing(f"no call of {network} was timed on {run.label}") if base is None else base.batch,
        run.time(base) if base else Missing(f"no call of {network} was timed on {run.label}"),
        *told,
    )


def _told(found: Best | Missing) -> tuple[Quantity | Missing, Missing | str]:
    if isinstance(found, Missing):
        return found, found
    return found.gain, found.call.setting


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


def _value(found: Quantity) -> float | None:
    return None if found.missing else centre(found)


# ----------------------------------------------------------------------------------- decisions


@dataclass(frozen=True)
class Decision:
    """The best call for a goal, by medians, and the plain one that it is set against.

    ``gain`` is how many times as good it is, by the goal's own measure.  It is ``clear`` where it
    exceeds 1 at the level that all calls share, since the best of several looks better than it is.
    """

    goal: str
    call: Call
    base: Call
    gain: Quantity
    clear: bool


@remembered
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
        return _decide(goal, smallest, run.time)
    if goal == MEMORY:
        return _decide(goal, smallest, run.peak)
    return _decide(goal, calls, run.image_time)


def _candidates(run: Run, network: str) -> tuple[Call, ...]:
    image = min((call.image for call in sweep(run, network)), default=0)
    return run.timed(run.chosen(network=network, image=image, tile=None))


def _decide(
    goal: str, calls: Sequence[Call], cost: Callable[[Call], Quantity]
) -> Decision | Missing:
    bases = [call for call in calls if call == plain(call)]
    if not bases:
        return _NO_CHOICE
    base = min(bases, key=lambda call: centre(cost(call)))
    made = min(calls, key=lambda call: centre(cost(call)))
    gain = cost(base) / cost(made) if made != base else as_quantity(1)
    verdict = Statement(gain, expect("> 1")).judge(bonferroni(CONFIDENCE, len(calls)))
    return Decision(goal, made, base, gain, verdict == "supported")


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
        notes=("Clear: above one at the level that all settings share; bytes have no interval.",),
        sources=(run.file,),
        wide=True,
    )


def _decision_row(run: Run, network: str, made: Decision) -> tuple[Cell, ...]:
    call = made.call
    return cells(
        network,
        made.goal,
        call.batch,
        call.setting,
        run.time(call),
        run.image_rate(call),
        run.peak(call),
        made.gain,
        "yes" if made.clear else "no",
    )
