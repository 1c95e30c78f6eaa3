"""The tables of conv_scaling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from report.missing import Missing
from report.paper.findings import Claim, Inputs
from report.paper.tables import Cell, Column, Table
from report.records.passes import PASS_NAMES, PASSES
from report.statistics.estimates import LinearFit
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.source import memory_fit, numbers, reported_batches
from report.studies.conv_scaling.subject import footprint, multiply_adds, operations
from report.theory.work import Macs, flops

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")

BATCH: Final = Column("Batch", "1")


def theory_work(inputs: Inputs) -> Table:
    """Theoretical work over the source's batch sizes: the source's Table I, computed."""
    batches = reported_batches(inputs.reported)
    printed = numbers(inputs.reported, "I", "theoretical_flops")
    return Table(
        "tbl-work-theory",
        "Theoretical work of one forward call, and the source's Table I.",
        (
            BATCH,
            Column("Multiply-adds", "MAC"),
            Column("Work", "FLOP"),
            Column("Reported", "FLOP"),
        ),
        tuple(
            (batch, multiply_adds(batch), operations(batch), reported)
            for batch, reported in zip(batches, printed, strict=True)
        ),
        sources=(inputs.reported_file,),
    )


def theory_memory(inputs: Inputs) -> Table:
    """Theoretical memory in its two parts: the source's Table II, computed."""
    sizes = {batch: footprint(batch) for batch in reported_batches(inputs.reported)}
    printed = numbers(inputs.reported, "II", "theoretical_memory")
    return Table(
        "tbl-memory-theory",
        "Theoretical memory of the layer by the source's rule, parameters and output feature map.",
        (
            BATCH,
            Column("Parameters", "B"),
            Column("Output", "B"),
            Column("Sum", "B"),
            Column("Reported", "B"),
        ),
        tuple(
            (batch, size.parameters, size.output, size.parameters_and_output, reported)
            for (batch, size), reported in zip(sizes.items(), printed, strict=True)
        ),
        sources=(inputs.reported_file,),
    )


def compared_work(inputs: Inputs, primary: Run | None) -> Table:
    """Theory, own measurement and reported counters side by side, with the difference."""
    batches = reported_batches(inputs.reported)
    counted = numbers(inputs.reported, "III", "total_flops")
    own = {batch: _executed(primary, batch) for batch in batches}
    seen = any(isinstance(work, int) for work in own.values())
    return Table(
        "tbl-work",
        "Work of one forward call: theory, this study's machines, and the source's counters.",
        (
            BATCH,
            Column("Theory", "FLOP"),
            Column("Own", "FLOP"),
            Column("Reported", "FLOP"),
            Column("Reported − theory", "FLOP"),
        ),
        tuple(
            (batch, operations(batch), own[batch], reported, reported - operations(batch))
            for batch, reported in zip(batches, counted, strict=True)
        ),
        notes=(
            (
                f"Own: two for each multiply-add executed on {primary.label}; other operations are "
                "not told apart there.",
            )
            if primary and seen
            else ()
        ),
        sources=(inputs.reported_file, *((primary.file,) if primary and seen else ())),
    )


def _executed(run: Run | None, batch: int) -> Cell:
    """Two operations for each executed multiply-add, the part of the work that is counted here."""
    if run is None:
        return NO_RECORD
    count = run.constant("lackey_multiply_adds", batch, "forward")
    return count if isinstance(count, Missing) else flops(Macs(count))


def compared_memory(inputs: Inputs, primary: Run | None) -> Table:
    """Theory, own measurement and reported allocation side by side, with the difference."""
    batches = reported_batches(inputs.reported)
    allocated = numbers(inputs.reported, "IV", "allocated_memory")
    theory = {batch: footprint(batch).parameters_and_output for batch in batches}
    own = {batch: primary.held(batch) if primary else NO_RECORD for batch in batches}
    return Table(
        "tbl-memory",
        "Memory of one forward call: theory by the source's rule, the bytes that the call "
        "leaves allocated here, and the source's allocated bytes.",
        (
            BATCH,
            Column("Theory", "B"),
            Column("Own", "B"),
            Column("Reported", "B"),
            Column("Reported − theory", "B"),
        ),
        tuple(
            (batch, theory[batch], own[batch], reported, reported - theory[batch])
            for batch, reported in zip(batches, allocated, strict=True)
        ),
        notes=(f"Own: {primary.label}.",) if primary else (),
        sources=(inputs.reported_file, *((primary.file,) if primary else ())),
    )


def reported_memory(inputs: Inputs) -> Table:
    """The source's allocated and reserved bytes, as printed."""
    columns = (
        reported_batches(inputs.reported),
        numbers(inputs.reported, "IV", "allocated_memory"),
        numbers(inputs.reported, "IV", "reserved_memory"),
    )
    return Table(
        "tbl-memory-reported",
        "What the source reports from the allocator of its GPU, before against after the call.",
        (BATCH, Column("Allocated", "B"), Column("Reserved", "B")),
        tuple(zip(*columns, strict=True)),
        sources=(inputs.reported_file,),
    )


def measured_memory(alike: Sequence[Run]) -> Table:
    """What the allocator did in the runs ``alike``, which measured the same bytes."""
    run = alike[0]
    cuda = run.stored.record.environment.device == "cuda"
    columns = (
        BATCH,
        Column("Output", "B", "MB"),
        Column("Held", "B", "MB"),
        Column("Peak", "B", "MB"),
        Column("Peak ÷ output", "1"),
        Column("F+B peak", "B", "MB"),
        *((Column("Reserved", "B", "MB"),) if cuda else ()),
    )
    rows = [
        (*_memory_row(run, batch), *((run.reserved(batch),) if cuda else ()))
        for batch in run.batches
    ]
    return Table(
        f"tbl-memory-{run.key}",
        f"Memory measured on {_listed([r.label for r in alike])}: the output's size, the bytes "
        "that the forward call leaves allocated, its peak beyond what was allocated before, and "
        "the peak of forward and backward together.",
        columns,
        tuple(rows),
        sources=tuple(r.file for r in alike),
    )


def _memory_row(run: Run, batch: int) -> tuple[Cell, ...]:
    output, peak = footprint(batch).output, run.peak(batch)
    over = peak if isinstance(peak, Missing) else peak / output
    return (batch, output, run.held(batch), peak, over, run.peak(batch, "forward_backward"))


def measured_time(run: Run) -> Table:
    """Time, rate and efficiency of every case of a run, with intervals."""
    counts = run.sample_counts()
    samples = f"{min(counts)} to {max(counts)} samples a case" if counts else "no samples"
    return Table(
        f"tbl-time-{run.key}",
        f"Time of one call, achieved rate and share of the measured ceiling on {run.label}, "
        f"forward (F) and forward with backward (F+B): medians, {samples}, with 95 % intervals.",
        (BATCH, *_time_columns("F"), *_time_columns("F+B")),
        tuple((batch, *_time_row(run, batch)) for batch in run.batches),
        sources=(run.file,),
        wide=True,
    )


def _time_columns(short: str) -> tuple[Column, ...]:
    return (
        Column(f"{short} time", "s", "ms"),
        Column(f"{short} rate", "FLOP/s", "GFLOP/s"),
        Column(f"{short} share", "1", "%"),
    )


def _time_row(run: Run, batch: int) -> Iterable[Cell]:
    for pass_ in PASSES:
        yield from (run.time(batch, pass_), run.rate(batch, pass_), run.efficiency(batch, pass_))


def byte_fits(inputs: Inputs, all_runs: Sequence[Run]) -> Table:
    """Slope and intercept of memory over the batch size, against theory."""
    size = footprint(1)
    rows: list[tuple[Cell, ...]] = [
        ("Theory, parameters and output", size.output, size.parameters),
        ("Theory, output alone", size.output, 0),
        ("Reported, allocated", *_line(memory_fit(inputs))),
    ]
    for run in all_runs:
        rows.append((f"Held, {run.label}", *_line(run.held_fit())))
        rows.append((f"Peak, {run.label}", *_line(run.peak_fit())))
    return Table(
        "tbl-fit-memory",
        "Memory of the forward call as a line over the batch size, least squares with 95 % "
        "intervals.",
        (Column("Memory"), Column("Slope per image", "B"), Column("Intercept", "B")),
        tuple(rows),
        sources=(inputs.reported_file, *(run.file for run in all_runs)),
    )


def time_fits(all_runs: Sequence[Run]) -> Table:
    """Slope and intercept of time over the batch size, against the ceiling's bound."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{run.label}, {PASS_NAMES[pass_]}",
            *_line(run.time_fit(pass_)),
            run.image_bound(pass_),
        )
        for run in all_runs
        for pass_ in PASSES
    ]
    return Table(
        "tbl-fit-time",
        "Time as a line over the batch size, weighted for a constant relative error, with 95 % "
        "intervals; the bound is the theoretical work of an image at the measured ceiling.",
        (
            Column("Run"),
            Column("Slope per image", "s", "µs"),
            Column("Intercept", "s", "µs"),
            Column("Bound per image", "s", "µs"),
        ),
        tuple(rows) or (("none", NO_RECORD, NO_RECORD, NO_RECORD),),
        sources=tuple(run.file for run in all_runs),
    )


def verdicts(judged: Sequence[Claim]) -> Table:
    """Every claim with what the numbers say of it."""
    return Table(
        "tbl-claims",
        "Claims and what the numbers say of them.",
        (Column("Claim"), Column("Verdict"), Column("Because")),
        tuple((claim.sentence, claim.verdict, claim.because) for claim in judged),
        wide=True,
    )


def _line(fit: LinearFit | Missing) -> tuple[Cell, Cell]:
    return (fit, fit) if isinstance(fit, Missing) else (fit.slope, fit.intercept)


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
