"""One function in a fresh process, so that nothing that ran before can help or disturb it.

``python -m experiments.harness.isolated MODULE:FUNCTION TASK RESULT``, both files in MessagePack

A process that has measured other cases keeps their pages in its allocator, their kernels in its
libraries' caches and their layout in its memory, all of which change the time of the next case; and
repetitions inside one process share what that process drew by chance (where its memory lies, which
core it began on).  Hence cases that are compared are repeated in processes of their own.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import msgspec

from experiments.harness.outcomes import OutcomeError, outcome_of
from experiments.harness.text import last_line
from report.records.record import Status

#: Far longer than any case takes (s); a process that hangs must not hold up the run for ever.
LIMIT_S: Final = 1800.0
#: Where modules are found.
ROOT: Final = Path(__file__).parents[2]
TICK_S: Final = 1.0

Result = TypeVar("Result")


def run(
    call: partial[Result], variables: Mapping[str, str] | None = None, limit_s: float = LIMIT_S
) -> Result:
    """What ``call`` returns, made in a process of its own within ``limit_s``.

    ``variables`` are added to its environment.  The function stands at the top of a module; the
    types of its arguments, which are positional, and of its result are annotated.  Raises
    ``OutcomeError`` with the outcome if the function raised, or if the process ended without one.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-isolated-") as name:
        words = command(call, Path(name))
        result_path = Path(words[-1])
        try:
            done = subprocess.run(
                words,
                capture_output=True,
                cwd=ROOT,
                env={**os.environ, **(variables or {})},
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason = f"The isolated process did not end within {limit_s:g} s."
            raise OutcomeError("failed", reason) from None
        if not result_path.exists():
            said = done.stderr.decode(errors="replace")
            raise OutcomeError("failed", ended(done.returncode, said))
        returned = get_type_hints(call.func)["return"]
        kind = tuple[Status, str | None, returned | None]  # type: ignore[valid-type]
        status, reason, result = _decoded(result_path, kind)
    if status != "ok":
        raise OutcomeError(status, reason)
    return result  # type: ignore[no-any-return]


def command(call: partial[Any], folder: Path) -> tuple[str, ...]:
    """The command that makes ``call`` in a process of its own, for programs that start it.

    The task is written into ``folder``, where the result will lie too.  Where the function raises,
    the process prints that last and ends with 1.
    """
    function = f"{call.func.__module__}:{call.func.__qualname__}"
    task_path, result_path = folder / "task.msgpack", folder / "result.msgpack"
    task_path.write_bytes(_encoded(call.args))
    words = (sys.executable, "-m", "experiments.harness.isolated", function)
    return (*words, os.fspath(task_path), os.fspath(result_path))


def lines(
    process: subprocess.Popen[Any], path: Path, tick_s: float = TICK_S
) -> Iterator[bytes | None]:
    """The complete lines of a file that ``process`` writes, and None for each tick, to its end."""
    incomplete, running = b"", True
    with path.open("rb") as stream:
        while running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(tick_s)
                running = False
            *whole, incomplete = (incomplete + stream.read()).split(b"\n")
            yield from whole
            if running:
                yield None


def ended(code: int, said: str) -> str:
    """How a process ended without a result; ``said`` is what it printed."""
    if code == -9:
        return "The isolated process was killed, most likely for lack of memory."
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"The isolated process ended with {how}: {last_line(said)}"


def _encoded(value: object) -> bytes:
    # The other process works elsewhere, so that a relative path would lead it astray.
    return msgspec.msgpack.encode(value, enc_hook=lambda path: os.fspath(path.resolve()))


def _decoded(path: Path, kind: Any) -> Any:
    return msgspec.msgpack.decode(
        path.read_bytes(), type=kind, dec_hook=lambda kind, value: kind(value)
    )


def main(name: str, task_path: Path, result_path: Path) -> int:
    """Call the function ``name`` in this process; returns the exit code."""
    status, reason, result = "ok", None, None
    try:
        function = pkgutil.resolve_name(name)
        kinds = get_type_hints(function)
        kinds.pop("return")
        result = function(*_decoded(task_path, tuple[tuple(kinds.values())]))  # type: ignore[misc]
    except Exception as error:
        traceback.print_exc()
        status, reason = outcome_of(error)
    result_path.write_bytes(_encoded((status, reason, result)))
    return 0 if status == "ok" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(Path, sys.argv[2:])))
