"""The tables of conv_profiling that set theory, our counts and the source side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from report.evidence.device_counts import float32_flops
from report.evidence.executed import MAKING
from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.findings import Claim, Inputs
from report.paper.reconciliations import as_table, series_table
from report.paper.tables import Cell, Column, Table
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import (
    changed,
    changed_peaks,
    executed,
    peaks,
    reported_estimate,
)
from report.studies.conv_profiling.source import (
    CONVOLUTION,
    WORKSPACE,
    audit,
    legible,
    operator_bytes,
    operator_cell,
)
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.values import whole
from report.theory.memory import layer_memory
from report.theory.reconciliation import Level, Reconciliation, without_idle_terms
from report.theory.work import Macs, flops

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
NO_TRACE: Final = Missing("no trace of the layer is beside a record")
_BATCH: Final = Column("Batch", "1")

#: What the kernels of the source do, by their names, in their order: task, arithmetic, what the
#: counters of additions, multiplications and fused multiply-adds can see of it.
_KERNELS: Final = (
    ("layout of the input", "none needed", "nothing to see"),
    ("layout of the weights", "none needed", "nothing to see"),
    ("the convolution", "tensor cores, TF32", "not its products"),
    ("bias", "CUDA cores, float32", "all of it"),
)
#: Their kernels' work in theory for one image, in the same order (FLOP).
_CONVOLUTION_KERNEL, _BIAS_KERNEL = 2, 3


def source_kernels(inputs: Inputs) -> Table:
    """The four kernels that the source profiled, and what its counters can see of them."""
    table = inputs.reported.table("kernels")
    layer = BASE.layer(1)
    outputs = layer_memory(layer).output // 4
    work = {_CONVOLUTION_KERNEL: BASE.operations(1), _BIAS_KERNEL: outputs}
    rows = tuple(
        (_bare(str(name)), task, arithmetic, work.get(place, 0), seen, _printed(number))
        for place, (name, number, (task, arithmetic, seen)) in enumerate(
            zip(table.column("kernel"), legible(inputs.reported), _KERNELS, strict=True)
        )
    )
    return Table(
        "tbl-source-kernels",
        "The kernels that the source saw in one call of the layer, in their order; task and "
        "arithmetic follow from the names, the work of one image from the shapes.",
        (
            Column("Kernel"),
            Column("Task"),
            Column("Arithmetic"),
            Column("Work of an image", "FLOP"),
            Column("Seen by the counters"),
            Column("Legible number", "1"),
        ),
        rows,
        notes=("Of the twelve counters printed for a kernel one number at most is legible.",),
        sources=(inputs.reported_file,),
        wide=True,
    )


def _bare(name: str) -> str:
    """A kernel's name without name spaces and nested arguments, so that a cell can break it."""
    short = re.sub(r"\w+::", "", name)
    return re.sub(r"<([^<>]*)(<[^<>]*>)?>$", r" (\1)", short)


def _printed(number: float | None) -> Cell:
    return Missing("not legible in the print") if number is None else whole(number)


#: Columns of counted work: heading, quantity of the record, FLOPs for one of it.
INSTRUMENTS: Final = (
    ("lackey", "lackey_multiply_adds", 2),
    ("perf", "perf_flops", 1),
    ("Tensor cores", "ncu_tensor_core_flops", 1),
)


def counted_work(run: Run, batch: int) -> dict[str, int | Missing]:
    """What each instrument counted of one forward call of the example's layer (FLOP)."""
    factors = BASE.factors(batch, "forward")
    found = {"CUDA cores": float32_flops(run, factors)}
    for name, quantity, factor in INSTRUMENTS:
        count = run.fixed(quantity, factors)
        found[name] = count if isinstance(count, Missing) else factor * count
    return found


def measured_work(run: Run, batch: int) -> int | Missing:
    """All that was executed of one forward call by the best instrument of the machine (FLOP).

    On a GPU it is the sum of both kinds of cores; a part that is missing makes it missing.
    """
    counted = counted_work(run, batch)
    if run.on_gpu:
        cores, tensor = counted["CUDA cores"], counted["Tensor cores"]
        if isinstance(cores, Missing):
            return cores
        return tensor if isinstance(tensor, Missing) else cores + tensor
    told = executed(run).get(batch)
    if told is None or isinstance(told.measured, Missing):
        return counted["lackey"]
    making = sum(term.amount for term in told.terms if term.name == MAKING)
    return flops(Macs(told.measured.amount - making))


def work(all_runs: Sequence[Run]) -> Table:
    """Estimated and measured work over the batch sizes, and their ratio."""
    rows: list[tuple[Cell, ...]] = []
    for run in all_runs:
        for batch in run.batches():
            theory, found = BASE.operations(batch), measured_work(run, batch)
            ratio = found if isinstance(found, Missing) else theory / found
            rest = found if isinstance(found, Missing) else found - theory
            rows.append((run.label, batch, theory, found, ratio, rest))
    batches = (1, 2, 4, 8, 16, 32, 64)
    return Table(
        "tbl-work",
        "Work of one forward call over the batch size: estimated from shapes, measured by "
        "counting, and what is left.",
        (
            Column("Run"),
            _BATCH,
            Column("Estimated", "FLOP"),
            Column("Measured", "FLOP"),
            Column("Estimated ÷ measured", "1"),
            Column("Residual", "FLOP"),
        ),
        tuple(rows)
        or tuple(("none", b, BASE.operations(b), NO_RECORD, NO_RECORD, NO_RECORD) for b in batches),
        sources=tuple(run.file for run in all_runs),
    )


def operators_compared(inputs: Inputs, traced: Traced | None) -> Table:
    """What the operator of the convolution did with memory: theory, own trace, source."""
    own = traced.row("aten::conv2d") if traced else NO_TRACE
    size = layer_memory(BASE.layer(traced.batch if traced else 64))
    no_theory = Missing("theory says nothing of workspace")

    def of_source(column: str) -> int:
        return operator_bytes(inputs.reported, CONVOLUTION, column)

    workspace = operator_bytes(inputs.reported, WORKSPACE, "self_allocation_size")
    missing = own if isinstance(own, Missing) else None
    total = None if isinstance(own, Missing) else own.total
    rows: tuple[tuple[Cell, ...], ...] = (
        (
            "Kept: size increase",
            size.output,
            total.size if total else missing or NO_TRACE,
            of_source("size_increase"),
        ),
        (
            "Given and taken back",
            no_theory,
            total.allocated - total.size if total else missing or NO_TRACE,
            workspace,
        ),
        (
            "Given in all: allocation size",
            no_theory,
            total.allocated if total else missing or NO_TRACE,
            of_source("allocation_size"),
        ),
    )
    counts = (
        "Allocations",
        total.allocations if total else missing or NO_TRACE,
        operator_cell(inputs.reported, CONVOLUTION, "allocation_count"),
    )
    note = f"{counts[0]}: {counts[2]} in the source" + (
        f", {counts[1]} in the trace." if total else "."
    )
    return Table(
        "tbl-operators-compared",
        "Memory of the convolution's forward call at the source's batch size: theory, the own "
        f"trace{f' on {traced.run.label}' if traced else ''}, and the source.",
        (Column("What"), Column("Theory", "B"), Column("Own", "B"), Column("Reported", "B")),
        rows,
        notes=(note,),
        sources=(inputs.reported_file, *((traced.run.file,) if traced else ())),
    )


def source_operators(inputs: Inputs) -> Table:
    """The source's operator table as it is printed."""
    printed = inputs.reported.table("operators")
    columns = tuple(
        Column(column.name.removesuffix(" (KB)"), "" if column.unit is None else "1")
        for column in printed.columns
    )
    rows = tuple(
        tuple(cell if isinstance(cell, int | float | str) else NO_RECORD for cell in row)
        for row in printed.rows
    )
    return Table(
        "tbl-source-operators",
        "The source's operator table, as printed; sizes are in KB of 1,024 B.",
        columns,
        rows,
        sources=(inputs.reported_file,),
        wide=True,
    )


def estimate(inputs: Inputs) -> Table:
    """From the source's estimate of memory to its measurement, a row a step."""
    return as_table(
        reported_estimate(inputs),
        "tbl-estimate",
        "From the source's estimate of memory to what its profiler saw, for its batch.",
    )


def audited(inputs: Inputs) -> Table:
    """Every derived number of the source computed again."""
    return audit_table(
        "tbl-audit",
        "Derived numbers of the source, computed again from what is printed beside them.",
        audit(inputs.reported),
        (inputs.reported_file,),
    )


def run_tables(run: Run) -> tuple[Table, ...]:
    """What leads theory to the measurements of a run, only where it recorded them."""
    backward = executed(run, "forward_backward")
    found = (
        _series(executed(run), "tbl-executed", "Executed multiply-adds of one forward call", run),
        _series(
            backward,
            "tbl-executed-backward",
            "Executed multiply-adds of one forward and backward call",
            run,
        ),
        _series(
            changed(run),
            "tbl-changed",
            "Executed multiply-adds of one forward call with changed dimensions (channels, kernel, "
            "input extent, batch)",
            run,
            Column("Dimensions, batch"),
        ),
        _series(peaks(run), "tbl-peak", "From the output to the peak of one forward call", run),
        _series(
            changed_peaks(run),
            "tbl-changed-peak",
            "From the output to the peak of one forward call with changed dimensions (channels, "
            "kernel, input extent, batch)",
            run,
            Column("Dimensions, batch"),
        ),
    )
    return tuple(table for table in found if table is not None)


def tiled_table(told: Mapping[str, Reconciliation], run: Run) -> Table | None:
    """From theory to what a GPU's kernels executed of each shape."""
    caption = (
        "Executed multiply-adds of one forward call with changed dimensions (channels, kernel, "
        "input extent, batch), led from theory by the tiles of the kernels"
    )
    return _series(told, "tbl-tiled", caption, run, Column("Dimensions, batch"))


def _series(
    told: Mapping[Level, Reconciliation],
    id: str,
    caption: str,
    run: Run,
    factor: Column | None = None,
) -> Table | None:
    if not told:
        return None
    shown = without_idle_terms(told)
    return series_table(shown, id, f"{caption} on {run.label}.", factor, sources=(run.file,))


def memory(all_runs: Sequence[Run]) -> Table:
    """Memory over the batch sizes: the source's two rules, and what runs held and needed."""
    batches = sorted({b for run in all_runs for b in run.batches()}) or [1, 2, 4, 8, 16, 32, 64]
    rows = []
    for batch in batches:
        size, image = layer_memory(BASE.layer(batch)), layer_memory(BASE.layer(1))
        own = [(run.held(batch), run.peak(batch)) for run in all_runs] or [(NO_RECORD, NO_RECORD)]
        rows.append(
            (
                batch,
                batch * image.parameters_and_output,
                size.parameters_and_output,
                *(cell for pair in own for cell in pair),
            )
        )
    several = len(all_runs) > 1
    where = f" on {all_runs[0].label}" if len(all_runs) == 1 else ""
    headings = [f", {run.label}" if several else "" for run in all_runs] or [""]
    return Table(
        "tbl-memory",
        "Memory of one forward call over the batch size: estimated with the parameters counted "
        "for every image, as in the source, and counted once; measured as what the call leaves "
        f"allocated (held) and its peak{where}.",
        (
            _BATCH,
            Column("Per image", "B"),
            Column("Once", "B"),
            *(Column(f"{name}{heading}", "B") for heading in headings for name in ("Held", "Peak")),
        ),
        tuple(rows),
        sources=tuple(run.file for run in all_runs),
        wide=several,
    )


def estimate_below_peak(run: Run) -> bool:
    """Whether the source's estimate lies below the peak at every batch size with a peak."""
    image = layer_memory(BASE.layer(1)).parameters_and_output
    peaked = {batch: run.peak(batch) for batch in run.batches()}
    known = {batch: peak for batch, peak in peaked.items() if not isinstance(peak, Missing)}
    return bool(known) and all(peak > batch * image for batch, peak in known.items())


def verdicts(judged: Sequence[Claim]) -> Table:
    """Every claim with what the numbers say of it."""
    return Table(
        "tbl-claims",
        "Claims and what the numbers say of them.",
        (Column("Claim"), Column("Verdict"), Column("Because")),
        tuple((claim.sentence, claim.verdict, claim.because) for claim in judged),
        wide=True,
    )
