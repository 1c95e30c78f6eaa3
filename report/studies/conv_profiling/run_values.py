"""The numbers of conv_profiling's prose that come from the run it speaks of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from report.evidence.executed import residual
from report.instruments.operators import Sums
from report.missing import Missing
from report.quantity.expression import Quantity, absent, exact, recorded
from report.quantity.operations import at_least, at_most
from report.records.passes import PASSES
from report.studies.conv_profiling import theory
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.profiled import Traced
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

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
#: Values that are printed as shares.
SHARES: Final = frozenset({"missed_share"})


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
    "held_batches": count("batches that retain their output", _same_as_output),
    "peak_largest": count("largest batch with a peak", _peak_batch),
    "peak_over_output": _peak_over_output,
}


# --------------------------------------------------------------------------- the trace


def _of_convolution(get: Callable[[Sums], int], unit: str = "B") -> Callable[[Traced], Quantity]:
    """What the convolution's operator did with memory in a traced call."""

    def found(traced: Traced) -> Quantity:
        row = traced.row("aten::conv2d")
        if isinstance(row, Missing):
            return absent("memory of the operator", unit, row.reason)
        return exact("sum of its memory events", unit, get(row.total), traced.run.file)

    return found


#: Of the traced call of the layer.
OF_TRACE: Final[dict[str, Callable[[Traced], Quantity]]] = {
    "trace_batch": lambda t: exact("traced batch", "1", t.batch, t.run.file),
    "own_kept": _of_convolution(lambda total: total.size),
    "own_allocated": _of_convolution(lambda total: total.allocated),
    "own_workspace": _of_convolution(lambda total: total.allocated - total.size),
    "traced_time": lambda t: exact("first to last operator", "s", t.length / 1e9, t.run.file),
}
