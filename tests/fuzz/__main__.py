"""Attack what a build reads: ``python -m tests.fuzz [KIND ...] --seconds N`` or ``--count N``.

Every attack has a seed of its own, so that ``--seed SEED --first INDEX --count 1 KIND`` repeats it.
Prints how many attacks of each kind were refused, accepted or went wrong, and exits with 1 if any
went wrong.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from tests.fuzz.outcome import Outcome, Report

#: The modules that attack, and whether the test suite runs them for some seconds.
KINDS: Final = {"records": True, "inputs": True, "damage": True, "kills": False}
#: An attack that takes longer hangs.
_LIMIT_S: Final = 300


class Attack(NamedTuple):
    """One attack: it depends on these three and on nothing else."""

    kind: str
    seed: int
    index: int

    def __str__(self) -> str:
        return f"--seed {self.seed} --first {self.index} --count 1 {self.kind}"


class HangError(Exception):
    """An attack does not end; no ``OSError``, which a build takes for a file it cannot read."""


def run(attack: Attack, room: Path) -> Report:
    """Make one attack in the folder ``room``; what it raises, or that it hangs, is wrong.

    The attacks of one kind share a room, in which the first may prepare what all need.
    """
    chance = random.Random(f"{attack.seed} {attack.kind} {attack.index}")
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(_LIMIT_S)
    try:
        report: Report = import_module(f"tests.fuzz.{attack.kind}").attack(chance, room)
        return report
    except Exception as error:
        return Report(attack.kind, Outcome.WRONG, f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)


def _hangs(number: int, frame: FrameType | None) -> None:
    raise HangError(f"not done after {_LIMIT_S} s")


def attacks(kinds: Sequence[str], seed: int, first: int, count: int) -> Iterator[Attack]:
    """``count`` attacks of each kind, the kinds in turns."""
    return (Attack(kind, seed, index) for index in range(first, first + count) for kind in kinds)


def table(counts: Counter[tuple[str, Outcome]]) -> str:
    """A row a kind with the number of each outcome."""
    kinds = sorted({kind for kind, _ in counts})
    rows = [("kind", "tried", *(outcome.value for outcome in Outcome))]
    for kind in kinds:
        numbers = [counts[kind, outcome] for outcome in Outcome]
        rows.append((kind, *map(str, (sum(numbers), *numbers))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def main(arguments: Sequence[str]) -> int:
    """Attack for the time or the number that was asked for; returns the exit code."""
    options = _parse(arguments)
    kinds = options.kind or [kind for kind, quick in KINDS.items() if quick]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        rooms = {kind: Path(folder) / kind for kind in kinds}
        for room in rooms.values():
            room.mkdir()
        planned = attacks(kinds, options.seed, options.first, options.count)
        counts = _attack(planned, rooms, options.seconds)
    print(table(counts))
    return 1 if any(outcome is Outcome.WRONG for _, outcome in counts) else 0


def _attack(
    planned: Iterable[Attack], rooms: Mapping[str, Path], seconds: float | None
) -> Counter[tuple[str, Outcome]]:
    """How often each kind came to each outcome; what is wrong is printed at once."""
    start = shown = time.monotonic()
    counts: Counter[tuple[str, Outcome]] = Counter()
    for done, attack in enumerate(planned):
        now = time.monotonic()
        if seconds is not None and now - start > seconds:
            break
        if now - shown > 10:
            shown = now
            print(f"{done} attacks in {now - start:.0f} s", file=sys.stderr)
        report = run(attack, rooms[attack.kind])
        counts[report.kind.partition(": ")[0], report.outcome] += 1
        if report.outcome is Outcome.WRONG:
            print(f"WRONG {report.kind} ({attack}): {report.detail}", flush=True)
    return counts


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kind", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}")
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="attacks of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the index of the first attack")
    options = parser.parse_args(arguments)
    if unknown := set(options.kind) - set(KINDS):
        parser.error(f"no kind {unknown.pop()!r}; the kinds are {', '.join(KINDS)}")
    if options.seconds is None and options.count == sys.maxsize:
        parser.error("say when to stop: --seconds or --count")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
