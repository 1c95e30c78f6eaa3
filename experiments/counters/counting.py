"""The last step of a run: the executed work of its cases, by whatever counts it on this machine.

Nothing here is timed, and nothing that is timed runs meanwhile.  What has been counted of a case
stands in the journal before the next one ends, so that an interrupted run is continued here too.

On a GPU that is ncu (``experiments.counters.ncu``), on a processor valgrind's lackey
(``experiments.counters.lackey``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import msgspec

from experiments.counters import lackey, ncu
from experiments.harness.journal import Journal
from experiments.harness.measure import layers_of_case, subject_of
from experiments.harness.processes import task_of
from experiments.harness.progress import Observer
from experiments.harness.study import CaseFile, Device, Factors, Session, Study
from experiments.harness.worker import Task
from experiments.machine.text import factors_text
from report.errors import RidgepointError
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import CaseLogs, attachment_name, pack
from report.records.quantities import QUANTITIES
from report.theory.work import macs

_NOT_ASKED: Final = "the run was not asked to count executed work (--counters none)"

#: What counts, and of its quantities the first is told while it runs.
TOOLS: Final[dict[Device, Any]] = {"cpu": lackey, "cuda": ncu}


def count(study: Study, session: Session, journal: Journal, observer: Observer) -> str | None:
    """Count what the run asks for and the journal does not hold yet; why not all, if so.

    Every case is in the journal as soon as it is counted.  Only interruptions are raised.
    """
    task, tool = to_count(study, session, journal), TOOLS[session.device]
    if not task.cases:
        return None
    reason = tool.unavailable()
    try:
        if reason is None:
            observer.begin(f"Counting the executed work of {len(task.cases)} cases by {tool.NAME}.")
            with closing(tool.count(study, task)) as counts:
                for done, found in enumerate(counts, 1):
                    journal.append(found)
                    case = factors_text(journal.header.factors[found.case])
                    told = next(iter(found.missing.values()), "nothing")
                    if samples := found.series.get(tool.QUANTITIES[0]):
                        told = f"{samples[0]:,} {QUANTITIES[tool.QUANTITIES[0]].unit}"
                    observer.progressed(f"{case}: {told}", done / len(task.cases))
    except (RidgepointError, OSError) as error:
        reason = str(error)
    if reason is not None:
        observer.note(f"{tool.NAME} counts nothing here: {reason}.")
    return reason


def to_count(study: Study, session: Session, journal: Journal) -> Task:
    """The cases to count that ended well and are not counted yet, longest first."""
    header, tool, work = journal.header, TOOLS[session.device], {}
    for index, factors in enumerate(header.factors):
        measured = journal.finished.get(index)
        well = measured is not None and measured.status == "ok" and index not in journal.counts
        if well and header.counters != "none" and study.subject and study.is_counted(factors):
            work[index] = multiply_adds(study, factors)
    longest = sorted(work, key=lambda index: (-work[index], index))
    cases = {index: header.factors[index] for index in longest if work[index] <= tool.LARGEST}
    gpu = header.environment.gpu
    if gpu is None:
        session = replace(session, threads=1)
    return msgspec.structs.replace(
        task_of(study, tool.NAME, session, cases),
        counted=tool.QUANTITIES,
        compute_capability=gpu.compute_capability if gpu else "",
    )


def multiply_adds(study: Study, factors: Factors) -> int:
    """Those of one call by its layers; backward there are about twice as many again."""
    mode = subject_of(study, factors, "meta").mode
    passes = 3 if mode in ("forward_backward", "step") else 1
    return passes * sum(map(macs, layers_of_case(study, factors)))


def missing(study: Study, journal: Journal, reason: str | None) -> dict[str, str]:
    """Why something was not counted, by quantity; ``reason`` says why nothing, or no more, was.

    What all cases lack for the same reason stands under the quantity alone.
    """
    if study.subject is not None and journal.header.counters == "none":
        reason = _NOT_ASKED
    tool, counts = TOOLS[journal.header.environment.device], sorted(journal.counts.items())
    found = {} if reason is None else dict.fromkeys(tool.QUANTITIES, reason)
    per_case = [set(count.missing.items()) for _, count in counts]
    common = set.intersection(*per_case) if len(per_case) > 1 else set()
    found |= dict(sorted(common))
    for index, count in counts:
        left = sorted(set(count.missing.items()) - common)
        found |= {f"cases[{index}].{quantity}": reason for quantity, reason in left}
    return found


def files(journal: Journal) -> Iterator[CaseFile]:
    """What papers read of the logs, as a file beside the record."""
    logs = [CaseLogs(case=n, logs=count.logs) for n, count in journal.counts.items() if count.logs]
    if logs:
        meaning = "the table that Nsight Compute printed, cut to each case that it counted"
        yield CaseFile(attachment_name(ncu_logs.TOOL), meaning, pack(ncu_logs.TOOL, logs))
