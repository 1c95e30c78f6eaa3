"""What the runs hold that the prose does not speak of, and what is peculiar to a GPU among them.

A GPU computes what the host issues.  Where the host waits only briefly at the end of a call, the
device had caught up with it: the call lasted as long as the host took to issue its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any, Final, TypeAlias

from report.evidence.runs import remembered
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value, declare
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Statement, expect
from report.studies.inference_memory.batches import resnets, sweep, swept
from report.studies.inference_memory.choices import fused_bases
from report.studies.inference_memory.layouts import base_calls
from report.studies.inference_memory.limits import limited_calls
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.precision import datasets, pairs
from report.studies.inference_memory.run_values import NO_CASE, counted, ends, one_of
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.tilings import call_cost, tiled_calls, untiled
from report.text.escape import markdown
from report.text.format import Style
from report.theory.liveness import INPUT, PARAMETERS, STATISTICS

#: A host that waits for less than this share of a call sets its time.
BRIEF: Final = 0.1
#: Long calls have too few samples for the usual level; sentences print the level that is reached.
_LEVEL: Final = 0.9
#: The batch size that one image is set against: the next one of the table.
LATER: Final = 8

_Getter: TypeAlias = Callable[[Run], Quantity]

#: What the experiment varies, by the calls of a run that show it.
_SWEEPS: Final[dict[str, Callable[[Run], Sequence[object]]]] = {
    "batch": swept,
    "precision": pairs,
    "accuracy": datasets,
    "amp": base_calls,
    "tiles": tiled_calls,
    "fusion": fused_bases,
    "limit": limited_calls,
}


#: What the discussion asks of every other device, and only a GPU can answer with yes.
_ASKED_OF_ALL: Final = ("host", "layout", "tiles")


def about(run: Run, primary: Run) -> dict[str, Any]:
    """Which calls a run has of those of the primary one, and what the prose can say of a GPU."""
    names, timed = run.networks(), run.networks(run.timed(run.calls))
    primary_timed = primary.networks(primary.timed(primary.calls))
    absent_names = [name for name in primary.networks() if name not in names]
    untimed = [name for name in names if name not in timed and name in primary_timed]
    absent_sweeps = [s for s, calls in _SWEEPS.items() if calls(primary) and not calls(run)]
    found = {
        "label": markdown(run.label),
        "key": run.key,
        "on_gpu": run.on_gpu,
        "plan": run.stored.record.protocol.plan,
        "networks": list(names),
        "absent_networks": absent_names,
        "untimed": untimed,
        "sweeps": [sweep_ for sweep_, calls in _SWEEPS.items() if calls(run)],
        "absent_sweeps": absent_sweeps,
        "whole": not (absent_names or untimed or absent_sweeps),
    }
    return found | (_on_gpu(run, primary) if run.on_gpu else dict.fromkeys(_ASKED_OF_ALL, False))


def _on_gpu(run: Run, primary: Run) -> dict[str, Any]:
    """What holds clearly on a GPU, as switches of the prose."""
    deep, bound = ends(run), host_bound(run)
    slow = slow_firsts(run)
    tiles = run.timed(tiled_calls(run))
    names, keeper = resnets(run), _keeper(run)
    return {
        "deep": names[-1] if names else "",
        "host": bool(bound),
        "host_always": len(bound) == len(deep),
        "one_image": bool(deep) and deep[0].batch == 1,
        "slow": list(slow),
        "slow_deep": bool(names) and names[-1] in slow,
        "layout": layout_costs(run),
        "kept": keeper.network if keeper and _keeps_most(run, keeper) else "",
        "kept_here": keeper is not None and not primary.peak(keeper).missing,
        "drop": _drop(run) is not None,
        "tiles": bool(tiles),
        # Too few samples for an interval; the sentence prints the longest of these waits.
        "tiles_wait": bool(tiles) and all(centre(wait_share(run, call)) < BRIEF for call in tiles),
    }


def all_values(inputs: Inputs, run: Run, primary: Run) -> Iterator[Value]:
    """The numbers that the prose tells of another run; their ids end with the run's key."""
    getters: dict[str, _Getter] = {"other_calls": _calls}
    if run.on_gpu:
        getters |= _GPU_VALUES
        getters |= {
            f"{id_}_{name}": _time_at(name, batch)
            for name in slow_firsts(run)
            for id_, batch in (("gpu_one", 1), ("gpu_later", LATER))
        }
        best = int(inputs.reported.value("best_up_to").number)
        getters["gpu_fall"] = lambda run: _fall(run, best)
        getters["gpu_kept_here"] = lambda run: _of(_keeper(run), primary.peak)
    for id_, get in getters.items():
        value = declare(f"{id_}-{run.key}", get(run), _STYLES.get(id_))
        words = id_.removeprefix("gpu_").replace("_", " ")
        yield replace(value, name=f"{words[0].upper()}{words[1:]}, {run.label}")


def _calls(run: Run) -> Quantity:
    return counted("calls of the record", run, len(run.calls))


def _of(call: Call | None, get: Callable[[Call], Quantity]) -> Quantity:
    return NO_CASE if call is None else get(call)


# ---------------------------------------------------------------------------- who waits for whom


def wait_share(run: Run, call: Call) -> Quantity:
    """The share of a call in which the host has issued everything and waits for the device."""
    return run.count("wait_time", call) / run.time(call)


def _is_brief(run: Run, call: Call) -> bool:
    return _holds(wait_share(run, call), f"< {BRIEF}")


def _holds(quantity: Quantity, claimed: str) -> bool:
    return Statement(quantity, expect(claimed)).judge(_LEVEL) == "supported"


@remembered
def host_bound(run: Run) -> tuple[Call, ...]:
    """The calls of the deepest ResNet that the host sets the time of, up to the first other one."""
    return tuple(takewhile(lambda call: _is_brief(run, call), ends(run)))


def slow_firsts(run: Run) -> tuple[str, ...]:
    """The networks whose call on one image clearly takes longer than one on more.

    Only where the host sets the time of both, so that their work is the same for it.
    """
    found = []
    for network in swept(run):
        calls = {call.batch: call for call in run.timed(sweep(run, network))}
        if 1 not in calls or LATER not in calls:
            continue
        one, later = calls[1], calls[LATER]
        slower = _holds(run.time_ratio(one, later), "> 1")
        if slower and _is_brief(run, one) and _is_brief(run, later):
            found.append(network)
    return tuple(found)


def _time_at(network: str, batch: int) -> _Getter:
    def found(run: Run) -> Quantity:
        calls = (call for call in sweep(run, network) if call.batch == batch)
        return _of(next(calls, None), run.time)

    return found


def _over_bound(get: Callable[[Run, Sequence[Call]], Quantity]) -> _Getter:
    """What ``get`` makes of the calls that the host sets the time of, if there are any."""
    return lambda run: get(run, calls) if (calls := host_bound(run)) else NO_CASE


def _spread(run: Run, calls: Sequence[Call]) -> Quantity:
    times = [run.time(call) for call in calls]
    return at_least(*times) / at_most(*times)


def _fall(run: Run, best: int) -> Quantity:
    """Time of an image at the source's best batch over that of the shortest call of all."""
    calls = {call.batch: call for call in ends(run)}
    if best not in calls:
        return NO_CASE
    return run.image_time(calls[best]) / at_most(*(run.time(call) for call in calls.values()))


def _at_end(place: int, get: Callable[[Run, Call], Quantity]) -> _Getter:
    """What ``get`` makes of the deepest ResNet at its smallest or its largest batch."""
    return lambda run: get(run, calls[place]) if (calls := ends(run)) else NO_CASE


# ---------------------------------------------------------------------------------------- memory


def largest_block(run: Run, call: Call) -> Quantity:
    """The largest block that a call asks its allocator for (B)."""
    events = run.samples("memory_events", call.factors)
    if isinstance(events, Missing):
        return absent("largest block", "B", events.reason)
    return exact("largest of the allocator's events", "B", int(max(events, default=0)), run.file)


def _pair(run: Run) -> tuple[Call, Call] | None:
    """The deepest ResNet in both layouts, channels last first, at the largest such batch."""
    contiguous = {call.batch: call for call in ends(run)}
    both = [c for c in ends(run, layout="channels_last") if c.batch in contiguous]
    return (both[-1], contiguous[both[-1].batch]) if both else None


def layout_costs(run: Run) -> bool:
    """Whether channels last clearly takes more time there, and more memory in a larger block."""
    pair = _pair(run)
    if pair is None:
        return False
    ratios = (
        run.time_ratio(*pair),
        run.peak(pair[0]) / run.peak(pair[1]),
        largest_block(run, pair[0]) / largest_block(run, pair[1]),
    )
    return all(_holds(ratio, "> 1") for ratio in ratios)


def _of_layout(place: int, get: Callable[[Run, Call], Quantity]) -> _Getter:
    return lambda run: get(run, pair[place]) if (pair := _pair(run)) else NO_CASE


def _over_pair(get: Callable[[Run, Call, Call], Quantity]) -> _Getter:
    return lambda run: get(run, *pair) if (pair := _pair(run)) else NO_CASE


def _keeper(run: Run) -> Call | None:
    """The call with the lowest peak of all, in which what is kept shows most."""
    calls = [c for network in swept(run) for c in sweep(run, network) if not run.peak(c).missing]
    return min(calls, key=lambda call: centre(run.peak(call)), default=None)


def kept(run: Run, call: Call) -> Quantity:
    """Bytes that are allocated before a call and are neither parameters nor input."""
    before, alive = run.fixed("allocated_before", call.factors), run.held(call)
    if isinstance(before, Missing) or isinstance(alive, Missing):
        return NO_CASE
    always = sum(map(alive[0].amount, (PARAMETERS, STATISTICS, INPUT)))
    return exact("allocated before − parameters − input", "B", before - always, run.file)


def _keeps_most(run: Run, call: Call) -> bool:
    """Whether what is kept is more than half of the peak."""
    return _holds(kept(run, call) / run.peak(call), "> 0.5")


def _drop(run: Run) -> tuple[Call, Call] | None:
    """The first step of the batch at which peak and largest block of the deepest ResNet fall."""
    for before, after in pairwise(ends(run)):
        less = (run.peak(after) / run.peak(before),
                largest_block(run, after) / largest_block(run, before))  # fmt: skip
        if all(_holds(each, "< 1") for each in less):
            return before, after
    return None


def _of_drop(place: int, get: Callable[[Run, Call], Quantity]) -> _Getter:
    return lambda run: get(run, step[place]) if (step := _drop(run)) else NO_CASE


# ----------------------------------------------------------------------------------------- tiles


def _over_tiles(
    choose: Callable[..., Quantity], get: Callable[[Run, Call, Call], Quantity]
) -> _Getter:
    """What ``choose`` makes of a number of each tiled call and the one without tiles."""
    return lambda run: one_of(choose, (get(run, call, untiled(call)) for call in tiled_calls(run)))


def _peak_ratio(run: Run, call: Call, whole: Call) -> Quantity:
    return run.peak(call) / run.peak(whole)


def _most_tiles(run: Run) -> Quantity:
    found = (call_cost(run, call) for call in run.timed(tiled_calls(run)))
    tiles = [cost.tiles for cost in found if not isinstance(cost, Missing)]
    return counted("tiles of a call", run, max(tiles, default=0), there=bool(tiles))


def _batch(run: Run, call: Call) -> Quantity:
    return counted("batch", run, call.batch)


_GPU_VALUES: Final[dict[str, _Getter]] = {
    "gpu_first_time": _at_end(0, Run.time),
    "gpu_first_wait": _at_end(0, wait_share),
    "gpu_last_wait": _at_end(-1, wait_share),
    "gpu_last": _at_end(-1, _batch),
    "gpu_first": _at_end(0, _batch),
    "gpu_bound": _over_bound(lambda run, calls: _batch(run, calls[-1])),
    "gpu_bound_work": _over_bound(lambda run, calls: run.work(calls[-1]) / run.work(calls[0])),
    "gpu_bound_spread": _over_bound(_spread),
    "gpu_later": lambda run: exact("chosen", "1", LATER),
    "gpu_layout_batch": _of_layout(0, _batch),
    "gpu_layout_time": _of_layout(0, Run.time),
    "gpu_layout_base_time": _of_layout(1, Run.time),
    "gpu_layout_peak": _of_layout(0, Run.peak),
    "gpu_layout_base_peak": _of_layout(1, Run.peak),
    "gpu_layout_ratio": _over_pair(Run.time_ratio),
    "gpu_layout_more": _over_pair(lambda run, call, base: run.peak(call) / run.peak(base)),
    "gpu_layout_block": _of_layout(0, largest_block),
    "gpu_layout_base_block": _of_layout(1, largest_block),
    "gpu_kept_batch": lambda run: _of(_keeper(run), lambda call: _batch(run, call)),
    "gpu_kept_peak": lambda run: _of(_keeper(run), run.peak),
    "gpu_kept": lambda run: _of(_keeper(run), lambda call: kept(run, call)),
    "gpu_drop_from": _of_drop(0, _batch),
    "gpu_drop_to": _of_drop(1, _batch),
    "gpu_drop_peak": _of_drop(0, Run.peak),
    "gpu_drop_left": _of_drop(1, Run.peak),
    "gpu_drop_block": _of_drop(0, largest_block),
    "gpu_drop_left_block": _of_drop(1, largest_block),
    "gpu_untiled": lambda run: one_of(
        at_least, (run.time(base) for base in dict.fromkeys(map(untiled, tiled_calls(run))))
    ),
    "gpu_tile_best": _over_tiles(at_most, lambda run, call, whole: run.time_ratio(call, whole)),
    "gpu_tile_worst": _over_tiles(at_least, lambda run, call, whole: run.time_ratio(call, whole)),
    "gpu_tile_peak": _over_tiles(at_most, _peak_ratio),
    "gpu_tile_wait": _over_tiles(at_least, lambda run, call, whole: wait_share(run, call)),
    "gpu_tile_count": _most_tiles,
}
_STYLES: Final[dict[str, Style]] = {
    **dict.fromkeys(("gpu_first_wait", "gpu_last_wait", "gpu_tile_wait"), "percent"),
    **dict.fromkeys(
        (
            "gpu_layout_peak", "gpu_layout_base_peak", "gpu_layout_block", "gpu_layout_base_block",
            "gpu_kept_peak", "gpu_kept", "gpu_kept_here", "gpu_drop_peak", "gpu_drop_left",
            "gpu_drop_block", "gpu_drop_left_block",
        ),
        "measured",
    ),
}  # fmt: skip
