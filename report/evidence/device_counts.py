"""What a GPU executed in one call of a layer by Nsight Compute, from theory, whatever the study."""

from __future__ import annotations

from dataclasses import replace

from report.evidence.runs import Factors, Run
from report.missing import Missing
from report.records.layers import Layer
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import as_flops, bias_kernel, for_each_output, theory_macs


def device_work(
    run: Run, factors: Factors, layer: Layer, macs: int, id: str, subject: str
) -> Reconciliation | None:
    """What the CUDA cores' counters saw of a call of ``macs`` multiply-adds; None uncounted."""
    counted = float32_flops(run, factors)
    if isinstance(counted, Missing):
        return None
    adds, multiplies, fused = (
        run.fixed(f"ncu_fp32_{kind}", factors)
        for kind in ("additions", "multiplications", "multiply_adds")
    )
    tensor = run.fixed("ncu_tensor_core_flops", factors)
    beyond = fused if isinstance(fused, Missing) else 2 * (fused - macs)
    return Reconciliation(
        id,
        subject,
        "FLOP",
        as_flops(replace(theory_macs(layer), amount=macs)),
        (
            _if_seen(for_each_output("additions", layer), adds, "additions"),
            _if_seen(for_each_output("scaling", layer), multiplies, "multiplications"),
            _if_seen(bias_kernel(layer, ""), beyond, "multiply-adds beyond theory"),
            # What the tensor cores did instead, which the CUDA cores' counters do not hold.
            Term(
                "Tensor-core work, not in these counters",
                -tensor if isinstance(tensor, int) else 0,
                "−operations of the tensor cores",
                "ncu_tensor_core_flops"
                if isinstance(tensor, int)
                else "0: not counted on this GPU",
            ),
        ),
        Term("Counted", counted, "add + multiply + 2 · multiply-add", "ncu_fp32 counters"),
    )


def float32_flops(run: Run, factors: Factors) -> int | Missing:
    """What the CUDA cores did in float32 in one call (FLOP).

    Half-precision instructions are left out, which the record's ``ncu_cuda_core_flops`` holds:
    compilers use them to write constants into registers (HFMA2 of two zeros and the constant).  On
    an H100 PyTorch's addition of a bias in float32 executes one for each of its threads.
    """
    kinds = (("additions", 1), ("multiplications", 1), ("multiply_adds", 2))
    total = 0
    for kind, factor in kinds:
        count = run.fixed(f"ncu_fp32_{kind}", factors)
        if isinstance(count, Missing):
            return count
        total += factor * count
    return total


def _if_seen(term: Term, counted: int | Missing, what: str) -> Term:
    """A term of single operations if the counter of that kind shows just it, else 0."""
    if counted == term.amount:
        return replace(term, evidence=f"equal to the counted {what}")
    return replace(term, amount=0, evidence=f"0: not equal to the counted {what}")
