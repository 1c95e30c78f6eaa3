"""All cases of a run, one after the other: a case that fails is an outcome, not the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol as Interface

from experiments.harness.journal import Finish, Header, Journal, Keep, RunLog, Start, Stop
from experiments.harness.measure import release
from experiments.harness.outcomes import outcome_of
from experiments.harness.study import CaseFile, Factors, Session, Study
from report.errors import MeasurementError
from report.records.layers import Layer
from report.records.record import Case
from report.records.shards import measures_case


class Observer(Interface):
    """Who watches a run: the progress bar, or a test."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def began(self, cases: tuple[Factors, ...], finished: Mapping[int, Case], study: Study) -> None:
        """The series begins; ``finished`` cases come from an earlier run."""

    def case_began(self, index: int) -> None:
        """A case begins."""

    def case_ended(self, index: int, case: Case) -> None:
        """A case has an outcome."""

    def case_raised(self, index: int, error: Exception) -> None:
        """A case raised ``error``; called while it is handled."""

    def ended(self) -> None:
        """The series is over, complete or not."""

    def progressed(self, text: str | None, done: float, left: str) -> None:
        """Rounds are measured, or work is counted: ``text`` ended, ``done`` of 1 is done."""


def sweep(
    study: Study, session: Session, run_log: RunLog, journal: Journal, observer: Observer
) -> tuple[Case, ...]:
    """Measure every case that ``run_log`` has no outcome for; return all, in the order of the plan.

    ``KeyboardInterrupt`` is noted in the journal and raised again.
    """
    cases = run_log.header.cases
    others = elsewhere(study, run_log.header)
    for index in run_log.crashing_cases():
        _finish(index, _crashing(study, cases[index]), run_log, journal)
    observer.began(cases, {**run_log.finished, **others}, study)
    try:
        for index, factors in enumerate(cases):
            if index in run_log.finished or index in others:
                continue
            journal.append(Start(case=index))
            observer.case_began(index)
            on_error = partial(observer.case_raised, index)
            try:
                case, files = run_case(study, factors, session, on_error)
            except KeyboardInterrupt:
                journal.append(Stop(case=index))
                raise
            for file in files:
                _keep(index, file, run_log, journal)
            _finish(index, case, run_log, journal)
            observer.case_ended(index, case)
    finally:
        observer.ended()
    found = {**run_log.finished, **others}
    return tuple(found[index] for index in range(len(cases)))


def elsewhere(study: Study, header: Header) -> dict[int, Case]:
    """The cases that other shards of the sweep measure by themselves, by their number."""
    found = {}
    for index, factors in enumerate(header.cases):
        if header.shard is None or measures_case(header.shard, index):
            continue
        layers: tuple[Layer, ...] = ()
        with suppress(Exception):  # what cannot be built is the finding of the other shard
            layers = study.layers(factors)
        number = index % header.shard.of + 1
        found[index] = Case(
            factors=factors,
            status="unavailable",
            reason=f"This was left to shard {number} of {header.shard.of}.",
            layers=layers,
            series=(),
        )
    return found


def _keep(index: int, file: CaseFile, run_log: RunLog, journal: Journal) -> None:
    """Put a file into the journal, once; cases may leave the same one, but not two of a name."""
    line = Keep(case=index, name=file.name, meaning=file.meaning, content=file.content)
    before = run_log.files.get(file.name)
    if before is not None and before.content == line.content:
        return
    if before is not None and before.case != index:
        raise MeasurementError(
            f"The cases {before.case} and {index} leave different files of the name {file.name}; "
            "name them apart in the study."
        )
    journal.append(line)
    run_log.files[file.name] = line


def _finish(index: int, case: Case, run_log: RunLog, journal: Journal) -> None:
    journal.append(Finish(case=index, outcome=case))
    run_log.finished[index] = case


def run_case(
    study: Study,
    factors: Factors,
    session: Session,
    on_error: Callable[[Exception], None] = lambda error: None,
) -> tuple[Case, tuple[CaseFile, ...]]:
    """One case with whatever outcome it has, and its files; what it held is freed if it fails."""
    layers: tuple[Layer, ...] = ()
    try:
        layers = study.layers(factors)
        series = study.measure(factors, session)
        files = study.files(factors, session) if study.files else ()
        case = Case(factors=factors, status="ok", reason=None, layers=layers, series=series)
        return case, files
    except Exception as error:
        _check_interrupt(error)
        on_error(error)
        status, reason = outcome_of(error)
    # After the handler, since the exception's frames hold the case's tensors until it ends.
    release(session.device)
    return Case(factors=factors, status=status, reason=reason, layers=layers, series=()), ()


def _check_interrupt(error: BaseException) -> None:
    """Raise the interrupt during which ``error`` came about, if it did.

    A library that is interrupted while it changes its state may fail on its way out, and its error
    then stands in front of the person's wish to stop.
    """
    behind = error.__context__
    while behind is not None:
        if isinstance(behind, KeyboardInterrupt):
            raise behind
        behind = behind.__context__


def _crashing(study: Study, factors: Factors) -> Case:
    return Case(
        factors=factors,
        status="failed",
        reason="The process was killed twice during this case, most likely for lack of memory.",
        layers=study.layers(factors),
        series=(),
    )
