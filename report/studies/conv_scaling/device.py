"""What a GPU executed and allocated of the layer; nothing without a GPU's record."""

from __future__ import annotations

from typing import Final

from report.evidence import device_counts
from report.quantity.expression import Quantity, named
from report.quantity.operations import counted_in, flops
from report.records.passes import PASSES, Pass
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import LAYOUTS, multiply_adds, subject
from report.theory.reconciliation import Reconciliation

_FUSED: Final = "ncu_fp32_multiply_adds"


def device_work(run: Run, pass_: Pass = "forward") -> dict[int, Reconciliation]:
    """What the CUDA cores' counters saw, by the batch sizes that were counted."""
    found = {
        batch: device_counts.device_work(
            run,
            run.factors(batch, pass_),
            subject(batch),
            multiply_adds(batch, pass_),
            f"device-work-{run.key}-{run.layout}-{pass_}-{batch}",
            f"Operations of the CUDA cores on {run.label} at batch {batch}",
        )
        for batch in run.batches
    }
    return {batch: told for batch, told in found.items() if told is not None}


def all_device_work(run: Run) -> dict[str, Reconciliation]:
    """The same for both layouts and both kinds of call, by id."""
    groups = (device_work(run.in_layout(layout), p) for layout in LAYOUTS for p in PASSES)
    return {found.id: found for group in groups for found in group.values()}


def executed_with_backward(run: Run) -> dict[int, Quantity]:
    """Multiply-adds counted of a call with its backward pass over those of theory, by batch."""
    found = {
        batch: counted_in("MAC", run.repeated(_FUSED, run.factors(batch, "forward_backward")))
        for batch in run.batches
    }
    return {
        batch: named("share executed", flops(each) / theory.work(batch, "forward_backward"))
        for batch, each in found.items()
        if not each.missing
    }


def device_memory(run: Run) -> dict[str, dict[int, Reconciliation]]:
    """``requested``, ``allocated`` and ``reserved`` bytes of the forward call by batch size."""
    by_batch = {
        batch: device_counts.device_memory(
            run,
            run.factors(batch, "forward"),
            subject(batch),
            f"{run.key}-{batch}",
            f"batch {batch}",
        )
        for batch in run.batches
    }
    return {
        of: {batch: found[of] for batch, found in by_batch.items() if found}
        for of in ("requested", "allocated", "reserved")
    }
