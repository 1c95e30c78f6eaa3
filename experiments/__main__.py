# PYTHON_ARGCOMPLETE_OK: a shell may ask this command how its line goes on.
"""The command of the measuring side: ``python -m experiments list``, ``run``, ``theory``, …"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from report.system.requirements import require_packages

require_packages()

from experiments import registry
from experiments.cluster.submit import add_submit, export_script, jobs_of, submit
from experiments.gpu_session import measure_all
from experiments.harness.close import close
from experiments.harness.doctor import doctor
from experiments.harness.listing import listing, overview
from experiments.harness.record_check import check_records
from experiments.harness.run import StoppedError, Terminated, exit_code_of, run
from experiments.harness.runtime import INSTALL, INSTALL_NETWORKS
from experiments.harness.study import UsageError
from experiments.harness.sweep_status import status
from experiments.importers.command import add_import, import_files
from experiments.options import add_run, request_of
from experiments.theory.command import add_theory, theory
from report.errors import RidgepointError
from report.instruments import gates
from report.records import ENDING
from report.records.record import Record
from report.records.usage import fate_of
from report.system.completion import complete
from report.system.streams import check_output, open_streams

if TYPE_CHECKING:
    from types import FrameType


_BUILD: Final = ("python", "build.py")


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence, as all of this command does."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = _Parser(prog="python -m experiments", description=__doc__)
    commands = made.add_subparsers(
        dest="command",
        required=True,
        metavar="{list,doctor,run,submit,status,check,close,import,theory}",
    )
    shown = commands.add_parser("list", help="the studies; of a named one, its factors and plans")
    shown.add_argument("study", nargs="*", help="the studies to tell more about")
    health = commands.add_parser(
        "doctor", help="what this machine can measure, what disturbs it, and what to install"
    )
    add_run(commands.add_parser("run", help="measure a study on this machine and write a record"))
    add_submit(
        commands.add_parser("submit", help="measure a study in shards, as jobs of a cluster")
    )
    there = commands.add_parser("status", help="which shards of a study are measured or missing")
    there.add_argument("study", help="the study whose sweeps are meant")
    hand_in = commands.add_parser("check", help="whether records are good to hand in")
    hand_in.add_argument("files", nargs="+", type=Path, metavar="FILE")
    hand_in.add_argument(
        "--into",
        type=Path,
        metavar="DATA",
        help="copy those that are to the folders of their studies in this data directory",
    )
    add_theory(
        commands.add_parser("theory", help="work, bytes and memory of any network, from its code")
    )
    add_import(commands.add_parser("import", help="records of measurements that others published"))
    close = commands.add_parser(
        "close",
        help="make a record of an unfinished run as far as it went, when its machine is gone",
    )
    close.add_argument(
        "study", help="the study whose newest unfinished run is meant, with all of its shards"
    )
    for command in (health, there, close):
        command.add_argument("--records", type=Path, default=Path("data"), metavar="DIR")
    for command in (health, there, hand_in, close):
        command.add_argument("--debug", action="store_true", help="show tracebacks")
    return made


def main(arguments: Sequence[str]) -> int:
    """Do what ``arguments`` say; return the exit code."""
    try:
        with _sigterm_raises():
            made = parser()
            complete(made)
            return _dispatch(made.parse_args(arguments))
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
            return f"{error.name} is not installed; install it with: {_install(error.name)}", 1
        case OSError():
            return f"{error.filename or 'A file'}: {error.strerror or error}.", 1
    return str(error), 1


def _install(module: str | None) -> str:
    """The command that brings a module; networks of others, and what they need, without torch."""
    return INSTALL_NETWORKS if module in {"torchvision", "timm"} else INSTALL


def _dispatch(options: argparse.Namespace) -> int:
    """Do what the command says; what is printed is the result but for a run's."""
    say = partial(print, flush=True)
    commands: dict[str, Callable[[], int]] = {
        "list": lambda: _listed(options.study, say),
        "doctor": lambda: doctor(options.records, say),
        "check": lambda: check_records(options.files, options.into, say),
        "theory": lambda: theory(options),
        "status": lambda: status(options.study, options.records, say),
    }
    if options.command in commands:
        code = commands[options.command]()
        check_output()
        return code
    if options.command == "import":
        return import_files(options)
    if options.command == "close":
        closed = close(options.study, options.records)
        return max(_print_outcome(*each, options.records) for each in closed)
    if options.command == "submit":
        return _submit(options)
    return _run(options)


def _listed(names: Sequence[str], say: Callable[[str], None]) -> int:
    """All studies in a line each, or all about those that are named."""
    studies = [registry.load(name) for name in names or registry.STUDIES]
    say(listing(studies) if names else overview(studies))
    return 0


def _run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from experiments.harness.progress import watch

    if options.all:
        observer = watch(Console(stderr=True), options.debug)
        say = partial(print, flush=True)
        return measure_all(options.device, options.minutes, options.records, observer, say)
    if options.study is None:
        raise UsageError("Name the study to run, or give --all; run --help tells more.")
    return _print_outcome(
        *run(request_of(options), watch(Console(stderr=True), options.debug)), options.records
    )


def _submit(options: argparse.Namespace) -> int:
    """Measure in jobs until all shards are there, or write the script that does."""
    from rich.console import Console

    from experiments.harness.progress import watch

    jobs = jobs_of(options)
    if options.export_sbatch is not None:
        return export_script(request_of(options), jobs, options.export_sbatch, print)
    path = submit(request_of(options), jobs, watch(Console(stderr=True), options.debug))
    print(*next_build(options.study, path, options.records), sep="\n")
    return 0


def _print_outcome(record: Record, path: Path, records: Path) -> int:
    """Print what was measured, where it lies, and whether papers use it; the exit code."""
    from rich.console import Console

    from experiments.harness.summary import instability, table

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(record.cases))
    for warning in (instability(record.cases), gates.problem(record)):
        if warning:
            print(warning, file=sys.stderr)
    print(f"Record: {_shown(path)}")
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
    return f"{words[:1].upper()}{words[1:]}; {how}:", shlex.join([*_BUILD, study, *use, *data])


def _shown(path: Path) -> str:
    """``path`` relative to where the user stands, if it lies below."""
    absolute = path.resolve()
    here = Path.cwd()
    return os.fspath(absolute.relative_to(here) if absolute.is_relative_to(here) else path)


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does, with what is finished kept."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    open_streams()
    sys.exit(main(sys.argv[1:]))
