"""The numbers of conv_profiling's prose that come from a run on a GPU."""

from __future__ import annotations

from report.missing import Missing
from report.paper.values import Value
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import counted_work, measured_work
from report.studies.conv_profiling.values import CASES, declared, known


def gpu_values(run: Run | None) -> tuple[Value, ...]:
    """What a GPU executed beside theory, at both ends of the batch sizes and on which cores."""
    file = run.file if run else ""
    why = Missing("no run on a GPU counted executed operations")
    found = {batch: measured_work(run, batch) for batch in run.batches()} if run else {}
    counted = {b: work for b, work in found.items() if not isinstance(work, Missing) and work}
    first, last = min(counted, default=0), max(counted, default=0)
    tensor = counted_work(run, last)["Tensor cores"] if run and last else why
    both, names = "operations of both kinds of cores", {"first": first, "last": last}
    executed = {
        at: known(both, counted.get(batch, why), "FLOP", file) for at, batch in names.items()
    }
    return tuple(
        declared(
            {
                **{
                    f"gpu_{at}": known(CASES, batch or why, "1", file)
                    for at, batch in names.items()
                },
                **{
                    f"gpu_ratio_{at}": known("theory", BASE.operations(batch or 1), "FLOP")
                    / executed[at]
                    for at, batch in names.items()
                },
                "gpu_tensor": known("operations of tensor cores", tensor, "FLOP", file)
                / executed["last"],
            }
        )
    )
