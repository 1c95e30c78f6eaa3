"""The numbers of conv_scaling's prose, from theory, from the source, and from reconciliations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.policies import compared
from report.paper.values import Value, declare, exact
from report.quantity.evaluation import ENOUGH_RUNS
from report.quantity.expression import Quantity, absent, named
from report.quantity.expression import exact as count
from report.quantity.operations import at_least, at_most, constant
from report.statistics.estimates import CONFIDENCE
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.device import all_gradients
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import RUN_VALUES, batch_gain, middle
from report.studies.conv_scaling.source import column, reported_batches

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
#: Values that are printed as shares.
PERCENT: Final = frozenset(
    {
        *("excess_share", "best_share", "fall", "policy_share", "policy_default_share"),
        *("priced_last", "priced_least", "priced_most"),
        *("second_priced_least", "second_priced_most"),
    }
)
#: What is printed of the second processor, as ``second_…``.
_OF_SECOND: Final = (
    *("policy_gain", "mapping_first", "fault_price", "priced_least", "priced_most"),
    *("unpriced_positive", "training_gain", "runs", "measurements", "disturbed"),
    *("layout_gain", "batch_gain", "ceiling", "copy"),
)


def all_values(
    inputs: Inputs,
    groups: Mapping[str, Group],
    run: Run | None,
    second: Run | None,
    gpu: Run | None,
) -> Iterator[Value]:
    """Every value; those of a run are missing where there is none."""
    yield exact("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    yield exact("enough_runs", "Runs that are units of intervals", ENOUGH_RUNS, "1", "chosen")
    for id_, quantity in {**_theory(), **_reported(inputs)}.items():
        yield declare(id_, quantity, "percent" if id_ in PERCENT else None)
    timed = run if run is not None and run.timed else None
    why = Missing(f"no forward call was timed on {run.label}") if run else NO_RECORD
    of_run = {**RUN_VALUES, "source_gain": source_gain(inputs)}
    yield from values_of(timed, of_run, why, PERCENT)
    if run is not None and compared(run):
        yield from values_of(run, policies.VALUES, NO_RECORD, PERCENT)
    if second is not None:
        every = {**of_run, **policies.VALUES}
        own = {f"second_{id_}": every[id_] for id_ in (*_OF_SECOND, "source_gain")}
        yield from values_of(second, own, NO_RECORD, PERCENT)
    for place, each in enumerate(repeated_runs((run, second)), start=1):
        own = {f"repeated_gain_{end}_{place}": get for end, get in policies.OF_EACH_RUN.items()}
        yield from values_of(each, own, NO_RECORD)
    if gpu is not None:
        own = {"gpu_peak_over_output": RUN_VALUES["peak_over_output"]}
        untimed = Missing(f"no forward call was timed on {gpu.label}")
        yield from values_of(gpu if gpu.timed else None, own, untimed)
    yield from (declare(f"residual_{name}", g.residual, "exact") for name, g in groups.items())
    yield from (declare(id_, each) for id_, each in _counted(groups, run, gpu).items())


def repeated_runs(runs: Sequence[Run | None]) -> list[Run]:
    """Those of ``runs`` that compare memory policies and are pooled of several."""
    return [run for run in runs if run is not None and compared(run) and run.stored.others]


# --------------------------------------------------------------------- theory and the source


def _theory() -> dict[str, Quantity]:
    return {
        "in_channels": theory.C_IN,
        "out_channels": theory.C_OUT,
        "kernel": theory.KERNEL,
        "in_extent": theory.H_IN,
        "out_extent": theory.H_OUT,
        "macs": theory.multiply_adds(1),
        "flops": theory.work(1),
        "weights": theory.WEIGHTS,
        "biases": theory.C_OUT,
        "parameters": theory.PARAMETERS,
        "element": theory.ELEMENT,
        "outputs": theory.OUTPUTS,
        "output_bytes": theory.output_bytes(1),
        "input_bytes": theory.input_bytes(1),
    }


def excess(inputs: Inputs) -> dict[int, Quantity]:
    """The source's counted operations beyond theory (FLOP), by batch size."""
    counted = column(inputs, "III", "total_flops", "FLOP")
    return {batch: named("excess", each - theory.work(batch)) for batch, each in counted.items()}


def memory_gap(inputs: Inputs) -> dict[int, Quantity]:
    """How far the source's allocated bytes are below theory (B), by batch size."""
    allocated = column(inputs, "IV", "allocated_memory", "B")
    return {batch: theory.memory(batch) - each for batch, each in allocated.items()}


def source_theory(inputs: Inputs) -> tuple[Quantity, ...]:
    """The source's theoretical work and memory over ours, row by row."""
    work = column(inputs, "I", "theoretical_flops", "FLOP")
    memory = column(inputs, "II", "theoretical_memory", "B")
    return (
        *(each / theory.work(batch) for batch, each in work.items()),
        *(each / theory.memory(batch) for batch, each in memory.items()),
    )


def fused_share(inputs: Inputs) -> tuple[Quantity, ...]:
    """The source's fused multiply-adds over theory, row by row."""
    fused = column(inputs, "III", "multiply_add", "MAC")
    return tuple(each / theory.multiply_adds(batch) for batch, each in fused.items())


def _reported(inputs: Inputs) -> dict[str, Quantity]:
    batches, over = reported_batches(inputs), excess(inputs)

    def per_output(counted: dict[int, Quantity]) -> Quantity:
        return constant(*(each / (b * theory.OUTPUTS) for b, each in counted.items()))

    return {
        "reported_count": count("rows of Table I", "1", len(batches), inputs.reported_file),
        "reported_smallest": count("smallest batch", "1", batches[0], inputs.reported_file),
        "reported_largest": count("largest batch", "1", batches[-1], inputs.reported_file),
        "excess_per_output": per_output(over),
        "adds_per_output": per_output(column(inputs, "III", "add", "FLOP")),
        "multiplies_per_output": per_output(column(inputs, "III", "multiply", "FLOP")),
        "excess_share": middle(constant(*(n / theory.work(b) for b, n in over.items())), 4),
        "memory_gap": constant(*memory_gap(inputs).values()),
    }


def source_gain(inputs: Inputs) -> Callable[[Run], Quantity]:
    """The gain of a larger batch over the source's batch sizes."""
    batches = reported_batches(inputs)
    return lambda run: batch_gain(run, batches[0], batches[-1])


def _counted(groups: Mapping[str, Group], run: Run | None, gpu: Run | None) -> dict[str, Quantity]:
    """How many layers and sums were counted, and how many of them without a residual."""
    found = groups["variants"].found.values()
    numbers = {
        "variants_counted": len(found),
        "variants_explained": sum(r.explained for r in found),
    }
    counted: dict[str, Quantity] = {
        id_: count(id_.replace("_", " "), "1", n, run.file)
        if run is not None and found
        else absent(id_, "1", NO_RECORD.reason)
        for id_, n in numbers.items()
    }
    if gpu is not None:
        sums = len(groups["replay"].found)
        counted["replays"] = count("replayed sums of the record", "1", sums, gpu.file)
        shares = all_gradients(gpu)
        counted["backward_least"] = middle(at_most(*shares), 2)
        counted["backward_most"] = middle(at_least(*shares), 2)
    return counted
