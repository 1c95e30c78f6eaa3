"""What a GPU executed and allocated of the layer; nothing without a GPU's record."""

from __future__ import annotations

from typing import Final

from report.evidence import device_counts
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.kernels import kernels_of
from report.paper.tables import Cell, Table
from report.quantity.expression import Quantity, absent, exact, named
from report.records.passes import Pass
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import BATCH, multiply_adds, subject
from report.theory.reconciliation import Reconciliation

_BACKWARD: Final[Pass] = "forward_backward"
#: What names of kernels hold that compute gradients of the layer.
_GRADIENTS: Final = ("dgrad", "fft2d", "winogradWgrad", "wgrad")


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
    return {batch: value for batch, value in found.items() if value is not None}


def device_flops(run: Run, batch: int) -> Quantity:
    """What the CUDA cores did in float32 in a forward call (FLOP)."""
    found, name = device_counts.float32_flops(run, run.factors(batch, "forward")), "counted work"
    if isinstance(found, Missing):
        return absent(name, "FLOP", found.reason)
    return exact(name, "FLOP", found, run.file)


def executed_share(run: Run, batch: int, pass_: Pass = _BACKWARD) -> Quantity:
    """Multiply-adds counted of a call for each of theory's."""
    factors, theory_of = run.factors(batch, pass_), multiply_adds(batch, pass_)
    return device_counts.executed_share(run, factors, theory_of)


def gradients_share(run: Run, batch: int) -> Quantity:
    """The same of the backward pass alone: that of both passes less the counted forward call."""
    forward = executed_share(run, batch, "forward")
    return named("backward executed", (3 * executed_share(run, batch) - forward) / 2)


def all_gradients(run: Run) -> tuple[Quantity, ...]:
    """The same at every batch size that was counted."""
    known = tuple(q for batch in run.batches if not (q := gradients_share(run, batch)).missing)
    why = "Nsight Compute counted no call with its backward pass"
    return known or (absent("multiply-adds executed", "1", why),)


def _gradient_kernels(inputs: Inputs, run: Run, batch: int) -> Cell:
    """The kinds of kernels that compute the gradients of a call, as its counters name them."""
    kernels = kernels_of(inputs, run, run.factors(batch, _BACKWARD))
    names = [kernel.work.name for kernel in kernels]
    found = [kind for kind in _GRADIENTS if any(kind in name for name in names)]
    return ", ".join(found) or Missing("the record names no kernel of a gradient")


def backward_table(inputs: Inputs, run: Run) -> Table:
    """What a call with its backward pass executes, by which kernels, and its most bytes."""
    return table(
        "tbl-device-backward",
        run.batches,
        [
            BATCH,
            Field("Both", "1", lambda batch: executed_share(run, batch)),
            Field("Backward", "1", lambda batch: gradients_share(run, batch)),
            Field("Peak", "1", lambda b: run.peak(b, _BACKWARD) / theory.output_bytes(b)),
            Field("Kernels", "", lambda b: _gradient_kernels(inputs, run, b)),
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
