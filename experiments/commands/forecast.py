"""Forecast of a run, in the first seconds: time, memory, disk space, and noise of the machine.

The smallest and the largest case are built.  On a CPU, the smallest and the largest case of each
kind are also called in a child process, and the times of all other cases are interpolated by size.
(Cases of a kind differ only in numbers, such as the batch size.)  Other programs are assumed to
slow all other steps as much as the import of PyTorch.  A full run first samples the scatter of
times, to choose the number of pairs of processes that compare memory policies.
"""

import os
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf, prod
from pathlib import Path
from statistics import fmean, median
from typing import Final, NamedTuple, NoReturn, TypeAlias

import msgspec

from experiments.counters.counting import TOOLS, select
from experiments.harness import rounds, worker
from experiments.harness.measure import build_subject, build_workload
from experiments.harness.memory import MEASUREMENTS
from experiments.harness.processes import new_task, run_cases
from experiments.harness.progress import Observer, Stage, measured_text
from experiments.harness.request import Request, available_policies
from experiments.harness.study import CeilingSize, Experiment, Session
from experiments.harness.timing import WARMUP_SHARE
from experiments.machine import limits, quiet, runtime
from experiments.machine.text import factors_text, first_line, period_text
from report.core.errors import MeasurementError
from report.core.records.record import Factors, Policy, Protocol
from report.instruments import comparison

#: Longest time for the trial calls of all cases (s).
_CALLS_S: Final = 3.0
#: Time for observing other programs (s).
_OBSERVATION_S: Final = 0.5
#: Pairs of child processes whose times are compared before a run, to see how they scatter.
_TRIALS: Final = 6
#: Time to measure a case of a comparison in a trial (s).
_COMPARISON_S: Final = 0.2
#: Largest time of an empty call as a share of a compared call.
_EMPTY_SHARE: Final = 0.02
#: Largest number of timed calls of a case.
_TRIAL_CALLS: Final = 5
#: Longest time of the timed calls of a case (s).
_TRIAL_S: Final = 0.5
#: Time to measure all ceilings, by size (s), without the start of the process.
_CEILINGS_S: Final[dict[CeilingSize, float]] = {"large": 20.0, "small": 4.0, "none": 0.0}
#: Time to start a process, without its imports (s).
_START_S: Final = 0.5
#: Time to profile a call (s).
_PROFILE_S: Final = 0.3
#: Time to write the record and to evaluate the study's claims for it (s).
_CLAIMS_S: Final = 3.0


class CaseTimes(NamedTuple):
    """Size of a case, and how long it takes (s): memory, times in one process, and one call."""

    size: float
    memory_s: float
    process_s: float
    call_s: float = 0.0


#: Kind of a case: its factors with words as levels.
Kind: TypeAlias = tuple[tuple[str, str], ...]


def forecast(request: Request, note: Callable[[str], None]) -> tuple[Request, dict[Stage, float]]:
    """Print the needs of a run; return the request and the expected time of each step (s).

    The returned request has the number of pairs of processes that the study's claims need, and for
    a quick run the number of free processors.  Raises ``UsageError`` for a wrong request, and
    ``MeasurementError`` if the run cannot succeed.
    """
    started, processor_time = time.monotonic(), time.process_time()
    study, planned, cases = request.select()
    request.select_shard()  # raises for too many shards
    if request.quick:  # printed before importing torch, which takes seconds
        claims = "; ".join(study.plan.quick_claims) or "none that its study names"
        note(f"Claims that this quick run can decide: {claims}.")
        request = _use_free_processors(request, note)
    threads = runtime.checked_threads(request.threads)
    torch = runtime.start_torch(request.device, threads)
    import_s = time.monotonic() - started
    slowdown = max(1.0, import_s / (time.process_time() - processor_time))  # by other programs
    start_s = import_s + slowdown * _START_S
    protocol = available_policies(planned, request.device)[0]
    kinds = _by_kind(cases)
    _check_cases(study, cases, note)
    _check_disk(request.records, protocol, len(cases))
    noise = _note_noise(threads, note)
    session = Session(request.device, protocol, threads=threads)
    timed = _time_kinds(study, kinds, session)
    expected = [_interpolated(timed, factors, protocol) for factors in cases]
    round_s = dict.fromkeys(protocol.processes, 0.0)  # time of one process that times all cases
    for factors, times in zip(cases, expected, strict=True):
        for policy in study.policies(factors, protocol):
            round_s[policy] += times.process_s
    request = _choose_pairs(request, study, session, round_s, start_s, note)
    processes = study.processes(protocol, request.pairs or 0)
    protocol = msgspec.structs.replace(protocol, processes=processes)
    seconds = _expected_seconds(
        study, expected, protocol, round_s, start_s, slowdown, noisy=bool(noise)
    )
    tool = TOOLS[request.device]
    if study.subject and not tool.unavailable():
        numbered, choice = dict(enumerate(cases)), request.counter_choice
        version = str(torch.__version__)
        selection = select(study, request.device, numbered, choice, request.records, version)
        seconds["counts"] = selection.seconds(tool)
    counts = " and ".join(f"{n} {policy}" for policy, n in processes.items())
    load = " at the present load" if noise else ""
    period = period_text(sum(seconds.values()) + slowdown * _CLAIMS_S)
    note(f"About {period}{load}: {len(cases)} cases; processes: {counts}.")
    return request, seconds


def _use_free_processors(request: Request, note: Callable[[str], None]) -> Request:
    """Set the threads of a quick run to the number of free processors, unless the user set them.

    A thread that shares its processor delays all threads of a parallel loop.  The times of six
    processes then scatter too widely to decide a claim.
    """
    if request.threads or request.shard or request.device != "cpu" or quiet.unavailable():
        return request
    free, cores = quiet.free_processors(_OBSERVATION_S), runtime.checked_threads(None)
    if free == cores:
        return request
    note(f"Other programs leave {free} of {cores} processors: --threads {free} for this quick run.")
    return replace(request, threads=free)


def _note_noise(threads: int, note: Callable[[str], None]) -> str | None:
    """Print and return the present disturbance by other programs; None on a quiet machine."""
    noise = None if quiet.unavailable() else quiet.watch(threads, _OBSERVATION_S)
    if noise:
        note(f"The machine is busy: {noise}. Intervals will be wider; --wait-quiet 10 waits.")
    return noise


def _by_kind(cases: Sequence[Factors]) -> dict[Kind, list[Factors]]:
    """Group the cases by kind; each group is sorted from small to large."""
    kinds = defaultdict[Kind, list[Factors]](list)
    for factors in sorted(cases, key=_size):
        words = ((name, level) for name, level in factors.items() if isinstance(level, str))
        kinds[tuple(words)].append(factors)
    return dict(kinds)


def _size(factors: Factors) -> float:
    """Return the product of all levels that are numbers."""
    return prod(level for level in factors.values() if not isinstance(level, str))


def _check_cases(study: Experiment, cases: Sequence[Factors], note: Callable[[str], None]) -> None:
    """Build the smallest and largest case on the meta device; note if memory will run out.

    Raises ``MeasurementError`` if neither case can be built.
    """
    if study.subject is None:
        return
    built = 0
    for factors in (min(cases, key=_size), max(cases, key=_size)):
        try:
            subject = build_subject(study, factors, "meta")
        except Exception as error:
            reason = f"{type(error).__name__}: {first_line(str(error))}"
            note(f"{factors_text(factors)} cannot be built: {reason}")
            continue
        built += 1
        tensors = (*subject.module.parameters(), *subject.module.buffers(), subject.inputs)
        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        available = limits.available_memory()
        if needed > available:
            note(
                f"{factors_text(factors)} needs more than {needed / 1e9:.1f} GB, and "
                f"{available / 1e9:.1f} GB are free; the case will end as out of memory."
            )
    if not built:
        raise MeasurementError(
            f"experiments/{study.name}.py: neither the smallest nor the largest case can be built; "
            "correct the function «subject»."
        )


def _check_disk(records: Path, protocol: Protocol, cases: int) -> None:
    """Raise ``MeasurementError`` if the disk has too little space for the record."""
    folder = next(path for path in (records, *records.resolve().parents) if path.exists())
    samples = cases * protocol.maximum_samples * sum(protocol.processes.values())
    needed = 10**6 + 30 * samples  # bytes of a record without samples, and bytes per sample
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise MeasurementError(
            f"{folder}: {free / 1e6:.0f} MB are free and the record needs about "
            f"{needed / 1e6:.0f} MB; delete files, or give --records a folder on another disk."
        )


def _time_kinds(
    study: Experiment, kinds: Mapping[Kind, Sequence[Factors]], session: Session
) -> dict[Kind, list[CaseTimes]]:
    """Time the smallest and largest case of each kind for ``_CALLS_S``; time none on a GPU."""
    timed = defaultdict[Kind, list[CaseTimes]](list)
    end = time.monotonic() + _CALLS_S
    if not worker.can_fork(session.device):
        return timed
    for index in (0, -1):  # the smallest cases of all kinds, then the largest
        for kind, group in kinds.items():
            seconds_left = end - time.monotonic()
            if seconds_left > 0 and (index == 0 or len(group) > 1):
                timed[kind] += _time_case(study, group[index], session, ceil(seconds_left))
    return timed


def _time_case(
    study: Experiment, factors: Factors, session: Session, limit_s: int
) -> list[CaseTimes]:
    """Time a case in a child process, up to ``limit_s``; return no times if the case fails."""
    reading, writing = os.pipe()
    start = time.monotonic()

    def stop(number: int, frame: object) -> NoReturn:
        raise RuntimeError("the case takes too long")

    def measure() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the run itself reports why a case fails
        if study.subject is None:  # the case may start processes, which only an exception ends
            signal.signal(signal.SIGALRM, stop)
        os.write(writing, msgspec.json.encode(_trial(study, factors, session)))

    child = worker.fork(measure, limit_s)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    if text:
        return [msgspec.json.decode(text, type=CaseTimes)]
    is_late = time.monotonic() - start >= limit_s  # then the limit stands for the case's time
    return [CaseTimes(_size(factors), memory_s=0.0, process_s=limit_s)] if is_late else []


def _trial(study: Experiment, factors: Factors, session: Session) -> CaseTimes:
    """Time a few calls of a case, or the study's own functions that measure it."""
    plan, protocol, start = study.plan, session.protocol, time.monotonic()
    if study.subject is None:
        if plan.memory:
            plan.memory(factors, session)
        memory_end = time.monotonic()
        if plan.times and study.policies(factors, protocol):
            plan.times(factors, replace(session, process=1))
        return CaseTimes(_size(factors), memory_end - start, time.monotonic() - memory_end)
    workload = build_workload(study, factors, session.device)
    build = time.monotonic() - start
    workload.once()  # a warm-up
    durations: list[float] = []
    while not durations or (len(durations) < _TRIAL_CALLS and sum(durations) < _TRIAL_S):
        start = time.monotonic()
        workload.once()
        durations.append(time.monotonic() - start)
    call = fmean(durations)
    memory = MEASUREMENTS * (build + 2 * call)  # each builds the case and profiles a call
    process = _process_time(build, call, protocol)
    return CaseTimes(_size(factors), memory, process, median(durations))


def _process_time(build: float, call: float, protocol: Protocol) -> float:
    """Forecast a case's time in one process from the times to build and to call the case (s)."""
    budget = protocol.case_budget_s
    warmup = max((protocol.warmup_calls + 1) * call, min(5 * call, WARMUP_SHARE * budget))
    samples = min(protocol.maximum_samples * call, budget)
    return build + warmup + max(samples, protocol.minimum_samples * call)


def _interpolated(
    timed: Mapping[Kind, list[CaseTimes]], factors: Factors, protocol: Protocol
) -> CaseTimes:
    """Interpolate a case's times from timed cases of its kind, else from the means of all kinds."""
    kind, size = next(iter(_by_kind([factors]))), _size(factors)
    groups = [timed[kind]] if timed.get(kind) else [times for times in timed.values() if times]
    if not groups:
        return CaseTimes(size, _PROFILE_S, (1 + WARMUP_SHARE) * protocol.case_budget_s)
    small = _mean_times([times[0] for times in groups])
    large = _mean_times([times[-1] for times in groups])
    share = (size - small.size) / (large.size - small.size) if large.size > small.size else 0.0
    memory = small.memory_s + share * (large.memory_s - small.memory_s)
    process = small.process_s + share * (large.process_s - small.process_s)
    return CaseTimes(size, max(memory, 0.0), max(process, 0.0))


def _mean_times(times: Sequence[CaseTimes]) -> CaseTimes:
    columns = zip(*times, strict=True)
    return CaseTimes(*(fmean(column) for column in columns))


def _expected_seconds(
    study: Experiment,
    expected: Sequence[CaseTimes],
    protocol: Protocol,
    round_s: Mapping[Policy, float],
    start_s: float,
    slowdown: float,
    *,
    noisy: bool,
) -> dict[Stage, float]:
    """Forecast the times (s) of two steps: memory (with all peak rates) and timed processes.

    ``round_s`` is the time of one process that times all cases, ``start_s`` the time of its start.
    """
    size = study.plan.ceilings
    memory = start_s
    if size != "none":  # peak rates are measured before and after the cases, in new processes
        memory += 2 * (start_s + slowdown * _CEILINGS_S[size])
    if study.subject or study.plan.memory:
        memory += sum(slowdown * _PROFILE_S + times.memory_s for times in expected)
    measuring = starting = 0.0
    for policy, seconds in round_s.items():
        if seconds:
            processes = protocol.processes[policy]
            if noisy:  # beside one busy processor of two, cases were measured again in every round
                processes += min(rounds.MAX_REPEATS, processes)
            measuring += processes * seconds
            starting += processes * start_s
    limit = (protocol.budget_s or inf) * (1 + rounds.REPEAT_SHARE * noisy)
    measuring = max(min(measuring, limit), sum(round_s.values()))
    return {"memory": memory, "times": measuring + starting}


def _choose_pairs(
    request: Request,
    study: Experiment,
    session: Session,
    round_s: Mapping[Policy, float],
    start_s: float,
    note: Callable[[str], None],
) -> Request:
    """Choose how many pairs of processes a full run needs to decide differences of the margin.

    Pairs of child processes call the same case, so the true ratio of their times is 1 and the
    sampled ratios show the scatter.  The choice precedes the run, so that no result decides when
    the run ends.
    """
    protocol, margin = session.protocol, study.plan.margin
    compared = [policy for policy in protocol.processes if policy in study.plan.quick.processes]
    if not (margin and compared and worker.can_fork(session.device)):
        return request
    if request.pairs or request.shard or protocol.plan != "full":
        return request
    quick_cases = study.cases(study.levels(quick=True))
    cases = [factors for factors in quick_cases if study.policies(factors, protocol)]
    middle = sorted(cases, key=_size)[len(cases) // 2]
    ratios = []
    for _ in range(_TRIALS):
        # The ratio of two measurements of one case shows the scatter.
        first = _time_case(study, middle, session, ceil(_CALLS_S))
        second = _time_case(study, middle, session, ceil(_CALLS_S))
        if not (first and second and first[0].call_s and second[0].call_s):
            return request
        ratios.append(first[0].call_s / second[0].call_s)
    deviation = comparison.scatter(ratios)
    needed = comparison.pairs_needed(deviation, margin) or comparison.MOST_PAIRS
    planned = min(protocol.processes[policy] for policy in compared)
    planned_s = sum(count * round_s[policy] for policy, count in protocol.processes.items())
    remaining_s = max((protocol.budget_s or inf) - planned_s, 0.0)
    pair_s = sum(round_s[policy] + start_s for policy in compared)
    affordable = planned + remaining_s / pair_s
    pairs = max(planned, int(min(needed, affordable)))
    power = comparison.power_text(deviation, pairs, margin)
    note(f"Comparing processes with memory policies {' and '.join(compared)}: {power}.")
    return replace(request, pairs=pairs)


def forecast_comparison(request: Request, observer: Observer, *, may_fail: bool) -> None:
    """Print which differences between functions a comparison can decide, after short trials.

    The last case compares the baseline with itself, so the ratios of its trials show the scatter.
    Trials are not part of the result.  Unless cases ``may_fail``, all remaining cases are tried
    before it.
    Raises ``MeasurementError`` if a tried case fails.
    """
    study, planned, selected = request.select()
    *candidates, baseline_again = selected
    threads = runtime.checked_threads(request.threads)
    protocol, _ = available_policies(planned, request.device)
    trial = msgspec.structs.replace(protocol, case_budget_s=_COMPARISON_S, maximum_samples=10)
    session = Session(request.device, trial, threads=threads, process=1)
    # A comparison has one policy, under which each process is a pair of processes.
    policy, pairs = next(iter(protocol.processes.items()))
    cases = [baseline_again] * _TRIALS
    if not may_fail:
        cases = [*candidates, *cases]
    task = new_task(study, "time", session, dict(enumerate(cases)), policy)
    trials = []
    for result in run_cases(study, task, observer.debug):
        reason = result.round.reason
        if reason:
            function = cases[result.case]["function"]
            raise MeasurementError(f"{function}: {reason}. Correct it; nothing was measured.")
        trials.append(result.round)
    deviation = comparison.scatter(comparison.speed_ratio(trial) for trial in trials[-_TRIALS:])
    margin = float(baseline_again["margin"])
    observer.note(f"{comparison.power_text(deviation, pairs, margin)}.")
    empty = median(trials[-1].samples("round_trip_time"))
    call = median(trials[-1].samples("time"))
    if empty > _EMPTY_SHARE * call:
        observer.note(
            f"A call takes {measured_text(call, 's')}, and a call that computes nothing takes "
            f"{measured_text(empty, 's')}, so that ratios are too near to 1; let a call do more."
        )
    _note_noise(threads, observer.note)
