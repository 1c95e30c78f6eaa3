"""What the prose says of the batch sizes, the memory and the page faults of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import (
    at_least,
    at_most,
    first_within,
    furthest_from_zero,
    level_of_largest,
)
from report.quantity.verdicts import Statement, expect
from report.studies.inference_memory import faults
from report.studies.inference_memory.batches import ENOUGH, rates, resnets, sweep
from report.studies.inference_memory.layouts import amp_precision
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory import compared, judged, residuals
from report.studies.inference_memory.subject import Call
from report.theory.workspaces import Layout

Getter: TypeAlias = Callable[[Run], Quantity]

NO_CASE: Final = absent("case", "1", "no such case was measured")


def ends(run: Run, which: int = -1, layout: Layout = "contiguous") -> tuple[Call, ...]:
    """The timed calls of the deepest (or the first) ResNet over the batch sizes."""
    names = resnets(run)
    return run.timed(sweep(run, names[which], layout)) if names else ()


def of_deepest(
    get: Callable[[Run, tuple[Call, ...]], Quantity],
    which: int = -1,
    layout: Layout = "contiguous",
) -> Getter:
    """What ``get`` makes of the timed calls of the deepest (or the first) ResNet, if it has any."""

    def found(run: Run) -> Quantity:
        calls = ends(run, which, layout)
        return get(run, calls) if calls else NO_CASE

    return found


def counted(name: str, run: Run, number: float, *, there: bool = True) -> Quantity:
    """A number of cases of a run, where there are any."""
    return exact(name, "1", number, run.file) if there else NO_CASE


def one_of(choose: Callable[..., Quantity], found: Iterable[Quantity]) -> Quantity:
    """What ``choose`` makes of those of ``found`` that were measured."""
    known = [each for each in found if not each.missing]
    return choose(*known) if known else NO_CASE


# --------------------------------------------------------------------------------- batch sizes


def _best_gain(run: Run, calls: tuple[Call, ...]) -> Quantity:
    return run.image_time_ratio(calls[0], faults.best_call(run, calls[0].network))


def _left(run: Run, calls: tuple[Call, ...]) -> Quantity:
    return run.image_time_ratio(calls[-1], faults.best_call(run, calls[0].network))


def falls(run: Run) -> bool:
    """Whether the deepest network is clearly slower at its largest batch than at its best."""
    return Statement(of_deepest(_left)(run), expect("> 1")).judge() == "supported"


def knees(run: Run) -> list[Quantity]:
    """The knees of the ResNets, contiguous."""
    found = (rates(run, network) for network in resnets(run))
    return [first_within(each, ENOUGH, "1") for each in found if each]


def _block_batch(run: Run, calls: tuple[Call, ...]) -> Quantity:
    step = faults.first_large(run, calls[0].network)
    return (
        exact("sizes of the allocator's events", "1", step[1].batch, run.file) if step else NO_CASE
    )


def _fault_off(run: Run) -> Quantity:
    off = list(map(abs, faults.near(run)))
    return counted("|counted − predicted|", run, max(off, default=0), there=bool(off))


# -------------------------------------------------------------------------------------- memory


def _residual(run: Run, *, share: bool) -> Quantity:
    """The residual of the peaks furthest from zero, in B or as a share of the measured peak."""
    found = residuals(run, judged(run)).values()
    name, unit = ("|measured − predicted| / measured", "1") if share else ("residual", "B")
    each = [exact(name, unit, abs(s) if share else r, run.file) for r, s in found]
    return one_of(furthest_from_zero, each)


def _peaks(run: Run, calls: tuple[Call, ...], *, exactly: bool) -> Quantity:
    """How many peaks were predicted and measured, or how many of them without a residual."""
    found = [residual for residual, _ in residuals(run, calls).values()]
    name = "residuals of zero" if exactly else "residuals"
    return counted(name, run, found.count(0) if exactly else len(found), there=bool(found))


def _over_needed(run: Run, calls: tuple[Call, ...]) -> Quantity:
    return run.peak(calls[-1]) / run.needed(calls[-1]) - 1


RUN_VALUES: Final[dict[str, Getter]] = {
    "fewest_samples": lambda run: counted(
        "samples of a timed case", run, min(run.sample_counts(), default=0),
        there=bool(run.sample_counts()),
    ),
    "cases": lambda run: counted("calls of the record", run, len(run.calls)),
    "ceiling": lambda run: run.ceiling_of("float32"),
    "ceiling_reduced": lambda run: run.ceiling_of(amp_precision(run)),
    "smallest": of_deepest(lambda run, calls: counted("smallest batch", run, calls[0].batch)),
    "largest": of_deepest(lambda run, calls: counted("largest batch", run, calls[-1].batch)),
    "deep_first": of_deepest(lambda run, calls: run.time(calls[0])),
    "deep_last": of_deepest(lambda run, calls: run.time(calls[-1])),
    "deep_gain": of_deepest(lambda run, calls: run.image_time_ratio(calls[0], calls[-1])),
    "deep_best": of_deepest(lambda run, c: level_of_largest(rates(run, c[0].network), "1")),
    "deep_best_gain": of_deepest(_best_gain),
    "deep_left": of_deepest(_left),
    "block_batch": of_deepest(_block_batch),
    "fault_calls": lambda run: counted(
        "calls with large blocks", run, len(faults.told(run)), there=bool(faults.told(run))
    ),
    "fault_exact": lambda run: counted(
        "calls with as many faults", run, faults.exact(run), there=bool(faults.told(run))
    ),
    "fault_near": lambda run: counted(
        "calls with about as many", run, len(faults.near(run)), there=bool(faults.told(run))
    ),
    "fault_off": _fault_off,
    "page_cost": of_deepest(lambda run, calls: faults.fault_cost(run, calls[0].network)),
    "deep_peak": of_deepest(lambda run, calls: run.peak(calls[-1])),
    "shallow_peak": of_deepest(lambda run, calls: run.peak(calls[-1]), 0),
    "best_share": lambda run: one_of(
        at_least, (run.utilisation(call) for n in resnets(run) for call in sweep(run, n))
    ),
    "knee_least": lambda run: one_of(at_most, knees(run)),
    "knee_most": lambda run: one_of(at_least, knees(run)),
    "compared": lambda run: _peaks(run, judged(run), exactly=False),
    "exact_peaks": lambda run: _peaks(run, judged(run), exactly=True),
    "compared_all": lambda run: _peaks(run, compared(run), exactly=False),
    "exact_all": lambda run: _peaks(run, compared(run), exactly=True),
    "residual_peak": lambda run: _residual(run, share=False),
    "residual_share": lambda run: _residual(run, share=True),
    "deep_contiguous": of_deepest(_over_needed),
    "deep_channels_last": of_deepest(_over_needed, layout="channels_last"),
    "faults_last": of_deepest(
        lambda run, calls: faults.returned(run).count("page_faults", calls[-1])
    ),
}  # fmt: skip
