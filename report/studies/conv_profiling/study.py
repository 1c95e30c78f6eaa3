"""All that the paper of conv_profiling prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from report.evidence.primitives import Logged, instruction_sets, logged
from report.paper.findings import Findings, Inputs
from report.paper.images import DataSet, data_set
from report.paper.machine_comparison import Comparison, Measure
from report.paper.policies import compared, measured_gain
from report.records.passes import PASSES
from report.studies.conv_profiling import profiled, published, published_shown, rates, source
from report.studies.conv_profiling.claims import all_claims
from report.studies.conv_profiling.figures import all_figures
from report.studies.conv_profiling.measured import (
    Run,
    image_gain,
    learning_run,
    primary_run,
    runs,
)
from report.studies.conv_profiling.policy_values import alike_unmapped
from report.studies.conv_profiling.reconciled import (
    all_explained,
    changed,
    changed_peaks,
    executed,
    peaks,
    reported_estimate,
    reported_self_size,
)
from report.studies.conv_profiling.run_values import RUN_VALUES, all_executed
from report.studies.conv_profiling.subject import check_subject
from report.studies.conv_profiling.tables import all_tables, same_bytes
from report.studies.conv_profiling.tiled import takes_fourier_transforms, tiled
from report.studies.conv_profiling.values import all_values, comparing
from report.text.escape import markdown
from report.theory.reconciliation import Reconciliation

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    (
        Measure("Slowdown, memory returned", "1", measured_gain, reference=1.0),
        Measure("Gain of a batch", "1", image_gain, reference=1.0),
        Measure("Share of ceiling", "1", RUN_VALUES["best_share"], "%"),
    ),
)


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    measured = runs(inputs.records)
    primary = primary_run(measured)
    traces = tuple(traced for run in measured for traced in profiled.traces(inputs, run))
    own = [traced for traced in traces if traced.run is primary] or list(traces)
    traced = profiled.find(own, "layer"), profiled.find(own, "network")
    gpu = next((run for run in measured if run.on_gpu), None)
    chosen = primary, learning_run(measured, primary), gpu
    all_shapes = {run.key: tiled(inputs, run) for run in measured if run.on_gpu}
    shapes = all_shapes[gpu.key] if gpu else {}
    logs = logged(inputs.attachments, primary)
    images = data_set(inputs, chosen[1]) if chosen[1] else None
    offered = profiled.downloads(traces)
    theirs = published.published(inputs)
    values = all_values(inputs, measured, chosen, traced, images, shapes, logs)
    tables = all_tables(inputs, measured, chosen, traced, shapes, logs)
    figures = all_figures(inputs, measured, chosen, traced, own, shapes, logs)
    claims = {claim.id: claim for claim in all_claims(inputs, measured, all_shapes, theirs)}
    return Findings(
        values={v.id: v for v in (*values, *published.values(theirs))},
        tables={t.id: t for t in (*tables, *published_shown.tables(theirs))},
        figures={f.id: f for f in (*figures, *published_shown.figures(theirs))},
        claims=claims,
        reconciliations=_reconciliations(inputs, measured)
        | {r.id: r for r in shapes.values()}
        | {r.id: r for r in (theirs.reconciliations.values() if theirs else ())},
        facts={
            **published.facts(theirs),
            **_facts(inputs, measured, chosen, images, logs),
            "claimed": [claim.name or claim.id for claim in claims.values()],
            "download_names": list(offered),
            "traced": markdown(traced[0].run.label) if traced[0] else "",
            "fourier": gpu is not None and takes_fourier_transforms(inputs, gpu),
        },
        downloads=offered,
        audits=source.audit(inputs.reported),
    )


def _reconciliations(inputs: Inputs, measured: Sequence[Run]) -> dict[str, Reconciliation]:
    found = [reported_estimate(inputs), reported_self_size(inputs)]
    reconciliations = {r.id: r for r in found}
    for run in measured:
        for pass_ in PASSES:
            reconciliations |= {r.id: r for r in executed(run, pass_).values()}
        reconciliations |= {r.id: r for r in changed(run).values()}
        reconciliations |= {f"peak-{run.key}-{batch}": r for batch, r in peaks(run).items()}
        reconciliations |= {f"peak-{run.key}-{name}": r for name, r in changed_peaks(run).items()}
    return reconciliations


def _facts(
    inputs: Inputs,
    measured: Sequence[Run],
    chosen: tuple[Run | None, Run | None, Run | None],
    images: DataSet | None,
    logs: Sequence[Logged],
) -> Mapping[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    primary, learner, gpu = chosen
    fall = rates.deepest(rates.falls(rates.by_default(measured)))
    return {
        "measured": primary is not None,
        "timed": primary is not None and bool(primary.timed),
        "counted": primary is not None and bool(changed(primary)),
        "counted_explained": primary is not None
        and all_explained([*all_executed(primary).values()]),
        "changed_explained": primary is not None and all_explained([*changed(primary).values()]),
        "policies": compared(primary),
        "trained": learner is not None and any(map(learner.trained, learner.trainings)),
        "learner": markdown(learner.label) if learner else "",
        "primary": markdown(primary.label) if primary else "",
        "primary_key": primary.key if primary else "",
        "gpu": markdown(gpu.label) if gpu else "",
        "gpu_key": gpu.key if gpu else "",
        "devices": [markdown(run.label) for run in measured],
        "same_bytes": primary is not None and same_bytes(primary, measured),
        "fall": markdown(fall.run.label) if fall is not None else "",
        "unnamed": [
            markdown(r.label) for r in measured if r.timed and not r.on_gpu and not compared(r)
        ],
        "alike_unmapped": primary is not None and compared(primary) and alike_unmapped(primary),
        **_of_others(measured, primary),
        "drifted": primary is not None and rates.drifted(primary),
        "time_tables": [(f"tbl-time-{r.key}", markdown(r.label)) for r in measured if r.timed],
        "instructions": {k: markdown(name) for k, name in instruction_sets(logs).items()},
        "images": markdown(images.source) if images else "",
        "split": markdown(images.split) if images else "",
        "data_set": images.name if images else "",
        "reported_device": markdown(inputs.reported.device),
        "files": list(inputs.files),
    }


def _of_others(measured: Sequence[Run], primary: Run | None) -> dict[str, Any]:
    """The CPUs beside the one of the prose: their names, and whose ceiling moved."""
    return {
        "others": [
            {"number": str(number), "key": run.key, "label": markdown(run.label)}
            for number, run in enumerate(comparing(measured, primary), start=1)
        ],
        "drifted_others": [
            markdown(run.label)
            for run in measured
            if run is not primary and compared(run) and rates.drifted(run)
        ],
    }
