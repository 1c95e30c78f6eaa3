"""The command line of the measuring side: its commands and their options."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Final, NoReturn

from experiments import registry
from experiments.cluster.submit import add_jobs
from experiments.harness.request import Request
from experiments.harness.study import UsageError
from experiments.importers.command import add_import
from experiments.theory.command import add_theory

_LONGEST_LABEL: Final = 60
_EXAMPLES: Final = """\
examples:
  python -m experiments run conv_scaling --quick
  python -m experiments run conv_scaling --threads 1 --set batch=16,64 --wait-quiet 10
"""


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one sentence, as all of this command does."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}; {self.prog} --help tells more.")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    debug = _Parser(add_help=False)
    debug.add_argument("--debug", action="store_true", help="show tracebacks")
    data = _Parser(add_help=False, parents=[debug])
    where = "the folder of records; default: data"
    data.add_argument("--records", type=Path, default=Path("data"), metavar="DIR", help=where)
    whole = _Parser(prog="python -m experiments")
    commands = whole.add_subparsers(dest="command", required=True)
    shown = commands.add_parser("list", help="the studies; of a named one, its factors and plans")
    shown.add_argument("study", nargs="*", help="the studies to tell more about")
    go = commands.add_parser(
        "run",
        parents=[data],
        help="measure a study on this machine and write a record",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_measured(go, nargs="?")
    _add_several(go)
    sent = commands.add_parser(
        "submit", parents=[data], help="measure a study in shards, as jobs of a cluster"
    )
    _add_measured(sent)
    add_jobs(sent)
    theory = "work, bytes and memory of any network, from its code"
    add_theory(commands.add_parser("theory", help=theory))
    published = "records of measurements that others published"
    add_import(commands.add_parser("import", parents=[data], help=published))
    good = "whether records are good to hand in"
    hand_in = commands.add_parser("check", parents=[debug], help=good)
    hand_in.add_argument("files", nargs="+", type=Path, metavar="FILE")
    copied = "copy those that are to the folders of their studies in this data directory"
    hand_in.add_argument("--into", type=Path, metavar="DATA", help=copied)
    looked = "what this machine can measure, what disturbs it, and what to install"
    commands.add_parser("doctor", parents=[data], help=looked)
    for name, meaning in (
        ("status", "which shards of a study are measured or missing"),
        ("close", "make records of the unfinished runs of a study whose machines are gone"),
    ):
        commands.add_parser(name, parents=[data], help=meaning).add_argument("study")
    return whole


def _add_several(go: argparse.ArgumentParser) -> None:
    many = go.add_argument_group("parts of a run, and several runs")
    many.add_argument("--resume", action="store_true", help="continue the newest unfinished run")
    many.add_argument(
        "--shard", type=_shard, metavar="I/N", help="only the I-th of N parts, which papers merge"
    )
    many.add_argument(
        "--if-missing",
        action="store_true",
        help="skip a measured shard, go on with one begun",
    )
    many.add_argument(
        "--all", action="store_true", help="with --device cuda: all that papers need of a GPU"
    )
    many.add_argument(
        "--minutes", type=_minutes, default=25.0, metavar="MIN", help="time for --all; default: 25"
    )


def _add_measured(go: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """The options that ``run`` and ``submit`` have in common."""
    go.add_argument("study", nargs=nargs, help=f"one of: {', '.join(sorted(registry.STUDIES))}")
    what = go.add_argument_group("what is measured")
    what.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: a GPU, see docs/gpu.md",
    )
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


def request_of(options: argparse.Namespace) -> Request:
    """What the options of ``run`` or ``submit`` ask for."""
    given = {n: v for n, v in vars(options).items() if n in Request.__dataclass_fields__}
    return Request(**{**given, "settings": tuple(options.settings)})


def _shard(text: str) -> tuple[int, int]:
    number, slash, of = text.partition("/")
    if slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of):
        return int(number), int(of)
    raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 1/4 for the first of four")


def _label(text: str) -> str:
    if not (1 <= len(text.strip()) <= _LONGEST_LABEL and text.isprintable()):
        raise argparse.ArgumentTypeError(f"give 1 to {_LONGEST_LABEL} printable characters")
    return text.strip()


def _minutes(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes above 0")
    return number
