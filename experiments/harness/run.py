"""One run of a study, from the request to the record on disk, and one that is closed early."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments import registry
from experiments.harness import (
    code,
    counting,
    environment,
    policies,
    quiet,
    rounds,
    runtime,
    timing,
)
from experiments.harness.journal import (
    Ceilings,
    Header,
    Journal,
    begun,
    is_written,
    journals,
    read_journal,
    readable,
)
from experiments.harness.processes import working
from experiments.harness.progress import Observer
from experiments.harness.selection import select
from experiments.harness.study import (
    UNSET,
    CeilingSize,
    CounterChoice,
    Device,
    Factors,
    Plan,
    Session,
    Study,
    UsageError,
)
from experiments.harness.sweep import sweep, unmeasured
from experiments.harness.text import flat, last_line
from experiments.harness.worker import Task
from report.errors import MeasurementError, RidgepointError
from report.records.filed import encode, parse
from report.records.pooling import unlike
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Case,
    Moment,
    Protocol,
    Record,
    Shard,
)
from report.records.shards import OPTION, measures_case
from report.records.store import digest, list_records, read_record, write_record

#: Why a run that was ended early lacks something.
_ENDED: Final = "the run was ended before this was measured"
#: What of the environment must be the same in all parts of a run; loads are not.
_SAME: Final = (
    *("name", "host", "cpu", "gpu", "threads", "memory_bytes"),
    *("operating_system", "python", "torch", "variables", "precision"),
)
#: So many differences between two runs are named.
_NAMED: Final = 4


@dataclass(frozen=True)
class Request:
    """What the command line asks for; what is None is left to us.

    ``records`` is where the record goes, ``images`` the folder of a data set of the user's own.
    ``label`` is what people call this machine; ``wait_quiet`` says for how many minutes at most to
    wait until the machine does nothing else.  Executed work is counted (``auto``) in a full plan
    and else not.  ``shard`` is (i, n) for the i-th of n shards, from 1; with ``if_missing`` one
    that is measured is left as it is, and an unfinished one is continued.  ``changes`` are those
    of the plan's protocol.
    """

    study: str
    records: Path
    device: Device = "cpu"
    threads: int | None = None
    quick: bool = False
    settings: tuple[str, ...] = ()
    resume: bool = False
    if_missing: bool = False
    counters: CounterChoice | None = None
    images: Path | None = None
    label: str | None = None
    shard: tuple[int, int] | None = None
    wait_quiet: float | None = None
    ceilings: CeilingSize | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def counter_choice(self) -> CounterChoice:
        """What to count."""
        return self.counters or ("none" if self.quick else "auto")


class StoppedError(MeasurementError):
    """A person or the system stopped the run by a signal, of which ``exit_code`` tells."""

    def __init__(self, message: str, interrupt: KeyboardInterrupt) -> None:
        """An interrupt that a handler of ours raised holds the number of its signal."""
        super().__init__(message)
        self.exit_code = 128 + (interrupt.args or (signal.SIGINT,))[0]


def command_of(request: Request, threads: int | None) -> tuple[str, ...]:
    """The command that repeats this run, with no more of this machine than its threads and label.

    Without ``threads`` they are left to the machine.  Of the folder of images only its own name
    stands there.
    """
    given = {
        "--device": request.device,
        "--threads": threads,
        "--quick": "" if request.quick else None,
        "--counters": request.counters,
        OPTION: request.shard and "{}/{}".format(*request.shard),
        "--label": request.label,
        "--wait-quiet": request.wait_quiet and f"{request.wait_quiet:g}",
        "--data": request.images and request.images.resolve().name,
    }
    words = [str(w) for n, value in given.items() if value is not None for w in (n, value) if w]
    settings = (word for setting in request.settings for word in ("--set", setting))
    return ("python", "-m", "experiments", "run", request.study, *words, *settings)


def places(request: Request) -> tuple[str, ...]:
    """The folders that the user gave, as given; argparse takes the last of a repeated option."""
    given = () if request.images is None else ("--data", str(request.images))
    return given if request.records == Path("data") else (*given, "--records", str(request.records))


def run(request: Request, observer: Observer) -> tuple[Record, Path]:
    """Measure, write the record, and return it with its path; or what is there, where that does.

    Raises ``UsageError`` for a request that names what does not exist, ``StoppedError`` when it is
    stopped, and other ``MeasurementError`` when it cannot be done.
    """
    study, plan, cases = selected(request)
    threads = runtime.checked_threads(request.threads)
    header = _header(request, study, plan, cases, threads)
    if request.if_missing and (there := _measured_before(request.records, header)):
        observer.note("Already measured; skipping.")
        return there
    session = Session(request.device, header.protocol, request.images, threads)
    if request.images is not None:
        from experiments import datasets

        datasets.check(request.images)
    runtime.share_work()
    with _opened(request, header, observer) as journal:
        try:
            if request.wait_quiet is not None:
                noise = quiet.wait_quiet(request.wait_quiet, observer.note, threads)
                if noise is not None:
                    observer.note(f"{noise} Measuring all the same.")
            record, files = _measured(study, plan.ceilings, session, journal, observer)
            path = write_record(record, request.records, files)
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt, request, journal) from interrupt
        except RidgepointError as error:
            if not journal.finished:
                raise
            raise MeasurementError(
                f"{error} What was measured is kept; continue with: {_again(request, journal)}"
            ) from error
        journal.remove()
    return record, path


def selected(request: Request) -> tuple[Study, Plan, tuple[Factors, ...]]:
    """The study, the plan and the cases that a run measures; raises ``UsageError``."""
    study = registry.load(request.study).on(request.device)
    plan, cases = select(
        study,
        quick=request.quick,
        settings=request.settings,
        images=request.images is not None,
        changes=request.changes,
    )
    return study, replace(plan, ceilings=request.ceilings or plan.ceilings), cases


def _header(
    request: Request, study: Study, plan: Plan, cases: tuple[Factors, ...], threads: int
) -> Header:
    """All that is known before the first measurement; imports torch and checks the device."""
    torch = runtime.start_torch(request.device, threads)
    facts = environment.gather(torch, request.device, threads, name=request.label)
    identity, missing = code.identify(request.study)
    protocol, impossible = _possible(plan.protocol, request.device)
    missing = {**facts.missing, **missing, **impossible}
    return Header(
        study=request.study,
        started=_utc(datetime.now(UTC)),
        command=command_of(request, threads),
        code=identity,
        protocol=protocol,
        environment=msgspec.structs.replace(facts, missing=missing),
        cases=cases,
        counters=request.counter_choice,
        shard=shard_of(request, study, plan, cases),
    )


def shard_of(request: Request, study: Study, plan: Plan, cases: Sequence[Factors]) -> Shard | None:
    """Which part of which sweep is measured; raises ``UsageError`` for more than there can be.

    A sweep is the plan, the cases and what is counted, the same in all of its shards.
    """
    if request.shard is None:
        return None
    number, of = request.shard
    processes = _possible(plan.protocol, request.device)[0].processes
    most = max(processes.values(), default=1) if study.has_times else len(cases)
    if of > most:
        what = "processes" if study.has_times else "cases"
        raise UsageError(f"{of} shards are too many: there are {most} {what}; give {most} or less.")
    parts = (request.study, request.device, plan.protocol, cases, request.counter_choice)
    return Shard(number=number, of=of, sweep=digest(msgspec.json.encode(parts, order="sorted")))


def _possible(planned: Protocol, device: Device) -> tuple[Protocol, dict[str, str]]:
    """The protocol with this device's clock and the memory policies that there are here.

    Where only the default is there, it takes the most processes that are planned.  Beside it the
    reason for each policy that is not there.
    """
    reasons = {policy: policies.unavailable(policy, device) for policy in planned.processes}
    there = {policy: n for policy, n in planned.processes.items() if reasons[policy] is None}
    if planned.processes and len(there) <= 1:
        there = dict.fromkeys(there or ("default",), max(planned.processes.values()))
    return msgspec.structs.replace(
        planned,
        timer=timing.TIMERS[device] if planned.timer == UNSET else planned.timer,
        processes=there,
        variables={policy: policies.as_recorded(policy) for policy in there},
    ), {f"policies.{policy}": reason for policy, reason in reasons.items() if reason}


# --------------------------------------------------------------------------- a run that was begun


def _measured_before(records: Path, header: Header) -> tuple[Record, Path] | None:
    """The newest record of the shard that a run would measure; None where there is none."""
    for item in reversed(list_records(header.study, records)):
        head = item.record
        if head.shard == header.shard is not None and unlike(head, header) is None:  # type: ignore[arg-type]
            path = records / item.file
            return read_record(path, records).record, path
    return None


def _opened(request: Request, header: Header, observer: Observer) -> Journal:
    """A new journal, or to resume the newest one that can go on.

    Raises ``MeasurementError`` where none can.
    """
    folder, key = request.records / header.study, header.environment.key
    unfinished = [each for each in readable(folder) if each.header.environment.key == key]
    mine = [each for each in unfinished if not differences(each.header, header)]
    if mine and (request.resume or request.if_missing):
        return mine[-1]
    if request.resume and unfinished:
        found = "; ".join(differences(unfinished[-1].header, header)[:_NAMED])
        raise MeasurementError(
            f"--resume: {unfinished[-1].path.name} cannot be continued, since this differs: "
            f"{found}; give the same options, or run without --resume."
        )
    if request.resume:
        for path in journals(folder):
            read_journal(path)  # which says what is wrong with it
        raise MeasurementError(
            f"--resume: {header.study} has no unfinished run on {key}; run without --resume."
        )
    if mine:
        name = mine[-1].path.name
        observer.note(f"An unfinished run is kept in {name}; --resume continues it.")
    return begun(folder, header)


def differences(then: Header, now: Header) -> tuple[str, ...]:
    """What keeps two runs from being one, by name down to the single value, with both values."""
    before, after = (dict(flat(_identity(each))) for each in (then, now))
    pairs = ((name, before.get(name), after.get(name)) for name in {**before, **after})
    return tuple(f"{name} {_short(a)}, now {_short(b)}" for name, a, b in pairs if a != b)


def _identity(header: Header) -> dict[str, object]:
    return {
        "protocol": header.protocol,
        "shard": header.shard,
        "cases": header.cases,
        "measuring code": header.code.measuring_code[:8],
        "counters": header.counters,
        **{name: getattr(header.environment, name) for name in _SAME},
    }


def _short(value: object) -> str:
    return "unset" if value is None else str(value)


def _interrupted(interrupt: KeyboardInterrupt, request: Request, journal: Journal) -> StoppedError:
    kept = len(journal.finished)
    own = sum(measures_case(journal.header.shard, i) for i in range(len(journal.header.cases)))
    said = (
        f"Interrupted: {kept} of {own} cases are kept (close {request.study} makes them a record "
        f"as they are); continue with: {_again(request, journal)}"
    )
    if kept == 0 and not journal.rounds:
        journal.remove()
        said = "Interrupted before a case was finished; nothing is kept."
    return StoppedError(said, interrupt)


def _again(request: Request, journal: Journal) -> str:
    """The command that continues a run."""
    return shlex.join((*journal.header.command, *places(request), "--resume"))


# -------------------------------------------------------------------------- measuring and writing


def _measured(
    study: Study, size: CeilingSize, session: Session, journal: Journal, observer: Observer
) -> tuple[Record, dict[str, bytes]]:
    """The record, and the files to keep beside it."""
    if journal.ceilings is None:
        journal.append(_ceilings(session, size, "before", observer))
    sweep(study, session, journal, observer)
    rounds.measure(study, session, journal, observer)
    after = _ceilings(session, size, "after", observer)
    uncounted = counting.count(study, session, journal, observer)
    return _record(study, journal, after, uncounted, datetime.now(UTC))


def _ceilings(session: Session, size: CeilingSize, moment: Moment, observer: Observer) -> Ceilings:
    """All ceilings, measured by a new process under the memory policy of the studies."""
    if size == "none":
        return Ceilings(reason="the study asks for no ceilings")
    observer.note(f"Measuring the ceilings {moment} the series.")
    kept = policies.unavailable("retained", session.device) is None
    variables = policies.variables("retained") if kept else {}
    task = Task(role="ceilings", session=session, ceilings=(size, moment))
    with working(task, variables) as running:
        for message in running.messages():
            if isinstance(message, Ceilings):
                return message
        said = last_line(running.said())
    reason = f"The ceilings could not be measured: {said}"
    observer.note(reason)
    return Ceilings(reason=reason)


def _record(
    study: Study, journal: Journal, after: Ceilings, uncounted: str | None, finished: datetime
) -> tuple[Record, dict[str, bytes]]:
    """The record of a run, as it will be read: never write what cannot be; and its files.

    ``uncounted`` is why not all cases could be counted.
    """
    header, before = journal.header, journal.ceilings or Ceilings(reason=_ENDED)
    reasons = {"ceilings.before": before.reason, "ceilings.after": after.reason}
    missing = {name: reason for name, reason in reasons.items() if reason is not None}
    cases = rounds.added(tuple(_alone(study, journal)), journal.rounds)
    cases, not_counted = counting.added(study, journal, cases, uncounted)
    missing = {**header.environment.missing, **missing, **not_counted}
    kept = [*sorted(journal.files.values(), key=lambda file: file.name), *counting.files(journal)]
    record = Record(
        schema=SCHEMA_VERSION,
        study=header.study,
        started=header.started,
        finished=_utc(finished),
        command=header.command,
        code=header.code,
        protocol=header.protocol,
        environment=msgspec.structs.replace(header.environment, missing=missing),
        ceilings=(*before.ceilings, *after.ceilings),
        shard=header.shard,
        cases=cases,
        attachments=tuple(
            Attachment(name=file.name, sha256=digest(file.content), meaning=file.meaning)
            for file in kept
        ),
    )
    files = {file.name: file.content for file in kept}
    return parse(encode(record), "the new record"), files


def _alone(study: Study, journal: Journal) -> Iterator[Case]:
    """Each case as it was measured by itself, or why this run did not."""
    header = journal.header
    for index, factors in enumerate(header.cases):
        if index in journal.finished:
            yield journal.finished[index]
            continue
        reason = f"{_ENDED.capitalize()}."
        if header.shard is not None and not measures_case(header.shard, index):
            of = header.shard.of
            reason = f"This was left to shard {index % of + 1} of {of}."
        yield unmeasured(study, factors, "unavailable", reason)


def _utc(moment: datetime) -> str:
    """A moment as records name it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


# ---------------------------------------------------------------------------------------- closing


def close(name: str, records: Path) -> tuple[tuple[Record, Path], ...]:
    """Write a record of each unfinished run of a study that no process is at, as far as it went.

    For runs whose machine is gone, so that they cannot be resumed.  A case that was not measured is
    unavailable with that reason, and so is what a run measures at its end.  A record's time of
    finishing is that of its last outcome.  Raises ``MeasurementError`` if there is no such run.
    """
    study, found = registry.load(name), readable(records / name)
    left = [each for each in found if each.finished and not is_written(each.path)]
    if not left:
        names = ", ".join(each.path.name for each in found) or "none at all"
        raise MeasurementError(
            f"{name} has no unfinished run in {records} that holds a measured case and that no "
            f"process is at (found {names}); run it."
        )
    return tuple(_closed(study, journal, records) for journal in left)


def _closed(study: Study, journal: Journal, records: Path) -> tuple[Record, Path]:
    finished = datetime.fromtimestamp(journal.path.stat().st_mtime, UTC)
    with journal:
        study = study.on(journal.header.environment.device)
        record, files = _record(study, journal, Ceilings(reason=_ENDED), _ENDED, finished)
        written = write_record(record, records, files)
        journal.remove()
    return record, written
