"""Reconciliations: sums of terms, residuals, and shares of residuals."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.core.errors import StudyError
from report.core.missing import Missing
from report.theory.reconciliation import Reconciliation, Term


def term(name: str, amount: int) -> Term:
    return Term(name, amount, f"formula of {name}", f"evidence of {name}")


def reconciliation(
    start: int, amounts: list[int], measured: int | None, unit: str = "FLOP"
) -> Reconciliation:
    terms = tuple(term(f"Term {place}", amount) for place, amount in enumerate(amounts))
    counted = Missing("no counter") if measured is None else term("Counted", measured)
    return Reconciliation("example", "an example", unit, term("Theory", start), terms, counted)


@given(st.integers(), st.lists(st.integers(), max_size=6), st.integers())
def test_terms_and_residual_add_up(start: int, amounts: list[int], measured: int) -> None:
    plain = reconciliation(start, amounts, measured)
    assert not isinstance(plain.residual, Missing)
    assert plain.end + plain.residual == measured
    assert plain.explained == (start + sum(amounts) == measured)
    # A new term reduces the residual by the term's amount; names must differ.
    extended = replace(plain, terms=(*plain.terms, term("another", 7)))
    assert extended.residual == plain.residual - 7
    with pytest.raises(StudyError, match="two terms have the name 'Theory'"):
        replace(plain, terms=(term("Theory", 1),))


@pytest.mark.parametrize(("start", "measured", "share"), [
    (8, 8, 0.0),
    (8, 10, 0.2),
    (0, 0, 0.0),
    (0, 4, 1.0),
    (1, 0, Missing("a share of 0 is undefined")),
    (8, None, Missing("no counter")),
])  # fmt: skip
def test_residual_shares(start: int, measured: int | None, share: float | Missing) -> None:
    plain = reconciliation(start, [], measured)
    assert plain.residual_share == share
    assert plain.explained == (share == 0)
