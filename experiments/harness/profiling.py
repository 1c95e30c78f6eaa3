"""One warm call as torch's profiler sees it, as a timeline that people can open.

It is a Chrome trace, which Perfetto (ui.perfetto.dev) and ``chrome://tracing`` open.  It
holds every operator with its shapes, every event of the allocator and, on CUDA, every kernel; the
call itself is the event named ``experiments.harness.memory.CALL``.  It keeps all events of the
profiler unchanged, and of what else the profiler writes only what is not about the user's machine.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.harness.memory import CALL, call_once, native_messages_off
from experiments.harness.study import CaseFile, Device
from experiments.harness.timing import Build, Workload
from report.errors import MeasurementError
from report.instruments.counters.logs import gzipped

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


def trace_file(name: str, of: str, build: Build, device: Device) -> CaseFile:
    """The trace of one warm call ``of`` something, as a file beside the record."""
    return CaseFile(
        name=f"trace.{name}.json.gz",
        meaning=f"a Chrome trace of one warm call of {of}, which Perfetto and chrome://tracing "
        "open",
        content=trace_of_call(build, device),
    )


def trace_of_call(build: Build, device: Device) -> bytes:
    """The Chrome trace of one call, compressed, after a warm-up of the workload and the profiler.

    Raises ``MeasurementError`` if the trace is empty or too large.
    """
    workload = build()
    call_once(workload)
    _profiled(workload, device)  # the first profile of a process is slow
    return chrome_trace(_profiled(workload, device))


def _profiled(workload: Workload, device: Device) -> bytes:
    """The trace of one call as torch writes it."""
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
    return _exported(run)


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
