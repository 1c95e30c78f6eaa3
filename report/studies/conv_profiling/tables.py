"""The tables of conv_profiling; their captions stand in its template."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.declared import Field, table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.kernels import kernels_of, tile_of
from report.paper.reconciliations import series_table
from report.paper.tables import Cell, Column, Table
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.reconciled import (
    BLOCKED,
    changed,
    changed_peaks,
    differing,
)
from report.studies.conv_profiling.source import (
    audit,
    legible,
)
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.values import executed, executed_shares, whole
from report.theory.reconciliation import Level, Reconciliation, without_idle_terms

NO_TILE: Final = Missing("no kernel was counted, or its name does not say")
_BATCH: Final[Field[int]] = Field("Batch", "1", lambda batch: batch)
_SHAPE: Final = Column("Dimensions, batch")

#: What the kernels of the source do, by their names, in their order: task, arithmetic, whether the
#: counters of additions, multiplications and fused multiply-adds see its arithmetic.
_KERNELS: Final = (
    ("layout of the input", "none needed", "nothing expected"),
    ("layout of the weights", "none needed", "nothing expected"),
    ("the convolution", "tensor cores, TF32", "no"),
    ("bias", "CUDA cores, float32", "yes"),
)


def all_tables(
    inputs: Inputs, runs: Sequence[Run], chosen: tuple[Run | None, Run | None]
) -> Iterator[Table]:
    """Every table that the data have; ``chosen`` are the prose's run and a GPU's."""
    primary, gpu = chosen
    yield _setup(setup(inputs, runs), len(runs))
    yield _source_kernels(inputs)
    yield _source_operators(inputs)
    yield audit_table("tbl-audit", "", audit(inputs.reported), (inputs.reported_file,))
    if primary is not None:
        yield from _series(differing(changed(primary)), "tbl-changed", primary)
        yield from _series(differing(changed_peaks(primary), BLOCKED), "tbl-changed-peak", primary)
    if gpu is not None and executed_shares(gpu, "forward"):
        yield _gpu_batches(inputs, gpu)


def _setup(table: Table, runs: int) -> Table:
    """The environments of our runs: what one of them has and what all share become notes."""
    names = [column.name for column in table.columns[1 : runs + 1]]
    rows, notes, shared = [], [], []
    for name, *cells in (row[: runs + 1] for row in table.rows):
        given = {n: cell for n, cell in zip(names, cells, strict=True) if not _absent(cell)}
        if len(given) == 1 and runs > 1:
            notes += [f"{next(iter(given))}, {name}: {next(iter(given.values()))}."]
        elif len(set(cells)) == 1 and runs > 1 and given:
            shared += [f"{name}: {cells[0]}."]
        elif given:
            rows.append((name, *cells))
    columns = table.columns[: runs + 1]
    if not runs:
        return table
    return replace(table, columns=columns, rows=tuple(rows), notes=(*shared, *notes, *table.notes))


def _absent(cell: Cell) -> bool:
    return isinstance(cell, Missing)


# -------------------------------------------------------------------------------- the source


def _source_kernels(inputs: Inputs) -> Table:
    """The four kernels that the source profiled, and what its counters can see of them."""
    names, numbers = inputs.reported.table("kernels").column("kernel"), legible(inputs.reported)
    return table(
        "tbl-source-kernels",
        range(len(_KERNELS)),
        [
            Field("Kernel", "", lambda place: _bare(str(names[place]))),
            Field("Task", "", lambda place: _KERNELS[place][0]),
            Field("Arithmetic", "", lambda place: _KERNELS[place][1]),
            Field("Counted by the FP32 counters", "", lambda place: _KERNELS[place][2]),
            Field("Legible number", "1", lambda place: _printed(numbers[place])),
        ],
        notes=("Of the twelve counters printed for a kernel one number at most is legible.",),
        sources=(inputs.reported_file,),
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


# -------------------------------------------------------------------------------- the runs


def same_bytes(run: Run, runs: Sequence[Run]) -> bool:
    """Whether the calls of all CPUs retain and need the same bytes."""
    cpus = [other for other in runs if not other.on_gpu]
    return all(
        (other.held(b), other.peak(b)) == (run.held(b), run.peak(b))
        for other in cpus
        for b in run.batches()
    )


#: Algorithms of cuDNN by parts of their kernels' names, the first that fits.
_ALGORITHMS: Final = {
    "fft": "Fourier",
    "winograd": "Winograd",
    "dgrad": "direct",
    "wgrad": "direct",
}


def _gpu_batches(inputs: Inputs, run: Run) -> Table:
    """What a GPU executed of the example's layer over the batch size, and by which kernels."""

    def tile(batch: int) -> Cell:
        kernels = kernels_of(inputs, run, BASE.factors(batch, "forward"))
        tiles = [found for each in kernels if (found := tile_of(each.work.name))]
        return " × ".join(map(str, tiles[0])) if tiles else NO_TILE

    def algorithms(batch: int) -> Cell:
        kernels = kernels_of(inputs, run, BASE.factors(batch, "forward_backward"))
        names = (part for each in kernels for part in [_algorithm(each.work.name)] if part)
        return ", ".join(sorted(set(names))) or NO_TILE

    return table(
        "tbl-gpu",
        run.batches(),
        [
            _BATCH,
            Field("Forward tile", "", tile),
            Field("Forward", "1", lambda b: executed(run, b, "forward")),
            Field("With backward", "1", lambda b: executed(run, b, "forward_backward")),
            Field("Backward kernels", "", algorithms),
        ],
        sources=(run.file,),
    )


def _algorithm(kernel: str) -> str | None:
    return next((word for part, word in _ALGORITHMS.items() if part in kernel), None)


def _series(found: Mapping[Level, Reconciliation], id: str, run: Run) -> Iterator[Table]:
    """What leads theory to the measurements of a run, only where it recorded them."""
    if found:
        kept = without_idle_terms(found)
        yield series_table(kept, id, "", _SHAPE, sources=(run.file,), total=False)
