"""Figures of conv_scaling."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final, TypeAlias

from figures.panels import Bars, BarSeries, Curve, Points, Scaling
from report.core.records.record import Policy
from report.paper.plots import points
from report.quantity.expression import Quantity
from report.studies.conv_scaling import subject, theory
from report.studies.conv_scaling.results import first_batches
from report.studies.conv_scaling.runs import Calls, Run
from report.studies.conv_scaling.subject import IMAGE
from report.theory import heap
from report.theory.work import input_bytes, output_bytes

#: Name and number of the colour of a line → a quantity by batch size.
Lines: TypeAlias = Mapping[tuple[str, int], Mapping[int, Quantity]]
#: Policies of a CPU with the name and colour of their lines.
_POLICIES: Final[Mapping[Policy, tuple[str, int]]] = {
    "retained": ("Memory kept", 0), "default": ("Memory returned", 1),
}  # fmt: skip


def panel(label: str, unit: str, lines: Lines, ticks: tuple[float, ...]) -> Scaling:
    """Draw lines over the batch size, by name and number of their colour."""
    drawn: tuple[Points, ...] = ()
    for (name, colour), over in lines.items():
        drawn += points(name, over, unit, series=colour, joined=True)
    axes = ("Batch size (images)", label)
    return Scaling(*axes, drawn, x_ticks=ticks, y_scale="linear", y_from_zero=True)


def throughput(runs: Sequence[Run]) -> Iterator[Scaling]:
    """Draw the throughput of each run over the batch size."""
    for run in runs:
        lines: dict[tuple[str, int], dict[int, Quantity]] = {}
        for policy, line in ({run.policy: ("GPU", 2)} if run.on_gpu else _POLICIES).items():
            measured = run.under(policy)
            lines[line] = {batch: measured.throughput(batch) for batch in measured.powers}
        drawn = panel("Thousand images/s", "k1/s", lines, (1.0, 8.0, 64.0, 512.0))
        yield replace(drawn, title=run.short)


def rule(run: Run) -> Iterator[Bars]:
    """Draw the free top of the heap after calls around predicted start and end."""
    threshold = subject.LEAST_THRESHOLD
    start, end = theory.mapping_start("layer", threshold), theory.mapping_end("layer", threshold)
    outputs, copy = (size / 1e6 for size in (2 * output_bytes(IMAGE), input_bytes(IMAGE)))
    # Call → images, and the side of zero to which the input's copy extends: left if it lies lower.
    calls = {
        f"{start - 1} images": (start - 1, 1),
        f"{start} images: start": (start, 1),
        f"{end - 1}, copy lower": (end - 1, -1),
        f"{end} images: end": (end, -1),
    }
    stacked = (
        BarSeries("Two outputs", tuple(images * outputs for images, _ in calls.values()), 3),
        BarSeries("Copy of the input", tuple(n * side * copy for n, side in calls.values()), 4),
        BarSeries("Reserve", (heap.RESERVE / 1e6,) * len(calls), 5),
    )
    label = "Address above the start of the top (MB)"
    yield Bars(tuple(calls), stacked, label, reference=threshold / 1e6)


def moved_cliffs(calls: Sequence[Calls]) -> Iterator[Scaling]:
    """Draw the error of predicted starts, and the layer's time before and after a freed tensor."""
    with_start = list[Calls]()
    lines: dict[tuple[str, int], dict[int, Quantity]] = {}
    for case in sorted(calls, key=attrgetter("batch")):
        if case.kind == "cliff" or (case.freed and case.name == subject.LARGE_NETWORK):
            # Elsewhere an output gets pages of its own before the top reaches the threshold.
            if case.missing_bytes(case.start) <= 0:
                with_start.append(case)
        elif case.name in subject.LAYERS and not {"threshold", "small_blocks"} & {*case.factors}:
            line = ("Tensor freed", 0) if case.freed else ("No tensor freed", 1)
            lines.setdefault(line, {}).setdefault(case.batch, case.series("time") / case.batch)
    marks = list[Points]()
    for series, (name, first) in enumerate(sorted(first_batches(with_start).items())):
        x, y = tuple(map(float, first)), tuple(float(first[start] - start) for start in first)
        marks.append(Points(name.replace("x", " × "), x, y, series=series, hollow=True))
    if marks:
        ends = (min(min(mark.x) for mark in marks), max(max(mark.x) for mark in marks))
        exact = Curve("As predicted", ends, (0.0, 0.0))
        axes = ("Predicted start (images)", "Error (images)")
        drawn = Scaling(*axes, tuple(marks), (exact,), x_ticks=(4.0, 32.0, 256.0, 2048.0))
        yield replace(drawn, y_scale="linear", y_bottom=-2.0, y_top=1.0)
    if lines:
        drawn = panel("Time of an image (µs)", "µs", lines, (8.0, 64.0, 128.0, 192.0, 256.0))
        top = max((y for line in drawn.points for y in line.y), default=0.0)
        start, end = theory.START_AFTER_FREED, theory.END_AFTER_FREED
        limits = (
            Curve(f"Predicted start: {start}", (start, start), (0.0, top)),
            Curve(f"Predicted end: {end}", (end, end), (0.0, top), part=True),
        )
        yield replace(drawn, curves=limits, x_scale="linear")


def top_and_time(calls: Sequence[Calls]) -> Iterator[Scaling]:
    """Draw pages and time of an image over the free bytes at the top, a mark for each process."""
    for quantity, label, unit in (
        ("page_faults", "Pages an image", 1.0),
        ("time", "Time of an image (µs)", 1e-6),
    ):
        # Place of the input's copy → shares of the threshold at the top, and values of an image.
        marks: dict[str, tuple[list[float], list[float]]] = {}
        for case in calls:
            with_copy = heap.freed_blocks(IMAGE) * case.batch
            for top, value in zip(case.medians("free_top"), case.medians(quantity), strict=False):
                place = "at the top" if top > with_copy else "lower"
                x, y = marks.setdefault(f"Input's copy {place}", ([], []))
                x.append(top / case.threshold)
                y.append(value / unit / case.batch)
        if marks:
            rings = list[Points]()
            for series, (name, (x, y)) in enumerate(sorted(marks.items())):
                rings.append(Points(name, tuple(x), tuple(y), series=series, hollow=True))
            highest = 1.1 * max(max(group.y) for group in rings)
            limit = Curve("Threshold", (1.0, 1.0), (0.0, highest))
            axes = ("Free bytes at the top of the heap ÷ trimming threshold", label)
            drawn = Scaling(*axes, tuple(rings), (limit,), x_scale="linear", y_scale="linear")
            yield replace(drawn, y_top=highest, y_bottom=0.0, legend=quantity == "page_faults")
