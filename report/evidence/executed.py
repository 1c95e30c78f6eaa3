"""Compare the counted work of a layer with theory.

Valgrind's tool lackey counts the operations that a CPU executes, Nvidia's profiler ncu those of a
GPU.  A library may create (just-in-time compile) a kernel in the first call, which also counts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeVar

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.evidence.runs import CaseFactors, Run
from report.quantity.expression import Quantity, exact_number
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import as_flops, bias_kernel, for_each_output, theory_macs

#: Lackey's count of a second call.
SECOND_CALL: Final = "lackey_multiply_adds"
#: Lackey's count of a first call, which may also create a kernel.
FIRST_CALL: Final = "lackey_multiply_adds_first"

#: Name of the term for the work of creating a kernel in the first call.
KERNEL_CREATION: Final = "Kernel made in the first call"

#: Type of the level that tells measured cases apart: a batch size or the name of a layer.
Key = TypeVar("Key", int, str)


def count_by_level(run: Run, cases: Mapping[Key, CaseFactors]) -> dict[Key, tuple[int, int]]:
    """Map each level to the count of a call, and to the part of the count that creates a kernel.

    ``cases`` are in ascending order of the levels.  Cases without a count are omitted.  The second
    call is used if it was counted, since it creates no kernel.  Otherwise the first call is used,
    and the part that creates a kernel comes from the largest level with counts of both calls.
    """
    calls: dict[Key, tuple[int | Missing, int | Missing]] = {}
    kernel_creation = 0
    for level, factors in cases.items():
        first = run.deterministic_value(FIRST_CALL, factors)
        second = run.deterministic_value(SECOND_CALL, factors)
        calls[level] = first, second
        if isinstance(first, int) and isinstance(second, int):
            kernel_creation = first - second
    result: dict[Key, tuple[int, int]] = {}
    for level, (first, second) in calls.items():
        if isinstance(second, int):
            result[level] = second, 0
        elif isinstance(first, int):
            result[level] = first, kernel_creation
    return result


def reconcile_executed(
    id: str, subject: str, theory: Term, count: int, kernel_creation: int, *terms: Term
) -> Reconciliation:
    """Reconcile lackey's ``count`` of a call with the theory of the call and further ``terms``.

    ``kernel_creation`` is the part of the count that creates a kernel.
    """
    formula = "first − second call of another batch size; 0 where the second call is counted"
    creation = Term(KERNEL_CREATION, kernel_creation, formula, "counts of the same record")
    counted = Term("Executed", count, "counted lanes, call less base", SECOND_CALL)
    return Reconciliation(id, subject, "MAC", theory, (*terms, creation), counted)


def residual(reconciliation: Reconciliation, file: str) -> Quantity:
    """Subtract the sum of the terms from the measurement in the record ``file``."""
    unit = reconciliation.unit
    minuend = exact_number("measured", unit, reconciliation.measured.amount, file)
    return minuend - exact_number("sum of terms", unit, reconciliation.end, file)


def reconcile_gpu_work(
    run: Run, factors: CaseFactors, layer: Layer, id: str, subject: str
) -> Reconciliation | None:
    """Reconcile the float32 work of a layer's forward call on CUDA cores with theory.

    Returns None if ncu did not count the call.  Half-precision instructions, which
    ``ncu_cuda_core_flops`` includes, are left out: compilers use such instructions to write
    constants into registers (HFMA2 of two zeros and the constant).  On an H100, PyTorch's float32
    addition of a bias executes one such instruction per thread.
    """
    additions = run.deterministic_value("ncu_fp32_additions", factors)
    multiplications = run.deterministic_value("ncu_fp32_multiplications", factors)
    multiply_adds = run.deterministic_value("ncu_fp32_multiply_adds", factors)
    if isinstance(additions, Missing) or isinstance(multiplications, Missing):
        return None
    if isinstance(multiply_adds, Missing):
        return None
    theory = as_flops(theory_macs(layer))
    beyond_theory = 2 * multiply_adds - theory.amount
    terms = (
        _if_counted(for_each_output("additions", layer), additions, "additions"),
        _if_counted(for_each_output("scaling", layer), multiplications, "multiplications"),
        _if_counted(bias_kernel(layer, ""), beyond_theory, "multiply-adds beyond theory"),
        _tensor_core_term(run.deterministic_value("ncu_tensor_core_flops", factors)),
    )
    flops = additions + multiplications + 2 * multiply_adds
    counted = Term("Counted", flops, "add + multiply + 2 · multiply-add", "ncu_fp32 counters")
    return Reconciliation(id, subject, "FLOP", theory, terms, counted)


def _tensor_core_term(flops: int | Missing) -> Term:
    """Return the work of tensor cores as a negative term, since CUDA cores do not count it."""
    name, formula = "Tensor-core work, not in these counters", "−operations of the tensor cores"
    if isinstance(flops, Missing):
        return Term(name, 0, formula, "0: not counted on this GPU")
    return Term(name, -flops, formula, "ncu_tensor_core_flops")


def _if_counted(term: Term, count: int, instructions: str) -> Term:
    """Return ``term`` if ``count`` equals its amount, else the term with amount 0.

    ``instructions`` names the counted instructions in the term's evidence.
    """
    if count == term.amount:
        return replace(term, evidence=f"equal to the counted {instructions}")
    return replace(term, amount=0, evidence=f"0: not equal to the counted {instructions}")
