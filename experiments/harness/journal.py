"""What a run has done so far, on disk before the next case begins.

``data/<study>/.<start>-<device>.journal.jsonl`` holds one JSON object a line: the run, the
ceilings before it, every outcome of a case, every file that it leaves, what each process measured
of it, and what was counted of it afterwards; each line is on disk before the run goes on.  The
processes that measure write the same lines, so that a sample is encoded twice: here and in the
record.  So a run that is interrupted, killed or cut off from power loses at most the case that
ran.  The file is hidden, ignored by git, and removed once the record is written.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

import msgspec

from experiments.harness.study import CounterChoice, Factors
from report.errors import MeasurementError
from report.records.record import (
    Case,
    Ceiling,
    Code,
    Environment,
    Protocol,
    Round,
    Series,
    Shard,
    Status,
)

JOURNAL_VERSION: Final = 4

_SUFFIX: Final = ".journal.jsonl"


class _Line(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"
):
    """One line of a journal."""


class Header(_Line, frozen=True, kw_only=True, tag="run"):
    """The first line: all of the record that is known when the run begins."""

    journal: Literal[4] = JOURNAL_VERSION
    study: str
    started: str
    command: tuple[str, ...]
    code: Code
    protocol: Protocol
    environment: Environment
    cases: tuple[Factors, ...]
    counters: CounterChoice = "none"
    shard: Shard | None = None


class Ceilings(_Line, frozen=True, kw_only=True, tag="ceilings"):
    """The ceilings of one moment, with a reason if some or all are missing."""

    ceilings: tuple[Ceiling, ...] = ()
    reason: str | None = None


class Keep(_Line, frozen=True, kw_only=True, tag="keep"):
    """A file that a case leaves beside the record; its outcome follows."""

    case: int
    name: str
    meaning: str
    content: bytes


class Finish(_Line, frozen=True, kw_only=True, tag="finish"):
    """A case has an outcome."""

    case: int
    outcome: Case


class Ended(_Line, frozen=True, kw_only=True, tag="round"):
    """One process has measured a case, which took ``seconds`` in all."""

    case: int
    round: Round
    seconds: float


class Count(_Line, frozen=True, kw_only=True, tag="count"):
    """What was counted of a case, and for each quantity that was not, the reason.

    ``logs`` are what the counting program printed, as far as papers read it.
    """

    case: int
    series: tuple[Series, ...] = ()
    missing: dict[str, str] = {}
    logs: dict[str, str] = {}


Line: TypeAlias = Header | Ceilings | Keep | Finish | Ended | Count


class Ready(_Line, frozen=True, tag="ready"):
    """A process has imported what it needs, and begins."""


class Done(_Line, frozen=True, kw_only=True, tag="done"):
    """All that a process does for a case is done, or it failed for this ``reason``."""

    case: int
    status: Status
    reason: str | None


#: What a process that measures says.
Message: TypeAlias = Ceilings | Keep | Finish | Ended | Count | Ready | Done

_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


@dataclass
class RunLog:
    """What the lines of a journal say together.

    ``valid_bytes`` is the length of the file up to the last whole line.
    """

    header: Header
    valid_bytes: int
    ceilings: Ceilings | None = None
    finished: dict[int, Case] = field(default_factory=dict)
    files: dict[str, Keep] = field(default_factory=dict)
    rounds: list[Ended] = field(default_factory=list)
    counts: dict[int, Count] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Take in what a line says."""
        match line:
            case Ceilings():
                self.ceilings = line
            case Keep(name=name):
                self.files[name] = line
            case Finish(case=case, outcome=outcome):
                self.finished[case] = outcome
            case Ended():
                self.rounds.append(line)
            case Count(case=case):
                self.counts[case] = line
            case Header():
                raise MeasurementError(
                    "A journal holds two runs; delete it and run without --resume."
                )


def journal_path(folder: Path, started: str, key: str) -> Path:
    """Where a run that began at ``started`` (UTC) on the device ``key`` keeps its journal."""
    moment = started.replace("-", "").replace(":", "")
    return folder / f".{moment}-{key}{_SUFFIX}"


def journals(folder: Path, key: str = "*") -> tuple[Path, ...]:
    """The journals of unfinished runs on the device ``key``, or on any, oldest first."""
    return tuple(sorted(folder.glob(f".*Z-{key}{_SUFFIX}")))


def read_run_log(path: Path) -> RunLog:
    """Read a journal.

    An end that is cut off or damaged is left out: the process, or the machine, ended while writing
    it.  Raises ``MeasurementError`` for any other damage.
    """
    run_log: RunLog | None = None
    damage = ""
    for number, text in enumerate(re.findall(rb"[^\n]*\n", path.read_bytes()), 1):
        try:
            line = _decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            damage = damage or f"line {number} is damaged ({error})"
            continue
        if damage and run_log is not None:
            raise MeasurementError(
                f"{path.name}: {damage}; delete that line and run with --resume, which goes on "
                "with what the others hold."
            )
        if run_log is not None:
            run_log.add(line)
            run_log.valid_bytes += len(text)
        elif number == 1 and isinstance(line, Header):
            run_log = RunLog(line, len(text))
    if run_log is None:
        raise MeasurementError(
            f"{path.name}: the journal does not begin with its run ({damage or 'it is empty'}); "
            "delete the file and run without --resume."
        )
    return run_log


class Journal:
    """A journal open for writing, by one process at a time; a context manager."""

    def __init__(self, path: Path, valid_bytes: int = 0, *, new: bool = False) -> None:
        """Open ``path`` and cut off what follows ``valid_bytes``.

        Raises ``MeasurementError`` if another process has it open, and ``FileExistsError`` if it
        is to be ``new`` and is there.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._stream = path.open("xb" if new else "ab", buffering=0)
        if not _locked(self._stream.fileno()):
            self._stream.close()
            raise MeasurementError(f"{path.name}: another run is writing this journal now.")
        self._stream.truncate(valid_bytes)

    def append(self, line: Line) -> None:
        """Write one line, and return when it is on the disk."""
        text = msgspec.json.encode(line) + b"\n"
        if self._stream.write(text) != len(text):
            raise MeasurementError(f"{self.path.name}: the disk is full, so the run ends here.")
        os.fsync(self._stream.fileno())

    def remove(self) -> None:
        """Delete the file: its run has become a record, or has nothing to keep."""
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file, which also gives up the lock."""
        self._stream.close()


def is_written(path: Path) -> bool:
    """Whether a process has the journal open for writing now, as far as the system can tell."""
    with path.open("rb") as stream:
        return not _locked(stream.fileno())


def _locked(descriptor: int) -> bool:
    """Take the lock; True too where the system has none (it is a guard, not a need)."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
