"""Traces of PyTorch's profiler (Kineto): kernels with their times, or with CUPTI's counters.

A trace names its GPUs and says nothing of the network that ran; ``--set`` says it.  Paper and
record read the same file with the same reader, ``report.instruments.trace``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.importers.imported import FETCH_AGAIN, Imported, Source, case, environment
from experiments.importers.network_conditions import conditions
from report.instruments.trace import Trace, read_trace
from report.records.record import Sample

_UNSTATED = "the trace does not say it"
_CALLS = "a kernel of one call; calls follow each other in the order of launches"


def detects(source: Source) -> bool:
    """Whether the content is JSON with a list of trace events."""
    return source.content.lstrip().startswith(b"{") and b'"traceEvents"' in source.content


def read(source: Source) -> Imported:
    """The trace's kernels as series in the order of launches.

    Raises ``RefusedError`` for a trace without kernels or of several kinds of GPU, and
    ``RecordError`` for a damaged one.
    """
    trace = read_trace(source.content, source.name, FETCH_AGAIN)
    measured = {name: samples for name, samples in _series(trace).items() if samples}
    if not measured:
        raise source.refused("found no kernel and no memory of a GPU; import a trace of a GPU")
    names = {device.name for device in trace.devices}
    if len(names) > 1:
        raise source.refused(f"it names {len(names)} kinds of GPU; import a trace of one kind")
    gpu = trace.devices[0] if trace.devices else None
    return Imported(
        instrument="PyTorch profiler (Kineto)",
        environment=environment(
            "cuda",
            source.device_or(names.pop() if names else None),
            memory_bytes=gpu.memory_bytes if gpu else None,
        ),
        cases=(case({"subject": "trace"}, measured),),
        unstated=_UNSTATED,
        conditions=conditions(source),
        missing={"repetitions": _CALLS, "processes": "one process wrote the trace"},
    )


def _series(trace: Trace) -> Mapping[str, Iterable[Sample]]:
    return {
        "kernel_time": [k.duration / 1e9 for k in trace.kernels if not k.transfer],
        "cupti_fp32_additions": [k.additions for k in trace.counted],
        "cupti_fp32_multiplications": [k.multiplications for k in trace.counted],
        "cupti_fp32_multiply_adds": [k.multiply_adds for k in trace.counted],
        "memory_events": [event.change for event in trace.memory if not event.on_host],
    }
