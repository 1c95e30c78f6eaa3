"""What lackey prints, whole and in every kind of damage; and a real run's own logs."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.instruments.counters import lackey
from report.instruments.counters.logs import CaseLogs, pack, unpack
from report.records.filed import parse
from report.theory.work import macs
from tests import factory

#: As valgrind 3.19 wrote it for one call of a convolution; the command is shortened.
LOG = """\
==21604== Lackey, an example Valgrind tool
==21604== Copyright (C) 2002-2017, and GNU GPL'd, by Nicholas Nethercote.
==21604== Using Valgrind-3.19.0 and LibVEX; rerun with -h for copyright info
==21604== Command: python -m experiments.harness.counters.lackey_worker plan.json
==21604== Parent PID: 21202
==21604== 
==21604== brk segment overflow in thread #1: can't grow to 0x484b000
==21604== (see section Limitations in user manual)
==21604== NOTE: further instances of this message will not be shown
==21604== 
==21604== 
==21604== IR-level counts by type:
==21604==    Type        Loads       Stores       AluOps
==21604==    -------------------------------------------
==21604==    I1              0            0 1,388,344,273
==21604==    I8    133,988,010   28,322,328  389,566,321
==21604==    I16    25,527,326    4,879,392   82,231,624
==21604==    I32   117,419,234   55,760,333  971,380,078
==21604==    I64  1,030,908,765  614,762,040 4,273,302,621
==21604==    I128            0            0    3,882,014
==21604==    F32       820,153            0   25,863,926
==21604==    F64         2,503            0    1,004,487
==21604==    F128            0            0            0
==21604==    V128   14,208,796   25,774,449   17,712,712
==21604==    V256    6,846,538    5,638,979    6,778,174
==21604==    D32             0            0            0
==21604==    D64             0            0            0
==21604==    D128            0            0            0
"""  # noqa: W291
BASE = LOG.replace("25,863,926", "15,247,094")
SECOND = LOG.replace("25,863,926", "36,480,758")


# ------------------------------------------------------------------------------------- lackey


def test_the_table_is_read_by_type() -> None:
    found = lackey.parse_log(LOG, "log")
    assert found["F32"] == lackey.Operations(loads=820_153, stores=0, alu=25_863_926)
    assert found["V256"].alu == 6_778_174
    assert len(found) == 14


WARM = 32 * 64 * 9 * 24 * 24


def test_one_call_is_a_difference_of_processes() -> None:
    logs = {"base": BASE, "first": LOG}
    once = {"lackey_multiply_adds_base": (15_247_094,), "lackey_multiply_adds_first": (WARM,)}
    found = lackey.series_of(logs, "case 0")
    assert {item.quantity: item.samples for item in found} == once
    twice = lackey.series_of({**logs, "second": SECOND}, "case 0")
    assert {item.quantity: item.samples for item in twice} == {
        **once, "lackey_multiply_adds": (WARM,),
    }  # fmt: skip
    for wrong, said in (({"base": LOG, "first": BASE}, "fewer"), ({"base": LOG}, "first process")):
        with pytest.raises(RecordError, match=said):
            lackey.series_of(wrong, "case 0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("==7== \n\n", "the log is empty"),
        ("bash: valgrind: Permission denied\n", "expected lackey's log, found 'bash: valgrind"),
        (LOG[: LOG.index("==21604== IR-level")], "ends before its table"),
        (LOG[: LOG.index("==21604==    V128")], "cut off before V128"),
        (LOG[: LOG.index("863,926")], "line 21"),
        (LOG[:-1], "cut off before its end"),
        *(
            (LOG.replace("25,863,926", cell), "line 21")
            for cell in ("25.863.926", "25'863'926", "25863926,0", "2.6e7", "25 863 926", "-1")
        ),
    ],
)
def test_damage_is_told_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(RecordError, match=f"^lackey, case 3: .*{said}") as caught:
        lackey.parse_log(text, "lackey, case 3")
    assert "\n" not in str(caught.value)


@given(end=st.integers(0, len(LOG) - 1))
def test_no_log_that_is_cut_off_gives_a_count(end: int) -> None:
    with pytest.raises(RecordError):
        lackey.parse_log(LOG[:end], "log")


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
        (lambda content: content[:-9], "not a whole gzip"),
        (lambda content: b"no" + content, "not valid JSON"),
        (lambda content: gzip.compress(b"{}"), "this field is missing"),
        (lambda content: pack("ncu", ()), "tool: expected lackey, found ncu"),
    ],
)
def test_a_damaged_file_is_told(damage: Callable[[bytes], bytes], said: str) -> None:
    content = pack("lackey", [CaseLogs(case=0, logs={"base": LOG})])
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
