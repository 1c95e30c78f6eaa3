"""The numbers of conv_scaling's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from report.missing import Missing
from report.quantity.evaluation import level, point
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most, first_within, level_of_largest
from report.records.passes import PASSES
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run

#: A batch size counts as saturated when its rate is at least this share of the best one.
SATURATED: Final = 0.9


def rates(run: Run) -> dict[int, Quantity]:
    """The forward rate (FLOP/s) at every timed batch size."""
    return {batch: run.rate(batch) for batch in run.timed}


def _best(run: Run) -> int:
    """The batch size of the highest rate.

    Its own rate is meant, not the largest of each process, which noise makes larger.
    """
    return level(level_of_largest(rates(run), "1"))


def batch_gain(run: Run, small: int, large: int) -> Quantity:
    """How many times the images a second of the small batch the large one does."""
    return run.time(small) / small / (run.time(large) / large)


def ridge(run: Run) -> Quantity:
    """The intensity (FLOP/B) at which the two measured ceilings meet."""
    return run.peak_rate("matrix_product") / run.peak_rate("copy")


def under_roof(run: Run) -> bool:
    """Whether no median rate, at any batch size and pass, exceeds its roof: the lower ceiling."""
    arithmetic, memory = run.peak_rate("matrix_product"), run.peak_rate("copy")
    shares = (
        run.rate(batch, pass_) / at_most(arithmetic, theory.intensity(batch, pass_) * memory)
        for batch in run.timed
        for pass_ in PASSES
    )
    return all(isinstance(found := point(share), Missing) or found <= 1 for share in shares)


def _first(get: Callable[[Run, int], Quantity]) -> Callable[[Run], Quantity]:
    return lambda run: get(run, run.timed[0])


def _last(get: Callable[[Run, int], Quantity]) -> Callable[[Run], Quantity]:
    return lambda run: get(run, run.timed[-1])


def _beyond_best(get: Callable[[Run, int, int], Quantity]) -> Callable[[Run], Quantity]:
    """At the batch size of the highest rate and that of the lowest one among the larger ones."""

    def found(run: Run) -> Quantity:
        best = _best(run)
        later = {batch: 1 / rate for batch, rate in rates(run).items() if batch > best}
        if not later:
            return absent("larger batch", "1", f"no larger batch was timed on {run.label}")
        return get(run, best, level(level_of_largest(later, "1")))

    return found


def _channels_last(get: Callable[[Run, Run, int], Quantity]) -> Callable[[Run], Quantity]:
    """At the largest batch size that was measured in that layout too."""

    def found(run: Run) -> Quantity:
        last = run.in_layout("channels_last")
        if not last.batches:
            return absent("channels last", "1", f"not part of the run on {run.label}")
        return get(run, last, last.batches[-1])

    return found


def layout_gain(run: Run) -> Quantity:
    """How many times as long a contiguous call takes as one with channels last."""
    return _channels_last(lambda run, last, batch: run.time(batch) / last.time(batch))(run)


def _peaks_last(choose: Callable[..., Quantity]) -> Callable[[Run], Quantity]:
    """The smallest or largest peak of a forward call with channels last, over its output."""

    def found(run: Run) -> Quantity:
        last = run.in_layout("channels_last")
        peaks = [last.peak(batch) / theory.output_bytes(batch) for batch in last.batches]
        known = [peak for peak in peaks if not peak.missing]
        return middle(choose(*known), 2) if known else absent("peak", "1", "channels last unknown")

    return found


def middle(quantity: Quantity, decimals: int | None = None) -> Quantity:
    """A quantity without its interval, rounded to ``decimals``; a missing one as it is."""
    found = point(quantity)
    if isinstance(found, Missing):
        return quantity
    (file, *further), unit = quantity.sources or ("",), str(quantity.unit)
    shown = found if decimals is None else round(found, decimals)
    return exact(f"middle of {quantity.symbol}", unit, shown, file, tuple(further))


RUN_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "smallest": lambda run: exact("smallest timed batch", "1", run.timed[0], run.file),
    "largest": lambda run: exact("largest timed batch", "1", run.timed[-1], run.file),
    "time_smallest": _first(Run.time),
    "time_largest": _last(Run.time),
    "batch_gain": lambda run: batch_gain(run, run.timed[0], run.timed[-1]),
    "best_batch": lambda run: level_of_largest(rates(run), "1"),
    "best_rate": lambda run: run.rate(_best(run)),
    "best_share": lambda run: run.share(_best(run)),
    "fall": _beyond_best(lambda run, best, slowest: 1 - run.rate(slowest) / run.rate(best)),
    "fallen_batch": _beyond_best(
        lambda run, _, slowest: exact("slowest larger batch", "1", slowest, run.file)
    ),
    "image_largest": _last(lambda run, batch: run.time(batch) / batch),
    "saturated": lambda run: first_within(rates(run), SATURATED, "1"),
    "backward_ratio": _last(lambda run, b: run.time(b, "forward_backward") / run.time(b)),
    "ceiling": lambda run: run.peak_rate("matrix_product"),
    "copy": lambda run: run.peak_rate("copy"),
    "ridge": ridge,
    "time_bound": lambda run: theory.work(1) / run.peak_rate("matrix_product"),
    "peak_one": _first(lambda run, batch: run.peak(batch) / theory.output_bytes(batch)),
    "peak_over_output": _last(lambda run, batch: run.peak(batch) / theory.output_bytes(batch)),
    "peak_over_output_last": _channels_last(
        lambda run, last, batch: last.peak(batch) / theory.output_bytes(batch)
    ),
    "peak_last_least": _peaks_last(at_most),
    "peak_last_most": _peaks_last(at_least),
    "layout_gain": layout_gain,
    "layout_first": _channels_last(
        lambda run, last, _: exact("smallest batch of both layouts", "1", last.batches[0], run.file)
    ),
    "layout_batch": _channels_last(
        lambda run, last, batch: exact("batch of both layouts", "1", batch, run.file)
    ),
}
