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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from report.system.requirements import require_packages

require_packages()

from experiments import registry
from experiments.cluster.submit import export_script, submit
from experiments.gpu_session import measure_all
from experiments.harness.doctor import doctor
from experiments.harness.progress import Observer, instability, table
from experiments.harness.record_check import check_records
from experiments.harness.run import StoppedError, Terminated, close, exit_code_of, run
from experiments.harness.runtime import INSTALL, INSTALL_NETWORKS
from experiments.harness.selection import listing, overview
from experiments.harness.status import status
from experiments.harness.study import UsageError
from experiments.importers.command import import_files
from experiments.options import parser, request_of
from experiments.theory.command import theory
from report.errors import RidgepointError
from report.instruments import gates
from report.records import ENDING
from report.records.record import Record
from report.records.usage import fate_of
from report.system.completion import complete
from report.system.streams import check_output, open_streams

if TYPE_CHECKING:
    from types import FrameType


def main(arguments: Sequence[str]) -> int:
    """Do what ``arguments`` say; return the exit code."""
    try:
        commands = parser()
        complete(commands)
        code = _dispatch(commands.parse_args(arguments))
        check_output()
        return code
    except (RidgepointError, ModuleNotFoundError, OSError, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            traceback.print_exception(error)
        sentence, code = _explained(error)
        print(sentence, file=sys.stderr)
        return code


def _explained(error: BaseException) -> tuple[str, int]:
    """One sentence and the exit code."""
    match error:
        case UsageError():
            return str(error), 2
        case StoppedError():
            return str(error), error.exit_code
        case KeyboardInterrupt():
            return "Interrupted before the run began; nothing is kept.", exit_code_of(error)
        case ModuleNotFoundError():
            # Networks of others, and what they need, leave torch alone.
            install = INSTALL_NETWORKS if error.name in {"torchvision", "timm"} else INSTALL
            return f"{error.name} is not installed; install it with: {install}", 1
        case OSError():
            return f"{error.filename or 'A file'}: {error.strerror or error}.", 1
    return str(error), 1


def _dispatch(options: argparse.Namespace) -> int:
    """Do what the command says; what is printed is the result but for a run's."""
    say, records = partial(print, flush=True), getattr(options, "records", Path())
    commands: dict[str, Callable[[], int]] = {
        "list": lambda: _listed(options.study, say),
        "doctor": lambda: doctor(records, say),
        "check": lambda: check_records(options.files, options.into, say),
        "theory": lambda: theory(options),
        "status": lambda: status(options.study, records, say),
        "import": lambda: import_files(options),
        "close": lambda: max(_outcome(*e, records) for e in close(options.study, records)),
        "submit": lambda: _submit(options, say),
        "run": lambda: _run(options, say),
    }
    return commands[options.command]()


def _listed(names: Sequence[str], say: Callable[[str], None]) -> int:
    """All studies in a line each, or all about those that are named."""
    studies = [registry.load(name) for name in names or registry.STUDIES]
    say(listing(studies) if names else overview(studies))
    return 0


def _run(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    if options.all:
        return measure_all(options.device, options.minutes, options.records, _watch(options), say)
    if options.study is None:
        raise UsageError("Name the study to run, or give --all; run --help tells more.")
    return _outcome(*run(request_of(options), _watch(options)), options.records)


def _submit(options: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Measure in jobs until all shards are there, or write the script that does."""
    if options.export_sbatch is not None:
        return export_script(request_of(options), options, say)
    path = submit(request_of(options), options, _watch(options))
    say("\n".join(next_build(options.study, path, options.records)))
    return 0


def _watch(options: argparse.Namespace) -> Observer:
    from rich.console import Console

    return Observer(Console(stderr=True), debug=options.debug)


def _outcome(record: Record, path: Path, records: Path) -> int:
    """Print what was measured, where it lies, and whether papers use it; the exit code."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 120).print(table(record.cases))
    for warning in (instability(record.cases), gates.problem(record)):
        if warning:
            print(warning, file=sys.stderr)
    absolute, here = path.resolve(), Path.cwd()
    print(f"Record: {absolute.relative_to(here) if absolute.is_relative_to(here) else path}")
    none = not any(case.status == "ok" for case in record.cases)
    if none:
        print("No case could be measured; the record says why.", file=sys.stderr)
    print(*next_build(record.study, path, records), sep="\n")
    return int(none)


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
    how = "to build the paper" if used else "to build the paper from it"
    command = shlex.join(["python", "build.py", study, *use, *data])
    return f"{words[:1].upper()}{words[1:]}; {how}:", command


def command() -> int:
    """The command as a process of its own, which SIGTERM ends as Ctrl-C does."""

    def terminated(number: int, frame: FrameType | None) -> None:
        raise Terminated

    open_streams()
    signal.signal(signal.SIGTERM, terminated)
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
