"""What is measured once of each case: its bytes, its layers and the files that it leaves."""

from __future__ import annotations

from contextlib import suppress

from experiments.harness.journal import Done, Finish, Journal, Keep
from experiments.harness.measure import layers_of_case
from experiments.harness.processes import measured
from experiments.harness.progress import Observer, outcome_text
from experiments.harness.study import Factors, Session, Study
from experiments.harness.text import factors_text
from report.errors import MeasurementError
from report.records.layers import Layer
from report.records.record import Case, Status
from report.records.shards import measures_case


def sweep(study: Study, session: Session, journal: Journal, observer: Observer) -> None:
    """Measure every case of this run that ``journal`` has no outcome for.

    A case that fails is an outcome, not the end.
    """
    cases, shard = journal.header.cases, journal.header.shard
    waiting = {
        index: factors
        for index, factors in enumerate(cases)
        if index not in journal.finished and measures_case(shard, index)
    }
    of = f"{len(waiting)} of " if len(waiting) < len(cases) else ""
    observer.begin(f"Measuring {of}{len(cases)} cases.")
    done = 0
    for message in measured(study, "memory", session, "default", waiting, observer.debug):
        match message:
            case Keep():
                _keep(message, journal)
            case Finish():
                journal.append(message)
            case Done(case=index, status=status, reason=reason):
                if reason is not None:
                    outcome = unmeasured(study, cases[index], status, reason)
                    journal.append(Finish(case=index, outcome=outcome))
                done += 1
                text = f"{factors_text(cases[index])}: {outcome_text(journal.finished[index])}"
                observer.progressed(text, done / len(waiting))


def _keep(file: Keep, journal: Journal) -> None:
    """Put a file into the journal, once; cases may leave the same one, but not two of a name."""
    before = journal.files.get(file.name)
    if before is not None and before.content == file.content:
        return
    if before is not None and before.case != file.case:
        raise MeasurementError(
            f"The cases {before.case} and {file.case} leave different files of the name "
            f"{file.name}; give them different names in the study."
        )
    journal.append(file)


def unmeasured(study: Study, factors: Factors, status: Status, reason: str) -> Case:
    """A case that has no outcome of its own; its layers are there if it can be built."""
    layers: tuple[Layer, ...] = ()
    with suppress(Exception):
        layers = layers_of_case(study, factors)
    return Case(factors=factors, status=status, reason=reason, layers=layers)
