"""conv_profiling: what the profilers see of one convolution, and whether theory says so before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Claim, Figure, Findings, Inputs
from report.paper.images import DataSet, data_set, sample
from report.paper.kernels import kernel_table, kernels_of
from report.paper.tables import Table
from report.records.passes import PASSES
from report.studies.conv_profiling import (
    claims,
    figures,
    network,
    profiled,
    run_values,
    source,
    source_values,
    tables,
    training,
    values,
)
from report.studies.conv_profiling.gpu_values import gpu_values, tiled_values
from report.studies.conv_profiling.measured import Run, learning_run, primary_run, runs
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import (
    all_explained,
    changed,
    changed_peaks,
    executed,
    peaks,
    reported_estimate,
    reported_self_size,
)
from report.studies.conv_profiling.subject import BASE, check_subject
from report.studies.conv_profiling.tiled import takes_fourier_transforms, tiled
from report.text.escape import markdown
from report.theory.reconciliation import Reconciliation


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    all_runs = runs(inputs.records)
    primary = primary_run(all_runs)
    traces = tuple(traced for run in all_runs for traced in profiled.traces(inputs, run))
    own = [traced for traced in traces if traced.run is primary] or list(traces)
    layer, whole = profiled.find(own, "layer"), profiled.find(own, "network")
    learner = learning_run(all_runs, primary)
    gpu = next((run for run in all_runs if run.on_gpu), None)
    tiles = {run.key: tiled(inputs, run) for run in all_runs if run.on_gpu}
    shapes = tiles[gpu.key] if gpu else {}
    images = data_set(inputs, learner) if learner else None
    found = (
        *values.theory_values(),
        *source_values.source_values(inputs),
        *run_values.run_values(primary, learner, (layer, whole), images),
        *gpu_values(gpu),
        *tiled_values(shapes, gpu.file if gpu else ""),
    )
    by_id = {value.id: value for value in found}
    judged = claims.all_claims(inputs, all_runs, by_id, tiles)
    drawn = _figures(inputs, all_runs, learner, (layer, whole))
    offered = profiled.downloads(traces)
    printed = _tables(inputs, all_runs, (primary, learner), (layer, whole), images, judged)
    return Findings(
        values=by_id,
        tables={table.id: table for table in printed}
        | ({table.id: table} if gpu and (table := tables.tiled_table(shapes, gpu)) else {}),
        figures={figure.id: figure for figure in drawn},
        claims={claim.id: claim for claim in judged},
        reconciliations=_reconciliations(inputs, all_runs) | {r.id: r for r in shapes.values()},
        facts=_facts(inputs, all_runs, (primary, learner), images)
        | {
            "download_names": list(offered),
            "partitions": not isinstance(by_id["partitions"].number, Missing),
            "gpu": markdown(gpu.label) if gpu else "",
            "gpu_key": gpu.key if gpu else "",
            "fourier": gpu is not None and takes_fourier_transforms(inputs, gpu),
            "gpu_counted": not isinstance(by_id["gpu_first"].number, Missing),
            "other_trained": not isinstance(by_id["other_accuracy"].number, Missing),
        },
        downloads=offered,
        audits=source.audit(inputs.reported),
    )


def _tables(
    inputs: Inputs,
    all_runs: Sequence[Run],
    chosen: tuple[Run | None, Run | None],
    traced: tuple[Traced | None, Traced | None],
    images: DataSet | None,
    judged: Sequence[Claim],
) -> tuple[Table, ...]:
    (primary, learner), (layer, whole) = chosen, traced
    optional = (
        training.table(learner, images) if learner else None,
        profiled.memory_table(layer) if layer else None,
        profiled.time_table(whole) if whole else None,
        profiled.kernel_table(layer) if layer else None,
        _device_kernels(inputs, all_runs),
    )
    return (
        network.table(inputs, learner),
        setup(inputs, all_runs),
        tables.source_kernels(inputs),
        tables.work(all_runs),
        tables.source_operators(inputs),
        tables.operators_compared(inputs, layer),
        tables.estimate(inputs),
        tables.memory(all_runs),
        tables.audited(inputs),
        *(table for table in optional if table is not None),
        *(tables.run_tables(primary) if primary else ()),
        tables.verdicts(judged),
    )


def _device_kernels(inputs: Inputs, all_runs: Sequence[Run]) -> Table | None:
    """The kernels of one call with their counters, of the newest run that has them."""
    for run in all_runs:
        batch = profiled.SHOWN_BATCH
        listed = kernels_of(inputs, run, BASE.factors(batch, "forward"))
        if listed:
            return kernel_table(run, batch, listed)
    return None


def _figures(
    inputs: Inputs,
    all_runs: Sequence[Run],
    learner: Run | None,
    traced: tuple[Traced | None, Traced | None],
) -> tuple[Figure, ...]:
    optional = (
        sample(inputs, learner) if learner else None,
        training.course(learner) if learner else None,
        figures.changed_dimensions(all_runs),
        *(profiled.timeline(one) if one else None for one in traced),
    )
    return (
        figures.work(all_runs),
        figures.memory(inputs, all_runs),
        figures.estimate(inputs),
        *(figure for figure in optional if figure is not None),
    )


def _reconciliations(inputs: Inputs, all_runs: Sequence[Run]) -> dict[str, Reconciliation]:
    found = [reported_estimate(inputs), reported_self_size(inputs)]
    told = {r.id: r for r in found}
    for run in all_runs:
        for pass_ in PASSES:
            told |= {r.id: r for r in executed(run, pass_).values()}
        told |= {r.id: r for r in changed(run).values()}
        told |= {f"peak-{run.key}-{batch}": r for batch, r in peaks(run).items()}
        told |= {f"peak-{run.key}-{name}": r for name, r in changed_peaks(run).items()}
    return told


def _facts(
    inputs: Inputs,
    all_runs: Sequence[Run],
    chosen: tuple[Run | None, Run | None],
    images: DataSet | None,
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    primary, learner = chosen
    counted = executed(primary) if primary else {}
    backward = executed(primary, "forward_backward") if primary else {}
    dimensions = changed(primary) if primary else {}
    return {
        "measured": primary is not None,
        "counted": bool(counted),
        "counted_explained": all_explained([*counted.values(), *backward.values()]),
        "changed_explained": all_explained(list(dimensions.values())),
        "below_peak": primary is not None and tables.estimate_below_peak(primary),
        "trained": learner is not None and any(map(learner.trained, learner.trainings)),
        "learner": markdown(learner.label) if learner else "",
        "on_gpu": primary is not None and primary.on_gpu,
        "primary": markdown(primary.label) if primary else "",
        "devices": [markdown(run.label) for run in all_runs],
        "images": markdown(images.source) if images else "",
        "split": markdown(images.split) if images else "",
        "data_set": images.name if images else "",
        "reported_device": markdown(inputs.reported.device),
        "reported_software": markdown(inputs.reported.software),
        "files": list(inputs.files),
    }
