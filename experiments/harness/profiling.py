"""What torch's profiler sees of one warm call, and which primitives of oneDNN compute it.

The profiler's view is kept as a Chrome trace, which Perfetto (ui.perfetto.dev) and
``chrome://tracing`` open.  It holds every operator with its shapes, every event of the allocator
and, on CUDA, every kernel; the call itself is the event named ``experiments.harness.memory.CALL``.

oneDNN tells of its primitives itself.  It reads its variables when it is first used in a process,
so that each log comes from a child of its own.  What the first call does besides, such as making
kernels, stands in neither.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

from experiments.harness.memory import CALL, call_once, native_messages_off, redirected
from experiments.harness.study import CaseFile, Device, Factors, Session
from experiments.harness.timing import Build, Workload
from experiments.harness.worker import can_fork, fork
from report.errors import MeasurementError
from report.instruments import onednn
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
#: Keeps oneDNN from wider vectors than AVX2's, as a processor does that lackey plays.
_AVX2: Final[Mapping[str, str]] = {"ONEDNN_MAX_CPU_ISA": "AVX2"}


# ----------------------------------------------------------------------------------------- traces


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


# ------------------------------------------------------------------------------------- primitives


def log_files(build: Build, factors: Factors, session: Session) -> Iterator[CaseFile]:
    """What oneDNN tells of a call, with all instructions and with AVX2's alone.

    To be asked for before this process uses oneDNN.
    """
    if not can_fork(session.device):
        return
    for kind, variables in ((onednn.NATIVE, {}), (onednn.AVX2, _AVX2)):
        yield CaseFile(
            onednn.log_file(factors, kind),
            f"what oneDNN prints of one warm call with its {kind} instructions",
            log_of(build, {"ONEDNN_VERBOSE": "1", **variables}),
        )


def log_of(build: Build, variables: Mapping[str, str]) -> bytes:
    """What oneDNN prints about itself, and about one warm call, in a child with ``variables``.

    Raises ``MeasurementError`` where the child fails.
    """
    with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as warm:

        def act() -> None:
            os.environ.update(variables)
            workload = build()
            _print_into(first, workload.call)
            workload.reset()
            _print_into(warm, workload.call)

        _, status = os.waitpid(fork(act), 0)
        if status:
            raise MeasurementError("The call whose primitives oneDNN is asked for fails.")
        about = [line for line in _lines(first) if b",primitive,exec," not in line]
        return b"".join((*about, *(line for line in _lines(warm) if b",primitive,exec," in line)))


def _print_into(stream: IO[bytes], call: Callable[[], object]) -> None:
    with redirected(sys.stdout, 1, stream):
        call()


def _lines(stream: IO[bytes]) -> list[bytes]:
    """oneDNN's lines of what was printed."""
    stream.seek(0)
    return [line for line in stream.read().splitlines(True) if line.startswith(b"onednn_verbose,")]
