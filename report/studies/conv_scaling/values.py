"""The numbers of conv_scaling's prose, from theory, from the source, and from reconciliations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from report.evidence.device_counts import replays
from report.evidence.residuals import residual
from report.missing import Missing
from report.paper.declared import values_of
from report.paper.findings import Inputs
from report.paper.values import Value, declare, exact
from report.quantity.expression import Quantity, absent, named
from report.quantity.expression import exact as count
from report.quantity.fits import intercept, slope
from report.quantity.operations import constant
from report.statistics.estimates import CONFIDENCE
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.device import all_device_work, device_memory, device_work
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.network import NETWORK_VALUES, NO_NETWORK, find_network
from report.studies.conv_scaling.reconciled import (
    all_executed,
    peaks,
    reported_memory,
    reported_reserved,
    reported_work,
)
from report.studies.conv_scaling.run_values import RUN_VALUES
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.subject import LAYOUTS
from report.studies.conv_scaling.variants import variants

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
#: The largest batch that the experiment plans to run.
MANY: Final = 1024
#: Values that are printed as shares.
_PERCENT: Final = frozenset({"work_share", "parameter_share", "excess_share", "best_share"})


def all_values(inputs: Inputs, run: Run | None, gpu: Run | None) -> Iterator[Value]:
    """Every value; those of a run are missing where there is none."""
    yield exact("confidence", "Confidence", CONFIDENCE, "1", "chosen", (), "percent")
    for id_, quantity in {**_theory(), **_reported(inputs)}.items():
        yield declare(id_, quantity, "percent" if id_ in _PERCENT else None)
    yield from values_of(find_network(inputs), NETWORK_VALUES, NO_NETWORK, _PERCENT)
    timed = run if run is not None and run.timed else None
    why = Missing(f"no forward call was timed on {run.label}") if run else NO_RECORD
    yield from values_of(timed, RUN_VALUES, why, _PERCENT)
    for id_, quantity in _residuals(inputs, run, gpu).items():
        yield declare(id_, quantity, "exact")
    yield from (declare(id_, quantity) for id_, quantity in _variants(run).items())


def _theory() -> dict[str, Quantity]:
    return {
        "in_channels": theory.C_IN,
        "out_channels": theory.C_OUT,
        "kernel": theory.KERNEL,
        "in_extent": theory.H_IN,
        "out_extent": theory.H_OUT,
        "many": count("plan of the experiment", "1", MANY),
        "macs": theory.multiply_adds(1),
        "flops": theory.work(1),
        "training_ratio": theory.work(1, "forward_backward") / theory.work(1),
        "weights": theory.WEIGHTS,
        "biases": theory.C_OUT,
        "parameters": theory.PARAMETERS,
        "parameter_bytes": theory.PARAMETER_BYTES,
        "outputs": theory.OUTPUTS,
        "output_bytes": theory.output_bytes(1),
        "input_bytes": theory.input_bytes(1),
        "intensity_one": theory.intensity(1),
        "intensity_many": theory.intensity(MANY),
    }


def excess(inputs: Inputs) -> dict[int, Quantity]:
    """The source's counted operations beyond theory (FLOP), by batch size."""
    counted = column(inputs, "III", "total_flops", "FLOP")
    return {batch: named("excess", each - theory.work(batch)) for batch, each in counted.items()}


def memory_gap(inputs: Inputs) -> dict[int, Quantity]:
    """How far the source's allocated bytes are below theory (B), by batch size."""
    allocated = column(inputs, "IV", "allocated_memory", "B")
    return {batch: theory.memory(batch) - each for batch, each in allocated.items()}


def _reported(inputs: Inputs) -> dict[str, Quantity]:
    printed = list(column(inputs, "I", "batch", "1").values())
    work = column(inputs, "III", "total_flops", "FLOP")
    allocated = column(inputs, "IV", "allocated_memory", "B")
    fused = column(inputs, "III", "multiply_add", "MAC")
    over = excess(inputs)

    def per_output(counted: dict[int, Quantity]) -> Quantity:
        return constant(*(each / (b * theory.OUTPUTS) for b, each in counted.items()))

    return {
        "reported_smallest": printed[0],
        "reported_largest": printed[-1],
        "reported_count": count("rows of Table I", "1", len(printed), inputs.reported_file),
        "excess_per_output": per_output(over),
        "adds_per_output": per_output(column(inputs, "III", "add", "FLOP")),
        "multiplies_per_output": per_output(column(inputs, "III", "multiply", "FLOP")),
        "fused_per_mac": constant(*(n / theory.multiply_adds(b) for b, n in fused.items())),
        "excess_share": constant(*(each / theory.work(b) for b, each in over.items())),
        "memory_gap": constant(*memory_gap(inputs).values()),
        "reported_work_slope": slope(work, "FLOP", relative=False),
        "reported_work_intercept": intercept(work, "FLOP", relative=False),
        "reported_memory_slope": slope(allocated, "B", relative=False),
        "reported_memory_intercept": intercept(allocated, "B", relative=False),
    }


def _residuals(inputs: Inputs, run: Run | None, gpu: Run | None) -> dict[str, Quantity]:
    """The residuals furthest from 0."""
    source, file = inputs.reported_file, run.file if run else ""
    peak, peak_last = (
        peaks(run.in_layout(layout), reported_batches(inputs)) if run else {} for layout in LAYOUTS
    )
    found = {
        "residual_work": residual(reported_work(inputs).values(), "FLOP", source),
        "residual_memory": residual(reported_memory(inputs).values(), "B", source),
        "residual_reserved": residual(reported_reserved(inputs).values(), "B", source),
        "residual_executed": residual(all_executed(run).values(), "MAC", file),
        "residual_variants": residual(variants(run).values() if run else (), "MAC", file),
        "residual_peak": residual(peak.values(), "B", file),
        "residual_peak_last": residual(peak_last.values(), "B", file),
    }
    return {**found, **(_device(gpu) if gpu is not None else {})}


def _device(run: Run) -> dict[str, Quantity]:
    sums = replays(run)
    return {
        "residual_device_work": residual(device_work(run).values(), "FLOP", run.file),
        "residual_device_calls": residual(all_device_work(run).values(), "FLOP", run.file),
        **{
            f"residual_device_{of}": residual(found.values(), "B", run.file)
            for of, found in device_memory(run).items()
        },
        "residual_replay": residual(sums.values(), "B", run.file),
        "replays": count("replayed sums of the record", "1", len(sums), run.file),
    }


def _variants(run: Run | None) -> dict[str, Quantity]:
    """How many layers were counted, and how many of them without a residual."""
    found = list(variants(run).values()) if run else []
    numbers = {
        "variants_counted": len(found),
        "variants_explained": sum(each.explained for each in found),
    }
    if run is None or not found:
        return {id_: absent(id_, "1", NO_RECORD.reason) for id_ in numbers}
    return {id_: count("counted variants", "1", n, run.file) for id_, n in numbers.items()}
