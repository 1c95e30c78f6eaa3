"""The tables of conv_scaling; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from report.paper.declared import Content, Difference, Field, table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.reconciliations import series_table
from report.paper.tables import Column, Table
from report.quantity.expression import Quantity
from report.quantity.operations import counted_in
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.device import all_gradients, backward_table, device_flops
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.network import find_network
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.subject import BATCH
from report.studies.conv_scaling.values import NO_RECORD
from report.studies.conv_scaling.variants import variants
from report.theory.reconciliation import without_idle_terms


def all_tables(
    inputs: Inputs,
    groups: Mapping[str, Group],
    runs: Sequence[Run],
    run: Run | None,
    gpu: Run | None,
) -> Iterator[Table]:
    """Every table that the data have; ``run`` is the one that the prose speaks of."""
    yield setup(inputs, runs, source=False)
    yield from _compared(inputs, run, gpu)
    group, network = groups["reserved"], find_network(inputs)
    if group.found and network is not None:
        kept, files = without_idle_terms(group.found), (group.file, network.file)
        yield series_table(kept, "tbl-explained-reserved", "", sources=files)
    if run is not None and (changed := without_idle_terms(variants(run))):
        yield series_table(changed, "tbl-variants", "", Column("Variant"), sources=(run.file,))
    if gpu is not None and not all_gradients(gpu)[0].missing:
        yield backward_table(inputs, gpu)


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
