"""Forecast a run within seconds of its start: its time, memory and disk, and how noisy it is.

The time of a call comes from the newest record with the same case, so that what other programs do
at this moment does not change it.  A case without a record is expected to use its whole budget.
"""

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import prod
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

from experiments.counters.counting import TOOLS, select
from experiments.harness import rounds
from experiments.harness.measure import build_subject
from experiments.harness.progress import Stage
from experiments.harness.request import Request, available_policies
from experiments.harness.study import CeilingSize, Experiment, is_selected, main_policy
from experiments.harness.timing import WARMUP_SHARE
from experiments.machine import limits, quiet, runtime
from experiments.machine.code import ROOT
from experiments.machine.text import factors_text, first_line, period_text
from report.core.errors import MeasurementError
from report.core.records.record import Factors, Level, Protocol, Record
from report.core.records.store import Stored, survey

#: Time for observing other programs (s).
_WATCHED_S: Final = 0.5
#: Time of all ceilings of each size (s), without the start of their process.
_CEILINGS_S: Final[dict[CeilingSize, float]] = {"large": 20.0, "small": 4.0, "none": 0.0}
#: Time to start a process, without its imports, and time to profile a call (s).
_START_S: Final = 0.5
_PROFILE_S: Final = 0.3
#: Time of a call that no record has, where its memory is measured (s).
_CALL_S: Final = 0.03
#: Bytes of one sample in a record, and of a record without its samples.
_SAMPLE_B: Final = 30
_RECORD_B: Final = 10**6

#: Time of a call (s) by the levels of the case.
Calls: TypeAlias = Mapping[frozenset[tuple[str, Level]], float]


def forecast(request: Request, note: Callable[[str], None]) -> dict[Stage, float]:
    """Print what a run will need; return the expected time of each step (s).

    Raises ``UsageError`` for a wrong request, and ``MeasurementError`` if the run cannot succeed.
    """
    started = time.monotonic()
    study, planned, cases = request.select()
    request.select_shard()
    if request.quick:  # before the seconds in which torch is imported
        claims = "; ".join(study.plan.quick_claims) or "none that its study names"
        note(f"Claims that this quick run can decide: {claims}.")
    threads = runtime.checked_threads(request.threads)
    torch = runtime.start_torch(request.device, threads)
    start_s = time.monotonic() - started + _START_S
    protocol = available_policies(planned, request.device)[0]
    _check_cases(study, cases, note)
    _check_disk(request.records, protocol, len(cases))
    noise = None if quiet.unavailable() else quiet.watch(threads, _WATCHED_S)
    if noise:
        note(f"The machine is busy: {noise}. Intervals will be wider; --wait-quiet 10 waits.")
    calls = recorded_calls(study.name, request)
    seconds = _expected(study, cases, protocol, calls, start_s, noisy=noise is not None)
    if study.subject and not (tool := TOOLS[request.device]).unavailable():
        numbered, choice = dict(enumerate(cases)), request.counter_choice
        version = str(torch.__version__)
        selection = select(study, request.device, numbered, choice, request.records, version)
        seconds["counts"] = selection.seconds(tool)
    processes = " and ".join(f"{n} {policy}" for policy, n in protocol.processes.items())
    known = sum(frozenset(factors.items()) in calls for factors in cases)
    counts = f"{len(cases)} cases ({known} timed in earlier records)"
    note(f"About {period_text(sum(seconds.values()))}: {counts}; processes: {processes}.")
    return seconds


def recorded_calls(study: str, request: Request) -> Calls:
    """Read the median time of a call of each case from the newest record on such a device."""
    listed: list[Stored] = []
    for folder in {request.records.resolve(), ROOT / "data"}:
        listed += survey(study, folder, Record)[0]
    calls = {}
    for stored in sorted(listed, key=attrgetter("record.started")):
        if stored.record.environment.device != request.device:
            continue
        for case in stored.record.cases:
            if samples := case.samples("time"):
                calls[frozenset(case.factors.items())] = median(samples)
    return calls


def _size(factors: Factors) -> float:
    """Multiply all levels that are numbers."""
    return prod(level for level in factors.values() if not isinstance(level, str))


def _check_cases(study: Experiment, cases: Sequence[Factors], note: Callable[[str], None]) -> None:
    """Build the smallest and largest case on the meta device; check the memory of the largest.

    Raises ``MeasurementError`` if neither can be built.
    """
    if study.subject is None:
        return
    ordered = sorted(cases, key=_size)
    reasons = {}
    for factors in (ordered[0], ordered[-1]):
        try:
            subject = build_subject(study, factors, "meta")
        except Exception as error:
            reasons[factors_text(factors)] = f"{type(error).__name__}: {first_line(str(error))}"
            continue
        tensors = (*subject.module.parameters(), *subject.module.buffers(), subject.inputs)
        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if needed > (available := limits.available_memory()):
            note(
                f"{factors_text(factors)} needs more than {needed / 1e9:.1f} GB, and "
                f"{available / 1e9:.1f} GB are free; the case will end as out of memory."
            )
    for name, reason in reasons.items():
        note(f"{name} cannot be built: {reason}")
    if len(reasons) == 2 or (reasons and len(ordered) == 1):
        raise MeasurementError(
            f"experiments/{study.name}.py: neither the smallest nor the largest case can be built; "
            "correct the function «subject»."
        )


def _check_disk(records: Path, protocol: Protocol, cases: int) -> None:
    """Raise ``MeasurementError`` if the disk has no room for the record."""
    folder = next(path for path in (records, *records.resolve().parents) if path.exists())
    samples = cases * protocol.maximum_samples * sum(protocol.processes.values())
    needed = _RECORD_B + _SAMPLE_B * samples
    if (free := shutil.disk_usage(folder).free) < needed:
        raise MeasurementError(
            f"{folder}: {free / 1e6:.0f} MB are free and the record needs about "
            f"{needed / 1e6:.0f} MB; delete files, or give --records a folder on another disk."
        )


def case_time(call: float | None, protocol: Protocol) -> float:
    """Forecast the time of a case in one process (s), from the time of a call if it is known."""
    budget = protocol.case_budget_s
    if call is None:
        return (1 + WARMUP_SHARE) * budget
    warmup = max((protocol.warmup_calls + 1) * call, min(5 * call, WARMUP_SHARE * budget))
    samples = min(protocol.maximum_samples * call, budget)
    return warmup + max(samples, protocol.minimum_samples * call)


def _expected(
    study: Experiment,
    cases: Sequence[Factors],
    protocol: Protocol,
    calls: Calls,
    start_s: float,
    *,
    noisy: bool,
) -> dict[Stage, float]:
    """Forecast the times (s) of two steps: memory, with all ceilings, and the timed processes."""
    memory = start_s + 2 * _CEILINGS_S[study.plan.ceilings]
    memory += 2 * start_s if study.plan.ceilings != "none" else 0.0
    one_round = defaultdict[str, float](float)
    for factors in cases:
        call = calls.get(frozenset(factors.items()))
        if study.subject or study.plan.memory:
            memory += _PROFILE_S + 6 * (_CALL_S if call is None else call)
        policies = study.policies(factors)
        for policy in protocol.processes:
            if is_selected(policies, policy, main_policy(protocol)):
                one_round[policy] += case_time(call, protocol)
    planned = sum(n * one_round[policy] for policy, n in protocol.processes.items())
    once = sum(one_round.values())
    limit = protocol.budget_s or planned
    used = [policy for policy in protocol.processes if one_round[policy]]
    turns = sum(protocol.processes[policy] for policy in used)
    if noisy:
        turns += rounds.REPEATS * len(used)
        planned += rounds.REPEATS * once
        limit *= 1 + rounds.REPEAT_SHARE
    return {"memory": memory, "times": max(min(planned, limit), once) + turns * start_s}
