"""Run a study, from the request to the record on disk; also write records of unfinished runs.

A journal is a file with all results so far, from which a run can be continued.  A shard is one of
several parts of a run, which may run on different machines.
"""

import shlex
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from experiments import registry
from experiments.counters import counting
from experiments.harness import journal as journal_files
from experiments.harness import rounds
from experiments.harness.journal import Ceilings, Header, Journal
from experiments.harness.measure import unmeasured_case
from experiments.harness.processes import measure_ceilings, new_task, run_cases
from experiments.harness.progress import Observer, outcome_text
from experiments.harness.request import Request, available_policies
from experiments.harness.study import CaseFile, Experiment, Session
from experiments.machine import code, environment, processor, quiet, runtime
from experiments.machine.text import flatten
from report.core.errors import MeasurementError, RidgepointError
from report.core.records.file_format import EVENTS, EVENTS_MEANING, encode, parse, split_events
from report.core.records.pooling import (
    measures_case,
    merge_ceilings,
    outcome_of_rounds,
    why_not_pooled,
)
from report.core.records.record import (
    ENDED,
    SCHEMA_VERSION,
    Attachment,
    Case,
    Factors,
    Head,
    Outcome,
    Protocol,
    Record,
)
from report.core.records.store import digest, read_usable_records, write_record


def run(request: Request, observer: Observer) -> tuple[Record, Path]:
    """Measure, write the record, and return the record with its path.

    If ``request.if_missing`` and the shard has a record, measures nothing and returns this record.
    If the run is interrupted, ``observer`` prints the command that continues it.  Raises
    ``UsageError`` for wrong options, and ``MeasurementError`` if the run is impossible.
    """
    study, protocol, cases = request.select()
    threads = runtime.checked_threads(request.threads)
    header = _new_header(request, protocol, cases, threads)
    if request.if_missing and (existing := _existing_record(request.records, header)):
        observer.note("Already measured; skipping.")
        return existing
    images = None if request.images is None else str(request.images.resolve())
    session = Session(request.device, header.protocol, images, threads)
    if request.images is not None:
        from experiments import datasets

        datasets.load_handwritten(request.images)  # raises before the run if images are damaged
    throttle_count = processor.throttle_count()
    with _open_journal(request, header, observer) as journal:
        try:
            if request.wait_quiet is not None:
                quiet.wait_quiet(request.wait_quiet, observer.note, threads)
            if journal.ceilings is None:
                journal.append(measure_ceilings(study, session, "before", observer.note))
            _measure_cases(study, session, journal, observer)
            rounds.measure(study, session, journal, observer)
            after = measure_ceilings(study, session, "after", observer.note)
            journal.header = processor.with_throttling(journal.header, throttle_count)
            no_counts = counting.count(study, session, journal, observer)
            return _write_record(study, journal, after, no_counts, datetime.now(UTC))
        except (KeyboardInterrupt, RidgepointError):
            observer.note(_describe_unfinished(request, journal))
            raise


def _new_header(
    request: Request, planned: Protocol, cases: tuple[Factors, ...], threads: int
) -> Header:
    """Import torch, check the device, and describe the run before its first measurement."""
    torch = runtime.start_torch(request.device, threads)
    facts = environment.gather(torch, request.device, threads, name=request.label)
    identity, missing = code.identify(request.study)
    protocol, unavailable = available_policies(planned, request.device)
    missing = {**facts.missing, **missing, **unavailable}
    now = _utc(datetime.now(UTC))
    return Header(
        schema=SCHEMA_VERSION,
        study=request.study,
        started=now,
        finished=now,
        command=request.command(threads),
        code=identity,
        protocol=protocol,
        environment=msgspec.structs.replace(facts, missing=missing),
        shard=request.select_shard(),
        attachments=(),
        cases=tuple(Outcome(factors=factors) for factors in cases),
        counters=request.counter_choice,
        pairs=request.pairs or 0,
    )


def _existing_record(records: Path, header: Header) -> tuple[Record, Path] | None:
    """Find the newest record of the shard that a run would measure; None if there is none."""
    if header.shard is None:
        return None
    for stored in reversed(read_usable_records(header.study, records)[0]):
        record = stored.record
        if record.shard == header.shard and why_not_pooled(record, header) is None:
            return record, records / stored.file
    return None


def _open_journal(request: Request, header: Header, observer: Observer) -> Journal:
    """Create a journal; with ``resume`` or ``if_missing``, return the same run's newest journal.

    Without such a journal, ``if_missing`` creates one, and ``resume`` raises ``MeasurementError``.
    """
    folder, key = request.records / header.study, header.environment.key
    journals, errors = journal_files.unfinished_journals(folder)
    same_run, other_run = None, None  # newest journals of runs on this device
    for journal in journals:
        if journal.header.environment.key == key and differences(journal.header, header):
            other_run = journal
        elif journal.header.environment.key == key:
            same_run = journal
    if same_run is not None and (request.resume or request.if_missing):
        _note_damage(same_run, observer)
        return same_run
    if not request.resume:
        if same_run is not None:
            name = same_run.path.name
            observer.note(f"{name} contains an unfinished run; to continue it, give --resume.")
        return journal_files.new_journal(folder, header)
    if other_run is not None:
        changes = "; ".join(differences(other_run.header, header)[:4])  # four suffice for a message
        fault = f"Cannot resume {other_run.path.name}: {changes}."
        raise MeasurementError(f"{fault} Use the same options, or drop --resume.")
    reason = f"--resume: {header.study} has no unfinished run on {key}; run without --resume."
    raise next(iter(errors), MeasurementError(reason))


def _note_damage(journal: Journal, observer: Observer) -> None:
    """Print the number of a journal's damaged lines, if there are any."""
    if journal.damaged_lines:
        name = journal.path.name
        observer.note(f"{name}: {journal.damaged_lines} damaged lines; their cases are run again.")


def differences(earlier: Header, new: Header) -> tuple[str, ...]:
    """Describe the values in which two runs differ; empty for two parts of the same run."""
    earlier_values, new_values = _identity(earlier), _identity(new)
    texts = []
    for name in {**earlier_values, **new_values}:
        old_value, new_value = earlier_values.get(name, "unset"), new_values.get(name, "unset")
        if old_value != new_value:
            texts.append(f"{name} was {old_value} and is now {new_value}")
    return tuple(texts)


def _identity(header: Header) -> dict[str, object]:
    """Return by name the values that must stay the same if a run is continued."""
    parts: dict[str, object] = {
        "protocol": header.protocol,
        "shard": header.shard,
        "counters": header.counters,
        "cases": header.factors,
        "measuring code": header.code.measuring_code[:8],
        **msgspec.to_builtins(msgspec.structs.replace(header.environment, key="", missing={})),
    }
    return {name: value for name, value in flatten(parts) if value not in (None, "")}


def _describe_unfinished(request: Request, journal: Journal) -> str:
    """Say how many cases are saved and how to continue; delete a journal without results."""
    saved, shard = len(journal.finished_cases), journal.header.shard
    if not saved and not journal.rounds:
        journal.remove()
        return "No case finished, so nothing was saved."
    planned = sum(measures_case(shard, index) for index in range(len(journal.header.cases)))
    words = (request.typed_words.get(word, word) for word in journal.header.command)
    command = shlex.join((*words, *request.folder_options, "--resume"))
    record = f" (close {request.study} writes a record of them)" if saved else ""
    return f"{saved} of {planned} cases are saved{record}; continue with: {command}"


def _measure_cases(
    study: Experiment, session: Session, journal: Journal, observer: Observer
) -> None:
    """Measure memory, layers and files of the cases that the journal lacks."""
    cases, shard = journal.header.factors, journal.header.shard
    waiting = {}
    for index, factors in enumerate(cases):
        if index not in journal.finished_cases and measures_case(shard, index):
            waiting[index] = factors
    waiting_of = f"{len(waiting)} of " if len(waiting) < len(cases) else ""
    observer.begin(f"Measuring {waiting_of}{len(cases)} cases.")
    results = run_cases(study, new_task(study, "memory", session, waiting), observer.debug)
    for number, result in enumerate(results, 1):
        name = study.case_name(cases[result.case])
        for file in result.files:
            if file != journal.files.get(file.name, file):
                raise MeasurementError(
                    f"{file.name}: {name} writes another file of this name than an earlier case; "
                    "give files different names in the study."
                )
        if study.subject and not (study.plan.layers or result.outcome.layers):
            from experiments.theory.subjects import with_operators

            journal.append(with_operators(study, result))
        else:
            journal.append(result)
        is_measured = result.outcome.series or result.outcome.reason
        outcome = outcome_text(result.outcome) if is_measured else "prepared"
        observer.progressed(f"{name}: {outcome}", number / len(waiting))
        if result.file_error:
            observer.note(f"{name} writes no file: {result.file_error}")


def _write_record(
    study: Experiment, journal: Journal, after: Ceilings, no_counts: str | None, finished: datetime
) -> tuple[Record, Path]:
    """Write the record of a run and remove its journal; return the record with its path.

    ``after`` are the ceilings (peak rates) measured after all cases.  ``no_counts`` is the reason
    why executed work was not counted, if so.
    """
    header, before = journal.header, journal.ceilings or Ceilings(reason=ENDED)
    missing = dict(header.environment.missing)
    for moment, measured in (("before", before), ("after", after)):
        if measured.reason is not None:
            missing[f"ceilings.{moment}"] = measured.reason
    missing |= counting.missing_reasons(study, journal, no_counts) | journal.file_errors
    cases, event_file = split_events(
        assemble_case(study, journal, index) for index in range(len(header.cases))
    )
    files = [*sorted(journal.files.values(), key=lambda file: file.name), *counting.files(journal)]
    if event_file:
        files.append(CaseFile(EVENTS, EVENTS_MEANING, event_file))
    attachments = (
        Attachment(name=file.name, sha256=digest(file.content), meaning=file.meaning)
        for file in files
    )
    values = {name: getattr(header, name) for name in Head.__struct_fields__} | {
        "finished": _utc(finished),
        "environment": msgspec.structs.replace(header.environment, missing=missing),
        "ceilings": merge_ceilings((*before.ceilings, *after.ceilings)),
        "cases": cases,
        "attachments": tuple(attachments),
    }
    # The record is parsed before it is written, so that an unreadable record raises an error here.
    record: Record = parse(encode(Record(**values)), "the new record")
    records = journal.path.parents[1]  # the journal is in the study's folder
    path = write_record(record, records, {file.name: file.content for file in files})
    journal.remove()
    return record, path


def assemble_case(study: Experiment, journal: Journal, index: int) -> Case:
    """Combine all measurements and counts of a case; if there are none, state the reason."""
    header, factors = journal.header, journal.header.factors[index]
    case = journal.finished_cases.get(index)
    if case is None:
        reason = f"{ENDED.capitalize()}."
        if header.shard is not None and not measures_case(header.shard, index):
            shards = header.shard.of
            reason = f"This was left to shard {index % shards + 1} of {shards}."
        case = unmeasured_case(study, factors, "unavailable", reason)
    rounds_of_case = tuple(result.round for result in journal.rounds if result.case == index)
    if rounds_of_case:
        status, why = outcome_of_rounds(rounds_of_case)
        case = msgspec.structs.replace(case, rounds=rounds_of_case, status=status, reason=why)
    if index in journal.counts:
        series = case.series | journal.counts[index].series
        case = msgspec.structs.replace(case, series=series)
    return case


def _utc(moment: datetime) -> str:
    """Format a time in UTC as records write it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def close(
    name: str, records: Path, observer: Observer, excluded: Collection[Path] = ()
) -> tuple[tuple[Record, Path], ...]:
    """Write a record of each unfinished run of a study that has measured a case and stopped.

    Such a run cannot be continued if its machine is gone.  A record ends at the time of the last
    result.  Runs with ``excluded`` journals get no record.  Raises ``MeasurementError`` if no run
    can be closed.
    """
    study = registry.load(name)
    journals, errors = journal_files.unfinished_journals(records / name)
    closed = []
    for journal in journals:
        is_running = journal_files.is_in_use(journal.path)
        if journal.path in excluded or is_running or not journal.finished_cases:
            continue
        _note_damage(journal, observer)
        on_device = study.on(journal.header.environment.device)
        last_result_time = datetime.fromtimestamp(journal.path.stat().st_mtime, UTC)
        with journal:
            ceilings = Ceilings(reason=ENDED)
            closed.append(_write_record(on_device, journal, ceilings, ENDED, last_result_time))
    if not closed:
        names = ", ".join(journal.path.name for journal in journals) or "none"
        reason = (
            f"{name} has no unfinished run in {records} with a measured case whose process has "
            f"ended (journals: {names}); run the study first."
        )
        raise next(iter(errors), MeasurementError(reason))
    return tuple(closed)
