"""What is measured once of each case: its bytes, its layers and the files that it leaves."""

from __future__ import annotations

import time
from contextlib import suppress

from experiments.harness.journal import Done, Finish, Header, Journal, Keep, RunLog
from experiments.harness.measure import layers_of_case
from experiments.harness.processes import measured
from experiments.harness.progress import Observer, outcome_text
from experiments.harness.study import Factors, Session, Study
from experiments.harness.text import factors_text, period_text
from report.errors import MeasurementError
from report.records.layers import Layer
from report.records.record import Case, Status
from report.records.shards import measures_case


def sweep(
    study: Study, session: Session, run_log: RunLog, journal: Journal, observer: Observer
) -> tuple[Case, ...]:
    """Measure every case that ``run_log`` has no outcome for; return all, in the order of the plan.

    A case that fails is an outcome, not the end.
    """
    cases = run_log.header.cases
    others = elsewhere(study, run_log.header)
    waiting = {
        index: factors
        for index, factors in enumerate(cases)
        if index not in run_log.finished and index not in others
    }
    of = f"{len(waiting)} of " if len(waiting) < len(cases) else ""
    observer.note(f"Measuring {of}{len(cases)} cases.")
    planned, began, done = max(1, len(waiting)), time.monotonic(), 0
    for message in measured(study, "memory", session, "default", waiting, observer.debug):
        match message:
            case Keep():
                _keep(message, run_log, journal)
            case Finish():
                _finish(message, run_log, journal)
            case Done(case=index, status=status, reason=reason):
                if reason is not None:
                    outcome = unmeasured(study, cases[index], status, reason)
                    _finish(Finish(case=index, outcome=outcome), run_log, journal)
                done += 1
                left = (time.monotonic() - began) / done * (planned - done)
                text = f"{factors_text(cases[index])}: {outcome_text(run_log.finished[index])}"
                observer.progressed(text, done / planned, period_text(left))
            case _:
                observer.progressed(None, done / planned, "")
    found = {**run_log.finished, **others}
    return tuple(found[index] for index in range(len(cases)))


def _keep(line: Keep, run_log: RunLog, journal: Journal) -> None:
    """Put a file into the journal, once; cases may leave the same one, but not two of a name."""
    before = run_log.files.get(line.name)
    if before is not None and before.content == line.content:
        return
    if before is not None and before.case != line.case:
        raise MeasurementError(
            f"The cases {before.case} and {line.case} leave different files of the name "
            f"{line.name}; give them different names in the study."
        )
    journal.append(line)
    run_log.add(line)


def _finish(line: Finish, run_log: RunLog, journal: Journal) -> None:
    journal.append(line)
    run_log.add(line)


def elsewhere(study: Study, header: Header) -> dict[int, Case]:
    """The cases that other shards of the sweep measure by themselves, by their number."""
    shard = header.shard
    return {
        index: unmeasured(
            study,
            factors,
            "unavailable",
            f"This was left to shard {index % shard.of + 1} of {shard.of}.",
        )
        for index, factors in enumerate(header.cases)
        if shard is not None and not measures_case(shard, index)
    }


def unmeasured(study: Study, factors: Factors, status: Status, reason: str) -> Case:
    """A case that has no outcome of its own; its layers are there if it can be built."""
    layers: tuple[Layer, ...] = ()
    with suppress(Exception):
        layers = layers_of_case(study, factors)
    return Case(factors=factors, status=status, reason=reason, layers=layers, series=())
