"""The tables of conv_scaling; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from report.evidence.events import Explanation
from report.evidence.primitives import Logged
from report.missing import Missing
from report.paper.declared import Content, Difference, Field, table
from report.paper.environments import setup
from report.paper.events import event_table
from report.paper.findings import Inputs
from report.paper.kernels import kernel_table, kernels_of
from report.paper.policies import compared
from report.paper.primitives import primitives_table
from report.paper.rates import time_table
from report.paper.reconciliations import series_table
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Quantity
from report.quantity.operations import counted_in
from report.records.passes import PASSES, SHORT_NAMES
from report.studies.conv_scaling import instructions, policies, theory
from report.studies.conv_scaling.device import all_gradients, backward_table, device_flops
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.listed_runs import runs_table
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.network import find_network, network_table
from report.studies.conv_scaling.reconciled import events, executed
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.subject import BATCH, LAYOUT_NAMES, LAYOUTS, SHOWN_BATCH
from report.studies.conv_scaling.values import NO_RECORD
from report.studies.conv_scaling.variants import variants
from report.text.format import NO_BREAK
from report.theory.reconciliation import Reconciliation, without_idle_terms


def all_tables(
    inputs: Inputs,
    groups: Mapping[str, Group],
    logs: tuple[Logged, ...],
    runs: Sequence[Run],
    same_memory: Sequence[Sequence[Run]],
    run: Run | None,
    second: Run | None,
    gpu: Run | None,
) -> Iterator[Table]:
    """Every table that the data have; ``run`` is the one that the prose speaks of.

    ``second`` is that of another processor, ``same_memory`` the runs in the groups of ``alike``.
    """
    if network := find_network(inputs):
        yield network_table(inputs, network)
    yield setup(inputs, runs, source=False)
    yield runs_table(inputs, runs)
    yield from _compared(inputs, run, gpu)
    yield from (_memory(group[0], [r.file for r in group]) for group in same_memory)
    # Shares of a GPU's ceiling need many digits, for which a page has no room.
    yield from (time_table(each, each.batches, shares=not each.on_gpu) for each in runs)
    yield from _reconciled(inputs, groups)
    if run is not None:
        yield from _of_run(run, second, gpu)
        each = [each for each in (run, second, gpu) if each is not None]
        yield from _proportional(inputs, each)
    if run is not None and compared(run):
        both = [each for each in (run, second) if each is not None]
        yield policies.slowdown_table(both, "tbl-slowdown", "forward")
        yield policies.slowdown_table(both, "tbl-training", "forward_backward")
    if gpu is not None:
        yield from _of_gpu(inputs, gpu)
    if logs:
        yield primitives_table(logs, Field("Case", "", instructions.name))


def _compared(inputs: Inputs, run: Run | None, gpu: Run | None) -> Iterator[Table]:
    """Theory, own measurement and what the source reports, side by side."""
    batches = reported_batches(inputs)

    def reported(number: str, key: str, unit: str, name: str) -> Field[int]:
        return Field(name, unit, column(inputs, number, key, unit).__getitem__)

    def retained(batch: int) -> Content:
        return NO_RECORD if run is None else run.retained(batch)

    counted = column(inputs, "III", "total_flops", "FLOP")
    yield table(
        "tbl-work",
        batches,
        [
            BATCH,
            Field("Theory", "MAC", theory.multiply_adds),
            reported("III", "multiply_add", "MAC", "Source, fused"),
            Field("Source, excess", "FLOP", lambda b: counted[b] - theory.work(b)),
            *(_counted_on(gpu) if gpu is not None else ()),
        ],
        wide=True,
    )
    yield table(
        "tbl-memory",
        batches,
        [
            BATCH,
            Field("Theory", "B", theory.memory),
            Field("Own", "B", retained),
            reported("IV", "allocated_memory", "B", "Allocated"),
            Difference("Allocated", "Theory"),
            reported("IV", "reserved_memory", "B", "Reserved"),
        ],
        wide=True,
    )


def _counted_on(gpu: Run) -> Iterator[Field[int]]:
    """What a GPU's counters saw of a forward call: fused multiply-adds, and more than theory."""

    def fused(batch: int) -> Quantity:
        return gpu.repeated("ncu_fp32_multiply_adds", gpu.factors(batch, "forward"))

    name = gpu.label.removeprefix("NVIDIA ")
    yield Field(f"{name}, fused", "MAC", lambda batch: counted_in("MAC", fused(batch)))
    yield Field(f"{name}, excess", "FLOP", lambda b: device_flops(gpu, b) - theory.work(b))


# ------------------------------------------------------------------------------------- a run


def alike(runs: Sequence[Run]) -> tuple[tuple[Run, ...], ...]:
    """Runs grouped by what their allocator did, so that equal tables are printed once."""
    groups: dict[object, list[Run]] = {}
    for run in runs:
        groups.setdefault(_memory(run, []).rows, []).append(run)
    return tuple(tuple(group) for group in groups.values())


def _memory(run: Run, files: Sequence[str]) -> Table:
    def bytes_(name: str, get: Callable[[int], Quantity]) -> Field[int]:
        return Field(name, "B", get, "MB")

    return table(
        f"tbl-memory-{run.key}",
        run.batches,
        [
            BATCH,
            bytes_("Output", theory.output_bytes),
            bytes_("Retained", run.retained),
            bytes_("Peak", run.peak),
            Field("Peak ÷ output", "1", lambda b: run.peak(b) / theory.output_bytes(b)),
        ],
        sources=tuple(files),
    )


def _of_run(run: Run, second: Run | None, gpu: Run | None) -> Iterator[Table]:
    if counted := _executed(run):
        yield counted
    if reconciliations := without_idle_terms(variants(run)):
        yield series_table(
            reconciliations, "tbl-variants", "", Column("Variant"), sources=(run.file,)
        )
    told_events = events(run, SHOWN_BATCH)
    if isinstance(told_events, Explanation):
        yield event_table(told_events, "tbl-events", "", (run.file,))
    if (last := run.in_layout("channels_last")).timed:
        yield _layouts(run, last, second, gpu)
    if compared(run):
        yield policies.terms_table(run)


def _proportional(inputs: Inputs, runs: Sequence[Run]) -> Iterator[Table]:
    """The time of an image beyond that at the source's smallest batch size, run by run."""
    first = reported_batches(inputs)[0]
    timed = [run for run in runs if first in run.timed and run.names_policy]
    batches = sorted({batch for run in timed for batch in run.timed if batch > first})

    def field(run: Run) -> Field[int]:
        return Field(run.short, "1", lambda batch: run.per_image(batch, first) - 1, "%")

    if batches:
        files = tuple(run.file for run in timed)
        yield table("tbl-proportional", batches, [BATCH, *map(field, timed)], sources=files)


def _layouts(run: Run, last: Run, second: Run | None, gpu: Run | None) -> Table:
    """Forward calls in both layouts, at the batch sizes of the one that has fewer."""

    def peak(seen: Run) -> Field[int]:
        return Field(
            f"NHWC peak, {seen.label}", "1", lambda b: seen.peak(b) / theory.output_bytes(b)
        )

    def ratio(seen: Run) -> Field[int]:
        in_last = seen.in_layout("channels_last")
        name = "Ratio" if seen is run else f"Ratio, {seen.short}"
        return Field(name, "1", lambda batch: seen.time(batch) / in_last.time(batch))

    others = () if gpu is None or gpu is run else (peak(gpu.in_layout("channels_last")),)
    return table(
        "tbl-layout",
        last.timed,
        [
            BATCH,
            Field("NCHW", "s", run.time, "ms"),
            Field("NHWC", "s", last.time, "ms"),
            *map(ratio, (run,) if second is None else (run, second)),
            peak(last),
            *others,
        ],
        sources=(run.file,),
    )


def _executed(run: Run) -> Table | None:
    rows = [
        (f"{SHORT_NAMES[pass_]}{NO_BREAK}{LAYOUT_NAMES[layout]}", batch, found)
        for pass_ in PASSES
        for layout in LAYOUTS
        for batch, found in executed(run.in_layout(layout), pass_).items()
    ]
    note = (
        "Kernel made: small batches are counted in a second call, which makes no kernel; larger "
        "ones in the first call alone, less what making takes at a batch that has both."
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


# ------------------------------------------------------------- reconciliations, and the GPU


def _reconciled(inputs: Inputs, groups: Mapping[str, Group]) -> Iterator[Table]:
    """How the source's reserved bytes follow from the rules of the allocator, term by term."""
    group, network = groups["reserved"], find_network(inputs)
    if group.found and network is not None:
        kept, files = without_idle_terms(group.found), (group.file, network.file)
        yield series_table(kept, "tbl-explained-reserved", "", sources=files)


def _of_gpu(inputs: Inputs, run: Run) -> Iterator[Table]:
    """What calls execute; the kernels of one, where the record has what Nsight Compute printed."""
    if not all_gradients(run)[0].missing:
        yield backward_table(inputs, run)
    if listed := kernels_of(inputs, run, run.factors(SHOWN_BATCH, "forward")):
        yield kernel_table(run, SHOWN_BATCH, listed)
