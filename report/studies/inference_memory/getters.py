"""What the numbers of inference_memory have in common: which calls of a run they are taken of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from report.missing import Missing
from report.quantity.expression import Quantity, absent, recorded
from report.quantity.operations import at_least, furthest_from_zero
from report.studies.inference_memory import scores
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import exact_peaks, off
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.sweeps import (
    amp_pairs,
    both_bases,
    ends,
    resnets,
    sweep,
    tiled_calls,
    with_both,
)
from report.theory.conditions import Layout
from report.theory.reconciliation import Reconciliation

Getter: TypeAlias = Callable[[Run], Quantity]

NO_CASE: Final = absent("case", "1", "no such case was measured")


def count(name: str, get: Callable[[Run], float]) -> Getter:
    """How many of something a run has; absent where it has none."""

    def found(run: Run) -> Quantity:
        return recorded(name, "1", number, run.file) if (number := get(run)) else NO_CASE

    return found


def over(choose: Callable[..., Quantity], get: Callable[[Run], Iterable[Quantity]]) -> Getter:
    """What ``choose`` makes of those quantities of a run that were measured."""

    def found(run: Run) -> Quantity:
        known = [each for each in get(run) if not each.missing]
        return choose(*known) if known else NO_CASE

    return found


def of_deepest(
    get: Callable[[Run, tuple[Call, ...]], Quantity],
    which: int = -1,
    layout: Layout = "contiguous",
) -> Getter:
    """What ``get`` makes of the timed calls of the deepest (or the first) ResNet, if it has any."""
    return lambda run: get(run, calls) if (calls := ends(run, which, layout)) else NO_CASE


def exactly(get: Callable[[Run], dict[Call, Reconciliation]], *, all_: bool) -> Getter:
    """How many peaks were reconciled, or how many of them without a residual."""

    def found(run: Run) -> Quantity:
        peaks = get(run).values()
        number = len(peaks) if all_ else exact_peaks(peaks)
        return recorded("reconciled peaks", "1", number, run.file) if peaks else NO_CASE

    return found


def residual(get: Callable[[Run], dict[Call, Reconciliation]], layout: str = "") -> Getter:
    """The residual of the peaks furthest from zero, as a share of the measured peak."""

    def found(run: Run) -> Quantity:
        kept = (t for call, t in get(run).items() if layout in ("", call.layout))
        each = [off(run, this) for this in kept]
        worst = furthest_from_zero(*each) if each else NO_CASE
        return at_least(worst, 0 - worst) if each else NO_CASE

    return found


def workspace(place: int) -> Getter:
    """The workspace at the peak of the deepest ResNet at one of its batch sizes."""

    def found(run: Run, calls: tuple[Call, ...]) -> Quantity:
        at = run.predicted(calls[place])
        size = at if isinstance(at, Missing) else at.workspace
        return recorded("workspace", "B", size, run.file)

    return lambda run: found(run, calls) if len(calls := _deepest_sweep(run)) > 1 else NO_CASE


def _deepest_sweep(run: Run) -> tuple[Call, ...]:
    """The plain calls of the deepest ResNet at every batch size whose peak is known."""
    names = resnets(run)
    calls = sweep(run, names[-1]) if names else ()
    return tuple(call for call in calls if not run.peak(call).missing)


def largest(get: Callable[[Run, Call], Quantity], layout: Layout = "contiguous") -> Getter:
    """What ``get`` makes of the deepest ResNet at the largest batch whose peak is known."""

    def found(run: Run) -> Quantity:
        calls = _deepest_sweep(run)
        return get(run, replace(calls[-1], layout=layout)) if calls else NO_CASE

    return found


def pair(place: int, get: Callable[[Run, Call, Call], Quantity]) -> Getter:
    """What ``get`` makes of the first or the last pair of precisions."""

    def found(run: Run) -> Quantity:
        pairs = amp_pairs(run)
        return get(run, *pairs[place]) if pairs else NO_CASE

    return found


def scored(get: Callable[[Run, str], Quantity]) -> Getter:
    """What ``get`` makes of the first set of images on which a trained network was scored."""
    return lambda run: get(run, names[0]) if (names := scores.datasets(run)) else NO_CASE


def both(choose: Callable[..., Quantity], get: Callable[[Run, Call, Call], Quantity]) -> Getter:
    """Of the networks with AMP and channels last at once."""
    return over(choose, lambda run: [get(run, with_both(run, b), b) for b in both_bases(run)])


def tiles(choose: Callable[..., Quantity], get: Callable[[Run, Call], Quantity]) -> Getter:
    """Of the calls whose images are split into tiles."""
    return over(choose, lambda run: [get(run, call) for call in tiled_calls(run)])
