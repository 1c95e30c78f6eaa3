"""Peak memory: theory led to the measurement, and what it foretells of calls under a limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from report.evidence.remembered import remembered
from report.missing import Missing
from report.quantity.expression import Quantity, absent, exact
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, Call, Precision
from report.studies.inference_memory.sweeps import (
    amp_precision,
    limited_calls,
    other_precision,
    sweep,
)
from report.theory.conditions import Layout
from report.theory.reconciliation import Reconciliation, Term

#: Theory and measurement agree within this share, from this batch on.
TOLERANCE: Final = 0.02
FROM_BATCH: Final = 8
MEBI: Final = 2**20
#: The networks on whose allocator events, at batches up to 16, the rules of the workspaces were
#: checked before any record of this study was made; they have not changed since.
LEARNED: Final = ("LeNet-5", "CIFAR", "ResNet-20", "ResNet-56", "AlexNet")


@remembered
def peak(run: Run, call: Call) -> Reconciliation | Missing:
    """The predicted peak of a call, led to the measured one."""
    at, size = run.predicted(call), run.fixed("allocated_peak", call.factors)
    if isinstance(at, Missing):
        return at
    measured = (
        size
        if isinstance(size, Missing)
        else Term("Measured", size, "most bytes in live blocks", "the allocator's events")
    )
    id_ = f"peak-{run.key}-{call.network}-{call.batch}-{call.layout}-{call.precision}"
    subject = f"Peak memory of {call.network} at batch {call.batch}, {call.setting}, {run.label}"
    start, *terms = at.terms
    return Reconciliation(id_, subject, "B", start, tuple(terms), measured)


@remembered
def reconciled(run: Run) -> dict[Call, Reconciliation]:
    """The plain float32 calls in both layouts whose peak is both predicted and measured."""
    calls = (c for layout in LAYOUTS for n in run.networks() for c in sweep(run, n, layout))
    return _known({call: peak(run, call) for call in calls})


@remembered
def reduced(run: Run) -> dict[Call, Reconciliation]:
    """The eager calls in the device's reduced precision whose peak is predicted and measured."""
    return _in_precision(run, amp_precision(run))


def other_reduced(run: Run) -> dict[Call, Reconciliation]:
    """The same in the other reduced precision."""
    return _in_precision(run, other_precision(run))


def _in_precision(run: Run, precision: Precision) -> dict[Call, Reconciliation]:
    calls = run.chosen(precision=precision, execution="eager")
    return _known({call: peak(run, call) for call in calls})


def _known(found: Mapping[Call, Reconciliation | Missing]) -> dict[Call, Reconciliation]:
    return {
        call: this
        for call, this in found.items()
        if not isinstance(this, Missing) and not isinstance(this.measured, Missing)
    }


@remembered
def judged(run: Run) -> dict[Call, Reconciliation]:
    """Those of them that the rule of agreement is about."""
    return {call: this for call, this in reconciled(run).items() if call.batch >= FROM_BATCH}


@remembered
def held_out(run: Run) -> dict[Call, Reconciliation]:
    """Those of all batch sizes whose network did not teach the rules."""
    return {call: this for call, this in reconciled(run).items() if call.network not in LEARNED}


def at_least(run: Run, call: Call) -> bool:
    """Whether no rule gives the workspace of some layer: the predicted peak is a lower bound."""
    found = run.predicted(call)
    return not isinstance(found, Missing) and not found.complete


def exact_peaks(found: Iterable[Reconciliation]) -> int:
    """How many are predicted to the byte."""
    return sum(this.residual == 0 for this in found)


def off(run: Run, this: Reconciliation) -> Quantity:
    """Measured minus predicted peak over the measured one."""
    if isinstance(this.measured, Missing):
        return absent("residual of the peak", "1", this.measured.reason)
    measured = exact("measured", "B", this.measured.amount, run.file)
    return (measured - exact("predicted", "B", this.end, run.file)) / measured


def missed(run: Run) -> str:
    """The calls below the batch of the rule whose peak is not predicted to the byte, in words."""
    batches: dict[str, list[str]] = {}
    for call, this in reconciled(run).items():
        if this.residual != 0 and call.batch < FROM_BATCH:
            name = f"{call.network}, {LAYOUT_NAMES[call.layout]}"
            batches.setdefault(name, []).append(str(call.batch))
    return "; ".join(f"{name}, at batch {' and '.join(b)}" for name, b in batches.items())


def misses_bounded(run: Run) -> bool:
    """Whether each peak that is not predicted to the byte has a true lower bound."""
    missed_ = [(call, this.residual) for call, this in reconciled(run).items() if this.residual]
    return all(isinstance(r, int) and r > 0 and at_least(run, call) for call, r in missed_)


def largest_measured(run: Run, network: str, layout: Layout) -> Call | None:
    """The plain call of a network at its largest batch whose peak is predicted and measured."""
    calls = (c for c in reconciled(run) if (c.network, c.layout) == (network, layout))
    return max(calls, key=lambda call: call.batch, default=None)


# ----------------------------------------------------------------------------- limited memory


def predicted_peak(run: Run, call: Call) -> int | Missing:
    """What theory says a call allocates in all (B)."""
    at = run.predicted(call)
    return at if isinstance(at, Missing) else at.total


def predicted_growth(run: Run, call: Call) -> int | Missing:
    """What theory says a call allocates beyond parameters, statistics and input (B)."""
    at = run.predicted(call)
    return at if isinstance(at, Missing) else at.total - at.before


def limit(call: Call) -> int:
    """By how much the address space may grow in a call (B)."""
    return (call.memory_limit or 0) * MEBI


def rightly_predicted(run: Run) -> dict[Call, bool]:
    """For each limited call with an outcome whether theory predicts it.

    A call fits if what it takes beyond parameters and input is at most the limit.
    """
    found = {}
    for call in limited_calls(run):
        growth, ran_out = predicted_growth(run, call), run.ran_out(call)
        known = ran_out or not isinstance(run.case(call.factors), Missing)
        if known and not isinstance(growth, Missing):
            found[call] = (growth <= limit(call)) != ran_out
    return found


def wrong(run: Run) -> tuple[Call, ...]:
    """The limited calls whose outcome theory does not predict."""
    return tuple(call for call, right in rightly_predicted(run).items() if not right)
