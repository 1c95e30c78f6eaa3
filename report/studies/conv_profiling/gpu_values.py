"""The numbers of conv_profiling's prose that come from a run on a GPU."""

from __future__ import annotations

from report.missing import Missing
from report.paper.values import Value, exact
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import counted_work, measured_work
from report.studies.conv_profiling.values import CASES


def gpu_values(run: Run | None) -> tuple[Value, ...]:
    """What a GPU executed beside theory, at both ends of the batch sizes and on which cores."""
    origin = (run.file,) if run else ()
    why = Missing("no run on a GPU counted executed operations")
    found = {batch: measured_work(run, batch) for batch in run.batches()} if run else {}
    counted = {b: work for b, work in found.items() if not isinstance(work, Missing)}
    ratios = {b: BASE.operations(b) / work for b, work in counted.items() if work}
    first, last = min(ratios, default=0), max(ratios, default=0)
    tensor = counted_work(run, last)["Tensor cores"] if run and last else why
    over, name = "theory / operations of both kinds of cores", "Estimate over measurement on a GPU"
    return (
        exact("gpu_first", "Smallest batch counted on a GPU", first or why, "1", CASES, origin),
        exact("gpu_last", "Largest batch counted on a GPU", last or why, "1", CASES, origin),
        Value(
            "gpu_ratio_first", f"{name}, smallest batch", ratios.get(first, why), "1", over, origin
        ),
        Value("gpu_ratio_last", f"{name}, largest batch", ratios.get(last, why), "1", over, origin),
        Value(
            "gpu_tensor",
            "Share of the tensor cores in it",
            tensor if isinstance(tensor, Missing) else tensor / counted[last],
            "1",
            "operations of tensor cores / of both kinds",
            origin,
            "percent",
        ),
    )
