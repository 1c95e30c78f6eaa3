"""Verdicts on the claims of a study, with the numbers that decide them.

A paper prints the verdict of a claim.  A replication report also prints which comparisons fail, by
how much, and how many processes would decide an undecided comparison.
"""

import math
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final

from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate
from report.core.text.format import MINUS, NO_BREAK, printed_parts, quantity_text, scale_for
from report.paper.values import Evaluated
from report.quantity.evaluation import (
    estimate,
    point_estimate,
    printed_number,
    value_in_only_common_process,
)
from report.quantity.expression import Quantity, Statement
from report.quantity.operations import describe_terms, restrict_to_common_terms
from report.quantity.ranges import Range
from report.quantity.verdicts import Verdict, is_disturbed, joint_verdict, verdict_of

#: Largest number of comparisons of a claim that are printed one by one; more are only counted.
_MOST_PRINTED: Final = 3
#: Shares below this limit are printed in parts per million, to avoid leading zeros.
_TINY_SHARE: Final = 1e-4
_PPM_PER_UNIT: Final = 1e6
#: Significant digits of a bound that is not a whole number, such as 1/0.9.
_BOUND_DIGITS: Final = 4
#: Largest number of characters of a formula that names a comparison.
_NAME_LENGTH: Final = 70
#: Largest number of processes that a report suggests to run.
_MOST_PROCESSES: Final = 1000
#: Tolerance for rounding errors in numbers of processes and in probabilities.
_ROUNDING: Final = 1e-6
#: Separators of the operands and the factors in a formula.
_BETWEEN_PARTS: Final = re.compile(r", | [/·−+] |[()]")


@dataclass(frozen=True)
class Claim:
    """A claim about the data, with its verdict and the numbers that decide it.

    ``because``: numbers and ranges, in words.  ``sentence``: the claim in the paper's words.
    ``compared``: a number per comparison, with both ends of the range in which the claim holds.
    ``title``: a sentence that can be read alone.  ``about``: kind of machine or publication.
    ``numbers``: ids of the values that the claim is about.  ``files``: sources of the numbers.
    ``measured_count``: number of measured comparisons.  ``statements``: the comparisons, which
    cannot be pickled; replication reports compute the properties from them.
    """

    id: str
    verdict: Verdict
    because: str
    sentence: str = ""
    compared: tuple[tuple[Evaluated, float, float], ...] = ()
    title: str = ""
    about: str = ""
    numbers: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    measured_count: int = 0
    statements: tuple[Statement, ...] = field(default=(), compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields to pickle, without the statements and what was computed from them."""
        return vars(replace(self, statements=()))  # a copy, which has computed nothing yet

    @property
    def effect(self) -> float | Missing | None:
        """The number of the only comparison; None if there are several."""
        return point_estimate(self.statements[0].quantity) if len(self.statements) == 1 else None

    @cached_property
    def comparison_names(self) -> list[str]:
        """Names that tell the comparisons apart."""
        return _comparison_names(self.statements)

    @cached_property
    def measured(self) -> str:
        """Short text for tables with the numbers of the comparisons."""
        return measured_text(self.statements)

    @property
    def expected(self) -> str:
        """Short text for tables with the range of the comparisons; "" if they have several."""
        ranges = {statement.range for statement in self.statements} - {Range()}
        return _range_text(ranges.pop()) if len(ranges) == 1 else ""

    @cached_property
    def comparisons_by_reason(self) -> dict[str, list[str]]:
        """Reason why comparisons do not hold → the comparisons, if they have to be named."""
        return _comparisons_by_reason(self.statements)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why comparisons do not hold, each with the comparisons."""
        reasons = []
        for reason, texts in self.comparisons_by_reason.items():
            reasons.append(f"{reason} ({'; '.join(first_few(texts))})" if texts else reason)
        return tuple(reasons)

    def as_json(self) -> dict[str, Any]:
        """Content of the claim in ``out/values/<study>.json``."""
        return {
            "title": self.title,
            "about": self.about,
            "sentence": self.sentence,
            "verdict": self.verdict,
            "because": self.because,
            "compared": [_comparison_json(*comparison) for comparison in self.compared],
        }


def _comparison_json(result: Evaluated, above: float, below: float) -> dict[str, Any]:
    """Return the number of a comparison with its interval and bounds; None for a missing part."""
    value = result.value if isinstance(result, Estimate) else result
    return {
        "number": None if isinstance(value, Missing) else float(value),
        "interval": [result.low, result.high] if isinstance(result, Estimate) else None,
        "above": above if math.isfinite(above) else None,
        "below": below if math.isfinite(below) else None,
    }


def judge(id: str, statements: Sequence[Statement]) -> Claim:
    """Judge the claim ``id``, that all ``statements`` hold; add their numbers in words."""
    verdicts = [*map(verdict_of, statements)]
    verdict = joint_verdict(statements, verdicts)
    if len(statements) > _MOST_PRINTED:
        holding, failing = verdicts.count("supported"), verdicts.count("refuted")
        text = f"{holding} of {len(statements)} comparisons hold, {failing} fail; expected all"
    else:
        text = " and ".join(map(_with_range, statements))
    if verdict == "undecided":
        reasons = dict[str, None]()
        for statement, own_verdict in zip(statements, verdicts, strict=True):
            if own_verdict == "undecided":
                reasons[undecided_reason(statement)[0]] = None
            elif own_verdict == "not measured":
                reasons[own_verdict] = None
        text = "; ".join((text, *(reasons or ["joint level too low"])))
    quantities = [statement.quantity for statement in statements]
    return Claim(
        id,
        verdict,
        text,
        compared=tuple((printed_number(s.quantity), s.range.low, s.range.high) for s in statements),
        files=tuple(dict.fromkeys(file for quantity in quantities for file in quantity.sources)),
        measured_count=sum(quantity.missing is None for quantity in quantities),
        statements=tuple(statements),
    )


def _with_range(statement: Statement) -> str:
    """Print the number of a comparison, and the range in which the comparison holds."""
    range, unit = statement.range, str(statement.quantity.unit)
    result = printed_number(statement.quantity)
    if range == Range():
        return with_interval(result, unit)
    if unit == "1" and isinstance(result, float) and 0 < abs(result) < _TINY_SHARE:
        low, high = range.low * _PPM_PER_UNIT, range.high * _PPM_PER_UNIT
        share = quantity_text(result * _PPM_PER_UNIT, "ppm")
        return f"{share}; expected {_range_text(replace(range, low=low, high=high))} ppm"
    return f"{with_interval(result, unit)}; expected {_range_text(range)}"


def measured_text(statements: Sequence[Statement]) -> str:
    """Print the numbers of a claim's comparisons, as short as possible.

    Up to three different numbers with one verdict and one expected range are printed with their
    names.  Otherwise the text says how many comparisons hold, and between which ends their numbers
    lie; if all hold, it gives the ends alone.
    """
    if all(statement.quantity.missing for statement in statements):
        return "not measured"
    first, count, names = statements[0], len(statements), _comparison_names(statements)
    numbers = [_number_text(statement.quantity) for statement in statements]
    if count == 1:
        exact = first.range.low == first.range.high
        return f"{numbers[0]} ({first.quantity.symbol})" if exact else numbers[0]
    counts, ranges = Counter(map(verdict_of, statements)), {s.range for s in statements}
    different = len({*names}) == count and len({*numbers}) > 1
    if count <= _MOST_PRINTED and different and len(counts) == len(ranges) == 1:
        return "; ".join(f"{text} ({name})" for text, name in zip(numbers, names, strict=True))
    if counts["supported"] == count:
        return _ranges_text(statements) or f"all {count} comparisons hold"
    tally = f"{counts['supported']} of {count} comparisons hold"
    tally += f", {counts['undecided']} undecided" if counts["undecided"] else ""
    tally += f", {counts['refuted']} fail" if counts["refuted"] else ""
    return f"{tally}: {_ranges_text(statements)}".rstrip(": ")


def _ranges_text(statements: Sequence[Statement]) -> str:
    """Print the smallest and the largest number for each expected range.

    The text names the comparisons with these two numbers, or up to six comparisons that share one
    number.  With several ranges, more than six comparisons are not named.  Returns "" for more than
    three ranges.
    """
    groups: dict[Range, list[tuple[float, str, str]]] = {}
    for name, statement in zip(_comparison_names(statements), statements, strict=True):
        value = point_estimate(statement.quantity)
        if not isinstance(value, Missing):
            numbers = groups.setdefault(statement.range, [])
            numbers.append((float(value), _statement_text(statement), name))
    texts = []
    for range, numbers in groups.items():
        (_, low, smallest), (_, high, largest) = min(numbers), max(numbers)
        text = low if low == high else f"{low} to {high}"
        names = [*dict.fromkeys(name for _, _, name in numbers)]
        if len(groups) == 1 or len(statements) <= 2 * _MOST_PRINTED:
            if low != high and smallest != largest:
                text = f"{low} ({smallest}) to {high} ({largest})"
            elif len(names) <= 2 * _MOST_PRINTED:
                text += f" ({'; '.join(names)})"
        if len(numbers) == len(statements) == 2:
            text = f"both numbers are {text}"
        elif len(numbers) > 1:
            all_of = "all " if len(numbers) == len(statements) else ""
            text = f"{all_of}{len(numbers)} numbers are {text}"
        texts.append(text if len(groups) == 1 else f"{text}, expected {_range_text(range)}")
    return "; ".join(texts) if len(groups) <= _MOST_PRINTED else ""


def disturbance(claim: Claim) -> str:
    """Say whether all or some series of a claim have disturbed processes only; "" if none has."""
    disturbed = list[bool]()
    for series in chain.from_iterable(statement.measured_series for statement in claim.statements):
        disturbed.append(all(process.disturbed for process in series.processes))
    if not claim.measured_count or not any(disturbed):
        return ""
    return "on a busy machine" if all(disturbed) else "some cases on a busy machine"


def missing_comparisons(claim: Claim, paper: Claim) -> list[str]:
    """Name the comparisons that the paper's claim measures and the claim on a machine does not.

    Means that are compared over common cases count as measured.
    """
    if claim.measured_count == paper.measured_count and cases_of(claim) and cases_of(paper):
        return []
    formulas = (s.quantity.formula for s in claim.statements if s.quantity.missing is None)
    unmatched, lacking = Counter(formulas), list[int]()
    for index, statement in enumerate(paper.statements):
        unmatched[statement.quantity.formula] -= 1
        if statement.quantity.missing is None and unmatched[statement.quantity.formula] < 0:
            lacking.append(index)
    return [paper.comparison_names[index] for index in lacking]


def _number_text(quantity: Quantity) -> str:
    """Print a number with its interval, or "not measured" without the reason, which is long."""
    result = printed_number(quantity)
    if isinstance(result, Missing):
        return "not measured"
    return with_interval(result, str(quantity.unit), outward=True)


def _comparisons_by_reason(statements: Sequence[Statement]) -> dict[str, list[str]]:
    """Group the comparisons of a claim that do not hold by the reason."""
    names = _comparison_names(statements)
    # If no comparison was measured, names are printed only if they differ.
    with_names = len({*names}) > 1 or any(s.quantity.missing is None for s in statements)
    groups: dict[str, list[str]] = {}
    for name, statement in zip(names, statements, strict=True):
        reason, value = str(verdict_of(statement)), point_estimate(statement.quantity)
        if reason == "supported":
            continue
        if isinstance(value, Missing):
            groups.setdefault(value.reason, []).extend([name] if with_names else [])
            continue
        if reason == "undecided":
            _, explanation = undecided_reason(statement)
            reason += f": {explanation}"
        text = f"{name}: {_statement_text(statement)}, expected {_range_text(statement.range)}"
        groups.setdefault(reason, []).append(text)
    return groups


def _statement_text(statement: Statement) -> str:
    """Print the number of a comparison; with one process, without the interval over its calls."""
    text = _number_text(statement.quantity)
    if not statement.from_one_process:
        return text
    value = value_in_only_common_process(statement.quantity)
    text = text.partition(f"{NO_BREAK}[")[0] if value is None else f"{value:.3g}"
    return f"{text} in one process"


def cases_of(claim: Claim) -> str:
    """Name the cases over which a claim's means are taken; return "" for a claim without means."""
    texts = dict.fromkeys(describe_terms(statement.quantity) for statement in claim.statements)
    return "; ".join(filter(None, texts))


def on_common_cases(claims: Sequence[Claim]) -> list[Claim]:
    """Judge ``claims``, one per run, again with means over the cases that all runs have."""
    counts = {len(claim.statements) for claim in claims}
    if len(counts) > 1 or not all(map(cases_of, claims)):
        return [*claims]
    means = []
    for statements in zip(*(claim.statements for claim in claims), strict=True):
        means.append(restrict_to_common_terms([statement.quantity for statement in statements]))
    judged = []
    for claim, quantities in zip(claims, zip(*means, strict=True), strict=True):
        pairs = zip(claim.statements, quantities, strict=True)
        statements = tuple(replace(statement, quantity=mean) for statement, mean in pairs)
        new = judge(claim.id, statements)
        judged.append(replace(new, title=claim.title, about=claim.about, numbers=claim.numbers))
    return judged


def _comparison_names(statements: Sequence[Statement]) -> list[str]:
    """Name each comparison by parts of its formula that not all share, such as "a, b over c"."""
    formulas = [statement.quantity.formula for statement in statements]
    parts = [_formula_parts(formula) for formula in formulas]
    shared = set(parts[0]).intersection(*parts[1:]) if len(parts) > 1 else set[str]()
    names = []
    for formula, own in zip(formulas, parts, strict=True):
        different = [part for part in own if part not in shared]
        numerator, *denominators = formula.split(" / ")
        below = _formula_parts(denominators[0]) if len(denominators) == 1 else []
        below = [part for part in below if part not in _formula_parts(numerator)]
        above = [part for part in different if part not in below]
        name = " over ".join(filter(None, (", ".join(above), ", ".join(below)))) or formula
        names.append(textwrap.shorten(name, _NAME_LENGTH, placeholder=" …"))
    return names


def _formula_parts(formula: str) -> list[str]:
    """Split a formula into its operands and their factors; drop plain numbers."""
    parts = dict.fromkeys(map(str.strip, _BETWEEN_PARTS.split(formula)))
    return [part for part in parts if not re.fullmatch(r"[\d.,…]*", part)]


def first_few(texts: Sequence[str]) -> list[str]:
    """Return the first three texts, and a text that counts the others, if any."""
    if len(texts) <= _MOST_PRINTED:
        return [*texts]
    return [*texts[:_MOST_PRINTED], f"and {len(texts) - _MOST_PRINTED} more"]


def undecided_reason(statement: Statement) -> tuple[str, str]:
    """Explain an undecided comparison: briefly, and with the measurement that would decide it."""
    if is_disturbed(statement):
        return "disturbed", "other programs ran meanwhile; measure again on a quiet machine"
    if statement.from_one_process:
        enough = _processes_for_level(1, reached=0.0)
        part = "all series" if statement.measured_series[1:] else "it"
        return "one process", f"only one process measured {part}; at least {enough} decide"
    result = estimate(statement.quantity)
    if isinstance(result, Missing):
        return "no bounded interval", result.reason
    if result.bimodal:
        groups = "the processes fall into two groups, so that no median stands for them"
        return "processes in two groups", groups
    series = statement.measured_series
    count = min((len(leaf.processes) for leaf in series), default=1)
    one, several = ("pair", "pairs of processes") if series[1:] else ("process", "processes")
    units = f" of {count} {several if count > 1 else one}" if series else ""
    needed = processes_to_decide(result, statement.range, count)
    processes_needed = f"about {needed:,}" if needed else f"not even {_MOST_PROCESSES:,}"
    deciding = f"; at this scatter {processes_needed} would decide" if series else ""
    ends = (statement.range.low, statement.range.high)
    bounds_inside = [_bound_text(end) for end in ends if result.low <= end <= result.high]
    if not bounds_inside:
        level = f"{100 * result.confidence:.0f}{NO_BREAK}%"
        holds = f"the interval{units} holds at {level} only{deciding}"
        # Without series, there is a range over processes, which has no level.
        explanation = holds if series else "too few processes measured it for an interval"
        return f"level below {100 * CONFIDENCE:.0f}{NO_BREAK}%", explanation
    text = with_interval(result, str(statement.quantity.unit), outward=True)
    interval = re.sub(r"\A[^\[(]+", "", text) or f"at {text}"
    bounds = f"{'bounds' if bounds_inside[1:] else 'bound'} {' and '.join(bounds_inside)}"
    explanation = f"the interval {interval}{units} contains the {bounds}{deciding}"
    return f"interval spans {bounds_inside[0]}", explanation


def processes_to_decide(result: Estimate, range: Range, count: int) -> int | None:
    """Estimate how many processes would give an interval that contains no end of ``range``.

    ``result`` comes from ``count`` processes.  We assume that its value would not change, and that
    its interval shrinks with the root of the number of processes.  None means more than
    ``_MOST_PROCESSES``.
    """
    needed = float(_processes_for_level(count, result.confidence))
    for end in (range.low, range.high):
        if result.low <= end <= result.high:
            distance = abs(result.value - end)
            reach = result.value - result.low if end < result.value else result.high - result.value
            needed = max(needed, count * (reach / distance) ** 2 if distance else math.inf)
    return math.ceil(needed - _ROUNDING) if needed <= _MOST_PROCESSES else None


def _processes_for_level(count: int, reached: float) -> int:
    """Return how many processes reach ``CONFIDENCE``, but more than ``count``.

    ``reached`` is the level that ``count`` processes reach.  The error probability halves with each
    further process (see ``median_interval``).
    """
    error = 1 - reached
    if error <= 1 - CONFIDENCE + _ROUNDING:
        return count + 1
    return count + math.ceil(math.log2(error / (1 - CONFIDENCE)))


def with_interval(result: Evaluated, unit: str, *, outward: bool = False) -> str:
    """Print a number with its interval, and the interval's level if it is below ``CONFIDENCE``.

    The ends are rounded to the nearest decimal, as in a paper's prose, or ``outward`` in reports.
    """
    if isinstance(result, Missing):
        return result.reason
    parts = printed_parts(result, scale_for(result, unit), outward=outward)
    bounds = f"{NO_BREAK}{parts.bounds}{parts.level}" if parts.bounds else ""
    return f"{parts.number}{parts.after}{bounds}"


def _range_text(range: Range) -> str:
    """Print a range as ``above 1``, ``at most 2``, ``1 to 2`` or, with equal ends, ``1``."""
    low, high = _bound_text(range.low), _bound_text(range.high)
    if math.isinf(range.low):
        return f"{'at most' if range.closed else 'below'} {high}"
    if math.isinf(range.high):
        return f"{'at least' if range.closed else 'above'} {low}"
    return low if range.low == range.high else f"{low} to {high}"


def _bound_text(bound: float) -> str:
    digits = 10 if float(bound).is_integer() else _BOUND_DIGITS
    return f"{bound:.{digits}g}".replace("-", MINUS)
