"""Executed work of the cases, counted in the last step of a run.

The counting tool is ncu on a GPU (``experiments.counters.ncu``) and valgrind's lackey on a CPU
(``experiments.counters.lackey``).  Nothing is timed meanwhile.  Counts are in the journal before
the next case ends, so that an interrupted run can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from math import inf
from typing import Any, Final

import msgspec

from experiments.counters import lackey, ncu
from experiments.harness.journal import Count, Journal
from experiments.harness.measure import build_subject, layers_of_case
from experiments.harness.processes import new_task
from experiments.harness.progress import Observer
from experiments.harness.study import CaseFile, Device, Factors, Session, Study
from experiments.harness.worker import Task
from experiments.machine.text import factors_text, period_text
from report.core.errors import RidgepointError
from report.core.records.quantities import QUANTITIES
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import CaseLogs, attachment_name, pack
from report.theory.work import macs

_NOT_ASKED: Final = "the run was not asked to count executed work (--counters none)"

#: Counting tool per device; progress shows its first quantity.
TOOLS: Final[dict[Device, Any]] = {"cpu": lackey, "cuda": ncu}


def count(study: Study, session: Session, journal: Journal, observer: Observer) -> str | None:
    """Count the cases that the journal lacks; return a reason if not all could be counted.

    Every count is in the journal before the next case ends.  Raises only interruptions.
    """
    tool = TOOLS[session.device]
    reason: str | None = tool.unavailable()
    task, seconds = counting_task(study, session, journal, None if reason else observer.note)
    if not task.cases:
        return None
    try:
        if reason is None:
            total, done = sum(seconds.values()), 0.0
            observer.begin(
                f"Counting the executed work of {len(task.cases)} cases by {tool.NAME}, "
                f"about {period_text(total)}.",
                "counts",
            )
            with closing(tool.count(study, task)) as counts:
                for case_count in counts:
                    journal.append(case_count)
                    done += seconds[case_count.case]
                    case = factors_text(journal.header.factors[case_count.case])
                    result = next(iter(case_count.missing.values()), "nothing")
                    if samples := case_count.series.get(tool.QUANTITIES[0]):
                        result = f"{samples[0]:,} {QUANTITIES[tool.QUANTITIES[0]].unit}"
                    observer.progressed(f"{case}: {result}", done / total)
    except (RidgepointError, OSError) as error:
        reason = str(error)
    if reason is not None:
        observer.note(f"{tool.NAME} cannot count executed work: {reason}.")
    return reason


def counting_task(
    study: Study, session: Session, journal: Journal, note: Callable[[str], None] | None
) -> tuple[Task, dict[int, float]]:
    """Select the cases that ended well and are not counted yet, shortest first; predict times (s).

    Unless all cases were asked for, those beyond the time for counting are left out; the journal
    says so for each, and ``note`` is called with their number.
    """
    header, tool = journal.header, TOOLS[session.device]
    work = []
    for index, factors in enumerate(header.factors):
        case = journal.finished.get(index)
        if case is None or case.status != "ok" or index in journal.counts:
            continue
        if header.counters != "none" and study.subject and study.plan.is_counted(factors):
            size = multiply_adds(study, factors)
            if size:  # unknown for layers without a description
                work.append((size, index))
    left = inf if header.counters == "all" else tool.BUDGET_S
    seconds, omitted = dict[int, float](), dict[int, float]()
    for size, index in sorted(work):
        predicted = tool.seconds(size)
        left -= predicted
        (seconds if left >= 0 else omitted)[index] = predicted
    cases = {index: header.factors[index] for index in seconds}
    if omitted and note is not None:
        time = period_text(sum(omitted.values()))
        why = f"left out to save time; --counters all counts such cases, in about {time} here"
        for index in omitted:
            journal.append(Count(case=index, missing=dict.fromkeys(tool.QUANTITIES, why)))
        note(f"The executed work of {len(omitted)} cases is {why}.")
    gpu = header.environment.gpu
    if gpu is None:
        session = replace(session, threads=1)
    task = msgspec.structs.replace(
        new_task(study, tool.NAME, session, cases),
        counted=tool.QUANTITIES,
        compute_capability=gpu.compute_capability if gpu else "",
    )
    return task, seconds


def multiply_adds(study: Study, factors: Factors) -> int:
    """Multiply-adds of one call by its layers; a backward pass needs about twice the forward's."""
    mode = build_subject(study, factors, "meta").mode
    passes = 3 if mode in ("forward_backward", "step") else 1
    return passes * sum(map(macs, layers_of_case(study, factors)))


def missing(study: Study, journal: Journal, reason: str | None) -> dict[str, str]:
    """Reasons for missing counts by quantity; ``reason`` explains why no further case was counted.

    A reason that all cases share has the name of the quantity alone.
    """
    if study.subject is not None and journal.header.counters == "none":
        reason = _NOT_ASKED
    tool, counts = TOOLS[journal.header.environment.device], sorted(journal.counts.items())
    reasons = {} if reason is None else dict.fromkeys(tool.QUANTITIES, reason)
    per_case = [set(case_count.missing.items()) for _, case_count in counts]
    common = set.intersection(*per_case) if len(per_case) > 1 else set()
    reasons |= dict(sorted(common))
    for index, case_count in counts:
        for quantity, case_reason in sorted(set(case_count.missing.items()) - common):
            reasons[f"cases[{index}].{quantity}"] = case_reason
    return reasons


def files(journal: Journal) -> Iterator[CaseFile]:
    """Pack the logs that papers read into a file beside the record."""
    logs = [CaseLogs(case=n, logs=count.logs) for n, count in journal.counts.items() if count.logs]
    if logs:
        meaning = "the table that Nsight Compute printed, cut to each case that it counted"
        yield CaseFile(attachment_name(ncu_logs.TOOL), meaning, pack(ncu_logs.TOOL, logs))
