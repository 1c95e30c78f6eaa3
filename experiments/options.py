"""The command line of the measuring side: its commands and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import msgspec

from experiments import registry
from experiments.cluster.submit import ASKED
from experiments.harness.request import Request
from experiments.harness.study import UsageError
from experiments.theory.command import add_theory
from report.records.imported import Address, Licence, Revision
from report.records.record import Slug

_LONGEST_LABEL: Final = 60
_ONE_OF: Final = f"one of: {', '.join(sorted(registry.STUDIES))}"
_EXAMPLES: Final = """\
examples:
  python -m experiments run conv_scaling --quick
  python -m experiments run conv_scaling --threads 1 --set batch=16,64 --wait-quiet 10
"""


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


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence, as all of this command does."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    whole = _Parser(prog="python -m experiments")
    commands = whole.add_subparsers(dest="command", required=True)
    go = {name: commands.add_parser(name, help=help_) for name, help_ in _COMMANDS.items()}
    go["list"].add_argument("study", nargs="*", help="the studies to tell more about")
    go["run"].epilog = _EXAMPLES
    go["run"].formatter_class = argparse.RawDescriptionHelpFormatter
    go["run"].add_argument("study", nargs="?", help=_ONE_OF)
    for name in ("submit", "status", "close"):
        go[name].add_argument("study", help=_ONE_OF)
    _add_measured(go["run"])
    _add_several(go["run"])
    _add_measured(go["submit"])
    _add_jobs(go["submit"])
    add_theory(go["theory"])
    _add_import(go["import"])
    go["check"].add_argument("files", nargs="+", type=Path, metavar="FILE")
    copied = "copy those that are to the folders of their studies in this data directory"
    go["check"].add_argument("--into", type=Path, metavar="DATA", help=copied)
    where = "the folder of records; default: data"
    for name in ("run", "submit", "import", "doctor", "status", "close"):
        go[name].add_argument(
            "--records", type=Path, default=Path("data"), metavar="DIR", help=where
        )
    for command in go.values():
        command.add_argument("--debug", action="store_true", help="show tracebacks")
    return whole


def _add_measured(go: argparse.ArgumentParser) -> None:
    """The options that ``run`` and ``submit`` have in common."""
    what = go.add_argument_group("what is measured")
    gpu = "cuda: a GPU, see docs/gpu.md"
    what.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help=gpu)
    what.add_argument("--threads", type=int, metavar="N", help="default: one for each core")
    what.add_argument("--quick", action="store_true", help="fewer cases and samples")
    only, levels = "measure these levels of a factor only; may be repeated", "FACTOR=LEVEL,..."
    what.add_argument(
        "--set", dest="settings", action="append", default=[], metavar=levels, help=only
    )
    counted = "count executed work, as far as it takes minutes; default: auto, with --quick none"
    what.add_argument("--counters", choices=("none", "auto"), help=counted)
    images = "a folder with a data set of your own, for the studies that read images"
    what.add_argument("--data", dest="images", type=Path, metavar="DIR", help=images)
    where = go.add_argument_group("the machine")
    name = "what you call this machine, such as «classroom laptop 3»; papers call it so too"
    where.add_argument("--label", type=_label, metavar="NAME", help=name)
    quiet = "wait so long at most until other processes leave the processors alone"
    where.add_argument("--wait-quiet", type=_minutes, metavar="MIN", help=quiet)


def _add_several(go: argparse.ArgumentParser) -> None:
    many = go.add_argument_group("parts of a run, and several runs")
    many.add_argument("--resume", action="store_true", help="continue the newest unfinished run")
    part = "only the I-th of N parts, which papers merge"
    many.add_argument("--shard", type=_shard, metavar="I/N", help=part)
    begun = "skip a measured shard, go on with one begun"
    many.add_argument("--if-missing", action="store_true", help=begun)
    needed = "with --device cuda: all that papers need of a GPU"
    many.add_argument("--all", action="store_true", help=needed)
    limit = "time for --all; default: 25"
    many.add_argument("--minutes", type=_minutes, default=25.0, metavar="MIN", help=limit)


def _add_jobs(go: argparse.ArgumentParser) -> None:
    """The options of ``submit`` that say how jobs are asked for."""
    jobs = go.add_argument_group("jobs")
    local = "local: on this machine"
    jobs.add_argument("--cluster", choices=("slurm", "local"), default="slurm", help=local)
    for name, default, meaning in (
        ("nodes", 1, "jobs at once; default: 1"),
        ("shards", None, "default: as many as nodes"),
        ("time", 60, "limit of a job in minutes; default: 60"),
    ):
        jobs.add_argument(f"--{name}", type=_count, default=default, metavar="N", help=meaning)
    for name in ASKED:
        jobs.add_argument(f"--{name}", metavar=name.upper(), help=f"{name} that sbatch asks for")
    jobs.add_argument("--export-sbatch", type=Path, metavar="FILE", help="write a script instead")


def _add_import(go: argparse.ArgumentParser) -> None:
    """The options of ``import``."""
    go.add_argument("files", nargs="+", type=Path, metavar="FILE", help="published measurements")
    study = "the study whose data they become"
    go.add_argument("--study", required=True, type=_as(Slug, "a study"), help=study)
    go.add_argument("--origin", required=True, metavar="TEXT", help="who measured")
    spdx = _as(Licence, "a licence of SPDX, as Apache-2.0 is")
    go.add_argument("--licence", required=True, type=spdx, metavar="ID", help="of SPDX, as MIT is")
    web, where = _as(Address, "a web address"), "where the file is published"
    go.add_argument("--address", type=web, metavar="URL", help=where)
    revision = _as(Revision, "a commit")
    go.add_argument("--commit", type=revision, metavar="HASH", help="the revision of it there")
    go.add_argument("--device", metavar="NAME", help="full name of the device, as vendors write it")
    untold, pair = "a condition that the file does not tell; may be repeated", "NAME=VALUE"
    go.add_argument(
        "--set", dest="settings", action="append", default=[], metavar=pair, help=untold
    )


def request_of(options: argparse.Namespace) -> Request:
    """What the options of ``run`` or ``submit`` ask for."""
    given = {n: v for n, v in vars(options).items() if n in Request.__dataclass_fields__}
    return Request(**{**given, "settings": tuple(options.settings)})


# ----------------------------------------------------------------------------- words of options


def _as(kind: object, what: str) -> Callable[[str], Any]:
    """What turns a word into a value of ``kind``, or refuses one that is not ``what``."""

    def convert(text: str) -> Any:
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None

    return convert


_count = _as(Annotated[int, msgspec.Meta(ge=1)], "a whole number from 1 on")
_minutes = _as(Annotated[float, msgspec.Meta(gt=0, le=1e6)], "a number of minutes above 0")


def _shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
        return int(number), int(of)
    raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 1/4 for the first of four")


def _label(text: str) -> str:
    if not (1 <= len(text.strip()) <= _LONGEST_LABEL and text.isprintable()):
        raise argparse.ArgumentTypeError(f"give 1 to {_LONGEST_LABEL} printable characters")
    return text.strip()
