"""training_roofline: how near training comes to the machine's roof, and what keeps it away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from report.evidence.audit import Check
from report.evidence.runs import won
from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.environments import setup
from report.paper.findings import Figure, Findings, Inputs
from report.paper.tables import Table
from report.quantity.evaluation import slower
from report.quantity.operations import at_most
from report.studies.training_roofline import (
    advice,
    batches,
    claims,
    corrected,
    figures,
    gpu,
    ladder,
    memory,
    profiled,
    run_values,
    settings,
    theory,
    threads,
    values,
)
from report.studies.training_roofline.measured import Run, primary_run, runs
from report.studies.training_roofline.source import audit
from report.studies.training_roofline.subject import LIGHT, NETWORKS, check_subject
from report.studies.training_roofline.theory import Complexity, complexities
from report.text.escape import markdown


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    all_runs = runs(inputs.records)
    primary, known = primary_run(all_runs), complexities(all_runs)
    shown, pair = _shown(all_runs, primary), threads.compared(all_runs, primary)
    judged = claims.all_claims(claims.Judging(inputs, all_runs, known))
    found = (
        *values.source_values(inputs, known),
        *run_values.run_values(inputs, primary),
        *run_values.thread_values(pair),
        *gpu.gpu_values(inputs, gpu.first_gpu(all_runs)),
    )
    tables = (
        *_source_tables(inputs, all_runs, shown, known),
        *([threads.threads_table(pair)] if pair else []),
        *(table for run in shown for table in _run_tables(inputs, run)),
        claims.verdict_table(judged),
    )
    drawn = tuple(_figures(inputs, all_runs, shown, known))
    return Findings(
        values={value.id: value for value in found},
        tables={table.id: table for table in tables},
        figures={figure.id: figure for figure in drawn},
        claims={claim.id: claim for claim in judged},
        facts=_facts(inputs, all_runs, primary, shown)
        | {
            "tables": [table.id for table in tables],
            "figures": [figure.id for figure in drawn],
            "has": [v.id for v in found if not isinstance(v.number, Missing)],
            "zero": [v.id for v in found if v.number == 0],
        },
        audits=_audit(inputs, known),
    )


def _shown(all_runs: Sequence[Run], primary: Run | None) -> tuple[Run, ...]:
    """The runs of which every table is printed: the one that the prose speaks of, and a GPU's."""
    gpu = next((run for run in all_runs if run.on_gpu), None)
    others = (gpu,) if gpu is not None and gpu is not primary else ()
    return (*((primary,) if primary else ()), *others)


def _audit(inputs: Inputs, known: dict[str, Complexity]) -> tuple[Check, ...]:
    layers = {name: of.layers for name, of in known.items()}
    return audit(inputs.reported, layers, inputs.devices)


def _source_tables(
    inputs: Inputs, all_runs: Sequence[Run], shown: Sequence[Run], known: dict[str, Complexity]
) -> Iterator[Table]:
    yield setup(inputs, all_runs)
    yield theory.complexity_table(inputs, known)
    yield theory.intensity_table(inputs, known)
    yield theory.class_table(known)
    yield theory.ridge_table(inputs, all_runs)
    caption = "Every derived number of the source, computed again from the numbers beside it."
    yield audit_table("tbl-audit", caption, _audit(inputs, known), (inputs.reported_file,))
    yield corrected.corrected_table(inputs, corrected.corrected(inputs, known))
    yield batches.saturation_table(inputs, all_runs)
    yield batches.anomaly_table(inputs, all_runs, shown)
    yield ladder.anchor_table(inputs, known)
    yield memory.theory_table(known)
    sensors = settings.sensor_table(tuple(all_runs))
    if sensors:
        yield sensors


def _run_tables(inputs: Inputs, run: Run) -> Iterator[Table]:
    """The tables of one run; those without rows are left out."""
    sweep = tuple(step for n in NETWORKS for step in run.timed(batches.sweep(run, n)))
    plain = profiled.main_profiles(run)
    optional = (
        batches.batch_table(run),
        settings.phases_table(run, sweep),
        settings.speedup_table(run),
        settings.image_table(run),
        settings.wait_table(run),
        settings.host_table(run),
        profiled.class_times(plain) if plain else None,
        profiled.side_table(profiled.profiles(run)) if plain else None,
        ladder.ladder_table(run) if ladder.all_rungs((run,)) else None,
        memory.resident_table(run),
        memory.peak_table(run),
        memory.kept_table(inputs, run),
        advice.advice_table(run),
    )
    yield from (table for table in optional if table is not None and table.rows)


def _figures(
    inputs: Inputs, all_runs: Sequence[Run], shown: Sequence[Run], known: dict[str, Complexity]
) -> Iterator[Figure]:
    yield figures.source_roofline(inputs, known)
    # More machines than the prose speaks of, and those whose memory policy is known, are cramped.
    side_by_side = tuple(run for run in all_runs if run in shown or run.policies)
    optional = [
        figures.run_roofline(inputs, side_by_side),
        figures.throughput(side_by_side),
        *(figures.layer_roofline(run) for run in shown),
        *(figures.time_shares(run) for run in shown),
        *(figures.ladder_figure(run) for run in shown),
        *(memory.peak_figure(run) for run in shown),
    ]
    yield from (figure for figure in optional if figure is not None)


def _facts(
    inputs: Inputs, all_runs: Sequence[Run], primary: Run | None, shown: Sequence[Run]
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    return {
        "measured": primary is not None and bool(primary.timed(primary.steps)),
        "recorded": bool(all_runs),
        "watched": primary is not None and bool(profiled.main_profiles(primary)),
        "climbed": primary is not None and bool(ladder.all_rungs((primary,))),
        "curved": primary is not None
        and all(not isinstance(batches.fit(primary, n), Missing) for n in NETWORKS),
        "product_moved": _in_words(run for run in all_runs if run.product_drift() == "moved"),
        "copy_moved": _in_words(run for run in all_runs if run.copy_moved()),
        "one_end": _in_words(
            run for run in all_runs if "unknown" in (run.product_drift(), run.copy_state())
        ),
        "one_process": _in_words(
            run for run in all_runs if any(run.processes(step) == 1 for step in run.steps)
        ),
        "primary_copy_moved": primary is not None and primary.copy_moved(),
        "silent": [markdown(reason) for reason in settings.silent(all_runs)],
        "light_least": primary is not None and _light_least(primary),
        "slow_singles": batches.slow_singles(primary) if primary else (),
        **_thread_facts(threads.compared(all_runs, primary)),
        "mostly": advice.mostly(primary) if primary else {},
        **_ladder_facts(primary),
        "gpu": gpu.gpu_facts(inputs, gpu.first_gpu(all_runs)),
        "best_arithmetic": markdown(won(primary, "matrix_product")),
        "best_bandwidth": markdown(won(primary, "copy")),
        "caches": list(primary.cache_roofs()) if primary else [],
        "primary": markdown(primary.label) if primary else "",
        "primary_key": primary.key if primary else "",
        "shown": [{"key": run.key, "label": markdown(run.label)} for run in shown],
        "devices": [markdown(run.label) for run in all_runs],
        "reported_device": markdown(inputs.reported.device),
        "reported_software": markdown(inputs.reported.software),
        "files": list(inputs.files),
    }


def _thread_facts(pair: threads.Threads | None) -> dict[str, str]:
    """The names of both runs on one processor."""
    return {
        "fewer_threads": markdown(pair.few.label) if pair else "",
        "more_threads": markdown(pair.many.label) if pair else "",
    }


def _in_words(found: Iterable[Run]) -> list[str]:
    return [markdown(run.label) for run in found]


def _light_least(run: Run) -> bool:
    """Whether the light network is clearly the least efficient one, each at its best batch."""
    best = {n: run_values.best_efficiency(run, n) for n in NETWORKS}
    light = best.pop(LIGHT)
    others = [found for found in best.values() if not found.missing]
    return bool(others) and slower(light / at_most(*others))


def _ladder_facts(run: Run | None) -> dict[str, Any]:
    """Which rungs each network climbed, which is its best, and which helped, in words."""
    climbed = {n: ladder.ladder(run, n) for n in NETWORKS} if run else {}
    tops = {n: top.name for n in climbed if run and (top := ladder.top(run, n))}
    most = max(map(len, climbed.values()), default=0)
    return {
        "tops": tops,
        "unhelped": [n for n, rungs in climbed.items() if rungs and n not in tops],
        "shorter_ladders": [n for n, rungs in climbed.items() if 0 < len(rungs) < most],
        "highest": [n for n, rungs in climbed.items() if rungs and len(rungs) == most],
        "helping": [f"{rung.name} for {n}" for n, rung in ladder.helping(run)] if run else [],
    }
