"""The numbers of conv_scaling's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from report.quantity.evaluation import level
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, first_within, level_of_largest
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.measured import Run

#: A batch size counts as saturated when its rate is at least this share of the best one.
SATURATED: Final = 0.9


def rates(run: Run) -> dict[int, Quantity]:
    """The forward rate (FLOP/s) at every timed batch size."""
    return {batch: run.rate(batch) for batch in run.timed}


def _best(run: Run) -> int:
    """The batch size of the highest rate.

    Its own rate is told, not the largest of each process, which noise makes larger.
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


def over_next(run: Run) -> dict[int, Quantity]:
    """The time of a call with its backward pass over that at the next larger batch size."""
    times = {batch: run.time(batch, "forward_backward") for batch in run.timed}
    return {a: times[a] / times[b] for a, b in pairwise(times) if not (times[a] / times[b]).missing}


def _next(run: Run) -> Quantity:
    worst = level(level_of_largest(over_next(run), "1"))
    return exact("batch after it", "1", min(b for b in run.timed if b > worst), run.file)


#: What stands out in the times of a run, where calls with their backward pass were timed.
ODD_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "odd_batch": lambda run: level_of_largest(over_next(run), "1"),
    "odd_next": _next,
    "odd_ratio": lambda run: at_least(*over_next(run).values()),
    "odd_first": lambda run: run.time(run.timed[0]) / run.time(run.timed[1]),
    "odd_second_batch": lambda run: exact("second batch", "1", run.timed[1], run.file),
}

RUN_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "smallest": lambda run: exact("smallest timed batch", "1", run.timed[0], run.file),
    "largest": lambda run: exact("largest timed batch", "1", run.timed[-1], run.file),
    "time_smallest": _first(Run.time),
    "time_largest": _last(Run.time),
    "batch_gain": lambda run: batch_gain(run, run.timed[0], run.timed[-1]),
    "best_batch": lambda run: level_of_largest(rates(run), "1"),
    "best_rate": lambda run: run.rate(_best(run)),
    "best_share": lambda run: run.share(_best(run)),
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
    "layout_gain": layout_gain,
    "layout_first": _channels_last(
        lambda run, last, _: exact("smallest batch of both layouts", "1", last.batches[0], run.file)
    ),
    "layout_batch": _channels_last(
        lambda run, last, batch: exact("batch of both layouts", "1", batch, run.file)
    ),
}
