"""What a run has written to its journal, as a record and the files beside it."""

from __future__ import annotations

from datetime import datetime

from experiments.harness import counting
from experiments.harness.journal import RunLog
from report.errors import MeasurementError
from report.records.filed import encode, parse
from report.records.record import SCHEMA_VERSION, Attachment, Case, Ceiling, Environment, Record
from report.records.store import digest


def utc(moment: datetime) -> str:
    """A moment as records name it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def ceiling_reasons(before: str | None, after: str | None) -> dict[str, str]:
    """Why ceilings of a moment are missing, all or some."""
    reasons = {"ceilings.before": before, "ceilings.after": after}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def record_of(
    run_log: RunLog,
    *,
    cases: tuple[Case, ...],
    ceilings: tuple[Ceiling, ...],
    environment: Environment,
    attachments: tuple[Attachment, ...],
    finished: str,
) -> Record:
    """The record of a run, as it will be read: never write what cannot be.

    Raises ``MeasurementError`` for a run that ends before it began.
    """
    header = run_log.header
    if finished < header.started:
        raise MeasurementError(
            f"The run began at {header.started} and ends at {finished}, since the clock was set "
            "back; set it right."
        )
    record = Record(
        schema=SCHEMA_VERSION,
        study=header.study,
        started=header.started,
        finished=finished,
        command=header.command,
        code=header.code,
        protocol=header.protocol,
        environment=environment,
        ceilings=ceilings,
        shard=header.shard,
        cases=cases,
        attachments=(*_attached(run_log), *attachments),
    )
    return parse(encode(record), "the new record")


def files_of(run_log: RunLog, counted: counting.Outcome) -> dict[str, bytes]:
    """What lies beside the record, by name."""
    return {name: file.content for name, file in run_log.files.items()} | counted.files


def _attached(run_log: RunLog) -> tuple[Attachment, ...]:
    """What the cases left beside the record, in the order of their names."""
    return tuple(
        Attachment(name=name, sha256=digest(file.content), meaning=file.meaning)
        for name, file in sorted(run_log.files.items())
    )
