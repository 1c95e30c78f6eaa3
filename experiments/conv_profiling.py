"""One convolution through the profilers: executed operations, time and memory.

The layer is the second convolution of PyTorch's MNIST example, in the example's shape and in other
shapes, in float32, with random weights and inputs from a fixed seed.  Factors:

- ``subject``: kind of shape.  The formulas of ``report.theory.terms``, which predict counts and
  bytes, were derived from the shapes of ``layer``, and applied to the shapes of ``held_out`` before
  the measurement.  ``changed`` is a held-out shape with other numbers of channels, at or just above
  a multiple of eight.  ``timed`` is described below.
- ``channels``: input and output channels.
- ``kernel``: side of the kernel.
- ``input``: side of the network's images; the layer's input is two pixels smaller.
- ``batch``: images per call.
- ``pass``: always ``forward``, a call under ``torch.no_grad()``.
- ``precision``: ``tfloat32`` lets cuDNN use this mode of NVIDIA's tensor cores; it occurs only on a
  GPU, in the example's shape.  Cases without this factor compute in float32.

On a CPU, a full run adds a file with the implementations that oneDNN selects: natively, natively
with instructions limited to AVX2, and under valgrind, which counts the operations.

Only ``timed`` calls (``--set subject=timed``) are timed.  They have eight images, and numbers of
channels around multiples of a block, which is the number of channels that oneDNN computes together.
``instructions`` is ``native`` if oneDNN may choose them, or ``AVX2``.  Before the measurement we
predicted that time is proportional to the multiply-adds of whole blocks
(``report.studies.conv_profiling.theory.in_blocks``), and not to those of the usual formula:

- With AVX2 a block has 8 channels.  Nine input channels take as long as 16 to within 10 %, and 1.5
  to 2 times as long as eight.  17, 19 and 24 output channels take equally long to within 10 %.
- With AVX-512 a block has 16 channels.  17, 19, 24 and 25 output channels take equally long to
  within 10 %, and 16 channels take less.  Fewer than 16 input channels are not padded, so that nine
  take 1.125 times as long as eight, as by the formula.
- With one more channel on both sides, 33→65, the example's layer takes as long as full blocks:
  40→72 with AVX2 (1.41 times 32→64), 48→80 with AVX-512 (1.88 times).  The formula predicts 1.05.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final, TypeAlias

import msgspec

from experiments.harness import study
from experiments.harness.measure import build_workload, measure_memory
from experiments.harness.timing import Workload, sample_times
from report.core.errors import MeasurementError
from report.core.records.record import Factors, SeriesByQuantity

#: Input and output channels (``IN-OUT``), side of the kernel, side of the network's images.
CallShape: TypeAlias = tuple[str, int, int]

#: Shapes whose counts led to the rules (formulas); the first is the example's shape.
RULE_SHAPES: Final[tuple[CallShape, ...]] = (
    ("32-64", 3, 28), ("20-40", 3, 28), ("16-32", 3, 28), ("33-65", 3, 28), ("32-64", 1, 28),
    ("32-64", 5, 28), ("32-64", 3, 16), ("32-64", 3, 20),
)  # fmt: skip
#: Shapes for which counts were predicted; each has another code path or padding with AVX2.
HELD_OUT: Final[tuple[CallShape, ...]] = (
    ("9-19", 3, 21), ("17-41", 3, 28), ("13-32", 2, 22), ("40-70", 3, 18), ("50-28", 3, 24),
    ("12-26", 1, 27), ("31-50", 5, 25),
)  # fmt: skip
#: The held-out shape ``9-19`` with other numbers of channels, and at two image sizes.
CHANGED: Final[tuple[CallShape, ...]] = (
    ("9-16", 3, 21), ("8-19", 3, 21), ("8-16", 3, 21), ("8-17", 3, 21), ("8-24", 3, 21),
    ("8-25", 3, 21), ("16-24", 3, 21), ("9-18", 3, 24), ("9-19", 3, 24),
)  # fmt: skip
#: Shapes of timed calls, with numbers of channels around multiples of a block: first with the
#: kernel and images of ``9-19``, then with the example's.
TIMED: Final[tuple[CallShape, ...]] = (
    *((f"{n}-{m}", 3, 21) for n, m in product((8, 9, 16), (16, 17, 19, 24, 25))),
    *((channels, 3, 28) for channels in ("32-64", "33-65", "40-72", "48-80")),
)
#: Subject → shapes whose work is counted.
SHAPES: Final = {"layer": RULE_SHAPES, "held_out": HELD_OUT, "changed": CHANGED}
#: Batch sizes of all shapes except the example's.
OTHER_BATCHES: Final = (1, 8)
#: Batch size of timed calls.
TIMED_BATCH: Final = 8


def cases(levels: study.Levels) -> tuple[Factors, ...]:
    """List the cases of the requested subjects.

    Only the example's shape has all requested batch sizes, and cases in TF32 on a GPU.
    """
    listed: list[Factors] = []
    subjects = [subject for subject in SHAPES if subject in levels["subject"]]
    for precision, subject in product(levels.get("precision", ("float32",)), subjects):
        for shape, batch in product(SHAPES[subject], levels["batch"]):
            case = _case(subject, shape, int(batch))
            if precision != "float32":
                case["precision"] = precision
            is_example = shape == RULE_SHAPES[0]
            if is_example or (precision == "float32" and batch in OTHER_BATCHES):
                listed.append(case)
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


def _shape(factors: Factors) -> CallShape:
    return str(factors["channels"]), int(factors["kernel"]), int(factors["input"])


def subject(factors: Factors) -> study.Subject:
    """Build the layer in the shape of a case, with random images."""
    import torch

    channels, kernel, extent = _shape(factors)
    inputs, outputs = map(int, channels.split("-"))
    side = extent - 2  # after the network's first convolution, 3 × 3 without padding
    return study.Subject(
        torch.nn.Conv2d(inputs, outputs, kernel, stride=1),
        torch.randn(int(factors["batch"]), inputs, side, side),
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
        name="conv2",
    )


def memory(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Measure the memory (B) of a call; return no series for timed cases."""
    return {} if is_timed(factors) else measure_memory(STUDY, factors, session)


def times(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time a call in this fresh process, after limiting oneDNN's instructions if the case says so.

    Raises ``MeasurementError`` if oneDNN did not run AVX2 code although the case is limited to it.
    """
    is_limited = factors["instructions"] == "AVX2"
    if is_limited:
        os.environ[_INSTRUCTION_LIMIT] = "AVX2"
    workload = build_workload(STUDY, factors, session.device)
    codes = set(implementations_of(_log_of(workload)).values())
    if is_limited and not all(code.startswith(_AVX2_PREFIX) for code in codes):
        codes_text = ", ".join(codes)
        raise MeasurementError(f"oneDNN ran {codes_text}, although {_INSTRUCTION_LIMIT} is AVX2")
    return sample_times(workload, session.protocol, session.device)


def _log_of(workload: Workload) -> str:
    """Capture the lines that oneDNN prints to standard output during one call."""
    import torch

    sys.stdout.flush()
    original_stdout = os.dup(1)
    with tempfile.TemporaryFile("w+") as log:
        os.dup2(log.fileno(), 1)
        try:
            with torch.backends.mkldnn.verbose(1):  # type: ignore[no-untyped-call]
                workload.once()
        finally:
            os.dup2(original_stdout, 1)
            os.close(original_stdout)
        log.seek(0)
        return log.read()


def is_timed(factors: Factors) -> bool:
    """Return whether a case is timed; such a case is not counted, and its memory not measured."""
    return factors["subject"] == "timed"


def counts_work(factors: Factors) -> bool:
    """Return whether the executed work of a case is counted."""
    return not is_timed(factors)


def timed_under(factors: Factors) -> study.Policies:
    """Return the memory policies under which a case is timed.

    Only ``timed`` cases are timed, with freed memory kept ("retained"), so that calls map no pages.
    """
    return ("retained",) if is_timed(factors) else "none"


def files(factors: Factors, session: study.Session) -> tuple[study.CaseFile, ...]:
    """Return a file with oneDNN's implementations of all calls, in a full CPU run with valgrind.

    One case, the first of ``changed``, returns the file; all other cases return ().
    """
    is_full = session.device == "cpu" and session.protocol.plan == "full"
    is_chosen = is_full and (_shape(factors), factors["batch"]) == (CHANGED[0], OTHER_BATCHES[0])
    return _implementations() if is_chosen and shutil.which("valgrind") else ()


#: Environment variable that limits oneDNN's instructions.
_INSTRUCTION_LIMIT: Final = "ONEDNN_MAX_CPU_ISA"
#: Beginning of the names of oneDNN's AVX2 code.
_AVX2_PREFIX: Final = "jit:avx2"
#: Kind of process in which oneDNN logs its choices → wrapper command, environment variables.
_LOGGING_PROCESSES: Final[dict[str, tuple[Sequence[str], Mapping[str, str]]]] = {
    "native": ((), {}),
    "native, AVX2 at most": ((), {_INSTRUCTION_LIMIT: "AVX2"}),
    "valgrind": (("valgrind", "-q", "--tool=none"), {}),
}
#: Field of a line of oneDNN's log → its position; fields are separated by commas.
_FIELDS: Final = {"state": 3, "operation": 5, "code": 6, "formats": 8, "problem": 11}
#: Time limit of each process (s); importing torch under valgrind takes a minute.
_LIMIT_S: Final = 900


def _implementations() -> tuple[study.CaseFile, ...]:
    """Return a file with oneDNN's implementation of each forward call in each kind of process."""
    program = f"from {__name__} import call_all; call_all()"
    by_process: dict[str, dict[str, str]] = {}
    for name, (wrapper, variables) in _LOGGING_PROCESSES.items():
        process = subprocess.run(
            (*wrapper, sys.executable, "-c", program),
            env={**os.environ, "ONEDNN_VERBOSE": "1", "OMP_NUM_THREADS": "1", **variables},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_LIMIT_S,
        )
        by_process[name] = implementations_of(process.stdout)
    meaning = (
        "oneDNN's code and memory formats for each forward call by the description of its "
        "problem, in a native process, in one with AVX2 at most, and under valgrind"
    )
    return (
        study.CaseFile(
            "onednn.json", meaning, msgspec.json.format(msgspec.json.encode(by_process))
        ),
    )


def implementations_of(log: str) -> dict[str, str]:
    """Read the code and the memory formats of each convolution from oneDNN's log.

    Keys are oneDNN's texts for the convolution's problem, such as its shapes.
    """
    implementations: dict[str, str] = {}
    for line in log.splitlines():
        fields = line.split(",")
        if len(fields) <= max(_FIELDS.values()):
            continue
        call = {name: fields[position] for name, position in _FIELDS.items()}
        if (call["state"], call["operation"]) == ("exec", "convolution"):
            implementations[call["problem"]] = f"{call['code']} {call['formats']}"
    return implementations


def call_all() -> None:
    """Call each shape once at each of ``OTHER_BATCHES``, on one thread, so that oneDNN logs it."""
    import torch

    torch.set_num_threads(1)
    levels = {**STUDY.levels(quick=False), "batch": OTHER_BATCHES}
    for factors in cases(levels):
        build_workload(STUDY, factors, "cpu").call()


_BATCH: Final = study.Factor("batch", levels=(1, 8, 64, 512), quick=(1, 8), any_count=True)
STUDY: Final = study.Experiment(
    subject=subject,
    factors=(
        study.Factor("subject", levels=tuple(SHAPES), on_request=("timed",)),
        _BATCH,
        study.Factor("instructions", levels=("native", "AVX2")),
    ),
    cases=cases,
    name="conv_profiling",
    question="Where do the bytes and the operations of a convolution's profile go?",
    plan=study.Plan(
        full=msgspec.structs.replace(study.FULL, maximum_samples=200, processes={"retained": 8}),
        quick=msgspec.structs.replace(study.QUICK, maximum_samples=30),
        ceilings="none",
        timed_under=timed_under,
        counts_work=counts_work,
        memory=memory,
        times=times,
        files=files,
    ),
).with_gpu(
    factors=(
        study.Factor("subject", levels=tuple(SHAPES)),
        _BATCH,
        study.Factor("precision", levels=("float32", "tfloat32")),
    ),
    plan=study.Plan(ceilings="none", timed_under="none"),
)
