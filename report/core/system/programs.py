"""Start programs that never outlive this process, and end all of them when a signal arrives.

Each program runs in a process group led by a guard: a shell that reads from a pipe which only this
process holds open.  When this process ends, even by ``kill -9``, the system closes the pipe and the
guard kills the group.  No Python code runs between fork and exec, so threads may start programs.
Process groups exist on Linux and macOS.  Renderers run in a fixed environment with limits of time
and memory.
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

_GUARD: Final = ("/bin/sh", "-c", "read -r _; kill -KILL 0")
#: Other versions write other bytes for the same paper.
PANDOC_VERSION: Final = "3.9"

#: Variables passed on from the user's environment; any other could change the output.
_INHERITED: Final = ("PATH", "HOME", "SYSTEMROOT", "TMPDIR", "TEMP", "TEXMFHOME", "TEXMFVAR")

#: The same time, language and time zone for every run.
_FIXED: Final[Mapping[str, str]] = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SOURCE_DATE_EPOCH": "0",
    "FORCE_SOURCE_DATE": "1",
    # TeX reads and writes only its own folders and the one where it runs.
    "openin_any": "p",
    "openout_any": "p",
    "NO_COLOR": "1",
}
#: Memory limit of a program (B), seven times the need of the largest paper.
_MEMORY_B: Final = 2 << 30

#: Time limit of printing a version.
_TIME_LIMIT_S: Final = 60.0


@contextmanager
def managed_process(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start ``command`` with the settings of ``Popen``; on leaving, kill its whole group.

    Raises ``OSError`` if it cannot be started.
    """
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with ExitStack() as leaving:
        guard = subprocess.Popen(
            _GUARD, stdin=pipe, stdout=null, stderr=null, cwd="/", env={}, process_group=0
        )
        leaving.enter_context(guard)
        leaving.callback(_kill, guard.pid)
        process = subprocess.Popen(command, process_group=guard.pid, **settings)
        leaving.enter_context(process)
        leaving.callback(_kill, guard.pid)
        yield process


def _kill(group: int) -> None:
    # Some systems refuse to signal a group whose processes have all ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextmanager
def leave_on_signals(leftovers: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """On SIGTERM, SIGHUP and SIGINT, kill all children, remove ``leftovers`` and exit.

    The handler raises nothing, since an exception at an arbitrary moment crashes libraries (msgspec
    while it defines a class).  A signal that was ignored before, such as SIGHUP under ``nohup``,
    stays ignored; signals after the first are ignored.
    """
    import psutil  # type: ignore[import-untyped]  # not in the handler, which may interrupt one

    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) if main else ()
    handlers = {number: signal.getsignal(number) for number in numbers}
    usual = {n: h for n, h in handlers.items() if h in (signal.SIG_DFL, signal.default_int_handler)}

    def leave(number: int, frame: FrameType | None) -> None:
        for other in usual:
            signal.signal(other, signal.SIG_IGN)
        # For two seconds: a child may just be starting, and a dying one may still write a file.
        for _ in range(200):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, ProcessLookupError):
                    if (group := os.getpgid(child.pid)) == os.getpgrp():
                        child.kill()
                    else:
                        _kill(group)  # includes grandchildren whose parent has ended
            for path in (left := list(leftovers())):
                remove(path)
            if not left:
                break
            time.sleep(0.01)
        os._exit(128 + number)

    for number in usual:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder as far as possible; follow no link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def run(
    command: Sequence[str | Path], folder: Path, limit_s: float, place: str = "", stdin: str = ""
) -> CompletedProcess[str]:
    """Run ``command`` in ``folder`` with the text ``stdin`` as its input.

    After ``limit_s`` seconds the program and its children are killed; none gets more memory than
    ``_MEMORY_B``.  Raises ``RenderError``, which names ``place``, if the program is killed or
    cannot be started.  The caller judges the exit status.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        with managed_process(
            [str(part) for part in command],
            cwd=folder,
            env={**inherited, **_FIXED},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        ) as process:
            if sys.platform == "linux":
                # Limit the data only, since pandoc reserves a terabyte of addresses.
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY_B, _MEMORY_B))
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
    """Return the path of the pinned pandoc; raises ``RenderError`` for another version."""
    package = find_spec("pypandoc")  # its import takes as long as that of Jinja
    if package is None or package.origin is None:
        raise RenderError(
            "pandoc: the package pypandoc_binary is not installed; run 'pip install -e .'."
        )
    path = Path(package.origin).with_name("files") / "pandoc"
    printed = run([path, "--version"], path.parent, _TIME_LIMIT_S).stdout
    version = printed.split("\n")[0].split()[-1]
    if version != PANDOC_VERSION:
        raise RenderError(
            f"{path}: found pandoc {version}, but papers need {PANDOC_VERSION}, since versions "
            "differ in their output; install the pinned pypandoc_binary."
        )
    return path
