"""The numbers of conv_scaling's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from report.missing import Missing
from report.quantity.evaluation import level, point
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import level_of_largest
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run


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
    "batch_gain": lambda run: batch_gain(run, run.timed[0], run.timed[-1]),
    "best_batch": lambda run: level_of_largest(rates(run), "1"),
    "best_rate": lambda run: run.rate(_best(run)),
    "best_share": lambda run: run.share(_best(run)),
    "fall": _beyond_best(lambda run, best, slowest: 1 - run.rate(slowest) / run.rate(best)),
    "fallen_batch": _beyond_best(
        lambda run, _, slowest: exact("slowest larger batch", "1", slowest, run.file)
    ),
    "ceiling": lambda run: run.peak_rate("matrix_product"),
    "copy": lambda run: run.peak_rate("copy"),
    "ridge": ridge,
    "peak_one": _first(lambda run, batch: run.peak(batch) / theory.output_bytes(batch)),
    "peak_over_output": _last(lambda run, batch: run.peak(batch) / theory.output_bytes(batch)),
    "layout_gain": layout_gain,
    "layout_first": _channels_last(
        lambda run, last, _: exact("smallest batch of both layouts", "1", last.batches[0], run.file)
    ),
    "layout_batch": _channels_last(
        lambda run, last, batch: exact("batch of both layouts", "1", batch, run.file)
    ),
}
