"""The multiply-adds that a counter saw a layer execute, from theory; and what theory leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from report.evidence.runs import Factors, Run
from report.missing import Missing
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import furthest_from_zero
from report.records.layers import Convolution
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import COUNTED_WIDTH, padded_channels, skipped_padding, theory_macs

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
    making = _kernel_making(run, cases)
    found: dict[Level, tuple[int, int]] = {}
    for level, factors in cases.items():
        second, first = run.fixed(COUNTED, factors), run.fixed(FIRST, factors)
        if isinstance(second, int):
            found[level] = second, 0
        elif isinstance(first, int):
            found[level] = first, making
    return found


def _kernel_making(run: Run, cases: Mapping[Level, Factors]) -> int:
    """First less second call at the last level where both were counted; 0 where none was."""
    for factors in reversed(tuple(cases.values())):
        first, second = run.fixed(FIRST, factors), run.fixed(COUNTED, factors)
        if isinstance(first, int) and isinstance(second, int):
            return first - second
    return 0


def executed(
    id: str, subject: str, theory: Term, count: int, making: int, *terms: Term
) -> Reconciliation:
    """What was counted of a call, from the theory of the whole call and ``terms`` beside it."""
    made = Term(
        MAKING,
        making,
        "first − second call of another batch size; 0 where the second call is counted",
        "counts of the same record",
    )
    counted = Term("Executed", count, "counted lanes, call less base", COUNTED)
    return Reconciliation(id, subject, "MAC", theory, (*terms, made), counted)


def explained(id: str, subject: str, layer: Convolution, count: int) -> Reconciliation:
    """What was counted of a forward call of ``layer``, which oneDNN computes."""
    channels = layer.output_shape[1]
    terms = (
        skipped_padding(layer, f"padding {layer.padding[0]} in the recorded shapes"),
        padded_channels(
            layer,
            COUNTED_WIDTH,
            f"{channels} output channels in the recorded shapes, vectors of {COUNTED_WIDTH}",
        ),
    )
    counted = Term("Executed", count, "counted lanes, case less base", COUNTED)
    return Reconciliation(id, subject, "MAC", theory_macs(layer), terms, counted)


def residual(reconciliations: Iterable[Reconciliation], unit: str, *sources: str) -> Quantity:
    """The residual that is furthest from 0 among several reconciliations in ``unit``."""
    source, *others = sources or ("",)
    further = tuple(others)
    parts = [
        exact("measured", unit, item.measured.amount, source, further)
        - exact("sum of terms", unit, item.end, source, further)
        for item in reconciliations
        if not isinstance(item.measured, Missing)
    ]
    if not parts:
        return absent("residual", unit, "nothing was measured that could be reconciled")
    return furthest_from_zero(*parts)
