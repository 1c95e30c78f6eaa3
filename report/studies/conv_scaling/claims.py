"""What is claimed of the layer, by the source and by this paper; the template has the words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.paper.policies import compared
from report.quantity.expression import Quantity, absent
from report.quantity.fits import growth, slope
from report.quantity.operations import at_least, at_most
from report.quantity.verdicts import Several, Statement, all_of, any_of, equals, exactly, expect
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.device import epilogue, executed_with_backward
from report.studies.conv_scaling.explained import Group
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import (
    SATURATED,
    batch_gain,
    layout_gain,
    over_next,
    rates_from_best,
    ridge,
)
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.values import MANY, NO_RECORD, excess, memory_gap


def all_claims(
    inputs: Inputs,
    groups: Mapping[str, Group],
    runs: Sequence[Run],
    primary: Run | None,
    gpu: Run | None,
) -> Iterator[Claim]:
    """Every claim that numbers can decide; those of runs for each run, the primary one first."""
    counted = column(inputs, "III", "total_flops", "FLOP")
    yield judge(
        "linear-work", Statement(_spread({b: w / b for b, w in counted.items()}), exactly(1))
    )
    # An overhead of the profiler would not be the same number for each output element.
    irregular = _spread({b: e / theory.output_bytes(b) for b, e in excess(inputs).items()})
    yield judge("profiler-overhead", Statement(irregular, expect("> 1")))
    # Compressed activations would leave a gap that grows with the batch.
    gap = slope(memory_gap(inputs), "B", relative=False)
    yield judge("compressed-memory", Statement(gap, expect("> 0")))
    # What the prose calls explained has a residual of 0.
    explained = [name for name in ("work", "memory", "variants") if groups[name].found]
    for name in explained:
        yield judge(f"{name}-explained", Statement(groups[name].residual, exactly(0)))
    if gpu is not None:
        work = groups["device_work"].residual
        yield judge("device-work-explained", Statement(work, exactly(0)))
        yield judge("epilogue", all_of(*(Statement(each, exactly(1)) for each in epilogue(gpu))))
        fewest = at_most(*executed_with_backward(gpu))
        yield judge("backward-saves", Statement(fewest, expect("< 1")))
        if odd := [Statement(each, expect("> 1")) for each in over_next(gpu).values()]:
            yield judge("backward-jumps", any_of(*odd), label=gpu.label)
    ordered = sorted(runs, key=lambda run: run is not primary)
    for run in ordered:
        for name, claimed in _OF_RUN.items():
            yield judge(f"{name}-{run.key}", claimed(run, inputs), name=name, label=run.label)
    if primary is not None and compared(primary):
        yield judge("policy-pays", policies.pays(primary), label=primary.label)
        if policies.maps_fewer(primary):
            yield judge("policy-dip", policies.dips(primary), label=primary.label)
    if not runs:
        nothing = Statement(absent("anything", "1", NO_RECORD.reason), exactly(1))
        for name in _OF_RUN:
            yield judge(name, nothing)


def _better_use(run: Run, inputs: Inputs) -> Statement:
    """Between the ends of the batch sizes that the source measured."""
    batches = reported_batches(inputs)
    return Statement(batch_gain(run, batches[0], batches[-1]), expect("> 1"))


def _above_ridge(run: Run, _: Inputs) -> Several:
    shares = (theory.intensity(batch) / ridge(run) for batch in (1, MANY))
    return all_of(*(Statement(share, expect("> 1")) for share in shares))


#: What is claimed of every run.
_OF_RUN: Final[Mapping[str, Callable[[Run, Inputs], Statement | Several]]] = {
    "linear-memory": lambda run, _: Statement(
        _spread(_increments(run.over(run.retained))), exactly(1)
    ),
    "upper-bound": lambda run, _: Statement(_largest_share(run.over(run.retained)), expect("<= 1")),
    "peak-bounded": lambda run, _: Statement(_largest_share(run.over(run.peak)), expect("<= 1")),
    "better-use": _better_use,
    "linear-time": lambda run, _: Statement(growth(run.over(run.time)), equals(1, within=0.05)),
    "above-ridge": _above_ridge,
    "falls-beyond-best": lambda run, _: _fall(run),
    "layout-pays": lambda run, _: Statement(layout_gain(run), expect("> 1.1")),
}
#: With fewer levels nothing can differ.
_FEW: Final = 2


def _fall(run: Run) -> Statement | Several:
    """That the rate of some batch size beyond the best one is clearly lower.

    Each is compared with the best by itself: the lowest of several is low by chance alone.
    """
    falls = expect(f"< {SATURATED}")
    if not run.timed:
        reason = f"no forward call was timed on {run.label}"
        return Statement(absent("rates", "1", reason), falls)
    best, *others = rates_from_best(run).values()
    # Where the largest batch is the best there is nothing to fall to.
    rates = others or [best]
    return any_of(*(Statement(rate / best, falls) for rate in rates))


def _largest_share(measured: Mapping[int, Quantity]) -> Quantity:
    """The largest ratio of measured bytes to the source's rule."""
    ratios = [each / theory.memory(b) for b, each in measured.items() if not each.missing]
    return at_least(*ratios) if ratios else absent("bytes", "1", "no bytes were recorded")


def _increments(over: Mapping[int, Quantity]) -> dict[int, Quantity]:
    """The growth for each image between neighbouring levels."""
    known = {level: each for level, each in over.items() if not each.missing}
    return {b: (known[b] - known[a]) / (b - a) for a, b in pairwise(known)}


def _spread(over: Mapping[int, Quantity]) -> Quantity:
    """The largest over the smallest: 1 exactly where all are the same."""
    known = [each for each in over.values() if not each.missing]
    if len(known) < _FEW:
        return absent("levels", "1", "too few batch sizes were measured")
    return at_least(*known) / at_most(*known)
