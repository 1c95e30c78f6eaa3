"""One convolution through the profilers: the operations it executes, the time and bytes it takes.

The layer is the second convolution of PyTorch's MNIST example and the same in other shapes,
float32, with random weights and inputs from a fixed seed.  Factors:

- ``subject``: ``layer`` in a shape from which the rules of ``report.theory.terms`` were derived,
  ``held_out`` in a shape whose counts and bytes the rules predicted before the measurement,
  ``changed`` in a held-out shape with other channels, so that blocks of eight fit or just do not.
- ``channels``, ``kernel``, ``input``: channels into and out of the layer, its kernel, and the
  extent of the network's images, of which the first convolution leaves two less.
- ``batch``: images a call.
- ``pass``: always ``forward``, a call under ``torch.no_grad()``.
- ``precision``: ``tfloat32`` lets cuDNN compute the example's shape in that mode of NVIDIA's tensor
  cores, on a GPU alone; a case that names none computes in float32.

On a CPU the implementations that oneDNN chooses natively, natively with AVX2 at most, and under
valgrind, which counts the operations, are stored beside the record.

Only ``timed`` calls are timed, which ``--set subject=timed`` selects: eight images, channels below,
at and above the edges of blocks, with the ``instructions`` that oneDNN chooses (``native``) and
with ``AVX2`` at most.  Predicted before the measurement: time follows the multiply-adds that blocks
execute, not those of the usual formula (``report.studies.conv_profiling.theory.in_blocks``).

- With AVX2, blocks of 8: nine input channels take as long as 16, within a tenth, and 1.5 to 2 times
  as long as eight; 17, 19 and 24 output channels take equally long, within a tenth.
- With AVX-512, blocks of 16: 17, 19, 24 and 25 output channels take equally long, within a tenth,
  and 16 channels less; fewer than 16 input channels are not padded, so that nine take as long as
  the formula says, 1.125 times eight.
- One channel more on both sides of the example's layer, 33→65, costs as much time as full blocks:
  as 40→72 with AVX2 (1.41 times 32→64), as 48→80 with AVX-512 (1.88 times); the formula says 1.05.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, TypeAlias

import msgspec

from experiments.harness.measure import build_workload, measure_memory
from experiments.harness.study import (
    FULL,
    QUICK,
    CaseFile,
    Experiment,
    Factor,
    Levels,
    Plan,
    Policies,
    Session,
    Subject,
)
from experiments.harness.timing import Workload, sample_times
from report.core.errors import MeasurementError
from report.core.records.record import Factors, SeriesByQuantity

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
#: The held-out ``9-19`` and its like, changed alone in their channels.
CHANGED: Final[tuple[CallShape, ...]] = (
    ("9-16", 3, 21),
    ("8-19", 3, 21),
    ("8-16", 3, 21),
    ("8-17", 3, 21),
    ("8-24", 3, 21),
    ("8-25", 3, 21),
    ("16-24", 3, 21),
    ("9-18", 3, 24),
    ("9-19", 3, 24),
)
#: Channels on both sides of blocks' edges: of the changed shape, and of the example's.
TIMED: Final[tuple[CallShape, ...]] = (
    *((f"{into}-{out}", 3, 21) for into, out in product((8, 9, 16), (16, 17, 19, 24, 25))),
    *((channels, 3, 28) for channels in ("32-64", "33-65", "40-72", "48-80")),
)
SHAPES: Final = {"layer": KNOWN, "held_out": HELD_OUT, "changed": CHANGED}
#: The batch sizes of all shapes but the example's, and that of timed calls.
OTHER_BATCHES: Final = (1, 8)
TIMED_BATCH: Final = 8


def cases(levels: Levels) -> tuple[Factors, ...]:
    """List all shapes, the example's at every batch, and timed calls where they are asked for."""
    listed: list[Factors] = []
    for subject, shapes in SHAPES.items():
        if subject in levels["subject"]:
            for shape, batch in product(shapes, levels["batch"]):
                if shape == KNOWN[0] or batch in OTHER_BATCHES:
                    listed.append(_case(subject, shape, int(batch)))
    if "timed" in levels["subject"]:
        for shape, instructions in product(TIMED, levels["instructions"]):
            listed.append(_case("timed", shape, TIMED_BATCH) | {"instructions": instructions})
    return tuple(listed)


def _case(subject: str, shape: CallShape, batch: int) -> Factors:
    channels, kernel, extent = shape
    return {
        "subject": subject,
        "channels": channels,
        "kernel": kernel,
        "input": extent,
        "batch": batch,
        "pass": "forward",
        "layout": "contiguous",
    }


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
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
        name="conv2",
    )


def memory(factors: Factors, session: Session) -> SeriesByQuantity:
    """Measure the bytes of a call, unless it is timed."""
    return {} if is_timed(factors) else measure_memory(STUDY, factors, session)


def times(factors: Factors, session: Session) -> SeriesByQuantity:
    """Time a call in a process of its own, whose instructions are chosen before its first call.

    Raises ``MeasurementError`` if oneDNN ran other code than that of AVX2 where it should.
    """
    if factors["instructions"] == "AVX2":
        os.environ[_LIMIT] = "AVX2"
    workload = build_workload(STUDY, factors, session.device)
    codes = set(implementations_of(_log_of(workload)).values())
    if factors["instructions"] == "AVX2" and not all(code.startswith(_AVX2) for code in codes):
        raise MeasurementError(f"oneDNN ran {', '.join(codes)}, though {_LIMIT} is AVX2")
    return sample_times(workload, session.protocol, session.device)


def _log_of(workload: Workload) -> str:
    """Return what oneDNN prints, on the process's standard output, about one call."""
    import torch

    sys.stdout.flush()
    output = os.dup(1)
    with tempfile.TemporaryFile("w+") as log:
        os.dup2(log.fileno(), 1)
        try:
            with torch.backends.mkldnn.verbose(1):  # type: ignore[no-untyped-call]
                workload.once()
        finally:
            os.dup2(output, 1)
            os.close(output)
        log.seek(0)
        return log.read()


def is_timed(factors: Factors) -> bool:
    """Select the calls that are timed, which nothing else measures."""
    return factors["subject"] == "timed"


def is_counted(factors: Factors) -> bool:
    """Select the calls that are not timed."""
    return not is_timed(factors)


def timed_under(factors: Factors) -> Policies:
    """Time with freed memory kept, so that calls map no pages."""
    return ("retained",) if is_timed(factors) else "none"


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """Return oneDNN's implementation of every call, for one case of a full run."""
    full = session.device == "cpu" and session.protocol.plan == "full"
    named = full and (_shape(factors), factors["batch"]) == (CHANGED[0], OTHER_BATCHES[0])
    return _implementations() if named and shutil.which("valgrind") else ()


#: Variable that limits oneDNN's instructions, and how the names of its code for AVX2 begin.
_LIMIT: Final = "ONEDNN_MAX_CPU_ISA"
_AVX2: Final = "jit:avx2"
#: Command and variables of a process in which oneDNN names its implementations.
_DISPATCHES: Final[dict[str, tuple[Sequence[str], Mapping[str, str]]]] = {
    "native": ((), {}),
    "native, AVX2 at most": ((), {_LIMIT: "AVX2"}),
    "valgrind": (("valgrind", "-q", "--tool=none"), {}),
}
#: Fields of a line of oneDNN's log, by name.
_FIELDS: Final = {"state": 3, "operation": 5, "code": 6, "formats": 8, "problem": 11}
#: Time for one of the processes; importing torch under valgrind takes a minute (s).
_PATIENCE_S: Final = 900


def _implementations() -> tuple[CaseFile, ...]:
    """Name oneDNN's implementation of every forward call, natively and under valgrind."""
    program = f"from {__name__} import call_all; call_all()"
    by_process: dict[str, dict[str, str]] = {}
    for name, (wrapper, variables) in _DISPATCHES.items():
        done = subprocess.run(
            (*wrapper, sys.executable, "-c", program),
            env={**os.environ, "ONEDNN_VERBOSE": "1", "OMP_NUM_THREADS": "1", **variables},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_PATIENCE_S,
        )
        by_process[name] = implementations_of(done.stdout)
    meaning = (
        "oneDNN's code and memory formats for each forward call by the description of its "
        "problem, in a native process, in one with AVX2 at most, and under valgrind"
    )
    return (CaseFile("onednn.json", meaning, msgspec.json.format(msgspec.json.encode(by_process))),)


def implementations_of(log: str) -> dict[str, str]:
    """Read the code and the memory formats of each convolution from what oneDNN printed."""
    chosen: dict[str, str] = {}
    for line in log.splitlines():
        fields = line.split(",")
        if len(fields) <= max(_FIELDS.values()):
            continue
        call = {name: fields[place] for name, place in _FIELDS.items()}
        if (call["state"], call["operation"]) == ("exec", "convolution"):
            chosen[call["problem"]] = f"{call['code']} {call['formats']}"
    return chosen


def call_all() -> None:
    """Run each forward call of the study once, on one thread, so that oneDNN logs it."""
    import torch

    torch.set_num_threads(1)
    levels = {**STUDY.levels(quick=False), "batch": OTHER_BATCHES}
    for factors in cases(levels):
        build_workload(STUDY, factors, "cpu").call()


_BATCH: Final = Factor("batch", levels=(1, 8, 64, 512), quick=(1, 8), any_count=True)
_ON_CPU: Final = Experiment(
    subject=subject,
    factors=(
        Factor("subject", levels=tuple(SHAPES), on_request=("timed",)),
        _BATCH,
        Factor("instructions", levels=("native", "AVX2")),
    ),
    cases=cases,
    name="conv_profiling",
    question="Where do the bytes and the operations of a convolution's profile go?",
    plan=Plan(
        full=msgspec.structs.replace(FULL, maximum_samples=200, processes={"retained": 8}),
        quick=msgspec.structs.replace(QUICK, maximum_samples=30),
        ceilings="none",
        timed_under=timed_under,
        is_counted=is_counted,
        memory=memory,
        times=times,
        files=files,
    ),
)
_ON_GPU: Final = replace(
    _ON_CPU,
    factors=(
        Factor("subject", levels=tuple(SHAPES)),
        _BATCH,
        Factor("precision", levels=("float32", "tfloat32")),
    ),
    cases=cases_on_gpu,
    plan=Plan(ceilings="none", timed_under="none"),
)
STUDY: Final = replace(_ON_CPU, on_gpu=_ON_GPU)
