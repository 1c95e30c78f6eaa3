"""Count the executed operations and memory traffic of cases, in the last step of a run.

The counting tool is ncu on a GPU (``experiments.counters.ncu``) and valgrind's lackey on a CPU
(``experiments.counters.lackey``).  Nothing is timed meanwhile.  The journal receives each count as
soon as it is known, so that an interrupted run can be resumed.

On a CPU, counts are taken from earlier records where possible: with the same instruction set and
version of PyTorch, the same layers and factors execute the same multiply-adds on every processor.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from experiments.counters import lackey, ncu
from experiments.harness.journal import Count, Journal
from experiments.harness.measure import build_subject, layers_of_case
from experiments.harness.processes import new_task
from experiments.harness.progress import Observer
from experiments.harness.study import CaseFile, CounterChoice, Device, Experiment, Session
from experiments.machine.code import ROOT
from experiments.machine.processor import cpu
from experiments.machine.text import factors_text, period_text
from report.core.errors import RidgepointError
from report.core.records.layers import Layer
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Factors, Level, Record, Sample, SeriesByQuantity
from report.core.records.store import read_usable_records
from report.instruments.counters.logs import CaseLogs, attachment_name, pack
from report.instruments.counters.ncu import TOOL as NCU
from report.theory.work import macs

#: Name of the attachment that lists the earlier records from which counts are taken.
EARLIER_COUNTS: Final = "earlier-counts"
#: Vector extensions that valgrind executes.
_VALGRINDS_EXTENSIONS: Final = frozenset({"avx", "avx2", "f16c", "fma", "neon"})

#: Counts of a case (one per call), and the name of the record that contains them.
EarlierCount: TypeAlias = tuple[tuple[Sample, ...], str]
#: Key of the work of a case: cases with equal factors and layers execute the same work.
WorkKey: TypeAlias = tuple[frozenset[tuple[str, Level]], tuple[Layer, ...]]

#: Device → module of its counting tool.
TOOLS: Final[dict[Device, Any]] = {"cpu": lackey, "cuda": ncu}


class Selection(NamedTuple):
    """Cases whose work is wanted, by case number.

    ``earlier`` maps the cases that an earlier record counted to their counts.  ``new`` maps the
    cases to count now, and ``over_budget`` those for which the tool's time limit leaves no time, to
    the predicted time of counting (s), short times first.
    """

    earlier: dict[int, EarlierCount]
    new: dict[int, float]
    over_budget: dict[int, float]

    def seconds(self, tool: Any) -> float:
        """Predict the time for counting all new cases (s)."""
        return tool.START_S + sum(self.new.values()) if self.new else 0.0


def select(
    study: Experiment,
    device: Device,
    cases: Mapping[int, Factors],
    choice: CounterChoice,
    records: Path,
    torch: str,
) -> Selection:
    """Select the cases to count; ``auto`` selects those that the tool's time limit allows.

    ``torch`` is the version of PyTorch.  Cases that cannot be built, that the study does not count,
    or whose work is unknown, are not selected.
    """
    tool, selection = TOOLS[device], Selection(earlier={}, new={}, over_budget={})
    if choice == "none" or study.subject is None:
        return selection
    counts_by_case = earlier_counts(study.name, records, torch) if device == "cpu" else {}
    uncounted = []  # multiply-adds and number of each case
    for index, factors in cases.items():
        if not study.counts_work(factors):
            continue
        with suppress(Exception):
            key = (frozenset(factors.items()), layers_of_case(study, factors))
            if key in counts_by_case:
                selection.earlier[index] = counts_by_case[key]
                continue
            work = multiply_adds(study, factors)
            if work:  # 0 stands for unknown work, of layers without a description
                uncounted.append((work, index))
    seconds_left = inf if choice == "all" else tool.BUDGET_S - tool.START_S
    for work, index in sorted(uncounted):
        predicted = tool.seconds(work)
        seconds_left -= predicted
        selected = selection.new if seconds_left >= 0 else selection.over_budget
        selected[index] = predicted
    return selection


def earlier_counts(study: str, records: Path, torch: str) -> dict[WorkKey, EarlierCount]:
    """Read the study's counts from records with this CPU's instruction set and PyTorch ``torch``.

    The records are in the folder ``records`` and in the project's data.
    """
    counts: dict[WorkKey, EarlierCount] = {}
    own_extensions = _VALGRINDS_EXTENSIONS.intersection(cpu().vector_extensions)
    for folder in {records.resolve(), ROOT / "data"}:
        usable_records, _ = read_usable_records(study, folder, Record)
        for stored in usable_records:
            facts = stored.record.environment
            extensions = _VALGRINDS_EXTENSIONS.intersection(facts.cpu.vector_extensions)
            if stored.edited or (facts.torch.version, extensions) != (torch, own_extensions):
                continue
            for case in stored.record.cases:
                if lackey.MULTIPLY_ADDS in case.series:
                    key = (frozenset(case.factors.items()), case.layers)
                    counts[key] = (tuple(case.series[lackey.MULTIPLY_ADDS]), stored.file)
    return counts


def count(study: Experiment, session: Session, journal: Journal, observer: Observer) -> str | None:
    """Count the executed work of those finished cases whose counts the journal lacks.

    Returns why the tool failed, or None.  Cases left out for lack of time are no failure.
    """
    tool, header = TOOLS[session.device], journal.header
    waiting = {}
    for index, case in sorted(journal.finished_cases.items()):
        if case.status == "ok" and index not in journal.counts:
            waiting[index] = header.factors[index]
    torch, records = header.environment.torch.version, journal.path.parents[1]
    selection = select(study, session.device, waiting, header.counters, records, torch)
    for index, (samples, record) in selection.earlier.items():
        series: SeriesByQuantity = {lackey.MULTIPLY_ADDS: samples}  # only a CPU has earlier counts
        journal.append(Count(case=index, series=series, logs={"record": record}))
    if number := len(selection.earlier):
        observer.note(f"The executed work of {number} cases is known from earlier records.")
    if not selection.new and not selection.over_budget:
        return None
    reason: str | None = tool.unavailable()
    if reason is None and selection.new:
        try:
            _count_new(study, session, journal, selection, observer)
        except (RidgepointError, OSError) as error:
            reason = str(error)
    if reason is not None:
        observer.note(f"{tool.NAME} cannot count executed work: {reason}.")
        return reason
    predicted_seconds = selection.new | selection.over_budget
    if uncounted := predicted_seconds.keys() - journal.counts.keys():
        time = period_text(sum(predicted_seconds[index] for index in uncounted))
        missing = f"not counted within {period_text(tool.BUDGET_S)}; to count all such cases, use "
        missing += f"--counters all (about {time} on this machine)"
        for index in sorted(uncounted):
            journal.append(Count(case=index, missing=dict.fromkeys(tool.QUANTITIES, missing)))
        observer.note(f"The executed work of {len(uncounted)} cases is {missing}.")
    return None


def _count_new(
    study: Experiment, session: Session, journal: Journal, selection: Selection, observer: Observer
) -> None:
    """Count the executed work of as many new cases as time allows, and journal the counts."""
    header, tool, gpu = journal.header, TOOLS[session.device], journal.header.environment.gpu
    limit = inf if header.counters == "all" else tool.BUDGET_S
    session = session if gpu else replace(session, threads=1)  # a CPU counts on one thread
    cases = {index: header.factors[index] for index in selection.new}
    task = msgspec.structs.replace(
        new_task(study, tool.NAME, session, cases),
        counted=tool.QUANTITIES,
        compute_capability=gpu.compute_capability if gpu else "",
    )
    predicted_s = sum(selection.new.values())
    observer.begin(
        f"Counting the executed work of {len(cases)} cases by {tool.NAME}, "
        f"about {period_text(selection.seconds(tool))}.",
        "counts",
    )
    done_s = 0.0
    shown_quantity, *_ = tool.QUANTITIES  # progress shows one quantity of each case
    with closing(tool.count(study, task, limit)) as counts:
        for counted in counts:
            journal.append(counted)
            done_s += selection.new[counted.case]
            result = next(iter(counted.missing.values()), "nothing")
            if samples := counted.series.get(shown_quantity):
                result = f"{samples[0]:,} {QUANTITIES[shown_quantity].unit}"
            case = factors_text(header.factors[counted.case])
            observer.progressed(f"{case}: {result}", done_s / predicted_s)


def multiply_adds(study: Experiment, factors: Factors) -> int:
    """Estimate the multiply-adds of one call of a case."""
    mode = build_subject(study, factors, "meta").mode
    forward = sum(macs(layer) for layer in layers_of_case(study, factors))
    # A backward pass needs twice as many multiply-adds as the forward pass.
    return 3 * forward if mode in ("forward_backward", "step") else forward


def missing_reasons(study: Experiment, journal: Journal, reason: str | None) -> dict[str, str]:
    """Return the reasons for missing counts; ``reason`` is why no further case was counted.

    Keys are ``cases[i].quantity``, or ``quantity`` for a reason that all of several cases share.
    """
    if study.subject is not None and journal.header.counters == "none":
        reason = "the run was not asked to count executed work (--counters none)"
    tool, counts = TOOLS[journal.header.environment.device], sorted(journal.counts.items())
    reasons = {} if reason is None else dict.fromkeys(tool.QUANTITIES, reason)
    per_case = [set(case_count.missing.items()) for _, case_count in counts]
    common = set.intersection(*per_case) if len(per_case) > 1 else set()
    reasons |= dict(sorted(common))
    for index, case_count in counts:
        for quantity, case_reason in sorted(case_count.missing.items()):
            if (quantity, case_reason) not in common:
                reasons[f"cases[{index}].{quantity}"] = case_reason
    return reasons


def files(journal: Journal) -> Iterator[CaseFile]:
    """Yield one file with ncu's tables or the earlier records' names; nothing if there are none."""
    logs = [CaseLogs(case=n, logs=count.logs) for n, count in journal.counts.items() if count.logs]
    if not logs:
        return
    content = EARLIER_COUNTS
    meaning = "the earlier record from which the executed work of each case is taken"
    if journal.header.environment.device == "cuda":
        content = NCU
        meaning = "the table that Nsight Compute printed, cut to each case that it counted"
    yield CaseFile(attachment_name(content), meaning, pack(content, logs))
