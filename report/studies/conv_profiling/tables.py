"""The tables of conv_profiling; their captions stand in its template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from report.evidence.primitives import Logged
from report.instruments.operators import Sums
from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.declared import Content, Field, table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.kernels import kernel_table, kernels_of
from report.paper.primitives import primitives_table
from report.paper.rates import time_table
from report.paper.reconciliations import as_table, series_table
from report.paper.tables import Cell, Column, Table
from report.records.passes import PASSES, SHORT_NAMES
from report.studies.conv_profiling import network, profiled, theory, training
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
)
from report.studies.conv_profiling.subject import BASE, SHOWN_BATCH, dimensions_of
from report.studies.conv_profiling.values import whole
from report.text.format import NO_BREAK
from report.theory.memory import layer_memory
from report.theory.reconciliation import Level, Reconciliation, without_idle_terms
from report.theory.shapes import elements

NO_TRACE: Final = Missing("no trace of the layer is beside a record")
_BATCH: Final[Field[int]] = Field("Batch", "1", lambda batch: batch)
_SHAPE: Final = Column("Dimensions, batch")

#: What the kernels of the source do, by their names, in their order: task, arithmetic, what the
#: counters of additions, multiplications and fused multiply-adds can see of it.
_KERNELS: Final = (
    ("layout of the input", "none needed", "unknown"),
    ("layout of the weights", "none needed", "the legible number"),
    ("the convolution", "tensor cores, TF32", "not its products"),
    ("bias", "CUDA cores, float32", "all of it"),
)
#: Their kernels' work in theory for one image, in the same order (FLOP).
_CONVOLUTION_KERNEL, _BIAS_KERNEL = 2, 3


def all_tables(
    inputs: Inputs,
    runs: Sequence[Run],
    chosen: tuple[Run | None, Run | None, Run | None],
    traced: tuple[Traced | None, Traced | None],
    shapes: Mapping[str, Reconciliation],
    logs: Sequence[Logged],
) -> Iterator[Table]:
    """Every table that the data have.

    ``chosen`` are the runs that the prose speaks of, whose trainings are told, and of a GPU;
    ``traced`` the traces of layer and network; ``shapes`` what the GPU executed of each shape.
    """
    (primary, learner, gpu), (layer, whole_network) = chosen, traced
    yield network.network_table(inputs, learner)
    yield setup(inputs, runs)
    yield _source_kernels(inputs)
    yield _source_operators(inputs)
    yield _operators_compared(inputs, layer)
    yield _source_log(inputs)
    yield as_table(reported_estimate(inputs), "tbl-estimate", "")
    yield audit_table("tbl-audit", "", audit(inputs.reported), (inputs.reported_file,))
    for run in runs:
        yield _memory(run)
        if run.timed:
            yield time_table(run, run.timed)
    if learner is not None and learner.trainings:
        yield training.training_table(learner)
    if layer is not None:
        yield profiled.memory_table(layer)
        if layer.trace.kernels:
            yield profiled.kernel_table(layer)
    if whole_network is not None:
        yield profiled.time_table(whole_network)
    if primary is not None:
        yield from _reconciled(primary)
    if gpu is not None:
        yield from _series(shapes, "tbl-tiled", gpu, _SHAPE)
        if listed := kernels_of(inputs, gpu, BASE.factors(SHOWN_BATCH, "forward")):
            yield kernel_table(gpu, SHOWN_BATCH, listed)
    if logs:
        name: Field[Logged] = Field("Dimensions", "", lambda row: dimensions_of(row.case).name)
        yield primitives_table(logs, name)


# -------------------------------------------------------------------------------- the source


def _source_kernels(inputs: Inputs) -> Table:
    """The four kernels that the source profiled, and what its counters can see of them."""
    names, numbers = inputs.reported.table("kernels").column("kernel"), legible(inputs.reported)
    outputs = elements(BASE.layer(1).output_shape)
    work = {_CONVOLUTION_KERNEL: BASE.operations(1), _BIAS_KERNEL: outputs}
    return table(
        "tbl-source-kernels",
        range(len(_KERNELS)),
        [
            Field("Kernel", "", lambda place: _bare(str(names[place]))),
            Field("Task", "", lambda place: _KERNELS[place][0]),
            Field("Arithmetic", "", lambda place: _KERNELS[place][1]),
            Field("Work of an image", "FLOP", lambda place: work.get(place, 0)),
            Field("Seen by the counters", "", lambda place: _KERNELS[place][2]),
            Field("Legible number", "1", lambda place: _printed(numbers[place])),
        ],
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


def _source_operators(inputs: Inputs) -> Table:
    """The source's operator table as it is printed."""
    printed = inputs.reported.table("operators")
    columns = tuple(
        Column(column.name.removesuffix(" (KB)"), "" if column.unit is None else "1")
        for column in printed.columns
    )
    rows = tuple(tuple(map(_cell, row)) for row in printed.rows)
    return Table(
        "tbl-source-operators", "", columns, rows, sources=(inputs.reported_file,), wide=True
    )


def _cell(printed: object) -> Cell:
    return printed if isinstance(printed, int | float | str) else Missing("not legible")


def _source_log(inputs: Inputs) -> Table:
    """The log of the source's dry run under the profiler, one training step an epoch."""
    log = inputs.reported.table("counted_log")

    def printed(key: str) -> Callable[[int], Cell]:
        return lambda place: _cell(log.column(key)[place])

    return table(
        "tbl-source-log",
        range(len(log.rows)),
        [
            Field("Epoch", "1", printed("epoch")),
            Field("Loss of the step", "1", printed("loss")),
            Field("Test loss", "1", printed("test_loss")),
            Field("Correct test images", "1", printed("correct")),
        ],
        sources=(inputs.reported_file,),
    )


def _operators_compared(inputs: Inputs, traced: Traced | None) -> Table:
    """What the operator of the convolution did with memory: theory, own trace, source."""
    own = traced.row("aten::conv2d") if traced else NO_TRACE
    output = layer_memory(BASE.layer(traced.batch if traced else SHOWN_BATCH)).output
    no_theory = Missing("theory says nothing of workspace")

    def of_source(column: str, operator: str = CONVOLUTION) -> int:
        return operator_bytes(inputs.reported, operator, column)

    def of_own(get: Callable[[Sums], int]) -> Cell:
        return own if isinstance(own, Missing) else get(own.total)

    rows: tuple[tuple[str, Cell, Cell, Cell], ...] = (
        ("Output (size increase)", output, of_own(lambda t: t.size), of_source("size_increase")),
        (
            "Workspace, taken back",
            no_theory,
            of_own(lambda total: total.allocated - total.size),
            of_source("self_allocation_size", WORKSPACE),
        ),
        (
            "Both (allocation size)",
            no_theory,
            of_own(lambda total: total.allocated),
            of_source("allocation_size"),
        ),
    )
    return table(
        "tbl-operators-compared",
        rows,
        [
            Field("Bytes", "", lambda row: row[0]),
            Field("Theory", "B", lambda row: row[1]),
            Field("Own", "B", lambda row: row[2]),
            Field("Source", "B", lambda row: row[3]),
        ],
        sources=(inputs.reported_file, *((traced.run.file,) if traced else ())),
    )


# -------------------------------------------------------------------------------- the runs


def _memory(run: Run) -> Table:
    """The source's two rules beside what a run retained and needed."""

    def bytes_(name: str, get: Callable[[int], Content]) -> Field[int]:
        return Field(name, "B", get, "MB")

    return table(
        f"tbl-memory-{run.key}",
        run.batches(),
        [
            _BATCH,
            bytes_("Per image", theory.for_every_image),
            bytes_("Once", theory.once),
            bytes_("Retained", run.held),
            bytes_("Peak", run.peak),
        ],
        sources=(run.file,),
    )


def _reconciled(run: Run) -> Iterator[Table]:
    """What leads theory to the measurements of a run, only where it recorded them."""
    calls = {
        f"{SHORT_NAMES[pass_]}{NO_BREAK}{batch}": found
        for pass_ in PASSES
        for batch, found in executed(run, pass_).items()
    }
    yield from _series(calls, "tbl-executed", run, Column("Call, batch"))
    yield from _series(changed(run), "tbl-changed", run, _SHAPE)
    yield from _series(peaks(run), "tbl-peak", run)
    yield from _series(changed_peaks(run), "tbl-changed-peak", run, _SHAPE)


def _series(
    told: Mapping[Level, Reconciliation], id: str, run: Run, factor: Column | None = None
) -> Iterator[Table]:
    if told:
        yield series_table(without_idle_terms(told), id, "", factor, sources=(run.file,))
