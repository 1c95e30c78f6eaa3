"""One convolution through the profilers: the operations it executes, the bytes it allocates.

The layer is the second convolution of PyTorch's MNIST example and the same in other shapes,
float32, with random weights and inputs from a fixed seed.  Nothing is timed.  Factors:

- ``subject``: ``layer`` in a shape from which the rules of ``report.theory.terms`` were derived,
  ``held_out`` in a shape whose counts and bytes the rules predicted before the measurement.
- ``channels``, ``kernel``, ``input``: channels into and out of the layer, its kernel, and the
  extent of the network's images, of which the first convolution leaves two less.
- ``batch``: images a call.
- ``pass``: ``forward`` is one call under ``torch.no_grad()``; ``forward_backward``, of the
  example's shape alone, one call with gradients on and ``backward`` of a fixed random gradient, the
  input requiring its gradient too, as it does inside the network.
- ``precision``: ``tfloat32`` lets cuDNN compute the example's shape in that mode of NVIDIA's tensor
  cores, on a GPU alone; a case that names none computes in float32.

The trace of torch's profiler of a warm call of the example's layer, forward and backward at batch
64, is stored beside the record.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from experiments.harness.measure import build_workload
from experiments.harness.memory import CALL
from experiments.harness.study import (
    CaseFile,
    Device,
    Factor,
    Factors,
    Levels,
    Plan,
    Session,
    Study,
    Subject,
    no_policy,
)
from experiments.harness.timing import Workload
from report.core.errors import MeasurementError
from report.core.records.files import gzipped

#: Channels in and out, kernel, extent of the images.
CallShape: TypeAlias = tuple[str, int, int]

#: The example's own shape first.
KNOWN: Final[tuple[CallShape, ...]] = (
    ("32-64", 3, 28),
    ("20-40", 3, 28),
    ("16-32", 3, 28),
    ("33-65", 3, 28),
    ("32-64", 1, 28),
    ("32-64", 5, 28),
    ("32-64", 3, 16),
    ("32-64", 3, 20),
)
#: On a CPU with AVX2 every shape has another path or padding; tests contain the predicted numbers.
HELD_OUT: Final[tuple[CallShape, ...]] = (
    ("9-19", 3, 21),
    ("17-41", 3, 28),
    ("13-32", 2, 22),
    ("40-70", 3, 18),
    ("50-28", 3, 24),
    ("12-26", 1, 27),
    ("31-50", 5, 25),
)
#: The batch sizes of all shapes but the example's, and that at which a call is traced.
OTHER_BATCHES: Final = (1, 8)
TRACED_BATCH: Final = 64
#: Entries of a trace that are stored; the host's name, the file's path and a random number are not.
_STORED: Final = (
    "schemaVersion", "deviceProperties", "cuda_runtime_version", "cuda_driver_version",
    "profile_memory", "record_shapes", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents",
)  # fmt: skip


def cases(levels: Levels) -> tuple[Factors, ...]:
    """List all shapes forward, and the example's shape at every batch and backward too."""
    subjects = {"layer": KNOWN, "held_out": HELD_OUT}
    listed: list[Factors] = []
    for subject, shapes in subjects.items():
        if subject not in levels["subject"]:
            continue
        for shape, direction, batch in product(shapes, levels["pass"], levels["batch"]):
            if shape != KNOWN[0] and (direction != "forward" or batch not in OTHER_BATCHES):
                continue
            case: Factors = {"subject": subject}
            case |= zip(("channels", "kernel", "input"), shape, strict=True)
            case |= {"batch": batch, "pass": direction, "layout": "contiguous"}
            listed.append(case)
    return tuple(listed)


def cases_on_gpu(levels: Levels) -> tuple[Factors, ...]:
    """List the same cases, and the example's layer with TF32 too."""
    listed: list[Factors] = []
    if "float32" in levels["precision"]:
        listed += cases(levels)
    if "tfloat32" in levels["precision"]:
        example = (case for case in cases(levels) if _shape(case) == KNOWN[0])
        listed += ({**case, "precision": "tfloat32"} for case in example)
    return tuple(listed)


def _shape(factors: Factors) -> CallShape:
    return str(factors["channels"]), int(factors["kernel"]), int(factors["input"])


def subject(factors: Factors) -> Subject:
    """Build the layer in a shape."""
    import torch

    channels, kernel, extent = _shape(factors)
    into, out = map(int, channels.split("-"))
    return Subject(
        torch.nn.Conv2d(into, out, kernel, 1),
        torch.randn(int(factors["batch"]), into, extent - 2, extent - 2),
        mode=factors["pass"],  # type: ignore[arg-type]
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
        name="conv2",
    )


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """Return a warm call of one case as a Chrome trace, for Perfetto and ``chrome://tracing``.

    It contains every operator with its shapes, every event of the allocator and, on CUDA, every
    kernel; the call itself is the event named ``experiments.harness.memory.CALL``.
    Raises ``MeasurementError`` if it is empty.
    """
    plain = _shape(factors) == KNOWN[0] and "precision" not in factors
    if not plain or (factors["batch"], factors["pass"]) != (TRACED_BATCH, "forward_backward"):
        return ()
    workload = build_workload(STUDY, factors, session.device)
    workload.once()
    _traced(workload, session.device)  # the first profile of a process is slow
    trace = msgspec.json.decode(_traced(workload, session.device))
    if not trace.get("traceEvents"):
        raise MeasurementError("torch's profiler wrote no event; run the case by itself to see why")
    content = msgspec.json.encode({name: trace[name] for name in _STORED if name in trace})
    meaning = (
        f"a Chrome trace of one warm call of the layer, forward and backward, at batch "
        f"{TRACED_BATCH}, which Perfetto and chrome://tracing open"
    )
    return (CaseFile(f"trace.layer-{TRACED_BATCH}.json.gz", meaning, gzipped(content)),)


def _traced(workload: Workload, device: Device) -> bytes:
    """Trace one call; torch can write a trace to a file only."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU]
    activities += [ProfilerActivity.CUDA] if device == "cuda" else []
    workload.reset()
    with profile(activities=activities, profile_memory=True, record_shapes=True) as run:
        with record_function(CALL):
            result = workload.call()
        if device == "cuda":  # so that the profile holds the kernels
            torch.cuda.synchronize()
    del result
    with tempfile.TemporaryDirectory(prefix="ridgepoint-trace-") as folder:
        path = Path(folder) / "trace.json"
        run.export_chrome_trace(str(path))
        return path.read_bytes()


_ON_CPU: Final = Study(
    subject=subject,
    factors=(
        Factor("subject", levels=("layer", "held_out")),
        Factor("batch", levels=(1, 8, 64, 512), quick=(1, 8), any_count=True),
        Factor("pass", levels=("forward", "forward_backward")),
    ),
    cases=cases,
    name="conv_profiling",
    question="Where do the bytes and the operations of a convolution's profile go?",
    plan=Plan(ceilings="none", timed_under=no_policy, files=files),
)
_ON_GPU: Final = replace(
    _ON_CPU,
    factors=(*_ON_CPU.factors, Factor("precision", levels=("float32", "tfloat32"))),
    cases=cases_on_gpu,
)
STUDY: Final = replace(_ON_CPU, on_gpu=_ON_GPU)
