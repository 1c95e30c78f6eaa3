"""Traces: one made by hand, and every kind of broken file."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from report.errors import RecordError
from report.instruments.trace import Trace, read_trace

PLACE = "data/conv_profiling/run/trace.layer-64.json.gz"


def operator(name: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    """A complete event between two moments in µs."""
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1}
    return {**event, "ts": start, "dur": round(end - start, 3), **more}


def memory(moment: float, size: int, device: int = 0, tid: int = 1) -> dict[str, Any]:
    arguments = {"Bytes": size, "Device Type": device, "Device Id": -1, "Addr": 7}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": tid,
            "ts": moment, "args": arguments}  # fmt: skip


def kernel(name: str, start: float, end: float, external: int) -> dict[str, Any]:
    return operator(name, start, end, cat="kernel", tid=7, args={"External id": external})


#: A convolution with a workspace on a GPU, as the source's table shows one, and its backward step.
EVENTS = [
    {"ph": "M", "name": "process_name", "ts": 0.001, "pid": 1, "tid": 0, "args": {"name": "x"}},
    operator("step", 100.0, 200.0, cat="user_annotation"),
    operator("aten::conv2d", 101.0, 150.0, args={"External id": 1}),
    operator("aten::cudnn_convolution", 102.0, 149.0, args={"External id": 2}),
    operator("aten::empty", 103.0, 104.0, args={"External id": 3}),
    memory(103.5, 9216, device=1),
    operator("aten::empty", 105.0, 106.0),
    memory(105.5, 31392, device=1),
    memory(140.0, -31392, device=1),
    memory(141.0, 64),
    kernel("implicit_gemm", 120.0, 170.25, 2),
    kernel("elementwise", 170.5, 171.0, 1),
    operator("autograd::engine::evaluate_function: ConvolutionBackward0", 160.0, 190.0, tid=2),
    operator("aten::convolution_backward", 161.0, 189.0, tid=2),
    memory(170.0, 512, tid=2),
    memory(195.0, -512, tid=1),
    operator("aten::is_leaf", 191.0, 192.0),
    {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "P",
     "ts": 1.0, "dur": 500.0},
]  # fmt: skip


def written(events: list[dict[str, Any]]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def made(events: list[dict[str, Any]] | None = None) -> Trace:
    return read_trace(written(EVENTS if events is None else events), PLACE)


# ----------------------------------------------------------------------------------- by hand


def test_memory_and_kernels_are_those_of_the_events() -> None:
    trace = made()
    moments = [(event.moment, event.change, event.on_host) for event in trace.memory]
    assert moments == [
        (3500, 9216, False),
        (5500, 31392, False),
        (40_000, -31392, False),
        (41_000, 64, True),
        (70_000, 512, True),
        (95_000, -512, True),
    ]
    assert [(k.name, k.start, k.duration) for k in trace.kernels] == [
        ("implicit_gemm", 20_000, 50_250),
        ("elementwise", 70_500, 500),
    ]


# -------------------------------------------------------------------------------- broken files


def without(index: int, field: str) -> bytes:
    events = [dict(event) for event in EVENTS]
    del events[index][field]
    return written(events)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (written(EVENTS)[:-30], "not valid JSON"),
        (gzip.compress(written(EVENTS))[:-9], "cannot be unpacked"),
        (b"{}", "traceEvents: this field is missing"),
        (written([kernel("k", 1, 2, 1)]), "expected operators of torch.profiler, found none"),
        (without(2, "ph"), r"traceEvents\[2\].ph: this field is missing"),
        (without(2, "ts"), r"traceEvents\[2\].ts: this field is missing"),
        (without(2, "dur"), "expected a duration of at least 0, found None"),
        (without(5, "args"), r"traceEvents\[5\].args.Bytes: this field is missing"),
        (written([operator("a", 2, 1)]), "expected a duration of at least 0, found -1"),
        (written([operator("a", 2, 1, ts="soon")]), r"traceEvents\[0\].ts"),
    ],
)
def test_what_is_no_trace_is_told_with_its_place(content: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=f"^{PLACE}: .*{words}.*run the experiment again.$"):
        read_trace(content, PLACE)
