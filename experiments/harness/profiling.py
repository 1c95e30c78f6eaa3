"""What torch's profiler sees of one warm call.

The profiler's view is kept as a Chrome trace, which Perfetto (ui.perfetto.dev) and
``chrome://tracing`` open.  It holds every operator with its shapes, every event of the allocator
and, on CUDA, every kernel; the call itself is the event named ``experiments.harness.memory.CALL``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

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
    """The trace of one call ``of`` something, after a warm-up of the workload and the profiler.

    Raises ``MeasurementError`` if the trace is empty or too large.
    """
    workload = build()
    call_once(workload)
    _profiled(workload, device)  # the first profile of a process is slow
    trace = msgspec.json.decode(_profiled(workload, device))
    if not trace.get("traceEvents"):
        raise MeasurementError(
            "The profiler of this PyTorch wrote a trace without events; use a version that "
            "ridgepoint was tested with (2.13)."
        )
    content = gzipped(msgspec.json.encode({name: trace[name] for name in _KEPT if name in trace}))
    if len(content) > LIMIT:
        raise MeasurementError(
            f"The trace takes {len(content):,} B, more than the {LIMIT:,} B that may lie beside a "
            "record; profile a smaller network."
        )
    meaning = f"a Chrome trace of one warm call of {of}, which Perfetto and chrome://tracing open"
    return CaseFile(f"trace.{name}.json.gz", meaning, content)


def _profiled(workload: Workload, device: Device) -> bytes:
    """The trace of one call as torch writes it, which it can only do into a file."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if device == "cuda" else []
    workload.reset()
    with native_messages_off(), tempfile.TemporaryDirectory(prefix="ridgepoint-trace-") as folder:
        with profile(activities=activities, profile_memory=True, record_shapes=True) as run:
            with record_function(CALL):
                result = workload.call()
            if device == "cuda":  # so that the profile holds the kernels
                torch.cuda.synchronize()
        del result
        path = Path(folder) / "trace.json"
        run.export_chrome_trace(str(path))
        return path.read_bytes()
