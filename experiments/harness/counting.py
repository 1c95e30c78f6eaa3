"""The last step of a run: the executed work of its cases, by whatever counts it on this machine.

Nothing here is timed, and nothing that is timed runs meanwhile.  What has been counted of a case
stands in the journal before the next one ends, so that an interrupted run is continued here too.

On a GPU that is ncu (``experiments.harness.ncu``).  On a processor valgrind's lackey needs no
hardware counters.  It counts operations of valgrind's intermediate language by the type of their
result; a fused multiply-add of 4 or 8 float32 lanes is lowered to one operation a lane, and a
scalar one to one, with a result of type F32, which is what is read.  Facts of that language that
decide what the figure is (``lk_main.c`` and ``guest_amd64_toIR.c`` of valgrind 3.19):

- Loads, stores and moves between registers stand in other columns; a conversion to float32 and a
  choice between two float32 values stand in this one.  PyTorch converts two factors for every
  matrix product (``c10::Scalar::toFloat``), so that a linear layer counts two more.
- A separate vector addition or multiplication has a result of type V128 or V256, as logic and
  shuffles have, so that it cannot be told from them and is not counted.  MKL multiplies some small
  matrices so, and then next to nothing is counted.
- The first call of a case also makes its kernel: for a convolution in channels_last oneDNN weighs
  block sizes with float32 figures.  Hence a second call is counted.

Importing torch takes a minute under it, so that one process serves all cases, on one thread and as
many at once as there are cores.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from experiments.harness import ncu, runtime
from experiments.harness.journal import Count, Journal, Message
from experiments.harness.measure import layers_of_case, subject_of
from experiments.harness.processes import measured, task_of
from experiments.harness.progress import Observer
from experiments.harness.study import CaseFile, Device, Factors, Session, Study
from experiments.harness.text import factors_text
from experiments.harness.worker import Role, Task
from report.errors import RidgepointError
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import CaseLogs, attachment_name, pack
from report.records.quantities import QUANTITIES
from report.records.record import Case
from report.theory.work import macs

_LACKEY: Final = ("valgrind", "--tool=lackey", "--basic-counts=no", "--detailed-counts=yes")
#: A call is a thousand times slower under lackey: 64 images of conv_scaling's layer forward, 16
#: with their gradients, so that a full plan stays within minutes.
_LARGEST_UNDER_LACKEY: Final = 700e6
#: ncu only replays each kernel; more work is that of networks, with a thousand of them.
_LARGEST_TWICE: Final = 60e9
_MULTIPLY_ADDS: Final = "lackey_multiply_adds"
_NOT_ASKED: Final = "the run was not asked to count executed work (--counters none)"


@dataclass(frozen=True)
class Tool:
    """A program that counts ``quantities``, of which the first is told while it runs.

    ``calls`` says how often a case of so many multiply-adds is called, 0 for one that takes too
    long; ``count`` yields what was counted of each case.
    """

    name: Role
    quantities: tuple[str, ...]
    unavailable: Callable[[], str | None]
    calls: Callable[[int], int]
    count: Callable[[Study, Task], Generator[Message, None, None]]


def lackey_unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; None where it can."""
    if not hasattr(os, "fork"):
        return "valgrind does not run on this system"
    if shutil.which("valgrind") is None:
        return "valgrind is not installed; install it with: apt-get install valgrind"
    return None


def count_with_lackey(study: Study, task: Task) -> Generator[Message, None, None]:
    """Run ``task`` under lackey, which writes a log for each process."""
    return measured(
        study, task, lambda said: None, lambda folder: (*_LACKEY, f"--log-file={folder}/%p.log")
    )


LACKEY: Final = Tool(
    name="lackey",
    quantities=(_MULTIPLY_ADDS,),
    unavailable=lackey_unavailable,
    calls=lambda work: 2 if work <= _LARGEST_UNDER_LACKEY else 0,
    count=count_with_lackey,
)
NCU: Final = Tool(
    name="ncu",
    quantities=ncu_logs.QUANTITIES,
    unavailable=ncu.unavailable,
    calls=lambda work: 2 if work <= _LARGEST_TWICE else 1,
    count=ncu.count,
)
TOOLS: Final[dict[Device, Tool]] = {"cpu": LACKEY, "cuda": NCU}


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
            observer.begin(f"Counting the executed work of {len(task.cases)} cases by {tool.name}.")
            with closing(tool.count(study, task)) as messages:
                counts = (each for each in messages if isinstance(each, Count))
                for done, found in enumerate(counts, 1):
                    journal.append(found)
                    text = (
                        f"{factors_text(journal.header.factors[found.case])}: {_told(found, tool)}"
                    )
                    observer.progressed(text, done / len(task.cases))
    except (RidgepointError, OSError) as error:
        reason = str(error)
    if reason is not None:
        observer.note(f"{tool.name} counts nothing here: {reason}.")
    return reason


def _told(found: Count, tool: Tool) -> str:
    first = tool.quantities[0]
    if samples := found.series.get(first):
        return f"{samples[0]:,} {QUANTITIES[first].unit}"
    return next(iter(found.missing.values()))


def to_count(study: Study, session: Session, journal: Journal) -> Task:
    """The cases to count that ended well and are not counted yet, longest first."""
    header, tool, jobs = journal.header, TOOLS[session.device], []
    for index, factors in enumerate(header.factors):
        measured = journal.finished.get(index)
        well = measured is not None and measured.status == "ok" and index not in journal.counts
        if well and header.counters != "none" and study.subject and study.is_counted(factors):
            work = multiply_adds(study, factors)
            if calls := tool.calls(work):
                jobs.append((-calls * work, index, calls))
    jobs.sort()
    cases, gpu = {index: header.factors[index] for _, index, _ in jobs}, header.environment.gpu
    if gpu is None:
        session = replace(session, threads=1)
    return msgspec.structs.replace(
        task_of(study, tool.name, session, cases),
        counted=tool.quantities,
        calls=tuple(calls for _, _, calls in jobs),
        at_once=runtime.cores_available(),
        compute_capability=gpu.compute_capability if gpu else "",
    )


def multiply_adds(study: Study, factors: Factors) -> int:
    """Those of one call by its layers; backward there are about twice as many again."""
    mode = subject_of(study, factors, "meta").mode
    passes = 3 if mode in ("forward_backward", "step") else 1
    return passes * sum(map(macs, layers_of_case(study, factors)))


def added(
    study: Study, journal: Journal, cases: Sequence[Case], reason: str | None
) -> tuple[tuple[Case, ...], dict[str, str]]:
    """The cases with what was counted of them, and why something was not, by quantity.

    ``reason`` says why nothing, or no more, was counted.
    """
    counts, tool = journal.counts, TOOLS[journal.header.environment.device]
    if study.subject is not None and journal.header.counters == "none":
        reason = _NOT_ASKED
    missing = {} if reason is None else dict.fromkeys(tool.quantities, reason)
    missing |= _once({index: counts[index].missing for index in sorted(counts)})
    found = (
        msgspec.structs.replace(case, series=case.series | counts[index].series)
        if index in counts
        else case
        for index, case in enumerate(cases)
    )
    return tuple(found), missing


def files(journal: Journal) -> Iterator[CaseFile]:
    """What papers read of the logs, as a file beside the record."""
    logs = [CaseLogs(case=n, logs=count.logs) for n, count in journal.counts.items() if count.logs]
    if logs:
        meaning = "the table that Nsight Compute printed, cut to each case that it counted"
        yield CaseFile(attachment_name(ncu_logs.TOOL), meaning, pack(ncu_logs.TOOL, logs))


def _once(missing: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """What all cases lack for the same reason under the quantity alone, the rest by case."""
    per_case = [set(reasons.items()) for reasons in missing.values()]
    common = set.intersection(*per_case) if len(per_case) > 1 else set()
    reasons = dict(sorted(common))
    for index, own in missing.items():
        left = sorted(set(own.items()) - common)
        reasons |= {f"cases[{index}].{quantity}": reason for quantity, reason in left}
    return reasons
