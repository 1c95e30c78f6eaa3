"""backend_speedup: one network from scratch on several array libraries, and what each one gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from report.escape import markdown
from report.images import DataSet, data_set, sample
from report.missing import Missing
from report.paper import Claim, Figure, Findings, Inputs
from report.reconciliation import Reconciliation
from report.setup import setup
from report.statistics import Estimate
from report.studies.backend_speedup import (
    claims,
    crossovers,
    diagrams,
    figures,
    learning,
    memory_tables,
    run_values,
    source,
    tables,
    theory_tables,
    values,
)
from report.studies.backend_speedup.literature import literature
from report.studies.backend_speedup.measured import (
    NUMPY,
    Run,
    Variant,
    primary_run,
    runs,
    thread_pair,
)
from report.studies.backend_speedup.subject import check_subject
from report.tables import Table


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints.

    Raises ``StudyError`` for records that do not fit it and ``RecordError`` for broken attachments.
    """
    for item in inputs.records:
        check_subject(item)
    all_runs = runs(inputs.records)
    primary, pair = primary_run(all_runs), thread_pair(all_runs)
    images = data_set(inputs, primary) if primary else None
    compared = crossovers.comparisons(primary, pair) if primary else ()
    found = (
        *values.theory_values(),
        *values.source_values(inputs),
        *run_values.run_values(primary, pair, compared, images),
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
        facts=_facts(inputs, all_runs, primary, images),
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
    optional = [
        learning.backend_table(inputs, primary),
        crossovers.crossover_table(compared),
        *(_run_tables(primary) if primary else ()),
        *(
            tables.performance(run, "perceptron", f"tbl-performance-{run.key}")
            for run in all_runs
            if run is not primary
        ),
    ]
    pair = thread_pair(all_runs)
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
    settings = (*run.sizes(), *(run.sizes(hidden=wide) if wide else ()))
    return (
        tables.performance(run, "perceptron", "tbl-performance"),
        tables.performance(run, "convnet", "tbl-performance-convnet"),
        tables.precision(run),
        tables.transfers(run),
        tables.operations(run, "perceptron", "tbl-operations"),
        tables.operations(run, "convnet", "tbl-operations-convnet"),
        learning.convergence_table(run),
        memory_tables.memory_table(run),
        memory_tables.resident_table(run),
        memory_tables.peak_table(run),
        tables.scaling(run, run.widths(), "tbl-widths", "the width of the hidden layer"),
        tables.scaling(run, tuple(dict.fromkeys(settings)), "tbl-sizes", "the number of images"),
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
    inputs: Inputs, all_runs: Sequence[Run], primary: Run | None, images: DataSet | None
) -> dict[str, Any]:
    """Texts and switches for the template; every number is in the values."""
    setting = primary.training() if primary else None
    second = primary.training("convnet") if primary else None
    measured = primary is not None and bool(primary.variants(setting))
    pair = thread_pair(all_runs)
    eager = run_values.eager_best(primary, setting) if primary and setting else None
    return {
        "measured": measured,
        "on_gpu": primary is not None and primary.on_gpu,
        "primary": markdown(primary.label) if primary else "",
        "devices": [markdown(run.label) for run in all_runs],
        "pair": [markdown(run.label) for run in pair] if pair else [],
        "fastest": run_values.fastest(primary, setting).name,
        "convnet_fastest": run_values.fastest(primary, second).name,
        "any_faster": run_values.fastest(primary, setting) != NUMPY,
        "convnet_faster": run_values.fastest(primary, second) != NUMPY,
        "convnet": primary is not None and bool(primary.variants(second)),
        "faster": _named(primary, faster=True),
        "slower": _named(primary, faster=False),
        "decomposed": eager.name if eager else "",
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
            if run is not primary and run.training() is not None
        ],
        "reported_device": markdown(inputs.reported.device),
        "files": [item.file for item in inputs.records],
    }


def _named(run: Run | None, *, faster: bool) -> list[dict[str, str]]:
    """Key and name of every library that is faster (or slower) than NumPy in the training."""
    setting = run.training() if run else None
    if run is None or setting is None:
        return []

    def judged(variant: Variant) -> bool:
        ratio = run.speedup("time", setting, variant)
        return isinstance(ratio, Estimate) and (ratio.low > 1 if faster else ratio.high < 1)

    return [
        {"key": variant.key, "name": variant.name}
        for variant in run.variants(setting)
        if variant != NUMPY and judged(variant)
    ]


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
