"""What is wrong with a record of the right types: values that cannot be, or contradict each other.

Every fault is «field: what was found», the fields as ``cases[3].series.time[7]``.  Numbers
are bounded so that no computation on them overflows, texts so that a table can print them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from report.records.quantities import LARGEST, QUANTITIES, SHORTEST_S
from report.records.strict import repeated

if TYPE_CHECKING:
    from report.records.record import (
        Attachment,
        Case,
        Ceiling,
        Environment,
        Factor,
        Record,
        Round,
        Series,
    )

LONGEST_NAME: Final = 200
_LONGEST_REASON: Final = 2000


def faults(record: Record) -> Iterator[str]:
    """What the types cannot say."""
    yield from moment_faults({"started": record.started, "finished": record.finished})
    if record.finished < record.started:
        yield f"finished: expected a moment after {record.started}, found {record.finished}"
    yield from _environment_faults(record.environment)
    yield from _number_faults(_numbers(record))
    yield from text_faults(_names(record.environment), LONGEST_NAME)
    for index, ceiling in enumerate(record.ceilings):
        yield from _ceiling_faults(ceiling, f"ceilings[{index}]")
    yield from case_faults(record.cases)
    if record.shard is not None and record.shard.number > record.shard.of:
        yield f"shard.number: expected at most {record.shard.of}, found {record.shard.number}"
    yield from attachment_faults(record.attachments)


def attachment_faults(attachments: Iterable[Attachment]) -> Iterator[str]:
    """Names that stand twice in the archive of a record, where ``record.json`` is its own."""
    if twice := repeated(("record.json", *(attachment.name for attachment in attachments))):
        yield f"attachments: found the name {twice} twice"


def case_faults(cases: Sequence[Case]) -> Iterator[str]:
    """What is wrong with cases, one by one, and which of them are the same."""
    seen: dict[frozenset[tuple[str, Factor]], int] = {}
    for index, case in enumerate(cases):
        for fault in _case_faults(case):
            yield f"cases[{index}].{fault}"
        # 1 and 1.0 are the same level, as for a study that looks a case up.
        first = seen.setdefault(frozenset(case.factors.items()), index)
        if first != index:
            yield f"cases[{index}].factors: found the same combination as in cases[{first}]"


def moment_faults(moments: Mapping[str, str]) -> Iterator[str]:
    """The ``moments`` that are none in UTC, by their names."""
    for name, text in moments.items():
        try:
            datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            yield f"{name}: expected a moment in UTC, found {text!r}"


def _environment_faults(environment: Environment) -> Iterator[str]:
    if (environment.gpu is None) != (environment.device == "cpu"):
        found = "null" if environment.gpu is None else environment.gpu.model
        yield f"environment.gpu: found {found}, which does not fit device {environment.device!r}"
    for name, load in {
        "load_before": environment.load_before,
        "load_after": environment.load_after,
    }.items():
        if load is not None and not 0 <= load <= LARGEST:
            yield f"environment.{name}: expected a finite number of at least 0, found {load}"


def _numbers(record: Record) -> dict[str, float]:
    """The numbers outside the cases that the types leave without an upper bound."""
    environment, protocol = record.environment, record.protocol
    return {
        "environment.threads": environment.threads,
        "environment.memory_bytes": environment.memory_bytes,
        "environment.cpu.cores_available": environment.cpu.cores_available,
        "environment.gpu.memory_bytes": environment.gpu.memory_bytes if environment.gpu else 0,
        "protocol.seed": protocol.seed,
        "protocol.warmup_calls": protocol.warmup_calls,
        "protocol.minimum_samples": protocol.minimum_samples,
        "protocol.maximum_samples": protocol.maximum_samples,
        "protocol.case_budget_s": protocol.case_budget_s,
        "protocol.budget_s": protocol.budget_s or 0,
        **{f"ceilings[{i}].work": one.work for i, one in enumerate(record.ceilings)},
        **{
            f"ceilings[{i}].working_set": one.working_set or 0
            for i, one in enumerate(record.ceilings)
        },
    }


def _names(environment: Environment) -> dict[str, str]:
    """The texts outside the cases that papers print."""
    return {
        "environment.cpu.model": environment.cpu.model,
        "environment.gpu.model": environment.gpu.model if environment.gpu else "",
        "environment.operating_system": environment.operating_system,
        "environment.python": environment.python,
        "environment.torch.version": environment.torch.version,
        "environment.name": environment.name or "",
    }


def _number_faults(numbers: Mapping[str, float]) -> Iterator[str]:
    for place, number in numbers.items():
        if not -LARGEST <= number <= LARGEST:
            yield f"{place}: expected a number of at most 64 bits, found {number}"


def text_faults(texts: Mapping[str, str], longest: int) -> Iterator[str]:
    """The ``texts`` that have more than ``longest`` characters, by their names."""
    for place, text in texts.items():
        if len(text) > longest:
            yield f"{place}: expected at most {longest} characters, found {len(text)}"


def _ceiling_faults(ceiling: Ceiling, where: str) -> Iterator[str]:
    yield from text_faults({f"{where}.instrument": ceiling.instrument or ""}, LONGEST_NAME)
    for index, sample in enumerate(ceiling.samples):
        if not SHORTEST_S <= sample <= LARGEST:
            yield f"{where}.samples[{index}]: expected a positive duration in s, found {sample}"


def _case_faults(case: Case) -> Iterator[str]:
    yield from _outcome_faults(case)
    yield from _factor_faults(case.factors)
    for index, round_ in enumerate(case.rounds):
        disturbance = text_faults({"disturbance": round_.disturbance or ""}, _LONGEST_REASON)
        for fault in (*_outcome_faults(round_), *disturbance):
            yield f"rounds[{index}].{fault}"
    measured = [(round_.policy, round_.process) for round_ in case.rounds]
    if len(set(measured)) < len(measured):
        yield "rounds: found the same process twice under one policy"


def _outcome_faults(found: Case | Round) -> Iterator[str]:
    if found.status == "ok":
        if found.reason is not None:
            yield f"reason: found {found.reason!r}, but what is ok has null here"
    elif found.reason is None:
        yield f"reason: found null, but what is {found.status} needs a reason"
    yield from text_faults({"reason": found.reason or ""}, _LONGEST_REASON)
    for series in found.series:
        if not QUANTITIES[series.quantity].admits(series.samples):
            yield f"series.{series.quantity}{_series_fault(series)}"


def _factor_faults(factors: Mapping[str, Factor]) -> Iterator[str]:
    yield from text_faults({"factors": max(factors, key=len, default="")}, LONGEST_NAME)
    texts = {f"factors.{name}": level for name, level in factors.items() if isinstance(level, str)}
    yield from text_faults(texts, LONGEST_NAME)
    numbers = {f"factors.{n}": level for n, level in factors.items() if not isinstance(level, str)}
    yield from _number_faults(numbers)


def _series_fault(series: Series) -> str:
    """What is wrong with a series that is known to be wrong."""
    quantity = QUANTITIES[series.quantity]
    for index, sample in enumerate(series.samples):
        if not quantity.admits((sample,)):
            return f"[{index}]: {series.quantity} is {quantity.range}, found {sample}"
    return f": {series.quantity} is {quantity.range}, and so must be the sum, which is not"
