"""All that the paper of backend_speedup prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from report.evidence.runs import run_of
from report.missing import Missing
from report.paper.findings import Claim, Findings, Inputs
from report.paper.images import DataSet, data_set
from report.paper.machine_comparison import Comparison, Measure
from report.quantity.evaluation import point
from report.quantity.verdicts import slower
from report.studies.backend_speedup import memory, source
from report.studies.backend_speedup.choices import best_at
from report.studies.backend_speedup.claims import all_claims
from report.studies.backend_speedup.figures import all_figures
from report.studies.backend_speedup.gpu_values import GPU_VALUES, on_gpu
from report.studies.backend_speedup.learning import largest_accuracy_difference
from report.studies.backend_speedup.measured import (
    CUPY,
    VARIANTS,
    Run,
    Variant,
    runs,
    timed_on_gpu,
)
from report.studies.backend_speedup.subject import check_subject
from report.studies.backend_speedup.tables import all_tables
from report.studies.backend_speedup.values import RUN_VALUES, all_values
from report.text.escape import markdown

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    (
        Measure("PyTorch over NumPy", "1", RUN_VALUES["speedup_torch"], reference=1.0),
        Measure("JAX compiled", "1", RUN_VALUES["speedup_jax_compiled"], reference=1.0),
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
    gpu = gpu if gpu and timed_on_gpu(gpu) else None
    shown = [run for run in measured if run in (primary, gpu)]
    images = data_set(inputs, primary) if primary else None
    claims = {claim.id: claim for claim in all_claims(inputs, shown)}
    tables = all_tables(inputs, measured, primary, gpu)
    return Findings(
        values={v.id: v for v in all_values(inputs, primary, gpu, images)},
        tables={t.id: t for t in tables},
        figures={f.id: f for f in all_figures(inputs, measured, primary, gpu)},
        claims=claims,
        facts={
            **_facts(inputs, measured, primary, gpu, claims),
            **_of_images(primary, images),
        },
        audits=source.audit(inputs.reported),
    )


def _facts(
    inputs: Inputs,
    measured: Sequence[Run],
    primary: Run | None,
    gpu: Run | None,
    claims: Mapping[str, Claim],
) -> Mapping[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    timed = primary is not None and bool(primary.variants(primary.training()))
    return {
        "measured": timed,
        "primary": markdown(primary.label) if primary else "",
        "primary_key": primary.key if primary else "",
        "devices": [markdown(run.label) for run in measured],
        "any_gpu": any(run.on_gpu for run in measured),
        "claimed": [claim.name or claim.id for claim in claims.values()],
        "variants": [_named(v) for v in VARIANTS[1:]],
        "files": list(inputs.files),
        **(_of_primary(primary) if primary else dict.fromkeys(_OF_PRIMARY, "")),
        **(_of_gpu(gpu, primary) if gpu else dict.fromkeys(_OF_GPU, "")),
    }


#: What the template asks of the run that the prose speaks of, and of a GPU; nothing without one.
_OF_PRIMARY: Final = (
    "on_gpu", "remembered", "libraries", "width_best", "images_best", "compiled_falls", "widths",
    "sizes", "same_accuracy",
)  # fmt: skip
_OF_GPU: Final = ("gpu", "gpu_key", "gpu_end", "gpu_host", "gpu_at", "gpu_relu_dear")


def _named(variant: Variant) -> dict[str, str]:
    return {"key": variant.key, "name": variant.name}


def _of_primary(run: Run) -> Mapping[str, Any]:
    setting, widths, sizes = run.training(), run.widths(), run.sizes()
    spread = largest_accuracy_difference(run, setting) if setting else Missing("nothing trained")
    return {
        "on_gpu": run.on_gpu,
        "libraries": [_named(v) for v in run.others(setting)],
        "compiled_falls": _below_one(point(RUN_VALUES["compiled_last_images"](run)))
        and _below_one(point(1 / RUN_VALUES["compiled_first_images"](run))),
        "remembered": bool(memory.variants(run, setting)),
        "width_best": _name(best_at(run, widths[-1]) if len(widths) > 1 else None),
        "images_best": _name(best_at(run, sizes[-1]) if len(sizes) > 1 else None),
        "widths": len(widths) > 1,
        "sizes": len(sizes) > 1,
        "same_accuracy": spread == 0,
    }


def _below_one(ratio: float | Missing) -> bool:
    return not isinstance(ratio, Missing) and ratio < 1


def _name(variant: Variant | None) -> str:
    return variant.name if variant else ""


def _of_gpu(run: Run, primary: Run | None) -> Mapping[str, Any]:
    dear = point(GPU_VALUES["gpu_relu_ratio"](run))
    ratio = 1 / GPU_VALUES["gpu_relu_ratio"](run)
    return {
        "gpu": markdown(run.label),
        "gpu_key": run.key,
        # The end of the ids of its tables, which have none where it is the run of the prose.
        "gpu_end": f"-{run.key}" if run is not primary else "",
        "gpu_host": markdown(run.stored.record.environment.cpu.model),
        "gpu_at": {p: [_named(v) for v in on_gpu(run, p)] for p in ("small", "wide", "many")},
        "gpu_relu_dear": not isinstance(dear, Missing) and slower(ratio) and CUPY.on_gpu,
    }


def _of_images(run: Run | None, images: DataSet | None) -> Mapping[str, Any]:
    return {
        "data_set": images.name if images else "",
        "images": markdown(images.source) if images else "",
        "split": markdown(images.split) if images else "",
        "repeated": run is not None
        and images is not None
        and any(setting.samples > images.train for setting in run.sizes()),
    }
