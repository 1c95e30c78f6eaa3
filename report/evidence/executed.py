"""What counters saw a layer execute, on a CPU by lackey and on a GPU by ncu, beside theory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from report.core.missing import Missing
from report.core.records.layers import Convolution, Layer
from report.evidence.runs import Factors, Run
from report.quantity.expression import Quantity, absent, exact
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import (
    COUNTED_WIDTH,
    as_flops,
    bias_kernel,
    for_each_output,
    padded_channels,
    skipped_padding,
    theory_macs,
)

#: What lackey counts of a call beyond the process that makes none, and of its first call.
COUNTED: Final = "lackey_multiply_adds"
FIRST: Final = "lackey_multiply_adds_first"

#: The term of the kernel that a first call makes.
MAKING: Final = "Kernel made in the first call"

Level = TypeVar("Level", int, str)


def counts(run: Run, cases: Mapping[Level, Factors]) -> dict[Level, tuple[int, int]]:
    """By level, the count of a case and what the making of its kernel adds to it.

    The second call of a case is what is counted, and adds nothing; where a record has only the
    first, which also makes the kernel, that is as large as the largest other level shows it.
    """
    seen = {
        level: (run.fixed(COUNTED, each), run.fixed(FIRST, each)) for level, each in cases.items()
    }
    both = (
        first - second
        for second, first in reversed(seen.values())
        if isinstance(first, int) and isinstance(second, int)
    )
    making = next(both, 0)
    found: dict[Level, tuple[int, int]] = {}
    for level, (second, first) in seen.items():
        if isinstance(second, int):
            found[level] = second, 0
        elif isinstance(first, int):
            found[level] = first, making
    return found


def executed(
    id: str, subject: str, theory: Term, count: int, making: int | None, *terms: Term
) -> Reconciliation:
    """What was counted of a call, from the theory of the whole call and ``terms`` beside it.

    ``making`` is what the making of a kernel adds, None where that is no question.
    """
    formula = "first − second call of another batch size; 0 where the second call is counted"
    if making is not None:
        terms = (*terms, Term(MAKING, making, formula, "counts of the same record"))
    counted = Term("Executed", count, "counted lanes, call less base", COUNTED)
    return Reconciliation(id, subject, "MAC", theory, terms, counted)


def padding_terms(layer: Convolution) -> tuple[Term, Term]:
    """What oneDNN skips of a forward call of ``layer``, and what it computes beyond theory."""
    channels = layer.output_shape[1]
    return (
        skipped_padding(layer, f"padding {layer.padding[0]} in the recorded shapes"),
        padded_channels(
            layer,
            COUNTED_WIDTH,
            f"{channels} output channels in the recorded shapes, vectors of {COUNTED_WIDTH}",
        ),
    )


def residual(reconciliations: Iterable[Reconciliation], unit: str, *sources: str) -> Quantity:
    """The residual that is furthest from 0 among several reconciliations in ``unit``."""
    source, *others = sources or ("",)
    further = tuple(others)
    found = [
        (item.measured.amount, item.end)
        for item in reconciliations
        if not isinstance(item.measured, Missing)
    ]
    if not found:
        return absent("residual", unit, "nothing was measured that could be reconciled")
    measured, terms = max(found, key=lambda ends: abs(ends[0] - ends[1]))
    whole = exact("measured", unit, measured, source, further)
    return whole - exact("sum of terms", unit, terms, source, further)


def device_work(
    run: Run, factors: Factors, layer: Layer, macs: int, id: str, subject: str
) -> Reconciliation | None:
    """What the CUDA cores' counters saw in float32 of a call of ``macs`` multiply-adds.

    None uncounted.  Half-precision instructions are left out, which the record's
    ``ncu_cuda_core_flops`` holds: compilers use them to write constants into registers (HFMA2 of
    two zeros and the constant).  On an H100 PyTorch's addition of a bias in float32 executes one
    for each of its threads.
    """
    kinds = ("additions", "multiplications", "multiply_adds")
    counts = [run.fixed(f"ncu_fp32_{kind}", factors) for kind in kinds]
    adds, multiplies, fused = (count if isinstance(count, int) else -1 for count in counts)
    if min(adds, multiplies, fused) < 0:
        return None
    tensor = run.fixed("ncu_tensor_core_flops", factors)
    beyond = 2 * (fused - macs)
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
        Term(
            "Counted",
            adds + multiplies + 2 * fused,
            "add + multiply + 2 · multiply-add",
            "ncu_fp32 counters",
        ),
    )


def _if_seen(term: Term, counted: int, what: str) -> Term:
    """A term of single operations if the counter of that kind shows just it, else 0."""
    if counted == term.amount:
        return replace(term, evidence=f"equal to the counted {what}")
    return replace(term, amount=0, evidence=f"0: not equal to the counted {what}")
