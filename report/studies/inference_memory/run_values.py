"""What the prose says of the run that it speaks of: one small function a number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

from report.format import Number
from report.missing import Missing
from report.paper import Inputs
from report.statistics import CONFIDENCE, Estimate
from report.studies.inference_memory.batches import knee, rates, resnets, sweep
from report.studies.inference_memory.choices import (
    GOALS,
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
from report.studies.inference_memory.memory import judged
from report.studies.inference_memory.memory import residuals as peak_residuals
from report.studies.inference_memory.precision import (
    accuracy_change,
    datasets,
    loss_change,
    mean_score,
    pairs,
    score,
)
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.tilings import call_cost, tiled_calls, untiled
from report.workspaces import Layout

Finding: TypeAlias = Number | Estimate | Missing

_NO_CASE = Missing("no such case was measured")


def fewest_samples(inputs: Inputs, run: Run) -> Finding:
    return min(run.sample_counts(), default=_NO_CASE)


def cases(inputs: Inputs, run: Run) -> Finding:
    return len(run.calls)


def ceiling(inputs: Inputs, run: Run) -> Finding:
    return run.ceiling_of("float32")


def ceiling_reduced(inputs: Inputs, run: Run) -> Finding:
    return run.ceiling_of(amp_precision(run))


# --------------------------------------------------------------------------------- batch sizes


def _ends(run: Run, which: int = -1, layout: Layout = "contiguous") -> tuple[Call, ...]:
    """The timed calls of the deepest (or the first) ResNet over the batch sizes."""
    names = resnets(run)
    return run.timed(sweep(run, names[which], layout)) if names else ()


def smallest(inputs: Inputs, run: Run) -> Finding:
    return _ends(run)[0].batch if _ends(run) else _NO_CASE


def largest(inputs: Inputs, run: Run) -> Finding:
    return _ends(run)[-1].batch if _ends(run) else _NO_CASE


def deep_first(inputs: Inputs, run: Run) -> Finding:
    return run.time(_ends(run)[0]) if _ends(run) else _NO_CASE


def deep_last(inputs: Inputs, run: Run) -> Finding:
    return run.time(_ends(run)[-1]) if _ends(run) else _NO_CASE


def deep_gain(inputs: Inputs, run: Run) -> Finding:
    calls = _ends(run)
    return run.image_time_ratio(calls[0], calls[-1]) if calls else _NO_CASE


def deep_peak(inputs: Inputs, run: Run) -> Finding:
    return run.peak(_ends(run)[-1]) if _ends(run) else _NO_CASE


def shallow_peak(inputs: Inputs, run: Run) -> Finding:
    return run.peak(_ends(run, 0)[-1]) if _ends(run) else _NO_CASE


def best_share(inputs: Inputs, run: Run) -> Finding:
    found = [run.utilisation(call) for n in resnets(run) for call in sweep(run, n)]
    return _largest(found)


def knee_least(inputs: Inputs, run: Run) -> Finding:
    return min(knees(run), default=_NO_CASE)


def knee_most(inputs: Inputs, run: Run) -> Finding:
    return max(knees(run), default=_NO_CASE)


def knees(run: Run) -> list[int]:
    """The knees of the ResNets, contiguous."""
    return [knee(found) for n in resnets(run) if (found := rates(run, n))]


# -------------------------------------------------------------------------------------- memory


def compared(inputs: Inputs, run: Run) -> Finding:
    return len(peak_residuals(run, judged(run))) or _NO_CASE


def exact_peaks(inputs: Inputs, run: Run) -> Finding:
    found = peak_residuals(run, judged(run)).values()
    return sum(residual == 0 for residual, _ in found) if found else _NO_CASE


def residual_peak(inputs: Inputs, run: Run) -> Finding:
    found = [residual for residual, _ in peak_residuals(run, judged(run)).values()]
    return max(found, key=abs, default=_NO_CASE)


def residual_share(inputs: Inputs, run: Run) -> Finding:
    found = [abs(share) for _, share in peak_residuals(run, judged(run)).values()]
    return max(found) or 0 if found else _NO_CASE


def deep_contiguous(inputs: Inputs, run: Run) -> Finding:
    return _over_needed(run, "contiguous")


def deep_channels_last(inputs: Inputs, run: Run) -> Finding:
    return _over_needed(run, "channels_last")


def _over_needed(run: Run, layout: Layout) -> Finding:
    calls = _ends(run, layout=layout)
    if not calls:
        return _NO_CASE
    peak, needed = run.peak(calls[-1]), run.needed(calls[-1])
    if isinstance(peak, Missing):
        return peak
    return needed if isinstance(needed, Missing) else peak / needed


# ----------------------------------------------------------------------------------- precision


def _reduced_pairs(run: Run) -> list[tuple[Call, Call]]:
    found = [pair for pair in pairs(run) if run.timed(pair) == pair]
    return [pair for pair in found if pair[0].precision == found[0][0].precision]


def half_first(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.time_ratio(*found[0]) if found else _NO_CASE


def half_last(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.time_ratio(*found[-1]) if found else _NO_CASE


def half_saved_first(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.saved(*found[0]) if found else _NO_CASE


def half_saved_last(inputs: Inputs, run: Run) -> Finding:
    found = _reduced_pairs(run)
    return run.saved(*found[-1]) if found else _NO_CASE


def test_images(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        found = score(run, dataset, "float32", "image_correct")
        return found if isinstance(found, Missing) else len(found)
    return _NO_CASE


def accuracy(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        return mean_score(run, dataset, "float32", "image_correct")
    return _NO_CASE


def accuracy_changed(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        return accuracy_change(run, dataset, amp_precision(run))
    return _NO_CASE


def loss_changed(inputs: Inputs, run: Run) -> Finding:
    for dataset in datasets(run):
        return loss_change(run, dataset, amp_precision(run))
    return _NO_CASE


# ------------------------------------------------------------------------------ AMP and layout


def amp_batch(inputs: Inputs, run: Run) -> Finding:
    return max((base.batch for base in base_calls(run)), default=_NO_CASE)


def both_saved_least(inputs: Inputs, run: Run) -> Finding:
    return min(_both_saved(run), default=_NO_CASE)


def both_saved_most(inputs: Inputs, run: Run) -> Finding:
    return max(_both_saved(run), default=_NO_CASE)


def _both_saved(run: Run) -> list[float]:
    found = (run.saved(alternative(run, b, BOTH), b) for b in base_calls(run))
    return [saved for saved in found if not isinstance(saved, Missing)]


def both_fastest(inputs: Inputs, run: Run) -> Finding:
    return _smallest(_both_ratios(run))


def both_slowest(inputs: Inputs, run: Run) -> Finding:
    return _largest(_both_ratios(run))


def _both_ratios(run: Run) -> list[Estimate | Missing]:
    return [run.time_ratio(alternative(run, b, BOTH), b) for b in base_calls(run)]


def needed_saved_least(inputs: Inputs, run: Run) -> Finding:
    return min(_needed_saved(run), default=_NO_CASE)


def needed_saved_most(inputs: Inputs, run: Run) -> Finding:
    return max(_needed_saved(run), default=_NO_CASE)


def _needed_saved(run: Run) -> list[float]:
    found = (needed_saved(run, alternative(run, b, AMP), b) for b in base_calls(run))
    return [saved for saved in found if not isinstance(saved, Missing)]


# -------------------------------------------------------------------------------------- tiling


def untiled_time(inputs: Inputs, run: Run) -> Finding:
    calls = tiled_calls(run)
    return run.time(untiled(calls[0])) if calls else _NO_CASE


def tile_worst(inputs: Inputs, run: Run) -> Finding:
    return _largest(_tile_ratios(run))


def tile_best(inputs: Inputs, run: Run) -> Finding:
    return _smallest(_tile_ratios(run))


def _tile_ratios(run: Run) -> list[Estimate | Missing]:
    return [run.time_ratio(call, untiled(call)) for call in tiled_calls(run)]


def tile_least_peak(inputs: Inputs, run: Run) -> Finding:
    found = [run.saved(call, untiled(call)) for call in tiled_calls(run)]
    return min((1 - saved for saved in found if not isinstance(saved, Missing)), default=_NO_CASE)


def halo_most(inputs: Inputs, run: Run) -> Finding:
    found = [call_cost(run, call) for call in tiled_calls(run)]
    factors = [c.macs / c.macs_untiled for c in found if not isinstance(c, Missing)]
    return max(factors, default=_NO_CASE)


# ----------------------------------------------------------------------------- waits, choices


def off_first(inputs: Inputs, run: Run) -> Finding:
    return run.off_cpu(_ends(run)[0]) if _ends(run) else _NO_CASE


def off_last(inputs: Inputs, run: Run) -> Finding:
    return run.off_cpu(_ends(run)[-1]) if _ends(run) else _NO_CASE


def faults_last(inputs: Inputs, run: Run) -> Finding:
    return run.count("page_faults", _ends(run)[-1]) if _ends(run) else _NO_CASE


def sees_faults(run: Run) -> bool:
    """Whether the largest call of the deepest network maps at least a page for each image."""
    calls = _ends(run)
    found = run.count("page_faults", calls[-1]) if calls else _NO_CASE
    return isinstance(found, Estimate) and found.low >= calls[-1].batch


def folded_best(inputs: Inputs, run: Run) -> Finding:
    return _largest(_fused(run, "folded"))


def compiled_best(inputs: Inputs, run: Run) -> Finding:
    return _largest(_fused(run, "compiled"))


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
        return _NO_CASE
    value, low, high = (
        math.prod(ends) ** (1 / len(known))
        for ends in ([e.value for e in known], [e.low for e in known], [e.high for e in known])
    )
    left = max(0.0, 1 - sum(1 - e.confidence for e in known))
    return Estimate(value, low, high, min(e.n for e in known), min(left, CONFIDENCE))


def clear(inputs: Inputs, run: Run) -> Finding:
    return sum(is_clear(gain(run, made)) for made in _decisions(run))


def decisions(inputs: Inputs, run: Run) -> Finding:
    return len(_decisions(run)) or _NO_CASE


def _decisions(run: Run) -> list:  # type: ignore[type-arg]
    found = [decision(run, network, goal) for network in run.networks() for goal in GOALS]
    return [made for made in found if not isinstance(made, Missing)]


def _largest(found: Iterable[Estimate | Missing]) -> Finding:
    known = [estimate for estimate in found if isinstance(estimate, Estimate)]
    return max(known, key=lambda estimate: estimate.value, default=_NO_CASE)


def _smallest(found: Iterable[Estimate | Missing]) -> Finding:
    known = [estimate for estimate in found if isinstance(estimate, Estimate)]
    return min(known, key=lambda estimate: estimate.value, default=_NO_CASE)
