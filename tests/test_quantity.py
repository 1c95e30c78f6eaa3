"""Quantities: units, formulas, intervals that hold at the level they state, and verdicts."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Claim
from report.quantity.evaluation import estimate
from report.quantity.expression import (
    Inferred,
    Quantity,
    absent,
    declared,
    exact,
    measured,
    reported,
)
from report.quantity.fits import growth, intercept, slope
from report.quantity.operations import (
    at_least,
    at_most,
    flops,
    geometric_mean,
    largest,
    level_of_largest,
    spanning,
)
from report.quantity.process import Process
from report.quantity.units import UnitError, unit
from report.quantity.verdicts import Statement, all_of, any_of, equals, expect, faster, slower
from report.statistics.estimates import Estimate


def series(name: str, *processes: list[float], of: str = "s", device: str = "cpu") -> Quantity:
    """A series of the processes 0, 1, ... of one run."""
    return measured(
        name,
        of,
        [Process("r", str(i), tuple(found)) for i, found in enumerate(processes)],
        "a.json",
        device,
    )


WORK = exact("work", "FLOP", 8)
TIME = series("time", [1.0, 2.0, 4.0, 2.0, 2.0, 2.0, 2.0])
BYTES = exact("bytes", "B", 3)


def found(quantity: Quantity, confidence: float = 0.95) -> Estimate:
    result = estimate(quantity, confidence)
    assert isinstance(result, Estimate), result
    return result


# --------------------------------------------------------------------------- units and formulas


def test_units_are_read_and_written() -> None:
    texts = {"1": "1", "B/(image·s)": "B/(image·s)", "s·s": "s2", "s2/s": "s"}
    assert {text: str(unit(text)) for text in texts} == texts


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda: WORK + BYTES, "the sum of work (FLOP) and bytes (B)"),
        (lambda: WORK - TIME, "the difference of work (FLOP) and time (s)"),
        (lambda: at_most(WORK, BYTES), "the smallest of of work (FLOP) and bytes (B)"),
        (lambda: WORK + exact("multiply-adds", "MAC", 4), "multiply-adds (MAC)"),
        (lambda: declared(WORK / TIME, "B/s"), "work / time is in FLOP/s, declared in B/s"),
        (lambda: geometric_mean(WORK, WORK), "a mean of ratios needs ratios"),
        (lambda: unit("furlong"), "is not made of FLOP"),
    ],
)
def test_units_that_do_not_fit_are_refused_where_they_meet(
    build: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(UnitError) as caught:
        build()
    assert complaint in str(caught.value)
    assert "tests/test_quantity.py:" in str(caught.value) or "furlong" in complaint + str(caught)


@pytest.mark.parametrize(
    ("quantity", "formula"),
    [
        (WORK / TIME, "work / time"),
        (WORK / (TIME * 2), "work / (time · 2)"),
        ((TIME - TIME) / TIME, "(time − time) / time"),
        (TIME - (TIME - TIME), "time − (time − time)"),
        (2 * WORK / BYTES, "2 · work / bytes"),
        (at_most(TIME, 2 * TIME), "the smallest of time, 2 · time"),
        (flops(exact("M", "MAC", 4)), "2 · M"),
    ],
)
def test_formulas_are_derived(quantity: Quantity, formula: str) -> None:
    assert quantity.formula == formula


def test_sources_and_what_is_missing_are_derived() -> None:
    whole = WORK / TIME + absent("rate of the other", "FLOP/s", "out of memory")
    assert whole.sources == ("a.json",)
    assert estimate(whole) == Missing("out of memory")


# ------------------------------------------------------------------------------------- intervals


def test_what_was_not_measured_is_known_exactly() -> None:
    assert found(WORK / BYTES * 3) == Estimate(8.0, 8.0, 8.0, 0, 1.0)
    both = spanning(exact("x", "1", 2), exact("y", "1", 5))
    assert found(both) == Estimate(2.0, 2.0, 5.0, 0, 1.0)
    assert isinstance(estimate(TIME / reported("difference", "s", 0.0, 1, "r.json")), Missing)
    digits = found(reported("time", "s", 0.45, 2, "r.json"))
    assert (digits.value, digits.low, digits.high) == pytest.approx((0.45, 0.445, 0.455))


def test_two_results_of_one_unit_are_not_taken_for_each_other() -> None:
    """Each ratio has its own processes, so that both have an interval, and not the same one."""
    first = series("a", *([2.0] for _ in range(6))) / series("b", *([1.0] for _ in range(6)))
    second = series("c", *([9.0] for _ in range(7))) / series("d", *([1.0] for _ in range(7)))
    assert first != second
    assert found(second / first).value == 4.5


@pytest.mark.parametrize(("processes", "level"), [(2, 0.5), (3, 0.75), (5, 0.9375), (6, 0.95)])
def test_few_processes_state_the_level_that_they_carry(processes: int, level: float) -> None:
    few = series("time", *([10.0 + i, i + 10.5] for i in range(processes)))
    assert found(few).confidence == pytest.approx(level)
    apart = few / exact("call", "call", 1) + series("other", [1.0] * 40) / exact("c", "call", 1)
    assert found(apart).confidence <= level


def test_cases_of_the_same_processes_are_compared_within_each() -> None:
    """Each process is slower or faster as a whole: the ratio knows nothing of it."""
    drift = [1.0, 3.0, 0.5, 2.0, 1.5, 4.0]
    base = series("base", *([10 * d] for d in drift))
    new = series("new", *([5 * d] for d in drift))
    assert found(base / new) == Estimate(2.0, 2.0, 2.0, 6, 0.95)
    assert found(base).high > 5 * found(base).low
    assert found(largest({1: base, 2: new}) / at_least(base)).low == 1.0


def test_a_process_that_one_series_lacks_is_left_out_of_all() -> None:
    drift = {"0": 1.0, "1": 3.0, "2": 0.5}
    whole = series("whole", *([10 * d] for d in drift.values()))
    ended = measured("ended", "s", [Process("r", p, (5 * drift[p],)) for p in ("2", "1")], "a.json")
    # The drift cancels in each of the two processes, which bound a median at 50 %.
    assert found(whole / ended) == Estimate(2.0, 2.0, 2.0, 2, 0.5)
    assert found(ended / whole) == Estimate(0.5, 0.5, 0.5, 2, 0.5)
    alone = measured("alone", "s", [Process("r", "1", (15.0,))], "a.json")
    assert found(whole / alone).low < found(whole / alone).high


def test_without_a_level_nothing_is_faster_or_slower() -> None:
    apart = [
        measured(f"t{run}", "s", [Process(f"r{run}", p, (t,)) for p in "01"], "a.json")
        for run, t in enumerate((9.0, 1.0))
    ]
    quick = apart[0] / apart[1]
    assert found(quick).confidence == 0.0
    assert found(quick).low > 1
    assert not faster(quick)
    assert not slower(1 / quick)


def test_the_best_level_is_as_sure_as_its_samples() -> None:
    noisy = {
        batch: series(f"rate {batch}", [rate * (1 + s * 0.01) for s in (-2, 1, 0, 2, -1, 0, 1, -1)])
        for batch, rate in {1: 1.0, 2: 1.9, 4: 1.91, 8: 1.5}.items()
    }
    best = found(level_of_largest(noisy, "image"))
    assert (best.value, best.low, best.high) == (4, 2, 4)


Draw = Callable[[random.Random], list[list[float]]]


def _autoregressive(rho: float, n: int) -> Draw:
    def draw(chance: random.Random) -> list[list[float]]:
        state, samples = chance.gauss(0, 1), []
        for _ in range(n):
            samples.append(state)
            state = rho * state + (1 - rho**2) ** 0.5 * chance.gauss(0, 1)
        return [samples]

    return draw


def _processes(count: int) -> Draw:
    def draw(chance: random.Random) -> list[list[float]]:
        centres = [chance.gauss(0, 1) for _ in range(count)]
        return [[centre + chance.gauss(0, 0.1) for _ in range(10)] for centre in centres]

    return draw


def _drifting(chance: random.Random) -> list[list[float]]:
    return [[(i - 20) / 10 + chance.gauss(0, 0.3) for i in range(41)]]


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(_autoregressive(0.0, 30), id="independent"),
        pytest.param(_autoregressive(0.5, 30), id="autocorrelation 0.5"),
        pytest.param(_autoregressive(0.9, 200), id="autocorrelation 0.9"),
        pytest.param(_processes(3), id="three processes"),
        pytest.param(_processes(12), id="twelve processes"),
        pytest.param(_drifting, id="drifting"),
    ],
)
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda x: x, id="median"),
        pytest.param(lambda x: (x + exact("ten", "s", 10)) / exact("two", "s", 2), id="quotient"),
    ],
)
def test_an_interval_holds_the_true_value_as_often_as_it_states(
    draw: Draw, build: Callable[[Quantity], Quantity]
) -> None:
    """The true median of every population is 0; 400 draws, 4 standard errors of tolerance."""
    chance, held, stated = random.Random(7), 0, []
    truth = found(build(exact("truth", "s", 0))).value
    for _ in range(400):
        result = found(build(series("x", *draw(chance))))
        held += result.low <= truth <= result.high
        stated.append(result.confidence)
    level = statistics.mean(stated)
    assert held / 400 >= level - 4 * (level * (1 - level) / 400) ** 0.5 - 0.01


# ------------------------------------------------------------------------------- several runs


def of_runs(*runs: list[float]) -> Quantity:
    """A series of several runs, whose processes have one sample each."""
    processes = [
        Process(f"{number}.json", str(i), (sample,))
        for number, run in enumerate(runs)
        for i, sample in enumerate(run)
    ]
    return measured("time", "s", processes, "0.json", further=("1.json",))


some_runs = st.lists(st.lists(st.floats(0.5, 2), min_size=2, max_size=8), min_size=1, max_size=5)


@settings(max_examples=300, deadline=None)
@given(some_runs)
def test_the_interval_of_few_runs_holds_the_median_of_each(runs: list[list[float]]) -> None:
    result = found(of_runs(*runs))
    plain = found(series("time", *([sample] for run in runs for sample in run)))
    medians = [statistics.median(run) for run in runs]
    assert (result.low, result.high) == (min(plain.low, *medians, 9), max(plain.high, *medians, 0))
    assert (result.value, result.n) == (plain.value, plain.n)
    if (result.low, result.high) == (plain.low, plain.high):
        assert result.confidence == plain.confidence
    else:  # the runs differ, and so few bound their own median no better
        assert result.confidence == min(plain.confidence, 1 - 2 ** (1 - len(runs)))
    if len(runs) == 1:
        assert result == plain


@given(some_runs, st.randoms())
def test_the_order_of_runs_and_processes_does_not_matter(
    runs: list[list[float]], chance: random.Random
) -> None:
    mixed = [chance.sample(run, len(run)) for run in chance.sample(runs, len(runs))]
    assert found(of_runs(*mixed)) == found(of_runs(*runs))


def test_six_runs_are_the_units_themselves() -> None:
    runs = [[10.0 + i, i + 10.1, i + 10.2] for i in range(6)]
    assert found(of_runs(*runs)) == Estimate(12.6, 10.1, 15.1, 18, 0.95)


Shifts = Callable[[random.Random, int], list[float]]


def _around(size: float) -> Shifts:
    """Runs that lie evenly on both sides of the truth, at most ``size`` away."""
    return lambda _, runs: [size * (2 * i / (runs - 1) - 1) for i in range(runs)]


def _by_chance(size: float) -> Shifts:
    """Runs that are faster or slower as a whole by a normal amount."""
    return lambda chance, runs: [chance.gauss(0, size) for _ in range(runs)]


@pytest.mark.parametrize("runs", [2, 3])
@pytest.mark.parametrize(
    ("shifts", "promised"),
    [
        pytest.param(_around(2), "stated", id="either side by twice the scatter of processes"),
        pytest.param(_by_chance(0.25), "stated", id="chance, a quarter of the scatter"),
        pytest.param(_by_chance(10), "runs", id="chance, ten times the scatter"),
    ],
)
def test_the_interval_of_two_or_three_runs_holds_the_truth(
    shifts: Shifts, promised: str, runs: int
) -> None:
    """As often as it states where the runs lie on both sides of the truth, however far apart.

    Runs that are shifted by chance may lie all on one side, which nothing in them tells: the
    interval then holds the truth as often as it states only where the shifts are small beside the
    scatter of processes, and otherwise at least as often as so many runs can, 1 − 2^(1 − runs).
    The scatter of processes is 1; 600 draws, 4 standard errors of tolerance.
    """
    chance, held, stated = random.Random(11), 0, 0.0
    for _ in range(600):
        centres = shifts(chance, runs)
        drawn = [[centre + chance.gauss(0, 1) for _ in range(3)] for centre in centres]
        result = found(of_runs(*drawn))
        held, stated = held + (result.low <= 0 <= result.high), result.confidence
    level = stated if promised == "stated" else 1 - 2 ** (1 - runs)
    assert held / 600 >= level - 4 * (level * (1 - level) / 600) ** 0.5


@pytest.mark.parametrize(("fit", "truth"), [("slope", 2.0), ("intercept", 3.0), ("growth", 1.0)])
@pytest.mark.parametrize("samples", [1, 30])
def test_the_interval_of_a_fit_holds_the_truth_as_often_as_it_states(
    fit: str, truth: float, samples: int
) -> None:
    """Points of a line with a relative error of 2 %, of one or of many samples each."""
    chance, held = random.Random(3), 0
    start = 0.0 if fit == "growth" else 3.0
    for _ in range(200):
        over = {
            x: series(
                f"time {x}", [(start + 2.0 * x) * chance.gauss(1, 0.02) for _ in range(samples)]
            )
            for x in (1, 2, 4, 8, 16, 32)
        }
        quantity = {
            "slope": lambda over: slope(over, "s", relative=True),
            "intercept": lambda over: intercept(over, "s", relative=True),
            "growth": growth,
        }[fit](over)
        held += found(quantity).low <= truth <= found(quantity).high
    assert held / 200 >= 0.95 - 4 * (0.95 * 0.05 / 200) ** 0.5


# -------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("quantity", "statement", "verdict"),
    [
        (exact("x", "1", 2), expect("> 1.5"), "supported"),
        (exact("x", "1", 2), expect("> 2"), "refuted"),
        (exact("x", "1", 2), expect(">= 2"), "supported"),
        (exact("x", "1", 2), expect("< 1"), "refuted"),
        (exact("x", "1", 1), equals(1, 0.05), "supported"),
        (reported("x", "1", 1.0, 0, "r"), equals(1, 0.05), "undecided"),
        (absent("x", "1", "never ran"), equals(1, 0.05), "not measured"),
        (1 / series("x", [-1.0, 1.0] * 9, of="1"), expect("> 0"), "undecided"),
        (series("x", [0.0], [1.0], [2.0], of="1"), expect("> -1"), "undecided"),
        (series("x", *([i + 10.0] for i in range(6)), of="1"), expect("> 0"), "supported"),
    ],
)
def test_one_rule_decides(quantity: Quantity, statement: object, verdict: str) -> None:
    assert Statement(quantity, statement).judge() == verdict  # type: ignore[arg-type]


def test_a_cpu_decides_nothing_about_a_gpu() -> None:
    fast = series("x", *[[2.0]] * 6, of="1")
    assert Statement(fast, expect("> 1"), about="cuda").judge() == "not comparable"
    assert Statement(fast, expect("> 1"), about="cpu").judge() == "supported"


def test_one_process_decides_nothing_however_narrow_its_interval() -> None:
    alone, several = series("x", [2.0] * 99, of="1"), series("y", *[[2.0]] * 6, of="1")
    assert Statement(alone, expect("> 1")).judge() == "undecided"
    assert Statement(several, expect("> 1")).judge() == "supported"
    assert Statement(several / alone, expect("> 0.5")).judge() == "undecided"


def test_all_and_any_are_different_claims() -> None:
    true = Statement(exact("x", "1", 2), expect("> 1"))
    false = Statement(exact("x", "1", 0), expect("> 1"))
    unsure = Statement(series("x", [0.0], [2.0], of="1"), expect("> 1"))
    assert (all_of(true, false).judge(), any_of(true, false).judge()) == ("refuted", "supported")
    assert (all_of(true, true).judge(), any_of(false, false).judge()) == ("supported", "refuted")
    assert (all_of(true, unsure).judge(), any_of(false, unsure).judge()) == ("undecided",) * 2
    sure = Statement(series("x", *([2.0] for _ in range(12)), of="1"), expect("> 1"))
    assert {any_of(sure, *[unsure] * others).judge() for others in range(1, 12)} == {"supported"}
    # Six processes reach 96.9 %, which is not enough for one of two, but both say the same.
    slow = Statement(series("x", *([0.5] for _ in range(6)), of="1"), expect("> 1"))
    assert (all_of(slow, true).judge(), all_of(slow, slow).judge()) == ("undecided", "refuted")


def test_a_rule_of_its_own_gives_the_interval_at_the_shared_level() -> None:
    def interval(confidence: float) -> Estimate:
        return Estimate(1.0, 1 - confidence, 1 + confidence, 30, confidence)

    mean = Inferred(unit("1"), "mean", "record.json", "cpu", interval=interval)
    assert estimate(mean) == interval(0.95)
    twice = estimate(2 * mean - mean)
    assert isinstance(twice, Estimate)
    assert (twice.low, twice.high) == pytest.approx((0.1 - 1.95, 3.9 - 0.05))
    both = estimate(mean - series("x", *([i + 1.0] for i in range(9)), of="1"))
    assert isinstance(both, Estimate)
    assert (both.n, both.high) == (9, pytest.approx(1.975 - 1))
    assert Statement(mean, expect("> 0"), about="cuda").judge() == "not comparable"


def test_faster_and_slower_are_verdicts() -> None:
    few, many = (series("x", *([1.5 + i / 10] for i in range(n)), of="1") for n in (3, 6))
    assert (faster(few), slower(1 / few)) == (False, False)
    assert (faster(many), slower(many)) == (True, False)
    assert (faster(1 / many), slower(1 / many)) == (False, True)
    assert not faster(absent("x", "1", "never ran"))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.floats(0.5, 2), min_size=2, max_size=9), min_size=1, max_size=9),
    st.lists(st.floats(0.5, 2), min_size=1, max_size=12),
    st.floats(1, 20),
    st.sampled_from([expect("> 1"), expect("<= 0.8"), equals(1, 0.3)]),
)
def test_wider_noise_only_ever_leaves_a_verdict_undecided(
    processes: list[list[float]], other: list[float], factor: float, claimed: object
) -> None:
    centre = statistics.median(statistics.median(process) for process in processes)

    def verdict(width: float) -> str:
        wide = [[centre + width * (x - centre) for x in process] for process in processes]
        ratio = series("a", *wide, of="B") / series("b", other, of="B")
        one, many = Statement(ratio, claimed), Statement(series("a", *wide, of="1"), claimed)  # type: ignore[arg-type]
        return all_of(one, many).judge() if width else one.judge()

    assert verdict(factor) in (verdict(1.0), "undecided")


def test_what_few_processes_cannot_do_with_less_is_left_by_the_others() -> None:
    """Six processes lose 3.1 %, more than half of 5 %; a ceiling with many samples can spare it."""
    few = series("time", *([10.0 + n] for n in range(6)))
    draw = random.Random(1)
    calls = tuple(draw.gauss(5, 0.1) for _ in range(40))
    many = measured("ceiling", "s", [Process("r", "c", calls)], "g")
    assert found(few / many).confidence == pytest.approx(0.95)


def test_what_was_disturbed_decides_nothing_however_clear_it_looks_and_says_so() -> None:
    def claim(*, disturbed: bool) -> Claim:
        processes = [Process("r", str(n), (2.0 + n / 100,), disturbed and n == 3) for n in range(8)]
        return judge("x", Statement(measured("gain", "1", processes, "f"), expect("> 1")))

    quiet, loud = claim(disturbed=False), claim(disturbed=True)
    assert (quiet.verdict, loud.verdict) == ("supported", "undecided")
    assert loud.because == f"{quiet.because}; disturbed"


@given(st.lists(st.lists(st.floats(1, 2), min_size=3, max_size=3), min_size=2, max_size=7))
def test_the_level_of_the_largest_is_one_that_was_measured(
    by_process: list[list[float]],
) -> None:
    levels = (1, 4, 16)
    over = {
        level: series(f"rate {level}", *([rates[index]] for rates in by_process), of="1")
        for index, level in enumerate(levels)
    }
    best = found(level_of_largest(over, "1"))
    assert best.value in levels
    assert best.low <= best.value <= best.high
