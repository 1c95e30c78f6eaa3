"""The journal that a run writes: a new one, or that of an unfinished run that goes on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness import environment
from experiments.harness.identity import machine_number
from experiments.harness.journal import (
    Header,
    Journal,
    RunLog,
    journal_path,
    journals,
    read_header,
    read_run_log,
)
from experiments.harness.progress import Observer
from experiments.harness.recording import utc
from report.errors import MeasurementError
from report.records.pooling import unlike
from report.records.record import Record, Shard
from report.records.store import list_records, read_record


def opened(
    records: Path, header: Header, observer: Observer, *, resume: bool
) -> tuple[RunLog, Journal]:
    """A new journal below ``records``, or to ``resume`` the newest one that can go on.

    Raises ``MeasurementError`` where none can.
    """
    folder = records / header.study
    unfinished = _of_shard(journals(folder, header.environment.key), header.shard)
    if resume:
        return _reopened(unfinished, header)
    if unfinished:
        observer.note(
            f"An earlier run was not finished and is kept in {unfinished[-1].name}; --resume "
            "continues it."
        )
    # Not before, since a run that cannot begin leaves nothing in the folder of records.
    facts = environment.numbered(header.environment, machine_number(records))
    header = msgspec.structs.replace(header, environment=facts)
    journal, header = _unused(folder, header)
    journal.append(header)
    return RunLog(header, valid_bytes=0), journal


def can_resume(records: Path, header: Header) -> bool:
    """Whether ``opened`` finds an unfinished run that is the same."""
    for path in journals(records / header.study, header.environment.key):
        with suppress(MeasurementError):  # of another version
            if not differences(read_header(path), header):
                return True
    return False


def measured_before(records: Path, header: Header) -> tuple[Record, Path] | None:
    """The newest record of the shard that a run would measure; None where there is none."""
    for item in reversed(list_records(header.study, records)):
        head = item.record
        if head.shard == header.shard is not None and unlike(head, header) is None:
            path = records / item.file
            return read_record(path, records).record, path
    return None


def _of_shard(unfinished: Iterable[Path], shard: Shard | None) -> tuple[Path, ...]:
    """The journals of this shard, and those that cannot be read; all for a whole run."""

    def is_other(path: Path) -> bool:
        with suppress(MeasurementError):
            return read_header(path).shard != shard
        return False

    return tuple(path for path in unfinished if shard is None or not is_other(path))


def _unused(folder: Path, header: Header) -> tuple[Journal, Header]:
    """A journal of a name that no run of the same second has, and the header with its time."""
    while True:
        with suppress(FileExistsError):
            path = journal_path(folder, header.started, header.environment.key)
            return Journal(path, new=True), header
        time.sleep(0.1)
        header = msgspec.structs.replace(header, started=utc(datetime.now(UTC)))


def _reopened(unfinished: tuple[Path, ...], header: Header) -> tuple[RunLog, Journal]:
    if not unfinished:
        raise MeasurementError(
            f"--resume: {header.study} has no unfinished run on {header.environment.key}; run "
            "without --resume."
        )
    for path in reversed(unfinished):
        with suppress(MeasurementError):  # of another version, or another process is at it
            run_log = read_run_log(path)
            if not differences(run_log.header, header):
                return run_log, Journal(path, run_log.valid_bytes)
    path = unfinished[-1]
    run_log = read_run_log(path)
    if differing := "; ".join(differences(run_log.header, header)):
        raise MeasurementError(
            f"--resume: {path.name} cannot be continued, since this differs: {differing}; give the "
            "same options, or run without --resume."
        )
    return run_log, Journal(path, run_log.valid_bytes)


#: What of the environment must be the same in all parts of a run; loads are not.
_SAME: Final = (
    *("name", "host", "cpu", "gpu", "threads", "memory_bytes"),
    *("operating_system", "python", "torch", "variables", "precision"),
)


def differences(then: Header, now: Header) -> tuple[str, ...]:
    """What keeps two runs from being one: each in words, with both values where they are short."""
    found = []
    if then.protocol.plan != now.protocol.plan:
        found.append(f"the plan ({then.protocol.plan}, now {now.protocol.plan})")
    elif then.protocol != now.protocol:
        found.append("the time budget or the number of samples")
    if then.shard != now.shard:
        found.append("the shard")
    if then.cases != now.cases:
        found.append(f"the cases ({len(then.cases)}, now {len(now.cases)}, or other factors)")
    if then.code.measuring_code != now.code.measuring_code:
        found.append("the measuring code")
    environment, present = then.environment, now.environment
    for name in _SAME:
        changed = _changed(getattr(environment, name), getattr(present, name), name)
        found += [f"the environment ({each})" for each in changed]
    if then.counters != now.counters:
        found.append(f"what is counted ({then.counters}, now {now.counters})")
    return tuple(found)


def _changed(then: object, now: object, name: str) -> Iterator[str]:
    """What differs, by name down to the single value, with both."""
    if then == now:
        return
    if isinstance(then, msgspec.Struct) and isinstance(now, msgspec.Struct):
        then, now = msgspec.structs.asdict(then), msgspec.structs.asdict(now)
    if isinstance(then, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*then, *now)):
            yield from _changed(then.get(key), now.get(key), f"{name} {key}")
    else:
        first, second = (_short(value) for value in (then, now))
        yield f"{name} {first}, now {second}"


def _short(value: object) -> str:
    """A value in words; of many only their number."""
    if value is None:
        return "unset"
    return f"{len(value)} of them" if isinstance(value, tuple) else str(value)
