"""Forecast a run in its first seconds: time, memory, disk space, and noise of the machine.

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
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from math import inf, prod
from pathlib import Path
from statistics import fmean, median
from typing import Final, NamedTuple, TypeAlias

import msgspec

from experiments.counters.counting import TOOLS, select
from experiments.harness import rounds, worker
from experiments.harness.measure import build_subject, build_workload
from experiments.harness.memory import MEASUREMENTS
from experiments.harness.processes import new_task, run_cases
from experiments.harness.progress import Observer, Stage, measured_text
from experiments.harness.request import Request, available_policies
from experiments.harness.study import CeilingSize, Experiment, Session
from experiments.harness.timing import WARMUP_SHARE, cpu_clock
from experiments.machine import limits, quiet, runtime
from experiments.machine.text import factors_text, first_line, period_text
from report.core.errors import MeasurementError
from report.core.records.record import Factors, Policy, Protocol, Round
from report.instruments import comparison

#: Longest time for the trial calls of all cases (s).
_CALLS_S: Final = 3
#: Time for observing other programs (s).
_OBSERVATION_S: Final = 0.5
#: Pairs of child processes that are compared before a run, to see how their times scatter.
_TRIAL_PAIRS: Final = 6
#: Time to measure a case in one of these child processes (s).
_TRIAL_S: Final = 0.2
#: A warning is printed if a call that computes nothing takes more than this share of a call.
_EMPTY_CALL_SHARE: Final = 0.02
#: Time to measure all ceilings, by size (s), without the start of the process.
_CEILINGS_S: Final[dict[CeilingSize, float]] = {"large": 20.0, "small": 4.0, "none": 0.0}
#: Time to start a process, without its imports (s).
_START_S: Final = 0.5
#: Time to profile a call (s).
_PROFILE_S: Final = 0.3
#: Time to write the record and to evaluate the study's claims for it (s).
_CLAIMS_S: Final = 3.0


class CaseTimes(NamedTuple):
    """Size of a case, and how long its memory and its times in one process take to measure (s)."""

    size: float
    memory_s: float
    process_s: float


#: Kind of a case: its factors with words as levels.
Kind: TypeAlias = tuple[tuple[str, str], ...]


def forecast(request: Request, observer: Observer) -> tuple[Request, dict[Stage, float]]:
    """Print the needs of a run; return the request and the expected time of each step (s).

    The returned request has the number of pairs of processes that the study's claims need, and for
    a quick run the number of free processors.  Raises ``UsageError`` for a wrong request, and
    ``MeasurementError`` if the run cannot succeed.
    """
    start, processor_start = time.monotonic(), time.process_time()
    study, planned, cases = request.select()
    request.select_shard()  # raises for too many shards
    note = observer.note
    if request.quick:  # printed before importing torch, which takes seconds
        claims = "; ".join(study.plan.quick_claims) or "none that its study names"
        note(f"Claims that this quick run can decide: {claims}.")
        request = _use_free_processors(request, note)
    threads = runtime.checked_threads(request.threads)
    torch = runtime.start_torch(request.device, threads)
    import_s = time.monotonic() - start
    slowdown = max(1.0, import_s / (time.process_time() - processor_start))  # by other programs
    start_s = import_s + slowdown * _START_S
    protocol = available_policies(planned, request.device)[0]
    if study.subject:
        _check_cases(study, cases, note)
    _check_disk(request.records, protocol, len(cases))
    is_noisy = _note_noise(threads, note)
    session = Session(request.device, protocol, threads=threads)
    times_by_kind = _time_kinds(study, cases, session)
    expected_times = [_interpolated(times_by_kind, factors, protocol) for factors in cases]
    round_s = dict.fromkeys(protocol.processes, 0.0)  # time of one process that times all cases
    for factors, times in zip(cases, expected_times, strict=True):
        for policy in study.policies(factors, protocol):
            round_s[policy] += times.process_s
    request = _choose_pairs(request, study, session, round_s, start_s, observer)
    processes = study.processes(protocol, request.pairs or 0)
    protocol = msgspec.structs.replace(protocol, processes=processes)
    memory_s = start_s
    if study.plan.ceilings != "none":  # measured before and after the cases, in new processes
        memory_s += 2 * (start_s + slowdown * _CEILINGS_S[study.plan.ceilings])
    if study.subject or study.plan.memory:
        memory_s += sum(slowdown * _PROFILE_S + times.memory_s for times in expected_times)
    times_s = _seconds_of_processes(protocol, round_s, start_s, is_noisy=is_noisy)
    seconds: dict[Stage, float] = {"memory": memory_s, "times": times_s}
    tool = TOOLS[request.device]
    if study.subject and not tool.unavailable():
        numbered_cases, choice = dict(enumerate(cases)), request.counter_choice
        version = str(torch.__version__)
        selection = select(study, request.device, numbered_cases, choice, request.records, version)
        seconds["counts"] = selection.seconds(tool)
    process_counts = " and ".join(f"{n} {policy}" for policy, n in processes.items())
    load = " at the present load" if is_noisy else ""
    period = period_text(sum(seconds.values()) + slowdown * _CLAIMS_S)
    note(f"About {period}{load}: {len(cases)} cases; processes: {process_counts}.")
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


def _note_noise(threads: int, note: Callable[[str], None]) -> bool:
    """Print how other programs disturb the machine now; return whether they disturb it."""
    cause = None if quiet.unavailable() else quiet.observe_disturbance(threads, _OBSERVATION_S)
    if cause:
        note(f"The machine is busy: {cause}. Intervals will be wider; --wait-quiet 10 waits.")
    return cause is not None


def _kind(factors: Factors) -> Kind:
    """Return the factors whose levels are words."""
    words = ((name, level) for name, level in factors.items() if isinstance(level, str))
    return tuple(words)


def _size(factors: Factors) -> float:
    """Return the product of all levels that are numbers."""
    return prod(level for level in factors.values() if not isinstance(level, str))


def _check_cases(study: Experiment, cases: Sequence[Factors], note: Callable[[str], None]) -> None:
    """Build the smallest and largest case on the meta device; note if memory will run out.

    Also notes why a case cannot be built.  Raises ``MeasurementError`` if neither can be built.
    """
    failures = 0
    for factors in (min(cases, key=_size), max(cases, key=_size)):
        try:
            subject = build_subject(study, factors, "meta")
        except Exception as error:
            failures += 1
            reason = f"{type(error).__name__}: {first_line(str(error))}"
            note(f"{factors_text(factors)} cannot be built: {reason}")
            continue
        tensors = (*subject.module.parameters(), *subject.module.buffers(), subject.inputs)
        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        available = limits.available_memory()
        if needed > available:
            sizes = f"needs over {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are free"
            note(f"{factors_text(factors)} {sizes}; the case will end as out of memory.")
    if failures == 2:
        raise MeasurementError(
            f"experiments/{study.name}.py: neither the smallest nor the largest case can be built; "
            "correct the function «subject»."
        )


def _check_disk(records: Path, protocol: Protocol, cases: int) -> None:
    """Raise ``MeasurementError`` if the disk has too little space for the record."""
    folder = next(path for path in (records, *records.resolve().parents) if path.exists())
    samples = cases * protocol.maximum_samples * sum(protocol.processes.values())
    needed = 10**6 + 30 * samples  # a record without samples has up to 1 MB, a sample up to 30 B
    free = shutil.disk_usage(folder).free
    if free < needed:
        sizes = f"{free / 1e6:.0f} MB are free and the record needs about {needed / 1e6:.0f} MB"
        remedy = "delete files, or give --records a folder on another disk"
        raise MeasurementError(f"{folder}: {sizes}; {remedy}.")


def _time_kinds(
    study: Experiment, cases: Sequence[Factors], session: Session
) -> dict[Kind, list[CaseTimes]]:
    """Time the smallest and largest case of each kind in a child process; return times by kind.

    The result is empty where the process cannot fork, as on a GPU.  After ``_CALLS_S`` the child
    ends, and this limit is assumed as the time of the case that it measured then.
    """
    times_by_kind = defaultdict[Kind, list[CaseTimes]](list)
    if not worker.can_fork(session.device):
        return times_by_kind
    smallest: dict[Kind, Factors] = {}
    largest: dict[Kind, Factors] = {}
    for factors in sorted(cases, key=_size):
        smallest.setdefault(_kind(factors), factors)
        largest[_kind(factors)] = factors
    trial_cases = [*smallest.values()]  # first, so that each kind has a time
    trial_cases += [case for kind, case in largest.items() if case is not smallest[kind]]
    reading, writing = os.pipe()

    def measure() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the run itself reports why a case fails
        # The study's functions may start processes, which end if the alarm raises an exception.
        if study.subject is None:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
        for factors in trial_cases:
            times = None
            with suppress(Exception):
                times = _trial(study, factors, session)
            os.write(writing, msgspec.json.encode(times) + b"\n")

    start = time.monotonic()
    child = worker.fork(measure, _CALLS_S)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        lines = stream.read().splitlines()
    os.waitpid(child, 0)
    is_late = time.monotonic() - start >= _CALLS_S
    for number, factors in enumerate(trial_cases[: len(lines) + is_late]):
        times: CaseTimes | None = CaseTimes(_size(factors), memory_s=0.0, process_s=_CALLS_S)
        if number < len(lines):
            times = msgspec.json.decode(lines[number], type=CaseTimes | None)
        if times is not None:
            times_by_kind[_kind(factors)].append(times)
    return times_by_kind


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
    build_s = time.monotonic() - start
    workload.once()  # a warm-up
    calls: list[float] = []
    while len(calls) < 5 and sum(calls) < 0.5:  # at most five calls, begun within 0.5 s
        calls.append(cpu_clock(workload).wall)
    call_s = fmean(calls)
    memory_s = MEASUREMENTS * (build_s + 2 * call_s)  # a profiled call takes two calls' time
    return CaseTimes(_size(factors), memory_s, _process_time(build_s, call_s, protocol))


def _process_time(build_s: float, call_s: float, protocol: Protocol) -> float:
    """Forecast a case's time in one process from the times to build and to call the case (s)."""
    budget_s = protocol.case_budget_s
    warmup_s = max((protocol.warmup_calls + 1) * call_s, min(5 * call_s, WARMUP_SHARE * budget_s))
    samples_s = min(protocol.maximum_samples * call_s, budget_s)
    return build_s + warmup_s + max(samples_s, protocol.minimum_samples * call_s)


def _interpolated(
    times_by_kind: Mapping[Kind, list[CaseTimes]], factors: Factors, protocol: Protocol
) -> CaseTimes:
    """Interpolate a case's times by size between timed cases of its kind, else of all kinds."""
    import numpy as np

    size = _size(factors)
    known = times_by_kind.get(_kind(factors)) or sorted(chain(*times_by_kind.values()))
    if not known:
        return CaseTimes(size, _PROFILE_S, (1 + WARMUP_SHARE) * protocol.case_budget_s)
    sizes, memory_s, process_s = zip(*known, strict=True)
    interpolated = [float(np.interp(size, sizes, times)) for times in (memory_s, process_s)]
    return CaseTimes(size, *interpolated)


def _seconds_of_processes(
    protocol: Protocol, round_s: Mapping[Policy, float], start_s: float, *, is_noisy: bool
) -> float:
    """Forecast the time of all timing processes (s).

    ``round_s`` is the time in which one process times all cases, ``start_s`` the time to start a
    process.  On a noisy machine, disturbed cases are measured again.
    """
    measuring_s = starting_s = 0.0
    for policy, seconds in round_s.items():
        if seconds:
            processes = protocol.processes[policy]
            if is_noisy:  # with one of two processors busy, every round measured cases again
                processes += min(rounds.MAX_REPEATS, processes)
            measuring_s += processes * seconds
            starting_s += processes * start_s
    limit_s = (protocol.budget_s or inf) * (1 + rounds.REPEAT_SHARE * is_noisy)
    return max(min(measuring_s, limit_s), sum(round_s.values())) + starting_s


def _choose_pairs(
    request: Request,
    study: Experiment,
    session: Session,
    round_s: Mapping[Policy, float],
    start_s: float,
    observer: Observer,
) -> Request:
    """Choose how many pairs of processes a full run needs to decide a difference of ``margin``.

    Both processes of a pair time the same case.  So the true ratio of their times is 1, and the
    measured ratios show the scatter.  The choice precedes the run, so that the run's end does not
    depend on its results.  It is omitted if the user set the number of pairs.
    """
    protocol, margin = session.protocol, study.plan.margin
    compared = [policy for policy in protocol.processes if policy in study.plan.quick.processes]
    is_fixed = request.pairs or request.shard or protocol.plan != "full"
    if is_fixed or not (margin and compared and worker.can_fork(session.device)):
        return request
    quick_cases = study.cases(study.levels(quick=True))
    cases = [factors for factors in quick_cases if study.policies(factors, protocol)]
    middle = sorted(cases, key=_size)[len(cases) // 2]
    trials = _trial_rounds(study, [middle] * 2 * _TRIAL_PAIRS, session, compared[0], observer)
    if any(trial.reason for trial in trials):
        return request
    times = [median(trial.samples("time")) for trial in trials]
    deviation = comparison.log_deviation(
        first / second for first, second in zip(times[::2], times[1::2], strict=True)
    )
    needed = comparison.pairs_needed(deviation, margin) or comparison.MOST_PAIRS
    planned = min(protocol.processes[policy] for policy in compared)
    planned_s = sum(count * round_s[policy] for policy, count in protocol.processes.items())
    remaining_s = max((protocol.budget_s or inf) - planned_s, 0.0)
    pair_s = sum(round_s[policy] + start_s for policy in compared)
    pairs = max(planned, int(min(needed, planned + remaining_s / pair_s)))
    power = comparison.power_text(deviation, pairs, margin)
    observer.note(f"Comparing processes with memory policies {' and '.join(compared)}: {power}.")
    return replace(request, pairs=pairs)


def _trial_rounds(
    study: Experiment,
    cases: Sequence[Factors],
    session: Session,
    policy: Policy,
    observer: Observer,
) -> list[Round]:
    """Time cases briefly, each in a child process; the times are not part of the result."""
    brief = msgspec.structs.replace(session.protocol, case_budget_s=_TRIAL_S, maximum_samples=10)
    session = replace(session, protocol=brief, process=1)
    task = new_task(study, "time", session, dict(enumerate(cases)), policy)
    return [result.round for result in run_cases(study, task, observer.debug)]


def forecast_comparison(request: Request, observer: Observer, *, may_fail: bool) -> None:
    """Print which differences between functions a comparison can decide, after short trials.

    The last case compares the baseline with itself, so the ratios of its trials show the scatter.
    Unless cases ``may_fail``, each other case is tried once before.  Raises ``MeasurementError`` if
    a tried case fails.
    """
    study, planned, (*candidates, baseline_again) = request.select()
    threads = runtime.checked_threads(request.threads)
    protocol, _ = available_policies(planned, request.device)
    session = Session(request.device, protocol, threads=threads)
    # A comparison has one policy, under which each process is a pair of processes.
    policy, pairs = next(iter(protocol.processes.items()))
    cases = [*([] if may_fail else candidates), *[baseline_again] * _TRIAL_PAIRS]
    trials = _trial_rounds(study, cases, session, policy, observer)
    for factors, trial in zip(cases, trials, strict=True):
        if trial.reason:
            raise MeasurementError(
                f"{factors['function']}: {trial.reason}. Correct it; nothing was measured."
            )
    repeats = trials[-_TRIAL_PAIRS:]
    deviation = comparison.log_deviation(comparison.speed_ratio(trial) for trial in repeats)
    margin = float(baseline_again["margin"])
    observer.note(f"{comparison.power_text(deviation, pairs, margin)}.")
    empty_call_s = median(trials[-1].samples("round_trip_time"))
    call_s = median(trials[-1].samples("time"))
    if empty_call_s > _EMPTY_CALL_SHARE * call_s:
        observer.note(
            f"A call takes {measured_text(call_s, 's')}, a call that computes nothing takes "
            f"{measured_text(empty_call_s, 's')}, so ratios are too near to 1; let a call do more."
        )
    _note_noise(threads, observer.note)
