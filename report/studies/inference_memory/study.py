"""inference_memory: what CNN inference takes in time and memory, and what saves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Claim, Download, Figure, Findings, Inputs
from report.paper.tables import Table
from report.paper.values import Value
from report.quantity.evaluation import level
from report.studies.inference_memory import (
    batches,
    choices,
    claims,
    faults,
    layouts,
    limits,
    memory,
    operators,
    other_devices,
    policies,
    precision,
    run_values,
    setting_values,
    source,
    tilings,
    values,
)
from report.studies.inference_memory.measured import Run, primary_run, runs
from report.studies.inference_memory.networks import network_table
from report.studies.inference_memory.operators import Traced, traces
from report.studies.inference_memory.processor import clock_step
from report.studies.inference_memory.subject import check_subject
from report.text.escape import markdown
from report.theory.reconciliation import Reconciliation


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints; raises ``StudyError`` for records that do not fit it."""
    for item in inputs.records:
        check_subject(item)
    all_runs = runs(inputs.records)
    primary = primary_run(all_runs)
    # What the prose speaks of comes first, wherever devices are listed.
    all_runs = tuple(sorted(all_runs, key=lambda run: run is not primary))
    judged = claims.all_claims(inputs, all_runs)
    # The prose is about the sweep of a residual network; without one it shows none of the rest.
    shown = primary if primary and batches.resnets(primary) else None
    traced = traces(inputs, shown) if shown else ()
    tables = [
        network_table(inputs, all_runs),
        setup(inputs, all_runs),
        source.audit(inputs),
        *(table for run in all_runs for table in claims.verdict_tables(run, judged)),
        *(_primary_tables(inputs, shown, traced) if shown else ()),
        *(table for run in all_runs if shown for table in _tables_of(inputs, run, shown)),
    ]
    return Findings(
        values={value.id: value for value in _values(inputs, all_runs, primary)},
        tables={table.id: table for table in tables},
        figures={f.id: f for f in (_figures(inputs, shown) if shown else ())},
        claims={claim.id: claim for claim in judged},
        reconciliations=_reconciliations(all_runs),
        facts=_facts(inputs, all_runs, primary, judged),
        downloads=_downloads(inputs, all_runs, traced),
        audits=source.checks(inputs.reported),
    )


def _others(all_runs: Sequence[Run], primary: Run | None) -> list[Run]:
    """The runs that the prose does not speak of."""
    return [run for run in all_runs if run is not primary]


def _values(inputs: Inputs, all_runs: Sequence[Run], primary: Run | None) -> Iterator[Value]:
    yield from values.all_values(inputs, primary)
    if primary is not None:
        for run in _others(all_runs, primary):
            yield from other_devices.all_values(inputs, run, primary)


def _primary_tables(inputs: Inputs, run: Run, traced: Sequence[Traced]) -> Iterator[Table]:
    """The tables of the run that the prose speaks of; those without a row are left out."""
    found = (
        batches.knee_table(run),
        memory.peak_table(run),
        memory.agreement_table(run),
        limits.limit_table(run),
        limits.failures_table(run),
        precision.precision_table(run),
        precision.accuracy_table(run),
        layouts.amp_table(run),
        tilings.tiling_table(run),
        faults.fault_table(run),
        operators.operator_table(run, traced),
        choices.fusion_table(run),
        choices.published_table(inputs, run),
        choices.decision_table(run),
    )
    yield from (table for table in found if table is not None and table.rows)


def _tables_of(inputs: Inputs, run: Run, primary: Run | None) -> Iterator[Table]:
    """The tables that every run has, and what other runs show of AMP and layout."""
    found = [batches.batch_table(inputs, run), operators.wait_table(run)]
    if run is not primary:
        found.append(layouts.amp_table(run, f"tbl-amp-{run.key}"))
    yield from (table for table in found if table.rows)


def _figures(inputs: Inputs, run: Run) -> Iterator[Figure]:
    """The figures of the run that the prose speaks of, where it measured what they show."""
    if batches.resnets(run):
        yield batches.time_figure(inputs, run)
        yield batches.memory_figure(run)
        yield operators.wait_figure(run)
    if memory.compared(run):
        yield memory.agreement_figure(run)
    limited = limits.limit_figure(run)
    if limited is not None:
        yield limited
    if precision.pairs(run):
        yield precision.precision_figure(run)
    if layouts.base_calls(run):
        yield layouts.amp_figure(run)
    if tilings.tiled_calls(run):
        yield tilings.tiling_figure(run)
    yield choices.published_figure(inputs, run)
    yield from policies.figures(run)


def _reconciliations(all_runs: Sequence[Run]) -> dict[str, Reconciliation]:
    found = [memory.reconciliation(run, c) for run in all_runs for c in memory.compared(run)]
    return {this.id: this for this in found if not isinstance(this, Missing)}


def _downloads(
    inputs: Inputs, all_runs: Sequence[Run], traced: Sequence[Traced]
) -> dict[str, Download]:
    primary = primary_run(all_runs)
    sweeps = {f"batches-{run.key}": batches.download(inputs, run) for run in all_runs}
    return {**sweeps, **(operators.downloads(primary, traced) if primary else {})}


def _facts(
    inputs: Inputs, all_runs: Sequence[Run], primary: Run | None, judged: Sequence[Claim]
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    names = batches.resnets(primary) if primary else ()
    return {
        "measured": bool(names),
        "primary": markdown(primary.label) if primary else "",
        "primary_key": primary.key if primary else "",
        "others": [other_devices.about(r, primary) for r in _others(all_runs, primary) if primary],
        "devices": [markdown(run.label) for run in all_runs],
        "claim_tables": [
            f"tbl-{kind}-{run.key}" for run in all_runs for kind in ("claims", "verdicts")
        ],
        "one_image": primary is not None and _starts_at_one(primary),
        "one_knee": primary is not None and len(set(map(level, run_values.knees(primary)))) == 1,
        "shallow": names[0] if names else "",
        "deep": names[-1] if names else "",
        "scored": precision.scored_network(primary) if primary else "",
        "datasets": list(precision.datasets(primary)) if primary else [],
        "reduced": layouts.amp_precision(primary) if primary else "",
        "maps_explain": _is_verdict(judged, primary, "amc-theory", "supported"),
        "policies": policies.deepest(primary) is not None,
        "falls": primary is not None and run_values.falls(primary),
        "tiles_gain": _is_verdict(judged, primary, "tile-pays", "supported"),
        "best_tiles": setting_values.best_tiles(primary) if primary else "",
        "untiled_scatters": primary is not None and setting_values.untiled_scatters(primary),
        "tiles_cost": _is_verdict(judged, primary, "tile-pays", "refuted"),
        "coarse_clock": primary is not None and clock_step(primary) > 0,
        "too_large": primary is not None and limits.too_large(primary),
        "faults_exact": primary is not None and faults.exact(primary) > 0,
        "faults_near": primary is not None and bool(faults.near(primary)),
        "half_grows": primary is not None and setting_values.half_grows(primary),
        "small_misses": memory.missed(primary) if primary else "",
        "no_one_wins": _is_verdict(judged, primary, "no-one-wins", "supported"),
        "exact": primary is not None and _all_exact(primary),
        "reported_device": markdown(inputs.reported.device),
        "reported_software": markdown(inputs.reported.software),
        "files": list(inputs.files),
    }


def _all_exact(run: Run) -> bool:
    """Whether every judged peak is predicted to the byte."""
    found = memory.residuals(run, memory.judged(run))
    return bool(found) and not any(residual for residual, _ in found.values())


def _starts_at_one(run: Run) -> bool:
    """Whether the batch sizes of the deepest network begin with a single image."""
    names = batches.resnets(run)
    return bool(names) and run.timed(batches.sweep(run, names[-1]))[0].batch == 1


def _is_verdict(judged: Sequence[Claim], run: Run | None, id_: str, verdict: str) -> bool:
    """Whether a claim has this verdict on the run that the prose speaks of."""
    wanted = f"{id_}-{run.key}" if run else ""
    return any(claim.id == wanted and claim.verdict == verdict for claim in judged)
