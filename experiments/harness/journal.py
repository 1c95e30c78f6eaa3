"""What a run has done so far, on disk before the next case begins.

``data/<study>/.<start>-<device>-<random>.journal.jsonl`` holds one JSON object a line: the head of
the record, the ceilings before it, every outcome of a case with its files, what each process
measured of it, and what was counted of it afterwards; each line is on disk before the run goes on.
The processes that measure write the same lines, so that a sample is encoded twice: here and in the
record.  So a run that is interrupted, killed or cut off from power loses at most the case that
ran.  The file is hidden, ignored by git, and removed once the record is written.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeVar

import msgspec

from experiments.harness.study import CaseFile, CounterChoice, Factors
from report.errors import MeasurementError
from report.records.record import Case, Ceiling, Head, Measured, Round
from report.records.strict import may_repeat_a_field

_SUFFIX: Final = ".journal.jsonl"


class _Line(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"
):
    """One line of a journal."""


class Header(
    Head, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="run"
):
    """The first line: the head of the record, as far as it is known when the run begins."""

    counters: CounterChoice = "none"

    @property
    def factors(self) -> tuple[Factors, ...]:
        """Those of each case."""
        return tuple(case.factors for case in self.cases)


class Ceilings(_Line, frozen=True, kw_only=True, tag="ceilings"):
    """The ceilings of one moment, with a reason if some or all are missing."""

    ceilings: tuple[Ceiling, ...] = ()
    reason: str | None = None


class Finish(_Line, frozen=True, kw_only=True, tag="finish"):
    """A case has an outcome, and leaves these files beside the record.

    ``unfiled`` is why it leaves none, where it should.
    """

    case: int
    outcome: Case
    files: tuple[CaseFile, ...] = ()
    unfiled: str | None = None


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
    series: Measured = {}
    missing: dict[str, str] = {}
    logs: dict[str, str] = {}


class Ready(_Line, frozen=True, tag="ready"):
    """A process has imported what it needs, and begins."""


#: What is written while a run measures, and what a process that measures says.
Step: TypeAlias = Ceilings | Finish | Ended | Count
Message: TypeAlias = Step | Ready
#: What ends a case, whether it could be measured or not.
Last: TypeAlias = Finish | Ended | Count

_header = msgspec.json.Decoder(Header)
_step: msgspec.json.Decoder[Step] = msgspec.json.Decoder(Step)
_Decoded = TypeVar("_Decoded")
#: What decoding a damaged line raises.
_DAMAGE: Final = (msgspec.DecodeError, ValueError, RecursionError)


class Journal:
    """What a run has done so far; inside ``with``, one process adds to it, and to the disk."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.header = path, header
        self.ceilings: Ceilings | None = None
        self.finished: dict[int, Case] = {}
        self.files: dict[str, CaseFile] = {}
        self.unfiled: dict[str, str] = {}
        self.rounds: list[Ended] = []
        self.counts: dict[int, Count] = {}
        self.damaged = 0

    def __enter__(self) -> Self:
        """Open the file, or begin it, for this process alone.

        Raises ``MeasurementError`` if another process has it open.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        self._stream = self.path.open("xb" if new else "ab", buffering=0)
        if not _locked(self._stream.fileno()):
            self._stream.close()
            raise MeasurementError(f"{self.path.name}: another run is writing this journal now.")
        if new:
            self._write(self.header)
        else:
            self._stream.write(b"\n")  # what was cut off is a line of its own
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file, which also gives up the lock."""
        self._stream.close()

    def append(self, step: Step) -> None:
        """Take in what a run has done, and return when it is on the disk."""
        # In this order, so that no interruption leaves more on the disk than is known here.
        self.take(step)
        self._write(step)

    def take(self, step: Step) -> None:
        """Take in what is on the disk already."""
        match step:
            case Ceilings():
                self.ceilings = step
            case Finish(case=case, outcome=outcome, files=files, unfiled=reason):
                self.finished[case] = outcome
                self.files |= {file.name: file for file in files}
                self.unfiled |= {f"cases[{case}].files": reason} if reason else {}
            case Ended():
                self.rounds.append(step)
            case Count(case=case):
                self.counts[case] = step

    def _write(self, line: Header | Step) -> None:
        text = msgspec.json.encode(line) + b"\n"
        if self._stream.write(text) != len(text):
            raise MeasurementError(f"{self.path.name}: the disk is full, so the run ends here.")
        os.fsync(self._stream.fileno())

    def remove(self) -> None:
        """Delete the file: its run has become a record, or has nothing to keep."""
        self.path.unlink(missing_ok=True)


def begun(folder: Path, header: Header) -> Journal:
    """The journal of a new run, of a name that no other has: runs may begin at the same time."""
    moment = header.started.replace("-", "").replace(":", "")
    name = f".{moment}-{header.environment.key}-{secrets.token_hex(3)}{_SUFFIX}"
    return Journal(folder / name, header)


def read_journal(path: Path) -> Journal:
    """Read a journal; a damaged line is counted and left out: what it held is measured again.

    The process, or the machine, ended while it wrote the line, or the disk is at fault.  Raises
    ``MeasurementError`` for a first line that is none of a run.
    """
    first, *lines = path.read_bytes().split(b"\n")
    try:
        header = _decoded(first, _header)
    except _DAMAGE as error:
        raise MeasurementError(
            f"{path.name}: the journal does not begin with its run ({error}); delete the file and "
            "run without --resume."
        ) from error
    journal = Journal(path, header)
    for line in lines:
        try:
            journal.take(_decoded(line, _step))
        except _DAMAGE:
            journal.damaged += line not in (b"", lines[-1])  # the last may just be cut off
    return journal


def _decoded(line: bytes, decoder: msgspec.json.Decoder[_Decoded]) -> _Decoded:
    """Decode a line; raises one of ``_DAMAGE``, also for a field that stands twice."""
    decoded = decoder.decode(line)
    if may_repeat_a_field(line):
        raise msgspec.DecodeError("a field stands twice in one object")
    return decoded


def unfinished(folder: Path) -> tuple[list[Journal], list[MeasurementError]]:
    """The journals of unfinished runs, oldest first, and what is wrong with others."""
    found, faults = [], []
    for path in sorted(folder.glob(f".*{_SUFFIX}")):
        try:
            found.append(read_journal(path))
        except FileNotFoundError:
            continue  # done meanwhile
        except MeasurementError as error:
            faults.append(error)
        except OSError as error:
            what = f"cannot be read ({error.strerror}); give read permission, or delete the file"
            faults.append(MeasurementError(f"{path.name}: {what}."))
    return found, faults


def is_written(path: Path) -> bool:
    """Whether a process has the journal open for writing now, or has just finished with it."""
    try:
        with path.open("rb") as stream:
            return not _locked(stream.fileno())
    except FileNotFoundError:
        return True


def _locked(descriptor: int) -> bool:
    """Take the lock; False where another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
