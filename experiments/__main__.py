"""Command line of the measuring side: ``python -m experiments list``, ``run``, ``theory``, …"""

import re
import signal
import sys
import traceback
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from report.core.system.streams import require_packages

require_packages()

import msgspec
from msgspec import Meta

from experiments import registry
from experiments.audit.command import OPTIONS as AUDIT
from experiments.audit.command import audit, epilog
from experiments.cluster.submit import SBATCH_OPTIONS, export_script, submit
from experiments.commands.checks import check_records, doctor
from experiments.commands.collect import collect
from experiments.commands.forecast import forecast
from experiments.commands.outcome import NOTHING_USABLE, print_record, use_of_record
from experiments.commands.status import status
from experiments.compare.study import OPTIONS as COMPARE
from experiments.compare.study import compare
from experiments.gpu_session import measure_all
from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.harness.run import close, run
from experiments.importers.command import import_files
from experiments.machine.processor import pin_to_one_kind_of_core
from experiments.machine.runtime import INSTALL_BY_PACKAGE, INSTALL_COMMAND
from experiments.theory.command import OPTIONS as THEORY
from experiments.theory.command import theory
from report.core.errors import RidgepointError, UsageError
from report.core.records.record import Address, Licence, Revision, Slug
from report.core.records.store import read_record
from report.core.system.commandline import Parser
from report.core.system.streams import check_output_written, open_streams

# The texts below are tables of options; ``report.core.system.commandline`` describes their form:
# a line per option with its name («!»: required), its value («–»: none), [default] and help.
_ONE_OF: Final = f"one of: {', '.join(sorted(registry.STUDIES))}\n"
_STUDY: Final = f"study  STUDY  {_ONE_OF}"
_RECORDS: Final = "--records  DIR [data]  the folder of records\n"
_DRY_RUN_AND_RESUME: Final = """\
--dry-run  –  say what the run needs and what it can decide, and stop
--resume  –  continue the newest unfinished run
"""
_MACHINE: Final = """\
the machine
--threads  N  default: one for each core
--label  NAME  a name for this machine, such as «classroom laptop 3», which papers print
--wait-quiet  MIN  wait until other processes leave the processors alone, at most so long
"""
_CASES_AND_MACHINE: Final = f"""\
{_RECORDS}\
what is measured
--device  cpu|cuda [cpu]  cuda: a GPU, see docs/measuring.md
--quick  –  fewer cases and samples
--set  FACTOR=LEVEL,...  measure these levels of a factor only; may be repeated
--counters  none|auto|all  count executed work in no case, in cases that take a few minutes, or in
  all cases; default: auto, with --quick none
--data  DIR  a folder with your own data set, for studies that read images
{_MACHINE}\
"""
_PARTS_OF_A_RUN: Final = """\
parts of a run, and several runs
--pairs  N  pairs of processes for each comparison of a claim; default: as many as its margin needs
--shard  I/N  measure only the I-th of N parts; papers merge all parts
--if-missing  –  skip a shard that is measured, and continue one that was begun
--all  –  with --device cuda: measure all that papers need of a GPU
--minutes  MIN [14]  time for --all
"""
_JOBS: Final = """\
jobs
--cluster  slurm|local [slurm]  local: on this machine
--nodes  COUNT [1]  jobs at once
--shards  COUNT  default: as many as nodes
--time  COUNT [60]  time limit of a job in minutes
--export-sbatch  FILE  write a script that submits the jobs, and submit nothing
""" + "".join(f"--{name}  {name.upper()}  {name} that sbatch asks for\n" for name in SBATCH_OPTIONS)
_IMPORT: Final = f"""\
files  FILE+  published files
{_RECORDS}\
--study!  STUDY  the study that uses the data
--origin!  TEXT  who measured
--licence!  ID  identifier in the SPDX list, such as Apache-2.0
--address  URL  where the file is published
--commit  HASH  the revision of the file at this address
--device  TEXT  full name of the device, as vendors write it
--set  NAME=VALUE...  a condition that the file lacks, such as precision=amp; may be repeated
"""
_CHECK: Final = """\
files  FILE+  records
--markdown  –  print a comment for a pull request: machine, plan, median of each case
"""
_COLLECT: Final = """\
folders  FILE+  folders of handed-in files, or single files
--into!  DIR  copy the usable records to the folders of their studies in this directory
--notes  DIR  write a text file for each student, with all checks
"""
_EXAMPLES: Final = """\
examples:
  python -m experiments run conv_scaling --quick
  python -m experiments run conv_scaling --threads 1 --set batch=16,64 --wait-quiet 10
"""


def _parser_of(kind: object, description: str) -> Callable[[str], Any]:
    """Return a function that parses a word into ``kind``; its error says "not ``description``"."""

    def convert(text: str) -> Any:
        try:
            return msgspec.convert(text.strip(), kind, strict=False)
        except msgspec.ValidationError:
            raise ArgumentTypeError(f"{text!r} is not {description}") from None

    return convert


def _parse_shard(text: str) -> tuple[int, int]:
    shard = re.fullmatch("([0-9]{1,9})/([0-9]{1,9})", text)
    if shard and 1 <= int(shard[1]) <= int(shard[2]):
        return int(shard[1]), int(shard[2])
    raise ArgumentTypeError(f"{text!r} is not a shard; write 1/4 for the first of four parts")


def _parse_share(text: str) -> float:
    parse = _parser_of(
        Annotated[float, Meta(ge=0, lt=1)], "a number from 0 to 1, such as 0.02 or 2%"
    )
    return float(parse(text.replace("%", "e-2")))


def _parse_label(text: str) -> str:
    if 1 <= len(text.strip()) <= 60 and text.strip().isprintable():
        return text.strip()
    raise ArgumentTypeError(f"{text!r} is not 1 to 60 printable characters")


#: Options that name a file or folder to write.
_OUTPUT_OPTIONS: Final = ("figures", "export_sbatch", "into", "notes", "records")
#: Placeholder of a value in the tables of options above → its parser; argparse parses the rest.
_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "N": int,
    "MIN": _parser_of(Annotated[float, Meta(gt=0, le=1e6)], "a number of minutes above 0"),
    "I/N": _parse_shard,
    "NAME": _parse_label,
    "STUDY": _parser_of(Slug, "a name of a study"),
    "ID": _parser_of(Licence, "an SPDX licence identifier, such as MIT"),
    "URL": _parser_of(Address, "a web address"),
    "PLACE": _parser_of(Annotated[str, Meta(pattern=r"\.py:\w+$")], "of the form FILE.py:FUNCTION"),
    "SHARE": _parse_share,
    "HASH": _parser_of(Revision, "the hash of a commit"),
}


def request_of(options: Namespace) -> Request:
    """Convert the options of ``run`` or ``submit`` into a request."""
    fields = {n: v for n, v in vars(options).items() if n in Request.__dataclass_fields__}
    return Request(**fields, settings=tuple(options.set), images=options.data)


def _run(options: Namespace) -> int:
    """Measure a study, or with ``--all`` several; return the exit code."""
    observer = Observer(debug=options.debug)
    if options.all:
        return measure_all(options.device, options.minutes, options.records, observer)
    if options.study is None:
        raise UsageError("Name the study to run, or give --all; run --help lists all options.")
    request = request_of(options)
    if pinned := pin_to_one_kind_of_core():
        observer.note(pinned)
    if options.dry_run or not (options.resume or options.if_missing):
        request, seconds = forecast(request, observer)
        observer.expect(seconds)
    if options.dry_run:
        return 0
    try:
        record, path = run(request, observer)
    finally:
        observer.finish()
    return print_record(record, path, options.records)


def _submit(options: Namespace) -> int:
    """Measure all shards in jobs, or write a script that does; return the exit code."""
    if options.export_sbatch is not None:
        return export_script(request_of(options), options)
    path = submit(request_of(options), options, Observer(debug=options.debug))
    usable, lines = use_of_record(read_record(path, options.records).record, path, options.records)
    print(*lines, sep="\n")
    return 0 if usable else NOTHING_USABLE


def _close(options: Namespace) -> int:
    """Write records of unfinished runs; return the largest exit code of their records."""
    code = 0
    for record, path in close(options.study, options.records, Observer(debug=options.debug)):
        code = max(code, print_record(record, path, options.records))
    return code


#: Command → its description, function and options.
_COMMANDS: Final[dict[str, tuple[str, Callable[[Namespace], int], str]]] = {
    "list": (
        "list the studies, or the factors and plans of a study",
        registry.list_studies,
        f"study  STUDY*  {_ONE_OF}",
    ),
    "run": (
        "measure a study and write a record",
        _run,
        f"study  STUDY?  {_ONE_OF}{_CASES_AND_MACHINE}{_DRY_RUN_AND_RESUME}{_PARTS_OF_A_RUN}",
    ),
    "submit": (
        "measure a study in jobs of a cluster",
        _submit,
        _STUDY + _CASES_AND_MACHINE + _JOBS,
    ),
    "theory": ("compute work, bytes and memory of any network from its code", theory, THEORY),
    "audit": ("recompute the numbers of a published table", audit, AUDIT),
    "compare": (
        "measure which of several functions is faster",
        compare,
        COMPARE + _DRY_RUN_AND_RESUME + _RECORDS + _MACHINE,
    ),
    "import": ("convert published measurements to records", import_files, _IMPORT),
    "check": ("check whether records are good to hand in", check_records, _CHECK),
    "collect": (
        "check the records of a class, and copy the usable ones into one folder",
        collect,
        _COLLECT,
    ),
    "doctor": ("say what this machine can measure, and what disturbs it", doctor, _RECORDS),
    "status": ("list measured and missing shards of a study", status, _STUDY + _RECORDS),
    "close": ("turn unfinished runs of lost machines into records", _close, _STUDY + _RECORDS),
}


def parser(chosen: str = "") -> Parser:
    """Build the parser of the command line; ``chosen`` is the command that the user typed."""
    program = Parser(prog="python -m experiments")
    commands = program.add_subparsers(dest="command", required=True)
    for name, (description, _, options) in _COMMANDS.items():
        command = commands.add_parser(name, help=description)
        command.add_options(f"--debug  –  show tracebacks\n{options}", _PARSERS)
        if name == chosen == "audit":  # its epilog reads a file, so build it only if needed
            command.epilog = epilog()
        elif name == "run":
            command.epilog = _EXAMPLES
    return program


def main(arguments: Sequence[str]) -> int:
    """Run a command; return the exit code."""
    options = Namespace()
    try:
        parser(*arguments[:1]).parse_args(arguments, options)
        _, run_command, _ = _COMMANDS[options.command]
        code = run_command(options)
        check_output_written()
        return code
    except KeyboardInterrupt as interrupt:
        print("Interrupted.", file=sys.stderr)
        # Shells report 128 + the signal's number for a command that a signal ended.
        return 128 + int((interrupt.args or (signal.SIGINT,))[0])
    except (RidgepointError, ModuleNotFoundError, OSError) as error:
        if "--debug" in arguments:
            traceback.print_exception(error)
        message = str(error)
        if isinstance(error, ModuleNotFoundError):
            install = INSTALL_BY_PACKAGE.get(error.name or "", INSTALL_COMMAND)
            message = f"{error.name} is not installed; install it with: {install}"
        elif isinstance(error, OSError):
            # The error of a full disk does not name the file.
            outputs = (getattr(options, name, None) for name in _OUTPUT_OPTIONS)
            file = error.filename or next(filter(None, outputs), "standard output")
            message = f"{file}: {error.strerror or error}."
        print(message, file=sys.stderr)
        return getattr(error, "exit_code", 1)


def command() -> int:
    """Run the command line; SIGTERM interrupts the command like Ctrl-C."""

    def terminated(number: int, frame: object) -> None:
        raise KeyboardInterrupt(number)

    open_streams()
    signal.signal(signal.SIGTERM, terminated)
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(command())
