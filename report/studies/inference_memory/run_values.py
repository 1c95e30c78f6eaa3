"""What the prose says of the run that it speaks of: one small function a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from report.missing import Missing
from report.paper.findings import Inputs
from report.statistics.estimates import Estimate
from report.studies.inference_memory.batches import knee, rates, resnets, sweep
from report.studies.inference_memory.faults import (
    best_call,
    exact,
    fault_cost,
    first_large,
    near,
    told,
)
from report.studies.inference_memory.layouts import (
    amp_precision,
)
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory import compared as compared_calls
from report.studies.inference_memory.memory import judged
from report.studies.inference_memory.memory import residuals as peak_residuals
from report.studies.inference_memory.subject import Call
from report.text.format import Number
from report.theory.workspaces import Layout

Finding: TypeAlias = Number | Estimate | Missing

NO_CASE = Missing("no such case was measured")


def fewest_samples(inputs: Inputs, run: Run) -> Finding:
    return min(run.sample_counts(), default=NO_CASE)


def cases(inputs: Inputs, run: Run) -> Finding:
    return len(run.calls)


def ceiling(inputs: Inputs, run: Run) -> Finding:
    return run.ceiling_of("float32")


def ceiling_reduced(inputs: Inputs, run: Run) -> Finding:
    return run.ceiling_of(amp_precision(run))


# --------------------------------------------------------------------------------- batch sizes


def ends(run: Run, which: int = -1, layout: Layout = "contiguous") -> tuple[Call, ...]:
    """The timed calls of the deepest (or the first) ResNet over the batch sizes."""
    names = resnets(run)
    return run.timed(sweep(run, names[which], layout)) if names else ()


def smallest(inputs: Inputs, run: Run) -> Finding:
    return ends(run)[0].batch if ends(run) else NO_CASE


def largest(inputs: Inputs, run: Run) -> Finding:
    return ends(run)[-1].batch if ends(run) else NO_CASE


def deep_first(inputs: Inputs, run: Run) -> Finding:
    return run.time(ends(run)[0]) if ends(run) else NO_CASE


def deep_last(inputs: Inputs, run: Run) -> Finding:
    return run.time(ends(run)[-1]) if ends(run) else NO_CASE


def deep_gain(inputs: Inputs, run: Run) -> Finding:
    calls = ends(run)
    return run.image_time_ratio(calls[0], calls[-1]) if calls else NO_CASE


def deep_best(inputs: Inputs, run: Run) -> Finding:
    return best_call(run, resnets(run)[-1]).batch if ends(run) else NO_CASE


def deep_best_gain(inputs: Inputs, run: Run) -> Finding:
    calls = ends(run)
    return run.image_time_ratio(calls[0], best_call(run, calls[0].network)) if calls else NO_CASE


def deep_left(inputs: Inputs, run: Run) -> Finding:
    calls = ends(run)
    return run.image_time_ratio(calls[-1], best_call(run, calls[0].network)) if calls else NO_CASE


def falls(run: Run) -> bool:
    """Whether the deepest network is clearly slower at its largest batch than at its best."""
    calls = ends(run)
    found = run.image_time_ratio(calls[-1], best_call(run, calls[0].network)) if calls else NO_CASE
    return isinstance(found, Estimate) and found.low > 1


def block_batch(inputs: Inputs, run: Run) -> Finding:
    step = first_large(run, resnets(run)[-1]) if ends(run) else None
    return step[1].batch if step else NO_CASE


def fault_calls(inputs: Inputs, run: Run) -> Finding:
    return len(told(run)) or NO_CASE


def fault_exact(inputs: Inputs, run: Run) -> Finding:
    return exact(run) if told(run) else NO_CASE


def fault_near(inputs: Inputs, run: Run) -> Finding:
    return len(near(run)) if told(run) else NO_CASE


def fault_off(inputs: Inputs, run: Run) -> Finding:
    return max(map(abs, near(run)), default=NO_CASE)


def page_cost(inputs: Inputs, run: Run) -> Finding:
    return fault_cost(run, resnets(run)[-1]) if ends(run) else NO_CASE


def deep_peak(inputs: Inputs, run: Run) -> Finding:
    return run.peak(ends(run)[-1]) if ends(run) else NO_CASE


def shallow_peak(inputs: Inputs, run: Run) -> Finding:
    return run.peak(ends(run, 0)[-1]) if ends(run) else NO_CASE


def best_share(inputs: Inputs, run: Run) -> Finding:
    found = [run.utilisation(call) for n in resnets(run) for call in sweep(run, n)]
    return largest_of(found)


def knee_least(inputs: Inputs, run: Run) -> Finding:
    return min(knees(run), default=NO_CASE)


def knee_most(inputs: Inputs, run: Run) -> Finding:
    return max(knees(run), default=NO_CASE)


def knees(run: Run) -> list[int]:
    """The knees of the ResNets, contiguous."""
    return [knee(found) for n in resnets(run) if (found := rates(run, n))]


# -------------------------------------------------------------------------------------- memory


def compared(inputs: Inputs, run: Run) -> Finding:
    return len(peak_residuals(run, judged(run))) or NO_CASE


def exact_peaks(inputs: Inputs, run: Run) -> Finding:
    found = peak_residuals(run, judged(run)).values()
    return sum(residual == 0 for residual, _ in found) if found else NO_CASE


def compared_all(inputs: Inputs, run: Run) -> Finding:
    return len(peak_residuals(run, compared_calls(run))) or NO_CASE


def exact_all(inputs: Inputs, run: Run) -> Finding:
    found = peak_residuals(run, compared_calls(run)).values()
    return sum(residual == 0 for residual, _ in found) if found else NO_CASE


def residual_peak(inputs: Inputs, run: Run) -> Finding:
    found = [residual for residual, _ in peak_residuals(run, judged(run)).values()]
    return max(found, key=abs, default=NO_CASE)


def residual_share(inputs: Inputs, run: Run) -> Finding:
    found = [abs(share) for _, share in peak_residuals(run, judged(run)).values()]
    return max(found) or 0 if found else NO_CASE


def deep_contiguous(inputs: Inputs, run: Run) -> Finding:
    return _over_needed(run, "contiguous")


def deep_channels_last(inputs: Inputs, run: Run) -> Finding:
    return _over_needed(run, "channels_last")


def _over_needed(run: Run, layout: Layout) -> Finding:
    calls = ends(run, layout=layout)
    if not calls:
        return NO_CASE
    peak, needed = run.peak(calls[-1]), run.needed(calls[-1])
    if isinstance(peak, Missing):
        return peak
    return needed if isinstance(needed, Missing) else peak / needed - 1


def largest_of(found: Iterable[Estimate | Missing]) -> Finding:
    """The estimate with the largest value."""
    known = [estimate for estimate in found if isinstance(estimate, Estimate)]
    return max(known, key=lambda estimate: estimate.value, default=NO_CASE)


def smallest_of(found: Iterable[Estimate | Missing]) -> Finding:
    """The estimate with the smallest value."""
    known = [estimate for estimate in found if isinstance(estimate, Estimate)]
    return min(known, key=lambda estimate: estimate.value, default=NO_CASE)
