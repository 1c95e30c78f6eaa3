"""The numbers of conv_profiling's prose that come from a run on a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from report.evidence.device_counts import executed_share
from report.missing import Missing
from report.paper.values import Value
from report.quantity.expression import Quantity, absent
from report.quantity.operations import at_least, at_most
from report.records.passes import Pass
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import counted_work, measured_work
from report.studies.conv_profiling.values import CASES, declared, known
from report.theory.reconciliation import Reconciliation


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
    with_backward = executed_shares(run, "forward_backward") if run else ()
    shares = with_backward or (absent("multiply-adds executed", "1", why.reason),)
    return tuple(
        declared(
            {
                "gpu_backward_least": at_most(*shares),
                "gpu_backward_most": at_least(*shares),
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


def tiled_values(told: Mapping[str, Reconciliation], file: str) -> tuple[Value, ...]:
    """How many shapes are explained, and what they execute for each multiply-add of theory."""
    why = absent("multiply-adds executed", "1", "no run on a GPU counted other shapes")
    shares = [
        known("executed", r.measured.amount, "MAC", file)
        / known("theory", r.start.amount, "MAC", file)
        for r in told.values()
        if not isinstance(r.measured, Missing)
    ]
    explained = sum(r.explained for r in told.values())
    return tuple(
        declared(
            {
                "tiled_cases": known(CASES, len(told), "1", file),
                "tiled_explained": known("count of residuals of zero", explained, "1", file),
                "tiled_least": at_most(*shares) if shares else why,
                "tiled_most": at_least(*shares) if shares else why,
            }
        )
    )


def executed_shares(run: Run, pass_: Pass) -> tuple[Quantity, ...]:
    """Multiply-adds that a GPU executed for each of theory's, by the batch sizes counted."""
    shares = (
        executed_share(run, BASE.factors(batch, pass_), BASE.multiply_adds(batch, pass_))
        for batch in run.batches()
    )
    return tuple(each for each in shares if not each.missing)
