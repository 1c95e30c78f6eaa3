"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from report.evidence.ceilings import won
from report.missing import Missing
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.paper.values import Value
from report.quantity.evaluation import point
from report.quantity.verdicts import faster
from report.studies.training_roofline import (
    batches,
    gpu,
    ladder,
    paging,
    profiled,
    published,
    replication,
    run_values,
    settings,
    threads,
    training_rates,
    values,
)
from report.studies.training_roofline.claims import all_claims
from report.studies.training_roofline.figures import all_figures
from report.studies.training_roofline.measured import Run, primary_run, runs
from report.studies.training_roofline.source_audit import audit_by_kind
from report.studies.training_roofline.subject import NETWORKS, check_subject
from report.studies.training_roofline.tables import all_tables
from report.studies.training_roofline.theory import Complexity, complexities
from report.text.escape import markdown

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    tuple(
        Measure(f"{name}, of ceiling", "1", partial(run_values.best_efficiency, network=name), "%")
        for name in NETWORKS
    ),
)


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    measured = runs(inputs.records)
    primary, known = primary_run(measured), complexities(measured)
    shown, pair = _shown(measured, primary), threads.compared(measured, primary)
    repeated = replication.repeated_runs(measured, primary)
    layers = {name: of.layers for name, of in known.items()}
    by_kind = audit_by_kind(inputs.reported, layers, inputs.devices)
    checks = tuple(chain.from_iterable(by_kind.values()))
    theirs, trained = published.published(inputs), training_rates.trained(inputs)
    of_others = (*published.claims(theirs), *training_rates.claims(trained))
    judged = (*all_claims(inputs, measured, known, pair), *of_others)
    claims = {claim.id: claim for claim in judged}
    found = (
        *_own_values(inputs, measured, known, pair),
        *replication.agreement_values(repeated),
        *published.values(theirs),
        *training_rates.values(trained),
    )
    tables = all_tables(inputs, measured, shown, known, by_kind)
    figures = (
        *all_figures(inputs, measured, shown, known, by_kind),
        *published.figures(theirs),
        *training_rates.figures(trained),
    )
    return Findings(
        values={value.id: value for value in found},
        tables={table.id: table for table in tables},
        figures={figure.id: figure for figure in figures},
        claims=claims,
        facts={
            **_facts(inputs, measured, primary, shown, repeated),
            **published.facts(theirs),
            **training_rates.facts(trained),
            "claimed": [claim.name or claim.id for claim in claims.values()],
            "has": [v.id for v in found if not isinstance(v.number, Missing)],
            "zero": [v.id for v in found if v.number == 0],
        },
        audits=checks,
    )


def _own_values(
    inputs: Inputs,
    measured: Sequence[Run],
    known: dict[str, Complexity],
    pair: threads.Threads | None,
) -> Iterator[Value]:
    """The numbers of the prose that are not others' measurements."""
    yield from values.source_values(inputs, known)
    yield from run_values.run_values(inputs, primary_run(measured))
    yield from run_values.thread_values(pair)
    yield from paging.paging_values(_of_policies(measured))
    yield from gpu.gpu_values(inputs, gpu.first_gpu(measured))


def _of_policies(all_runs: Sequence[Run]) -> Run | None:
    """The run whose steps the prose compares by memory policy: its own, or the newest such."""
    kept, primary = paging.retaining(all_runs), primary_run(all_runs)
    return primary if primary in kept else next(iter(kept), None)


def _shown(all_runs: Sequence[Run], primary: Run | None) -> tuple[Run, ...]:
    """The runs of which every table is printed: the one that the prose speaks of, and a GPU's."""
    gpu = next((run for run in all_runs if run.on_gpu), None)
    others = (gpu,) if gpu is not None and gpu is not primary else ()
    return (*((primary,) if primary else ()), *others)


def _facts(
    inputs: Inputs,
    all_runs: Sequence[Run],
    primary: Run | None,
    shown: Sequence[Run],
    repeated: Sequence[Run],
) -> Mapping[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    compared = _of_policies(all_runs)
    return {
        "measured": primary is not None and bool(primary.timed(primary.steps)),
        "recorded": bool(all_runs),
        "watched": primary is not None and bool(profiled.main_profiles(primary)),
        "curved": primary is not None
        and all(not isinstance(batches.fit(primary, n), Missing) for n in NETWORKS),
        **_drift_facts(all_runs),
        "one_process": _in_words(
            run for run in all_runs if any(run.processes(step) == 1 for step in run.steps)
        ),
        "silent": [markdown(reason) for reason in settings.silent(all_runs)],
        "growing": batches.growing(primary) if primary else [],
        "slow_singles": batches.slow_singles(primary) if primary else [],
        "apart": run_values.furthest_apart(primary),
        "repeated": [
            {"number": str(place), "label": markdown(run.label)}
            for place, run in enumerate(repeated, start=1)
        ],
        "few_processes": primary is not None and run_values.few_processes(primary),
        "one_profile": primary is not None and set(primary.profiling_processes) == {1},
        **_thread_facts(threads.compared(all_runs, primary)),
        "paging": markdown(compared.label) if compared else "",
        "own_paging": compared is not None and compared is primary,
        **_ladder_facts(primary),
        "gpu": gpu.gpu_facts(inputs, gpu.first_gpu(all_runs)),
        **_ceiling_facts(primary),
        "reduced_slower": primary is not None and run_values.reduced_is_slower(primary),
        "primary": markdown(primary.label) if primary else "",
        "primary_key": primary.key if primary else "",
        "shown": [{"key": run.key, "label": markdown(run.label)} for run in shown],
        "devices": [markdown(run.label) for run in all_runs],
        "reported_device": markdown(inputs.reported.device),
        "files": list(inputs.files),
    }


def _ceiling_facts(primary: Run | None) -> dict[str, Any]:
    """Which programs set the ceilings of the machine that the prose is about."""
    arithmetic = won(primary, "matrix_product")
    return {
        "best_arithmetic": markdown(arithmetic),
        "framework_best": arithmetic.startswith("torch."),
        "product_beaten": primary is not None and run_values.beats_own_product(primary),
        "best_bandwidth": markdown(won(primary, "copy")),
        "caches": list(primary.cache_roofs()) if primary else [],
        "primary_copy_moved": primary is not None and primary.copy_moved(),
    }


def _drift_facts(all_runs: Sequence[Run]) -> dict[str, Any]:
    """The machines whose ceilings moved while they measured, or may have."""
    return {
        "product_moved": _in_words(run for run in all_runs if run.product_drift() == "moved"),
        "copy_moved": _in_words(run for run in all_runs if run.copy_moved()),
        "one_end": _in_words(
            run for run in all_runs if "unknown" in (run.product_drift(), run.copy_state())
        ),
    }


def _thread_facts(pair: threads.Threads | None) -> dict[str, Any]:
    """The names of both runs on one processor, and the steps that gain more than the threads."""
    return {
        "superlinear": [f"{step.network} at a batch of {step.batch}" for step in pair.superlinear]
        if pair
        else [],
        "copy_superlinear": pair is not None and pair.copy_superlinear(),
        "fewer_threads": markdown(pair.few.label) if pair else "",
        "more_threads": markdown(pair.many.label) if pair else "",
    }


def _in_words(found: Iterable[Run]) -> list[str]:
    return [markdown(run.label) for run in found]


def _ladder_facts(run: Run | None) -> dict[str, Any]:
    """The network that climbed furthest, and its rungs with the ids of their gains."""
    climbed = {n: ladder.ladder(run, n) for n in NETWORKS} if run else {}
    network = max(climbed, key=lambda n: len(climbed[n]), default="")
    rungs = [
        {"name": rung.name, "gain": ladder.gain_id(network, rung)}
        for rung in climbed.get(network, ())[1:]
    ]
    gains = (
        {}
        if run is None
        else {
            rung.name: gain
            for rung in climbed.get(network, ())
            if rung.below
            and faster(change := run.speedup(rung.below, rung.step))
            and isinstance(gain := point(change), float)
        }
    )
    best = max(gains, key=lambda name: gains[name], default="")
    return {"ladder": {"network": network, "rungs": rungs, "best": best} if rungs else {}}
