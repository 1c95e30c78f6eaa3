"""What is wrong with a record of the right types: parts of it that contradict each other.

Every fault is «field: what was found», the fields as ``cases[3].series.time[7]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from report.records.quantities import QUANTITIES
from report.records.strict import repeated

if TYPE_CHECKING:
    from report.records.record import Attachment, Case, Factor, Record, Round


def faults(record: Record) -> Iterator[str]:
    """What the types cannot say."""
    if record.finished < record.started:
        yield f"finished: expected a moment after {record.started}, found {record.finished}"
    environment = record.environment
    if (environment.gpu is None) != (environment.device == "cpu"):
        found = "null" if environment.gpu is None else environment.gpu.model
        yield f"environment.gpu: found {found}, which does not fit device {environment.device!r}"
    if record.shard is not None and record.shard.number > record.shard.of:
        yield f"shard.number: expected at most {record.shard.of}, found {record.shard.number}"
    yield from case_faults(record.cases)
    yield from attachment_faults(record.attachments)


def attachment_faults(attachments: Iterable[Attachment]) -> Iterator[str]:
    """Names that stand twice in the archive of a record, where ``record.json`` is its own."""
    if twice := repeated(("record.json", *(attachment.name for attachment in attachments))):
        yield f"attachments: found the name {twice} twice"


def case_faults(cases: Sequence[Case]) -> Iterator[str]:
    """What is wrong with cases, one by one, and which of them are the same."""
    seen: dict[frozenset[tuple[str, Factor]], int] = {}
    for index, case in enumerate(cases):
        where = f"cases[{index}]"
        yield from _outcome_faults(case, where)
        for number, round_ in enumerate(case.rounds):
            yield from _outcome_faults(round_, f"{where}.rounds[{number}]")
        measured = {(round_.policy, round_.process) for round_ in case.rounds}
        if len(measured) < len(case.rounds):
            yield f"{where}.rounds: found the same process twice under one policy"
        # 1 and 1.0 are the same level, as for a study that looks a case up.
        first = seen.setdefault(frozenset(case.factors.items()), index)
        if first != index:
            yield f"{where}.factors: found the same combination as in cases[{first}]"


def _outcome_faults(found: Case | Round, where: str) -> Iterator[str]:
    if found.status == "ok" and found.reason is not None:
        yield f"{where}.reason: found {found.reason!r}, but what is ok has null here"
    if found.status != "ok" and found.reason is None:
        yield f"{where}.reason: found null, but what is {found.status} needs a reason"
    for name, samples in found.series.items():
        quantity = QUANTITIES[name]
        if not quantity.admits(samples):
            index = next(i for i, sample in enumerate(samples) if not quantity.admits((sample,)))
            place = f"{where}.series.{name}[{index}]"
            yield f"{place}: {name} is {quantity.range}, found {samples[index]}"
