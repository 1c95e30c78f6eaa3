"""What profilers of PyTorch leave: traces and memory timelines.

Neither says which network ran; its user must.  Papers read the same files with the same readers, of
``report.instruments``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from experiments.importers.imported import (
    FETCH_AGAIN,
    Imported,
    Source,
    case,
    environment,
    scaled,
)
from report.instruments.memory_timeline import CATEGORIES, read_timeline
from report.instruments.trace import Trace, read_trace
from report.records.record import Factor, Sample

#: Where a memory timeline begins.
_TIMELINE: Final = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*\d+\s*,\s*-?\d+\s*,\s*\d+\s*\]")
#: Conditions that a profile needs, and others that it may have.
_NEEDED: Final = ("network", "batch", "precision", "direction")
_COUNTS: Final = {"batch", "image"}
_KNOWN: Final = (*_NEEDED, "image", "layout", "optimizer")


def conditions(source: Source) -> dict[str, Factor]:
    """The conditions that the user gave; raises ``RefusedError`` for a missing or unknown one."""
    source.refuse_others(_KNOWN)
    for name in _NEEDED:
        source.said(name)
    found: dict[str, Factor] = dict(source.given)
    for name in _COUNTS & found.keys():
        number = scaled(source.given[name], "1", whole=True)
        if not number:
            said = f"--set {name}={source.given[name]}"
            raise source.refused(f"{said}: expected a whole number from 1 on; mend it")
        found[name] = number
    return found


# ----------------------------------------------------------------------------------------- traces


def is_trace(source: Source) -> bool:
    """Whether the content is JSON with a list of trace events."""
    return source.content.lstrip().startswith(b"{") and b'"traceEvents"' in source.content


def read_kineto(source: Source) -> Imported:
    """The trace's kernels as series in the order of launches.

    Raises ``RefusedError`` for a trace without kernels or of several kinds of GPU, and
    ``RecordError`` for a damaged one.
    """
    trace = read_trace(source.content, source.name, FETCH_AGAIN)
    measured = {name: samples for name, samples in _of_kernels(trace).items() if samples}
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
        unstated="the trace does not say it",
        conditions=conditions(source),
        missing={
            "repetitions": "a kernel of one call; calls follow each other in the order of launches",
            "processes": "one process wrote the trace",
        },
    )


def _of_kernels(trace: Trace) -> Mapping[str, Iterable[Sample]]:
    return {
        "kernel_time": [k.duration / 1e9 for k in trace.kernels if not k.transfer],
        "cupti_fp32_additions": [k.additions for k in trace.counted],
        "cupti_fp32_multiplications": [k.multiplications for k in trace.counted],
        "cupti_fp32_multiply_adds": [k.multiply_adds for k in trace.counted],
        "memory_events": [event.change for event in trace.memory if not event.on_host],
    }


# -------------------------------------------------------------------------------------- timelines


def is_timeline(source: Source) -> bool:
    """Whether the content begins with a list of four whole numbers."""
    return _TIMELINE.match(source.content) is not None


def read_memory(source: Source) -> Imported:
    """The most bytes of each category; raises ``RefusedError``, and ``RecordError`` if damaged."""
    found = read_timeline(source.content, source.name)
    if source.device is None:
        raise source.refused("it does not say the device; give it with --device")
    return Imported(
        instrument="PyTorch profiler, export_memory_timeline",
        environment=environment("cuda", source.device),
        cases=tuple(
            case({"subject": "timeline", "category": name}, {"allocated_peak": [highest]})
            for name, highest in found.highest.items()
            if name in CATEGORIES
        ),
        unstated="the timeline does not say it",
        conditions=conditions(source),
        missing={"repetitions": "steps follow each other in one process"},
    )
