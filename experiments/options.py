"""The command line of the measuring side: its commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from experiments import registry
from experiments.cluster.submit import ASKED
from experiments.harness.request import Request
from experiments.theory.command import OPTIONS as THEORY
from experiments.theory.networks import FORMS
from report.records.imported import Address, Licence, Revision
from report.records.record import Slug
from report.system.commandline import Parser

_MEASURED: Final = """\
what is measured
--device  cpu|cuda [cpu]  cuda: a GPU, see docs/measuring.md
--threads  N  default: one for each core
--quick  –  fewer cases and samples
--set  FACTOR=LEVEL,...  measure these levels of a factor only; may be repeated
--counters  none|auto  count executed work; default: auto, with --quick none
--data  DIR  a folder with a data set of your own, for the studies that read images
the machine
--label  NAME  what you call this machine, such as «classroom laptop 3»; papers call it so too
--wait-quiet  MIN  wait so long at most until other processes leave the processors alone
"""
_SEVERAL: Final = """\
parts of a run, and several runs
--resume  –  continue the newest unfinished run
--shard  I/N  only the I-th of N parts, which papers merge
--if-missing  –  skip a measured shard, go on with one begun
--all  –  with --device cuda: all that papers need of a GPU
--minutes  MIN [25]  time for --all
"""
_JOBS: Final = """\
jobs
--cluster  slurm|local [slurm]  local: on this machine
--nodes  COUNT [1]  jobs at once
--shards  COUNT  default: as many as nodes
--time  COUNT [60]  limit of a job in minutes
--export-sbatch  FILE  write a script instead
""" + "".join(f"--{name}  {name.upper()}  {name} that sbatch asks for\n" for name in ASKED)
_IMPORT: Final = """\
--study!  STUDY  the study whose data they become
--origin!  TEXT  who measured
--licence!  ID  a licence of SPDX, as Apache-2.0 is
--address  URL  where the file is published
--commit  HASH  the revision of it there
--device  TEXT  full name of the device, as vendors write it
--set  NAME=VALUE...  a condition that the file does not tell, as precision=amp; may be repeated
"""
_RECORDS: Final = "--records  DIR [data]  the folder of records\n"
_INTO: Final = "--into  DIR  copy those that are to the folders of their studies in this directory"
#: Command → what it does, and its options.
_COMMANDS: Final = {
    "list": ("the studies; of a named one, its factors and plans", ""),
    "run": ("measure a study on this machine and write a record", _RECORDS + _MEASURED + _SEVERAL),
    "submit": ("measure a study in shards, as jobs of a cluster", _RECORDS + _MEASURED + _JOBS),
    "theory": ("work, bytes and memory of any network, from its code", THEORY),
    "import": ("records of measurements that others published", _RECORDS + _IMPORT),
    "check": ("whether records are good to hand in", _INTO),
    "doctor": ("what this machine can measure, what disturbs it, and what to install", _RECORDS),
    "status": ("which shards of a study are measured or missing", _RECORDS),
    "close": ("make records of unfinished runs of a study whose machines are gone", _RECORDS),
}
_EXAMPLES: Final = """\
examples:
  python -m experiments run conv_scaling --quick
  python -m experiments run conv_scaling --threads 1 --set batch=16,64 --wait-quiet 10
"""


def _as(kind: object, what: str) -> Callable[[str], Any]:
    """What turns a word into a value of ``kind``, or refuses one that is not ``what``."""

    def convert(text: str) -> Any:
        try:
            return msgspec.convert(text.strip(), kind, strict=False)
        except msgspec.ValidationError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None

    return convert


def _shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
        return int(number), int(of)
    raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 1/4 for the first of four")


#: What an option takes, as tables say it → what makes that of a word.
_TYPES: Final[dict[str, Callable[[str], Any]]] = {
    "N": int,
    "MIN": _as(Annotated[float, Meta(gt=0, le=1e6)], "a number of minutes above 0"),
    "I/N": _shard,
    "NAME": _as(
        Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]{1,60}$")], "1 to 60 printable characters"
    ),
    "STUDY": _as(Slug, "a name of a study"),
    "ID": _as(Licence, "a licence of SPDX"),
    "URL": _as(Address, "a web address"),
    "HASH": _as(Revision, "a commit"),
}


def parser() -> Parser:
    """The command line."""
    every = Parser(prog="python -m experiments")
    commands = every.add_subparsers(dest="command", required=True)
    one_of = f"one of: {', '.join(sorted(registry.STUDIES))}"
    for name, (meaning, options) in _COMMANDS.items():
        command = commands.add_parser(name, help=meaning)
        if name in ("list", "run"):
            command.add_argument("study", nargs="*" if name == "list" else "?", help=one_of)
        elif name in ("submit", "status", "close"):
            command.add_argument("study", help=one_of)
        elif name == "theory":
            command.add_argument("network", nargs="?", help=f"{FORMS}, which returns the module")
        elif name in ("import", "check"):
            command.add_argument("files", nargs="+", type=Path, metavar="FILE")
        command.add_options(f"--debug  –  show tracebacks\n{options}", _TYPES)
        command.epilog = _EXAMPLES if name == "run" else None
    return every


def request_of(options: argparse.Namespace) -> Request:
    """What the options of ``run`` or ``submit`` ask for."""
    given = {n: v for n, v in vars(options).items() if n in Request.__dataclass_fields__}
    return Request(**given, settings=tuple(options.set), images=options.data)
