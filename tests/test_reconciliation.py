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


#: The first source study at batch 16: theory, bias additions, output scaling, Nsight Compute.
V100 = Reconciliation(
    "flops",
    "FLOPs on the V100",
    "FLOP",
    term("Theory", 339_738_624),
    (term("Bias additions", 589_824), term("Output scaling", 589_824)),
    term("Reported", 340_918_272),
)


def test_nothing_measured_is_neither_explained_nor_unexplained() -> None:
    absent = replace(V100, measured=Missing("no counter"))
    assert absent.end == V100.end
    assert absent.residual == absent.residual_share == Missing("no counter")
    nothing = replace(V100, start=term("Theory", 0), terms=(), measured=term("Counted", 0))
    assert (nothing.residual_share, nothing.explained) == (0.0, True)
    assert isinstance(replace(nothing, start=term("Theory", 1)).residual_share, Missing)
    assert replace(nothing, measured=term("Counted", 4)).residual_share == 1.0
    assert replace(V100, measured=term("Counted", 340_918_270)).residual == -2
    assert not absent.explained
    assert absent.residual_name == "Residual"


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


def test_a_name_stands_for_one_term() -> None:
    with pytest.raises(StudyError, match="two terms have the name 'Theory'"):
        replace(V100, terms=(term("Theory", 1),))


def series(residuals: dict[int, int]) -> dict[int, Reconciliation]:
    return {
        batch: reconciliation(100 * batch, [batch, -2], 101 * batch - 2 + left, "B")
        for batch, left in residuals.items()
    }


@pytest.mark.parametrize(
    ("left", "last", "unexplained"),
    [
        (0, "Residual", ()),
        (
            5,
            "Residual, unexplained",
            ("Unexplained, of what was measured: 0.1546\N{NO-BREAK SPACE}% at 32.",),
        ),
    ],
)
def test_a_series_has_a_row_a_level(left: int, last: str, unexplained: tuple[str, ...]) -> None:
    table = series_table("tbl-s", series({16: 0, 32: left}), "a.json", factor="Images")
    assert table is not None and table.sources == ("a.json",)
    names = ("Theory", "Term 0", "Term 1")
    assert [column.name for column in table.columns] == ["Images", *names, "Sum", "Counted", last]
    assert {column.unit for column in table.columns[1:]} == {"B"}
    assert table.rows == (
        (16, 1600, 16, -2, 1614, 1614, 0),
        (32, 3200, 32, -2, 3230, 3230 + left, left),
    )
    terms = tuple(f"{name}: formula of {name} (evidence of {name})." for name in names)
    assert table.notes == (*terms, *unexplained)


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
    figure = as_figure(V100)
    assert figure.total.amount == V100.end == 340_918_272
    assert [bar.amount for bar in figure.terms] == [589_824, 589_824]
    assert figure.left == Bar("Residual", 0)
    assert (figure.x_label, figure.per_label) == ("From zero (MFLOP)", pytest.approx(1e6))
