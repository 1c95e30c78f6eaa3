"""One warm call as torch's profiler sees it: a timeline for people, and the memory events in it.

The timeline is a Chrome trace, which Perfetto (ui.perfetto.dev) and ``chrome://tracing`` open.  It
holds every operator with its shapes, every event of the allocator and, on CUDA, every kernel; the
call itself is the event named ``experiments.harness.memory.CALL``.  It keeps all events of the
profiler unchanged, and of what else the profiler writes only what is not about the user's machine.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.harness.memory import CALL, call_once, native_messages_off, within
from experiments.harness.study import Device
from experiments.harness.workload import Build, Workload
from report.counters.logs import gzipped
from report.errors import MeasurementError

#: A trace that is kept beside a record is at most this large, compressed (B).
LIMIT: Final = 1_000_000

#: What a trace says besides its events.  Left out are the name of the host, the path of the file
#: and a number drawn at random.
_KEPT: Final = (
    "schemaVersion",
    "deviceProperties",
    "cuda_runtime_version",
    "cuda_driver_version",
    "profile_memory",
    "record_shapes",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "traceEvents",
)


@dataclass(frozen=True)
class Profile:
    """One call: its Chrome trace, compressed, and the allocator's events on the device (B)."""

    trace: bytes
    memory: tuple[int, ...]


def profile_call(build: Build, device: Device) -> Profile:
    """Profile one call after a warm-up of the workload and of the profiler.

    Raises ``MeasurementError`` if the profiler shows no memory or its trace is too large.
    """
    workload = build()
    call_once(workload)
    _profiled(workload, device)  # the first profile of a process is slow
    return _profiled(workload, device)


def _profiled(workload: Workload, device: Device) -> Profile:
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if device == "cuda" else []
    workload.reset()
    with (
        native_messages_off(),
        profile(activities=activities, profile_memory=True, record_shapes=True) as run,
    ):
        with record_function(CALL):
            result = workload.call()
        _synchronise(device)
    del result
    assert run.profiler is not None
    results = run.profiler.kineto_results
    events: Any = results.events() if results is not None else ()
    return Profile(chrome_trace(_exported(run)), within(events, CALL, device))


def _synchronise(device: Device) -> None:
    """Wait for the kernels of a call, so that its profile holds them."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def _exported(run: Any) -> bytes:
    """The trace as torch writes it, which it can only do into a file."""
    with tempfile.TemporaryDirectory(prefix="ridgepoint-trace-") as folder:
        path = Path(folder) / "trace.json"
        with native_messages_off():
            run.export_chrome_trace(str(path))
        return path.read_bytes()


def chrome_trace(written: bytes) -> bytes:
    """The trace that torch has ``written``, to be kept beside a record: compact and compressed.

    Raises ``MeasurementError`` if it is no trace or larger than ``LIMIT``.
    """
    content = msgspec.json.decode(written)
    if not (isinstance(content, dict) and content.get("traceEvents")):
        raise MeasurementError(
            "The profiler of this PyTorch wrote a trace without events; use a version that "
            "ridgepoint was tested with (2.13)."
        )
    kept = {name: content[name] for name in _KEPT if name in content}
    made = gzipped(msgspec.json.encode(kept))
    if len(made) > LIMIT:
        raise MeasurementError(
            f"The trace takes {len(made):,} B, more than the {LIMIT:,} B that may lie beside a "
            "record; profile a smaller network."
        )
    return made
