"""One run of a study, from the request to the record on disk."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

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
from experiments.harness.identity import checked_label, machine_number
from experiments.harness.journal import Ceilings, Header, Journal, RunLog, read_run_log
from experiments.harness.opening import can_resume, measured_before, opened
from experiments.harness.processes import working
from experiments.harness.progress import Observer
from experiments.harness.recording import ceiling_reasons, files_of, record_of, utc
from experiments.harness.selection import Selection, select
from experiments.harness.study import (
    UNSET,
    CeilingSize,
    CounterChoice,
    Device,
    Session,
    Study,
    UsageError,
    replanned,
)
from experiments.harness.sweep import sweep
from experiments.harness.text import last_line
from experiments.harness.worker import Task
from report.errors import MeasurementError, RidgepointError
from report.records.record import Moment, Protocol, Record, Shard
from report.records.shards import OPTION, measures_case
from report.records.store import digest, write_record


@dataclass(frozen=True)
class Request:
    """What the command line asks for; what is None is left to us.

    ``records`` is where the record goes, ``images`` the folder of a data set of the user's own.
    ``label`` is what people call this machine.  ``budget`` is in s; ``wait_quiet`` says for how
    many minutes at most to wait until the machine does nothing else.  ``rounds_s`` is the time for
    all timed processes together (s).  Executed work is counted
    (``auto``) in a full plan and else not.  ``shard`` is (i, n) for the i-th of n shards, from 1;
    with ``if_missing`` one that is measured is left as it is, and an unfinished one is continued.
    """

    study: str
    records: Path
    device: Device = "cpu"
    threads: int | None = None
    quick: bool = False
    settings: tuple[str, ...] = ()
    budget: float | None = None
    rounds_s: float | None = None
    ceilings: CeilingSize | None = None
    resume: bool = False
    if_missing: bool = False
    counters: CounterChoice | None = None
    images: Path | None = None
    label: str | None = None
    shard: tuple[int, int] | None = None
    wait_quiet: float | None = None

    @property
    def counter_choice(self) -> CounterChoice:
        """What to count."""
        return self.counters or ("none" if self.quick else "auto")


class StoppedError(MeasurementError):
    """A person or the system stopped the run; ``exit_code`` is that of the signal."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Keep the sentence and the exit code."""
        super().__init__(message)
        self.exit_code = exit_code


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled as Ctrl-C is."""


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """128 + the number of the signal."""
    return 143 if isinstance(interrupt, Terminated) else 130


def command_of(request: Request, threads: int | None) -> tuple[str, ...]:
    """The command that repeats this run, with no more of this machine than its threads and label.

    Without ``threads`` they are left to the machine.  Of the folder of images only its own name
    stands there.
    """
    words = ["python", "-m", "experiments", "run", request.study]
    words += ["--device", request.device]
    words += [] if threads is None else ["--threads", str(threads)]
    words += ["--quick"] if request.quick else []
    for setting in request.settings:
        words += ["--set", setting]
    words += [] if request.budget is None else ["--budget", f"{request.budget:g}"]
    words += [] if request.counters is None else ["--counters", request.counters]
    words += [] if request.shard is None else [OPTION, "{}/{}".format(*request.shard)]
    words += [] if request.label is None else ["--label", request.label]
    words += [] if request.wait_quiet is None else ["--wait-quiet", f"{request.wait_quiet:g}"]
    words += [] if request.images is None else ["--data", request.images.resolve().name]
    return tuple(words)


def run(request: Request, observer: Observer) -> tuple[Record, Path]:
    """Measure, write the record, and return it with its path; or what is there, where that does.

    Raises ``UsageError`` for a request that names what does not exist, ``StoppedError`` when it is
    stopped, and other ``MeasurementError`` when it cannot be done.
    """
    study, selection = selected(request)
    threads = runtime.checked_threads(request.threads)
    header = _header(request, study, selection, threads)
    if request.if_missing and (there := measured_before(request.records, header)):
        observer.note("This is measured already; nothing is measured again.")
        return there
    session = Session(request.device, header.protocol, request.images, threads)
    if request.images is not None:
        from experiments import datasets

        datasets.check(study.images, request.images)
    runtime.share_work()
    resume = request.resume or (request.if_missing and can_resume(request.records, header))
    run_log, journal = opened(request.records, header, observer, resume=resume)
    with journal:
        try:
            _wait_quiet(request, threads, observer)
            record, files = _measured(study, selection, session, run_log, journal, observer)
            path = write_record(record, request.records, files)
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt, request, run_log, journal) from interrupt
        except RidgepointError as error:
            if not run_log.finished:
                raise
            raise MeasurementError(
                f"{error} What was measured is kept; continue with: {_again(request, run_log)}"
            ) from error
        journal.remove()
    return record, path


def _wait_quiet(request: Request, threads: int, observer: Observer) -> None:
    """Wait for a quiet machine if asked to; a run on one that is not says so and goes on."""
    if request.wait_quiet is None:
        return
    noise = quiet.wait_quiet(request.wait_quiet, observer, threads)
    if noise is not None:
        observer.note(f"{noise} Measuring all the same.")


def _header(request: Request, study: Study, selection: Selection, threads: int) -> Header:
    """All that is known before the first measurement; imports torch and checks the device."""
    torch = runtime.start_torch(request.device, threads)
    facts = environment.gather(
        torch,
        request.device,
        threads,
        name=checked_label(request.label),
        number=machine_number(request.records, make=False),
    )
    identity, missing = code.identify(request.study)
    protocol = _possible(selection.plan.protocol, request.device)
    missing |= _impossible(selection.plan.protocol, request.device)
    return Header(
        study=request.study,
        started=_now(),
        command=command_of(request, threads),
        code=identity,
        protocol=protocol,
        environment=msgspec.structs.replace(facts, missing={**facts.missing, **missing}),
        cases=selection.cases,
        counters=request.counter_choice,
        shard=shard_of(request, study, selection, protocol),
    )


def sweep_of(request: Request, selection: Selection) -> str:
    """The digest that all shards of a sweep share: of its plan, its cases and what is counted."""
    plan = selection.plan.protocol
    parts = (request.study, request.device, plan, selection.cases, request.counter_choice)
    return digest(msgspec.json.encode(parts, order="sorted"))


def selected(request: Request) -> tuple[Study, Selection]:
    """The study and what of it a run measures; raises ``UsageError``."""
    study = registry.load(request.study).on(request.device)
    selection = select(
        study,
        quick=request.quick,
        settings=request.settings,
        budget=request.budget,
        images=request.images is not None,
    )
    plan = selection.plan
    if request.rounds_s is not None:
        plan = replanned(plan, budget_s=request.rounds_s)
    if request.ceilings is not None:
        plan = replace(plan, ceilings=request.ceilings)
    return study, replace(selection, plan=plan)


def shard_of(
    request: Request, study: Study, selection: Selection, protocol: Protocol
) -> Shard | None:
    """Which part of which sweep is measured; raises ``UsageError`` for more than there can be."""
    if request.shard is None:
        return None
    number, of = request.shard
    most = len(selection.cases)
    if study.has_times:
        most = max(protocol.processes.values(), default=1)
    if of > most:
        what = "processes" if study.has_times else "cases"
        raise UsageError(f"{of} shards are too many: there are {most} {what}; give {most} or less.")
    return Shard(number=number, of=of, sweep=sweep_of(request, selection))


def _possible(protocol: Protocol, device: Device) -> Protocol:
    """``protocol`` with this device's clock and the memory policies that there are here.

    Where only the default is there, it takes the most processes that are planned.
    """
    planned = protocol.processes
    there = {p: n for p, n in planned.items() if policies.unavailable(p, device) is None}
    if planned and len(there) <= 1:
        there = dict.fromkeys(there or ("default",), max(planned.values()))
    return msgspec.structs.replace(
        protocol,
        timer=timing.TIMERS[device] if protocol.timer == UNSET else protocol.timer,
        processes=there,
        variables={policy: policies.as_recorded(policy) for policy in there},
    )


def _impossible(protocol: Protocol, device: Device) -> dict[str, str]:
    """Why a memory policy that is planned is not there."""
    reasons = {policy: policies.unavailable(policy, device) for policy in protocol.processes}
    return {f"policies.{policy}": reason for policy, reason in reasons.items() if reason}


def _now() -> str:
    return utc(datetime.now(UTC))


def _measured(
    study: Study,
    selection: Selection,
    session: Session,
    run_log: RunLog,
    journal: Journal,
    observer: Observer,
) -> tuple[Record, dict[str, bytes]]:
    """The record, and the files to keep beside it."""
    size = selection.plan.ceilings
    if run_log.ceilings is None:
        before = _ceilings(session, size, "before", observer)
        journal.append(before)
        run_log.add(before)
    assert run_log.ceilings is not None
    alone = sweep(study, session, run_log, journal, observer)
    rounds.measure(study, session, run_log, journal, observer)
    after = _ceilings(session, size, "after", observer)
    counted = counting.count(study, session, run_log, journal, observer)
    missing = {**ceiling_reasons(run_log.ceilings.reason, after.reason), **counted.missing}
    record = record_of(
        run_log,
        cases=counted.added(rounds.added(alone, run_log.rounds)),
        ceilings=(*run_log.ceilings.ceilings, *after.ceilings),
        environment=environment.closed(run_log.header.environment, missing),
        attachments=counted.attachments,
        finished=_now(),
    )
    return record, files_of(run_log, counted)


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


def places(request: Request) -> tuple[str, ...]:
    """The folders that the user gave, as given; argparse takes the last of a repeated option."""
    found: tuple[str, ...] = ()
    if request.images is not None:
        found += ("--data", str(request.images))
    return found if request.records == Path("data") else (*found, "--records", str(request.records))


def _interrupted(
    interrupt: KeyboardInterrupt, request: Request, run_log: RunLog, journal: Journal
) -> StoppedError:
    # The signal can come when a case is on disk and not in ``run_log`` yet.
    run_log = read_run_log(journal.path)
    kept = len(run_log.finished)
    own = sum(measures_case(run_log.header.shard, i) for i in range(len(run_log.header.cases)))
    code = exit_code_of(interrupt)
    if kept == 0 and not run_log.rounds:
        journal.remove()
        return StoppedError("Interrupted before a case was finished; nothing is kept.", code)
    share = f"{kept} of {own} cases"
    return StoppedError(
        f"Interrupted: {share} are kept (close {request.study} makes them a record as they are); "
        f"continue with: {_again(request, run_log)}",
        code,
    )


def _again(request: Request, run_log: RunLog) -> str:
    """The command that continues a run."""
    return shlex.join((*run_log.header.command, *places(request), "--resume"))
