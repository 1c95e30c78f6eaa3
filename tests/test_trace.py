"""Traces: one made by hand, and every kind of broken file."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from report.errors import RecordError
from report.instruments.trace import read_trace

PLACE = "data/conv_profiling/run/trace.json.gz"


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


def written(events: list[dict[str, Any]]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def test_memory_and_kernels_are_those_of_the_events_in_the_order_of_time() -> None:
    trace = read_trace(written(EVENTS), PLACE)
    assert trace.memory == ((64, True), (31392, False), (-31392, False))
    assert trace.kernels == (("Memset", 500, True), ("implicit_gemm", 50_250, False))


def without(index: int, field: str) -> bytes:
    events = [dict(event) for event in EVENTS]
    del events[index][field]
    return written(events)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (written(EVENTS)[:-30], "not valid JSON"),
        (gzip.compress(written(EVENTS))[:-9], "cannot be unpacked"),
        (b"{}", "traceEvents: this field is missing"),
        (written(EVENTS[:1]), "expected operators of torch.profiler, found none"),
        (without(2, "ts"), r"traceEvents\[2\].ts: this field is missing"),
        (without(2, "dur"), "expected a duration of at least 0, found None"),
        (without(3, "args"), r"traceEvents\[3\].args.Bytes: this field is missing"),
        (written([operator("a", 2, 1)]), "expected a duration of at least 0, found -1"),
        (written([operator("a", 2, 1, ts="soon")]), r"traceEvents\[0\].ts"),
        (written([operator("a", 1e308, 1e308)]), "expected times below"),
    ],
)
def test_what_is_no_trace_is_told_with_its_place(content: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=f"^{PLACE}: .*{words}.*run the experiment again.$"):
        read_trace(content, PLACE)
