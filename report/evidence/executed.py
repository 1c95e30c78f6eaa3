"""Compare counted work of a layer with theory: by lackey on a CPU, by ncu on a GPU."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from report.core.missing import Missing
from report.core.records.layers import Layer
from report.evidence.runs import CaseFactors, Run
from report.quantity.expression import Quantity, absent, exact
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import as_flops, bias_kernel, for_each_output, theory_macs

#: Lackey's counts of a second and of a first call, minus the count of a process without calls.
COUNTED: Final = "lackey_multiply_adds"
FIRST: Final = "lackey_multiply_adds_first"

#: Name of the term for the kernel that a first call creates.
MAKING: Final = "Kernel made in the first call"

Level = TypeVar("Level", int, str)


def counts(run: Run, cases: Mapping[Level, CaseFactors]) -> dict[Level, tuple[int, int]]:
    """Return (count of a call, work of creating the kernel in that count) by level.

    The count is that of the second call, which creates no kernel.  If a record has only the first
    call, the work of creating the kernel is taken from the largest level with both calls.
    """
    by_level = {
        level: (run.fixed(COUNTED, factors), run.fixed(FIRST, factors))
        for level, factors in cases.items()
    }
    both = (
        first - second
        for second, first in reversed(by_level.values())
        if isinstance(first, int) and isinstance(second, int)
    )
    making = next(both, 0)
    result: dict[Level, tuple[int, int]] = {}
    for level, (second, first) in by_level.items():
        if isinstance(second, int):
            result[level] = second, 0
        elif isinstance(first, int):
            result[level] = first, making
    return result


def executed(
    id: str, subject: str, theory: Term, count: int, making: int | None, *terms: Term
) -> Reconciliation:
    """Reconcile the count of a call with the theory of the whole call and ``terms``.

    ``making`` is the work of creating a kernel; None if no kernel is created.
    """
    formula = "first − second call of another batch size; 0 where the second call is counted"
    if making is not None:
        terms = (*terms, Term(MAKING, making, formula, "counts of the same record"))
    counted = Term("Executed", count, "counted lanes, call less base", COUNTED)
    return Reconciliation(id, subject, "MAC", theory, terms, counted)


def residual(reconciliations: Iterable[Reconciliation], unit: str, *sources: str) -> Quantity:
    """Return the largest residual (by absolute value) of reconciliations in ``unit``."""
    source, *others = sources or ("",)
    further = tuple(others)
    pairs = [
        (item.measured.amount, item.end)
        for item in reconciliations
        if not isinstance(item.measured, Missing)
    ]
    if not pairs:
        return absent("residual", unit, "nothing was measured that could be reconciled")
    measured, terms = max(pairs, key=lambda pair: abs(pair[0] - pair[1]))
    whole = exact("measured", unit, measured, source, further)
    return whole - exact("sum of terms", unit, terms, source, further)


def device_work(
    run: Run, factors: CaseFactors, layer: Layer, macs: int, id: str, subject: str
) -> Reconciliation | None:
    """Reconcile a call of ``macs`` multiply-adds with the CUDA cores' float32 counters, if counted.

    Half-precision instructions, which ``ncu_cuda_core_flops`` includes, are left out: compilers use
    such instructions to write constants into registers (HFMA2 of two zeros and the constant).  On
    an H100, PyTorch's float32 addition of a bias executes one such instruction per thread.
    """
    kinds = ("additions", "multiplications", "multiply_adds")
    counts = [run.fixed(f"ncu_fp32_{kind}", factors) for kind in kinds]
    adds, multiplies, fused = (count if isinstance(count, int) else -1 for count in counts)
    if min(adds, multiplies, fused) < 0:
        return None
    tensor = run.fixed("ncu_tensor_core_flops", factors)
    counted = isinstance(tensor, int)
    tensor_evidence = "ncu_tensor_core_flops" if counted else "0: not counted on this GPU"
    beyond = 2 * (fused - macs)
    return Reconciliation(
        id,
        subject,
        "FLOP",
        as_flops(replace(theory_macs(layer), amount=macs)),
        (
            _if_counted(for_each_output("additions", layer), adds, "additions"),
            _if_counted(for_each_output("scaling", layer), multiplies, "multiplications"),
            _if_counted(bias_kernel(layer, ""), beyond, "multiply-adds beyond theory"),
            # The counters of the CUDA cores do not include the tensor cores.
            Term(
                "Tensor-core work, not in these counters",
                -tensor if isinstance(tensor, int) else 0,
                "−operations of the tensor cores",
                tensor_evidence,
            ),
        ),
        Term(
            "Counted",
            adds + multiplies + 2 * fused,
            "add + multiply + 2 · multiply-add",
            "ncu_fp32 counters",
        ),
    )


def _if_counted(term: Term, counted: int, what: str) -> Term:
    """Return ``term`` if the counter equals its amount, else the term with amount 0."""
    if counted == term.amount:
        return replace(term, evidence=f"equal to the counted {what}")
    return replace(term, amount=0, evidence=f"0: not equal to the counted {what}")
