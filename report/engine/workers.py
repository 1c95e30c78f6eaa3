"""Where steps run: Python's work in processes that stay warm, the engines' in threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from multiprocessing import active_children, get_context, parent_process
from types import TracebackType
from typing import TYPE_CHECKING, Final

from report.engine.task import Result, Task, do, warm
from report.subprocesses import kill_programs

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

#: Steps that wait for a program of their own, so that a thread is enough for each.
_ENGINES: Final = frozenset({"html", "tex", "latex", "listed", "index", "quarto"})


@contextmanager
def process_pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes, which are killed when an error leaves the block or this process ends.

    New processes, not copies of this one: a copy would wait for ever for the threads that Typst
    has started here, which are not copied.
    """
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        yield pool
    except BaseException:
        for process in active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class Workers:
    """Runs tasks, no more than ``jobs`` at a time, and in this process where that is quicker.

    Where an error ends the ``with``, what runs then is killed.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._stack = ExitStack()
        self._processes: ProcessPoolExecutor | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._futures: list[Future[Result]] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        if self._threads is None:
            return
        self._threads.shutdown(wait=kind is None, cancel_futures=True)
        running = {future for future in self._futures if not future.done()}
        while running:
            # Again and again, since a step may start one more program when its last was killed.
            kill_programs()
            running = wait(running, timeout=0.05).not_done

    def submit(self, task: Task, *, alone: bool) -> Future[Result]:
        """Run ``task``; ``alone`` says that nothing else runs meanwhile."""
        if self._jobs == 1 or alone:
            here: Future[Result] = Future()
            here.set_result(do(task))
            return here
        pool = self._thread_pool() if task.action in _ENGINES else self._process_pool()
        try:
            future = pool.submit(do, task)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(error)
        self._futures.append(future)
        return future

    def expect(self, action: str) -> None:
        """Let the workers import what ``action`` needs while this process is busy."""
        if self._jobs > 1 and self._processes is None:
            for _ in range(self._jobs - 1):
                self._process_pool().submit(warm, action)

    def _process_pool(self) -> ProcessPoolExecutor:
        if self._processes is None:
            self._processes = self._stack.enter_context(process_pool(self._jobs))
        return self._processes

    def _thread_pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._jobs)
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
