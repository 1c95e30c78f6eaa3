"""Verdicts on functions that were timed beside a baseline, from one ratio per pair of processes.

The interval of a verdict is an exact interval of the median ratio.  Unlike calls of one process,
pairs of processes are independent.  Drifts of the machine cancel within a pair.
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

#: Name of the study whose records are comparisons.
NAME: Final = "compare"
VerdictWord: TypeAlias = Literal[
    "faster", "slower", "no difference", "undecided", "wrong", "impossible", "not measured"
]
#: Beginnings of failure reasons that are faults of the function.
_FUNCTION_FAULTS: Final = ("wrong result", "failed", "too many threads")
#: Share of runs that must decide a gain (statistical power).
_POWER: Final = 0.8
#: Largest number of pairs that messages suggest.
MOST_PAIRS: Final = 200


@dataclass(frozen=True)
class ComparisonVerdict:
    """Verdict on a function: ``word``, and the ``reason`` if wrong, impossible or not measured.

    ``ratio`` is the baseline's time divided by the function's time.  ``time`` is the median over
    processes of the median call (s).
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
        """Verdict in words, with ratio and interval if measured."""
        if self.ratio is None or self.reason:
            return self.reason or self.word
        beyond = f" beyond {100 * self.margin:g} %" if self.word == "no difference" else ""
        interval = f"[{self.ratio.low:.3f}, {self.ratio.high:.3f}]"
        return f"{self.word}{beyond}: {self.ratio.value:.3f} times the baseline's speed {interval}"


def verdict_word(ratio: Estimate, margin: float) -> VerdictWord:
    """Return the verdict that follows from the interval of a ratio."""
    if ratio.confidence < CONFIDENCE:
        return "undecided"
    if 1 / (1 + margin) <= ratio.low and ratio.high <= 1 + margin:
        return "no difference"
    if ratio.low > 1:
        return "faster"
    return "slower" if ratio.high < 1 else "undecided"


def ratio(round_: Round) -> float:
    """Return the ratio of median times in a pair of processes, baseline over function."""
    return median(round_.samples("baseline_time")) / median(round_.samples("time"))


def pages(rounds: Iterable[Round], series: str) -> float:
    """Return the median over processes of the pages mapped in the median call."""
    return median(median(round_.samples(series)) for round_ in rounds)


def verdicts(record: Record) -> tuple[ComparisonVerdict, ...]:
    """Return the verdicts on all cases; the last case compares the baseline with itself."""
    return tuple(decide(record, case, float(case.factors["margin"])) for case in record.cases)


def decide(record: Record, case: Case, margin: float) -> ComparisonVerdict:
    """Return the verdict on a case; one wrong result in any process makes the verdict wrong."""
    function = str(case.factors.get("function", ""))
    for fault in (*(round_.reason for round_ in case.rounds), case.reason):
        if fault is not None:
            word: VerdictWord = "wrong" if fault.startswith(_FUNCTION_FAULTS) else "not measured"
            return ComparisonVerdict(function, word, fault)
    rounds = [*filter(_is_timed, case.rounds_under("retained"))]
    if not rounds:
        return ComparisonVerdict(function, "not measured", "no pair of processes was measured")
    estimate, reason = median_interval(map(ratio, rounds)), _impossible_speed(record, rounds)
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


def _is_timed(round_: Round) -> bool:
    series = (round_.samples(name) for name in ("time", "baseline_time"))
    return all(min(samples, default=0) > 0 for samples in series)


def _impossible_speed(record: Record, rounds: Iterable[Round]) -> str | None:
    """Explain which bytes moved faster than any measured bandwidth; None if no bytes did."""
    rates = [gates.rate(c) for c in record.ceilings if c.work_unit == "B" and c.samples]
    for round_ in rounds:
        moved, time = max(round_.samples("call_bytes"), default=0), median(round_.samples("time"))
        if rates and moved > gates.PEAK_SCATTER * max(rates) * time:
            return (
                f"impossible (process {round_.process}): its {moved:,} B of arguments and results "
                f"moved at {moved / time / 1e9:.3g} GB/s, and the fastest cache moves "
                f"{max(rates) / 1e9:.3g} GB/s"
            )
    return None


def groups(record: Record) -> list[list[ComparisonVerdict]]:
    """Group the correct functions, fastest first; members do not differ from a group's first.

    Two functions differ if the interval of their ratio within processes excludes 1, at a level
    corrected for all pairs of functions.
    """
    compared = []
    for result, case in zip(verdicts(record), record.cases, strict=True):
        if result.ratio is not None and not result.reason:
            times = {r.process: ratio(r) for r in case.rounds_under("retained")}
            compared.append((result.ratio.value, result, times))
    compared.sort(key=itemgetter(0), reverse=True)
    level = bonferroni(CONFIDENCE, max(1, math.comb(len(compared), 2)))
    grouped: list[list[ComparisonVerdict]] = []
    first: dict[int, float] = {}
    for _, result, times in compared:
        shared = [first[process] / times[process] for process in times if process in first]
        gap = median_interval(shared, level) if shared else None
        if gap is None or (gap.confidence >= level and not gap.low <= 1 <= gap.high):
            grouped.append([])
            first = times
        grouped[-1].append(result)
    return grouped


def lines(record: Record, files: Mapping[str, bytes | Missing]) -> Iterator[str]:
    """Yield verdicts, groups of functions, mapped pages, theory, and the number of pairs."""
    *candidates, control = results = verdicts(record)
    for result in candidates:
        yield f"{result.function}: {result.sentence}"
    yield f"{control.function} beside itself: {control.sentence}"
    for number, group in enumerate(groups(record) if len(candidates) > 1 else (), 1):
        members = ", ".join(result.function for result in group)
        yield f"group {number}, not told apart when all pairs are tested: {members}"
    yield from reasons(record, files)
    yield f"pairs of processes: {control.pairs}, of which disturbed: {control.disturbed}"
    disturbed = [r.function for r in results if r.pairs and r.disturbed == r.pairs]
    if disturbed:
        yield f"every pair of {first_names(disturbed)} was disturbed; repeat with --wait-quiet 10"


def reasons(record: Record, files: Mapping[str, bytes | Missing]) -> Iterator[str]:
    """Yield pages that functions map, and theory as shares of the machine's ceilings."""
    for case in record.cases:
        rounds = [r for r in case.rounds_under("retained") if r.samples("page_faults")]
        if rounds:
            mapped, baseline = (pages(rounds, s) for s in ("page_faults", "baseline_page_faults"))
            function = case.factors["function"]
            yield f"{function} maps {mapped:,.0f} pages a call, the baseline {baseline:,.0f}"
    seconds = {result.function: result.time for result in verdicts(record)}
    missing = defaultdict[str, list[str]](list)
    peak, bandwidth = gates.best_of(record.ceilings), gates.bounding_rate(record, "copy")
    for name, content in files.items():
        if isinstance(content, Missing):
            continue
        operators = case_operators.unpack(content, name)
        if case_operators.NO_TENSORS in (operators.reason or ""):
            continue
        function, theory = str(operators.factors["function"]), operators.theory(record.environment)
        if theory is None or theory.multiply_adds is None or theory.bytes is None:
            refused = f"no theory of {', '.join(theory.refused)}" if theory else operators.reason
            missing[str(refused)].append(function)
            continue
        text = f"{theory.multiply_adds:,} multiply-adds, {theory.bytes:,} B of traffic"
        if (time := seconds.get(function)) and peak and bandwidth:
            text += (
                f"; {2 * theory.multiply_adds / time / peak:.0%} of the peak rate, "
                f"{theory.bytes / time / bandwidth:.0%} of the bandwidth of memory"
            )
        yield f"theory of {function}: {text}"
    for why, functions in missing.items():
        yield f"theory of {first_names(functions)}: missing, {why}"


# ------------------------------------------------------------------------------ what is decidable


def scatter(ratios: Iterable[float]) -> float:
    """Estimate the standard deviation of logarithms of ratios whose true value is 1."""
    return math.sqrt(fmean(math.log(value) ** 2 for value in ratios))


def decidable(deviation: float, pairs: int) -> float:
    """Return the gain (a fraction) that ``pairs`` decide in four of five runs.

    This assumes that logarithms of ratios are normally distributed.
    """
    return math.exp(deviation * NormalDist().inv_cdf(_needed_probability(pairs))) - 1


@cache
def _needed_probability(pairs: int) -> float:
    """Return the probability of a ratio above 1 at which ``pairs`` decide in four of five runs.

    A run decides if the l-th smallest ratio is above 1; l is the rank of the interval's lower end.
    """
    fewest = pairs - binomial_rank(pairs, CONFIDENCE)[0] + 1
    low, high = 0.5, 1.0  # limits of the probability of a ratio above 1
    for _ in range(50):
        p = (low + high) / 2
        terms = (
            math.comb(pairs, k) * p**k * (1 - p) ** (pairs - k) for k in range(fewest, pairs + 1)
        )
        low, high = (low, p) if sum(terms) >= _POWER else (p, high)
    return high


def pairs_needed(deviation: float, gain: float) -> int | None:
    """Return the smallest number of pairs that decide a gain; None above ``MOST_PAIRS``."""
    for pairs in range(FEWEST_PROCESSES, MOST_PAIRS + 1):
        if decidable(deviation, pairs) <= gain:
            return pairs
    return None


def power_text(deviation: float, pairs: int, gain: float) -> str:
    """State the difference that ``pairs`` show, and the number of pairs for ``gain``."""
    too_many = f"over {MOST_PAIRS} pairs; close other programs, or let a call do more"
    needed = pairs_needed(deviation, gain)
    return (
        f"{pairs} pairs show a difference of {decidable(deviation, pairs):.1%} or more in four of "
        f"five runs. One of {gain:.1%} needs {f'{needed} pairs' if needed else too_many}"
    )
