"""Journal of a run: a file to which every result is written before the next case begins.

``data/<study>/.<start>-<device>-<random>.journal.jsonl`` contains one JSON object per line: the
head of the record (all but its measurements), ceilings (peak rates), the memory and files of each
case, the times of each case in each process, and counts of executed work.
If a run is killed, or power fails, at most the case being measured is lost.  The file is hidden,
ignored by git, and removed once the record is written.
"""

import fcntl
import os
import secrets
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeVar

import msgspec

from experiments.harness.study import CaseFile, CounterChoice
from report.core.errors import MeasurementError
from report.core.records.record import Case, Ceiling, Factors, Head, Round, SeriesByQuantity
from report.core.records.strict import may_repeat_a_field

_SUFFIX: Final = ".journal.jsonl"


class _Line(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"
):
    """One line of a journal."""


class Header(
    Head, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="run"
):
    """First line: the head of the record as known when the run begins, and options of the run."""

    counters: CounterChoice = "none"
    pairs: int = 0  # smallest number of processes per compared policy; 0: the plan's number

    @property
    def factors(self) -> tuple[Factors, ...]:
        """Factors of each case."""
        return tuple(case.factors for case in self.cases)


class Ceilings(_Line, frozen=True, kw_only=True, tag="ceilings"):
    """Ceilings measured at one moment of the run, with a reason if some or all are missing."""

    ceilings: tuple[Ceiling, ...] = ()
    reason: str | None = None


class CaseResult(_Line, frozen=True, kw_only=True, tag="finish"):
    """Memory, layers and files of a case, which has the number ``case`` in its run.

    ``outcome`` has neither times nor counts.  ``file_error`` is why the case has no files, if so.
    """

    case: int
    outcome: Case
    files: tuple[CaseFile, ...] = ()
    file_error: str | None = msgspec.field(default=None, name="unfiled")  # the name in journals


class RoundResult(_Line, frozen=True, kw_only=True, tag="round"):
    """Times of a case in one process; the measurement lasted ``seconds``."""

    case: int
    round: Round
    seconds: float


class Count(_Line, frozen=True, kw_only=True, tag="count"):
    """Executed work of a case, with a reason for each quantity that was not counted.

    ``logs`` maps names to parts of the counting program's output, which papers read.
    """

    case: int
    series: SeriesByQuantity = {}
    missing: dict[str, str] = {}
    logs: dict[str, str] = {}


class Ready(_Line, frozen=True, tag="ready"):
    """Message of a worker that has imported all modules and begins to measure."""


#: A worker's final message about a case, even if the case could not be measured.
Result: TypeAlias = CaseResult | RoundResult | Count
#: Any line of a journal after the header.
Entry: TypeAlias = Ceilings | Result
#: Any message of a worker.
Message: TypeAlias = Entry | Ready

_header_decoder = msgspec.json.Decoder(Header)
_entry_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)
_Decoded = TypeVar("_Decoded")
#: Exceptions raised when a damaged line is decoded.
_DAMAGE: Final = (msgspec.DecodeError, ValueError, RecursionError)


class Journal:
    """Results of a run so far; inside ``with``, only this process appends entries to the file."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.header = path, header
        self.ceilings: Ceilings | None = None
        self.ceiling_rechecks = 0  # number of measurements of ceilings after the first
        self.finished_cases: dict[int, Case] = {}  # by number of the case
        self.files: dict[str, CaseFile] = {}  # by name
        self.file_errors: dict[str, str] = {}  # field of the record → why no file was written
        self.rounds: list[RoundResult] = []
        self.counts: dict[int, Count] = {}  # by number of the case
        self.damaged_lines = 0

    def __enter__(self) -> Self:
        """Open (or create) and lock the file; raise ``MeasurementError`` if another run uses it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        self._stream = self.path.open("xb" if is_new else "ab", buffering=0)
        if not _try_lock(self._stream.fileno()):
            self._stream.close()
            raise MeasurementError(f"{self.path.name}: another run is writing this journal now.")
        if is_new:
            self._write(self.header)
        else:
            self._stream.write(b"\n")  # ends a line that an interruption cut off
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file, which also releases the lock."""
        self._stream.close()

    def append(self, entry: Entry) -> None:
        """Add an entry to the results, and return when the entry is on disk."""
        # This object comes first, so that after an interruption the file has no result that it
        # lacks.
        self.apply(entry)
        self._write(entry)

    def apply(self, entry: Entry) -> None:
        """Add an entry to the results without writing it."""
        match entry:
            case Ceilings():
                if self.ceilings is None:
                    self.ceilings = entry
                else:
                    self.ceiling_rechecks += 1
                    ceilings = (*self.ceilings.ceilings, *entry.ceilings)
                    self.ceilings = msgspec.structs.replace(self.ceilings, ceilings=ceilings)
            case CaseResult(case=case):
                self.finished_cases[case] = entry.outcome
                for file in entry.files:
                    self.files[file.name] = file
                if entry.file_error:
                    self.file_errors[f"cases[{case}].files"] = entry.file_error
            case RoundResult():
                self.rounds.append(entry)
            case Count(case=case):
                self.counts[case] = entry

    def _write(self, line: Header | Entry) -> None:
        text = msgspec.json.encode(line) + b"\n"
        if self._stream.write(text) != len(text):
            raise MeasurementError(f"{self.path.name}: the disk is full, so the run ends here.")
        os.fsync(self._stream.fileno())

    def remove(self) -> None:
        """Delete the journal's file, once the record is written or if there are no results."""
        self.path.unlink(missing_ok=True)


def new_journal(folder: Path, header: Header) -> Journal:
    """Create the journal of a new run; a random part of the name separates simultaneous runs."""
    moment = header.started.replace("-", "").replace(":", "")
    name = f".{moment}-{header.environment.key}-{secrets.token_hex(3)}{_SUFFIX}"
    return Journal(folder / name, header)


def read_journal(path: Path) -> Journal:
    """Read a journal; count and ignore damaged lines, so that their cases are run again.

    Raises ``MeasurementError`` if the first line is not the header of a run.
    """
    first, *lines = path.read_bytes().split(b"\n")
    try:
        header = _decode(first, _header_decoder)
    except _DAMAGE as error:
        raise MeasurementError(
            f"{path.name}: the first line is not the header of a run ({error}); delete the file "
            "and run without --resume."
        ) from error
    journal = Journal(path, header)
    for line in lines:
        try:
            journal.apply(_decode(line, _entry_decoder))
        except _DAMAGE:  # an interruption may cut off the last line
            if line and line != lines[-1]:
                journal.damaged_lines += 1
    return journal


def _decode(line: bytes, decoder: msgspec.json.Decoder[_Decoded]) -> _Decoded:
    """Decode a line; raise an exception of ``_DAMAGE`` if it is damaged or repeats a field."""
    decoded = decoder.decode(line)
    if may_repeat_a_field(line):
        raise msgspec.DecodeError("an object repeats a field")
    return decoded


def unfinished_journals(folder: Path) -> tuple[list[Journal], list[MeasurementError]]:
    """Read the journals in a folder, oldest first; also return an error per unreadable file."""
    journals, errors = [], []
    for path in sorted(folder.glob(f".*{_SUFFIX}")):
        try:
            journals.append(read_journal(path))
        except FileNotFoundError:
            continue  # its run has just finished
        except MeasurementError as error:
            errors.append(error)
        except OSError as error:
            reason = f"{path.name} cannot be read ({error.strerror})"
            remedy = "give read permission, or delete the file"
            errors.append(MeasurementError(f"{reason}; {remedy}."))
    return journals, errors


def is_in_use(path: Path) -> bool:
    """Return whether a process is writing the journal, or has just removed it."""
    try:
        with path.open("rb") as stream:
            return not _try_lock(stream.fileno())
    except FileNotFoundError:
        return True


def _try_lock(descriptor: int) -> bool:
    """Lock a file and return True, or return False if another process has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
