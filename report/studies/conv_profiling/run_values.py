"""The numbers of conv_profiling's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from report.evidence.residuals import residual
from report.instruments.operators import Sums
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact, named, recorded
from report.quantity.operations import at_least, at_most
from report.records.passes import PASSES
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.measured import Run, Training, image_gain
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.rates import best_batch, best_rate, ceiling
from report.studies.conv_profiling.reconciled import (
    BLOCKED,
    changed,
    changed_peaks,
    differing,
    executed,
    most_padded,
    uncounted,
)
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.theory.memory import layer_memory
from report.theory.reconciliation import Reconciliation
from report.theory.work import forward_macs

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
#: Values that are printed as shares.
SHARES: Final = frozenset(
    {
        "test_accuracy",
        "work_share",
        "parameter_share",
        "best_share",
        "best_share_after",
        "missed_share",
        "mapping_share",
    }
)


def count(name: str, get: Callable[[Run], int | Missing]) -> Callable[[Run], Quantity]:
    """The getter of a whole number of the record, or of the reason why there is none."""
    return lambda run: recorded(name, "1", get(run), run.file)


def _residual(
    get: Callable[[Run], Mapping[Any, Reconciliation]], unit: str
) -> Callable[[Run], Quantity]:
    return lambda run: residual(get(run).values(), unit, run.file)


def all_executed(run: Run) -> dict[str, Reconciliation]:
    """The example's layer in both passes, by pass and batch size."""
    return {f"{p} {batch}": r for p in PASSES for batch, r in executed(run, p).items()}


def _ratio(choose: Callable[..., Quantity]) -> Callable[[Run], Quantity]:
    """The lowest or highest ratio of counted to theoretical multiply-adds of all dimensions."""

    def found(run: Run) -> Quantity:
        ratios = [
            exact("executed", "MAC", r.measured.amount, run.file)
            / exact("theory", "MAC", r.start.amount)
            for r in changed(run).values()
            if not isinstance(r.measured, Missing)
        ]
        reason = f"nothing was counted on {run.label}"
        return choose(*ratios) if ratios else absent("executed / theory", "1", reason)

    return found


def _missed(run: Run) -> Quantity:
    """The largest part of theory that the counter misses."""
    shares = [-uncounted(r) / r.start.amount for r in changed(run).values()]
    return recorded("not fused / theory", "1", max(shares, default=0.0), run.file)


def _explained(run: Run) -> int:
    return sum(r.explained for r in changed(run).values())


def _met(run: Run) -> int:
    return sum(r.explained and r.end == r.start.amount for r in changed(run).values())


def _of_worst(get: Callable[[Dimensions], int], *, padded: bool) -> Callable[[Run], int | Missing]:
    """Of the shape that is counted furthest above theory, as it is or in whole blocks."""

    def found(run: Run) -> int | Missing:
        pair = most_padded(run)
        return Missing("nothing was counted") if pair is None else get(pair[padded])

    return found


def _plain_peaks(run: Run) -> int:
    return len(changed_peaks(run)) - len(differing(changed_peaks(run), BLOCKED))


def _counted_batch(choose: Callable[..., int]) -> Callable[[Run], int | Missing]:
    none = Missing("nothing was counted")
    return lambda run: choose(executed(run), default=none)


def _timed(get: Callable[[Run, int], Quantity], place: int) -> Callable[[Run], Quantity]:
    """At the smallest or the largest timed batch."""

    def found(run: Run) -> Quantity:
        if not run.timed:
            return absent("time", "s", f"no forward call was timed on {run.label}")
        return get(run, run.timed[place])

    return found


def _timed_batch(place: int) -> Callable[[Run], int | Missing]:
    return lambda run: run.timed[place] if run.timed else Missing("no forward call was timed")


def _best_share(run: Run) -> Quantity:
    """The share of the ceiling at the batch size with the highest rate."""
    if not run.timed or run.peak_rate("matrix_product").missing:
        return absent("share of the ceiling", "1", f"no rate or no ceiling on {run.label}")
    return run.share(best_batch(run))


def _best_share_after(run: Run) -> Quantity:
    """The same, of the ceiling after the series."""
    after = ceiling(run, "after")
    if not run.timed or after.missing:
        return absent("share of the ceiling", "1", f"no rate or no ceiling on {run.label}")
    return best_rate(run) / after


def _largest_peak(run: Run) -> tuple[int, int] | Missing:
    """The largest batch size whose peak is known, and that peak."""
    known = {b: size for b in run.batches() if isinstance(size := run.peak(b), int)}
    return max(known.items()) if known else Missing(f"no peak was recorded on {run.label}")


def _peak_batch(run: Run) -> int | Missing:
    found = _largest_peak(run)
    return found if isinstance(found, Missing) else found[0]


def _peak_over_output(run: Run) -> Quantity:
    found = _largest_peak(run)
    if isinstance(found, Missing):
        return absent("peak over output", "1", found.reason)
    batch, size = found
    return exact("peak", "B", size, run.file) / (batch * theory.OUTPUT_BYTES)


def _same_as_output(run: Run) -> int:
    return sum(run.held(b) == layer_memory(BASE.layer(b)).output for b in run.batches())


_SIDES: Final[Mapping[str, Callable[[Dimensions], int]]] = {
    "in": lambda shape: shape.inputs,
    "out": lambda shape: shape.outputs,
}

#: Of the run that the prose speaks of.
RUN_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "residual_executed": _residual(all_executed, "MAC"),
    "residual_changed": _residual(changed, "MAC"),
    "residual_changed_peak": _residual(changed_peaks, "B"),
    "counted_smallest": count("smallest counted batch", _counted_batch(min)),
    "counted_largest": count("largest counted batch", _counted_batch(max)),
    "changed_cases": count("counted cases", lambda run: len(changed(run))),
    "changed_kinds": count("shapes of the record", lambda run: len(run.dimensions)),
    "changed_explained": count("cases without a residual", _explained),
    "changed_met": count("cases without a term", _met),
    "changed_differing": count("cases with a term", lambda run: len(differing(changed(run)))),
    "peaks_plain": count("peaks of output and its blocks", _plain_peaks),
    "ratio_lowest": _ratio(at_most),
    "ratio_highest": _ratio(at_least),
    "missed_share": _missed,
    **{
        f"worst_{side}{'_padded' * padded}": count("channels", _of_worst(get, padded=padded))
        for side, get in _SIDES.items()
        for padded in (False, True)
    },
    "first_batch": count("smallest timed batch", _timed_batch(0)),
    "last_batch": count("largest timed batch", _timed_batch(-1)),
    "image_first": _timed(Run.image_time, 0),
    "image_last": _timed(Run.image_time, -1),
    "image_gain": image_gain,
    "best_share": _best_share,
    "best_rate": best_rate,
    "best_share_after": _best_share_after,
    "ceiling_before": lambda run: ceiling(run, "before"),
    "ceiling_after": lambda run: ceiling(run, "after"),
    "held_batches": count("batches that retain their output", _same_as_output),
    "peak_largest": count("largest batch with a peak", _peak_batch),
    "peak_over_output": _peak_over_output,
}


# --------------------------------------------------------------------------- trace, training


def _of_convolution(get: Callable[[Sums], int], unit: str = "B") -> Callable[[Traced], Quantity]:
    """What the convolution's operator did with memory in a traced call."""

    def found(traced: Traced) -> Quantity:
        row = traced.row("aten::conv2d")
        if isinstance(row, Missing):
            return absent("memory of the operator", unit, row.reason)
        return exact("sum of its memory events", unit, get(row.total), traced.run.file)

    return found


#: Bytes of a page of memory.
_PAGE: Final = 4096
#: The names of the two counts of pages below.
ALL_PAGES: Final = "All that a call allocates"
_WITHOUT_INPUT: Final = "Without the input's copy"


def pages_of_call(traced: Traced) -> dict[str, Quantity]:
    """Pages that an image's part of a call fills: of all it allocates, and less the input."""
    allocated = _of_convolution(lambda total: total.allocated)(traced) / traced.batch
    copied = exact("input of an image", "B", layer_memory(BASE.layer(1)).input, traced.run.file)
    page = exact("page", "B", _PAGE)
    return {ALL_PAGES: allocated / page, _WITHOUT_INPUT: (allocated - copied) / page}


def _pages(name: str) -> Callable[[Traced], Quantity]:
    return lambda traced: named("pages of an image", pages_of_call(traced)[name])


#: Of the traced call of the layer.
OF_TRACE: Final[dict[str, Callable[[Traced], Quantity]]] = {
    "trace_batch": lambda t: exact("traced batch", "1", t.batch, t.run.file),
    "own_kept": _of_convolution(lambda total: total.size),
    "own_allocated": _of_convolution(lambda total: total.allocated),
    "own_workspace": _of_convolution(lambda total: total.allocated - total.size),
    "pages_all": _pages(ALL_PAGES),
    "traced_time": lambda t: exact("first to last operator", "s", t.length / 1e9, t.run.file),
}


def _training(run: Run, *, example: bool) -> Training | None:
    """The training of the example's network, or of the source's other one."""
    ended = (training for training in run.trainings if run.trained(training))
    return next((t for t in ended if (t.channels == BASE.channels) is example), None)


def at(quantity: str, place: int, *, example: bool = True) -> Callable[[Run], Quantity]:
    """What a training recorded in its first or last epoch."""

    def found(run: Run) -> Quantity:
        training = _training(run, example=example)
        name = quantity.replace("_", " ")
        if training is None:
            return absent(name, "1", f"nothing was trained on {run.label}")
        samples = run.samples(quantity, training.factors)
        if isinstance(samples, Missing):
            return absent(name, "1", samples.reason)
        return exact(name, "1", float(samples[place]), run.file)

    return found


def _rounded_loss(place: int) -> Callable[[Run], Quantity]:
    """A test loss of one seed, to two digits."""

    def found(run: Run) -> Quantity:
        loss = point(at("test_loss", place)(run))
        shown = loss if isinstance(loss, Missing) else float(f"{loss:.2g}")
        return recorded("test loss, to two digits", "1", shown, run.file)

    return found


def _length(quantity: str) -> Callable[[Run], int | Missing]:
    def found(run: Run) -> int | Missing:
        training = _training(run, example=True)
        if training is None:
            return Missing(f"nothing was trained on {run.label}")
        samples = run.samples(quantity, training.factors)
        return samples if isinstance(samples, Missing) else len(samples)

    return found


def _epoch_ratio(run: Run) -> Quantity:
    both = [_training(run, example=example) for example in (False, True)]
    times = [run.series("epoch_time", each.factors) for each in both if each is not None]
    if len(times) < len(both):
        return absent("ratio of epochs", "1", f"two networks were not trained on {run.label}")
    return times[0] / times[1]


def _works(run: Run) -> list[Quantity]:
    """Multiply-adds of the other network and of the example's; none unless both were trained."""
    both = [_training(run, example=example) for example in (False, True)]
    layers = [run.layers(each.factors) for each in both if each is not None]
    works = [forward_macs(each) for each in layers if not isinstance(each, Missing)]
    return [exact("work", "MAC", n, run.file) for n in works] if len(works) == len(both) else []


def _of_works(run: Run, get: Callable[[Quantity, Quantity], Quantity]) -> Quantity:
    works = _works(run)
    if not works:
        return absent("ratio of work", "1", f"two networks were not trained on {run.label}")
    return get(*works)


def _work_ratio(run: Run) -> Quantity:
    """The other network's multiply-adds over those of the example's."""
    return _of_works(run, lambda other, own: other / own)


def padded_work(run: Run, padding: Quantity) -> Quantity:
    """The same with so much ``padding`` (MAC) in the other network."""
    return _of_works(run, lambda other, own: (other + padding) / own)


#: Of the run whose trainings the prose describes.
TRAINED: Final[dict[str, Callable[[Run], Quantity]]] = {
    "epochs": count("epochs", _length("test_loss")),
    "steps": count("steps", _length("step_loss")),
    "first_test_loss": _rounded_loss(0),
    "test_loss": _rounded_loss(-1),
    "test_accuracy": at("test_accuracy", -1),
    "epoch_ratio": _epoch_ratio,
    "work_ratio": _work_ratio,
}
