"""Samples as text: read back they are the rows of the frame."""

from __future__ import annotations

import io

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from report.frames import Column, sample_frame
from report.records import Case
from report.samples import samples_csv
from tests import factory

FIRST = factory.stored(factory.record(factory.layer_cases((1, 4))))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
levels = st.one_of(st.integers(-9, 9), st.floats(-2, 2), texts)
factors = st.dictionaries(st.sampled_from(["batch", "pass", "a,b", 'q"']), levels, max_size=3)
numbers = st.one_of(st.integers(0, 2**60), st.floats(0, 1e300))
cases = st.lists(st.tuples(factors, st.lists(numbers, max_size=4)), min_size=1, max_size=4)


def read(text: str) -> pd.DataFrame:
    """The text as it stands, without a guess at types."""
    return pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False, lineterminator="\n")


def test_the_rows_are_those_of_the_frame() -> None:
    other = factory.stored(factory.record([factory.case(8, time=(0.5, 0.25))]))
    text, frame = samples_csv((FIRST, other)), sample_frame((FIRST, other))
    found = pd.read_csv(io.StringIO(text))
    assert sorted(found.columns) == sorted(frame.columns)
    pd.testing.assert_frame_equal(found[frame.columns], frame, check_dtype=False)


def test_numbers_are_read_back_exactly() -> None:
    samples = [sample for c in FIRST.record.cases for s in c.series for sample in s.samples]
    found = read(samples_csv((FIRST,)))[str(Column.VALUE)]
    assert [type(s)(text) for s, text in zip(samples, found, strict=True)] == samples


def case(found: dict[str, object], samples: list[float]) -> Case:
    series = (factory.series("time", samples),)
    return Case(factors=found, status="ok", reason=None, layers=(), series=series)  # type: ignore[arg-type]


@settings(deadline=None)
@given(cases)
def test_whatever_stands_in_a_factor_stays_in_its_cell(
    found: list[tuple[dict[str, object], list[float]]],
) -> None:
    stored = factory.stored(factory.record([case(*item) for item in found]))
    text = samples_csv((stored,))
    rows = list(csv_rows(text))
    assert len(rows) == sum(len(samples) for _, samples in found)
    for row, (levels_, sample) in zip(
        rows, ((levels_, s) for levels_, samples in found for s in samples), strict=True
    ):
        assert row[str(Column.VALUE)] == repr(sample)
        assert {n: v for n, v in row.items() if n in levels_} == {
            n: str(level) for n, level in levels_.items()
        }


def csv_rows(text: str) -> list[dict[str, str]]:
    import csv

    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_nothing_leaves_the_head() -> None:
    assert samples_csv(()) == "file,device,case,quantity,unit,repetition,value\n"
