"""Where steps run: Python's work in processes that stay warm, the engines' in threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from typing import TYPE_CHECKING, Final, TypeVar

from report.engine.task import Result, Task, do, import_action
from report.system.signals import hold_signals

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: Steps that wait for a program of their own, so that a thread is enough for each.
_ENGINES: Final = frozenset({"convert", "single", "latex", "typst", "quarto"})

#: What became of a worker that did not live to give its result.
KILLED: Final = (
    "its process was killed, as systems do for want of memory; build again with a smaller --jobs."
)
_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


class Processes:
    """Worker processes that end with this one, and with the ``with`` block, whatever they do.

    New processes, not copies of this one: a copy could wait for ever for one of this one's threads,
    which are not copied.
    """

    def __init__(self, jobs: int) -> None:
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End all workers; what is not done by then is not done."""
        # The pool itself does not end a worker that is started while another is killed
        # (Python 3.11), and would wait for it for ever.
        for worker in active_children():
            worker.kill()
        self._pool.shutdown(cancel_futures=True)

    def submit(
        self, function: Callable[[_Argument], _Result], argument: _Argument
    ) -> Future[_Result]:
        """The result to be; it raises ``BrokenExecutor`` if a worker was killed."""
        try:
            with hold_signals():
                return self._pool.submit(function, argument)
        except (BrokenExecutor, OSError) as error:
            # An OSError, if the pool notices it at this very moment.
            broken: Future[_Result] = Future()
            broken.set_exception(BrokenExecutor(str(error)))
            return broken


class Workers:
    """Runs tasks, no more than ``jobs`` at a time, and in this process where that is quicker."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._threads = ThreadPoolExecutor(jobs)
        self._processes: Processes | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._processes is not None:
            self._processes.end()
        self._threads.shutdown(wait=kind is None, cancel_futures=True)

    def submit(self, task: Task, *, alone: bool) -> Future[Result]:
        """Run ``task``; ``alone`` says that nothing else runs meanwhile."""
        if self.jobs == 1 or alone:
            here: Future[Result] = Future()
            here.set_result(do(task))
            return here
        if task.action in _ENGINES:
            return self._threads.submit(do, task)
        return self._started().submit(do, task)

    def expect(self, action: str) -> None:
        """Let the workers import what ``action`` needs while this process is busy."""
        if self.jobs > 1 and self._processes is None:
            for _ in range(self.jobs):
                self._started().submit(_warm, action)

    def _started(self) -> Processes:
        if self._processes is None:
            self._processes = Processes(self.jobs)
        return self._processes


def _warm(action: str) -> None:
    import_action(action)


def _end_with_parent() -> None:
    """End this worker when the build is killed; its queue would keep it waiting for ever.

    Ctrl-C in a terminal is for the build, which then ends its workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
