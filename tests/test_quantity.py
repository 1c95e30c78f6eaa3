"""Quantities: units, formulas, coverage of confidence intervals, and verdicts.

Expected values are closed forms or computed by hand; ranks are compared with scipy.
"""

import math
import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.statistics.estimates import (
    Estimate,
    bonferroni,
    least_squares_slope,
    median_interval,
)
from report.quantity import operations
from report.quantity.evaluation import estimate, printed_number, sample_count, to_digits
from report.quantity.expression import (
    EstimatedNumber,
    Quantity,
    Statement,
    exact_number,
    measured_series,
    missing_number,
    named,
    recorded_number,
    reported_number,
)
from report.quantity.intervals import Process, interval_of_calls, variance_inflation
from report.quantity.units import unit
from report.quantity.verdicts import joint_verdict, verdict_of


def series(name: str, *samples_by_process: list[float], of: str = "s") -> Quantity:
    """Return a measured quantity of one run in the unit ``of``."""
    processes = [Process("r", str(n), tuple(calls)) for n, calls in enumerate(samples_by_process)]
    return measured_series(name, of, processes, "a.json")


WORK = exact_number("work", "FLOP", 8)
TIME = series("time", [1.0, 2.0, 4.0, 2.0, 2.0, 2.0, 2.0])
BYTES = exact_number("bytes", "B", 3)


def estimate_of(quantity: Quantity) -> Estimate:
    """Return the estimate of a quantity that is not missing."""
    result = estimate(quantity)
    assert isinstance(result, Estimate), result
    return result


def test_units_are_read_written_and_combined() -> None:
    texts = {"1": "1", "B/(image·s)": "B/(image·s)", "s·s": "s2", "s2/s": "s", "B2/s3": "B2/s3"}
    assert {text: str(unit(text)) for text in texts} == texts
    products = {("B/s", "s"): "B", ("FLOP", "1"): "FLOP", ("s", "s"): "s2", ("1", "1"): "1"}
    assert {pair: str(unit(pair[0]) * unit(pair[1])) for pair in products} == products
    quotients = {("B", "B"): "1", ("1", "s"): "1/s", ("B", "s2"): "B/s2", ("B/s", "B"): "1/s"}
    assert {pair: str(unit(pair[0]) / unit(pair[1])) for pair in quotients} == quotients


@pytest.mark.parametrize(("call", "message"), [
    (lambda: WORK + BYTES, r"test_quantity\.py:.*the sum of work \(FLOP\) and bytes \(B\)"),
    (lambda: WORK - TIME, r"the difference of work \(FLOP\) and time \(s\)"),
    (lambda: operations.smallest(WORK, BYTES), r"the smallest of work \(FLOP\) and bytes \(B\)"),
    (lambda: operations.geometric_mean(WORK, WORK), "a mean of ratios needs ratios"),
    (lambda: unit("furlong"), "is not made of FLOP"),
    (lambda: TIME.near(1, 0), "positive margin, found 0"),
    (lambda: median_interval([]), "at least 1 value, found 0"),
    (lambda: median_interval([1.0, math.nan]), "finite samples, found nan"),
    (lambda: median_interval([1.0, math.inf]), "finite samples, found inf"),
])  # fmt: skip
def test_meaningless_quantities_are_refused(call: Callable[[], object], message: str) -> None:
    """The message names the place of the call, the operation, and both units."""
    with pytest.raises(StudyError, match=rf"{message}.*\.$"):
        call()


@pytest.mark.parametrize(("quantity", "formula"), [
    (WORK / TIME, "work / time"),
    (WORK / (TIME * 2), "work / (time · 2)"),
    ((TIME - TIME) / TIME, "(time − time) / time"),
    (TIME - (TIME - TIME), "time − (time − time)"),
    (2 * WORK / BYTES, "2 · work / bytes"),
    (operations.smallest(TIME), "time"),
    (operations.largest(*[TIME] * 3, 2 * TIME), "the largest of time, …, 2 · time"),
    (operations.geometric_mean(*[TIME / TIME] * 2), "geometric mean of time / time (2 times)"),
    (operations.common_value(TIME), "time"),
    (operations.common_value(TIME, 2 * TIME), "time, 2 · time, the same in each row"),
    (named("cost", TIME * 2) / TIME, "cost / time"),
    (WORK / (BYTES / TIME), "work / (bytes / time)"),
    (TIME - TIME * 2, "time − time · 2"),
    (operations.flops(exact_number("M", "MAC", 4)), "2 · M"),
])  # fmt: skip
def test_formulas_are_derived(quantity: Quantity, formula: str) -> None:
    assert quantity.formula == formula


def printed(name: str, value: float, decimals: int = 0) -> Quantity:
    """Return a ratio that a source prints with this number of decimals."""
    return reported_number(name, "1", value, decimals, "r.json")


#: Numbers printed by a source; their bounds are half a unit of the last printed digit away.
TWO, MINUS_THREE = printed("two", 2), printed("minus three", -3)
TWO_POINT_ZERO, FOUR_POINT_ZERO = printed("sharp", 2, decimals=1), printed("four", 4, decimals=1)


# Quantity, value, and both bounds.
@pytest.mark.parametrize(("quantity", "value", "low", "high"), [
    (TWO, 2, 1.5, 2.5),
    (TWO + FOUR_POINT_ZERO, 6, 5.45, 6.55),
    (TWO - FOUR_POINT_ZERO, -2, -2.55, -1.45),
    (TWO * FOUR_POINT_ZERO, 8, 1.5 * 3.95, 2.5 * 4.05),
    (TWO * MINUS_THREE, -6, -2.5 * 3.5, -1.5 * 2.5),
    (TWO / FOUR_POINT_ZERO, 0.5, 1.5 / 4.05, 2.5 / 3.95),
    (TWO / MINUS_THREE, -2 / 3, -1, -1.5 / 3.5),
    (1 - TWO, -1, -1.5, -0.5),
    (3 / TWO, 1.5, 3 / 2.5, 2),
    (operations.smallest(TWO, TWO_POINT_ZERO), 2, 1.5, 2.05),
    (operations.largest(TWO, TWO_POINT_ZERO), 2, 1.95, 2.5),
    (operations.largest(TWO, FOUR_POINT_ZERO), 4, 3.95, 4.05),
    (operations.range_over(TWO_POINT_ZERO, TWO), 2, 1.5, 2.5),
    (operations.common_value(TWO, TWO_POINT_ZERO), 2, 1.95, 2.05),
    (operations.geometric_mean(TWO, FOUR_POINT_ZERO),
     8**0.5, (1.5 * 3.95) ** 0.5, (2.5 * 4.05) ** 0.5),
    (operations.counted_in("image", TWO), 2, 1.5, 2.5),
    (2 * exact_number("x", "1", 5), 10, 10, 10),
])  # fmt: skip
def test_bounds_of_printed_numbers_by_interval_arithmetic(
    quantity: Quantity, value: float, low: float, high: float
) -> None:
    result = estimate_of(quantity)
    assert (result.value, result.low, result.high) == pytest.approx((value, low, high), abs=1e-12)
    assert (result.n, result.confidence, result.bimodal) == (0, 1.0, False)


@pytest.mark.parametrize(("quantity", "reason"), [
    (TWO / printed("nothing", 0), "the interval of the divisor holds 0"),
    (TWO / printed("half", 0.5), "the interval of the divisor holds 0"),
    (operations.common_value(TWO, FOUR_POINT_ZERO), "differs between rows, from 2 to 4"),
    (operations.common_value(exact_number("a", "1", 1), exact_number("b", "1", 10**6)),
     "from 1 to 1e+06"),
    (TWO + missing_number("rate", "1", "out of memory"), "out of memory"),
])  # fmt: skip
def test_missing_results_have_a_reason(quantity: Quantity, reason: str) -> None:
    result = estimate(quantity)
    assert isinstance(result, Missing) and reason in result.reason
    assert isinstance(printed_number(quantity), Missing)


def test_numbers_are_exact_if_no_sample_enters() -> None:
    assert printed_number(exact_number("x", "1", 10**30) + 1) == 10**30 + 1
    two, four, five = (exact_number(str(number), "B", number) for number in (2, 4, 5))
    assert printed_number(five - two) == 3
    assert printed_number(five * two / four) == 2.5
    assert printed_number(exact_number("x", "1", 1) / 3) == pytest.approx(1 / 3)
    quotient = printed_number(WORK / two)
    assert quotient == 4 and isinstance(quotient, int)
    assert printed_number(TWO_POINT_ZERO) == estimate_of(TWO_POINT_ZERO)
    assert printed_number(to_digits(exact_number("x", "1", 12345.678, "f"), 3)) == 12300
    assert to_digits(exact_number("x", "1", 1.5, "f"), 3).sources == ("f",)
    assert printed_number(recorded_number("x", "B", 7, "f")) == 7
    assert printed_number(recorded_number("x", "B", Missing("no file"))) == Missing("no file")
    assert (sample_count(TIME + 2 * TIME), sample_count(WORK)) == (7, 0)
    assert (WORK / TIME + missing_number("rate", "FLOP/s", "out of memory")).sources == ("a.json",)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.975, 0.99])
def test_bounds_of_medians_have_the_innermost_ranks_that_reach_the_level(confidence: float) -> None:
    """If not even the extremes reach the level, they are the bounds, at a lower level."""
    binomial = pytest.importorskip("scipy.stats").binom
    for n in (*range(1, 120), 500, 2001, 4097):
        interval = median_interval(range(1, n + 1), confidence)
        rank = int(interval.low)
        assert interval.high == n + 1 - rank
        if interval.confidence == confidence:
            tail = (1 - confidence) / 2 * (1 + 1e-9)
            assert binomial.cdf(rank - 1, n, 0.5) <= tail < binomial.cdf(rank, n, 0.5)
        else:
            assert rank == 1
            assert interval.confidence == 1 - 2 * 0.5**n < confidence


@pytest.mark.parametrize(("samples", "confidence", "expected"), [
    ([3], 0.95, Estimate(3, 3, 3, n=1, confidence=0.0)),
    ([1, 2, 4], 0.95, Estimate(2, 1, 4, n=3, confidence=0.75)),
    # The smallest and largest sample reach exactly the level 1 - 2 / 2^n.
    ([1, 2, 3, 4], 0.875, Estimate(2.5, 1, 4, n=4, confidence=0.875)),
    ([1, 2, 3, 4], 0.876, Estimate(2.5, 1, 4, n=4, confidence=0.875)),
    ([1, 2, 3, 4], 0.375, Estimate(2.5, 2, 3, n=4, confidence=0.375)),
    (range(1, 10), 0.95, Estimate(5, 2, 8, n=9, confidence=0.95)),
])  # fmt: skip
def test_medians_by_hand(samples: Any, confidence: float, expected: Estimate) -> None:
    assert median_interval(samples, confidence) == expected


def test_a_slope_and_its_robust_interval_by_hand() -> None:
    """Offsets of x are -1, 0, 1 and residuals 1/3, -2/3, 1/3: the error is sqrt(2/9) / 2."""
    slope = least_squares_slope([0, 1, 2], [0, 0, 2], 0.95)
    margin = 1.959964 * (2 / 9) ** 0.5 / 2
    assert [slope.value, slope.low, slope.high] == pytest.approx([1, 1 - margin, 1 + margin])
    assert (slope.n, slope.confidence) == (3, 0.95)


def test_bonferroni_divides_the_error_probability() -> None:
    assert [bonferroni(0.95, 2), bonferroni(0.9, 1)] == pytest.approx([0.975, 0.9])


ORDERED = [float(n) for n in range(1, 41)]


# ``factor``: inflation of the variance by autocorrelation.
@pytest.mark.parametrize(("factor", "low", "high", "level"), [
    (1.0, 14, 27, 0.95),
    # 40 / 4 = 10 independent calls; ranks 2 and 9 of 10, scaled to ranks of 40.
    (4.0, 6, 35, 0.95),
    (5.0, 3, 38, 0.95),
    # The extremes of four independent calls reach 87.5 %; fewer than two calls reach no level.
    (10.0, 1, 40, 0.875),
    (40.0, 1, 40, 0.0),
    (80.0, 1, 40, 0.0),
])  # fmt: skip
def test_correlated_calls_count_less(factor: float, low: float, high: float, level: float) -> None:
    expected = Estimate(20.5, low, high, n=40, confidence=level)
    assert interval_of_calls(ORDERED, 0.95, factor) == expected


def test_variance_inflation_of_first_order_autoregressions() -> None:
    """Fewer than eight calls, and calls without significant correlation, are not inflated.

    The correlation is computed from ranks, corrected for its bias, and limited to 0.98.
    """
    scipy = pytest.importorskip("scipy.stats")
    for calls in ([1.0, 2.0] * 3, [2.0] * 20, ORDERED[:7]):
        assert variance_inflation(calls) == 1.0
    rng = random.Random(5)
    for rho, n in ((0.5, 8), (0.7, 40), (0.9, 100), (0.99, 60)):
        calls = [0.0]
        for _ in range(n - 1):
            calls.append(rho * calls[-1] + round(rng.gauss(0, 1), 1))
        ranks = scipy.rankdata(calls)
        pearson = 2 * math.sin(math.pi / 6 * statistics.correlation(ranks[:-1], ranks[1:]))
        corrected = min(pearson + (1 + 4 * max(pearson, 0)) / n, 0.98)
        expected = sum_of_lags(corrected, n) if corrected > 2 / math.sqrt(n) else 1.0
        assert variance_inflation(calls) == pytest.approx(expected)
    for n in (8, 40):
        assert variance_inflation(ORDERED[:n]) == pytest.approx(sum_of_lags(0.98, n))
    level = interval_of_calls(ORDERED, 0.95, variance_inflation(ORDERED)).confidence
    assert estimate_of(series("calls", ORDERED)).confidence == pytest.approx(level)


def sum_of_lags(rho: float, n: int) -> float:
    """Return the variance inflation of the median of ``n`` calls with lag-1 correlation ``rho``."""
    return 1 + 4 / math.pi * sum((1 - k / n) * math.asin(rho**k) for k in range(1, n))


def in_runs(*samples_by_run: list[float]) -> Quantity:
    """Return a time of several runs whose processes have one sample each."""
    processes = []
    for run, samples in enumerate(samples_by_run):
        processes += [Process(f"{run}.json", str(n), (s,)) for n, s in enumerate(samples)]
    return measured_series("time", "s", processes, "0.json", other_files=("1.json",))


def in_processes(name: str, *values: float) -> Quantity:
    """Return a time with one sample per process."""
    return series(name, *([value] for value in values))


#: Factors by which whole processes are slower or faster.
DRIFT = (1.0, 3.0, 0.5, 2.0, 1.5, 4.0)
BASE, NEW = (in_processes("base", *(k * d for d in DRIFT)) for k in (10, 5))
#: Times of the processes 2 and 1 only, of one process, and of 40 calls of another process.
PAIR = measured_series(
    "ended", "s", [Process("r", str(p), (5 * DRIFT[p],)) for p in (2, 1)], "a.json"
)
ONE_PROCESS = measured_series("alone", "s", [Process("r", "1", (15.0,))], "a.json")
CALLS = measured_series(
    "calls", "s", [Process("r", "c", tuple(100 + 7 * i % 40 for i in range(40)))], "g"
)


# Quantity, and its value, bounds, number of samples and level by hand.
@pytest.mark.parametrize(("quantity", "expected"), [
    # A ratio within processes cancels the drift that both series share.
    (BASE / NEW, (2, 2, 2, 6, 0.95)),
    (operations.largest(BASE, NEW) / operations.largest(BASE), (1, 1, 1, 6, 0.95)),
    # A ratio uses only processes that both series have.
    (BASE / PAIR, (2, 2, 2, 2, 0.5)),
    (PAIR / BASE, (0.5, 0.5, 0.5, 2, 0.5)),
    # Two ratios of different processes are not paired.
    ((in_processes("c", *[9] * 7) / in_processes("d", *[1] * 7))
     / (in_processes("a", *[2] * 6) / in_processes("b", *[1] * 6)), (4.5, 4.5, 4.5, 6, 0.95)),
    # Fewer than six processes reach a level below 95 %.
    (in_processes("t", 10, 11, 12, 13, 14), (12, 10, 14, 5, 0.9375)),
    (in_processes("t", 10, 11, 12, 13, 14, 15), (12.5, 10, 15, 6, 0.95)),
    # The calls' median is 119.5, and their interval 112 to 127; 14.5 / 119.5 = 0.1213.
    (in_processes("t", *range(12, 18)) / CALLS,
     (0.1213389121338912, 12 / 127, 17 / 112, 6, 0.95)),
    # With six runs or more, each run counts as one sample.
    (in_runs(*([10.0 + i, i + 10.1, i + 10.2] for i in range(6))), (12.6, 10.1, 15.1, 18, 0.95)),
    # With fewer runs, the interval contains each run's median, at most at the level of so few runs.
    (in_runs([float(n) for n in range(10, 16)]), (12.5, 10, 15, 6, 0.95)),
    (in_runs([5.0] * 10, [5.5, 5.0]), (5, 5, 5.25, 12, 0.5)),
    (in_runs([5.0] * 10, [100.0]), (5, 5, 100, 11, 0.5)),
    (in_runs([5.0] * 10, [1.0]), (5, 1, 5, 11, 0.5)),
    (in_runs([5.0] * 10, [5.0], [100.0]), (5, 5, 100, 12, 0.75)),
])  # fmt: skip
def test_estimates_equal_values_by_hand(
    quantity: Quantity, expected: tuple[float, float, float, int, float]
) -> None:
    assert estimate_of(quantity) == Estimate(*expected)


def test_processes_in_two_groups_are_bimodal() -> None:
    """A ratio uses all processes if the other series has a single process."""
    assert estimate_of(BASE) == Estimate(17.5, 5, 40, n=6, confidence=0, bimodal=True)
    expected = Estimate(17.5 / 15, 5 / 15, 40 / 15, n=1, confidence=0, bimodal=True)
    assert estimate_of(BASE / ONE_PROCESS) == expected


def ratio_of_pairs(log_times: Any) -> Quantity:
    """Return the ratio of the times of programs b and a in six pairs of disturbed processes.

    ``log_times`` are the logarithms of twelve processes' medians, in the order a b b a a b ….
    """
    pairs = np.exp(log_times).reshape(6, 2)
    pairs[1::2] = pairs[1::2, ::-1]
    series = []
    for name, times in zip("ab", pairs.T, strict=True):
        processes = [Process("r", str(n), (t,), disturbed=True) for n, t in enumerate(times)]
        series.append(measured_series(name, "s", processes, "f"))
    return series[1] / series[0]


@pytest.mark.parametrize("noise", ["independent", "autocorrelated", "two groups"])
def test_pairs_of_equal_times_rarely_decide(noise: str) -> None:
    """docs/how-numbers-are-made.md has the shares of 2,000 trials."""
    rng, trials, decided = np.random.default_rng(11), 1000, 0
    for _ in range(trials):
        log_times = rng.normal(0, 0.3, 12)
        if noise == "autocorrelated":
            for n in range(1, 12):
                log_times[n] = 0.9 * log_times[n - 1] + (1 - 0.9**2) ** 0.5 * log_times[n]
        elif noise == "two groups":
            log_times = rng.integers(0, 2, 12) * math.log(2) + rng.normal(0, 0.02, 12)
        decided += verdict_of(ratio_of_pairs(log_times) > 1) != "undecided"
    assert decided / trials <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5
    # A gain above the noise is supported, even if all processes were disturbed.
    log_times[[1, 2, 5, 6, 9, 10]] += math.log(9)
    assert verdict_of(ratio_of_pairs(log_times) > 1.1) == "supported"


def ratio(value: float) -> Quantity:
    return exact_number("x", "1", value)


def ratios(*values: float) -> Quantity:
    """Return a series of ratios, one per process."""
    return series("x", *([value] for value in values), of="1")


def eight_ratios(disturbed: int | None) -> Quantity:
    """Return ratios of processes 0 to 7; the process with this number was disturbed."""
    processes = [Process("r", str(n), (2.0 + n / 100,), n == disturbed) for n in range(8)]
    return measured_series("gain", "1", processes, "f")


#: Equal ratios of six processes, and of 99 calls of one process.
SIX, CALLS_OF_ONE = ratios(*[2.0] * 6), series("calls", [2.0] * 99, of="1")


# A printed 1 is between 0.5 and 1.5.  Calls of one process never decide, however narrow their
# interval is.  One disturbed process leaves a claim undecided, however far all ratios are from 1.
@pytest.mark.parametrize(("verdict", "statements"), [
    ("supported", [
        ratio(2) > 1.5, ratio(2) < 2.5, ratio(-2) < -1.5, ratio(1.0625).near(1, 0.0625),
        ratio(7).exactly(7), ratio(7).near(8, 1), printed("x", 1).near(1, 0.5),
        ratios(*range(10, 16)) > 0, SIX > 1, eight_ratios(disturbed=None) > 1,
    ]),
    ("refuted", [ratio(2) > 2, ratio(2) < 2, ratio(1.125).near(1, 0.0625)]),
    ("undecided", [
        printed("x", 1).near(1, 0.05), (1 / series("x", [-1.0, 1.0] * 9, of="1")) > 0,
        ratios(0, 1, 2) > -1, ratios(*range(10, 15)) > 0, CALLS_OF_ONE > 1,
        (SIX / CALLS_OF_ONE) > 0.5, eight_ratios(disturbed=3) > 1,
    ]),
    ("not measured", [missing_number("x", "1", "never ran").near(1, 0.05)]),
])  # fmt: skip
def test_verdicts_of_one_statement(verdict: str, statements: list[Statement]) -> None:
    for statement in statements:
        own = verdict_of(statement)
        assert own == joint_verdict([statement], [own]) == verdict, statement


TRUE, FALSE, UNDECIDED, TWELVE_ABOVE, SIX_BELOW = (
    value > 1 for value in (ratio(2), ratio(0), ratios(0, 2), ratios(*[2] * 12), ratios(*[0.5] * 6))
)


@pytest.mark.parametrize(("statements", "verdict"), [
    ((TRUE, TRUE), "supported"),
    ((FALSE, FALSE), "refuted"),
    ((TRUE, FALSE), "refuted"),
    ((TRUE, UNDECIDED), "undecided"),
    ((FALSE, UNDECIDED), "refuted"),
    ((TWELVE_ABOVE, *[UNDECIDED] * 5), "undecided"),
    # Six processes reach 96.9 %, below the 97.5 % that each of two statements needs to be decided;
    # a refutation by both suffices.
    ((SIX_BELOW, TRUE), "undecided"),
    ((SIX_BELOW, SIX_BELOW), "refuted"),
    ((), "not measured"),
])  # fmt: skip
def test_all_statements_must_hold(statements: tuple[Statement, ...], verdict: str) -> None:
    assert joint_verdict(statements, [*map(verdict_of, statements)]) == verdict


def test_two_series_of_a_difference_have_intervals_at_a_shared_level() -> None:
    """Each is at 97.5 %, where the function of an inferred quantity ends at 1.975."""

    def interval(confidence: float) -> Estimate:
        return Estimate(1.0, 1 - confidence, 1 + confidence, n=30, confidence=confidence)

    mean = EstimatedNumber(unit("1"), "mean", "record.json", interval=interval)
    assert estimate(mean) == interval(0.95)
    difference = estimate_of(mean - ratios(*range(1, 10)))
    assert (difference.n, difference.high) == (9, pytest.approx(1.975 - 1))
