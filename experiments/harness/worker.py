"""The process that measures: all times, bytes, ceilings and counts come from this program.

``python -m experiments.harness.worker TASK LINES``

It imports what the study uses and then gives each case a child of its own by ``fork``, which takes
milliseconds where a new process takes seconds to import torch.  A child begins from the same state,
so that what one case leaves in the allocator, or in a library's caches, reaches no other, and a
case that ends its process ends nothing else.  Where the device is a GPU, which no fork survives, or
where there is no Linux, the cases follow each other in the worker itself.  What is measured is
appended to LINES, a line of JSON each; the last one of a case is there whatever becomes of it.

Under valgrind's lackey a case forks a child that ends at once, after its first call and after its
second.  A child has its parent's counts up to there and writes them into a log of its own, so that
the two logs differ by one warm call.

Under ncu, started with ``--profile-from-start off``, kernels between ``cudaProfilerStart`` and
``cudaProfilerStop`` are profiled, which hold for the whole process.  Around each such stretch
stands an NVTX start/end range, which holds for all threads too; a push/pop range would miss the
backward pass, whose kernels autograd launches from a thread of its own.
"""

from __future__ import annotations

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
from typing import Final, Literal, TypeAlias

import msgspec

from experiments.harness import ceilings, measure, policies
from experiments.harness.journal import Count, Ended, Finish, Last, Message, Ready
from experiments.harness.study import (
    CaseFile,
    CeilingSize,
    Device,
    Factors,
    Session,
    Study,
    UnavailableError,
)
from experiments.machine import quiet, runtime
from experiments.machine.limits import is_out_of_memory
from experiments.machine.text import first_line
from report.errors import MeasurementError
from report.instruments.counters.ncu import case_range, products
from report.records.record import Case, Measured, Moment, Policy, Round, Status

#: Far longer than any case takes in one process (s).
LIMIT_S: Final = 1800
#: Calls of a case that ncu profiles, so that a paper can check that they are alike.
CALLS: Final = 2
#: Lackey's row of operations with a float32 result: loads, stores, and those that compute.
_FLOAT32: Final = re.compile(r"^==\d+== +F32 +[\d,]+ +[\d,]+ +([\d,]+)\n", re.MULTILINE)
#: What a program that ran out of memory asked for.
_ASKED: Final = re.compile(r"tried to allocate ([\d.,]+ ?(?:bytes|[KMGT]?i?B))", re.IGNORECASE)

Role: TypeAlias = Literal["memory", "time", "ceilings", "lackey", "ncu"]
#: A case with its number in the run.
Numbered: TypeAlias = tuple[int, Factors]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one process does: cases by their number in the run, in this order.

    ``module`` is where the study stands; ``forks`` says that each case has a child of its own.
    What counts gives the quantities ``counted``, ncu on a GPU of this ``compute_capability``.
    """

    role: Role
    session: Session
    module: str = ""
    policy: Policy = "default"
    forks: bool = False
    cases: tuple[Numbered, ...] = ()
    counted: tuple[str, ...] = ()
    compute_capability: str = ""
    ceilings: tuple[CeilingSize, Moment] = ("none", "before")


#: What measures a case: its study, the task, its number and factors.
Act: TypeAlias = Callable[[Study, Task, int, Factors], Last]


def can_fork(device: Device) -> bool:
    """Whether cases can have a child each."""
    return device == "cpu" and sys.platform.startswith("linux") and hasattr(os, "fork")


def work(task: Task, say: Callable[[Message], None], folder: Path) -> None:
    """Do all of ``task`` and ``say`` what comes of it; lackey writes its logs into ``folder``."""
    if task.role == "ceilings":
        say(ceilings.measure(task.session.device, task.session.threads, *task.ceilings))
        return
    study: Study = importlib.import_module(task.module).STUDY.on(task.session.device)
    _prepare(study, task)
    say(Ready())
    acts: dict[Role, Act] = {
        "memory": _remember,
        "time": _time,
        "lackey": partial(_count, folder),
        "ncu": _profile,
    }
    attempt = partial(_attempt, study, task, acts[task.role], say)
    if task.forks:
        _in_children(study, task, attempt, say)
    else:
        for case in task.cases:
            attempt(case)


def _attempt(
    study: Study, task: Task, act: Act, say: Callable[[Message], None], case: Numbered
) -> None:
    """Measure a case, and say what comes of it, whatever it raises."""
    began, failure = time.monotonic(), None
    try:
        say(act(study, task, *case))
    except Exception as error:
        traceback.print_exc()
        failure = outcome_of(error)
    _release(task.session.device)  # only now, since the exception's frames held its tensors
    if failure is not None:
        say(lost(study, task, case, *failure, time.monotonic() - began))


def _in_children(
    study: Study, task: Task, attempt: Callable[[Numbered], None], say: Callable[[Message], None]
) -> None:
    """Let each case have a child of its own, of which several run where nothing is timed."""
    at_once = runtime.cores_available() if task.role == "lackey" else 1
    running: dict[int, Numbered] = {}
    began = time.monotonic()

    def reap() -> None:
        child, code = os.wait()
        case, reason = running.pop(child, None), ended(os.waitstatus_to_exitcode(code))
        if case is not None and reason is not None:
            say(lost(study, task, case, "failed", reason, time.monotonic() - began))

    for case in task.cases:
        if len(running) == at_once:
            reap()
        running[fork(partial(attempt, case), LIMIT_S)] = case
        began = time.monotonic()
    while running:
        reap()


def _release(device: Device) -> None:
    """Free what a case that failed may still hold."""
    gc.collect()
    if device == "cuda":
        runtime.import_torch().cuda.empty_cache()


def outcome_of(error: Exception) -> tuple[Status, str]:
    """The status of a case that raised ``error``, and the reason in one sentence."""
    if isinstance(error, UnavailableError):
        return "unavailable", first_line(str(error))
    if is_out_of_memory(error):
        asked = _ASKED.search(str(error))
        more = f" when {asked[1].replace('bytes', 'B')} more were asked for" if asked else ""
        return "out_of_memory", f"Memory ran out{more}."
    return "failed", f"{type(error).__name__}: {first_line(str(error))}"


def lost(
    study: Study, task: Task, case: Numbered, status: Status, reason: str, seconds: float
) -> Last:
    """What is said of a case of which nothing was measured, and that took so long."""
    index, factors = case
    if task.role == "memory":
        return Finish(case=index, outcome=measure.unmeasured(study, factors, status, reason))
    if task.role == "time":
        process, policy = task.session.process, task.policy
        failed = Round(process=process, policy=policy, status=status, reason=reason, series={})
        return Ended(case=index, round=failed, seconds=seconds)
    return Count(case=index, missing=dict.fromkeys(task.counted, reason))


def _prepare(study: Study, task: Task) -> None:
    """Import what the cases need, and do once what serves all of them."""
    session = task.session
    imports = study.imports(task.cases[0][1], session)
    if "torch" in imports:
        runtime.start_torch(session.device, session.threads)
    for module in imports:
        with suppress(ImportError):  # the case says what is missing
            importlib.import_module(module)
    if task.role == "lackey":  # under which libraries load slowly
        measure.build(study, task.cases[0][1], "cpu").call()
    if task.role == "ncu":
        _calibrate(task.compute_capability)
    if task.forks:
        # Else each child looks through, and thereby copies, all that has been imported.
        gc.collect()
        gc.freeze()


# --------------------------------------------------------------------------------------- children


def fork(action: Callable[[], object], limit_s: int = 0) -> int:
    """The number of a child that does ``action``, for ``limit_s`` at most, and nothing else."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(limit_s)
        action()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without the parent's clean-up


def ended(code: int) -> str | None:
    """What the exit code of a process of ours means; None if all is well."""
    match code:
        case 0:
            return None
        case -9:
            return "Its process was killed, most likely for lack of memory."
        case -14:
            return f"Its process did not end within {LIMIT_S} s."
    return f"Its process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}."


# ------------------------------------------------------------------------------ times and bytes


def _remember(study: Study, task: Task, index: int, factors: Factors) -> Finish:
    """The bytes of a case with its layers, and its files."""
    session = task.session
    layers = measure.layers_of_case(study, factors)
    if study.subject:
        measure.refuse_emulated(measure.subject_of(study, factors, "meta"), session.device)
    measured: Measured = {}
    if study.memory or study.subject:  # else a study has times alone
        measured = (study.memory or partial(measure.measure_memory, study))(factors, session)
    files: tuple[CaseFile, ...] = ()
    unfiled = None
    try:
        files = study.files(factors, session)
    except Exception as error:  # costs the files alone
        traceback.print_exc()
        unfiled = outcome_of(error)[1]
    outcome = Case(factors=factors, layers=layers, series=measured)
    return Finish(case=index, outcome=outcome, files=files, unfiled=unfiled)


def _time(study: Study, task: Task, index: int, factors: Factors) -> Ended:
    """What this process measures of a case, and what disturbed it meanwhile."""
    session = task.session
    start, before = time.monotonic(), quiet.read()
    if task.policy == "traced":
        series = policies.traced(measure.build(study, factors, session.device))
    else:
        series = (study.times or partial(measure.measure_time, study))(factors, session)
    round_ = Round(
        process=session.process,
        policy=task.policy,
        disturbance=quiet.disturbance(before, quiet.read(), session.threads),
        series=series,
    )
    return Ended(case=index, round=round_, seconds=time.monotonic() - start)


# -------------------------------------------------------------------------- multiply-adds (lackey)


def _count(folder: Path, study: Study, task: Task, index: int, factors: Factors) -> Count:
    """The float32 operations of a second call."""
    workload = measure.build(study, factors, "cpu")
    levels = []
    for _ in range(2):
        workload.once()
        levels.append(_float32_operations(folder))
    count = levels[1] - levels[0]
    return Count(case=index, series=dict.fromkeys(task.counted, (count,)))


def _float32_operations(folder: Path) -> int:
    """Those of this process so far, from the log of a child that ends at once."""
    child = fork(lambda: None)
    os.waitpid(child, 0)
    found = _FLOAT32.search((folder / f"{child}.log").read_text(errors="replace"))
    if found is None:
        raise MeasurementError("lackey printed no table of counts; run valgrind by hand to see why")
    return int(found[1].replace(",", ""))


# ------------------------------------------------------------------------------------ kernels (ncu)


def _calibrate(compute_capability: str) -> None:
    """Profile products of random matrices, which calibrate the counters."""
    torch = runtime.import_torch()
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    for product in products(compute_capability):
        kind = kinds.get(product.precision, torch.float32)
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = product.precision == "tf32"
        with suppress(Exception):  # a product that is missing calibrates nothing
            left = torch.randn(product.rows, product.depth, device="cuda", dtype=kind)
            right = torch.randn(product.depth, product.columns, device="cuda", dtype=kind)
            torch.mm(left, right)
            with _profiled(product.range):
                torch.mm(left, right)
        _release("cuda")


def _profile(study: Study, task: Task, index: int, factors: Factors) -> Count:
    """Profile calls after a warm-up; what they execute is in the table that ncu prints."""
    workload = measure.build(study, factors, "cuda")
    workload.once()
    for call in range(CALLS):
        workload.reset()
        with _profiled(case_range(factors, call)):
            workload.call()
    return Count(case=index)


@contextmanager
def _profiled(name: str) -> Iterator[None]:
    """Let ncu profile every kernel launched inside, by whichever thread."""
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


# ------------------------------------------------------------------------------------ the program


def main(task_path: Path, lines_path: Path) -> None:
    """Do the task; every line is one write, so that lines of several processes do not mix."""
    task = msgspec.json.decode(task_path.read_bytes(), type=Task)
    with lines_path.open("ab") as stream:

        def say(message: Message) -> None:
            stream.write(msgspec.json.encode(message) + b"\n")
            stream.flush()

        work(task, say, lines_path.parent)
    if task.role == "lackey":
        os._exit(0)  # Python's own end takes long under valgrind


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
