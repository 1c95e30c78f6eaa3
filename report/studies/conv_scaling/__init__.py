"""conv_scaling: how one convolution grows in work, memory and time with the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Claim, Findings, Inputs
from report.paper.tables import Table
from report.studies.conv_scaling import (
    claims,
    device_findings,
    explained,
    figures,
    run_values,
    tables,
    values,
    variants,
)
from report.studies.conv_scaling.device import gpu_run
from report.studies.conv_scaling.measured import Run, primary_run, runs
from report.studies.conv_scaling.network import network, network_values
from report.studies.conv_scaling.subject import check_subject, subject
from report.text.escape import markdown
from report.theory.memory import arithmetic_intensity


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints; raises ``StudyError`` for records that do not fit it."""
    for item in inputs.records:
        check_subject(item)
    all_runs = runs(inputs.records)
    primary, gpu = primary_run(all_runs), gpu_run(all_runs)
    found = (
        *values.theory_values(),
        *network_values(inputs),
        *values.reported_values(inputs),
        *run_values.run_values(primary),
        *explained.explained_values(inputs, primary),
        *device_findings.device_values(gpu),
    )
    by_id = {value.id: value for value in found}
    judged = claims.all_claims(inputs, all_runs, by_id)
    alike = _alike(all_runs)
    drawn = (*figures.all_figures(inputs, all_runs), *explained.explained_figures(inputs, primary))
    return Findings(
        values=by_id,
        tables={t.id: t for t in _tables(inputs, all_runs, alike, judged)},
        figures={figure.id: figure for figure in drawn},
        claims={claim.id: claim for claim in judged},
        reconciliations={
            **explained.all_reconciliations(inputs, primary),
            **device_findings.device_reconciliations(gpu),
        },
        facts=_facts(inputs, all_runs, alike),
    )


def _tables(
    inputs: Inputs,
    all_runs: Sequence[Run],
    alike: Sequence[Sequence[Run]],
    judged: Sequence[Claim],
) -> tuple[Table, ...]:
    return (
        network(inputs),
        tables.theory_work(inputs),
        tables.theory_memory(inputs),
        setup(inputs, all_runs),
        tables.reported_memory(inputs),
        *(tables.measured_memory(group) for group in alike),
        *(tables.measured_time(run) for run in all_runs),
        tables.compared_work(inputs, primary_run(all_runs)),
        tables.compared_memory(inputs, primary_run(all_runs)),
        *explained.explained_tables(inputs, primary_run(all_runs)),
        *device_findings.device_tables(inputs, gpu_run(all_runs)),
        tables.byte_fits(inputs, all_runs),
        tables.time_fits(all_runs),
        tables.verdicts(judged),
    )


def _alike(all_runs: Sequence[Run]) -> tuple[tuple[Run, ...], ...]:
    """Runs grouped by what their allocator did, so that equal tables are printed once."""
    groups: dict[object, list[Run]] = {}
    for run in all_runs:
        sizes = tuple(
            (batch, run.held(batch), run.peak(batch), run.peak(batch, "forward_backward"))
            for batch in run.batches
        )
        # Only a GPU's table has a column of reserved bytes.
        groups.setdefault((run.stored.record.environment.device, sizes), []).append(run)
    return tuple(tuple(group) for group in groups.values())


def _side_of_ridge(run: Run) -> str:
    """Whether work or traffic limits the layer in theory, at both ends of the batch sizes."""
    product, copy = run.ceiling("matrix_product"), run.ceiling("copy")
    if isinstance(product, Missing) or isinstance(copy, Missing) or not run.batches:
        return "but without both ceilings the side of the ridge is unknown"
    ridge = product.value / copy.value
    ends = {arithmetic_intensity(subject(run.batches[i])) > ridge for i in (0, -1)}
    if ends == {True}:
        return "above the ridge, so that theory expects arithmetic to be the limit, not traffic"
    if ends == {False}:
        return "below the ridge, so that theory expects traffic to be the limit, not arithmetic"
    return "on both sides of the ridge, so that the limit changes with the batch size"


def _facts(
    inputs: Inputs, all_runs: Sequence[Run], alike: Sequence[Sequence[Run]]
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    primary, gpu = primary_run(all_runs), gpu_run(all_runs)
    return {
        "measured": primary is not None and bool(primary.measured_batches("forward")),
        "falls": primary is not None and run_values.falls_beyond_best(primary),
        "variants_explained": primary is not None and explained.all_variants_explained(primary),
        "products_seen": primary is not None and variants.products_seen(primary),
        "faults": primary is not None and explained.sees_faults(primary),
        "side_of_ridge": _side_of_ridge(primary) if primary else "",
        "primary": markdown(primary.label) if primary else "",
        "gpu": markdown(gpu.label) if gpu else "",
        "devices": [markdown(run.label) for run in all_runs],
        "memory_tables": [f"tbl-memory-{group[0].key}" for group in alike],
        "time_tables": [f"tbl-time-{run.key}" for run in all_runs],
        "reported_device": markdown(inputs.reported.device),
        "reported_software": markdown(inputs.reported.software),
        "files": [item.file for item in inputs.records],
    }
