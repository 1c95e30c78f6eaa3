"""What a GPU executed and allocated of the layer; nothing without a GPU's record."""

from __future__ import annotations

from typing import Final

from report.evidence import device_counts
from report.paper.declared import Field, table
from report.paper.tables import Table
from report.quantity.expression import Quantity, absent
from report.records.passes import Pass
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import BATCH, multiply_adds, subject
from report.theory.reconciliation import Reconciliation

_BACKWARD: Final[Pass] = "forward_backward"


def device_work(run: Run) -> dict[int, Reconciliation]:
    """What the CUDA cores' counters saw of forward calls, by the batch sizes that were counted."""
    found = {
        batch: device_counts.device_work(
            run,
            run.factors(batch, "forward"),
            subject(batch),
            multiply_adds(batch),
            f"device-work-{run.key}-{batch}",
            f"Operations of the CUDA cores on {run.label} at batch {batch}",
        )
        for batch in run.batches
    }
    return {batch: told for batch, told in found.items() if told is not None}


def executed_share(run: Run, batch: int) -> Quantity:
    """Multiply-adds counted of a call with its backward pass for each of theory's."""
    factors, theory_of = run.factors(batch, _BACKWARD), multiply_adds(batch, _BACKWARD)
    return device_counts.executed_share(run, factors, theory_of)


def executed_with_backward(run: Run) -> tuple[Quantity, ...]:
    """The same at every batch size that was counted."""
    known = tuple(q for batch in run.batches if not (q := executed_share(run, batch)).missing)
    why = "Nsight Compute counted no call with its backward pass"
    return known or (absent("multiply-adds executed", "1", why),)


def backward_table(run: Run) -> Table:
    """What a call with its backward pass executes, and its most bytes beyond what it found."""
    return table(
        "tbl-device-backward",
        run.batches,
        [
            BATCH,
            Field("Theory", "MAC", lambda batch: multiply_adds(batch, _BACKWARD)),
            Field("Executed ÷ theory", "1", lambda batch: executed_share(run, batch)),
            Field("Peak", "B", lambda batch: run.peak(batch, _BACKWARD), "MB"),
        ],
        sources=(run.file,),
    )


def epilogue(run: Run) -> tuple[Quantity, ...]:
    """Additions, and multiplications, for each output element of the layer without its bias."""
    variant = {"subject": "variant", "variant": "no bias", "pass": "forward", "layout": run.layout}
    batches = run.levels("batch", **variant)
    counts = (
        run.repeated(f"ncu_fp32_{kind}", {**variant, "batch": batch})
        / (theory.OUTPUTS * int(batch))
        for batch in batches
        for kind in ("additions", "multiplications")
    )
    return tuple(counts) or (absent("epilogue", "1", f"not part of the run on {run.label}"),)
