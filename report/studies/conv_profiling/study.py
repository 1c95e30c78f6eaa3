"""All that the paper of conv_profiling prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from report.evidence.primitives import Logged, instruction_sets, logged
from report.evidence.runs import run_of
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.records.passes import PASSES
from report.studies.conv_profiling import profiled, source
from report.studies.conv_profiling.claims import all_claims
from report.studies.conv_profiling.figures import all_figures
from report.studies.conv_profiling.measured import Run, best_rate, best_share, runs
from report.studies.conv_profiling.reconciled import (
    all_explained,
    changed,
    changed_peaks,
    executed,
    peaks,
    reported_estimate,
    reported_self_size,
)
from report.studies.conv_profiling.run_values import all_executed
from report.studies.conv_profiling.subject import check_subject
from report.studies.conv_profiling.tables import all_tables, same_bytes
from report.studies.conv_profiling.tiled import takes_fourier_transforms, tiled
from report.studies.conv_profiling.values import all_values
from report.text.escape import markdown
from report.theory.reconciliation import Reconciliation

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    (
        Measure("Best rate", "FLOP/s", best_rate, "GFLOP/s"),
        Measure("Share of ceiling", "1", best_share, "%"),
    ),
)


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    measured = runs(inputs.records)
    primary, gpu = (run_of(inputs.cast.get(role), measured) for role in ("cpu", "gpu"))
    traces = tuple(traced for run in measured for traced in profiled.traces(inputs, run))
    own = [traced for traced in traces if traced.run is primary] or list(traces)
    traced = profiled.find(own, "layer")
    chosen = primary, gpu
    all_shapes = {run.key: tiled(inputs, run) for run in measured if run.on_gpu}
    shapes = all_shapes[gpu.key] if gpu else {}
    logs = logged(inputs.attachments, primary)
    offered = profiled.downloads(traces)
    claims = {claim.id: claim for claim in all_claims(inputs, measured, all_shapes)}
    return Findings(
        values={v.id: v for v in all_values(inputs, chosen, traced, shapes, logs)},
        tables={t.id: t for t in all_tables(inputs, measured, chosen)},
        figures={f.id: f for f in all_figures(inputs, chosen, traced, own, shapes, logs)},
        claims=claims,
        reconciliations=_reconciliations(inputs, measured) | {r.id: r for r in shapes.values()},
        facts={
            **_facts(inputs, measured, chosen, logs),
            "claimed": [claim.name or claim.id for claim in claims.values()],
            "download_names": list(offered),
            "traced": markdown(traced.run.label) if traced else "",
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
    chosen: tuple[Run | None, Run | None],
    logs: Sequence[Logged],
) -> Mapping[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    primary, gpu = chosen
    return {
        "measured": primary is not None,
        "counted": primary is not None and bool(changed(primary)),
        "counted_explained": primary is not None
        and all_explained([*all_executed(primary).values()]),
        "changed_explained": primary is not None and all_explained([*changed(primary).values()]),
        "primary": markdown(primary.label) if primary else "",
        "gpu": markdown(gpu.label) if gpu else "",
        "gpu_key": gpu.key if gpu else "",
        "devices": [markdown(run.label) for run in measured],
        "same_bytes": primary is not None and same_bytes(primary, measured),
        "instructions": {k: markdown(name) for k, name in instruction_sets(logs).items()},
        "reported_device": markdown(inputs.reported.device),
        "files": list(inputs.files),
    }
