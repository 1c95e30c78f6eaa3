"""Files that instruments leave beside a record, read back; and a real run's own counts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.instruments.counters.logs import CaseLogs, pack, unpack
from report.instruments.trace import read_trace
from report.records.filed import parse
from report.theory.work import macs
from tests import factory

# ----------------------------------------------------------------------------------------- traces


def operator(name: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    """A complete event between two moments in µs."""
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1}
    return {**event, "ts": start, "dur": round(end - start, 3), **more}


def memory(moment: float, size: int, device: int = 0) -> dict[str, Any]:
    arguments = {"Bytes": size, "Device Type": device, "Device Id": -1, "Addr": 7}
    return {"ph": "i", "name": "[memory]", "ts": moment, "args": arguments}


#: A convolution with a workspace on a GPU, and a result on the host.
EVENTS = [
    {"ph": "M", "name": "process_name", "ts": 0.001, "args": {"name": "x"}},
    operator("step", 100.0, 200.0, cat="user_annotation"),
    operator("aten::conv2d", 101.0, 150.0),
    memory(105.5, 31392, device=1),
    memory(140.0, -31392, device=1),
    memory(103.5, 64),
    operator("implicit_gemm", 120.0, 170.25, cat="kernel"),
    operator("Memset", 110.5, 111.0, cat="gpu_memset"),
    {"ph": "X", "cat": "Trace", "name": "Profiler (0)", "pid": "Spans", "ts": 1.0, "dur": 500.0},
]


def traced(*events: dict[str, Any]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def without(index: int, field: str) -> bytes:
    event = {name: value for name, value in EVENTS[index].items() if name != field}
    return traced(*EVENTS[:index], event, *EVENTS[index + 1 :])


def test_memory_and_kernels_are_those_of_the_events_in_the_order_of_time() -> None:
    trace = read_trace(traced(*EVENTS), "here")
    assert trace.memory == ((64, True), (31392, False), (-31392, False))
    assert trace.kernels == (("Memset", 500, True), ("implicit_gemm", 50_250, False))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (traced(*EVENTS)[:-30], "not valid JSON"),
        (gzip.compress(traced(*EVENTS))[:-9], "cannot be unpacked"),
        (traced(*EVENTS[:1]), "expected operators of torch.profiler, found none"),
        (without(2, "ts"), r"traceEvents\[2\].ts: this field is missing"),
        (without(2, "dur"), "expected a duration of at least 0, found None"),
        (without(3, "args"), r"traceEvents\[3\].args.Bytes: this field is missing"),
        (traced(operator("a", 2, 1)), "expected a duration of at least 0, found -1"),
        (traced(operator("a", 1e308, 1e308)), "expected times below"),
    ],
    ids=range(8),
)
def test_what_is_no_trace_is_told_with_its_place(content: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=f"^here: .*{words}.*run the experiment again.$"):
        read_trace(content, "here")


# ------------------------------------------------------------------------ logs of counting programs


@given(st.dictionaries(st.integers(0, 99), st.dictionaries(st.text(), st.text())))
def test_what_is_packed_is_unpacked_in_order(logs: dict[int, dict[str, str]]) -> None:
    cases = [CaseLogs(case=index, logs=texts) for index, texts in logs.items()]
    content = pack("lackey", cases)
    assert unpack(content, "lackey", "here") == tuple(sorted(cases, key=lambda item: item.case))
    assert pack("lackey", reversed(cases)) == content, "equal logs give equal bytes"


def test_a_damaged_file_is_told() -> None:
    for content, said in (
        (b"", "not valid JSON"),
        (pack("lackey", ())[:-9], "cannot be unpacked"),
        (gzip.compress(b"{}"), "this field is missing"),
        (pack("ncu", ()), "tool: expected lackey, found ncu"),
    ):
        with pytest.raises(RecordError, match=f"^here: .*({said})"):
            unpack(content, "lackey", "here")


def test_the_layer_executes_what_theory_says_to_the_unit() -> None:
    """The record of the tests, from this code on a real machine: every warm call of the layer."""
    (path,) = (Path(__file__).parent / "records").glob("*.zip")
    compared = 0
    for case in parse(factory.text_of(path), path.name).cases:
        counted = case.samples("lackey_multiply_adds")
        if counted and case.factors["subject"] == "layer":
            passes = 3 if case.factors["pass"] == "forward_backward" else 1
            assert counted == (passes * macs(case.layers[0]),), case.factors
            compared += 1
    assert compared >= 4
