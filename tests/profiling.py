"""Records of the study conv_profiling with chosen cases and attachments, for its tests."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from report.records.record import Attachment, Case, Environment, Record
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.theory.terms import LIBRARY
from report.theory.work import output_bytes
from tests import factory

BUILD = f"built for tests with {LIBRARY}"


class Known(NamedTuple):
    """A forward call with the multiply-adds and the peak (B) that were worked out by hand."""

    shape: Dimensions
    batch: int
    macs: int
    peak: int
    subject: str = "layer"


#: On vectors of eight: no padding; both channels padded; unfolded; two shapes that are held out.
CALLS = (
    Known(BASE, 1, 10_616_832, 307_712),
    Known(BASE, 8, 84_934_656, 2_359_296),
    Known(BASE, 64, 679_477_248, 18_874_368),
    Known(Dimensions(33, 65, 3, 28), 8, 119_439_360, 2_525_184),
    Known(Dimensions(16, 32, 3, 28), 1, 2_488_321, 405_504),
    Known(Dimensions(9, 19, 3, 21), 8, 7_990_272, 420_832, "held_out"),
    Known(Dimensions(12, 26, 1, 27), 1, 182_017, 65_000, "held_out"),
)


def environment(**change: Any) -> Environment:
    """The tests' machine with the library whose kernels are known."""
    plain = factory.environment(**change)
    return msgspec.structs.replace(plain, torch=msgspec.structs.replace(plain.torch, build=BUILD))


def layer_case(call: Known, pass_: Any = "forward", **series: Iterable[Any]) -> Case:
    """A call of the layer; the backward pass doubles its work again."""
    layer = call.shape.layer(call.batch)
    found: dict[str, Iterable[Any]] = {
        **factory.memory(output_bytes(layer), call.peak),
        "lackey_multiply_adds": [call.macs * (1 if pass_ == "forward" else 3)],
        **series,
    }
    return Case(
        factors=call.shape.factors(call.batch, pass_, call.subject),
        status="ok",
        reason=None,
        layers=(layer,),
        series=factory.measured(found),
    )


def layer_cases() -> list[Case]:
    """All calls, and the example's with its backward pass."""
    return [
        *map(layer_case, CALLS),
        *(layer_case(call, "forward_backward") for call in CALLS[:3]),
    ]


def trace_case() -> Case:
    """The case of a trace; its file is among ``FILES``."""
    return Case(
        factors={
            "subject": "trace", "scope": "layer", "batch": 64, "pass": "forward_backward",
        },
        status="ok",
        reason=None,
        layers=(BASE.layer(64),),
        series={"memory_events": (4, -4)},
    )  # fmt: skip


def _operator(name: str, start: float, end: float, category: str = "cpu_op") -> dict[str, Any]:
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
    return {**event, "ts": start, "dur": round(end - start, 3), "args": {"External id": int(start)}}


def _memory(moment: float, size: int) -> dict[str, Any]:
    arguments = {"Bytes": size, "Device Type": 0}
    return {"ph": "i", "name": "[memory]", "tid": 1, "ts": moment, "args": arguments}


def trace() -> bytes:
    """A forward call that keeps 9,437,184 B of 24,485,888 B, and its backward call."""
    engine = "autograd::engine::evaluate_function: ConvolutionBackward0"
    events = [
        _operator("ridgepoint.call", 10.0, 300.0, "user_annotation"),
        _operator("aten::conv2d", 11.0, 100.0),
        _operator("aten::mkldnn_convolution", 12.0, 99.0),
        _memory(13.0, 15_048_704),
        _operator("aten::empty", 20.0, 21.0),
        _memory(20.5, 9_437_184),
        _memory(98.0, -15_048_704),
        _operator(engine, 130.0, 290.0),
        _operator("aten::convolution_backward", 131.0, 289.0),
        _memory(140.0, 5_611_776),
    ]
    return gzip.compress(json.dumps({"traceEvents": events}).encode(), mtime=0)


FILES: Mapping[str, bytes] = {"trace.layer-64.json.gz": trace()}


def record(
    cases: Iterable[Case] | None = None,
    machine: Environment | None = None,
    files: Mapping[str, bytes] = FILES,
) -> Record:
    """A whole record of the study with the digests of its files."""
    found = [*layer_cases(), trace_case()] if cases is None else cases
    plain = factory.record(found, machine or environment(), study="conv_profiling")
    return with_files(plain, files)


def with_files(record: Record, files: Mapping[str, bytes]) -> Record:
    """The record with the digests of ``files``."""
    attachments = tuple(
        Attachment(name=name, sha256=hashlib.sha256(content).hexdigest(), meaning="of the tests")
        for name, content in files.items()
    )
    return msgspec.structs.replace(record, attachments=attachments)
