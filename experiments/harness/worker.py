"""The process that measures: all times, bytes, ceilings and counts come from this program.

``python -m experiments.harness.worker TASK LINES``

It imports what the study uses and then gives each case a child of its own by ``fork``, which takes
milliseconds where a new process takes seconds to import torch.  A child begins from the same state,
so that what one case leaves in the allocator, or in a library's caches, reaches no other, and a
case that ends its process ends nothing else.  Where the device is a GPU, which no fork survives, or
where there is no Linux, the cases follow each other in the worker itself.  What is measured is
appended to LINES, a line of JSON each.

Under valgrind's lackey each case has a process that builds its workload and forks three more, so
that their counts differ by exactly one thing: ``base`` ends at once, ``first`` calls once, and
``second``, forked by ``first`` after its call, calls again.

Under ncu, started with ``--profile-from-start off``, kernels between ``cudaProfilerStart`` and
``cudaProfilerStop`` are profiled, which hold for the whole process.  Around each such stretch
stands an NVTX start/end range, which holds for all threads too; a push/pop range would miss the
backward pass, whose kernels autograd launches from a thread of its own.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from experiments.harness import quiet, runtime
from experiments.harness.journal import (
    Called,
    Done,
    Ended,
    Failed,
    Finish,
    Keep,
    Message,
    Ready,
)
from experiments.harness.measure import build, layers_of_case, memory_of, release, times_of
from experiments.harness.memory import call_once
from experiments.harness.outcomes import outcome_of
from experiments.harness.study import CaseFile, CeilingSize, Device, Factors, Session, Study
from experiments.harness.timing import Workload
from report.instruments.counters.ncu import Product, case_range, products
from report.records.layers import Layer
from report.records.record import Case, Moment, Policy, Round, Series, Status

#: Far longer than any case takes in one process (s).
LIMIT_S: Final = 1800

Role: TypeAlias = Literal["memory", "time", "ceilings", "lackey", "ncu"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one process does: cases by their number in the run, in this order.

    ``module`` is where the study stands; ``forks`` says that each case has a child of its own.
    Where work is counted, ``calls`` says how often each case is called, and ``at_once`` how many
    cases run at the same time; ``compute_capability`` is that of the GPU.
    """

    role: Role
    session: Session
    module: str = ""
    policy: Policy = "default"
    forks: bool = False
    cases: tuple[tuple[int, Factors], ...] = ()
    calls: tuple[int, ...] = ()
    at_once: int = 1
    compute_capability: str = ""
    ceilings: tuple[CeilingSize, Moment] = ("none", "before")


#: Tells the process that has started this one.
Say: TypeAlias = Callable[[Message], None]


def can_fork(device: Device) -> bool:
    """Whether cases can have a child each."""
    return device == "cpu" and sys.platform.startswith("linux") and hasattr(os, "fork")


def work(task: Task, say: Say) -> None:
    """Do all of ``task``."""
    if task.role == "ceilings":
        from experiments.harness import ceilings

        say(ceilings.measure(task.session.device, task.session.threads, *task.ceilings))
        return
    study: Study = importlib.import_module(task.module).STUDY.on(task.session.device)
    if task.role == "lackey":
        _count_calls(study, task, say)
    elif task.role == "ncu":
        _profile_calls(study, task, say)
    else:
        _measure(study, task, say)


def _measure(study: Study, task: Task, say: Say) -> None:
    """Times or bytes of every case."""
    needs = study.process(task.cases[0][1], task.session)
    runtime.fix_threads(task.session.threads)
    if "torch" in needs.imports:
        if task.forks:
            runtime.prepare_torch(task.session.threads)
        else:
            runtime.start_torch(task.session.device, task.session.threads)
    for module in needs.imports:
        with suppress(ImportError):  # the case says what is missing
            importlib.import_module(module)
    if task.forks:
        # Else each child looks through, and thereby copies, all that has been imported.
        gc.collect()
        gc.freeze()
    say(Ready())
    measure = _time if task.role == "time" else _remember
    for index, factors in task.cases:
        act = partial(measure, study, index, factors, task, say)
        say(Done(case=index, reason=_end(fork(act, LIMIT_S)) if task.forks else act()))


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


def _end(child: int) -> str | None:
    """Wait for a child, and say how it ended; None if well."""
    return ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


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


def _remember(study: Study, index: int, factors: Factors, task: Task, say: Say) -> None:
    """The bytes of a case with its layers, or why there are none; and its files."""
    layers: tuple[Layer, ...] = ()
    found: list[Series | CaseFile] = []
    status: Status = "ok"
    reason = None
    try:
        layers = layers_of_case(study, factors)
        found = list(memory_of(study, factors, task.session))
    except Exception as error:
        traceback.print_exc()
        status, reason = outcome_of(error)
        found = []
    release(task.session.device)  # only now, since the exception's frames held its tensors
    for file in found:
        if isinstance(file, CaseFile):
            say(Keep(case=index, name=file.name, meaning=file.meaning, content=file.content))
    outcome = Case(
        factors=factors,
        status=status,
        reason=reason,
        layers=layers,
        series=tuple(each for each in found if isinstance(each, Series)),
    )
    say(Finish(case=index, outcome=outcome))


def _time(study: Study, index: int, factors: Factors, task: Task, say: Say) -> None:
    """What this process measures of a case, and what disturbed it meanwhile."""
    start = time.monotonic()
    before, disturbance = quiet.read(), None
    status: Status = "ok"
    reason, series = None, list[Series]()
    try:
        series += (
            each for each in times_of(study, factors, task.session) if isinstance(each, Series)
        )
        disturbance = quiet.disturbance(before, quiet.read(), task.session.threads)
    except Exception as error:
        traceback.print_exc()
        status, reason = outcome_of(error)
    release(task.session.device)
    round_ = Round(
        process=task.session.process,
        policy=task.policy,
        status=status,
        reason=reason,
        disturbance=disturbance,
        series=tuple(series),
    )
    say(Ended(case=index, round=round_, seconds=time.monotonic() - start))


# -------------------------------------------------------------------------- multiply-adds (lackey)


def _count_calls(study: Study, task: Task, say: Say) -> None:
    """Let every case be called under valgrind, as many of them at once as ``task`` says."""
    runtime.start_torch("cpu", threads=1)
    build(study, task.cases[0][1], "cpu").call()
    say(Ready())
    running: dict[int, int] = {}
    for (index, factors), calls in zip(task.cases, task.calls, strict=True):
        if len(running) == task.at_once:
            _reap(running, say)
        case = partial(_counted, study, index, factors, calls, say)
        running[fork(partial(_attempt, index, case, say))] = index
    while running:
        _reap(running, say)
    os._exit(0)  # Python's own end takes long under valgrind


def _reap(running: dict[int, int], say: Say) -> None:
    """Wait until one of the cases has ended, and tell of it."""
    child, status = os.wait()
    say(Done(case=running.pop(child), reason=ended(os.waitstatus_to_exitcode(status))))


def _counted(study: Study, index: int, factors: Factors, calls: int, say: Say) -> None:
    """One case, in a process of its own."""
    workload = build(study, factors, "cpu")
    workload.reset()

    def run(role: str, action: Callable[[], object]) -> None:
        """Run ``action`` in a new process and wait for it, since its log is whole only then."""
        child = fork(partial(_attempt, index, action, say))
        if (reason := _end(child)) is not None:
            say(Failed(case=index, reason=f"{role} call: {reason}"))
            os._exit(1)
        say(Called(case=index, role=role, pid=child))

    def first() -> None:
        result = workload.call()
        del result
        if calls > 1:
            workload.reset()
            run("second", workload.call)

    run("base", lambda: None)
    run("first", first)


def _attempt(index: int, action: Callable[[], object], say: Say) -> None:
    """Do ``action``; what it raises is told, and ends the process."""
    try:
        action()
    except Exception as error:
        say(Failed(case=index, reason=outcome_of(error)[1]))
        os._exit(1)


# ------------------------------------------------------------------------------------ kernels (ncu)


def _profile_calls(study: Study, task: Task, say: Say) -> None:
    """Profile the products that calibrate the counters, then the cases, one after the other."""
    runtime.start_torch("cuda", task.session.threads)
    for product in products(task.compute_capability):
        with suppress(Exception):  # a product that is missing calibrates nothing
            multiply = _product(product)
            multiply()
            with _profiled(product.range):
                multiply()
        release("cuda")
    for (index, factors), calls in zip(task.cases, task.calls, strict=True):
        reason = None
        try:
            _profile(build(study, factors, "cuda"), factors, calls)
        except Exception as error:
            _, reason = outcome_of(error)
        release("cuda")
        say(Done(case=index, reason=reason))


def _profile(workload: Workload, factors: Factors, calls: int) -> None:
    """A warm-up call, then the profiled ones; what is deterministic must be the same in all."""
    call_once(workload)
    for call in range(calls):
        workload.reset()
        with _profiled(case_range(factors, call)):
            workload.call()


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


def _product(product: Product) -> Callable[[], object]:
    """A product of random matrices."""
    torch = runtime.import_torch()
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    kind = kinds.get(product.precision, torch.float32)
    torch.manual_seed(0)
    left = torch.randn(product.rows, product.depth, device="cuda", dtype=kind)
    right = torch.randn(product.depth, product.columns, device="cuda", dtype=kind)

    def multiply() -> object:
        torch.backends.cuda.matmul.allow_tf32 = product.precision == "tf32"
        try:
            return torch.mm(left, right)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return multiply


# ------------------------------------------------------------------------------------ the program


def _decoded(kind: type, value: Any) -> Any:
    return kind(value)


def main(task_path: Path, lines_path: Path) -> None:
    """Do the task; every line is one write, so that lines of several processes do not mix."""
    task = msgspec.json.decode(task_path.read_bytes(), type=Task, dec_hook=_decoded)
    with lines_path.open("ab", buffering=0) as stream:
        work(task, lambda message: _write(stream.fileno(), message))


def _write(descriptor: int, message: Message) -> None:
    content = msgspec.json.encode(message) + b"\n"
    while content:  # a signal or a full disk may cut a write short
        content = content[os.write(descriptor, content) :]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
