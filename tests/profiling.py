"""Records of the study conv_profiling with chosen cases and attachments, for its tests."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from report.records.record import Attachment, Case, Environment, Record
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.theory.convolutions import executed_terms, method
from report.theory.products import LIBRARY
from tests import factory

BUILD = f"built for tests with {LIBRARY}"
BATCHES = (1, 2, 8, 64)
#: One of each kind: a vector's width on both sides, beside it, unfolded, a single element.
OTHERS = (
    Dimensions(20, 40, 3, 28),
    Dimensions(33, 65, 3, 28),
    Dimensions(32, 64, 1, 28),
    Dimensions(32, 64, 3, 16),
)


def environment(**change: Any) -> Environment:
    """The tests' machine with the library whose kernels are known."""
    plain = factory.environment(**change)
    return msgspec.structs.replace(plain, torch=msgspec.structs.replace(plain.torch, build=BUILD))


def layer_case(
    dimensions: Dimensions = BASE,
    batch: int = 1,
    pass_: Any = "forward",
    excess: int = 0,
    **series: Iterable[Any],
) -> Case:
    """A case of the layer, counted as the rules say plus ``excess``."""
    layer = dimensions.layer(batch)
    extra = sum(t.amount for t in executed_terms(layer, 1, BUILD, 8)) if pass_ == "forward" else 0
    output, beside = _blocks(dimensions, batch)
    found: dict[str, Iterable[Any]] = {
        "time": factory.scattered(1e-4 + 1e-4 * batch),
        **factory.memory(output, output + beside),
        "memory_events": [beside, output, -beside],
        "lackey_multiply_adds": [dimensions.multiply_adds(batch, pass_) + extra + excess],
        **series,
    }
    return Case(
        factors=dimensions.factors(batch, pass_),
        status="ok",
        reason=None,
        layers=(layer,),
        series=tuple(factory.series(name, samples) for name, samples in found.items() if samples),
    )


def _blocks(dimensions: Dimensions, batch: int) -> tuple[int, int]:
    """Bytes of the output, and of what lives beside it: columns, or a copy in blocks of eight."""
    layer = dimensions.layer(batch)
    positions = 4 * batch * (dimensions.extent - dimensions.kernel + 1) ** 2
    if method(layer, 2) == "unfolded":
        beside = dimensions.inputs * dimensions.kernel**2
    else:
        beside = -(-dimensions.outputs // 8) * 8
    return positions * dimensions.outputs, positions * beside


def layer_cases() -> list[Case]:
    """The example's layer at all batches and both passes, other dimensions at 1 and 8."""
    passes = ("forward", "forward_backward")
    base = [layer_case(BASE, batch, pass_) for pass_ in passes for batch in BATCHES]
    return [*base, *(layer_case(other, batch) for other in OTHERS for batch in (1, 8))]


def trace_case(scope: str, batch: int = 64) -> Case:
    """The case of a trace; its file is among ``FILES``."""
    return Case(
        factors={
            "subject": "trace", "scope": scope, "batch": batch, "pass": "forward_backward",
        },
        status="ok",
        reason=None,
        layers=(BASE.layer(batch),),
        series=(factory.series("memory_events", [4, -4]),),
    )  # fmt: skip


def _operator(name: str, start: float, end: float, category: str = "cpu_op") -> dict[str, Any]:
    event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1}
    return {**event, "ts": start, "dur": round(end - start, 3), "args": {"External id": int(start)}}


def _memory(moment: float, size: int, device: int = 0) -> dict[str, Any]:
    arguments = {"Bytes": size, "Device Type": device}
    return {"ph": "i", "name": "[memory]", "tid": 1, "ts": moment, "args": arguments}


def trace(*, gpu: bool = False) -> bytes:
    """A forward call that keeps 9,437,184 B of 24,485,888 B, and its backward call."""
    device = int(gpu)
    engine = "autograd::engine::evaluate_function: ConvolutionBackward0"
    events = [
        _operator("ridgepoint.call", 10.0, 300.0, "user_annotation"),
        _operator("aten::conv2d", 11.0, 100.0),
        _operator("aten::mkldnn_convolution", 12.0, 99.0),
        _memory(13.0, 15_048_704, device),
        _operator("aten::empty", 20.0, 21.0),
        _memory(20.5, 9_437_184, device),
        _memory(98.0, -15_048_704, device),
        _operator("aten::relu", 110.0, 120.0),
        _operator(engine, 130.0, 290.0),
        _operator("aten::convolution_backward", 131.0, 289.0),
        _memory(140.0, 5_611_776, device),
        *([_operator("implicit_gemm", 30.0, 90.0, "kernel")] if gpu else []),
    ]
    return gzip.compress(json.dumps({"traceEvents": events}).encode(), mtime=0)


FILES: Mapping[str, bytes] = {"trace.layer-64.json.gz": trace()}


def record(
    cases: Iterable[Case] | None = None,
    machine: Environment | None = None,
    files: Mapping[str, bytes] = FILES,
) -> Record:
    """A whole record of the study with the digests of its files."""
    found = [*layer_cases(), trace_case("layer")] if cases is None else cases
    cases = factory.by_processes(found)
    plain = factory.record(cases, machine or environment(), study="conv_profiling")
    return with_files(plain, files)


def with_files(record: Record, files: Mapping[str, bytes]) -> Record:
    """The record with the digests of ``files``."""
    attachments = tuple(
        Attachment(name=name, sha256=hashlib.sha256(content).hexdigest(), meaning="of the tests")
        for name, content in files.items()
    )
    return msgspec.structs.replace(record, attachments=attachments)
