"""Every case of conv_scaling as it would run on a GPU, on tensors without memory.

PyTorch's meta device stands in for the GPU: it knows shapes and types.  Clock and allocator are
played.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from experiments import conv_scaling
from experiments.harness import cuda_memory
from experiments.harness.counters.tools import TOOLS
from experiments.harness.selection import default_levels
from experiments.harness.study import FULL, Factors, Session
from experiments.harness.sweep import run_case
from experiments.harness.workload import Workload
from report.records.layers import Layer
from report.records.record import Case
from report.theory.shapes import elements

torch = pytest.importorskip("torch")

STUDY = conv_scaling.STUDY.on("cuda")
CASES = STUDY.cases(default_levels(STUDY, quick=False))
PROTOCOL = msgspec.structs.replace(
    FULL.protocol, minimum_samples=2, maximum_samples=2, warmup_calls=1, timer="a played clock"
)
ON_META = conv_scaling.build


def named(factors: Factors) -> str:
    return "-".join(map(str, factors.values()))


def last_layer(factors: Factors) -> Layer:
    return conv_scaling.layers(factors)[-1]


@pytest.mark.parametrize("factors", CASES, ids=named)
def test_all_tensors_of_a_case_are_on_its_device(factors: Factors) -> None:
    workload = ON_META(factors, "meta")  # type: ignore[arg-type]
    result: Any = workload.call()
    assert result.device.type == "meta"
    assert tuple(result.shape) == tuple(last_layer(factors).output_shape)
    assert result.dtype == torch.float32
    assert result.requires_grad == (factors["pass"] == "forward_backward")
    workload.reset()
    workload.call()


class Event:
    """A moment of the device's clock, a millisecond after the one before."""

    now = 0.0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing
        self.at = 0.0

    def record(self) -> None:
        Event.now += 1.0
        self.at = Event.now

    def elapsed_time(self, end: Event) -> float:
        return end.at - self.at


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the harness asks of ``torch.cuda``, played."""
    statistics = {
        f"{name}_bytes.all.{moment}": 512
        for name in ("allocated", "requested", "reserved")
        for moment in ("current", "peak")
    }
    for name, played in {
        "synchronize": lambda: None,
        "Event": Event,
        "empty_cache": lambda: None,
        "memory_stats": lambda: statistics,
        "reset_peak_memory_stats": lambda: None,
        "get_allocator_backend": lambda: "cudaMallocAsync",
    }.items():
        monkeypatch.setattr(torch.cuda, name, played)
    monkeypatch.setattr(cuda_memory, "empty", lambda: True)
    monkeypatch.setattr(conv_scaling, "build", lambda factors, device: ON_META(factors, "meta"))


def run(factors: Factors) -> Case:
    case, files = run_case(conv_scaling.STUDY, factors, Session("cuda", PROTOCOL))
    assert files == ()
    return case


BYTES = {
    f"{name}_{moment}"
    for name in ("allocated", "requested", "reserved")
    for moment in ("before", "after", "peak")
}


@pytest.mark.parametrize("factors", [CASES[0], CASES[11], CASES[-1]], ids=named)
def test_a_case_is_measured_with_the_gpu_s_clock_and_allocator(gpu: None, factors: Factors) -> None:
    case = run(factors)
    assert (case.status, case.reason) == ("ok", None)
    found = {series.quantity for series in case.series}
    assert found >= BYTES
    assert found.isdisjoint({"time", "page_faults", "resident_before", "resident_peak"})
    if conv_scaling.STUDY.is_timed(factors):
        series = conv_scaling.time_case(factors, Session("cuda", PROTOCOL))
        times = {one.quantity: one.samples for one in series}
        assert set(times) == {"first_call_time", "warmup_time", "time", "wait_time"}
        assert times["time"] == (0.001, 0.001)
    assert elements(case.layers[-1].output_shape) > 0


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"),
            "Memory ran out when 2.00 GiB more were asked for.",
        ),
        (RuntimeError("CUDA error: out of memory"), "Memory ran out."),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
            "Memory ran out.",
        ),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "Memory ran out."),
    ],
)
@pytest.mark.parametrize("moment", ["build", "call"])
def test_too_little_memory_is_an_outcome_of_the_case(
    gpu: None, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, moment: str
) -> None:
    def fail() -> object:
        raise error

    def build(factors: Factors, device: str) -> Workload:
        if moment == "build":
            fail()
        return Workload(call=fail, reset=lambda: None)

    monkeypatch.setattr(conv_scaling, "build", build)
    for factors in (CASES[0], CASES[-1]):
        case = run(factors)
        assert (case.status, case.reason, case.series) == ("out_of_memory", said, ())
        assert case.layers


def test_every_case_is_counted_on_a_gpu() -> None:
    (tool,) = (tool for tool in TOOLS if tool.device == "cuda")
    counting = conv_scaling.STUDY.counting
    assert counting is not None
    assert {tool.calls(counting, factors, False) for factors in CASES} == {2}
    assert set(tool.quantities) <= set(conv_scaling.STUDY.measures)
