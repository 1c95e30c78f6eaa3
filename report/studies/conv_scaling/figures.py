"""Figures of conv_scaling: throughput, free memory at the heap's top, and mapped pages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from figures.panels import Bars, BarSeries, Curve, Points, Scaling
from report.core.records.record import Policy
from report.paper.plots import points
from report.studies.conv_scaling import subject, theory
from report.studies.conv_scaling.results import first_batches
from report.studies.conv_scaling.runs import Calls, Run
from report.theory import heap
from report.theory.work import input_bytes, output_bytes

#: Memory policy → name of its series in a figure, and number of the colour.
_POLICIES: Final[Mapping[Policy, tuple[str, int]]] = {
    "retained": ("Memory kept", 0), "default": ("Memory returned", 1),
}  # fmt: skip


def hollow_points(groups: Mapping[str, Sequence[tuple[float, float]]]) -> Iterator[Points]:
    """Draw groups (name → points (x, y)) as hollow marks, with one colour per group."""
    for colour, (name, marks) in enumerate(sorted(groups.items())):
        x, y = zip(*marks, strict=True)
        yield Points(name, x, y, style_number=colour, hollow=True)


def throughput(runs: Sequence[Run]) -> Iterator[Scaling]:
    """Draw the throughput (thousand images/s, ``k1/s``) of each run against the batch size."""
    for run in runs:
        lines: tuple[Points, ...] = ()
        policies = {run.policy: ("GPU", 2)} if run.on_gpu else _POLICIES
        for policy, (name, colour) in policies.items():
            measured = run.under_policy(policy)
            throughputs = {b: measured.throughput(b) for b in measured.powers_of_two}
            lines += points(name, throughputs, "k1/s", style_number=colour, joined=True)
        panel = Scaling("Batch size (images)", "Thousand images/s", lines, title=run.short_label)
        yield replace(panel, x_ticks=(1.0, 8.0, 64.0, 512.0), y_scale="linear", y_from_zero=True)


def free_at_heap_top(run: Run) -> Iterator[Bars]:
    """Draw predicted free bytes at the heap's top around the start and the end of page mapping."""
    threshold = subject.SMALLEST_SET_THRESHOLD
    start, end = theory.mapping_start("layer", threshold), theory.mapping_end("layer", threshold)
    outputs_mb, copy_mb = 2 * output_bytes(subject.LAYER) / 1e6, input_bytes(subject.LAYER) / 1e6
    # Label of a bar → images of the call, and 1 if the input's copy is at the top; -1 if the copy
    # is lower in the heap, so that it is drawn below zero.
    calls = {
        f"{start - 1} images": (start - 1, 1),
        f"{start} images: start": (start, 1),
        f"{end - 1}, copy lower": (end - 1, -1),
        f"{end} images: end": (end, -1),
    }
    stacked = (
        BarSeries("Two outputs", tuple(n * outputs_mb for n, _ in calls.values()), 3),
        BarSeries("Copy of the input", tuple(n * sign * copy_mb for n, sign in calls.values()), 4),
        BarSeries("Reserve", (heap.RESERVE_BYTES / 1e6,) * len(calls), 5),
    )
    label = "Address above the start of the top (MB)"
    yield Bars(tuple(calls), stacked, label, reference=threshold / 1e6)


def moved_cliffs(calls: Sequence[Calls]) -> Iterator[Scaling]:
    """Draw errors of predicted starts (first batch that maps pages), and times in each process."""
    with_start = list[Calls]()
    times: dict[str, list[tuple[float, float]]] = {}  # name of a group → (batch size, µs per image)
    for case in calls:
        kind = case.factors["subject"]
        if kind == "cliff" or (case.frees_tensor and case.name == subject.LARGE_NETWORK):
            # Otherwise mapping starts because an output gets a mapping of its own.
            if case.missing_bytes(case.predicted_start) <= 0:
                with_start.append(case)
        elif case.name in subject.LAYERS and not {"threshold", "small_blocks"} & {*case.factors}:
            run_number = "first" if kind == "sweep" else "second"
            group = f"Tensor freed, {run_number} run" if case.frees_tensor else "No tensor freed"
            for time in case.medians("time"):
                times.setdefault(group, []).append((case.batch, 1e6 * time / case.batch))
    errors: dict[str, list[tuple[float, float]]] = {}
    for name, first in first_batches(with_start).items():
        errors[name.replace("x", " × ")] = [(start, float(first[start] - start)) for start in first]
    if errors:
        marks = tuple(hollow_points(errors))
        ends = (min(min(mark.x) for mark in marks), max(max(mark.x) for mark in marks))
        no_error = Curve("As predicted", ends, (0.0, 0.0))
        axes = ("Predicted start (images)", "Error (images)")
        panel = Scaling(*axes, marks, (no_error,), x_ticks=(4.0, 32.0, 256.0, 2048.0))
        yield replace(panel, y_scale="linear", y_bottom=-2.0, y_top=1.0)
    if times:
        marks = tuple(hollow_points(times))
        top = 1.1 * max(max(mark.y) for mark in marks)
        start, end = theory.START_AFTER_FREED, theory.END_AFTER_FREED
        y = (0.0, top)
        limits = (Curve("Predicted start, end", (start, start), y), Curve("", (end, end), y))
        axes = ("Batch size (images)", "Time of an image (µs)")
        panel = Scaling(*axes, marks, limits, x_ticks=(8.0, 64.0, 128.0, 192.0, 256.0), y_top=top)
        yield replace(panel, x_scale="linear", y_scale="linear", y_bottom=0.0)


def top_and_time(calls: Sequence[Calls]) -> Iterator[Scaling]:
    """Draw pages and time per image against the heap's free bytes, with a mark per process."""
    # Quantity, label of the axis, size of its unit, and whether the panel has the legend.
    panels = (("page_faults", "Pages/image", 1.0, True), ("time", "µs/image", 1e-6, False))
    for quantity, label, unit, legend in panels:
        # Place of the input's copy → a point (free bytes ÷ threshold, value per image) per process.
        groups: dict[str, list[tuple[float, float]]] = {}
        for case in calls:
            bytes_with_copy = heap.freed_bytes(subject.LAYER) * case.batch
            for top, value in zip(case.medians("free_top"), case.medians(quantity), strict=False):
                position = "at the top" if top > bytes_with_copy else "lower"
                mark = (top / case.threshold, value / unit / case.batch)
                groups.setdefault(f"Input's copy {position}", []).append(mark)
        if groups:
            marks = tuple(hollow_points(groups))
            highest = 1.1 * max(max(mark.y) for mark in marks)
            limit = Curve("Threshold", (1.0, 1.0), (0.0, highest))
            x_label = "" if legend else "Free bytes at the top of the heap ÷ trimming threshold"
            panel = Scaling(x_label, label, marks, (limit,), x_scale="linear", y_scale="linear")
            yield replace(panel, y_top=highest, y_bottom=0.0, legend=legend)
