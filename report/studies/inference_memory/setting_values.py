"""What the prose says of the run's settings: one small function a number."""

from __future__ import annotations

import math

from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.statistics.estimates import CONFIDENCE, Estimate
from report.studies.inference_memory.choices import (
    GOALS,
    Decision,
    best_speedup,
    decision,
    fused_bases,
    gain,
    is_clear,
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
from report.studies.inference_memory.measured import Run
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
    Finding,
    ends,
    largest_of,
    smallest_of,
)
from report.studies.inference_memory.subject import EXECUTION_NAMES, Call
from report.studies.inference_memory.tilings import call_cost, tiled_calls, untiled

# ----------------------------------------------------------------------------------- precision


def _reduced_pairs(run: Run) -> list[tuple[Call, Call]]:
    return [pair for pair in natural_pairs(run) if run.timed(pair) == pair]


def half_first(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.time_ratio(*found[0]) if found else NO_CASE


def half_last(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.time_ratio(*found[-1]) if found else NO_CASE


def half_saved_first(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.saved(*found[0]) if found else NO_CASE


def half_grown_first(inputs: Inputs, run: Run) -> Finding:
    saved = half_saved_first(inputs, run)
    return -saved if isinstance(saved, float) else saved


def half_grows(run: Run) -> bool:
    """Whether reduced precision takes more memory at the smallest batch and less at the largest."""
    found = _reduced_pairs(run)
    saved = [run.saved(*pair) for pair in (found[:1] + found[-1:])]
    ends = [share for share in saved if not isinstance(share, Missing)]
    return len(ends) == 2 and ends[0] < 0 < ends[1]


def half_saved_last(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.saved(*found[-1]) if found else NO_CASE


def test_images(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        found = score(run, dataset, "float32", "image_correct")
        return found if isinstance(found, Missing) else len(found)
    return NO_CASE


def accuracy(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        return mean_score(run, dataset, "float32", "image_correct")
    return NO_CASE


def accuracy_changed(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        return accuracy_change(run, dataset, amp_precision(run))
    return NO_CASE


def loss_changed(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        return loss_change(run, dataset, amp_precision(run))
    return NO_CASE


# ------------------------------------------------------------------------------ AMP and layout


def amp_batch(inputs: Inputs, run: Run) -> Finding:
    return max((base.batch for base in base_calls(run)), default=NO_CASE)


def both_saved_least(inputs: Inputs, run: Run) -> Finding:
    return min(_both_saved(run), default=NO_CASE)


def both_saved_most(inputs: Inputs, run: Run) -> Finding:
    return max(_both_saved(run), default=NO_CASE)


def _both_saved(run: Run) -> list[float]:
    found = (run.saved(alternative(run, b, BOTH), b) for b in base_calls(run))
    return [saved for saved in found if not isinstance(saved, Missing)]


def both_fastest(inputs: Inputs, run: Run) -> Finding:
    return smallest_of(_both_ratios(run))


def both_slowest(inputs: Inputs, run: Run) -> Finding:
    return largest_of(_both_ratios(run))


def _both_ratios(run: Run) -> list[Estimate | Missing]:
    return [run.time_ratio(alternative(run, b, BOTH), b) for b in base_calls(run)]


def needed_saved_least(inputs: Inputs, run: Run) -> Finding:
    return min(_needed_saved(run), default=NO_CASE)


def needed_saved_most(inputs: Inputs, run: Run) -> Finding:
    return max(_needed_saved(run), default=NO_CASE)


def _needed_saved(run: Run) -> list[float]:
    found = (needed_saved(run, alternative(run, b, AMP), b) for b in base_calls(run))
    return [saved for saved in found if not isinstance(saved, Missing)]


# -------------------------------------------------------------------------------------- tiling


def untiled_time(inputs: Inputs, run: Run) -> Finding:
    calls = tiled_calls(run)
    return run.time(untiled(calls[0])) if calls else NO_CASE


def untiled_scatters(inputs: Inputs, run: Run) -> bool:
    """Whether the interval of the time without tiles is wider than half of that time."""
    found = untiled_time(inputs, run)
    return isinstance(found, Estimate) and found.high - found.low > found.value / 2


def tile_worst(inputs: Inputs, run: Run) -> Finding:
    return largest_of(_tile_ratios(run))


def tile_best(inputs: Inputs, run: Run) -> Finding:
    return smallest_of(_tile_ratios(run))


def _tile_ratios(run: Run) -> list[Estimate | Missing]:
    return [run.time_ratio(call, untiled(call)) for call in tiled_calls(run)]


def _best_tiled(run: Run) -> Call | None:
    timed = run.timed(tiled_calls(run))
    return min(timed, key=lambda call: known(run.time(call)).value, default=None)


def best_tiles(run: Run) -> str:
    """The fastest tiled call in words."""
    call = _best_tiled(run)
    return f"{EXECUTION_NAMES[call.execution]} in tiles of {call.tile}" if call else ""


def untiled_faults(inputs: Inputs, run: Run) -> Finding:
    call = _best_tiled(run)
    return run.count("page_faults", untiled(call)) if call else NO_CASE


def tiled_faults(inputs: Inputs, run: Run) -> Finding:
    call = _best_tiled(run)
    return run.count("page_faults", call) if call else NO_CASE


def tile_least_peak(inputs: Inputs, run: Run) -> Finding:
    found = [run.saved(call, untiled(call)) for call in tiled_calls(run)]
    return min((1 - saved for saved in found if not isinstance(saved, Missing)), default=NO_CASE)


def halo_most(inputs: Inputs, run: Run) -> Finding:
    found = [call_cost(run, call) for call in tiled_calls(run)]
    factors = [c.macs / c.macs_untiled for c in found if not isinstance(c, Missing)]
    return max(factors, default=NO_CASE)


# ----------------------------------------------------------------------------- waits, choices


def step_of_clock(inputs: Inputs, run: Run) -> Finding:
    return clock_step(run)


def off_first(inputs: Inputs, run: Run) -> Finding:
    return off_processor(run, ends(run)[0]) if ends(run) else NO_CASE


def off_last(inputs: Inputs, run: Run) -> Finding:
    return off_processor(run, ends(run)[-1]) if ends(run) else NO_CASE


def faults_last(inputs: Inputs, run: Run) -> Finding:
    return run.count("page_faults", ends(run)[-1]) if ends(run) else NO_CASE


def folded_best(inputs: Inputs, run: Run) -> Finding:
    return largest_of(_fused(run, "folded"))


def compiled_best(inputs: Inputs, run: Run) -> Finding:
    return largest_of(_fused(run, "compiled"))


def compiled_worst(inputs: Inputs, run: Run) -> Finding:
    return smallest_of(_fused(run, "compiled"))


def compiled_first(inputs: Inputs, run: Run) -> Finding:
    calls = (call for call in run.chosen(execution="compiled") if plain(call) in fused_bases(run))
    found = (run.samples("first_call_time", call.factors) for call in calls)
    firsts = [samples[0] for samples in found if not isinstance(samples, Missing)]
    return max(firsts, default=NO_CASE)


def _fused(run: Run, execution: str) -> list[Estimate | Missing]:
    """Speed-ups over the plain call in float32 and the contiguous layout."""
    found = run.chosen(execution=execution, layout="contiguous", precision="float32")
    bases = fused_bases(run)
    return [speedup(run, call, len(bases)) for call in found if plain(call) in bases]


def best_lenet(inputs: Inputs, run: Run) -> Finding:
    return best_speedup(run, "LeNet-5", same_precision=False)


def best_mean(inputs: Inputs, run: Run) -> Finding:
    """All intervals hold together with what is left of their confidences (Bonferroni)."""
    found = [best_speedup(run, n, same_precision=False) for n in reported_speedups(inputs)]
    known = [estimate for estimate in found if isinstance(estimate, Estimate)]
    if not known:
        return NO_CASE
    value, low, high = (
        math.prod(ends) ** (1 / len(known))
        for ends in ([e.value for e in known], [e.low for e in known], [e.high for e in known])
    )
    left = max(0.0, 1 - sum(1 - e.confidence for e in known))
    return Estimate(value, low, high, min(e.n for e in known), min(left, CONFIDENCE))


def clear(inputs: Inputs, run: Run) -> Finding:
    return sum(is_clear(gain(run, made)) for made in _decisions(run))


def clear_least(inputs: Inputs, run: Run) -> Finding:
    return min(_clear_gains(run), default=NO_CASE)


def clear_most(inputs: Inputs, run: Run) -> Finding:
    return max(_clear_gains(run), default=NO_CASE)


def _clear_gains(run: Run) -> list[float]:
    """The gains that are more than scatter, without their intervals."""
    found = [gain(run, made) for made in _decisions(run)]
    return [
        one.value if isinstance(one, Estimate) else one
        for one in found
        if is_clear(one) and not isinstance(one, Missing)
    ]


def decisions(inputs: Inputs, run: Run) -> Finding:
    return len(_decisions(run)) or NO_CASE


def _decisions(run: Run) -> list[Decision]:
    found = [decision(run, network, goal) for network in run.networks() for goal in GOALS]
    return [made for made in found if not isinstance(made, Missing)]
