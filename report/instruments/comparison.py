"""Verdicts on functions that were timed beside a baseline, from one ratio per pair of processes.

A pair of processes times the function and the baseline by turns, so that drifts of the machine
cancel.  In records a pair is one ``Round`` of a case, and a case compares one function.  A verdict
follows from the interval of the median ratio over pairs, because pairs are independent, unlike
calls within one process.  All pairs run under the memory policy ``retained``: freed memory is kept.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from statistics import NormalDist, fmean, median
from typing import Final, Literal, TypeAlias

from report.core.missing import Missing
from report.core.records.record import FEWEST_PROCESSES, Case, Record, Round
from report.core.statistics.estimates import (
    CONFIDENCE,
    Estimate,
    binomial_rank,
    bonferroni,
    median_interval,
)
from report.core.text.format import first_names
from report.instruments import case_operators, gates

#: Name that records of comparisons have in place of the name of a study.
RECORD_NAME: Final = "compare"
#: Verdict on a function, compared with the baseline.
VerdictWord: TypeAlias = Literal[
    "faster", "slower", "no difference", "undecided", "wrong", "impossible", "not measured"
]
#: If the function is at fault, the reason of a failure begins with one of these texts.
_FUNCTION_FAULTS: Final = ("wrong result", "failed", "too many threads")
#: Share of comparisons whose interval must be above 1 for a true gain (statistical power).
_POWER: Final = 0.8
#: Largest number of pairs that messages suggest.
MOST_PAIRS: Final = 200


@dataclass(frozen=True)
class ComparisonVerdict:
    """Verdict on a function: ``word``, and the ``reason`` if wrong, impossible or not measured.

    ``ratio`` is the baseline's time divided by the function's time.  ``margin`` is the relative
    difference up to which times count as equal.  ``time`` is the median over processes of the
    median call (s).  ``pairs`` is the number of pairs of processes, and ``disturbed`` the number of
    pairs during which other programs ran.
    """

    function: str
    word: VerdictWord
    reason: str | None = None
    ratio: Estimate | None = None
    margin: float = 0.0
    time: float | None = None
    pairs: int = 0
    disturbed: int = 0

    @property
    def sentence(self) -> str:
        """The reason if there is one, else the verdict with ratio and interval."""
        if self.ratio is None or self.reason:
            return self.reason or self.word
        beyond = f" beyond {100 * self.margin:g} %" if self.word == "no difference" else ""
        interval = f"[{self.ratio.low:.3f}, {self.ratio.high:.3f}]"
        return f"{self.word}{beyond}: {self.ratio.value:.3f} times the baseline's speed {interval}"


def verdict_word(ratio: Estimate, margin: float) -> VerdictWord:
    """Return the verdict that follows from the interval of baseline time / function time."""
    if ratio.confidence < CONFIDENCE:
        return "undecided"
    if 1 / (1 + margin) <= ratio.low and ratio.high <= 1 + margin:
        return "no difference"
    if ratio.low > 1:
        return "faster"
    return "slower" if ratio.high < 1 else "undecided"


def speed_ratio(round_: Round) -> float:
    """Return baseline time / function time of a pair of processes, from the median calls."""
    return median(round_.samples("baseline_time")) / median(round_.samples("time"))


def _median_pages(rounds: Iterable[Round], series: str) -> float:
    """Return the median over processes of the pages that the median call maps."""
    return median(median(round_.samples(series)) for round_ in rounds)


def verdicts(record: Record) -> tuple[ComparisonVerdict, ...]:
    """Return the verdict on each case's function; the last function is the baseline itself."""
    return tuple(
        comparison_verdict(record, case, float(case.factors["margin"])) for case in record.cases
    )


def comparison_verdict(record: Record, case: Case, margin: float) -> ComparisonVerdict:
    """Return the verdict on the function of a case, with a relative ``margin`` for equal times.

    If a process failed, the verdict is ``wrong`` if the function is at fault, else ``not
    measured``.  It is ``impossible`` if bytes moved faster than the measured bandwidth allows.
    """
    function = str(case.factors.get("function", ""))
    for fault in (*(round_.reason for round_ in case.rounds), case.reason):
        if fault is not None:
            word: VerdictWord = "wrong" if fault.startswith(_FUNCTION_FAULTS) else "not measured"
            return ComparisonVerdict(function, word, fault)
    rounds = _timed_pairs(case)
    if not rounds:
        return ComparisonVerdict(function, "not measured", "no pair of processes was measured")
    estimate = median_interval(speed_ratio(round_) for round_ in rounds)
    reason = _impossible_speed(record, rounds)
    return ComparisonVerdict(
        function,
        "impossible" if reason else verdict_word(estimate, margin),
        reason,
        estimate,
        margin,
        time=median(median(round_.samples("time")) for round_ in rounds),
        pairs=len(rounds),
        disturbed=sum(round_.disturbance is not None for round_ in rounds),
    )


def _timed_pairs(case: Case) -> list[Round]:
    """Return the pairs of processes with times of both functions, all above 0."""
    pairs: list[Round] = []
    for round_ in case.rounds_under("retained"):
        times = round_.samples("time"), round_.samples("baseline_time")
        if all(min(samples, default=0) > 0 for samples in times):
            pairs.append(round_)
    return pairs


def _impossible_speed(record: Record, rounds: Iterable[Round]) -> str | None:
    """Describe the first pair whose bytes moved faster than the highest measured bandwidth allows.

    Up to ``PEAK_SCATTER`` times this bandwidth is allowed.  Returns None if all pairs are possible,
    or if no bandwidth was measured.
    """
    ceilings = [item for item in record.ceilings if item.work_unit == "B" and item.samples]
    if not ceilings:
        return None
    highest = max(map(gates.ceiling_rate, ceilings))
    for round_ in rounds:
        moved = max(round_.samples("call_bytes"), default=0)
        time = median(round_.samples("time"))
        if moved > gates.PEAK_SCATTER * highest * time:
            return (
                f"impossible (process {round_.process}): its {moved:,} B of arguments and results "
                f"moved at {moved / time / 1e9:.3g} GB/s, and the fastest cache moves "
                f"{highest / 1e9:.3g} GB/s"
            )
    return None


def groups(record: Record) -> list[list[ComparisonVerdict]]:
    """Group the correct functions, fastest first; members do not differ from their group's first.

    Two functions differ if the interval of their ratio within common processes excludes 1, at a
    confidence corrected for all pairs of functions.  Functions with no common process, or too few
    common processes for this confidence, do not differ.
    """
    compared: list[tuple[float, ComparisonVerdict, dict[int, float]]] = []
    for result, case in zip(verdicts(record), record.cases, strict=True):
        if result.ratio is not None and not result.reason:
            speeds = {round_.process: speed_ratio(round_) for round_ in _timed_pairs(case)}
            compared.append((result.ratio.value, result, speeds))
    compared.sort(key=itemgetter(0), reverse=True)
    confidence = bonferroni(CONFIDENCE, max(1, math.comb(len(compared), 2)))
    grouped: list[list[ComparisonVerdict]] = []
    speeds_of_first: dict[int, float] = {}
    for _, result, speeds in compared:
        common_processes = speeds.keys() & speeds_of_first.keys()
        ratios = [speeds_of_first[process] / speeds[process] for process in common_processes]
        differs = False
        if ratios:
            interval = median_interval(ratios, confidence)
            differs = interval.confidence >= confidence and not interval.low <= 1 <= interval.high
        if differs or not grouped:
            grouped.append([])
            speeds_of_first = speeds
        grouped[-1].append(result)
    return grouped


def report_lines(record: Record, files: Mapping[str, bytes | Missing]) -> Iterator[str]:
    """Yield lines with verdicts, groups, explanations and counts; ``files``: name → attachment."""
    results = verdicts(record)
    *candidates, control = results
    for result in candidates:
        yield f"{result.function}: {result.sentence}"
    yield f"{control.function} beside itself: {control.sentence}"
    if len(candidates) > 1:
        for number, group in enumerate(groups(record), start=1):
            members = ", ".join(result.function for result in group)
            yield f"group {number}, not told apart when all pairs are tested: {members}"
    yield from explanations(record, files)
    yield f"pairs of processes: {control.pairs}, of which disturbed: {control.disturbed}"
    warning = disturbance_warning(results)
    if warning:
        yield warning


def disturbance_warning(results: Iterable[ComparisonVerdict]) -> str | None:
    """Name the functions whose pairs were all disturbed; return None without such functions."""
    disturbed = [item.function for item in results if item.pairs and item.disturbed == item.pairs]
    if not disturbed:
        return None
    pairs = f"all pairs of processes of {first_names(disturbed)}"
    return f"other programs disturbed {pairs}; repeat with --wait-quiet 10"


def explanations(record: Record, files: Mapping[str, bytes | Missing]) -> Iterator[str]:
    """Yield explanations of speeds: pages that functions map, work, and shares of peak rates."""
    for case in record.cases:
        retained = case.rounds_under("retained")
        rounds = [round_ for round_ in retained if round_.samples("page_faults")]
        if rounds:
            mapped = _median_pages(rounds, "page_faults")
            baseline = _median_pages(rounds, "baseline_page_faults")
            function = case.factors["function"]
            yield f"{function} maps {mapped:,.0f} pages a call, the baseline {baseline:,.0f}"
    seconds = {result.function: result.time for result in verdicts(record)}
    functions_by_reason = defaultdict[str, list[str]](list)
    for name, content in files.items():
        if isinstance(content, Missing):
            continue
        operators = case_operators.unpack(content, name)
        if case_operators.NO_TENSORS in (operators.reason or ""):
            continue
        function = str(operators.factors["function"])
        theory = operators.theory(record.environment)
        if theory is None:
            functions_by_reason[str(operators.reason)].append(function)
        elif theory.multiply_adds is None or theory.bytes is None:
            reason = f"no theory of {', '.join(theory.unknown_operators)}"
            functions_by_reason[reason].append(function)
        else:
            work = f"{theory.multiply_adds:,} multiply-adds, {theory.bytes:,} B of traffic"
            shares = _shares(record, theory.multiply_adds, theory.bytes, seconds.get(function))
            yield f"theory of {function}: {work}{shares}"
    for reason, functions in functions_by_reason.items():
        yield f"theory of {first_names(functions)}: missing, {reason}"


def _shares(record: Record, multiply_adds: int, moved_bytes: int, time: float | None) -> str:
    """State the shares of the peak rates that a call reached in ``time`` (s), or "" if unknown."""
    peak = gates.best_arithmetic_rate(record.ceilings)
    bandwidth = gates.bounding_rate(record, "copy")
    if not (time and peak and bandwidth):
        return ""
    return (
        f"; {2 * multiply_adds / time / peak:.0%} of the peak rate, "
        f"{moved_bytes / time / bandwidth:.0%} of the bandwidth of memory"
    )


def log_deviation(ratios: Iterable[float]) -> float:
    """Estimate the standard deviation of the logarithms of ratios whose true value is 1."""
    return math.sqrt(fmean(math.log(value) ** 2 for value in ratios))


def decidable_gain(deviation: float, pairs: int) -> float:
    """Return the smallest relative gain that ``pairs`` show in four of five comparisons.

    The logarithms of ratios are assumed to be normal with the standard deviation ``deviation``.
    """
    quantile = NormalDist().inv_cdf(_needed_probability(pairs))
    return math.exp(deviation * quantile) - 1


@cache
def _needed_probability(pairs: int) -> float:
    """Return the probability of a ratio above 1 at which four of five comparisons show a gain.

    A gain is shown if the interval's lower end, one of the sorted ratios, is above 1.
    """
    rank, _ = binomial_rank(pairs, CONFIDENCE)
    fewest = pairs - rank + 1  # ratios that must be above 1
    low, high = 0.5, 1.0
    for _ in range(50):  # bisection
        p = (low + high) / 2
        power = sum(
            math.comb(pairs, k) * p**k * (1 - p) ** (pairs - k) for k in range(fewest, pairs + 1)
        )
        if power >= _POWER:
            high = p
        else:
            low = p
    return high


def pairs_needed(deviation: float, gain: float) -> int | None:
    """Return the smallest number of pairs that show ``gain``; None if it exceeds ``MOST_PAIRS``."""
    for pairs in range(FEWEST_PROCESSES, MOST_PAIRS + 1):
        if decidable_gain(deviation, pairs) <= gain:
            return pairs
    return None


def power_text(deviation: float, pairs: int, gain: float) -> str:
    """State the gain that ``pairs`` can show, and how many pairs can show ``gain``."""
    count = pairs_needed(deviation, gain)
    needed = f"{count} pairs"
    if count is None:
        needed = f"over {MOST_PAIRS} pairs; close other programs, or let a call do more"
    shown_gain = decidable_gain(deviation, pairs)
    return (
        f"{pairs} pairs show a difference of {shown_gain:.1%} or more in four of five runs. "
        f"One of {gain:.1%} needs {needed}"
    )
