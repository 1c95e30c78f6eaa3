"""backend_speedup: one network from scratch on several array libraries, and what each one gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from report.missing import Missing
from report.paper.environments import setup
from report.paper.findings import Claim, Figure, Findings, Inputs
from report.paper.images import DataSet, data_set, sample
from report.paper.tables import Table
from report.quantity.evaluation import faster, point
from report.studies.backend_speedup import (
    claims,
    crossovers,
    diagrams,
    figures,
    learning,
    memory_tables,
    memory_values,
    prices,
    run_values,
    source,
    steady,
    tables,
    theory_tables,
    values,
)
from report.studies.backend_speedup.gpu import gpu_facts, gpu_tables, gpu_values
from report.studies.backend_speedup.literature import literature
from report.studies.backend_speedup.measured import (
    NUMPY,
    VARIANTS,
    Run,
    Variant,
    gpu_run,
    primary_run,
    runs,
    thread_pair,
)
from report.studies.backend_speedup.subject import HIDDEN, Setting, check_subject
from report.text.escape import markdown
from report.theory.reconciliation import Reconciliation


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    all_runs = runs(inputs.records)
    primary, pair, gpu = primary_run(all_runs), thread_pair(all_runs), gpu_run(all_runs)
    beside = gpu if gpu is not primary else None
    images = data_set(inputs, primary) if primary else None
    compared = (
        *(crossovers.comparisons(primary, pair) if primary else ()),
        *(crossovers.comparisons(beside, None) if beside else ()),
    )
    found = (
        *values.theory_values(),
        *values.source_values(inputs),
        *run_values.run_values(primary, pair, compared, images),
        *gpu_values(gpu),
    )
    judged = claims.all_claims(inputs, primary, all_runs)
    printed = _tables(inputs, all_runs, primary, images, compared, judged)
    drawn = _figures(inputs, primary)
    return Findings(
        values={value.id: value for value in found},
        tables={table.id: table for table in printed},
        figures={figure.id: figure for figure in drawn},
        claims={claim.id: claim for claim in judged},
        reconciliations=_reconciliations(all_runs),
        facts=_facts(inputs, all_runs, primary, images, compared, judged),
        audits=source.audit(inputs.reported),
    )


def _tables(
    inputs: Inputs,
    all_runs: Sequence[Run],
    primary: Run | None,
    images: DataSet | None,
    compared: Sequence[crossovers.Comparison],
    judged: Sequence[Claim],
) -> tuple[Table, ...]:
    pair, gpu = thread_pair(all_runs), gpu_run(all_runs)
    optional = [
        learning.backend_table(inputs, primary, "tbl-backends"),
        crossovers.crossover_table(compared),
        *(_run_tables(primary) if primary else ()),
        *(
            tables.performance(run, "perceptron", f"tbl-performance-{run.key}")
            for run in all_runs
            if run is not primary and run is not gpu
        ),
        *(gpu_tables(inputs, gpu) if gpu and gpu is not primary else ()),
    ]
    if pair:
        optional.append(tables.threads(*pair))
    return (
        literature(),
        theory_tables.networks(),
        theory_tables.operations_theory(inputs, primary),
        theory_tables.source_performance(inputs),
        theory_tables.audited(inputs),
        memory_tables.source_memory(inputs),
        learning.data_sets(inputs, images),
        setup(inputs, all_runs),
        tables.amdahl_table(inputs, primary),
        *(table for table in optional if table is not None),
        tables.verdicts(judged),
    )


def _run_tables(run: Run) -> tuple[Table | None, ...]:
    wide = max((s.hidden for s in run.sizes_of_all_widths()), default=0)
    return (
        tables.performance(run, "perceptron", "tbl-performance"),
        tables.passes(run, "perceptron", "tbl-passes"),
        tables.performance(run, "convnet", "tbl-performance-convnet"),
        tables.passes(run, "convnet", "tbl-passes-convnet"),
        prices.precision(run),
        tables.transfers(run, "tbl-transfers"),
        tables.operations(run, "perceptron", "tbl-operations"),
        tables.operations(run, "convnet", "tbl-operations-convnet"),
        learning.convergence_table(run),
        memory_tables.memory_table(run, "tbl-memory"),
        memory_tables.resident_table(run),
        memory_tables.peak_table(run),
        tables.scaling(run, run.widths(), "tbl-widths", "the width of the hidden layer"),
        tables.scaling(run, run.sizes(), "tbl-sizes", tables.images_at(HIDDEN)),
        tables.scaling(run, run.sizes(hidden=wide), "tbl-sizes-wide", tables.images_at(wide))
        if wide not in (0, HIDDEN)
        else None,
        tables.scaling(
            run,
            run.sizes("convnet"),
            "tbl-sizes-convnet",
            "the number of images, with the convolution network",
        ),
    )


def _figures(inputs: Inputs, primary: Run | None) -> tuple[Figure, ...]:
    optional = (
        sample(inputs, primary) if primary else None,
        learning.convergence_figure(primary) if primary else None,
        figures.widths(primary) if primary and len(primary.widths()) > 1 else None,
        figures.sizes(primary) if primary and len(primary.sizes()) > 1 else None,
    )
    return (
        *diagrams.all_diagrams(),
        figures.operations(inputs, primary),
        figures.operation_speedups(inputs, primary),
        memory_tables.memory_figure(inputs, primary),
        *(figure for figure in optional if figure is not None),
    )


def _reconciliations(all_runs: Sequence[Run]) -> dict[str, Reconciliation]:
    found = [
        told
        for run in all_runs
        for told in (*memory_tables.wholes(run).values(), *memory_tables.peaks(run).values())
    ]
    return {told.id: told for told in found}


# -------------------------------------------------------------------------------------- facts


def _facts(
    inputs: Inputs,
    all_runs: Sequence[Run],
    primary: Run | None,
    images: DataSet | None,
    compared: Sequence[crossovers.Comparison],
    judged: Sequence[Claim],
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    setting = primary.training() if primary else None
    second = primary.training("convnet") if primary else None
    measured = primary is not None and bool(primary.variants(setting))
    pair, gpu = thread_pair(all_runs), gpu_run(all_runs)
    eager = run_values.eager_best(primary, setting) if primary and setting else None
    return {
        "measured": measured,
        **gpu_facts(gpu, primary, all_runs),
        "bounded": primary is not None and all(map(_is_found, primary.rates(NUMPY))),
        "on_gpu": primary is not None and primary.on_gpu,
        "primary": markdown(primary.label) if primary else "",
        "devices": [markdown(run.label) for run in all_runs],
        "pair": [markdown(run.label) for run in pair] if pair else [],
        "fastest": run_values.fastest(primary, setting).name,
        "convnet_fastest": run_values.fastest(primary, second).name,
        "any_faster": run_values.fastest(primary, setting) != NUMPY,
        "convnet_faster": run_values.fastest(primary, second) != NUMPY,
        "convnet": primary is not None and bool(primary.variants(second)),
        "faster": _named(primary, setting, tables.FASTER),
        "slower": _named(primary, setting, tables.SLOWER),
        "untold": _named(primary, setting, tables.UNTOLD),
        "convnet_slower": _named(primary, second, tables.SLOWER),
        "convnet_untold": _named(primary, second, tables.UNTOLD),
        "decomposed": eager.name if eager else "",
        "same_memory": primary is not None
        and not primary.on_gpu
        and {c.id: c.verdict for c in judged}["same-memory"] == "supported",
        "held": primary is not None and not primary.on_gpu and _held(judged, primary),
        "gpu_held": _held(judged, gpu),
        "gpu_same_memory": gpu is not None
        and any(
            c.id in ("same-memory" if gpu is primary else f"same-memory-{gpu.key}",)
            and c.verdict == "supported"
            for c in judged
        ),
        "overcharged": _overcharged(primary),
        "whole_gain": _gains_as_a_whole(primary),
        "earned_back": _is_found(prices.earned_back(primary, run_values.fastest(primary, setting))),
        "judged": crossovers.agreeing(compared)[1] > 0,
        "unsteady": _unsteady(primary),
        "disturbed": steady.disturbed(primary),
        "least_explained": _name(memory_values.least_explained(primary)),
        "constant_offset": memory_values.constant_offset(primary),
        "width_best": run_values.best_name(primary, primary.widths() if primary else ()),
        "size_best": run_values.best_name(primary, primary.sizes() if primary else ()),
        "widths": primary is not None and len(primary.widths()) > 1,
        "sizes": primary is not None and len(primary.sizes()) > 1,
        "data_set": images.name if images else "",
        "images": markdown(images.source) if images else "",
        "split": markdown(images.split) if images else "",
        "repeated": _repeats(primary, images),
        "same_accuracy": measured and _accuracy_spread(primary) == 0,
        "other_tables": [
            f"tbl-performance-{run.key}"
            for run in all_runs
            if run is not primary and run is not gpu and run.training() is not None
        ],
        "reported_device": markdown(inputs.reported.device),
        "files": list(inputs.files),
    }


def _named(run: Run | None, setting: Setting | None, word: str) -> list[dict[str, str]]:
    """Key and name of every library of which a training's speed-up over NumPy says ``word``."""
    if run is None or setting is None:
        return []
    return [
        {"key": variant.key, "name": variant.name}
        for variant in run.variants(setting)
        if variant != NUMPY and tables.word(run.speedup("time", setting, variant)) == word
    ]


def _held(judged: Sequence[Claim], run: Run | None) -> bool:
    """Whether the lead of a library on the device of a run grows with the work there."""
    if run is None:
        return False
    own = tuple(
        v.key + end for v in VARIANTS if v.on_gpu == run.on_gpu for end in ("", f"-{run.key}")
    )
    return any(
        claim.id.startswith("grows-") and claim.id.endswith(own) and claim.verdict == "supported"
        for claim in judged
    )


def _name(variant: Variant | None) -> str:
    return variant.name if variant else ""


def _is_found(found: object) -> bool:
    return not isinstance(found, Missing)


#: From this share of an iteration on, finishing operations one by one is dear.
_DEAR: Final = 1.2


def _overcharged(run: Run | None) -> bool:
    """Whether the library that is put together from its parts pays dearly for finishing each."""
    setting = run.training() if run else None
    variant = run_values.eager_best(run, setting) if run and setting else None
    if variant is None:
        return False
    found = point(run_values.synchronising(run, setting, variant))
    return not isinstance(found, Missing) and found > _DEAR


def _gains_as_a_whole(run: Run | None) -> bool:
    """Whether the fastest library is one program, whose products one by one are no faster."""
    setting = run.training() if run else None
    best = run_values.fastest(run, setting)
    if run is None or setting is None or best.eager:
        return False
    ratio = run.speedup("matrix_product_time", setting, Variant(best.backend))
    return not ratio.missing and not faster(ratio)


def _unsteady(run: Run | None) -> str:
    """The library of the case whose processes differ most, "" where all agree."""
    found = steady.worst(run)
    return found.variant.name if found else ""


def _accuracy_spread(run: Run | None) -> float | None:
    """The largest difference of accuracies, None where it is not known."""
    setting = run.training() if run else None
    if run is None or setting is None:
        return None
    spread = learning.largest_accuracy_difference(run, setting)
    return None if isinstance(spread, Missing) else spread


def _repeats(run: Run | None, images: DataSet | None) -> bool:
    """Whether a sweep takes more images than there are, so that they repeat."""
    if run is None or images is None:
        return False
    return any(setting.samples > images.train for setting in run.sizes())
