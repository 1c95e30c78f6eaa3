"""Times and bytes: the timed part of a call, numbers of samples, and the order of processes.

Bytes that PyTorch's profiler reports are tested in ``test_predicted_peaks`` and ``test_measuring``.
"""

import mmap
import os
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import tiny_study
import torch
from hypothesis import given
from hypothesis import strategies as st

from experiments import registry
from experiments.harness import memory, policies, rounds, timing, worker
from experiments.harness.ceilings import page_problem, working_sets
from experiments.harness.journal import CaseResult, Ceilings, Journal, RoundResult, read_journal
from experiments.harness.measure import training_step
from experiments.harness.rounds import affordable_cases, disturbed_cases, plan_rounds, shuffle_cases
from experiments.harness.run import assemble_case
from experiments.harness.study import FULL, Session, Subject
from experiments.harness.timing import CallTime, Workload
from experiments.machine import limits, sensors
from report.core.missing import Missing
from report.core.records.layers import Linear
from report.core.records.pooling import merge_ceilings, outcome_of_rounds
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Case, Moment, Policy, Protocol, Round
from tests import factory
from tests.experiments.conftest import Notes, make_header


def protocol(minimum: int, maximum: int, budget: float) -> Protocol:
    """Return a protocol with these numbers of samples, and a budget per case in s."""
    samples = {"minimum_samples": minimum, "maximum_samples": maximum, "warmup_calls": 2}
    return msgspec.structs.replace(FULL, **samples, case_budget_s=budget)


@given(minimum=st.integers(1, 40), extra=st.integers(0, 40), calls=st.integers(1, 200))
def test_samples_stay_between_minimum_and_maximum(minimum: int, extra: int, calls: int) -> None:
    """By a fake clock, a call lasts 1 s; the budget suffices for ``calls`` calls."""
    timed: list[Workload] = []

    def clock(workload: Workload) -> CallTime:
        timed.append(workload)
        return CallTime(1.0, None)

    maximum = minimum + extra
    plan = protocol(minimum, maximum, float(calls))
    series = timing.repeat_calls(Workload(lambda: None), plan, clock, lambda: float(len(timed)))
    assert series == {"time": (1.0,) * min(max(calls, minimum), maximum)}


def test_calls_are_reset_before_and_freed_after_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Result:
        def __del__(self) -> None:
            order.append("freed")

    def tick() -> int:
        order.append("clock")
        return len(order)

    monkeypatch.setattr(time, "perf_counter_ns", tick)
    workload = Workload(call=Result, reset=lambda: order.append("reset"))
    series = timing.sample_times(workload, protocol(minimum=3, maximum=3, budget=60.0), "cpu")
    calls = len(order) // 4
    assert order == ["reset", "clock", "clock", "freed"] * calls
    assert calls >= 1 + 2 + 3, "the first call, two calls of the warm-up, and three samples"
    assert {name: len(samples) for name, samples in series.items()} == {"time": 3, "page_faults": 3}


def test_cuda_events_enclose_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake torch records the order of events and synchronisations, and returns ms."""
    order: list[str] = []
    names = iter(("start", "end"))

    def make_event(enable_timing: bool) -> Any:
        assert enable_timing
        name = next(names)
        event = SimpleNamespace(record=lambda: order.append(name))
        if name == "start":
            event.elapsed_time = lambda end: 2.5
        return event

    cuda = SimpleNamespace(Event=make_event, synchronize=lambda: order.append("synchronize"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert timing.cuda_clock(Workload(lambda: order.append("call"))) == CallTime(0.0025)
    assert order == ["synchronize", "start", "call", "end", "synchronize"]


def test_a_step_is_stochastic_gradient_descent() -> None:
    """Two steps by hand: momentum 0.9, weight decay 1e-4, learning rate 0.1."""
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 5)
    images = torch.randn(4, 3, 8, 8)
    module, step = training_step(Subject(torch.nn.Sequential(*layers), images, "step"), "cpu")
    weight = module.get_parameter("2.weight")
    before, momentum = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(2):
        step.once()
        assert weight.grad is not None
        momentum = 0.9 * momentum + weight.grad + 1e-4 * before
        before = before - 0.1 * momentum
        assert torch.allclose(weight, before, atol=1e-6)


def test_the_warm_up_of_slow_steps_ends_early() -> None:
    """The protocol asks for two calls after the first; slow calls then exceed half of the budget.

    Fast calls continue until four calls after the first are steady.
    """
    plan = protocol(minimum=5, maximum=15, budget=2.0)
    assert timing.warm_up(lambda: 5.0, plan, now=iter((0.0, 5.0)).__next__) == 3
    assert timing.warm_up(lambda: 0.001, plan) == 5


def test_calls_are_steady_without_a_gain_of_more_than_2_percent() -> None:
    assert not timing.is_steady([1.0, 0.979, 1.2, 1.2])
    assert timing.is_steady([1.0, 0.98, 1.2, 1.2])


POLICIES: tuple[Policy, ...] = ("retained", "default", "jemalloc")


@given(
    planned=st.dictionaries(st.sampled_from(POLICIES), st.integers(1, 9)),
    cases=st.sets(st.integers(0, 50)),
    seed=st.integers(0, 5),
)
def test_policies_alternate(planned: dict[Policy, int], cases: set[int], seed: int) -> None:
    """A round measures each case in one process, under one policy of the allocator.

    All policies run their n-th process before any policy runs its next one.
    """
    rounds = plan_rounds(planned)
    for policy, count in planned.items():
        processes = [round_.process for round_ in rounds if round_.policy == policy]
        assert processes == list(range(1, count + 1))
    all_processes = [round_.process for round_ in rounds]
    assert all_processes == sorted(all_processes)
    for round_ in rounds:
        order = shuffle_cases(cases, seed, round_)
        assert sorted(order) == sorted(cases)
        assert shuffle_cases(sorted(cases, reverse=True), seed, round_) == order


def result(case: int, seconds: float = 1.0, process: int = 1, **fault: Any) -> RoundResult:
    """Return a case's result in a process; ``fault``: fields of a disturbance or failure."""
    series = {} if "reason" in fault else {"time": (seconds,)}
    round_ = Round(process=process, policy="retained", series=series, **fault)
    return RoundResult(case=case, round=round_, seconds=seconds)


def run_in_budget(
    durations: list[float], processes: int, budget: float
) -> tuple[float, Counter[int]]:
    """Simulate a run of at most ``processes`` processes per case.

    ``durations`` are the times (s) of the cases in a process, ``budget`` the time (s) of the run.
    Return the time spent and the processes per case.
    """
    results, spent = list[RoundResult](), 0.0
    cases = range(len(durations))
    for process in range(1, processes + 1):
        processes_left = processes + 1 - process
        time_left = budget - spent
        for case in affordable_cases(cases, results, "retained", processes_left, time_left):
            results.append(result(case, durations[case], process))
            spent += durations[case]
    return spent, Counter(item.case for item in results)


@given(st.lists(st.floats(0.1, 50), min_size=1, max_size=9), st.integers(1, 9), st.floats(1, 900))
def test_processes_stay_in_budget(durations: list[float], processes: int, budget: float) -> None:
    """Every case is measured once, even if that exceeds the budget."""
    spent, counts = run_in_budget(durations, processes, budget)
    assert set(counts) == set(range(len(durations)))
    assert spent <= max(budget, sum(durations)) * (1 + 1e-9)
    if processes * sum(durations) <= budget * (1 - 1e-9):
        assert set(counts.values()) == {processes}


def test_long_cases_have_fewer_processes() -> None:
    _, processes_by_case = run_in_budget([1.0, 1.0, 30.0], processes=6, budget=80.0)
    assert processes_by_case == {0: 6, 1: 6, 2: 2}
    # Case 0 has the smaller total time so far (3 s and 4 s), and its process uses up the budget.
    earlier = [result(0, 3.0), result(1, 2.0), result(1, 2.0, process=2)]
    selected = affordable_cases((0, 1), earlier, "retained", rounds_left=1, seconds_left=3.5)
    assert selected == {0}


def test_a_disturbed_case_is_repeated_until_a_process_is_undisturbed() -> None:
    results = [result(0), result(0, process=2, disturbance="somebody"), result(1)]
    disturbed = partial(disturbed_cases, (0, 1), results, planned=2)
    assert disturbed("default") == ()
    assert disturbed("retained") == (0,)
    results.append(result(0, process=3, disturbance="still"))
    assert disturbed("retained") == (0,)
    results.append(result(0, process=4))
    assert disturbed("retained") == ()


def test_a_case_fails_with_the_first_reason_if_every_process_failed() -> None:
    failed = [result(0, process=n, status="failed", reason=f"It broke {n}.").round for n in (1, 2)]
    assert outcome_of_rounds(failed) == ("failed", "It broke 1.")
    assert outcome_of_rounds([*failed, result(0, process=3).round]) == ("ok", None)


def test_ceilings_are_remeasured_when_a_case_exceeds_them(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured peak rates (ceilings) of 1 and 1.5 GFLOP/s are too low for a case at 2 GFLOP/s.

    The case does 2 × 10 × 10,000² FLOP in 1 s; the third ceiling, 3 GFLOP/s, is high enough.
    """
    shape = (10, 10**4)
    layer = Linear(name="fc", input_shape=shape, output_shape=shape, dtype="float32", bias=False)
    rates = iter((1.5e9, 3e9))

    def remeasure(session: Session, size: str, moment: Moment, note: object) -> Ceilings:
        return Ceilings(ceilings=(factory.ceiling("matrix_product", moment, next(rates)),))

    monkeypatch.setattr(rounds, "measure_ceilings", remeasure)
    before = Ceilings(ceilings=(factory.ceiling("matrix_product", "before", 1e9),))
    study, results = tiny_study.STUDY, [result(0, 1.0)]
    with Journal(tmp_path / ".j.journal.jsonl", make_header(study)) as journal:
        journal.append(before)
        journal.append(CaseResult(case=0, outcome=Case(factors={}, layers=(layer,))))
        for _ in range(3):
            session = Session("cpu", study.plan.full)
            rounds.recheck_ceilings(study, session, journal, results, notes)
    assert journal.ceilings is not None and next(rates, None) is None
    assert [item.moment for item in journal.ceilings.ceilings] == ["before", "during", "during"]
    (_, pooled) = merge_ceilings(journal.ceilings.ceilings)
    assert len(pooled.samples) == 2 * len(before.ceilings[0].samples)
    resumed = read_journal(journal.path)
    assert (resumed.ceilings, resumed.ceiling_rechecks) == (journal.ceilings, 2)


@pytest.mark.parametrize("forks", [worker.can_fork("cpu"), False])
def test_a_crashing_case_does_not_affect_other_cases(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch, forks: bool
) -> None:
    monkeypatch.setattr(worker, "can_fork", lambda device: forks)
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_timed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # also for worker processes
    sizes = (1, tiny_study.CRASHING, tiny_study.DISTURBED)
    study = registry.load("tiny")
    # Two pairs of policies, although the full plan has only one process with the default policy.
    header = make_header(study, cases=tuple({"size": size} for size in sizes), pairs=2)
    with Journal(tmp_path / ".j.journal.jsonl", header) as journal:
        for index, factors in enumerate(header.factors):
            journal.append(CaseResult(case=index, outcome=Case(factors=factors)))
        rounds.measure(study, Session("cpu", study.plan.full), journal, notes)
    plain, crashed, disturbed = (assemble_case(study, journal, index) for index in range(3))

    assert (crashed.status, {r.status for r in crashed.rounds}) == ("failed", {"failed"})
    assert "killed, most likely for lack of memory" in str(crashed.reason)
    assert (plain.status, disturbed.status) == ("ok", "ok")
    assert [(r.policy, r.process) for r in plain.rounds] == [
        ("retained", 1), ("default", 1), ("default", 2), ("retained", 2),
    ]  # fmt: skip
    assert plain.samples("time") == (0.001,) * 2, "one time per process that keeps freed memory"
    # ``tiny_timed`` stores whether glibc keeps freed memory, and the process number, as losses.
    keeps_memory = {(r.policy, r.samples("train_loss")[0]) for r in plain.rounds}
    assert keeps_memory == {("default", 0), ("retained", 1)}
    # Each case of each round ran in a process of its own.
    process_ids = [r.samples("step_loss")[0] for case in (plain, disturbed) for r in case.rounds]
    assert len(set(process_ids)) == len(process_ids)

    # Disturbed rounds are recorded with the disturbance; each policy repeats both of its processes.
    assert {r.disturbance for r in plain.rounds} == {None}
    assert {r.disturbance for r in disturbed.rounds} == {"a test"}
    assert len(disturbed.rounds) == 4 + 4
    assert set(disturbed.samples("time")) == {tiny_study.DISTURBED / 1000}
    assert any("again" in note for note in notes.notes)


MIB = 2**20

#: Allocation history of two calls of a layer: action, address and size (B).  The parameters have
#: 1000 B; a call allocates a workspace of 700 B and a result of 600 B.  The second call reuses the
#: addresses of the first.
HISTORY = (
    ("alloc", 1, 1000), ("segment_alloc", 9, 2 * MIB),
    ("alloc", 2, 700), ("alloc", 3, 600), ("free_requested", 2, 700), ("free_completed", 2, 700),
    ("free_completed", 3, 600),
    ("alloc", 2, 700), ("alloc", 3, 600), ("free_completed", 2, 700),
)  # fmt: skip
ENTRIES = [{"action": action, "addr": address, "size": size} for action, address, size in HISTORY]
#: Number of entries before the second call.
EARLIER_ENTRIES = 7
#: Requests of the second call in B, negative if freed.
SECOND_CALL = {"memory_events": (700, 600, -700)}
#: Also the requests before that call, and for all requests the number of the allocated block.
ALL_REQUESTS = SECOND_CALL | {
    "memory_events_before": (1000, 700, 600, -700, -600),
    "memory_owners": (0, 1, 2, 1, 2, 3, 4, 3),
}


@pytest.mark.parametrize(("missed", "was_empty", "expected"), [
    (0, True, ALL_REQUESTS), (0, False, SECOND_CALL), (3, True, SECOND_CALL), (10, True, {}),
])  # fmt: skip
def test_earlier_requests_are_known_from_a_whole_history(
    missed: int, was_empty: bool, expected: dict[str, Any]
) -> None:
    """The history may lack the ``missed`` first entries, or the cache was not empty before it."""
    series = memory.request_series(ENTRIES[missed:], EARLIER_ENTRIES - missed, was_empty)
    assert series == expected


def test_allocator_statistics_are_read_around_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    order, trace = list[str](), [{"action": "alloc", "addr": 1, "size": 1}]
    empty = {"reserved_bytes.all.current": 0}
    before = {"allocated_bytes.all.current": 1024, "requested_bytes.all.current": 1000}
    after = {name: 2 * size for name, size in before.items()}
    peaks = {"allocated_bytes.all.peak": 3072, "requested_bytes.all.peak": 2300}
    statistics = iter([empty, *[before, after | peaks] * 3])

    class Result:
        def __del__(self) -> None:
            order.append("freed")

    def call() -> Result:
        is_second = "call" in order
        trace.extend(ENTRIES[EARLIER_ENTRIES:] if is_second else ENTRIES[:EARLIER_ENTRIES])
        order.append("call")
        return Result()

    def record(enabled: str | None, context: str | None = "all") -> None:
        assert enabled is None or context is None, "recording call stacks would cost time"

    def do_nothing() -> None: ...

    history = SimpleNamespace(
        _record_memory_history=record, _snapshot=lambda: {"device_traces": [[], trace]}
    )
    cuda = SimpleNamespace(
        synchronize=do_nothing, empty_cache=do_nothing, memory=history,
        reset_peak_memory_stats=lambda: order.append("clear"),
        memory_stats=lambda: order.append("read") or next(statistics),
        current_device=lambda: 1, get_allocator_backend=lambda: "native",
    )  # fmt: skip
    extension = SimpleNamespace(_cuda_clearCublasWorkspaces=do_nothing)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, _C=extension))
    series = memory.measure_cuda(lambda: Workload(call))
    assert order[3:] == ["clear", "read", "call", "read", "freed"] * 3
    assert series == ALL_REQUESTS | {
        "allocated_before": (1024,) * 3, "allocated_after": (2048,) * 3,
        "allocated_peak": (3072,) * 3, "requested_before": (1000,) * 3,
        "requested_after": (2000,) * 3, "requested_peak": (2300,) * 3,
    }  # fmt: skip
    assert all(QUANTITIES[name].admits(samples) for name, samples in series.items())


@pytest.mark.parametrize(
    ("reasons", "cause"),
    [((1, 4, 1), None), ((0, 0x20, 0), "driver slowed it for heat"), ((0, 0, 8), "the hardware")],
)
def test_throttling_is_read_from_nvml(
    monkeypatch: pytest.MonkeyPatch, reasons: tuple[int, ...], cause: str | None
) -> None:
    """NVML's reasons are bits: 1 idle, 4 power limit, 8 slowed by the hardware, 0x20 heat."""
    reasons_in_turn, order = iter(reasons), list[str]()
    energies = iter((1_000_000, 1_501_000))  # of a counter in mJ, before and after the calls
    nvml = SimpleNamespace(
        NVML_CLOCK_SM=1, NVML_TEMPERATURE_GPU=0, nvmlInit=lambda: order.append("read"),
        nvmlDeviceGetHandleByUUID={"GPU-0-1": "gpu"}.__getitem__,
        nvmlDeviceGetClockInfo=lambda gpu, kind: 1980, nvmlDeviceGetPowerUsage=lambda gpu: 700_500,
        nvmlDeviceGetTemperature=lambda gpu, kind: 61,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda gpu: next(reasons_in_turn),
        nvmlDeviceGetTotalEnergyConsumption=lambda gpu: next(energies),
    )  # fmt: skip
    properties = {2: SimpleNamespace(uuid="0-1")}
    cuda = SimpleNamespace(current_device=lambda: 2, get_device_properties=properties.get)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(sensors, "unavailable", lambda: None)
    monkeypatch.setitem(timing.CLOCKS, "cuda", timing.cpu_clock)
    monkeypatch.setattr(timing, "_ENERGY_S", 0.02)
    protocol = msgspec.structs.replace(FULL, minimum_samples=2, maximum_samples=2)
    series = timing.sample_times(Workload(lambda: order.append("call")), protocol, "cuda")
    assert order[0] == "read" != order[1] and order[-3:] == ["call", "read", "read"]
    # The counter rose by 501,000 mJ during all calls that follow the samples of time.
    (energy,), (calls,) = series["energy"], series["energy_calls"]
    assert energy * calls == pytest.approx(501) and calls > len(series["time"])
    assert {name: series[name] for name in sensors.GpuState._fields} == {
        "device_clock": (1_980_000_000,) * 3, "device_power": (700.5,) * 3,
        "device_temperature": (61,) * 3, "throttle_reasons": reasons,
    }  # fmt: skip
    assert all(QUANTITIES[name].admits(samples) for name, samples in series.items())
    throttling = sensors.throttling(series)
    assert (throttling is None) == (cause is None) and (cause or "") in str(throttling)
    monkeypatch.setattr(sensors, "unavailable", lambda: "not installed")
    assert not {"device_clock", "energy"} & {*timing.sample_times(Workload(list), protocol, "cuda")}


def test_a_calls_energy_adds_all_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One package's counter overflows at 1,000 µJ and adds 200 µJ; the other adds 300 µJ.

    Only whole packages count: the core is part of one, and ``psys`` contains both.
    """
    monkeypatch.setattr(sensors, "_POWERCAP", tmp_path)
    assert sensors.read_energy("cpu") == Missing("the system shows no energy counter (powercap)")
    domains = {"0": "package-0", "0:0": "core", "1": "package-1", "2": "psys"}

    def read(*energies: int) -> Any:
        """Write the counters of the four domains (µJ); return the readings of the packages."""
        for (number, name), energy in zip(domains.items(), energies, strict=True):
            files = {"name": name, "energy_uj": energy, "max_energy_range_uj": 1000}
            content = {file: f"{value}\n" for file, value in files.items()}
            factory.write_files(tmp_path / f"intel-rapl:{number}", content)
        return sensors.read_energy("cpu")

    before, after = read(900, 400, 5, 600), read(100, 900, 305, 900)
    (tmp_path / "intel-rapl:1/energy_uj").unlink()
    denied = Missing("the energy counter cannot be read (No such file or directory)")
    assert sensors.read_energy("cpu") == denied
    # 500 µJ in four calls.
    series = sensors.energy_series(before, after, calls=4)
    assert series == {"energy": (pytest.approx(125e-6),), "energy_calls": (4,)}
    assert all(QUANTITIES[name].admits(samples) for name, samples in series.items())
    # Neither an unchanged counter nor a missing reading gives a series.
    assert sensors.energy_series(before, before, calls=4) == {}
    assert sensors.energy_series(before, denied, calls=4) == {}


#: Program that traces a call with one block of 8 MiB, and a call with three.  The last block is the
#: result.
_PROGRAM = """
import sys, msgspec, numpy
from experiments.harness import policies
from experiments.harness.timing import Workload

def call(count):
    *blocks, last = [numpy.empty(8 * 2**20, dtype="uint8") for _ in range(count)]
    return last

traces = [policies.trace_blocks(Workload(lambda: call(count))) for count in (1, 3)]
sys.stdout.buffer.write(msgspec.json.encode(traces))
"""


def test_policies_set_variables_of_the_allocator() -> None:
    assert policies.variables("jemalloc")["MALLOC_CONF"].startswith("dirty_decay_ms:-1")
    environment_variable = policies.variables("mmap_threshold")["GLIBC_TUNABLES"]
    assert environment_variable == f"glibc.malloc.mmap_threshold={2**32}"


def test_blocks_and_returned_memory_are_traced() -> None:
    """glibc returns free memory at the end of the heap if it exceeds twice the largest block."""
    if reason := policies.unavailable("traced", "cpu"):
        pytest.skip(reason)
    environment = {**os.environ, **policies.variables("traced")}
    printed = subprocess.check_output((sys.executable, "-c", _PROGRAM), env=environment)
    for blocks, trace in zip((1, 3), msgspec.json.decode(printed), strict=True):
        sizes = [round(size / MIB) for size in trace["block_bytes"]]
        assert sizes == [8] * blocks + [-8] * blocks, "allocated, then freed"
        threshold = int(trace["mmap_threshold"][0])
        assert 8 * MIB < threshold < 8.1 * MIB
        is_returned = blocks * 8 * MIB > 2 * threshold
        shrinks = [change for change in trace["block_changes"] if change < 0]
        assert len(shrinks) == (1 if is_returned else 0)
        assert sum(trace["block_changes"]) == 0
        assert all((seconds > 0) == is_returned for seconds in trace["result_return_time"])
        assert set(trace["return_time"]) == {0}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits need Linux")
def test_a_memory_limit_is_enforced_and_removed() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), limits.limit_memory(64 * MIB):
        bytearray(1024 * MIB)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with limits.limit_memory(64 * MIB):
        assert len(bytearray(MIB)) == MIB
    with pytest.raises(MemoryError), limits.limit_memory():
        bytearray(4 * limits.available_memory())


def test_working_sets_are_half_of_each_cache_and_far_beyond_all_caches() -> None:
    """Two threads use two caches of 32 KiB and two of 1 MiB, but share that of 32 MiB."""
    sizes = working_sets(factory.CACHES, threads=2, cores=8, largest=2**40)
    assert sizes == (32 * 2**10, MIB, 16 * MIB, 4 * 32 * MIB)
    assert working_sets((), threads=2, cores=8, largest=MIB) == (MIB,)


def test_the_ceiling_of_page_mapping_needs_a_fault_per_page() -> None:
    pages = 64 * MIB // mmap.PAGESIZE
    assert page_problem([pages, pages + 1, pages + 2]) is None
    for faults in ([3, 3, 3], [2 * pages] * 2):
        assert str(page_problem(faults)).startswith(f"page mapping: {pages} pages were touched")
