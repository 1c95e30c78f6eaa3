"""What is peculiar to a GPU: who waits for whom, and what it keeps in memory.

A GPU computes what the host issues.  Where the host waits only briefly at the end of a call, the
device had caught up with it: the call lasted as long as the host took to issue its layers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, takewhile
from typing import Final

from report.evidence.remembered import remembered
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, recorded
from report.quantity.operations import at_least, at_most
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.sweeps import ends, plain, sweep, swept, tiled_calls

#: A host that waits for less than this share of a call sets its time.
BRIEF: Final = 0.1
_NO_CASE: Final = absent("case", "1", "no such case was measured")


def wait_share(run: Run, call: Call) -> Quantity:
    """The share of a call in which the host has issued everything and waits for the device."""
    return run.series("wait_time", call.factors) / run.time(call)


def _is_brief(run: Run, call: Call) -> bool:
    found = point(wait_share(run, call))
    return not isinstance(found, Missing) and found < BRIEF


@remembered
def host_bound(run: Run) -> tuple[Call, ...]:
    """The calls of the deepest ResNet that the host sets the time of, up to the first other one."""
    return tuple(takewhile(lambda call: _is_brief(run, call), ends(run)))


@remembered
def layout_pair(run: Run) -> tuple[Call, Call] | None:
    """The deepest ResNet in both layouts, channels last first, at the largest such batch."""
    contiguous = {call.batch: call for call in ends(run)}
    both = [c for c in ends(run, layout="channels_last") if c.batch in contiguous]
    return (both[-1], contiguous[both[-1].batch]) if both else None


@remembered
def keeper(run: Run) -> Call | None:
    """The call with the lowest peak of all, in which what is kept shows most."""
    peaks = {c: point(run.peak(c)) for network in swept(run) for c in sweep(run, network)}
    known = {call: size for call, size in peaks.items() if not isinstance(size, Missing)}
    return min(known, key=lambda call: known[call], default=None)


def _end(place: int, get: Callable[[Run, Call], Quantity]) -> Callable[[Run], Quantity]:
    """What ``get`` makes of the deepest ResNet at its smallest or its largest batch."""
    return lambda run: get(run, calls[place]) if (calls := ends(run)) else _NO_CASE


def _bound(get: Callable[[Run, tuple[Call, ...]], Quantity]) -> Callable[[Run], Quantity]:
    return lambda run: get(run, calls) if (calls := host_bound(run)) else _NO_CASE


def _layout(place: int, get: Callable[[Run, Call], Quantity]) -> Callable[[Run], Quantity]:
    return lambda run: get(run, pair[place]) if (pair := layout_pair(run)) else _NO_CASE


def _kept(get: Callable[[Run, Call], Quantity]) -> Callable[[Run], Quantity]:
    return lambda run: get(run, call) if (call := keeper(run)) else _NO_CASE


def _batch(run: Run, call: Call) -> Quantity:
    return recorded("batch", "1", call.batch, run.file)


def _spread(run: Run, calls: tuple[Call, ...]) -> Quantity:
    times = [run.time(call) for call in calls]
    return at_least(*times) / at_most(*times)


def unordered(run: Run) -> bool:
    """Whether of the calls that the host sets the time of one of more images is ever shorter."""
    times = [point(run.time(call)) for call in host_bound(run)]
    return any(
        isinstance(fewer, float) and isinstance(more, float) and more < fewer
        for fewer, more in pairwise(times)
    )


def layout_ratio(run: Run) -> Quantity:
    """Time of the channels-last call over that of the contiguous one."""
    pair = layout_pair(run)
    return run.time_ratio(*pair) if pair else _NO_CASE


def tile_times(choose: Callable[..., Quantity]) -> Callable[[Run], Quantity]:
    """Of the times of tiled calls over those of whole maps, the one that ``choose`` takes."""

    def found(run: Run) -> Quantity:
        each = [run.time_ratio(call, plain(call)) for call in run.timed(tiled_calls(run))]
        return choose(*each) if each else _NO_CASE

    return found


#: Of the GPU that the prose speaks of.
GPU_VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "gpu_first": _end(0, _batch),
    "gpu_first_time": _end(0, Run.time),
    "gpu_first_wait": _end(0, wait_share),
    "gpu_last": _end(-1, _batch),
    "gpu_last_wait": _end(-1, wait_share),
    "gpu_bound": _bound(lambda run, calls: _batch(run, calls[-1])),
    "gpu_bound_images": _bound(lambda run, c: _batch(run, c[-1]) / _batch(run, c[0])),
    "gpu_bound_spread": _bound(_spread),
    "gpu_layout_batch": _layout(0, _batch),
    "gpu_layout_ratio": layout_ratio,
    "gpu_layout_peak": _layout(0, Run.peak),
    "gpu_layout_base_peak": _layout(1, Run.peak),
    "gpu_kept_batch": _kept(_batch),
    "gpu_kept_peak": _kept(Run.peak),
    "gpu_kept": _kept(Run.kept),
    "gpu_tile_best": tile_times(at_most),
    "gpu_tile_worst": tile_times(at_least),
}
