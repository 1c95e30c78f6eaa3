"""One run of a study, from the request to the record on disk, and one that is closed early."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from experiments import registry
from experiments.counters import counting
from experiments.harness import policies, rounds
from experiments.harness.journal import (
    Ceilings,
    Header,
    Journal,
    is_in_use,
    new_journal,
    unfinished_journals,
)
from experiments.harness.measure import unmeasured_case
from experiments.harness.processes import new_task, run_cases, start_worker
from experiments.harness.progress import Observer, outcome_text
from experiments.harness.request import Request, possible
from experiments.harness.study import CaseFile, CeilingSize, Factors, Session, Study
from experiments.harness.worker import Task
from experiments.machine import code, environment, quiet, runtime
from experiments.machine.text import factors_text, flatten, last_line
from report.errors import MeasurementError, RidgepointError
from report.records import events
from report.records.filed import encode, parse
from report.records.pooling import measures_case, outcome, unlike
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Case,
    Head,
    Moment,
    Outcome,
    Protocol,
    Record,
)
from report.records.store import digest, read_record, survey, write_record

#: Why a run that was ended early lacks something.
_ENDED: Final = "the run was ended before this was measured"
#: So many differences between two runs are named.
_NAMED: Final = 4


def run(request: Request, observer: Observer) -> tuple[Record, Path]:
    """Measure, write the record, and return it with its path; or what is there, where that does.

    Raises ``UsageError`` for a request that names what does not exist, and ``MeasurementError``
    when it cannot be done.  Of a run that is stopped or fails ``observer`` tells what is kept.
    """
    study, protocol, cases = request.selected()
    threads = runtime.checked_threads(request.threads)
    header = _header(request, protocol, cases, threads)
    if request.if_missing and (there := _measured_before(request.records, header)):
        observer.note("Already measured; skipping.")
        return there
    images = None if request.images is None else str(request.images.resolve())
    session = Session(request.device, header.protocol, images, threads)
    if request.images is not None:
        from experiments import datasets

        datasets.handwritten(request.images)  # which looks through them
    with _opened(request, header, observer) as journal:
        try:
            if request.wait_quiet is not None:
                quiet.wait_quiet(request.wait_quiet, observer.note, threads)
            if journal.ceilings is None:
                journal.append(_ceilings(session, study.ceilings, "before", observer))
            _sweep(study, session, journal, observer)
            rounds.measure(study, session, journal, observer)
            after = _ceilings(session, study.ceilings, "after", observer)
            uncounted = counting.count(study, session, journal, observer)
            return _finished(study, journal, after, uncounted, datetime.now(UTC))
        except (KeyboardInterrupt, RidgepointError):
            observer.note(_kept(request, journal))
            raise


def _header(
    request: Request, planned: Protocol, cases: tuple[Factors, ...], threads: int
) -> Header:
    """All that is known before the first measurement; imports torch and checks the device."""
    torch = runtime.start_torch(request.device, threads)
    facts = environment.gather(torch, request.device, threads, name=request.label)
    identity, missing = code.identify(request.study)
    protocol, impossible = possible(planned, request.device)
    missing = {**facts.missing, **missing, **impossible}
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
        shard=request.part(),
        attachments=(),
        cases=tuple(Outcome(factors=factors) for factors in cases),
        counters=request.counter_choice,
    )


# --------------------------------------------------------------------------- a run that was begun


def _measured_before(records: Path, header: Header) -> tuple[Record, Path] | None:
    """The newest record of the shard that a run would measure; None where there is none."""
    for item in reversed(survey(header.study, records, Head)[0]):
        head = item.record
        if head.shard == header.shard is not None and unlike(head, header) is None:
            path = records / item.file
            return read_record(path, records).record, path
    return None


def _opened(request: Request, header: Header, observer: Observer) -> Journal:
    """A new journal, or to resume the newest one that can go on.

    Raises ``MeasurementError`` where none can.
    """
    folder, key = request.records / header.study, header.environment.key
    found, faults = unfinished_journals(folder)
    here = [each for each in found if each.header.environment.key == key]
    mine = [each for each in here if not differences(each.header, header)]
    if mine and (request.resume or request.if_missing):
        _note_damage(mine[-1], observer)
        return mine[-1]
    if not request.resume:
        if mine:
            name = mine[-1].path.name
            observer.note(f"An unfinished run is kept in {name}; --resume continues it.")
        return new_journal(folder, header)
    if here:
        named = "; ".join(differences(here[-1].header, header)[:_NAMED])
        raise MeasurementError(
            f"--resume: {here[-1].path.name} cannot be continued, since this differs: {named}; "
            "give the same options, or run without --resume."
        )
    none = f"--resume: {header.study} has no unfinished run on {key}; run without --resume."
    raise next(iter(faults), MeasurementError(none))


def _note_damage(journal: Journal, observer: Observer) -> None:
    if journal.damaged:
        what = f"damaged lines left out: {journal.damaged}"
        observer.note(f"{journal.path.name}: {what}; what they held counts as not measured.")


def differences(then: Header, now: Header) -> tuple[str, ...]:
    """What keeps two runs from being one, by name down to the single value, with both values."""
    before, after = _identity(then), _identity(now)
    pairs = ((n, before.get(n, "unset"), after.get(n, "unset")) for n in {**before, **after})
    return tuple(f"{name} {a}, now {b}" for name, a, b in pairs if a != b)


def _identity(header: Header) -> dict[str, object]:
    """What must be the same in all parts of a run, by name; moments are not."""
    parts: dict[str, object] = {
        **{name: getattr(header, name) for name in ("protocol", "shard", "counters")},
        "cases": header.factors,
        "measuring code": header.code.measuring_code[:8],
        **msgspec.to_builtins(msgspec.structs.replace(header.environment, key="", missing={})),
    }
    return {name: value for name, value in flatten(parts) if value not in (None, "")}


def _kept(request: Request, journal: Journal) -> str:
    """What a run that ends early leaves, and what goes on; a journal without a case is removed."""
    kept, shard = len(journal.finished), journal.header.shard
    if not kept and not journal.rounds:
        journal.remove()
        return "Nothing is kept: no case was finished."
    own = sum(measures_case(shard, index) for index in range(len(journal.header.cases)))
    again = shlex.join((*journal.header.command, *request.places, "--resume"))
    record = f" (close {request.study} makes them a record as they are)" if kept else ""
    return f"{kept} of {own} cases are kept{record}; continue with: {again}"


# -------------------------------------------------------------------------- measuring and writing


def _sweep(study: Study, session: Session, journal: Journal, observer: Observer) -> None:
    """Measure every case of this run that ``journal`` has no outcome for.

    A case that fails is an outcome, not the end.
    """
    cases, shard = journal.header.factors, journal.header.shard
    waiting = {
        index: factors
        for index, factors in enumerate(cases)
        if index not in journal.finished and measures_case(shard, index)
    }
    of = f"{len(waiting)} of " if len(waiting) < len(cases) else ""
    observer.begin(f"Measuring {of}{len(cases)} cases.")
    messages = run_cases(study, new_task(study, "memory", session, waiting), observer.debug)
    for done, step in enumerate(messages, 1):
        # Cases may leave the same file, but not two of a name.
        name = factors_text(cases[step.case])
        for file in step.files:
            if file != journal.files.get(file.name, file):
                raise MeasurementError(
                    f"{file.name}: {name} leaves another file of this name than a case before; "
                    "give files different names in the study."
                )
        journal.append(step)
        observer.progressed(f"{name}: {outcome_text(step.outcome)}", done / len(waiting))
        if step.unfiled:
            observer.note(f"{name} leaves no file: {step.unfiled}")


def _ceilings(session: Session, size: CeilingSize, moment: Moment, observer: Observer) -> Ceilings:
    """All ceilings, measured by a new process under the memory policy of the studies."""
    if size == "none":
        return Ceilings(reason="the study asks for no ceilings")
    observer.note(f"Measuring the ceilings {moment} the series.")
    kept = policies.unavailable("retained", session.device) is None
    variables = policies.variables("retained") if kept else {}
    task = Task(role="ceilings", session=session, ceilings=(size, moment))
    with start_worker(task, variables) as running:
        for message in running.messages():
            if isinstance(message, Ceilings):
                return message
        said = last_line(running.output())
    reason = f"The ceilings could not be measured: {said}"
    observer.note(reason)
    return Ceilings(reason=reason)


def _finished(
    study: Study, journal: Journal, after: Ceilings, uncounted: str | None, finished: datetime
) -> tuple[Record, Path]:
    """Write the record of a run in place of its journal; returns it with its path.

    ``uncounted`` is why not all cases were counted.
    """
    header, before = journal.header, journal.ceilings or Ceilings(reason=_ENDED)
    reasons = {"ceilings.before": before.reason, "ceilings.after": after.reason}
    missing = {
        **header.environment.missing,
        **{name: reason for name, reason in reasons.items() if reason is not None},
        **counting.missing(study, journal, uncounted),
        **journal.unfiled,
    }
    cases, kept = events.split_events(
        case_of(study, journal, index) for index in range(len(header.cases))
    )
    files = [*sorted(journal.files.values(), key=lambda file: file.name), *counting.files(journal)]
    if kept:
        files.append(CaseFile(events.NAME, events.MEANING, kept))
    values = {name: getattr(header, name) for name in Head.__struct_fields__} | {
        "finished": _utc(finished),
        "environment": msgspec.structs.replace(header.environment, missing=missing),
        "ceilings": (*before.ceilings, *after.ceilings),
        "cases": cases,
        "attachments": tuple(
            Attachment(name=file.name, sha256=digest(file.content), meaning=file.meaning)
            for file in files
        ),
    }
    # As it will be read: never write what cannot be.
    record = parse(encode(Record(**values)), "the new record")
    # The journal lies in the folder of the study, of the folder of records.
    path = write_record(record, journal.path.parents[1], {f.name: f.content for f in files})
    journal.remove()
    return record, path


def case_of(study: Study, journal: Journal, index: int) -> Case:
    """All that this run measured and counted of a case, or why it did not."""
    header, factors = journal.header, journal.header.factors[index]
    case = journal.finished.get(index)
    if case is None:
        why = f"{_ENDED.capitalize()}."
        if header.shard is not None and not measures_case(header.shard, index):
            of = header.shard.of
            why = f"This was left to shard {index % of + 1} of {of}."
        case = unmeasured_case(study, factors, "unavailable", why)
    timed = tuple(ended.round for ended in journal.rounds if ended.case == index)
    status, reason = outcome(timed) if timed else (case.status, case.reason)
    series = case.series | (journal.counts[index].series if index in journal.counts else {})
    return msgspec.structs.replace(case, rounds=timed, status=status, reason=reason, series=series)


def _utc(moment: datetime) -> str:
    """A moment as records name it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# ---------------------------------------------------------------------------------------- closing


def close(
    name: str, records: Path, observer: Observer, apart: Collection[Path] = ()
) -> tuple[tuple[Record, Path], ...]:
    """Write a record of each unfinished run of a study that no process is at, as far as it went.

    For runs whose machine is gone, so that they cannot be resumed.  A case that was not measured is
    unavailable with that reason, and so is what a run measures at its end.  A record's time of
    finishing is that of its last outcome.  Journals ``apart`` are left alone.  Raises
    ``MeasurementError`` if there is no such run.
    """
    study, (found, faults) = registry.load(name), unfinished_journals(records / name)
    idle = [each for each in found if each.path not in apart and not is_in_use(each.path)]
    left = [each for each in idle if each.finished]
    if not left:
        names = ", ".join(each.path.name for each in found) or "none at all"
        none = f"{name} has no unfinished run in {records} that holds a measured case and that no"
        raise next(iter(faults), MeasurementError(f"{none} process is at (found {names}); run it."))
    closed = []
    for journal in left:
        _note_damage(journal, observer)
        on_device = study.on(journal.header.environment.device)
        last = datetime.fromtimestamp(journal.path.stat().st_mtime, UTC)
        with journal:
            closed.append(_finished(on_device, journal, Ceilings(reason=_ENDED), _ENDED, last))
    return tuple(closed)
