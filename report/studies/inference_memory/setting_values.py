"""What the prose says of precision, layout, tiles, waits and choices of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, exact
from report.quantity.operations import at_least, at_most, geometric_mean
from report.quantity.verdicts import Statement, expect
from report.statistics.estimates import Estimate
from report.studies.inference_memory.choices import (
    GOALS,
    Decision,
    best_speedup,
    decision,
    fused_bases,
    plain,
    reported_speedups,
    speedup,
)
from report.studies.inference_memory.layouts import (
    AMP,
    BOTH,
    alternative,
    amp_precision,
    base_calls,
    needed_saved,
)
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.precision import (
    accuracy_change,
    datasets,
    loss_change,
    mean_score,
    natural_pairs,
    score,
)
from report.studies.inference_memory.processor import clock_step, off_processor
from report.studies.inference_memory.run_values import (
    NO_CASE,
    Getter,
    counted,
    of_deepest,
    one_of,
)
from report.studies.inference_memory.subject import EXECUTION_NAMES, Call
from report.studies.inference_memory.tilings import call_cost, tiled_calls, untiled

# ----------------------------------------------------------------------------------- precision


def _pair(place: int, get: Callable[[Run, Call, Call], Quantity]) -> Getter:
    """What ``get`` makes of the first or the last timed pair of precisions."""

    def found(run: Run) -> Quantity:
        pairs = [pair for pair in natural_pairs(run) if run.timed(pair) == pair]
        return get(run, *pairs[place]) if pairs else NO_CASE

    return found


def half_grows(run: Run) -> bool:
    """Whether reduced precision takes more memory at the smallest batch and less at the largest."""
    first, last = (_pair(place, Run.saved)(run) for place in (0, -1))
    ends = (Statement(first, expect("< 0")), Statement(last, expect("> 0")))
    return all(end.judge() == "supported" for end in ends)


def _scored(get: Callable[[Run, str], Quantity]) -> Getter:
    """What ``get`` makes of the first set of images on which a trained network was scored."""

    def found(run: Run) -> Quantity:
        names = datasets(run)
        return get(run, names[0]) if names else NO_CASE

    return found


def _test_images(run: Run, dataset: str) -> Quantity:
    found = score(run, dataset, "float32", "image_correct")
    images = 0 if isinstance(found, Missing) else len(found)
    return counted("test images", run, images, there=bool(images))


# ------------------------------------------------------------------- AMP, layout and tiling


def _over_bases(choose: Callable[..., Quantity], get: Callable[..., Quantity], name: str) -> Getter:
    """What ``choose`` makes of ``get`` over the networks with the setting ``name``."""
    return lambda run: one_of(
        choose, (get(run, alternative(run, base, name), base) for base in base_calls(run))
    )


def _over_tiles(choose: Callable[..., Quantity], get: Callable[[Run, Call], Quantity]) -> Getter:
    return lambda run: one_of(choose, (get(run, call) for call in tiled_calls(run)))


def _tile_ratio(run: Run, call: Call) -> Quantity:
    return run.time_ratio(call, untiled(call))


def _halo(run: Run, call: Call) -> Quantity:
    cost = call_cost(run, call)
    if isinstance(cost, Missing):
        return NO_CASE
    work, whole = (exact(f"work {how} tiles", "MAC", n, run.file)
                   for how, n in (("with", cost.macs), ("without", cost.macs_untiled)))  # fmt: skip
    return work / whole


def untiled_scatters(run: Run) -> bool:
    """Whether the interval of the time without tiles is wider than half of that time."""
    calls = tiled_calls(run)
    found = estimate(run.time(untiled(calls[0]))) if calls else None
    return isinstance(found, Estimate) and found.high - found.low > found.value / 2


def _fastest_tiles(run: Run) -> Call | None:
    return min(run.timed(tiled_calls(run)), key=run.seconds, default=None)


def best_tiles(run: Run) -> str:
    """The fastest tiled call in words."""
    call = _fastest_tiles(run)
    return f"{EXECUTION_NAMES[call.execution]} in tiles of {call.tile}" if call else ""


def _of_fastest_tiles(get: Callable[[Run, Call], Quantity]) -> Getter:
    def found(run: Run) -> Quantity:
        call = _fastest_tiles(run)
        return get(run, call) if call else NO_CASE

    return found


# ----------------------------------------------------------------------------- waits, choices


def _fused(choose: Callable[..., Quantity], execution: str) -> Getter:
    """Of the speed-ups over the plain call in float32 and the contiguous layout."""

    def found(run: Run) -> Quantity:
        calls = run.chosen(execution=execution, layout="contiguous", precision="float32")
        return one_of(choose, (speedup(run, c) for c in calls if plain(c) in fused_bases(run)))

    return found


def _compiled_first(run: Run) -> Quantity:
    calls = (call for call in run.chosen(execution="compiled") if plain(call) in fused_bases(run))
    found = (run.samples("first_call_time", call.factors) for call in calls)
    firsts = [samples[0] for samples in found if not isinstance(samples, Missing)]
    return exact("first call", "s", max(firsts), run.file) if firsts else NO_CASE


def best_mean(inputs: Inputs, run: Run) -> Quantity:
    """The geometric mean of the best speed-ups of the published networks."""
    names = reported_speedups(inputs)
    return one_of(geometric_mean, (best_speedup(run, n, same_precision=False) for n in names))


def _clear(choose: Callable[[list[float]], float]) -> Getter:
    """The smallest or largest of the medians of the gains that are more than scatter."""

    def found(run: Run) -> Quantity:
        gains = [centre(made.gain) for made in _decisions(run) if made.clear]
        return counted("gain", run, choose(gains or [0]), there=bool(gains))

    return found


def _decisions(run: Run) -> list[Decision]:
    found = [decision(run, network, goal) for network in run.networks() for goal in GOALS]
    return [made for made in found if not isinstance(made, Missing)]


SETTING_VALUES: Final[dict[str, Getter]] = {
    "untiled_faults": _of_fastest_tiles(lambda run, c: run.count("page_faults", untiled(c))),
    "tiled_faults": _of_fastest_tiles(lambda run, call: run.count("page_faults", call)),
    "half_first": _pair(0, Run.time_ratio),
    "half_last": _pair(-1, Run.time_ratio),
    "half_saved_first": _pair(0, Run.saved),
    "half_grown_first": _pair(0, lambda run, call, base: run.peak(call) / run.peak(base) - 1),
    "half_saved_last": _pair(-1, Run.saved),
    "test_images": _scored(_test_images),
    "accuracy": _scored(lambda run, d: mean_score(run, d, "float32", "image_correct")),
    "accuracy_change": _scored(lambda run, d: accuracy_change(run, d, amp_precision(run))),
    "loss_change": _scored(lambda run, d: loss_change(run, d, amp_precision(run))),
    "amp_batch": lambda run: counted(
        "largest batch of both settings", run, max((b.batch for b in base_calls(run)), default=0),
        there=bool(base_calls(run)),
    ),
    "both_saved_least": _over_bases(at_most, Run.saved, BOTH),
    "both_saved_most": _over_bases(at_least, Run.saved, BOTH),
    "both_fastest": _over_bases(at_most, Run.time_ratio, BOTH),
    "both_slowest": _over_bases(at_least, Run.time_ratio, BOTH),
    "needed_saved_least": _over_bases(at_most, needed_saved, AMP),
    "needed_saved_most": _over_bases(at_least, needed_saved, AMP),
    "untiled_time": _of_fastest_tiles(lambda run, call: run.time(untiled(call))),
    "tile_worst": _over_tiles(at_least, _tile_ratio),
    "tile_best": _over_tiles(at_most, _tile_ratio),
    "tile_least_peak": _over_tiles(at_most, lambda run, c: run.peak(c) / run.peak(untiled(c))),
    "halo_most": _over_tiles(at_least, _halo),
    "clock_step": lambda run: exact(
        "max(CPU time − threads · time, 0)", "s", clock_step(run), run.file
    ),
    "off_first": of_deepest(lambda run, calls: off_processor(run, calls[0])),
    "off_last": of_deepest(lambda run, calls: off_processor(run, calls[-1])),
    "folded_best": _fused(at_least, "folded"),
    "compiled_best": _fused(at_least, "compiled"),
    "compiled_worst": _fused(at_most, "compiled"),
    "compiled_first": _compiled_first,
    "best_lenet": lambda run: best_speedup(run, "LeNet-5", same_precision=False),
    "clear": lambda run: counted("clear choices", run, sum(d.clear for d in _decisions(run))),
    "clear_least": _clear(min),
    "clear_most": _clear(max),
    "decisions": lambda run: counted(
        "networks · goals", run, len(_decisions(run)), there=bool(_decisions(run))
    ),
}  # fmt: skip
