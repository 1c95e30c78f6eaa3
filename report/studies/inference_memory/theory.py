"""Theory of inference_memory: rules that predict the largest batch under a limit, and searches.

A line is fitted through the measured peaks of two batches and extrapolated to the limit.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Final, Literal, TypeAlias, get_args

from report.core.missing import Missing
from report.studies.inference_memory.subject import Baseline, LimitOutcome, OperatorBytes
from report.theory.conditions import Conditions
from report.theory.network import SearchResult, largest_batch_by_tensors, search
from report.theory.networks import Variant, load_capture
from report.theory.peaks import peak_bytes

#: Rule that predicts a batch; ``RULES`` explains the ids, which are parts of the ids of values.
BatchRule: TypeAlias = Literal[
    "count", "doubled", "smaller", "later", "line", "tensors", "estimator", "sum"
]
#: Search by test runs, named by the rule of its first guess.  "bisection" doubles the batch first.
Search: TypeAlias = Literal["count", "line", "later", "doubled", "bisection"]
SEARCHES: Final[tuple[Search, ...]] = get_args(Search)
#: Searches whose first guess is the batch at which a line meets the limit.
LINE_SEARCHES: Final[tuple[Literal["line", "later", "doubled"], ...]] = ("line", "later", "doubled")

#: Rule → its name in figures and tables.
RULES: Final[dict[BatchRule, str]] = {
    "count": "Count",
    "doubled": "Line near the limit",
    "smaller": "Smaller of these two (chosen afterwards)",
    "later": "Line, 8 and 16 images",
    "line": "Line, 2 and 4 images",
    "tensors": "Count of tensors alone",
    "estimator": "torch-kitsune",
    "sum": "torchinfo",
}


def runs_before(rule: BatchRule, largest: int) -> int:
    """Count the test runs that a rule needs; ``largest`` is the largest batch that runs."""
    doublings = _doublings(largest)
    runs = {"doubled": doublings, "smaller": doublings, "later": 2, "line": 2, "sum": 1}
    return runs.get(rule, 0)


def _doublings(largest: int) -> int:
    """Count the test runs on 2, 4, 8, … images up to the first batch that fails."""
    return max(1, largest.bit_length())


def _runs_within(largest: int, guess: int, fits: int, fails: int | None) -> int:
    """Count the test runs of a search until ``largest`` ran and the next batch failed.

    ``fits`` is a batch that ran (or 0), and ``fails`` a batch that failed, if known.  The search
    tries the guess.  While no batch failed, it adds 1, 2, 4, … images; then it bisects.
    """
    runs, step = 0, 1
    while fails is None or fails - fits > 1:
        if fits < guess and (fails is None or guess < fails):
            batch = guess
        elif fails is None:
            batch, step = fits + step, 2 * step
        else:
            batch = (fits + fails) // 2
        fits, fails = (batch, fails) if batch <= largest else (fits, batch)
        runs += 1
    return runs


def _runs_by_line(largest: int, guess: int, smaller: int, larger: int) -> int:
    """Count the two test runs that measure a line without a limit, and the runs of the search."""
    below = [batch for batch in (smaller, larger) if batch <= largest]
    above = [batch for batch in (smaller, larger) if batch > largest]
    return 2 + _runs_within(largest, guess, max(below, default=0), min(above, default=None))


def runs_of_searches(
    largest: int, count: int, line: int, later: int, doubled: int
) -> dict[Search, int]:
    """Count the test runs of every search for ``largest``, given the batch by each of the rules."""
    doublings = _doublings(largest)
    fits, fails = 2**doublings // 2 if doublings > 1 else 0, 2**doublings
    # If the predicted batch runs, the next batch is tried, although a larger batch already failed.
    fails_after_guess = None if doubled < fails - 1 else fails
    return {
        "count": _runs_within(largest, count, fits=0, fails=None),
        "line": _runs_by_line(largest, line, smaller=2, larger=4),
        "later": _runs_by_line(largest, later, smaller=8, larger=16),
        "doubled": doublings + _runs_within(largest, doubled, fits, fails_after_guess),
        "bisection": doublings + _runs_within(largest, fails, fits, fails),
    }


@cache
def predict_batch(limit: LimitOutcome, conditions: Conditions) -> SearchResult | Missing:
    """Search for the largest batch of a network in float32 whose predicted peak fits a limit."""
    network = load_capture(limit.network, limit.image, Variant(limit.layout, change=limit.change))
    if isinstance(network, Missing):
        return network
    size = partial(peak_bytes, network, conditions=conditions)
    limit_bytes = limit.mebibytes << 20
    return search(size, limit_bytes, largest_batch_by_tensors(network, limit_bytes))


def batch_on_line(peaks: Mapping[int, int], smaller: int, larger: int, limit: int) -> int | None:
    """Return the batch at which a line through two peaks meets a limit (B); None if it falls."""
    per_image = (peaks[larger] - peaks[smaller]) / (larger - smaller)
    return int(smaller + (limit - peaks[smaller]) // per_image) if per_image > 0 else None


def batch_on_last_line(peaks: Mapping[int, int], limit: int) -> int | None:
    """Return the batch on the line through the largest two batches whose peaks fit, if two do."""
    fitting = [batch for batch, peak in peaks.items() if peak <= limit]
    return batch_on_line(peaks, fitting[-2], fitting[-1], limit) if len(fitting) > 1 else None


def batches_by_rule(
    baseline: Baseline, operators: Sequence[OperatorBytes], limit_bytes: int, counted_batch: int
) -> dict[BatchRule, int]:
    """Predict the largest batch under a limit by every rule that has an answer."""
    last_line = batch_on_last_line(baseline.peaks, limit_bytes)
    growing = [operator for operator in operators if operator.tensors_per_image]
    tensors = ((limit_bytes - op.tensors_fixed) // op.tensors_per_image for op in growing)
    predicted: dict[BatchRule, int | None] = {
        "count": counted_batch,
        "doubled": last_line,
        "smaller": None if last_line is None else min(counted_batch, last_line),
        "later": batch_on_line(baseline.peaks, 8, 16, limit_bytes),
        "line": batch_on_line(baseline.peaks, 2, 4, limit_bytes),
        "tensors": min(tensors, default=None),
        "sum": (limit_bytes - baseline.torchinfo_fixed) // baseline.torchinfo_per_image,
    }
    if baseline.kitsune_per_image:
        estimate = (limit_bytes - baseline.kitsune_fixed) // baseline.kitsune_per_image
        predicted["estimator"] = estimate
    return {rule: max(0, batch) for rule, batch in predicted.items() if batch is not None}


def operator_at_peak(operators: Sequence[OperatorBytes], batch: int) -> OperatorBytes:
    """Return the operator at which most bytes are alive at a batch."""
    return max(operators, key=lambda operator: operator.total(batch))
