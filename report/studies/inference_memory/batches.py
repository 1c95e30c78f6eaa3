"""The batch size: time, rate, utilisation and memory of every network over it, and the knees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from figures.canvas import Drawing
from figures.scaling import Absent, Points, Scaling
from report.evidence.runs import remembered
from report.missing import Missing
from report.paper.declared import cells
from report.paper.findings import Download, Figure, Inputs
from report.paper.tables import Cell, Column, Table, to_csv
from report.quantity.evaluation import level, number
from report.quantity.expression import Quantity
from report.quantity.operations import first_within, level_of_largest
from report.quantity.verdicts import Statement, expect
from report.statistics.estimates import Estimate
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, RESNETS, Call
from report.text.format import quantity_text
from report.theory.workspaces import Layout

#: A batch size is large enough when its rate is at least this share of the best one.
ENOUGH: Final = 0.9
#: The batch sizes of the table beside the smallest and the largest one; the download has all.
_SHOWN: Final = frozenset({8, 64})
_RESIDENT: Final = Column("Resident", "B", "MB")
_MILLI, _MEGA, _PERCENT = 1e3, 1e-6, 100

#: Something that is known of a call, with or without an interval.
Known: TypeAlias = Quantity | float | Missing
Estimated: TypeAlias = Callable[[Call], Known]


@remembered
def sweep(run: Run, network: str, layout: Layout = "contiguous") -> tuple[Call, ...]:
    """The plain float32 calls of a network over the batch sizes, on its smallest images."""
    found = run.chosen(network=network, layout=layout, precision="float32", execution="eager")
    image = min((call.image for call in found), default=0)
    return tuple(call for call in found if call.image == image)


@remembered
def swept(run: Run) -> tuple[str, ...]:
    """The networks that were timed at more than one batch size."""
    return tuple(n for n in run.networks() if len(run.timed(sweep(run, n))) > 1)


@remembered
def resnets(run: Run) -> tuple[str, ...]:
    """Those of them that the figures show."""
    return tuple(network for network in swept(run) if network in RESNETS)


def knee(rates: Mapping[int, Quantity]) -> int:
    """The smallest batch size whose rate is at least ``ENOUGH`` of the best one, by medians."""
    return level(first_within(rates, ENOUGH, "1"))


def best_batch(rates: Mapping[int, Quantity]) -> int:
    """The batch size of the best rate, by medians."""
    return level(level_of_largest(rates, "1"))


def rates(run: Run, network: str, layout: Layout = "contiguous") -> dict[int, Quantity]:
    """Images a second by batch size, of the timed calls of a network."""
    return {c.batch: run.image_rate(c) for c in run.timed(sweep(run, network, layout))}


# -------------------------------------------------------------------------------------- tables


def batch_table(inputs: Inputs, run: Run) -> Table:
    """Time, rate, utilisation and memory of chosen batch sizes."""
    calls = [c for n in run.networks() for c in sweep(run, n) if _is_shown(c, sweep(run, n))]
    bare = [call for call in calls if _peak_alone(run, call)]
    table = _table(
        f"tbl-batches-{run.key}",
        f"Calls of every network on {run.label}, float32, contiguous, eager: medians with 95 % "
        "intervals; share is the achieved rate over the measured ceiling, peak the most bytes "
        "allocated",
        inputs,
        run,
        [call for call in calls if call not in bare],
    )
    if bare:
        peaks = (f"{c.network} at batch {c.batch:,}, {_peak_text(run, c)}" for c in bare)
        table = replace(table, notes=(*table.notes, f"Peaks alone: {'; '.join(peaks)}."))
    if _knows_nothing(table, _RESIDENT):
        return replace(_without(table, _RESIDENT), caption=f"{table.caption}.")
    return replace(table, caption=f"{table.caption}, resident the growth of the process.")


def _peak_alone(run: Run, call: Call) -> bool:
    """Whether nothing of a call was measured but its peak."""
    others = (run.time(call), run.resident(call))
    return not run.peak(call).missing and all(each.missing for each in others)


def _peak_text(run: Run, call: Call) -> str:
    # Only calls with a known peak come here.
    return quantity_text(centre(run.peak(call)), "B", "measured")


def _knows_nothing(table: Table, column: Column) -> bool:
    """Whether a column is empty, of a table that has rows."""
    place = table.columns.index(column)
    return bool(table.rows) and all(isinstance(row[place], Missing) for row in table.rows)


def _without(table: Table, column: Column) -> Table:
    """The table without a column."""
    place = table.columns.index(column)
    return replace(
        table,
        columns=table.columns[:place] + table.columns[place + 1 :],
        rows=tuple(row[:place] + row[place + 1 :] for row in table.rows),
    )


def _is_shown(call: Call, calls: Sequence[Call]) -> bool:
    return call.batch in _SHOWN or call in (calls[0], calls[-1])


def _table(id_: str, caption: str, inputs: Inputs, run: Run, calls: Sequence[Call]) -> Table:
    images = int(inputs.reported.value("amc_batch").number)
    columns = (
        Column("Network"),
        Column("Batch", "1"),
        Column("Time", "s", "ms"),
        Column(f"{images:,} images", "s"),
        Column("Rate", "image/s"),
        Column("Share", "1", "%"),
        Column("Peak", "B", "MB"),
        _RESIDENT,
    )
    rows = tuple(_row(run, call, images) for call in calls)
    notes = _too_good(run, calls)
    return Table(id_, caption, columns, rows, notes, sources=(run.file,), wide=True)


def _too_good(run: Run, calls: Sequence[Call]) -> tuple[str, ...]:
    """A share above the whole is an error of the measurement, and is told as one."""
    found = [
        f"{call.network} at batch {call.batch:,}"
        for call in calls
        if Statement(run.utilisation(call), expect("> 1")).judge() == "supported"
    ]
    return (f"Above the ceiling, which was measured too low: {', '.join(found)}.",) * bool(found)


def _row(run: Run, call: Call, images: int) -> tuple[Cell, ...]:
    return cells(
        call.network,
        call.batch,
        run.time(call),
        images * run.image_time(call),
        run.image_rate(call),
        run.utilisation(call),
        run.peak(call),
        run.resident(call),
    )


def download(inputs: Inputs, run: Run) -> Download:
    """Every plain call of a run as CSV."""
    calls = [c for layout in LAYOUTS for n in run.networks() for c in sweep(run, n, layout)]
    table = _table("tbl-all-batches", run.label, inputs, run, calls)
    layouts = Column("Layout")
    rows = tuple(
        (LAYOUT_NAMES[call.layout], *row) for call, row in zip(calls, table.rows, strict=True)
    )
    whole = Table(table.id, table.caption, (layouts, *table.columns), rows)
    return Download(
        f"{run.key}.batches.csv", to_csv(whole).encode(), f"All batch sizes: {run.label}"
    )


def knee_table(run: Run) -> Table:
    """From which batch size on more of it stops paying, by network and layout."""
    rows = [
        _knee_row(run, network, layout)
        for network in swept(run)
        for layout in LAYOUTS
        if rates(run, network, layout)
    ]
    return Table(
        "tbl-knees",
        f"Knees on {run.label}: the smallest batch with at least nine tenths of the best rate, "
        "what a call takes there, and what the best rate takes.",
        (
            Column("Network"),
            Column("Layout"),
            Column("Knee", "1"),
            Column("Rate", "image/s"),
            Column("Time", "s", "ms"),
            Column("Peak", "B", "MB"),
            Column("Best batch", "1"),
            Column("Best rate", "image/s"),
            Column("Peak at best", "B", "MB"),
        ),
        tuple(rows),
        sources=(run.file,),
        wide=True,
    )


def _knee_row(run: Run, network: str, layout: Layout) -> tuple[Cell, ...]:
    found = rates(run, network, layout)
    calls = {call.batch: call for call in sweep(run, network, layout)}
    first, best = knee(found), best_batch(found)
    return cells(
        network,
        LAYOUT_NAMES[layout],
        first,
        found[first],
        run.time(calls[first]),
        run.peak(calls[first]),
        best,
        found[best],
        run.peak(calls[best]),
    )


# ------------------------------------------------------------------------------------- figures


def time_figure(inputs: Inputs, run: Run) -> Figure:
    """Time of a call, and of a fixed number of images, over the batch size."""
    images = int(inputs.reported.value("amc_batch").number)

    def whole(call: Call) -> Quantity:
        return images * run.image_time(call)

    panels = (
        _panel(run, run.time, _MILLI, "Time of a call (ms)"),
        _panel(run, whole, 1, f"Time of {images:,} images (s)"),
    )
    return Figure(
        "fig-time",
        f"Time over the batch size on {run.label}, float32, contiguous: of one call (left) and of "
        f"{images:,} images in calls of this batch (right); medians with 95 % intervals.",
        "Two log-log panels. "
        + _ends(run, run.time, _MILLI, "ms a call")
        + _ends(run, whole, 1, "s for all images"),
        Drawing(panels, wide=True, height=2.6),
        (run.file,),
    )


def memory_figure(run: Run) -> Figure:
    """Peak memory and utilisation over the batch size."""
    panels = (
        _panel(run, run.peak, _MEGA, "Peak memory (MB)"),
        _panel(run, run.utilisation, _PERCENT, "Share of the ceiling (%)", linear=True),
    )
    failed = any(panel.absent for panel in panels)
    crosses = "; crosses at the upper edge stand for calls that ran out of memory" * failed
    return Figure(
        "fig-memory",
        f"Peak memory of a call (left) and utilisation, the achieved rate over the measured "
        f"ceiling (right), over the batch size on {run.label}, float32, contiguous{crosses}.",
        "Two panels over batch size. "
        + _ends(run, run.peak, _MEGA, "MB")
        + _ends(run, run.utilisation, _PERCENT, "per cent of the ceiling"),
        Drawing(panels, wide=True, height=2.6),
        (run.file,),
    )


def _panel(
    run: Run, quantity: Estimated, factor: float, label: str, *, linear: bool = False
) -> Scaling:
    names = resnets(run)
    points: list[Points] = []
    absent: list[Absent] = []
    for index, network in enumerate(names):
        calls = sweep(run, network)
        points += series(network, calls, quantity, factor, index)
        failed = tuple(float(call.batch) for call in calls if run.ran_out(call))
        if failed:
            absent.append(Absent("" if absent else "out of memory", failed, index))
    batches = sorted({call.batch for network in names for call in sweep(run, network)})
    return Scaling(
        "Batch size (images)",
        label,
        tuple(points),
        x_ticks=ticks(batches),
        y_scale="linear" if linear else "log",
        y_from_zero=linear,
        absent=tuple(absent),
    )


def series(
    label: str, calls: Sequence[Call], quantity: Estimated, factor: float, index: int
) -> list[Points]:
    """One line over the batch size; nothing where no call has a number."""
    found = numbers({call.batch: quantity(call) for call in calls})
    if not found:
        return []
    joined = [call.batch for call in calls][: len(found)] == list(found)
    return [points(label, found, factor, index, joined=joined)]


def numbers(found: Mapping[int, Known]) -> dict[int, Estimate | float]:
    """What is there, by level."""
    known = {at: number(each) if isinstance(each, Quantity) else each for at, each in found.items()}
    return {at: each for at, each in known.items() if not isinstance(each, Missing)}


def points(
    label: str,
    found: Mapping[int, Estimate | float],
    factor: float,
    index: int,
    *,
    joined: bool = True,
    hollow: bool = False,
) -> Points:
    """Numbers by level as points, with their intervals where they have some."""
    values = tuple(found.values())
    estimates = [value for value in values if isinstance(value, Estimate)]
    whole = len(estimates) == len(values)
    return Points(
        label,
        tuple(found),
        tuple((v.value if isinstance(v, Estimate) else v) * factor for v in values),
        tuple(e.low * factor for e in estimates) if whole else (),
        tuple(e.high * factor for e in estimates) if whole else (),
        series=index,
        joined=joined,
        hollow=hollow,
    )


def ticks(batches: Sequence[int]) -> tuple[float, ...]:
    """Every second power of two once there are many, so that labels keep apart."""
    return tuple(batches[::2]) if len(batches) > 6 else tuple(batches)


def _ends(run: Run, quantity: Estimated, factor: float, unit: str) -> str:
    """The first and the last number of each network, in words."""
    told = []
    for network in resnets(run):
        found = numbers({call.batch: quantity(call) for call in sweep(run, network)})
        if found:
            ends = [
                (b, (v.value if isinstance(v, Estimate) else v) * factor)
                for b, v in (next(iter(found.items())), list(found.items())[-1])
            ]
            told.append(
                f"{network}: {ends[0][1]:.3g} {unit} at batch {ends[0][0]}, {ends[1][1]:.3g} at "
                f"batch {ends[1][0]}."
            )
    return " ".join(told) + " "
