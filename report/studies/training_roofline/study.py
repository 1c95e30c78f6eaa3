"""All that the paper of training_roofline prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from report.evidence.ceilings import won
from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.quantity.evaluation import point
from report.quantity.verdicts import faster
from report.studies.training_roofline import (
    batches,
    gpu,
    ladder,
    profiled,
    published,
    run_values,
    values,
)
from report.studies.training_roofline.claims import all_claims
from report.studies.training_roofline.figures import all_figures
from report.studies.training_roofline.measured import Run, runs
from report.studies.training_roofline.source_audit import audit_by_kind
from report.studies.training_roofline.subject import NETWORKS, check_subject
from report.studies.training_roofline.tables import all_tables
from report.studies.training_roofline.theory import complexities
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
    primary, on_gpu = (run_of(inputs.cast.get(role), measured) for role in ("cpu", "gpu"))
    known = complexities()
    timed_gpu = on_gpu if on_gpu and on_gpu.timed(on_gpu.steps) else None
    layers = {name: of.layers for name, of in known.items()}
    by_kind = audit_by_kind(inputs.reported, layers, inputs.devices)
    checks = tuple(chain.from_iterable(by_kind.values()))
    theirs = published.published(inputs)
    judged = (
        *all_claims(inputs, measured, [run for run in measured if run in (primary, on_gpu)], known),
        *published.claims(theirs),
    )
    claims = {claim.id: claim for claim in judged}
    found = (
        *values.source_values(inputs, known),
        *run_values.run_values(inputs, primary),
        *gpu.gpu_values(inputs, timed_gpu),
        *published.values(theirs),
    )
    tables = all_tables(inputs, measured, known, by_kind)
    figures = tuple(all_figures(inputs, primary, known, by_kind))
    return Findings(
        values={value.id: value for value in found},
        tables={table.id: table for table in tables},
        figures={figure.id: figure for figure in figures},
        claims=claims,
        facts={
            **_facts(inputs, measured, primary, timed_gpu),
            **published.facts(theirs),
            "claimed": [claim.name or claim.id for claim in claims.values()],
            "has": [v.id for v in found if not isinstance(v.number, Missing)],
            "zero": [v.id for v in found if v.number == 0],
        },
        audits=checks,
    )


def _facts(
    inputs: Inputs,
    all_runs: Sequence[Run],
    primary: Run | None,
    on_gpu: Run | None,
) -> Mapping[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    return {
        "measured": primary is not None and bool(primary.timed(primary.steps)),
        "recorded": bool(all_runs),
        "watched": primary is not None and bool(profiled.main_profiles(primary)),
        "one_process": _in_words(
            run for run in all_runs if any(run.processes(step) == 1 for step in run.steps)
        ),
        "growing": batches.growing(primary) if primary else [],
        "one_profile": primary is not None and set(primary.profiling_processes) == {1},
        **_ladder_facts(primary),
        "gpu": gpu.gpu_facts(inputs, on_gpu),
        **_ceiling_facts(primary),
        "reduced_slower": primary is not None and run_values.reduced_is_slower(primary),
        "primary": markdown(primary.label) if primary else "",
        "primary_key": primary.key if primary else "",
        "devices": [markdown(run.label) for run in all_runs],
        "reported_device": markdown(inputs.reported.device),
        "files": list(inputs.files),
    }


def _ceiling_facts(primary: Run | None) -> dict[str, Any]:
    """Which programs set the ceilings of the machine that the prose is about."""
    arithmetic = won(primary, "matrix_product")
    return {
        "best_arithmetic": markdown(arithmetic),
        "best_bandwidth": markdown(won(primary, "copy")),
        "caches": list(primary.cache_roofs()) if primary else [],
        "primary_copy_moved": primary is not None and primary.copy_moved(),
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
