"""Comparisons of the speed of functions: cheats are detected, and false verdicts are rare."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

import build
from experiments.__main__ import parser
from experiments.compare import pairs
from experiments.compare.study import FOLDER_VARIABLE, STUDY, files_of, load_function, request_of
from experiments.harness import rounds
from experiments.harness.request import Request
from experiments.harness.run import run
from experiments.harness.study import Session, UnavailableError
from experiments.machine import environment, runtime
from experiments.machine.text import read_text
from report.core.records.record import Case, Record
from report.core.records.store import write_record
from report.core.statistics.estimates import Estimate, median_interval
from report.instruments import case_operators, comparison
from tests import factory
from tests.experiments import cheats
from tests.experiments.conftest import ROOT, Ask, Notes, make_environment

TESTS = Path(__file__).parent
#: Environment of processes that import the tests.
VARIABLES = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(ROOT), str(TESTS))),
    FOLDER_VARIABLE: str(TESTS),  # of cheats.py
}
PROTOCOL = msgspec.structs.replace(
    STUDY.plan.quick, warmup_calls=1, minimum_samples=3, maximum_samples=3
)
SESSION = Session("cpu", PROTOCOL, threads=1, process=2)


def conditions(
    against: str, inputs: str = "make", reference: str = "", cold: bool = False
) -> dict[str, Any]:
    """Return the factors of a comparison, except the compared function.

    ``against`` is the baseline, ``inputs`` makes arguments, and ``reference`` computes the expected
    results (by default the baseline).  With ``cold``, caches are emptied before each call.
    """
    functions = {"against": against, "inputs": inputs, "reference": reference or against}
    factors = {role: f"cheats.py:{name}" for role, name in functions.items()}
    return {**factors, "tolerance": 1e-4, "margin": 0.02, "cold": cold}


def measure(function: str, against: str = "honest", **changes: Any) -> dict[str, Any]:
    """Compare a function of ``cheats.py`` with a baseline; return the series of the pair."""
    factors = {"function": f"cheats.py:{function}", **conditions(against, **changes)}
    return pairs.measure_pair(factors, SESSION, load_function)


@pytest.fixture(autouse=True)
def folder_of_cheats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(TESTS))


@pytest.mark.parametrize(("function", "changes", "reason"), [
    ("cached_by_address", {}, "wrong result (call 2 of process 2, seed "),
    ("cached_by_shape", {}, "wrong result (call 2 of process 2, seed "),
    ("mutating", {}, ": it changed its arguments"),
    ("aliased", {}, "wrong result (call 1 of process 2, seed "),
    ("in_a_thread", {}, "wrong result (call 1 of process 2, seed "),
    ("zeros", {}, ": relative error 1 at index ("),
    ("half_precision", {}, ": relative error 0.00"),
    ("other_shape", {}, ": its shape is (63, 64), not (64, 64)"),
    ("dying", {}, "failed (call 1 of process 2, seed "),
    ("absent", {}, "failed: it could not be prepared: LookupError: cheats.py has no"),
    ("honest", {"against": "zeros", "reference": "honest"}, "the baseline: wrong result"),
    ("constant", {"against": "constant"}, "cheats.py:constant returned the same for all"),
    ("honest", {"inputs": "same_arguments"}, "returned the same arguments twice"),
    ("honest", {"inputs": "zeros"}, ": cheats.py:honest: failed, seed "),
])  # fmt: skip
def test_a_cheat_is_reported_with_its_call(
    function: str, changes: dict[str, str], reason: str
) -> None:
    with pytest.raises(UnavailableError) as error:
        measure(function, **changes)
    assert reason in str(error.value)
    # A fault of the baseline or of the arguments is none of the compared function.
    assert str(error.value).startswith("no comparison: ") == bool(changes)


#: Bytes in shared memory of a call whose argument and result are matrices of float32.
MATRICES = 2 * 4 * cheats.SIDE**2
#: Those if the result is one number of NumPy in float64; Python's own numbers are sent as messages.
SCALAR = 4 * cheats.SIDE**2 + 8


@pytest.mark.parametrize(("function", "changes", "call_bytes", "seconds"), [
    # Caches of results do not help, because no argument is repeated.
    ("cached_by_value", {"reference": "exact"}, MATRICES, 0),
    ("skipping", {"reference": "exact"}, MATRICES, 0),
    ("honest", {"reference": "exact", "cold": True}, MATRICES, 0),
    ("total", {"against": "total"}, SCALAR, 0),
    # The timed part ends after the result has been read.
    ("lazy", {}, MATRICES, cheats.SLEEP_S),
    ("clock", {}, MATRICES, cheats.SLEEP_S),
    # Each function's process is stopped while the other function runs.
    ("awake", {"against": "asleep", "reference": "honest"}, MATRICES, 0),
    ("mapping", {}, MATRICES, 0),
])  # fmt: skip
def test_every_timed_call_computes(
    function: str, changes: dict[str, Any], call_bytes: int, seconds: float
) -> None:
    series = measure(function, **changes)
    for name in ("time", "baseline_time", "page_faults", "baseline_page_faults"):
        assert len(series[name]) == PROTOCOL.minimum_samples
    assert series["call_bytes"] == (call_bytes,) and min(series["time"]) >= seconds
    assert (min(series["page_faults"]) >= cheats.PAGES) == (function == "mapping")
    assert max(series["baseline_page_faults"]) < cheats.PAGES


def test_heap_layouts_differ_between_processes() -> None:
    first, second = ([*map(len, pairs.scattered_blocks())] for _ in range(2))
    assert first != second
    # The C library maps larger blocks separately, outside the heap.
    assert max(first + second, default=0) < 100_000


def test_processor_time_includes_threads_and_children() -> None:
    """Two threads and a child use the processor for ``BURN_S`` each; clocks may be 10 % off."""
    values = (np.asarray(cheats.make(0)),)
    with pairs.start("", load_function, "cheats.py:many_threads") as process:
        before = process.processor_s()
        process.call(pairs.write_values(values, process.memory[0]))
        used = process.processor_s() - before
    assert used >= 0.9 * 3 * cheats.BURN_S


#: Program that compares a network with and without three tips of the study tuning_tips.  Only the
#: tip ``workers`` needs two threads.
TIPS = """
from dataclasses import replace
import torch._dynamo  # optimizers import it; once, before processes are forked
from experiments import tuning_tips
from tests.experiments.test_compare import SESSION
for threads, tip, network in (
    (2, "workers", "MNIST CNN"), (1, "set_to_none", "MNIST CNN"), (1, "fused", "ResNet-20")
):
    factors = {"tip": tip, "network": network, "batch": 4, "memory": "kept"}
    series = tuning_tips.times(factors, replace(SESSION, threads=threads))
    print(len(series["time"]), len(series["baseline_time"]))
"""


def test_functions_of_tuning_tips_are_compared() -> None:
    """A new interpreter compares, since a backward pass before the fork would block the child."""
    pytest.importorskip("torch")
    command = [sys.executable, "-c", TIPS]
    printed = subprocess.check_output(command, text=True, env=VARIABLES, cwd=ROOT)
    assert printed == 3 * "3 3\n"


def test_more_threads_than_allowed_are_reported() -> None:
    fault = partial(pairs.thread_fault, wall_s=1.0, threads=1)
    assert fault(used_s=1.1) is None
    assert fault(used_s=1.9) == "it used 1.9 processors, and --threads allows 1"


#: C library that lets the monotonic clock run at a quarter of its speed.
SLOW_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    long long ns = (t->tv_sec * 1000000000LL + t->tv_nsec) / 4;
    if (id == CLOCK_MONOTONIC) { t->tv_sec = ns / 1000000000; t->tv_nsec = ns % 1000000000; }
    return result;
}
"""


def test_a_slow_clock_in_a_preloaded_library_is_detected(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("cc is not installed")
    library, source = tmp_path / "clock.so", tmp_path / "clock.c"
    source.write_text(SLOW_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    program = (
        "from tests.experiments.test_compare import measure\n"
        "try: measure('slow', 'slow', reference='honest')\n"
        "except Exception as error: print(error)"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], env={**VARIABLES, "LD_PRELOAD": str(library)},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "s by the measuring process's clock were" in output
    assert output.endswith("unset LD_PRELOAD\n")


def test_arrays_keep_type_layout_and_values_in_shared_memory() -> None:
    import torch  # imported here, because processes of these tests import this module

    transposed = np.arange(6, dtype=np.int16).reshape(2, 3).T
    channels_last = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    with_gaps = channels_last.bfloat16()[:, 1]
    memory = np.zeros(4096, np.uint8)
    written = pairs.write_values((transposed, channels_last, with_gaps, 3, "x"), memory)
    array, images, in_bfloat16, *plain = (pairs.read_value(value, memory) for value in written)
    assert array.flags.f_contiguous and (array == transposed).all()
    assert images.stride() == channels_last.stride() and torch.equal(images, channels_last)
    assert torch.equal(in_bfloat16, with_gaps)
    assert plain == [3, "x"]
    assert np.array_equal(pairs.numbers_of(written, memory)[2], with_gaps.float().numpy())
    assert torch.equal(pairs.read_value(written[2], memory, double=True), with_gaps.double())


def test_theory_of_a_function_of_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theory is the same in inference mode, in which PyTorch does not decompose operators."""
    import torch

    (tmp_path / "product.py").write_text(
        "import torch\ndef make(seed): return torch.ones(2, 3, 5)\n"
        "@torch.inference_mode()\ndef product(x): return x @ torch.ones(5, 4)\n"
    )
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(torch, "inference_mode", torch.inference_mode)  # restored afterwards
    functions = dict.fromkeys(("function", "against", "reference"), "product.py:product")
    source, operators = files_of({**functions, "inputs": "product.py:make"}, SESSION)
    assert source.content == (tmp_path / "product.py").read_bytes()
    theory = case_operators.unpack(operators.content, "x").theory(make_environment())
    assert theory is not None and theory.multiply_adds == 2 * 3 * 5 * 4


@pytest.mark.parametrize(("output", "expected", "fault"), [
    ([1.0, 2.2], [1.0, 2.0], "relative error 0.1 at index (1,): 2.2 instead of 2.0"),
    # The error is relative to the root mean square: 0.05 / sqrt(4.5).
    ([3.0, 0.05], [3.0, 0.0], "relative error 0.024 at index (1,): 0.05 instead of 0.0"),
    ([np.nan, np.inf], [np.nan, np.inf], None),
    ([np.nan, 1.0], [1.0, 1.0], "relative error inf at index (0,): nan instead of 1.0"),
    ([0.0, 0.0], [0.0, 0.0], None),
    (2.5, 2.0, "relative error 0.25 at index (): 2.5 instead of 2.0"),
    ([], [], None),
    ([1, 2], [1, 3], "relative error inf at index (1,): 2 instead of 3"),
])  # fmt: skip
def test_the_largest_error_is_reported(output: Any, expected: Any, fault: str | None) -> None:
    assert pairs.result_fault([np.array(output)], [np.array(expected)], 0.01) == fault


#: Simulated comparisons, pairs of processes per comparison, and calls per process.
RUNS, PAIRS, CALLS = 2000, 12, 30


@pytest.mark.parametrize("distribution", ["independent", "autocorrelated", "two groups"])
def test_false_verdicts_are_at_most_5_percent(distribution: str) -> None:
    """Function and baseline are equal, so that every verdict ``faster`` or ``slower`` is false.

    At a rate of 5 %, more than 123 of 2,000 would have a probability below 1 % (binomial).
    """
    random = np.random.default_rng(69)

    def times() -> np.ndarray[Any, Any]:
        """Return the median time of each of ``PAIRS`` processes."""
        logs = random.normal(0, 0.05, (PAIRS, CALLS))
        if distribution == "autocorrelated":
            logs = 0.2 * logs.cumsum(axis=1) + random.normal(0, 0.03, (PAIRS, 1))
        if distribution == "two groups":
            logs += np.log(1.25) * random.integers(0, 2, (PAIRS, 1))
        return np.median(np.exp(logs), axis=1)

    words = []
    for _ in range(RUNS):
        ratio = median_interval((times() / times()).tolist())
        words.append(comparison.verdict_word(ratio, margin=0.0))
    assert 0 < words.count("faster") + words.count("slower") <= 123


def test_the_decidable_gain_has_a_power_of_80_percent() -> None:
    """``PAIRS`` is also the smallest number of pairs with this power."""
    random, deviation = np.random.default_rng(2), 0.02
    gain = comparison.decidable_gain(deviation, PAIRS)
    logs = random.normal(np.log(1 + gain), deviation, size=(RUNS, PAIRS))
    decided = sum(median_interval(np.exp(row)).low > 1 for row in logs)
    assert 0.76 < decided / RUNS < 0.84
    assert comparison.pairs_needed(deviation, gain) == PAIRS
    assert comparison.pairs_needed(deviation=0.5, gain=0.001) is None
    assert comparison.log_deviation([np.exp(0.1), np.exp(-0.1)]) == pytest.approx(0.1)


@pytest.mark.parametrize(("low", "high", "verdict"), [
    (1.27, 1.36, "faster"), (0.51, 0.79, "slower"), (0.985, 1.015, "no difference"),
    (1.005, 1.015, "no difference"), (0.99, 1.3, "undecided"),
])  # fmt: skip
def test_verdicts_follow_interval_and_margin(low: float, high: float, verdict: str) -> None:
    """The margin is 2 %.  Five processes are too few for an interval of 95 % confidence."""
    of_twelve = Estimate(value=1.0, low=low, high=high, n=12, confidence=0.95)
    of_five = replace(of_twelve, n=5, confidence=0.9375)
    assert comparison.verdict_word(of_twelve, margin=0.02) == verdict
    assert comparison.verdict_word(of_five, margin=0.02) == "undecided"


@pytest.fixture
def request_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """Request a comparison of two functions with a baseline in two pairs of processes.

    Neither torch nor the environment of this machine is used.
    """
    monkeypatch.setattr(rounds, "MAX_REPEATS", 0)
    monkeypatch.setattr(runtime, "start_torch", lambda device, threads: sys)
    machine = make_environment(threads=1)
    monkeypatch.setattr(environment, "gather", lambda torch, device, threads, *, name: machine)
    monkeypatch.chdir(TESTS)
    words = "compare cheats.py:cached_by_value cheats.py:zeros --against cheats.py:honest --quick"
    options = parser().parse_args([*words.split(), "--reference=cheats.py:exact", "--threads=1"])
    request = replace(request_of(options), records=tmp_path, ceilings="none")
    return replace(request, changes={"processes": {"retained": 2}})


def undisturbed(record: Record) -> Record:
    """Remove disturbances by other tests, so that all pairs count."""
    cases = []
    for case in record.cases:
        rounds = [msgspec.structs.replace(round_, disturbance=None) for round_ in case.rounds]
        cases.append(msgspec.structs.replace(case, rounds=tuple(rounds)))
    return msgspec.structs.replace(record, cases=tuple(cases))


def test_an_interrupted_comparison_can_be_resumed(request_in: Request, ask: Ask) -> None:
    class Interrupter(Notes):
        def progressed(self, text: str, done: float) -> None:
            super().progressed(text, done)
            if "process 2" in text:
                raise KeyboardInterrupt

    interrupted, resumed = Interrupter(), Notes()
    with pytest.raises(KeyboardInterrupt):
        run(replace(request_in, typed_words={"cheats.py:zeros": "../cheats.py:zeros"}), interrupted)
    # The command to resume the run repeats the path that the user typed.
    assert "compare cheats.py:cached_by_value ../cheats.py:zeros --against" in interrupted.notes[-1]
    record, path = run(replace(request_in, resume=True), resumed)
    assert sum("process 2" in text for text, _ in resumed.ended) == len(resumed.ended) == 2
    correct, wrong, baseline = comparison.verdicts(undisturbed(record))
    names = [result.function.partition(":")[2] for result in (correct, wrong, baseline)]
    assert names == ["cached_by_value", "zeros", "honest"]
    # Two pairs are too few for a verdict: the range of two ratios has a confidence of 50 %.
    assert (correct.word, correct.pairs) == ("undecided", 2)
    assert baseline.ratio is not None and baseline.ratio.confidence == 0.5
    assert wrong.word == "wrong" and wrong.sentence.startswith("wrong result (call 1 of process 1")
    command = " ".join(record.command)
    assert "compare cheats.py:cached_by_value cheats.py:zeros --against cheats.py:honest" in command
    assert "--reference cheats.py:exact" in command and str(TESTS) not in path.read_text()
    sources = [a for a in record.attachments if a.name.startswith("source-")]
    assert len(sources) == 3
    assert sources[0].sha256.startswith(str(record.cases[0].factors["source"]))
    code, out, _ = ask("check", path)
    assert code == 0 and "can be handed in" in out


@pytest.mark.parametrize(("words", "reason"), [
    ("zeros --device cuda", "compare measures on CPUs alone, under Linux"),
    ("zeros --pairs 5", "fewer than 6 decide nothing"),
    ("zeros --tolerance much", "'much' is not a number from 0 to 1"),
    ("zeros --inputs make", "'make' is not of the form FILE.py:FUNCTION"),
    ("zeros --all absent*.py:solve", "no file has such a name"),
    ("zeros --inputs absent.py:make", "absent.py: No such file or directory"),
    ("zeros", "cheats.py:zeros: wrong result (call 1 of process 1, seed "),
    ("absent", "cheats.py has no function 'absent'; it has aliased; asleep; "),
    ("honst", "cheats.py has no function 'honst'; it has honest; "),
    ("zeros --against cheats.py:absent", "has no function 'absent'; it has aliased; asleep; "),
])  # fmt: skip
def test_impossible_comparisons_are_refused(
    words: str, reason: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(TESTS)
    function, *options = words.split()
    request = (f"cheats.py:{function}", "--against", "cheats.py:honest", "--quick", *options)
    code, out, err = ask("compare", *request, "--threads", "1")
    is_usage_error = "compare --help" in err or "--pairs" in words or "--all" in words
    assert code == (2 if is_usage_error or "--device" in words else 1)
    assert reason in err and "ok" not in out


# Seven processes: guard, worker, measuring process, inputs, reference, and two functions.
@pytest.mark.parametrize(("seed", "started"), [(0, 7), (1, 2)])
def test_a_killed_comparison_leaves_nothing_behind(seed: int, started: int, tmp_path: Path) -> None:
    """The comparison is killed at a random moment after ``started`` of its processes started."""
    code = (
        "from tests.experiments.test_compare import *\n"
        "monkeypatch = pytest.MonkeyPatch()\n"
        "request = request_in.__wrapped__(Path(sys.argv[1]), monkeypatch)\n"
        "levels = dict.fromkeys(('against', 'reference'), ('cheats.py:asleep',))\n"
        "run(replace(request, levels={**request.levels, **levels}), Notes())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=VARIABLES)
    children: list[psutil.Process] = []
    while len(children) < started:
        time.sleep(0.02)
        assert process.poll() is None
        children = psutil.Process(process.pid).children(recursive=True)
    time.sleep(Random(seed).uniform(0, 0.2))
    children = psutil.Process(process.pid).children(recursive=True)
    maps = [read_text(Path(f"/proc/{child.pid}/maps")) for child in children]
    process.kill()
    process.wait()
    assert any(map(len, maps)) and not any("/dev/shm/" in text for text in maps)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def compared_case(
    function: str,
    gains: np.ndarray[Any, Any],
    reason: str | None = None,
    call_bytes: int = 8,
    disturbance: str | None = None,
) -> Case:
    """Return a case with one pair of processes per ratio in ``gains``.

    With a ``reason``, one more process failed for this reason.
    """
    rounds = []
    for process, gain in enumerate(gains.tolist(), start=1):
        series = {
            "time": (1e-3,),
            "baseline_time": (gain * 1e-3,),
            "call_bytes": (call_bytes,),
            "page_faults": (0,),
            "baseline_page_faults": (12_000 + process,),
        }
        rounds.append(factory.round_(process, series, disturbance=disturbance))
    if reason is not None:
        failure = {"status": "unavailable", "reason": reason}
        rounds.append(factory.round_(len(gains) + 1, {}, **failure))
    return Case(factors={"function": function, **conditions("honest")}, rounds=tuple(rounds))


def test_functions_without_a_common_process_are_in_one_group() -> None:
    fast = compared_case("fast.py:solve", np.full(PAIRS, 3.0))
    slow = compared_case("slow.py:solve", np.full(PAIRS, 0.5))
    rounds = [msgspec.structs.replace(item, process=item.process + PAIRS) for item in slow.rounds]
    slow = msgspec.structs.replace(slow, rounds=tuple(rounds))
    (group,) = comparison.groups(factory.record([fast, slow], study="compare"))
    assert [result.function for result in group] == ["fast.py:solve", "slow.py:solve"]


def test_the_report_of_a_class_has_groups_and_failed_calls(tmp_path: Path) -> None:
    scatter = np.linspace(0.97, 1.03, PAIRS)
    reason = "wrong result (call 7 of process 13, seed 5): it changed its arguments"
    cases = [
        compared_case("a.py:solve", 1.5 * scatter),
        compared_case("b.py:solve", 1.5 * scatter[::-1]),
        compared_case("c.py:solve", 0.5 * scatter, disturbance="other"),
        compared_case("d.py:solve", 9 * scatter, reason),
        compared_case("e.py:solve", 9 * scatter, call_bytes=10**12),  # 10¹² B in 1 ms
        compared_case("base.py:solve", scatter),
    ]
    record = factory.record(cases, study="compare")
    groups = []
    for group in comparison.groups(record):
        groups.append([result.function.removesuffix(".py:solve") for result in group])
    assert groups == [["a", "b"], ["base"], ["c"]]
    verdicts = [result.word for result in comparison.verdicts(record)]
    assert verdicts == ["faster", "faster", "slower", "wrong", "impossible", "no difference"]
    path = write_record(record, tmp_path)
    assert build.main(["--comparison", str(path), "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "compare" / "index.html").read_text()
    report = (tmp_path / "out" / "compare" / "report.md").read_text()
    assert f"- d.py:solve: {reason}\n" in report and reason in page
    assert "- a.py:solve: faster: 1.500 times the baseline's speed [1.471, 1.529]\n" in report
    assert "the fastest cache moves" in report
    warning = "other programs disturbed all pairs of processes of c.py:solve"
    assert warning in report and warning in page
    assert "group 1, not told apart when all pairs are tested: a.py:solve, b.py:solve\n" in report
    # The median of 12,001 to 12,012 is 12,006.5, and Python rounds to the even number.
    assert "- a.py:solve maps 0 pages a call, the baseline 12,006\n" in report
    assert "This is no sandbox" in page and record.environment.label in page
