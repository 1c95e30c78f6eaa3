"""All that the paper of inference_memory prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from report.evidence.ceilings import won
from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.findings import Claim, Findings, Inputs
from report.paper.machine_comparison import Comparison, Measure
from report.quantity.evaluation import point
from report.studies.inference_memory import scores, source
from report.studies.inference_memory.claims import all_claims
from report.studies.inference_memory.figures import all_figures
from report.studies.inference_memory.gpu import host_bound, keeper, unordered
from report.studies.inference_memory.measured import Run, runs
from report.studies.inference_memory.peaks import (
    LEARNED,
    exact_peaks,
    judged,
    missed,
    misses_bounded,
    reconciled,
    wrong,
)
from report.studies.inference_memory.subject import check_subject
from report.studies.inference_memory.sweeps import (
    amp_precision,
    ends,
    failed_calls,
    other_precision,
    resnets,
    scored_network,
    tiled_calls,
)
from report.studies.inference_memory.tables import all_tables
from report.studies.inference_memory.timing import one_process
from report.studies.inference_memory.values import RUN_VALUES, all_values
from report.text.escape import markdown

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    (
        Measure("Best share of ceiling", "1", RUN_VALUES["best_share"], "%"),
        Measure("Largest residual, float32", "1", RUN_VALUES["residual_share"], "%"),
    ),
)


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints; raises ``StudyError`` for records that do not fit it."""
    for item in inputs.records:
        check_subject(item)
    measured = runs(inputs.records)
    primary, other, gpu = (run_of(inputs.cast.get(r), measured) for r in ("cpu", "second", "gpu"))
    gpu = gpu if gpu is not primary else None
    # The prose is about the sweep of a residual network; without one it shows none of the rest.
    shown = primary if primary and resnets(primary) else None
    named = [run for run in (primary, other, gpu) if run is not None]
    claims = {claim.id: claim for claim in all_claims(inputs, named)}
    values = tuple(all_values(inputs, primary, other, gpu))
    return Findings(
        values={v.id: v for v in values},
        tables={t.id: t for t in all_tables(inputs, measured, shown)},
        figures={f.id: f for f in (all_figures(shown) if shown else ())},
        claims=claims,
        reconciliations={r.id: r for run in measured for r in reconciled(run).values()},
        facts={
            **_facts(inputs, measured, shown, other, gpu, claims),
            "has": [v.id for v in values if not isinstance(v.number, Missing)],
        },
        audits=source.checks(inputs.reported),
    )


def _facts(
    inputs: Inputs,
    measured: Sequence[Run],
    primary: Run | None,
    other: Run | None,
    gpu: Run | None,
    claims: Mapping[str, Claim],
) -> Mapping[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    return {
        "measured": primary is not None,
        "primary": markdown(primary.label) if primary else "",
        "primary_key": primary.key if primary else "",
        "other": markdown(other.label) if other else "",
        "other_key": other.key if other else "",
        "other_wrong": [f"{c.network} at {c.batch:,}" for c in wrong(other)] if other else [],
        "gpu": markdown(gpu.label) if gpu else "",
        "gpu_key": gpu.key if gpu else "",
        "devices": [markdown(run.label) for run in measured],
        "claimed": [claim.name or claim.id for claim in claims.values()],
        "reported_device": markdown(inputs.reported.device),
        "reported_software": markdown(inputs.reported.software),
        "files": list(inputs.files),
        **(_of_primary(primary) if primary else dict.fromkeys(_OF_PRIMARY, "")),
        **(_of_gpu(gpu) if gpu else dict.fromkeys(_OF_GPU, "")),
    }


#: What the template asks of the run that the prose speaks of, and of a GPU; nothing without one.
_OF_PRIMARY: Final = (
    "shallow", "deep", "one_image", "policies", "exact", "small_misses", "misses_bounded",
    "learned", "held_out", "failed", "one_process", "scored",
    "datasets", "reduced", "best_arithmetic", "contiguous_worse", "needed_unmet",
    "other_reduced", "tiled",
)  # fmt: skip
_OF_GPU: Final = ("gpu_deep", "gpu_bound", "gpu_one", "gpu_always", "gpu_kept", "gpu_scored",
           "gpu_reduced", "gpu_unordered")  # fmt: skip


def _of_primary(run: Run) -> Mapping[str, Any]:
    names, peaks, failed = resnets(run), judged(run).values(), failed_calls(run)
    tiles = tiled_calls(run)
    return {
        "shallow": names[0],
        "deep": names[-1],
        "one_image": ends(run)[0].batch == 1,
        "policies": len(run.policies) > 1,
        "one_process": point(one_process(run)) not in (0, 1) and len(run.policies) > 1,
        "exact": bool(peaks) and exact_peaks(peaks) == len(peaks),
        "small_misses": missed(run),
        "misses_bounded": misses_bounded(run),
        "learned": [n for n in run.networks() if n in LEARNED],
        "held_out": [n for n in run.networks() if n not in LEARNED],
        "failed": f"{failed[0].network} at {failed[0].batch:,}" if len(failed) == 1 else "",
        "scored": scored_network(run),
        "datasets": list(scores.datasets(run)),
        "reduced": amp_precision(run),
        "best_arithmetic": markdown(won(run, "matrix_product")),
        "contiguous_worse": _below(run, "residual_reduced_last", "residual_reduced"),
        "needed_unmet": _below(run, "half_saved_last", "half_needed_last"),
        "other_reduced": other_precision(run),
        "tiled": f"{tiles[0].network} at a batch of {tiles[0].batch}" if tiles else "",
    }


def _below(run: Run, lower: str, upper: str) -> bool:
    """Whether one value of a run is known to lie below another."""
    share = point(RUN_VALUES[lower](run) / RUN_VALUES[upper](run))
    return isinstance(share, float) and share < 1


def _of_gpu(run: Run) -> Mapping[str, Any]:
    names, kept = resnets(run), keeper(run)
    return {
        "gpu_deep": names[-1] if names else "",
        "gpu_bound": bool(host_bound(run)),
        "gpu_one": bool(names) and ends(run)[0].batch == 1,
        "gpu_always": bool(names) and len(host_bound(run)) == len(ends(run)),
        "gpu_kept": kept.network if kept else "",
        "gpu_scored": scored_network(run),
        "gpu_reduced": amp_precision(run),
        "gpu_unordered": unordered(run),
    }
