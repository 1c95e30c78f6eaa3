"""The tables of conv_scaling; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from report.evidence.events import Explanation
from report.evidence.executed import COUNTED, counts
from report.evidence.primitives import Logged
from report.missing import Missing
from report.paper.declared import Content, Difference, Field, table
from report.paper.environments import setup
from report.paper.events import event_table
from report.paper.findings import Inputs
from report.paper.kernels import kernel_table, kernels_of
from report.paper.policies import compared
from report.paper.rates import time_table
from report.paper.reconciliations import series_table
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Quantity, exact
from report.quantity.fits import intercept, slope
from report.records.layers import Convolution, Linear
from report.records.passes import PASSES, SHORT_NAMES
from report.studies.conv_scaling import instructions, policies, theory
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.network import find_network, network_table
from report.studies.conv_scaling.reconciled import events, executed
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.subject import LAYOUT_NAMES, LAYOUTS, SHOWN_BATCH
from report.studies.conv_scaling.values import NO_RECORD
from report.studies.conv_scaling.variants import variants
from report.text.format import NO_BREAK
from report.theory.reconciliation import Reconciliation, without_idle_terms

_BATCH: Final[Field[int]] = Field("Batch", "1", lambda batch: batch)


def all_tables(
    inputs: Inputs,
    groups: Mapping[str, Group],
    logs: tuple[Logged, ...],
    runs: Sequence[Run],
    same_memory: Sequence[Sequence[Run]],
    run: Run | None,
    gpu: Run | None,
) -> tuple[Table, ...]:
    """Every table that the data have; ``run`` is the one that the prose speaks of.

    ``same_memory`` are the runs in the groups of ``alike``.
    """
    return (
        network_table(inputs),
        setup(inputs, runs),
        *_of_theory(inputs),
        *_compared(inputs, run),
        *(_memory(group[0], [r.file for r in group]) for group in same_memory),
        *(time_table(run, run.batches) for run in runs),
        *_reconciled(inputs, groups),
        *(_of_run(run) if run is not None else ()),
        *(_kernels(inputs, gpu) if gpu is not None else ()),
        *([instructions.primitives(logs)] if logs else ()),
        _byte_fits(inputs, runs),
        *([policies.terms_table(run)] if run is not None and compared(run) else ()),
    )


def _of_theory(inputs: Inputs) -> Iterator[Table]:
    """Theory beside what the source prints, and what the source alone reports."""
    batches = reported_batches(inputs)

    yield table(
        "tbl-work-theory",
        batches,
        [
            _BATCH,
            Field("Multiply-adds", "MAC", theory.multiply_adds),
            Field("Work", "FLOP", theory.work),
            _reported(inputs, "I", "theoretical_flops", "FLOP"),
        ],
    )
    yield table(
        "tbl-memory-theory",
        batches,
        [
            _BATCH,
            Field("Parameters", "B", lambda _: theory.PARAMETER_BYTES),
            Field("Output", "B", theory.output_bytes),
            Field("Sum", "B", theory.memory),
            _reported(inputs, "II", "theoretical_memory", "B"),
        ],
    )
    yield table(
        "tbl-memory-reported",
        batches,
        [
            _BATCH,
            _reported(inputs, "IV", "allocated_memory", "B", "Allocated"),
            _reported(inputs, "IV", "reserved_memory", "B", "Reserved"),
        ],
    )


def _compared(inputs: Inputs, run: Run | None) -> Iterator[Table]:
    """Theory, own measurement and reported counts side by side, with the difference."""
    batches = reported_batches(inputs)
    yield table(
        "tbl-work",
        batches,
        [
            _BATCH,
            Field("Theory", "MAC", theory.multiply_adds),
            Field("Own", "MAC", _counted(run)),
            _reported(inputs, "III", "multiply_add", "MAC", "Source, fused"),
            _reported(inputs, "III", "add", "FLOP", "Source, add"),
            _reported(inputs, "III", "multiply", "FLOP", "Source, multiply"),
        ],
    )
    yield table(
        "tbl-memory",
        batches,
        [
            _BATCH,
            Field("Theory", "B", theory.memory),
            Field("Own", "B", _if_measured(run, Run.retained)),
            _reported(inputs, "IV", "allocated_memory", "B"),
            Difference("Reported", "Theory"),
        ],
    )


def _reported(
    inputs: Inputs, number: str, key: str, unit: str, name: str = "Reported"
) -> Field[int]:
    """A column of one of the source's tables."""
    return Field(name, unit, column(inputs, number, key, unit).__getitem__)


def _if_measured(run: Run | None, get: Callable[[Run, int], Quantity]) -> Callable[[int], Content]:
    return lambda batch: NO_RECORD if run is None else get(run, batch)


def _counted(run: Run | None) -> Callable[[int], Content]:
    """The multiply-adds that were counted by batch size, less those of making a kernel."""
    if run is None:
        return lambda batch: NO_RECORD
    cases = {batch: run.factors(batch, "forward") for batch in run.batches}
    known = {
        batch: exact("executed multiply-adds", "MAC", all_of_them - making, run.file)
        for batch, (all_of_them, making) in counts(run, cases).items()
    }

    def count(batch: int) -> Quantity:
        if batch in known:
            return known[batch]
        return run.repeated(COUNTED, run.factors(batch, "forward"))

    return count


# ------------------------------------------------------------------------------------- a run


def alike(runs: Sequence[Run]) -> tuple[tuple[Run, ...], ...]:
    """Runs grouped by what their allocator did, so that equal tables are printed once."""
    groups: dict[object, list[Run]] = {}
    for run in runs:
        table = _memory(run, [])
        groups.setdefault((table.columns, table.rows), []).append(run)
    return tuple(tuple(group) for group in groups.values())


def _memory(run: Run, files: Sequence[str]) -> Table:
    def bytes_(name: str, get: Callable[[int], Quantity]) -> Field[int]:
        return Field(name, "B", get, "MB")

    return table(
        f"tbl-memory-{run.key}",
        run.batches,
        [
            _BATCH,
            bytes_("Output", theory.output_bytes),
            bytes_("Retained", run.retained),
            bytes_("Peak", run.peak),
            Field("Peak ÷ output", "1", lambda b: run.peak(b) / theory.output_bytes(b)),
            bytes_("F+B peak", lambda b: run.peak(b, "forward_backward")),
        ],
        sources=tuple(files),
    )


class _Line(NamedTuple):
    name: str
    slope: Content
    intercept: Content


def _byte_fits(inputs: Inputs, runs: Iterable[Run]) -> Table:
    def fitted(name: str, over: dict[int, Quantity]) -> _Line:
        return _Line(name, slope(over, "B", relative=False), intercept(over, "B", relative=False))

    one = theory.output_bytes(1)
    return table(
        "tbl-fit-memory",
        [
            _Line("Theory, parameters and output", one, theory.PARAMETER_BYTES),
            _Line("Theory, output alone", one, 0),
            fitted("Reported, allocated", column(inputs, "IV", "allocated_memory", "B")),
            *(
                fitted(f"{name}, {run.label}", run.over(get))
                for run in runs
                for name, get in (("Retained", run.retained), ("Peak", run.peak))
            ),
        ],
        [
            Field("Memory", "", lambda line: line.name),
            Field("Slope per image", "B", lambda line: line.slope),
            Field("Intercept", "B", lambda line: line.intercept),
        ],
    )


# --------------------------------------------------------------------------- reconciliations


#: Tables of a group of reconciliations: id, group, whether it takes the whole width.
_GROUPS: Final = (
    ("tbl-explained-work", "work", True),
    ("tbl-explained-memory", "memory", False),
    ("tbl-explained-reserved", "reserved", True),
    ("tbl-peak-contiguous", "peak", False),
    ("tbl-peak-channels-last", "peak_last", True),
    ("tbl-device-work", "device_work", True),
    ("tbl-device-requested", "device_requested", True),
    ("tbl-device-allocated", "device_allocated", True),
    ("tbl-device-reserved", "device_reserved", True),
)


def _reconciled(inputs: Inputs, groups: Mapping[str, Group]) -> Iterator[Table]:
    """The groups that have reconciliations, without terms that are 0 in all of them."""
    for id_, name, wide in _GROUPS:
        if name in groups and groups[name].found:
            group = groups[name]
            network = find_network(inputs) if name == "reserved" else None
            files = (group.file, network.file) if network else (group.file,)
            # Both terms of the source's work and memory are told, whatever they are.
            kept = group.found if name in ("work", "memory") else without_idle_terms(group.found)
            yield series_table(kept, id_, "", sources=files, wide=wide)


def _of_run(run: Run) -> Iterator[Table]:
    if counted := _executed(run):
        yield counted
    for id_, kind in (("tbl-variants", Convolution), ("tbl-products", Linear)):
        if told := without_idle_terms(variants(run, kind)):
            yield series_table(told, id_, "", Column("Variant"), sources=(run.file,))
    told_events = events(run, SHOWN_BATCH)
    if isinstance(told_events, Explanation):
        yield event_table(told_events, "tbl-events", "", (run.file,))


def _executed(run: Run) -> Table | None:
    rows = [
        (f"{SHORT_NAMES[pass_]}{NO_BREAK}{LAYOUT_NAMES[layout]}", batch, found)
        for pass_ in PASSES
        for layout in LAYOUTS
        for batch, found in executed(run.in_layout(layout), pass_).items()
    ]
    note = (
        "Kernel made: counted only where the record holds the first call of a case alone, as first "
        "less second call of another batch size."
    )
    fields: list[Field[tuple[str, int, Reconciliation]] | Difference] = [
        Field("Call", "", lambda row: row[0]),
        Field("Batch", "1", lambda row: row[1]),
        Field("Theory", "MAC", lambda row: row[2].start.amount),
        Field("Kernel made", "MAC", lambda row: row[2].terms[0].amount),
        Field("Executed", "MAC", lambda row: _amount(row[2])),
        Field("Residual", "MAC", lambda row: row[2].residual),
    ]
    made = table("tbl-executed", rows, fields, notes=(note,), sources=(run.file,), wide=True)
    return made if rows else None


def _amount(found: Reconciliation) -> Cell:
    return found.measured if isinstance(found.measured, Missing) else found.measured.amount


def _kernels(inputs: Inputs, run: Run) -> Iterator[Table]:
    """The kernels of one call, where the record has what Nsight Compute printed of them."""
    if listed := kernels_of(inputs, run, run.factors(SHOWN_BATCH, "forward")):
        yield kernel_table(run, SHOWN_BATCH, listed)
