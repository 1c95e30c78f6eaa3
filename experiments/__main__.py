# PYTHON_ARGCOMPLETE_OK: a shell may ask this command how its line goes on.
"""The command of the measuring side: ``python -m experiments list``, ``run``, ``theory``, …"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from report.system.streams import require_packages

require_packages()

from experiments import registry
from experiments.cluster.submit import export_script, submit
from experiments.gpu_session import measure_all
from experiments.harness.doctor import doctor
from experiments.harness.progress import Observer, outcome
from experiments.harness.record_check import check_records
from experiments.harness.run import StoppedError, close, run
from experiments.harness.runtime import INSTALL, INSTALLS
from experiments.harness.status import status
from experiments.importers.command import import_files
from experiments.options import parser, request_of
from experiments.theory.command import theory
from report.errors import MeasurementError, OutputError, RidgepointError, UsageError
from report.records import ENDING
from report.records.choice import fate_of
from report.records.record import Record
from report.system.streams import check_output, open_streams

if TYPE_CHECKING:
    from types import FrameType


def main(arguments: Sequence[str]) -> int:
    """Do what ``arguments`` say; return the exit code."""
    try:
        options = parser().read(arguments)
        code = _COMMANDS[options.command](options)
        check_output()
        return code
    except (RidgepointError, ModuleNotFoundError, OSError, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            traceback.print_exception(error)
        explained = _explained(error)
        print(explained, file=sys.stderr)
        return explained.exit_code


def _explained(error: BaseException) -> RidgepointError:
    """The error as one that says in one sentence what to do."""
    match error:
        case RidgepointError():
            return error
        case ModuleNotFoundError():
            install = INSTALLS.get(error.name or "", INSTALL)
            return MeasurementError(f"{error.name} is not installed; install it with: {install}")
        case OSError():
            return OutputError(f"{error.filename or 'A file'}: {error.strerror or error}.")
    return StoppedError("Interrupted before the run began.", KeyboardInterrupt(*error.args))


def _run(options: argparse.Namespace) -> int:
    observer = Observer(debug=options.debug)
    if options.all:
        return measure_all(options.device, options.minutes, options.records, observer)
    if options.study is None:
        raise UsageError("Name the study to run, or give --all; run --help tells more.")
    return _told(*run(request_of(options), observer), options.records)


def _submit(options: argparse.Namespace) -> int:
    """Measure in jobs until all shards are there, or write the script that does."""
    if options.export_sbatch is not None:
        return export_script(request_of(options), options)
    path = submit(request_of(options), options, Observer(debug=options.debug))
    print(*next_build(options.study, path, options.records), sep="\n")
    return 0


def _close(options: argparse.Namespace) -> int:
    closed = close(options.study, options.records, Observer())
    return max(_told(*each, options.records) for each in closed)


_COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "list": lambda options: registry.list_studies(options.study),
    "run": _run,
    "submit": _submit,
    "close": _close,
    "status": lambda options: status(options.study, options.records),
    "doctor": lambda options: doctor(options.records),
    "check": lambda options: check_records(options.files, options.into),
    "theory": theory,
    "import": import_files,
}


def _told(record: Record, path: Path, records: Path) -> int:
    """Print what was measured, where it lies, and whether papers use it; the exit code."""
    measured = outcome(record)
    absolute, here = path.resolve(), Path.cwd()
    print(f"Record: {absolute.relative_to(here) if absolute.is_relative_to(here) else path}")
    print(*next_build(record.study, path, records), sep="\n")
    return int(not measured)


def next_build(study: str, path: Path, records: Path) -> tuple[str, ...]:
    """What a build does with a record of ``records``; last the command that builds from it."""
    file = f"{study}/{path.name}"
    try:
        used, words = fate_of(study, file, records)
    except RidgepointError as error:
        return (str(error),)
    # A name begins with the time, so that the last one is the newest.
    newest = max(each.name for each in path.parent.glob(f"[0-9]*{ENDING}")) == path.name
    use = [] if used else ["--use", "latest" if newest else file]
    own = records.resolve() != Path("data").resolve()
    data = ["--data", os.fspath(records)] if own else []
    command = shlex.join(["python", "build.py", study, *use, *data])
    from_it = "" if used else " from it"
    return f"{words[:1].upper()}{words[1:]}; to build the paper{from_it}:", command


def command() -> int:
    """The command as a process of its own, which SIGTERM ends as Ctrl-C does."""

    def terminated(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    open_streams()
    signal.signal(signal.SIGTERM, terminated)
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
