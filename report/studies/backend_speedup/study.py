"""All that the paper of backend_speedup prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from report.missing import Missing
from report.paper.findings import Claim, Findings, Inputs
from report.paper.images import DataSet, data_set
from report.paper.machine_comparison import Comparison, Measure
from report.quantity.evaluation import point
from report.quantity.verdicts import slower
from report.studies.backend_speedup import memory, source
from report.studies.backend_speedup.choices import best_at, eager_best, fastest
from report.studies.backend_speedup.claims import all_claims
from report.studies.backend_speedup.conditions import disturbed
from report.studies.backend_speedup.figures import all_figures
from report.studies.backend_speedup.gpu_values import GPU_VALUES, on_gpu
from report.studies.backend_speedup.learning import largest_accuracy_difference
from report.studies.backend_speedup.measured import (
    CUPY,
    NUMPY,
    VARIANTS,
    Run,
    Variant,
    gpu_run,
    primary_run,
    runs,
)
from report.studies.backend_speedup.memory_values import least_explained
from report.studies.backend_speedup.model import leaning, predictions
from report.studies.backend_speedup.products import bare_ratio, narrow_kernel, on_cpus, ranking
from report.studies.backend_speedup.subject import check_subject
from report.studies.backend_speedup.tables import all_tables
from report.studies.backend_speedup.threads import THREAD_VALUES, thread_pair
from report.studies.backend_speedup.values import RUN_VALUES, all_values
from report.text.escape import markdown
from report.theory.reconciliation import Reconciliation

#: What many machines are compared by.
COMPARED: Final[Comparison[Run]] = Comparison(
    Run,
    (
        Measure("PyTorch over NumPy", "1", RUN_VALUES["speedup_torch"], reference=1.0),
        Measure("JAX compiled", "1", RUN_VALUES["speedup_jax_compiled"], reference=1.0),
        Measure("PyTorch, convolutions", "1", RUN_VALUES["convnet_torch"], reference=1.0),
    ),
)


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    measured = runs(inputs.records)
    primary, pair, gpu = primary_run(measured), thread_pair(measured), gpu_run(measured)
    images = data_set(inputs, primary) if primary else None
    claims = {claim.id: claim for claim in all_claims(inputs, measured)}
    tables = all_tables(inputs, measured, primary, pair, gpu, images)
    second = next((run for run in on_cpus(measured) if not run.policies), None)
    others = disturbed([run for run in on_cpus(measured) if run is not primary])
    return Findings(
        values={v.id: v for v in all_values(inputs, primary, pair, gpu, images, second, others)},
        tables={t.id: t for t in tables},
        figures={f.id: f for f in all_figures(inputs, measured, primary, gpu)},
        claims=claims,
        reconciliations=_reconciliations(measured),
        facts={
            **_facts(inputs, measured, primary, gpu, claims),
            **_of_images(primary, images),
            "second": markdown(second.label) if second else "",
            "disturbed": [markdown(run.label) for run in others],
            **_of_products(inputs, measured, second),
            "pair": [markdown(run.label) for run in pair] if pair else [],
            "thread_slows": pair is not None
            and _below_one(point(THREAD_VALUES["threads_large_torch"](pair))),
        },
        audits=source.audit(inputs.reported),
    )


def _of_products(inputs: Inputs, measured: Sequence[Run], second: Run | None) -> Mapping[str, Any]:
    """Whether libraries rank by their products on every CPU, and which one leads on each."""
    orders = {run.label: ranking(run) for run in on_cpus(measured)}
    first = {cpu: order[0].name for cpu, order in orders.items() if order}
    return {
        "ranked": bool(orders) and len(first) == len(orders),
        "leaders": [{"cpu": markdown(cpu), "library": name} for cpu, name in first.items()],
        "all_differ": len(set(first.values())) == len(orders) > 1,
        "bare": second is not None and not bare_ratio(second).missing,
        "narrow_kernel": narrow_kernel(inputs, second) if second else "",
    }


def _reconciliations(measured: Sequence[Run]) -> dict[str, Reconciliation]:
    return {
        r.id: r
        for run in measured
        for r in (*memory.wholes(run).values(), *memory.peaks(run).values())
    }


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
        "other_tables": [
            (f"tbl-performance-{run.key}", markdown(run.label))
            for run in measured
            if run not in (primary, gpu) and run.training() is not None
        ],
        "files": list(inputs.files),
        **(_of_primary(primary) if primary else dict.fromkeys(_OF_PRIMARY, "")),
        **(_of_gpu(gpu, primary) if gpu else dict.fromkeys(_OF_GPU, "")),
    }


#: What the template asks of the run that the prose speaks of, and of a GPU; nothing without one.
_OF_PRIMARY: Final = (
    "on_gpu", "numpy_near", "operations_apart", "compiling_slows", "compiled_falls", "too_long",
    "too_short", "remembered", "libraries", "convnet", "fastest",
    "decomposed", "predicted", "width_best", "images_best", "widths", "sizes",
    "least_explained", "constant_offset", "same_accuracy", "wide",
)  # fmt: skip
#: How far from one the ratio of two times may lie that are nearly the same.
_NEARLY: Final = 0.05
#: The share of the model's good predictions that another rule nearly reaches.
_NEARLY_AS_MANY: Final = 0.9
_OF_GPU: Final = ("gpu", "gpu_key", "gpu_end", "gpu_host", "gpu_at", "gpu_relu_dear")


def _named(variant: Variant) -> dict[str, str]:
    return {"key": variant.key, "name": variant.name}


def _of_primary(run: Run) -> Mapping[str, Any]:
    setting, second = run.training(), run.training("convnet")
    widths, sizes, best = run.widths(), run.sizes(), fastest(run, setting)
    spread = largest_accuracy_difference(run, setting) if setting else Missing("nothing trained")
    decomposed, least = eager_best(run), least_explained(run)
    return {
        "on_gpu": run.on_gpu,
        "libraries": [_named(v) for v in run.others(setting)],
        "convnet": [_named(v) for v in run.others(second)],
        "fastest": "" if best == NUMPY else best.name,
        "decomposed": decomposed.name if decomposed else "",
        "predicted": bool(predictions(run)),
        "too_long": [variant.name for variant in leaning(run, long=True)],
        "too_short": [variant.name for variant in leaning(run, long=False)],
        "numpy_near": _numpy_near(run),
        "compiling_slows": _below_one(point(RUN_VALUES["compiled_convnet_jax"](run))),
        "compiled_falls": _below_one(point(RUN_VALUES["compiled_last_images"](run)))
        and _below_one(point(1 / RUN_VALUES["compiled_first_images"](run))),
        "operations_apart": _apart(point(RUN_VALUES["own_synchronising"](run))),
        "remembered": bool(memory.wholes(run)),
        "width_best": _name(best_at(run, widths[-1]) if len(widths) > 1 else None),
        "images_best": _name(best_at(run, sizes[-1]) if len(sizes) > 1 else None),
        "widths": len(widths) > 1,
        "sizes": len(sizes) > 1,
        "least_explained": _name(least),
        "constant_offset": _constant_offset(run),
        "same_accuracy": spread == 0,
        "wide": run.wide(),
    }


def _numpy_near(run: Run) -> bool:
    """Whether NumPy's time meets nearly as many cases of the perceptron as the model, or more."""
    guess, own = (point(RUN_VALUES[f"{rule}_well_perceptron"](run)) for rule in ("numpy", "own"))
    if isinstance(guess, Missing) or isinstance(own, Missing):
        return False
    return guess >= _NEARLY_AS_MANY * own


def _apart(ratio: float | Missing) -> bool:
    """Whether two things that should be equal are not nearly so."""
    return not isinstance(ratio, Missing) and abs(ratio - 1) > _NEARLY


def _below_one(ratio: float | Missing) -> bool:
    return not isinstance(ratio, Missing) and ratio < 1


def _name(variant: Variant | None) -> str:
    return variant.name if variant else ""


def _constant_offset(run: Run) -> bool:
    """Whether NumPy alone leaves a residual at the peaks, and the same one at every size."""
    rests: dict[Variant, set[object]] = {}
    for (_, variant), r in memory.peaks(run).items():
        rests.setdefault(variant, set()).add(r.residual)
    own = rests.pop(NUMPY, set())
    return len(own) == 1 and own != {0} and all(found == {0} for found in rests.values())


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
