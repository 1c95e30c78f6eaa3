"""What a GPU executed and allocated of the layer; nothing without a GPU's record."""

from __future__ import annotations

from typing import Final

from report.evidence import device_counts
from report.quantity.expression import Quantity, absent
from report.records.passes import PASSES, Pass
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import LAYOUTS, multiply_adds, subject
from report.theory.reconciliation import Reconciliation


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


def executed_with_backward(run: Run) -> tuple[Quantity, ...]:
    """Multiply-adds counted of a call with its backward pass for each of theory's, by batch."""
    pass_: Final = "forward_backward"
    shares = (
        device_counts.executed_share(run, run.factors(b, pass_), multiply_adds(b, pass_))
        for b in run.batches
    )
    known = tuple(each for each in shares if not each.missing)
    why = "Nsight Compute counted no call with its backward pass"
    return known or (absent("multiply-adds executed", "1", why),)


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
