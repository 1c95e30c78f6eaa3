"""The record of a run that nobody can continue, since its machine is gone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from experiments import registry
from experiments.harness import counting, environment, rounds
from experiments.harness.journal import (
    Ceilings,
    Journal,
    RunLog,
    is_written,
    journals,
    read_run_log,
)
from experiments.harness.recording import ceiling_reasons, files_of, record_of, utc
from experiments.harness.study import Study
from experiments.harness.sweep import elsewhere, unmeasured
from experiments.harness.sweep_status import is_same_sweep, read_shard
from report.errors import MeasurementError
from report.records.record import Case, Record
from report.records.store import write_record

#: Why a run that was ended early lacks something.
_ENDED: Final = "the run was ended before this was measured"


def close(name: str, records: Path) -> tuple[tuple[Record, Path], ...]:
    """Write the record of the newest unfinished run of a study as far as it went.

    Of a run in shards each is closed that no process is at and that has measured something.

    For a run whose machine is gone, so that it cannot be resumed.  A case that was not measured is
    unavailable with that reason, and so is what a run measures at its end.  The record's time of
    finishing is that of the last outcome.  Raises ``MeasurementError`` if there is no such run, or
    if a process is still at it.
    """
    study = registry.load(name)
    found = journals(records / name)
    if not found:
        raise MeasurementError(f"{name} has no unfinished run in {records} to close.")
    return tuple(_closed(study, path, records) for path in _parts(found))


def _parts(found: Sequence[Path]) -> Sequence[Path]:
    """The newest run, or the shards of it that can be closed, oldest first."""
    newest = read_shard(found[-1])
    if newest is None:
        return found[-1:]
    logs = [log for path in found if (log := read_shard(path)) is not None]
    same = [(path, log) for path, log in logs if is_same_sweep(newest[1].header, log.header)]
    ready = [path for path, log in same if log.finished and not is_written(path)]
    return ready or found[-1:]


def _closed(study: Study, path: Path, records: Path) -> tuple[Record, Path]:
    finished = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    run_log = read_run_log(path)
    if not run_log.finished:
        raise MeasurementError(
            f"{path.name} holds no measured case, so that there is nothing to write; delete it."
        )
    with Journal(path, run_log.valid_bytes) as journal:
        study = study.on(run_log.header.environment.device)
        counted = counting.kept(study, run_log, _ENDED)
        before = run_log.ceilings or Ceilings(reason=_ENDED)
        record = record_of(
            run_log,
            cases=counted.added(rounds.added(_so_far(study, run_log), run_log.rounds)),
            ceilings=before.ceilings,
            environment=environment.closed(
                run_log.header.environment,
                {**ceiling_reasons(before.reason, _ENDED), **counted.missing},
                _ENDED,
            ),
            attachments=counted.attachments,
            finished=utc(finished),
        )
        written = write_record(record, records, files_of(run_log, counted))
        journal.remove()
    return record, written


def _so_far(study: Study, run_log: RunLog) -> tuple[Case, ...]:
    """Every case of the plan: its outcome, or that it has none."""
    found = {**run_log.finished, **elsewhere(study, run_log.header)}
    return tuple(
        found.get(index)
        or unmeasured(study, factors, "unavailable", f"{_ENDED[:1].upper()}{_ENDED[1:]}.")
        for index, factors in enumerate(run_log.header.cases)
    )
