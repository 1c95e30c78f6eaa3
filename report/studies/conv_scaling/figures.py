"""Figures of conv_scaling."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from figures.panels import Bars, BarSeries, Curve, Points, Scaling
from report.paper.plots import points
from report.quantity.expression import Quantity
from report.studies.conv_scaling import subject, theory
from report.studies.conv_scaling.results import Calls, observed_starts
from report.studies.conv_scaling.runs import Run
from report.theory import heap

#: Name and number of the colour of a line → a quantity by batch size.
Lines: TypeAlias = Mapping[tuple[str, int], Mapping[int, Quantity]]
#: Factor → setting before calls; the first one that a case has names it.
_SETTINGS: Final = {
    "small_blocks": "Small blocks freed",
    "freed": "Tensor freed",
    "threshold": "Threshold set",
    "subject": "Nothing set",
}
#: Blocks that a traced call of oneDNN allocates and frees.
_EVENTS: Final = 8


def panel(label: str, unit: str, lines: Lines, ticks: tuple[float, ...]) -> Scaling:
    """Draw lines over the batch size, by name and number of their colour."""
    drawn: tuple[Points, ...] = ()
    for (name, colour), over in lines.items():
        drawn += points(name, over, unit, series=colour, joined=True)
    look = {"y_scale": "linear", "y_from_zero": True, "direct": True}
    axes = ("Batch size (images)", label)
    return Scaling(*axes, drawn, x_ticks=ticks, **look)  # type: ignore[arg-type]


def kept_and_returned(runs: Sequence[Run]) -> Iterator[Scaling]:
    """Draw time of an image over pages that it maps, a column for each run."""

    def lines(run: Run, of: Callable[[Run, int], Quantity]) -> Lines:
        retained, returned = run.under("retained"), run.under("default")
        return {
            ("Memory kept", 0): {b: of(retained, b) / b for b in run.powers},
            ("Memory returned", 1): {b: of(returned, b) / b for b in run.powers},
        }

    ticks = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
    for run in runs:
        drawn = panel("Time of an image (µs)", "µs", lines(run, Run.time), ticks)
        yield replace(drawn, title=run.short)
    for run in runs:
        yield panel("Pages an image", "1", lines(run, Run.faults), ticks)


def heap_states(run: Run) -> Iterator[Bars]:
    """Draw the heap after the steps of a traced call, from its lowest address to its top (MB)."""
    blocks = run.under("traced").processes("block_bytes", run.factors(subject.SHOWN_BATCH))
    if not blocks or len(blocks[0].samples) != _EVENTS:
        return
    copied, in_blocks, output = (blocks[0].samples[event] / 1e6 for event in (0, 2, 5))
    reserve = heap.RESERVE / 1e6
    # Step → bytes that are free below a block in use, in use, and free at the top.
    steps = {
        "Input copied": (0.0, copied, reserve),
        "Output computed": (0.0, copied + in_blocks, reserve),
        "Copies freed": (copied, in_blocks, reserve),
        "Output copied": (copied, in_blocks + output, reserve),
        "Blocks freed": (copied + in_blocks, output, reserve),
        "Output dropped": (0.0, 0.0, copied + in_blocks + output + reserve),
        "Top returned": (0.0, 0.0, reserve),
    }
    names = {"Free below": 2, "In use": 0, "Free at the top": 1}
    columns = zip(names.items(), zip(*steps.values(), strict=True), strict=True)
    series = tuple(BarSeries(name, column, colour) for (name, colour), column in columns)
    yield Bars(tuple(steps), series, "Address above the start of the heap (MB)")


def with_and_without_tensor(calls: Sequence[Calls]) -> Iterator[Scaling]:
    """Draw time and pages of an image of the layer, with and without the freed tensor."""
    for quantity, label, unit in (
        ("time", "Time of an image (µs)", "µs"),
        ("page_faults", "Pages an image", "1"),
    ):
        lines: dict[tuple[str, int], dict[int, Quantity]] = {}
        for one in calls:
            if one.name == "layer":
                line = ("Tensor freed", 0) if "freed" in one.factors else ("No tensor freed", 1)
                lines.setdefault(line, {})[one.batch] = one.series(quantity) / one.batch
        drawn = panel(label, unit, lines, (4.0, 16.0, 64.0, 256.0))
        top = max((y for line in drawn.points for y in line.y), default=0.0)
        start, end = theory.START_AFTER_FREED, theory.END_AFTER_FREED
        predicted = (
            Curve(f"Predicted start: {start}", (start, start), (0.0, top)),
            Curve(f"Predicted end: {end}", (end, end), (0.0, top), part=True),
        )
        yield replace(drawn, curves=predicted, direct=False, legend=quantity == "time")


def predicted_and_observed(calls: Sequence[Calls]) -> Iterator[Scaling]:
    """Draw observed over predicted starts, from the first process that maps to the last one."""
    first, last = (observed_starts(calls, least) for least in (0, 1))
    drawn, ends = [], (5.0, 700.0)
    for number, layer in enumerate(sorted({name for name, _ in last})):
        starts = sorted(start for name, start in last if name == layer)
        low = tuple(float(first[layer, start]) for start in starts)
        high = tuple(float(last[layer, start]) for start in starts)
        name = layer.replace("x", " × ")
        drawn.append(Points(name, tuple(starts), low, low, high, number, hollow=True))
    if drawn:
        axes = ("Predicted start (images)", "Observed start (images)")
        ticks = (8.0, 32.0, 128.0, 512.0)
        yield Scaling(*axes, tuple(drawn), (Curve("Equal", ends, ends),), x_ticks=ticks)


def top_and_time(calls: Sequence[Calls]) -> Iterator[Scaling]:
    """Draw pages and time of an image over the free bytes at the top, a mark for each process."""
    for quantity, label, unit in (
        ("page_faults", "Pages an image", 1.0),
        ("time", "Time of an image (µs)", 1e-6),
    ):
        places: dict[str, list[tuple[float, float]]] = {}
        for one in calls:
            setting = next(name for factor, name in _SETTINGS.items() if factor in one.factors)
            pairs = zip(one.medians("free_top"), one.medians(quantity), strict=False)
            for top, value in pairs:
                place = (top / one.threshold, value / unit / one.batch)
                places.setdefault(setting, []).append(place)
        drawn, highest = [], 0.0
        for colour, name in enumerate(sorted(places)):
            x, y = zip(*places[name], strict=True)
            drawn.append(Points(name, x, y, series=colour, hollow=True))
            highest = max(highest, *y)
        if drawn:
            limit = Curve("Threshold", (1.0, 1.0), (0.0, highest))
            axes = ("Free bytes at the top of the heap ÷ trimming threshold", label)
            look = {"x_scale": "linear", "y_scale": "linear", "y_from_zero": True}
            yield Scaling(*axes, tuple(drawn), (limit,), legend=unit == 1.0, **look)  # type: ignore[arg-type]
