"""Reconciliations: sums, residuals that cannot hide, and what each output prints of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.panels import Bar
from report.errors import StudyError
from report.missing import Missing
from report.paper.reconciliations import as_figure, series_table
from report.theory.reconciliation import Reconciliation, Term, without_idle_terms


def term(name: str, amount: int) -> Term:
    return Term(name, amount, f"formula of {name}", f"evidence of {name}")


def reconciliation(
    start: int, amounts: list[int], measured: int | None, unit: str = "FLOP"
) -> Reconciliation:
    return Reconciliation(
        "example",
        "an example",
        unit,
        term("Theory", start),
        tuple(term(f"Term {index}", amount) for index, amount in enumerate(amounts)),
        Missing("no counter") if measured is None else term("Counted", measured),
    )


@given(st.integers(), st.lists(st.integers(), max_size=6), st.integers())
def test_start_terms_and_residual_are_the_measurement(
    start: int, amounts: list[int], measured: int
) -> None:
    this = reconciliation(start, amounts, measured)
    assert not isinstance(this.residual, Missing)
    assert this.end + this.residual == measured
    assert this.explained == (start + sum(amounts) == measured)
    # A new term may only move the residual by its own amount.
    more = replace(this, terms=(*this.terms, term("another", 7)))
    assert more.residual == this.residual - 7


@pytest.mark.parametrize(
    ("start", "measured", "share", "explained"),
    [
        (8, 8, 0.0, True),
        (8, 10, 0.2, False),
        (0, 0, 0.0, True),
        (0, 4, 1.0, False),
        (1, 0, Missing("nothing was measured to compare with"), False),
        (8, None, Missing("no counter"), False),
    ],
)
def test_a_residual_is_a_share_of_what_was_measured(
    start: int, measured: int | None, share: float | Missing, explained: bool
) -> None:
    this = reconciliation(start, [], measured)
    found = this.residual_share
    assert type(found) is type(share) and (isinstance(found, Missing) or found == share)
    assert this.explained == explained


def test_a_name_stands_for_one_term() -> None:
    with pytest.raises(StudyError, match="two terms have the name 'Theory'"):
        replace(reconciliation(1, [], 1), terms=(term("Theory", 1),))


def test_a_series_has_a_row_a_level() -> None:
    rows = {
        batch: reconciliation(100 * batch, [batch, -2], 101 * batch - 2 + left, "B")
        for batch, left in ((16, 0), (32, 5))
    }
    table = series_table("tbl-s", rows, "a.json", factor="Images")
    assert table is not None and table.sources == ("a.json",)
    names = ("Theory", "Term 0", "Term 1")
    last = ("Sum", "Counted", "Residual, unexplained")
    assert [column.name for column in table.columns] == ["Images", *names, *last]
    assert {column.unit for column in table.columns[1:]} == {"B"}
    assert table.rows == (
        (16, 1600, 16, -2, 1614, 1614, 0),
        (32, 3200, 32, -2, 3230, 3235, 5),
    )
    terms = tuple(f"{name}: formula of {name} (evidence of {name})." for name in names)
    unexplained = "Unexplained, of what was measured: 0.1546\N{NO-BREAK SPACE}% at 32."
    assert table.notes == (*terms, unexplained)


def test_terms_that_are_zero_in_every_row_can_be_left_out() -> None:
    rows = {batch: reconciliation(8, [0, 5, amount], 13) for batch, amount in ((1, 0), (2, 7))}
    shown = without_idle_terms(rows)
    assert [[t.name for t in r.terms] for r in shown.values()] == [["Term 1", "Term 2"]] * 2
    assert [r.residual for r in shown.values()] == [r.residual for r in rows.values()]


def test_a_series_needs_rows_of_one_shape() -> None:
    assert series_table("tbl-s", {}) is None
    mixed = {1: reconciliation(1, [1], 2), 2: reconciliation(1, [1, 1], 3)}
    units = {1: reconciliation(1, [1], 2), 2: reconciliation(1, [1], 2, "B")}
    for rows in (mixed, units):
        with pytest.raises(StudyError, match="tbl-s: a row has the headings"):
            series_table("tbl-s", rows)


def test_the_figure_has_all_bars_in_one_unit() -> None:
    """The first source at batch 16: theory, bias, output scaling, and what it counted."""
    this = reconciliation(339_738_624, [589_824, 589_824], 340_918_272)
    figure = as_figure(this)
    assert figure.total.amount == this.end == 340_918_272
    assert [bar.amount for bar in figure.terms] == [589_824, 589_824]
    assert figure.left == Bar("Residual", 0)
    assert (figure.x_label, figure.per_label) == ("From zero (MFLOP)", pytest.approx(1e6))
