"""Logs of counting programs as a file beside a record; and a real run's own counts."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.instruments.counters.logs import CaseLogs, pack, unpack
from report.records.filed import parse
from report.theory.work import macs
from tests import factory

# ---------------------------------------------------------------------------------- attachment


@given(
    st.dictionaries(
        st.integers(0, 99), st.dictionaries(st.sampled_from(["base", "first"]), st.text())
    )
)
def test_what_is_packed_is_unpacked_in_order(logs: dict[int, dict[str, str]]) -> None:
    cases = [CaseLogs(case=index, logs=texts) for index, texts in logs.items()]
    content = pack("lackey", cases)
    assert unpack(content, "lackey", "a file") == tuple(sorted(cases, key=lambda item: item.case))
    assert pack("lackey", reversed(cases)) == content, "equal logs give equal bytes"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: b"", "not valid JSON"),
        (lambda content: content[:-9], "cannot be unpacked"),
        (lambda content: b"no" + content, "not UTF-8"),
        (lambda content: gzip.compress(b"{}"), "this field is missing"),
        (lambda content: pack("ncu", ()), "tool: expected lackey, found ncu"),
    ],
)
def test_a_damaged_file_is_told(damage: Callable[[bytes], bytes], said: str) -> None:
    content = pack("lackey", [CaseLogs(case=0, logs={"base": "12"})])
    with pytest.raises(RecordError, match=f"^a file: .*({said})"):
        unpack(damage(content), "lackey", "a file")


ROOT = Path(__file__).parents[1]


def test_the_layer_executes_what_theory_says_to_the_unit() -> None:
    """The record of the tests, from this code on a real machine: every warm call of the layer."""
    (path,) = (ROOT / "tests" / "records").glob("*.zip")
    compared = 0
    for case in parse(factory.text_of(path), path.name).cases:
        counted = case.samples("lackey_multiply_adds")
        if counted and case.factors["subject"] == "layer":
            passes = 3 if case.factors["pass"] == "forward_backward" else 1
            assert counted == (passes * macs(case.layers[0]),), case.factors
            compared += 1
    assert compared >= 4
