"""Start programs that never outlive this process, and end all programs when a signal arrives.

Each program runs in a process group with a guard: a shell that reads from a pipe of this process.
When this process ends, even by ``kill -9``, the system closes the pipe and the guard kills the
group.  No Python code runs between fork and exec, so that threads may start programs too.

Renderers (pandoc, LaTeX and others) run with fixed environment variables, a time limit and, on
Linux, a memory limit.
"""

import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from types import FrameType
from typing import Any, Final

from report.core.errors import RenderError

#: Command of a guard: it waits until its input is closed, at the latest when this process ends, and
#: then kills its own process group.  The program that it guards joins this group.
_GUARD: Final = ("/bin/sh", "-c", "read -r _; kill -KILL 0")
#: Required version of pandoc; other versions write different bytes for the same paper.
PANDOC_VERSION: Final = "3.9"

#: Environment variables that renderers inherit; the user's other variables could change outputs.
_INHERITED_VARIABLES: Final = ("PATH", "HOME", "TMPDIR", "TEXMFHOME", "TEXMFVAR")

#: Fixed environment variables of renderers, such as time, language and time zone.
_FIXED_VARIABLES: Final[Mapping[str, str]] = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SOURCE_DATE_EPOCH": "0",
    "FORCE_SOURCE_DATE": "1",
    # TeX reads and writes only its own folders and the working directory.
    "openin_any": "p",
    "openout_any": "p",
    "NO_COLOR": "1",
    # Enlarges the nursery of pandoc's garbage collector, which would take a fifth of pandoc's time.
    "GHCRTS": "-A64m",
}
#: Memory limit of a renderer (B): seven times the need of the largest paper.
_MEMORY_LIMIT_B: Final = 2 << 30


@contextmanager
def managed_process(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start ``command`` with settings of ``Popen``; at the end of the context kill its group.

    Raises ``OSError`` if the command cannot be started.
    """
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with ExitStack() as cleanup:
        guard = subprocess.Popen(
            _GUARD, stdin=pipe, stdout=null, stderr=null, cwd="/", env={}, process_group=0
        )
        cleanup.enter_context(guard)
        # Ends the guard if the command cannot be started.
        cleanup.callback(_kill, guard.pid)
        process = subprocess.Popen(command, process_group=guard.pid, **settings)
        cleanup.enter_context(process)
        # Callbacks run in reverse order: kill the group before waiting for the process.
        cleanup.callback(_kill, guard.pid)
        yield process


def _kill(group: int) -> None:
    """Kill a process group, if it still exists."""
    # Some systems refuse to signal a group whose processes have all ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextmanager
def leave_on_signals(leftovers: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """Within the context: on SIGTERM, SIGHUP or SIGINT kill all children, clean up and exit.

    ``leftovers`` lists the files to remove.  The handler raises no exception, since exceptions at
    arbitrary moments crash libraries (msgspec while defining a class).  A signal that is ignored
    (such as SIGHUP under ``nohup``) or has another handler keeps its handling.  Outside the main
    thread nothing changes, since Python allows signal handlers only in the main thread.
    """
    import psutil  # type: ignore[import-untyped]  # here, since the handler may interrupt an import

    in_main_thread = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) if in_main_thread else ()
    previous_handlers: dict[signal.Signals, Any] = {}  # keys: the signals that ``leave`` handles
    for number in numbers:
        handler = signal.getsignal(number)
        if handler in (signal.SIG_DFL, signal.default_int_handler):
            previous_handlers[number] = handler

    def leave(number: int, frame: FrameType | None) -> None:
        """Handle the signal ``number``; ignore further signals meanwhile."""
        for further_number in previous_handlers:
            signal.signal(further_number, signal.SIG_IGN)
        # Repeat for two seconds: a child may be starting, and a dying child may still write files.
        for _ in range(200):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, ProcessLookupError):
                    group = os.getpgid(child.pid)
                    if group == os.getpgrp():
                        child.kill()
                    else:
                        _kill(group)  # includes grandchildren whose parent has ended
            remaining = list(leftovers())
            for path in remaining:
                remove(path)
            if not remaining:
                break
            time.sleep(0.01)
        os._exit(128 + number)  # the exit code that shells use for a process ended by a signal

    for number in previous_handlers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder without following links; ignore failures."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def run(
    command: Sequence[str | Path], folder: Path, limit_s: float, place: str = "", stdin: str = ""
) -> CompletedProcess[str]:
    """Run ``command`` in ``folder`` with the text ``stdin`` as its input.

    After ``limit_s`` seconds the program and its children are killed.  On Linux each of these
    processes has at most ``_MEMORY_LIMIT_B`` of memory.  The caller checks the exit status.

    Raises ``RenderError`` after the time limit (the message names ``place``, or ``folder`` if
    ``place`` is empty), and if the program cannot be started.
    """
    inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    try:
        with managed_process(
            [str(part) for part in command],
            cwd=folder,
            env={**inherited, **_FIXED_VARIABLES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        ) as process:
            if sys.platform == "linux":
                # Limit the data only, since pandoc reserves a terabyte of addresses.
                limits = (_MEMORY_LIMIT_B, _MEMORY_LIMIT_B)  # soft and hard
                resource.prlimit(process.pid, resource.RLIMIT_DATA, limits)
            stdout, stderr = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise RenderError(
            f"{place or folder}: {Path(command[0]).name} was not done after {limit_s:g} s and was "
            "killed; look for an endless loop in the document, or make the document smaller."
        ) from None
    except OSError as error:
        raise RenderError(f"{command[0]}: cannot be started ({error.strerror}).") from error
    return CompletedProcess(process.args, process.returncode, stdout, stderr)


@functools.cache
def pandoc_path() -> Path:
    """Return the path of pandoc; raise ``RenderError`` if it is missing or has another version."""
    package = find_spec("pypandoc")  # not imported, since the import would take long
    if package is None or package.origin is None:
        raise RenderError(
            "pandoc: the package pypandoc_binary is not installed; run 'pip install -e .'."
        )
    path = Path(package.origin).with_name("files") / "pandoc"
    printed = run([path, "--version"], path.parent, limit_s=60.0).stdout
    version = printed.partition("\n")[0].split()[-1]
    if version != PANDOC_VERSION:
        raise RenderError(
            f"{path}: found pandoc {version}, but papers need {PANDOC_VERSION}, since versions "
            "differ in their output; install the pinned pypandoc_binary."
        )
    return path
