"""The numbers of conv_scaling's prose that come from the run it speaks of."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeAlias

from report.evidence.runs import known
from report.missing import Missing, present
from report.paper.values import Value
from report.records.passes import Pass
from report.statistics.estimates import Estimate, growth_exponent, rate_over, ratio_of_medians
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.subject import footprint
from report.studies.conv_scaling.tables import NO_RECORD
from report.studies.conv_scaling.values import whole
from report.text.format import Number, Style

Finding: TypeAlias = Number | Estimate | Missing

#: A batch size counts as saturated when its rate is at least this share of the best one.
SATURATED: Final = 0.9

#: What the prose says of the run: id, name, unit, formula, style.
_RUN: Final[tuple[tuple[str, str, str, str, Style], ...]] = (
    ("smallest", "Smallest measured batch", "1", "cases of the record", "exact"),
    ("largest", "Largest measured batch", "1", "cases of the record", "exact"),
    (
        "time_smallest",
        "Forward time at the smallest batch",
        "s",
        "median of the samples",
        "measured",
    ),
    ("time_largest", "Forward time at the largest batch", "s", "median of the samples", "measured"),
    ("per_image_smallest", "Time an image, smallest batch", "s", "median time / batch", "measured"),
    ("per_image_largest", "Time an image, largest batch", "s", "median time / batch", "measured"),
    (
        "batch_gain",
        "Gain in rate from the smallest to the largest batch",
        "1",
        "ratio of rates",
        "measured",
    ),
    ("best_batch", "Batch size of the highest forward rate", "1", "largest median rate", "exact"),
    (
        "lowest_batch",
        "Batch size of the lowest rate beyond the best",
        "1",
        "smallest median rate from the best batch on",
        "exact",
    ),
    (
        "lowest_rate",
        "Lowest forward rate beyond the best batch",
        "FLOP/s",
        "theoretical work / median time",
        "measured",
    ),
    ("best_rate", "Highest forward rate", "FLOP/s", "theoretical work / median time", "measured"),
    (
        "best_share",
        "Highest share of the ceiling",
        "1",
        "rate / ceiling of the matrix product",
        "percent",
    ),
    (
        "saturated",
        "Smallest saturated batch",
        "1",
        "first rate of at least 0.9 of the best",
        "exact",
    ),
    (
        "backward_ratio",
        "Forward and backward over forward",
        "1",
        "ratio of medians, largest batch",
        "measured",
    ),
    (
        "ceiling",
        "Ceiling of the matrix product",
        "FLOP/s",
        "work / median time, better moment",
        "measured",
    ),
    ("ceiling_before", "Ceiling before the series", "FLOP/s", "work / median time", "measured"),
    ("ceiling_after", "Ceiling after the series", "FLOP/s", "work / median time", "measured"),
    ("copy", "Ceiling of the copy", "B/s", "bytes read and written / median time", "measured"),
    (
        "ridge",
        "Measured ridge point",
        "FLOP/B",
        "ceiling of the product / ceiling of the copy",
        "measured",
    ),
    (
        "time_slope",
        "Forward time of an image, fitted",
        "s",
        "slope of the weighted line",
        "measured",
    ),
    (
        "time_intercept",
        "Forward time at no image, fitted",
        "s",
        "intercept of the weighted line",
        "measured",
    ),
    ("time_bound", "Bound on the time of an image", "s", "work of an image / ceiling", "measured"),
    (
        "exponent",
        "Growth exponent of the forward time",
        "1",
        "slope of log time over log batch",
        "measured",
    ),
    ("held_slope", "Held bytes of an image, fitted", "B", "slope of the line", "exact"),
    ("held_intercept", "Held bytes at no image, fitted", "B", "intercept of the line", "exact"),
    ("peak_slope", "Peak bytes of an image, fitted", "B", "slope of the line", "exact"),
    (
        "peak_over_output",
        "Peak over output",
        "1",
        "peak / bytes of the output, largest batch",
        "measured",
    ),
    ("fewest_samples", "Fewest samples of a case", "1", "count", "exact"),
)


def run_values(run: Run | None) -> tuple[Value, ...]:
    """What the prose says of the run that it speaks of; all missing where there is none."""
    if run is None or not run.measured_batches("forward"):
        why = NO_RECORD if run is None else Missing(f"no forward call was timed on {run.label}")
        found: dict[str, Finding] = {id_: why for id_, *_ in _RUN}
    else:
        found = {**_times(run), **_rates(run), **_ceilings(run), **_lines(run)}
    origin = () if run is None else (run.file,)
    return tuple(
        Value(id_, name, found[id_], unit, formula, origin, style)
        for id_, name, unit, formula, style in _RUN
    )


def _times(run: Run) -> dict[str, Finding]:
    batches = run.measured_batches("forward")
    first, last = batches[0], batches[-1]
    ends = {batch: run.time(batch, "forward") for batch in (first, last)}
    return {
        "smallest": first,
        "largest": last,
        "time_smallest": ends[first],
        "time_largest": ends[last],
        "per_image_smallest": _scaled(ends[first], 1 / first),
        "per_image_largest": _scaled(ends[last], 1 / last),
        "backward_ratio": _time_ratio(run, (last, "forward_backward"), (last, "forward")),
        "fewest_samples": min(run.sample_counts()),
    }


def _rates(run: Run) -> dict[str, Finding]:
    batches = run.measured_batches("forward")
    rates = present({batch: run.rate(batch, "forward") for batch in batches})
    best = max(rates, key=lambda batch: rates[batch].value)
    enough = SATURATED * rates[best].value
    lowest = lowest_beyond(rates, best)
    return {
        "lowest_batch": lowest,
        "lowest_rate": rates[lowest],
        "best_batch": best,
        "best_rate": rates[best],
        "best_share": run.efficiency(best, "forward"),
        "saturated": next(batch for batch in batches if rates[batch].value >= enough),
        "batch_gain": rate_gain(run, batches[0], batches[-1]),
    }


def lowest_beyond(rates: dict[int, Estimate], best: int) -> int:
    """The batch size of the lowest rate among the best one and the larger ones."""
    return min((b for b in rates if b >= best), key=lambda batch: rates[batch].value)


def falls_beyond_best(run: Run) -> bool:
    """Whether a batch larger than the best one is clearly no longer saturated."""
    rates = present({b: run.rate(b, "forward") for b in run.measured_batches("forward")})
    if not rates:
        return False
    best = max(rates, key=lambda batch: rates[batch].value)
    return rates[lowest_beyond(rates, best)].high < SATURATED * rates[best].low


def rate_gain(run: Run, small: int, large: int) -> Estimate | Missing:
    """How much faster an image is done at the large batch size than at the small one."""
    ratio = _time_ratio(run, (small, "forward"), (large, "forward"))
    return ratio if isinstance(ratio, Missing) else _times_factor(ratio, large / small)


def _time_ratio(run: Run, above: tuple[int, Pass], below: tuple[int, Pass]) -> Estimate | Missing:
    numerator, denominator = run.raw("time", *above), run.raw("time", *below)
    if isinstance(numerator, Missing):
        return numerator
    if isinstance(denominator, Missing):
        return denominator
    return ratio_of_medians(numerator, denominator)


def _ceilings(run: Run) -> dict[str, Finding]:
    product, copy = run.ceiling("matrix_product"), run.ceiling("copy")
    missing = next((c for c in (product, copy) if isinstance(c, Missing)), None)
    return {
        "ceiling": product,
        "ceiling_before": run.ceiling_at("matrix_product", "before"),
        "ceiling_after": run.ceiling_at("matrix_product", "after"),
        "copy": copy,
        "ridge": missing or rate_over(known(product), known(copy)),
        "time_bound": run.image_bound("forward"),
    }


def _lines(run: Run) -> dict[str, Finding]:
    batches = run.measured_batches("forward")
    times = [known(run.time(batch, "forward")).value for batch in batches]
    time, held, peak = run.time_fit("forward"), run.held_fit(), run.peak_fit()
    largest = batches[-1]
    return {
        "time_slope": time if isinstance(time, Missing) else time.slope,
        "time_intercept": time if isinstance(time, Missing) else time.intercept,
        "exponent": time if isinstance(time, Missing) else growth_exponent(batches, times),
        "held_slope": held if isinstance(held, Missing) else whole(held.slope),
        "held_intercept": held if isinstance(held, Missing) else whole(held.intercept),
        "peak_slope": peak if isinstance(peak, Missing) else whole(peak.slope),
        "peak_over_output": _scaled(run.peak(largest), 1 / footprint(largest).output),
    }


def _scaled(found: Number | Estimate | Missing, factor: float) -> Finding:
    if isinstance(found, Missing):
        return found
    return _times_factor(found, factor) if isinstance(found, Estimate) else found * factor


def _times_factor(estimate: Estimate, factor: float) -> Estimate:
    return replace(
        estimate,
        value=estimate.value * factor,
        low=estimate.low * factor,
        high=estimate.high * factor,
    )
