"""Worker process: this program measures all times, memory, peak rates and operation counts.

``python -m experiments.harness.worker TASK LINES``: read the task from the file TASK, and append
messages to the file LINES, one line of JSON each.  Every case has a last message, even if it fails.

The worker imports the libraries of the study and then forks a child for each case; a fork takes
milliseconds, while a new process takes seconds to import torch.  Every child begins from the same
state, so that no case finds memory or cached results of another case; a crash ends only one child.
On a GPU, whose driver does not survive a fork, and on systems other than Linux, the cases run one
after the other in the worker itself.

Under lackey, valgrind's tool that counts operations, a case's process forks a child after each of
two calls.  A child inherits the counts of its parent and ends at once, upon which lackey writes the
counts into the child's own log.  So the two logs differ by one warm call.

Under ncu (NVIDIA Nsight Compute), started with ``--profile-from-start off``, kernels between
``cudaProfilerStart`` and ``cudaProfilerStop`` are profiled in all threads.  An NVTX start/end
range, which also applies to all threads, encloses the kernels; a push/pop range would miss the
backward pass, whose kernels autograd launches from another thread.
"""

import gc
import importlib
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from experiments.harness import ceilings, measure, policies
from experiments.harness.journal import CaseResult, Count, Message, Ready, Result, RoundResult
from experiments.harness.study import CeilingSize, Device, Experiment, Session, UnavailableError
from experiments.machine import quiet, runtime, sensors
from experiments.machine.limits import is_out_of_memory
from experiments.machine.text import first_line
from report.core.errors import MeasurementError
from report.core.records.record import (
    Case,
    Factors,
    Moment,
    Policy,
    Round,
    SeriesByQuantity,
    Status,
)
from report.instruments.counters.ncu import case_range, products

#: Time limit of a case in one process (s), far above any case's time.
LIMIT_S: Final = 1800
#: Calls per case that ncu profiles; papers check that the counts of these calls agree.
PROFILED_CALLS: Final = 2
#: Row of lackey's table for float32: loads, stores and arithmetic operations (the group).
_FLOAT32_ROW: Final = re.compile(r"^==\d+== +F32 +[\d,]+ +[\d,]+ +([\d,]+)\n", re.MULTILINE)
#: Size of the allocation that failed, in torch's error messages.
_ALLOCATION: Final = re.compile(r"(?i)tried to allocate ([\d.,]+ ?(?:bytes|[KMGT]?i?B))")
#: Quantities that a worker measures; valgrind's lackey and NVIDIA's profiler ncu count operations.
WorkerRole: TypeAlias = Literal["memory", "time", "ceilings", "lackey", "ncu"]
#: Number of a case in the run, and its factors.
NumberedCase: TypeAlias = tuple[int, Factors]
Send: TypeAlias = Callable[[Message], None]


class CaseFailure(NamedTuple):
    """Status of a case that raised an exception, and the reason in one sentence."""

    status: Status
    reason: str


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Task of one process: measure ``cases`` in this order; ``role`` says what to measure.

    ``module`` is the Python module of the study.  With ``forks``, each case runs in a forked child.
    ``policy`` is the memory policy, under which the C library keeps freed memory or returns it.
    ``counted`` are the quantities that ``lackey`` or ``ncu`` counts; ncu needs the GPU's
    ``compute_capability``.  ``ceilings`` is the size of the peak-rate operations, and their moment.
    """

    role: WorkerRole
    session: Session
    module: str = ""
    policy: Policy = "default"
    forks: bool = False
    cases: tuple[NumberedCase, ...] = ()
    counted: tuple[str, ...] = ()
    compute_capability: str = ""
    ceilings: tuple[CeilingSize, Moment] = ("none", "before")


#: Function that measures a case; arguments: study, task, number and factors of the case.
CaseFunction: TypeAlias = Callable[[Experiment, Task, int, Factors], Result]


def can_fork(device: Device) -> bool:
    """Return whether each case can run in a forked child."""
    return device == "cpu" and sys.platform.startswith("linux") and hasattr(os, "fork")


def work(task: Task, send: Send, folder: Path) -> None:
    """Do a task and ``send`` its results; ``folder`` contains lackey's logs."""
    if task.role == "ceilings":
        send(ceilings.measure(task.session.device, task.session.threads, *task.ceilings))
        return
    study: Experiment = importlib.import_module(task.module).STUDY.on(task.session.device)
    _prepare(study, task)
    send(Ready())
    function_by_role: dict[WorkerRole, CaseFunction] = {
        "memory": _measure_memory, "time": _measure_time,
        "lackey": partial(_count, folder), "ncu": _profile,
    }  # fmt: skip
    attempt = partial(_attempt, study, task, function_by_role[task.role], send)
    if task.forks:
        _run_in_children(study, task, attempt, send)
    else:
        for case in task.cases:
            attempt(case)


def _attempt(
    study: Experiment, task: Task, function: CaseFunction, send: Send, case: NumberedCase
) -> None:
    """Measure a case by ``function`` and send the result, even if the case raises an exception."""
    start, failure = time.monotonic(), None
    try:
        send(function(study, task, *case))
    except Exception as error:
        traceback.print_exc()
        failure = classify(error)
    _free_memory(task.session.device)  # inside except, the exception would still hold tensors
    if failure is not None:
        send(unmeasured(study, task, case, *failure, time.monotonic() - start))


def _run_in_children(
    study: Experiment, task: Task, attempt: Callable[[NumberedCase], None], send: Send
) -> None:
    """Run each case in a child process: one at a time or, if lackey counts, one per core."""
    child_limit = runtime.cores_available() if task.role == "lackey" else 1
    running: dict[int, tuple[NumberedCase, float]] = {}  # child → case, start (s)

    def wait_for_child() -> None:
        child, status = os.wait()
        case, start = running.pop(child, (None, 0.0))
        reason = exit_reason(os.waitstatus_to_exitcode(status))
        if case is not None and reason is not None:
            send(unmeasured(study, task, case, "failed", reason, time.monotonic() - start))

    for case in task.cases:
        if len(running) == child_limit:
            wait_for_child()
        start = time.monotonic()
        running[fork(partial(attempt, case), LIMIT_S)] = case, start
    while running:
        wait_for_child()


def _free_memory(device: Device) -> None:
    gc.collect()
    if device == "cuda":
        runtime.import_torch().cuda.empty_cache()


def classify(error: Exception) -> CaseFailure:
    """Derive the status of a case, and the reason, from the exception that the case raised."""
    if isinstance(error, UnavailableError):
        return CaseFailure("unavailable", first_line(str(error)))
    if is_out_of_memory(error):
        size = _ALLOCATION.search(str(error))
        more = f" when {size[1].replace('bytes', 'B')} more were asked for" if size else ""
        return CaseFailure("out_of_memory", f"Memory ran out{more}.")
    return CaseFailure("failed", f"{type(error).__name__}: {first_line(str(error))}")


def unmeasured(
    study: Experiment, task: Task, case: NumberedCase, status: Status, reason: str, seconds: float
) -> Result:
    """Return the result of a case that ended without measurements after ``seconds``."""
    index, factors = case
    if task.role == "memory":
        outcome = measure.unmeasured_case(study, factors, status, reason)
        return CaseResult(case=index, outcome=outcome)
    if task.role == "time":
        process, policy = task.session.process, task.policy
        failed = Round(process=process, policy=policy, status=status, reason=reason, series={})
        return RoundResult(case=index, round=failed, seconds=seconds)
    return Count(case=index, missing=dict.fromkeys(task.counted, reason))


def _prepare(study: Experiment, task: Task) -> None:
    """Import the libraries that all cases need, so that forked children share them."""
    session = task.session
    _, first_factors = task.cases[0]
    imports = study.imports(first_factors, session)
    if "torch" in imports:
        runtime.start_torch(session.device, session.threads)
    for module in imports:
        with suppress(ImportError):  # the case reports the missing module
            importlib.import_module(module)
    if task.role == "memory" and "torch" in imports:
        importlib.import_module("torch._inductor")  # torch's profiler imports it, which takes 2 s
    if task.role == "lackey":  # a first call loads the remaining libraries, slowly under valgrind
        measure.build_workload(study, first_factors, "cpu").call()
    if task.role == "ncu":
        _calibrate(task.compute_capability)
    if task.forks:
        # Otherwise each child's garbage collector would visit, and so copy, all imported objects.
        gc.collect()
        gc.freeze()


def fork(action: Callable[[], object], limit_s: int = 0) -> int:
    """Fork a child that runs ``action`` for at most ``limit_s`` (0: no limit); return its ID."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    exit_code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit_s)
        action()
        exit_code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)  # without the clean-up that the parent will do itself


def exit_reason(code: int) -> str | None:
    """Explain the exit code of a process that measured; None if it succeeded."""
    if code == -signal.SIGKILL:
        return "Its process was killed, most likely for lack of memory."
    if code == -signal.SIGALRM:
        return f"Its process did not end within {LIMIT_S} s."
    end = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"Its process ended with {end}." if code else None


def _measure_memory(study: Experiment, task: Task, index: int, factors: Factors) -> CaseResult:
    """Measure the memory of a case (B), and collect its layers and files."""
    session, plan = task.session, study.plan
    layers = measure.layers_of_case(study, factors)
    if study.subject:
        subject = measure.build_subject(study, factors, "meta")
        measure.refuse_emulated_precision(subject, session.device)
    series: SeriesByQuantity = {}  # stays empty in a study that measures only times
    if plan.memory is not None:
        series = plan.memory(factors, session)
    elif study.subject is not None:
        series = measure.measure_memory(study, factors, session)
    case = Case(factors=factors, layers=layers, series=series)
    result = CaseResult(case=index, outcome=case)
    try:
        files = plan.files(factors, session) if plan.files else ()
        return msgspec.structs.replace(result, files=files)
    except Exception as error:  # the series are valid without the files
        traceback.print_exc()
        return msgspec.structs.replace(result, file_error=classify(error).reason)


def _measure_time(study: Experiment, task: Task, index: int, factors: Factors) -> RoundResult:
    """Measure the times of a case in this process, and note what disturbed them."""
    session = task.session
    start, before = time.monotonic(), quiet.read_counters()
    if task.policy == "traced":
        series = policies.trace_blocks(measure.build_workload(study, factors, session.device))
    elif study.plan.times is not None:
        series = study.plan.times(factors, session)
    else:
        series = measure.measure_time(study, factors, session)
    cause = quiet.describe_disturbance(before, quiet.read_counters(), session.threads)
    cause = cause or sensors.throttling(series)
    measured = Round(process=session.process, policy=task.policy, disturbance=cause, series=series)
    return RoundResult(case=index, round=measured, seconds=time.monotonic() - start)


def _count(folder: Path, study: Experiment, task: Task, index: int, factors: Factors) -> Count:
    """Count the float32 operations of a case's second call."""
    workload = measure.build_workload(study, factors, "cpu")
    workload.once()
    first = _float32_operations(folder)
    workload.once()
    count = _float32_operations(folder) - first
    return Count(case=index, series=dict.fromkeys(task.counted, (count,)))


def _float32_operations(folder: Path) -> int:
    """Return this process's count so far, from the log of a child that inherits it and ends."""
    child = fork(lambda: None)
    os.waitpid(child, 0)
    row = _FLOAT32_ROW.search((folder / f"{child}.log").read_text(errors="replace"))
    if row is None:
        raise MeasurementError("lackey printed no table of counts; run valgrind by hand to see why")
    return int(row[1].replace(",", ""))


def _calibrate(compute_capability: str) -> None:
    """Profile matrix products of known work, by which papers calibrate ncu's counters."""
    torch = runtime.import_torch()
    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16}
    for product in products(compute_capability):
        dtype = dtypes.get(product.precision, torch.float32)
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = product.precision == "tf32"
        with suppress(Exception):  # a product that fails leaves its counter uncalibrated
            left = torch.randn(product.rows, product.depth, device="cuda", dtype=dtype)
            right = torch.randn(product.depth, product.columns, device="cuda", dtype=dtype)
            torch.mm(left, right)  # a warm-up
            with _profiler_on(product.range):
                torch.mm(left, right)
        _free_memory("cuda")


def _profile(study: Experiment, task: Task, index: int, factors: Factors) -> Count:
    """Profile calls after a warm-up; ncu prints their counts in its table."""
    workload = measure.build_workload(study, factors, "cuda")
    workload.once()
    for call in range(PROFILED_CALLS):
        workload.reset()
        with _profiler_on(case_range(factors, call)):
            workload.call()
    return Count(case=index)


@contextmanager
def _profiler_on(name: str) -> Iterator[None]:
    """Let ncu profile every kernel that any thread launches inside the context."""
    torch = runtime.import_torch()
    torch.cuda.synchronize()
    handle = torch.cuda.nvtx.range_start(name)
    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
        torch.cuda.nvtx.range_end(handle)


def main(task_path: Path, lines_path: Path) -> None:
    """Do the task in the file ``task_path``; append messages to ``lines_path``."""
    task = msgspec.json.decode(task_path.read_bytes(), type=Task)
    with lines_path.open("ab") as stream:

        def send(message: Message) -> None:
            # One write, so that lines of several processes do not mix.
            stream.write(msgspec.json.encode(message) + b"\n")
            stream.flush()

        work(task, send, lines_path.parent)
    if task.role == "lackey":
        os._exit(0)  # Python's own exit takes long under valgrind


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
