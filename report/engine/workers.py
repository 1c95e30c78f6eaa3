"""Where steps run: Python's work in processes that stay warm, the engines' in threads."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context, parent_process
from types import TracebackType
from typing import TYPE_CHECKING, Final

from report.engine.task import Result, Task, do, warm
from report.errors import RidgepointError
from report.system.signals import hold_signals

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: Steps that wait for a program of their own, so that a thread is enough for each.
_ENGINES: Final = frozenset({"convert", "single", "latex", "typst", "quarto"})

#: What became of a worker that did not live to give its result.
KILLED: Final = (
    "its process was killed, as systems do for want of memory; build again with a smaller --jobs."
)


def process_pool(jobs: int) -> ProcessPoolExecutor:
    """Worker processes that end with this one.

    New processes, not copies of this one: a copy could wait for ever for one of this one's threads,
    which are not copied.
    """
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)


class Workers:
    """Runs tasks, no more than ``jobs`` at a time, and in this process where that is quicker."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._processes: ProcessPoolExecutor | None = None
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pool in (self._processes, self._threads):
            if pool is not None:
                pool.shutdown(wait=kind is None, cancel_futures=True)

    def submit(self, task: Task, *, alone: bool) -> Future[Result]:
        """Run ``task``; ``alone`` says that nothing else runs meanwhile."""
        if self.jobs == 1 or alone:
            here: Future[Result] = Future()
            here.set_result(do(task))
            return here
        pool = self._thread_pool() if task.action in _ENGINES else self._process_pool()
        try:
            with hold_signals():
                return pool.submit(do, task)
        except BrokenExecutor as error:
            broken: Future[Result] = Future()
            broken.set_exception(error)
            return broken

    def expect(self, action: str) -> None:
        """Let the workers import what ``action`` needs while this process is busy.

        Raises ``RidgepointError`` if one is killed meanwhile: to wait for the others could be for
        ever.
        """
        if self.jobs > 1 and self._processes is None:
            try:
                with hold_signals():
                    for _ in range(self.jobs):
                        self._process_pool().submit(warm, action)
            except BrokenExecutor as error:
                raise RidgepointError(f"A worker: {KILLED}") from error

    def _process_pool(self) -> ProcessPoolExecutor:
        if self._processes is None:
            self._processes = process_pool(self.jobs)
        return self._processes

    def _thread_pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.jobs)
        return self._threads


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
