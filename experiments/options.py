"""The options that say what is measured, on which machine, and where the record goes."""

from __future__ import annotations

import argparse
import math
import platform
from pathlib import Path

from experiments import registry
from experiments.harness.run import Request


def add_run(go: argparse.ArgumentParser) -> None:
    """The options of ``run``."""
    go.add_argument(
        "--hostname",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="call this machine by its host's name, where it has no --label; by default no record "
        "holds that name",
    )
    add_measured(go, study_needed=False)
    go.add_argument(
        "--all",
        action="store_true",
        help="with --device cuda: measure what all papers need of a GPU, instead of one study",
    )
    go.add_argument(
        "--minutes", type=_minutes, default=25.0, metavar="MIN", help="time for --all; default: 25"
    )
    go.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="measure the I-th of N parts of the run; papers merge them, see docs/cluster.md",
    )
    go.add_argument(
        "--if-missing",
        action="store_true",
        help="leave a shard that is measured as it is, and continue one that is unfinished",
    )
    go.add_argument("--resume", action="store_true", help="continue the newest unfinished run")


def add_measured(go: argparse.ArgumentParser, *, study_needed: bool = True) -> None:
    """The options that ``run`` and ``submit`` have in common."""
    names = ", ".join(sorted(registry.STUDIES))
    go.add_argument("study", nargs=None if study_needed else "?", help=f"one of: {names}")
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
    _add_surroundings(go)


def _add_surroundings(go: argparse.ArgumentParser) -> None:
    """The options that say on which machine it runs and where its record goes."""
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
    go.add_argument("--debug", action="store_true", help="show tracebacks")


def request_of(options: argparse.Namespace) -> Request:
    """What the options of ``run`` or ``submit`` ask for."""
    return Request(
        study=options.study,
        records=options.records,
        images=options.images,
        device=options.device,
        threads=options.threads,
        quick=options.quick,
        settings=tuple(options.settings),
        budget=options.budget,
        resume=getattr(options, "resume", False),
        if_missing=getattr(options, "if_missing", False),
        counters=options.counters,
        label=options.label or (platform.node() if getattr(options, "hostname", False) else None),
        shard=getattr(options, "shard", None),
        wait_quiet=options.wait_quiet,
    )


def count(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")


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
