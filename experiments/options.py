"""The command line of the measuring side: its commands and their options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import msgspec

from experiments import registry
from experiments.cluster.submit import ASKED
from experiments.harness.request import Request
from experiments.harness.study import UsageError
from experiments.theory.command import OPTIONS as THEORY
from experiments.theory.networks import FORMS
from report.records.imported import Address, Licence, Revision
from report.records.record import Slug

#: Command → what it does.
_COMMANDS: Final = {
    "list": "the studies; of a named one, its factors and plans",
    "run": "measure a study on this machine and write a record",
    "submit": "measure a study in shards, as jobs of a cluster",
    "theory": "work, bytes and memory of any network, from its code",
    "import": "records of measurements that others published",
    "check": "whether records are good to hand in",
    "doctor": "what this machine can measure, what disturbs it, and what to install",
    "status": "which shards of a study are measured or missing",
    "close": "make records of the unfinished runs of a study whose machines are gone",
}
#: An option a line: its name («!» if it must be given), what it takes with the default, its help.
_MEASURED: Final = """
--device  cpu|cuda [cpu]  cuda: a GPU, see docs/gpu.md
--threads  N  default: one for each core
--quick  –  fewer cases and samples
--set  FACTOR=LEVEL,...  measure these levels of a factor only; may be repeated
--counters  none|auto  count executed work; default: auto, with --quick none
--data  DIR  a folder with a data set of your own, for the studies that read images
"""
_MACHINE: Final = """
--label  NAME  what you call this machine, such as «classroom laptop 3»; papers call it so too
--wait-quiet  MIN  wait so long at most until other processes leave the processors alone
"""
_SEVERAL: Final = """
--resume  –  continue the newest unfinished run
--shard  I/N  only the I-th of N parts, which papers merge
--if-missing  –  skip a measured shard, go on with one begun
--all  –  with --device cuda: all that papers need of a GPU
--minutes  MIN [25]  time for --all
"""
_JOBS: Final = """
--cluster  slurm|local [slurm]  local: on this machine
--nodes  COUNT [1]  jobs at once
--shards  COUNT  default: as many as nodes
--time  COUNT [60]  limit of a job in minutes
--export-sbatch  FILE  write a script instead
""" + "".join(f"--{name}  {name.upper()}  {name} that sbatch asks for\n" for name in ASKED)
_IMPORT: Final = """
--study!  STUDY  the study whose data they become
--origin!  TEXT  who measured
--licence!  ID  a licence of SPDX, as Apache-2.0 is
--address  URL  where the file is published
--commit  HASH  the revision of it there
--device  TEXT  full name of the device, as vendors write it
--set  NAME=VALUE...  a condition that the file does not tell, as precision=amp; may be repeated
"""
_CHECK: Final = "--into  DIR  copy those that are to the folders of their studies in this directory"
_RECORDS: Final = "--records  DIR [data]  the folder of records"
_DEBUG: Final = "--debug  –  show tracebacks"
_LINE: Final = re.compile(r"(\S+?)(!?)  (\S+)(?: \[(\S+)\])?  (.+)")
_EXAMPLES: Final = """\
examples:
  python -m experiments run conv_scaling --quick
  python -m experiments run conv_scaling --threads 1 --set batch=16,64 --wait-quiet 10
"""


def _as(kind: object, what: str) -> Callable[[str], Any]:
    """What turns a word into a value of ``kind``, or refuses one that is not ``what``."""

    def convert(text: str) -> Any:
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None

    return convert


def _shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
        return int(number), int(of)
    raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 1/4 for the first of four")


def _label(text: str) -> str:
    if 1 <= len(text.strip()) <= 60 and text.isprintable():
        return text.strip()
    raise argparse.ArgumentTypeError("give 1 to 60 printable characters")


#: What an option takes, as tables say it → what makes that of a word; of all others it is a text.
_TYPES: Final[dict[str, Callable[[str], Any]]] = {
    "N": int,
    "COUNT": _as(Annotated[int, msgspec.Meta(ge=1)], "a whole number from 1 on"),
    "MIN": _as(Annotated[float, msgspec.Meta(gt=0, le=1e6)], "a number of minutes above 0"),
    "DIR": Path,
    "FILE": Path,
    "I/N": _shard,
    "NAME": _label,
    "STUDY": _as(Slug, "a name of a study"),
    "ID": _as(Licence, "a licence of SPDX"),
    "URL": _as(Address, "a web address"),
    "HASH": _as(Revision, "a commit"),
}


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence, as all of this command does."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")

    def add_options(self, table: str, title: str | None = None) -> None:
        """Add the options of a table, under a title if there is one."""
        group = self.add_argument_group(title) if title else self
        for line in table.replace("\n  ", " ").strip().splitlines():
            matched = _LINE.fullmatch(line)
            assert matched is not None, line
            name, required, takes, default, meaning = matched.groups()
            how: dict[str, Any] = {"help": f"{meaning}; default: {default}" if default else meaning}
            if takes == "–":
                how["action"] = "store_true"
            elif takes.endswith("..."):
                how |= {"action": "append", "default": [], "metavar": takes}
            elif "|" in takes:
                how |= {"choices": takes.split("|"), "default": default}
            else:
                how |= {"type": _TYPES.get(takes, str), "metavar": takes, "default": default}
                how["required"] = bool(required)
            group.add_argument(name, **how)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = _Parser(prog="python -m experiments")
    commands = whole.add_subparsers(dest="command", required=True)
    go = {name: commands.add_parser(name, help=meaning) for name, meaning in _COMMANDS.items()}
    go["list"].add_argument("study", nargs="*", help="the studies to tell more about")
    one_of = f"one of: {', '.join(sorted(registry.STUDIES))}"
    go["run"].add_argument("study", nargs="?", help=one_of)
    for name in ("submit", "status", "close"):
        go[name].add_argument("study", help=one_of)
    for name in ("run", "submit"):
        go[name].add_options(_MEASURED, "what is measured")
        go[name].add_options(_MACHINE, "the machine")
    go["run"].add_options(_SEVERAL, "parts of a run, and several runs")
    go["run"].epilog = _EXAMPLES
    go["run"].formatter_class = argparse.RawDescriptionHelpFormatter
    go["submit"].add_options(_JOBS, "jobs")
    go["theory"].add_argument("network", nargs="?", help=f"{FORMS}, which returns the module")
    go["theory"].add_options(THEORY)
    for name in ("import", "check"):
        go[name].add_argument("files", nargs="+", type=Path, metavar="FILE")
    go["import"].add_options(_IMPORT)
    go["check"].add_options(_CHECK)
    for name, command in go.items():
        if name not in ("list", "theory", "check"):
            command.add_options(_RECORDS)
        command.add_options(_DEBUG)
    return whole


def request_of(options: argparse.Namespace) -> Request:
    """What the options of ``run`` or ``submit`` ask for."""
    given = {n: v for n, v in vars(options).items() if n in Request.__dataclass_fields__}
    return Request(**given, settings=tuple(options.set), images=options.data)
