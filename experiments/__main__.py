"""The command of the measuring side: ``python -m experiments list``, ``run``, ``theory``, …"""

from __future__ import annotations

import argparse
import math
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

from experiments import registry
from experiments.harness.close import close
from experiments.harness.doctor import doctor
from experiments.harness.listing import listing, overview
from experiments.harness.record_check import check_records
from experiments.harness.run import Request, StoppedError, Terminated, exit_code_of, run
from experiments.harness.runtime import INSTALL
from experiments.harness.study import UsageError
from experiments.importers.command import add_import, import_files
from experiments.theory.command import add_theory, theory
from report.errors import RidgepointError
from report.records.record import Record
from report.records.told import fate_of
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
        dest="command", required=True, metavar="{list,doctor,run,check,close,import,theory}"
    )
    shown = commands.add_parser("list", help="the studies; of a named one, its factors and plans")
    shown.add_argument("study", nargs="*", help="the studies to tell more about")
    health = commands.add_parser(
        "doctor", help="what this machine can measure, what disturbs it, and what to install"
    )
    health.add_argument("--records", type=Path, default=Path("data"), metavar="DIR")
    health.add_argument("--debug", action="store_true", help="show tracebacks")
    _add_run(commands.add_parser("run", help="measure a study on this machine and write a record"))
    hand_in = commands.add_parser("check", help="whether a record is good to hand in")
    hand_in.add_argument("files", nargs="+", type=Path, metavar="FILE")
    hand_in.add_argument("--debug", action="store_true", help="show tracebacks")
    add_theory(
        commands.add_parser("theory", help="work, bytes and memory of any network, from its code")
    )
    add_import(commands.add_parser("import", help="records of measurements that others published"))
    close = commands.add_parser(
        "close",
        help="make a record of an unfinished run as far as it went, when its machine is gone",
    )
    close.add_argument("study", help="the study whose newest unfinished run is meant")
    close.add_argument("--records", type=Path, default=Path("data"), metavar="DIR")
    close.add_argument("--debug", action="store_true", help="show tracebacks")
    return made


def _add_run(go: argparse.ArgumentParser) -> None:
    """The options of ``run``."""
    go.add_argument("study", help=f"one of: {', '.join(sorted(registry.STUDIES))}")
    go.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda measures on a GPU: experimental, see docs/gpu.md for what was tested on one",
    )
    go.add_argument("--threads", type=int, metavar="N", help="default: one for each core")
    go.add_argument("--quick", action="store_true", help="fewer cases and samples")
    go.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="FACTOR=LEVEL,...",
        help="measure these levels of a factor only; may be repeated",
    )
    go.add_argument(
        "--budget", type=_seconds, metavar="SECONDS", help="time for each case in each process"
    )
    go.add_argument(
        "--counters",
        choices=("none", "auto", "all"),
        help="count executed work: none, what fits into minutes, or all that can be; "
        "default: auto, with --quick none",
    )
    go.add_argument(
        "--data",
        dest="images",
        type=Path,
        metavar="DIR",
        help="a folder with a data set of your own, for the studies that read images",
    )
    go.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="measure the I-th of N parts of the run; papers merge them",
    )
    go.add_argument(
        "--if-missing",
        action="store_true",
        help="leave a shard that is measured as it is, and continue one that is unfinished",
    )
    _add_surroundings(go)
    go.add_argument("--resume", action="store_true", help="continue the newest unfinished run")
    go.add_argument("--debug", action="store_true", help="show tracebacks")


def _add_surroundings(go: argparse.ArgumentParser) -> None:
    """The options of ``run`` that say on which machine it runs and where its record goes."""
    go.add_argument(
        "--records",
        type=Path,
        default=Path("data"),
        metavar="DIR",
        help="where the record is written; default: data",
    )
    go.add_argument(
        "--label",
        metavar="NAME",
        help="what you call this machine, such as «classroom laptop 3»; papers call it so too",
    )
    go.add_argument(
        "--wait-quiet",
        type=_minutes,
        metavar="MIN",
        help="wait until other processes leave the processors alone, for at most so many minutes",
    )


def _shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
        return int(number), int(of)
    raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 1/4 for the first of four")


def _seconds(text: str) -> float:
    return _above_zero(text, "seconds")


def _minutes(text: str) -> float:
    return _above_zero(text, "minutes")


def _above_zero(text: str, unit: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of {unit} above 0")
    return number


def main(arguments: Sequence[str]) -> int:
    """Do what ``arguments`` say; return the exit code."""
    try:
        with _sigterm_raises():
            return _dispatch(parser().parse_args(arguments))
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
            return f"{error.name} is not installed; install it with: {INSTALL}", 1
        case OSError():
            return f"{error.filename or 'A file'}: {error.strerror or error}.", 1
    return str(error), 1


def _dispatch(options: argparse.Namespace) -> int:
    """Do what the command says; what is printed is the result but for a run's."""
    say = partial(print, flush=True)
    commands: dict[str, Callable[[], int]] = {
        "list": lambda: _listed(options.study, say),
        "doctor": lambda: doctor(options.records, say),
        "check": lambda: check_records(options.files, say),
        "theory": lambda: theory(options),
    }
    if options.command in commands:
        code = commands[options.command]()
        check_output()
        return code
    if options.command == "import":
        return import_files(options)
    if options.command == "close":
        return _told(*close(options.study, options.records), options.records)
    return _run(options)


def _listed(names: Sequence[str], say: Callable[[str], None]) -> int:
    """All studies in a line each, or all about those that are named."""
    studies = [registry.load(name) for name in names or registry.STUDIES]
    say(listing(studies) if names else overview(studies))
    return 0


def _run(options: argparse.Namespace) -> int:
    from rich.console import Console

    from experiments.harness.progress import watch

    request = Request(
        study=options.study,
        records=options.records,
        images=options.images,
        device=options.device,
        threads=options.threads,
        quick=options.quick,
        settings=tuple(options.settings),
        budget=options.budget,
        resume=options.resume,
        if_missing=options.if_missing,
        counters=options.counters,
        label=options.label,
        shard=options.shard,
        wait_quiet=options.wait_quiet,
    )
    return _told(*run(request, watch(Console(stderr=True), options.debug)), options.records)


def _told(record: Record, path: Path, records: Path) -> int:
    """Print what was measured, where it lies, and whether papers use it; the exit code."""
    from rich.console import Console

    from experiments.harness.summary import instability, table

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(record.cases))
    if warning := instability(record.cases):
        print(warning, file=sys.stderr)
    print(f"Record: {_shown(path)}")
    print(f"Next build: {next_build(record.study, path, records)}")
    if not any(case.status == "ok" for case in record.cases):
        print("No case could be measured; the record says why.", file=sys.stderr)
        return 1
    return 0


def next_build(study: str, path: Path, records: Path) -> str:
    """What the next build does with a record of ``records``, and how to see it all the same."""
    try:
        used, words = fate_of(study, f"{study}/{path.name}", records)
    except RidgepointError as error:
        return str(error)
    if used:
        return f"{words}."
    elsewhere = records.resolve() != Path("data").resolve()
    data = ["--data", os.fspath(records)] if elsewhere else []
    return f"{words}; to see it: {shlex.join([*_BUILD, study, '--use', _shown(path), *data])}"


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
