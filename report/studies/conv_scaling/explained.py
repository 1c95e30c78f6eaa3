"""The reconciliations of conv_scaling as tables, figures and values."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Final

from figures.canvas import Drawing
from report.evidence.events import Explanation
from report.missing import Missing
from report.paper.events import event_table
from report.paper.findings import Figure, Inputs
from report.paper.reconciliations import as_figure, as_sentence, series_table
from report.paper.tables import Cell, Column, Table
from report.paper.values import Value
from report.records.passes import PASSES
from report.statistics.estimates import Estimate, ratio_of_medians
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.reconciled import (
    events,
    executed,
    peaks,
    reported_memory,
    reported_reserved,
    reported_work,
)
from report.studies.conv_scaling.source import reported_batches
from report.studies.conv_scaling.subject import LAYOUT_NAMES, LAYOUTS, Layout, footprint
from report.studies.conv_scaling.tables import NO_RECORD
from report.studies.conv_scaling.variants import variant_tables, variants
from report.text.format import NO_BREAK, Number
from report.theory.reconciliation import Reconciliation, largest_residual, without_idle_terms

#: The batch size at which single calls are told event by event and drawn as waterfalls.
SHOWN_BATCH: Final = 64
#: Forward, and forward with backward, as the tables of time name them.
_SHORT_PASSES: Final = {"forward": "F", "forward_backward": "F+B"}


def all_reconciliations(inputs: Inputs, run: Run | None) -> dict[str, Reconciliation]:
    """Every reconciliation of the paper by its id."""
    groups: list[Mapping[int, Reconciliation] | Mapping[str, Reconciliation]] = [
        reported_work(inputs),
        reported_memory(inputs),
        reported_reserved(inputs),
    ]
    if run is not None:
        groups += [executed(run.in_layout(layout), p) for layout in LAYOUTS for p in PASSES]
        groups += [variants(run)]
    told = {r.id: r for group in groups for r in group.values()}
    for layout in LAYOUTS if run is not None else ():
        for batch, peak in _peaks(inputs, run, layout).items():
            told[f"peak-{layout}-{batch}"] = peak
    return told


def _peaks(inputs: Inputs, run: Run | None, layout: Layout) -> dict[int, Reconciliation]:
    if run is None:
        return {}
    return peaks(run.in_layout(layout), reported_batches(inputs.reported))


def explained_tables(inputs: Inputs, run: Run | None) -> tuple[Table, ...]:
    """The tables that lead theory to measurement; those of a run only where it recorded them."""
    origin = (inputs.reported_file,)
    return (
        series_table(
            reported_work(inputs),
            "tbl-explained-work",
            "From theory to the source's counted operations.",
            sources=origin,
        ),
        series_table(
            reported_memory(inputs),
            "tbl-explained-memory",
            "From theory to the source's allocated bytes.",
            sources=origin,
            wide=False,
        ),
        *_reserved_table(inputs),
        *(_run_tables(inputs, run) if run is not None else ()),
    )


def _reserved_table(inputs: Inputs) -> Iterator[Table]:
    reserved = reported_reserved(inputs)
    if reserved:
        yield series_table(
            without_idle_terms(reserved),
            "tbl-explained-reserved",
            "From the output to the source's reserved bytes, by a model of the caching allocator.",
            sources=(inputs.reported_file, inputs.records[0].file),
        )


def _run_tables(inputs: Inputs, run: Run) -> Iterator[Table]:
    counted = _executed_rows(run)
    if counted:
        yield _executed_table(run, counted)
    yield from variant_tables(run)
    told = events(run, SHOWN_BATCH)
    if isinstance(told, Explanation):
        yield event_table(
            told,
            "tbl-events",
            f"The allocator's events in one forward call at batch {SHOWN_BATCH} on {run.label}.",
        )
    for layout in LAYOUTS:
        peak = _peaks(inputs, run, layout)
        if peak:
            yield series_table(
                without_idle_terms(peak),
                f"tbl-peak-{layout.replace('_', '-')}",
                f"From the output to the peak of the forward call on {run.label}, "
                f"{LAYOUT_NAMES[layout]}.",
                sources=(run.file,),
                wide=layout != "contiguous",
            )


def _executed_rows(run: Run) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (f"{_SHORT_PASSES[pass_]}{NO_BREAK}{LAYOUT_NAMES[layout]}", batch, *_counted(r))
        for pass_ in PASSES
        for layout in LAYOUTS
        for batch, r in executed(run.in_layout(layout), pass_).items()
    )


def _counted(found: Reconciliation) -> tuple[Cell, ...]:
    measured = found.measured
    executed = measured if isinstance(measured, Missing) else measured.amount
    (making,) = found.terms
    return found.start.amount, making.amount, executed, found.residual


def _executed_table(run: Run, rows: tuple[tuple[Cell, ...], ...]) -> Table:
    return Table(
        "tbl-executed",
        f"Multiply-adds that the layer executes on {run.label}, counted one by one, and theory: "
        "forward (F) and forward with backward (F+B).",
        (
            Column("Call"),
            Column("Batch", "1"),
            Column("Theory", "MAC"),
            Column("Kernel made", "MAC"),
            Column("Executed", "MAC"),
            Column("Residual", "MAC"),
        ),
        rows,
        notes=(
            "Kernel made: counted only where the record holds the first call of a case alone, "
            "as first less second call of another batch size.",
        ),
        sources=(run.file,),
        wide=True,
    )


def explained_figures(inputs: Inputs, run: Run | None) -> tuple[Figure, ...]:
    """Waterfalls of one batch size: the source's work, and the peak of a run."""
    work = reported_work(inputs)
    shown = SHOWN_BATCH if SHOWN_BATCH in work else next(iter(work))
    drawn = [
        _waterfall(
            "fig-explained-work",
            f"From theory to the source's counted operations at batch {shown}.",
            work[shown],
            (inputs.reported_file,),
        )
    ]
    told = events(run, SHOWN_BATCH) if run is not None else NO_RECORD
    if isinstance(told, Explanation) and run is not None:
        drawn.append(
            _waterfall(
                "fig-explained-peak",
                f"From the output to the peak of one forward call at batch {SHOWN_BATCH} on "
                f"{run.label}.",
                told.peak.compact,
                (run.file,),
            )
        )
    return tuple(drawn)


def _waterfall(
    id_: str, caption: str, reconciliation: Reconciliation, sources: tuple[str, ...]
) -> Figure:
    figure = as_figure(reconciliation)
    return Figure(
        id_,
        caption,
        f"Bars from theory to measurement. {as_sentence(reconciliation)}",
        Drawing((figure,), height=figure.height),
        sources,
    )


def explained_values(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    """The residuals furthest from 0, and what a run tells of layouts and page faults."""
    origin = (inputs.reported_file,)
    return (
        _residual("work", "of the reported work", reported_work(inputs), "FLOP", origin),
        _residual("memory", "of the reported memory", reported_memory(inputs), "B", origin),
        _residual("reserved", "of the reserved memory", reported_reserved(inputs), "B", origin),
        *_run_residuals(inputs, run),
        *_layout_values(inputs, run),
        *_fault_values(run),
    )


def _residual(
    id_: str,
    what: str,
    found: Mapping[int, Reconciliation] | Mapping[str, Reconciliation],
    unit: str,
    origin: tuple[str, ...],
) -> Value:
    largest = largest_residual(list(found.values()))
    name = f"Residual {what} furthest from zero"
    return Value(f"residual_{id_}", name, largest, unit, "measured − sum of terms", origin, "exact")


def _run_residuals(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    origin = (run.file,) if run else ()
    counted: dict[str, Reconciliation] = {}
    changed = variants(run) if run else {}
    for layout in LAYOUTS if run else ():
        for pass_ in PASSES:
            found = executed(run.in_layout(layout), pass_) if run else {}
            counted |= {f"{layout} {pass_} {batch}": r for batch, r in found.items()}
    return (
        _residual("executed", "of the executed multiply-adds", counted, "MAC", origin),
        _residual("variants", "of the variants", changed, "MAC", origin),
        Value(
            "variants_counted",
            "Variants whose multiply-adds were counted",
            len(changed) if changed else NO_RECORD,
            "1",
            "count",
            origin,
            "exact",
        ),
        Value(
            "variants_explained",
            "Variants explained to the unit",
            sum(r.explained for r in changed.values()) if changed else NO_RECORD,
            "1",
            "count of residuals of zero",
            origin,
            "exact",
        ),
        _residual("peak", "of the peak", _peaks(inputs, run, "contiguous"), "B", origin),
        _residual(
            "peak_last",
            "of the peak, channels last",
            _peaks(inputs, run, "channels_last"),
            "B",
            origin,
        ),
    )


def _layout_values(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    """The same call with channels last, at the source's largest batch size."""
    batch = reported_batches(inputs.reported)[-1]
    origin = (run.file,) if run else ()
    peak = run.in_layout("channels_last").peak(batch) if run else NO_RECORD
    ratio = peak if isinstance(peak, Missing) else peak / footprint(batch).output
    return (
        Value(
            "peak_over_output_last",
            "Peak over output, channels last",
            ratio,
            "1",
            f"peak / bytes of the output, batch {batch}",
            origin,
        ),
        Value(
            "layout_gain",
            "Time of a call over its time with channels last",
            _layout_gain(run, batch),
            "1",
            f"ratio of medians, forward, batch {batch}",
            origin,
        ),
    )


def _layout_gain(run: Run | None, batch: int) -> Estimate | Missing:
    if run is None:
        return NO_RECORD
    plain = run.raw("time", batch, "forward")
    last = run.in_layout("channels_last").raw("time", batch, "forward")
    if isinstance(plain, Missing):
        return plain
    return last if isinstance(last, Missing) else ratio_of_medians(plain, last)


def all_variants_explained(run: Run) -> bool:
    """Whether no counted variant has a residual."""
    return all(found.explained for found in variants(run).values())


def sees_faults(run: Run) -> bool:
    """Whether the largest call maps pages anew, so that there is a cost to tell of."""
    faults, size = _faults(run)
    return not isinstance(faults, Missing) and not isinstance(size, Missing)


def _fault_values(run: Run | None) -> tuple[Value, ...]:
    """Page faults of the forward call at the largest batch, and the bytes behind each."""
    origin = (run.file,) if run else ()
    faults, size = _faults(run)
    return (
        Value(
            "faults_per_image",
            "Page faults for each image, largest batch",
            faults,
            "1",
            "median of the samples / batch",
            origin,
        ),
        Value(
            "bytes_per_fault",
            "Bytes allocated for each page fault, largest batch",
            size,
            "B",
            "sum of the call's allocations / median of its page faults",
            origin,
            "exact",
        ),
        Value(
            "faults_smallest",
            "Page faults of a call, smallest batch",
            _median_faults(run, 0),
            "1",
            "median of the samples",
            origin,
        ),
    )


def _faults(run: Run | None) -> tuple[Number | Missing, Number | Missing]:
    found = _median_faults(run, -1)
    if isinstance(found, Missing) or run is None:
        return found, found
    batch = run.batches[-1]
    changes = run.raw("memory_events", batch, "forward")
    if isinstance(changes, Missing) or not found:
        return found / batch, Missing("no page faults were seen")
    return found / batch, round(sum(c for c in changes if c > 0) / found)


def _median_faults(run: Run | None, which: int) -> Number | Missing:
    if run is None or not run.batches:
        return NO_RECORD
    found = run.raw("page_faults", run.batches[which], "forward")
    return found if isinstance(found, Missing) else statistics.median(found)
