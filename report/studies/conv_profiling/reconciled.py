"""Theory led to measurement, term by term: the source's numbers and those of our runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from report.evidence import executed as evidence
from report.evidence.events import Explanation, blocked_channels, explain_events
from report.evidence.remembered import remembered
from report.missing import Missing
from report.paper.findings import Inputs
from report.records.passes import Pass
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.source import (
    CONVOLUTION,
    MB,
    WORKSPACE,
    operator_bytes,
)
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.theory.convolutions import executed_terms, method, unfolded_peak
from report.theory.memory import layer_memory
from report.theory.reconciliation import Level, Reconciliation, Term
from report.theory.terms import COUNTED_WIDTH, SHAPES, theory_macs, theory_output

#: lackey serialises all threads, so that the counted process has one.
COUNTED_THREADS: Final = 1

#: Names of the terms that the prose speaks of.
ONCE: Final = "Parameters counted once"
RESIDENT: Final = "Parameters not allocated by the call"
WORKSPACE_TERM: Final = "Workspace"
#: What is executed and not counted, since the counter sees fused multiply-adds alone.
NOT_FUSED: Final = "Not fused"
#: The term that most peaks have.
BLOCKED: Final = "Blocked output"


# -------------------------------------------------------------------------------- the source


def reported_estimate(inputs: Inputs) -> Reconciliation:
    """From the source's estimate for its batch to the bytes that its profiler saw allocated.

    The workspace is what another row of the same table shows; the other terms follow from shapes.
    """
    reported = inputs.reported
    batch = reported.count("profiled_batch")
    size = layer_memory(BASE.layer(1))
    estimate, image = reported.value("estimated_memory"), reported.value("memory_mb")
    printed = Fraction(str(estimate.number)) * MB
    workspace = operator_bytes(reported, WORKSPACE, "self_allocation_size")
    return Reconciliation(
        "reported-estimate",
        f"Memory of the source's call at batch {batch}",
        "B",
        Term("Estimate, printed", int(printed), f"batch · {image.number} MB", estimate.place),
        (
            Term(
                "Rounding of the factor",
                batch * size.parameters_and_output - int(printed),
                f"batch · (bytes of an image − {image.number} MB)",
                "the same product with the exact bytes",
            ),
            Term(ONCE, -(batch - 1) * size.parameters, "−(batch − 1) · parameters", SHAPES),
            Term(RESIDENT, -size.parameters, "−parameters", "they are there before the call"),
            Term(WORKSPACE_TERM, workspace, "allocated inside the call", f"row {WORKSPACE}"),
        ),
        Term(
            "Allocated, printed",
            operator_bytes(reported, CONVOLUTION, "allocation_size"),
            "allocation size · 1,024",
            f"row {CONVOLUTION}",
        ),
    )


def reported_self_size(inputs: Inputs) -> Reconciliation:
    """The source's negative self size: the convolution frees what another operator allocated."""
    reported = inputs.reported
    batch = reported.count("profiled_batch")
    workspace = operator_bytes(reported, WORKSPACE, "self_allocation_size")
    return Reconciliation(
        "reported-self-size",
        f"Self size increase of {CONVOLUTION} in the source at batch {batch}",
        "B",
        theory_output(BASE.layer(batch)),
        (Term("Workspace freed", -workspace, "−workspace", f"allocated in row {WORKSPACE}"),),
        Term(
            "Self size increase, printed",
            operator_bytes(reported, CONVOLUTION, "self_size_increase"),
            "self size increase · 1,024",
            f"row {CONVOLUTION}",
        ),
    )


# -------------------------------------------------------------------------------- executed work


@remembered
def executed(run: Run, pass_: Pass = "forward") -> dict[int, Reconciliation]:
    """The example's layer by the batch sizes whose multiply-adds were counted."""
    return _executed(run, BASE, pass_)


@remembered
def changed(run: Run) -> dict[str, Reconciliation]:
    """All dimensions of the layer whose forward calls were counted, at the batches they share."""
    found = {dimensions: _executed(run, dimensions, "forward") for dimensions in run.dimensions}
    return {
        f"{dimensions.name}, {batch}": found[dimensions][batch]
        for dimensions in run.dimensions
        for batch in shared_batches(run, dimensions)
        if batch in found[dimensions]
    }


def most_padded(run: Run) -> tuple[Dimensions, Dimensions] | None:
    """The dimensions counted furthest above theory, and with their channels in whole blocks."""
    found = {
        r.measured.amount / r.start.amount: dimensions
        for dimensions in run.dimensions
        for batch in shared_batches(run, dimensions)
        if (r := changed(run).get(f"{dimensions.name}, {batch}"))
        and not isinstance(r.measured, Missing)
    }
    if not found:
        return None
    worst = found[max(found)]
    inputs, outputs = (
        -(-c // COUNTED_WIDTH) * COUNTED_WIDTH for c in (worst.inputs, worst.outputs)
    )
    return worst, replace(worst, inputs=inputs, outputs=outputs)


def shared_batches(run: Run, dimensions: Dimensions) -> tuple[int, ...]:
    """The batch sizes at which ``dimensions`` and some others were measured."""
    others = {b for other in run.dimensions if other != BASE for b in run.batches(other)}
    return tuple(batch for batch in run.batches(dimensions) if batch in others)


def _executed(run: Run, dimensions: Dimensions, pass_: Pass) -> dict[int, Reconciliation]:
    """What was counted of a layer, by batch size."""
    build = run.stored.record.environment.torch.build
    cases = {batch: dimensions.factors(batch, pass_) for batch in run.batches(dimensions)}
    return {
        batch: evidence.executed(
            f"executed-{run.key}-{dimensions.key}-{pass_}-{batch}",
            f"Executed multiply-adds of {dimensions.name} on {run.label} at batch {batch}",
            replace(
                theory_macs(dimensions.layer(batch)), amount=dimensions.multiply_adds(batch, pass_)
            ),
            *count,
            *executed_terms(dimensions.layer(batch), COUNTED_THREADS, build, COUNTED_WIDTH),
        )
        for batch, count in evidence.counts(run, cases).items()
    }


# -------------------------------------------------------------------------------- memory


def events(run: Run, batch: int, dimensions: Dimensions = BASE) -> Explanation | Missing:
    """What oneDNN let the CPU's allocator do during one forward call, event by event."""
    changes = run.raw("memory_events", batch, "forward", dimensions)
    if isinstance(changes, Missing):
        return changes
    return explain_events(
        dimensions.layer(batch),
        [int(change) for change in changes],
        block=blocked_channels(run.stored.record.environment),
        threads=run.threads,
        measured=_measured_peak(run, batch, dimensions),
    )


def _measured_peak(run: Run, batch: int, dimensions: Dimensions) -> Term | Missing:
    peak = run.peak(batch, dimensions)
    if isinstance(peak, Missing):
        return peak
    return Term("Peak", peak, "highest − before", "the profiler's memory events")


def _peak(run: Run, batch: int, dimensions: Dimensions) -> Reconciliation | None:
    """The peak of one forward call from its output; None where it is not known or not a CPU's."""
    measured = _measured_peak(run, batch, dimensions)
    if isinstance(measured, Missing) or run.on_gpu:
        return None
    layer = dimensions.layer(batch)
    if method(layer, run.threads) == "unfolded":
        return unfolded_peak(layer, measured)
    explanation = events(run, batch, dimensions)
    return explanation.peak if isinstance(explanation, Explanation) else None


@remembered
def peaks(run: Run) -> dict[int, Reconciliation]:
    """The peak of the example's forward call by batch size, from the output alone."""
    known = {batch: _peak(run, batch, BASE) for batch in run.batches()}
    return aligned({batch: peak for batch, peak in known.items() if peak is not None})


@remembered
def changed_peaks(run: Run) -> dict[str, Reconciliation]:
    """The peak of the forward call of all dimensions, at the batches they share."""
    known = {
        f"{dimensions.name}, {batch}": _peak(run, batch, dimensions)
        for dimensions in run.dimensions
        for batch in shared_batches(run, dimensions)
    }
    return aligned({name: peak for name, peak in known.items() if peak is not None})


def aligned(found: Mapping[Level, Reconciliation]) -> dict[Level, Reconciliation]:
    """The same with the same terms in each, 0 where one has none, so that they make one table."""
    names: dict[str, Term] = {}
    for r in found.values():
        for term in r.terms:
            if term.amount or term.name not in names:
                names[term.name] = term
    return {level: replace(r, terms=_filled(r, names)) for level, r in found.items()}


def _filled(r: Reconciliation, names: Mapping[str, Term]) -> tuple[Term, ...]:
    own = {term.name: term for term in r.terms}
    return tuple(
        _worded(own.get(name, replace(term, amount=0, evidence="")), term)
        for name, term in names.items()
    )


def _worded(term: Term, like: Term) -> Term:
    """A term of 0 in the words of its like, and without the number of an event in any."""
    return replace(term, formula=like.formula if not term.amount else term.formula, evidence="")


def differing(
    reconciliations: Mapping[str, Reconciliation], usual: str = ""
) -> dict[str, Reconciliation]:
    """The cases with a term other than the ``usual`` one, or with a residual."""
    return {
        level: r
        for level, r in reconciliations.items()
        if not r.explained or any(term.amount for term in r.terms if term.name != usual)
    }


def uncounted(r: Reconciliation) -> int:
    """The multiply-adds (negative) that are executed and that the counter misses."""
    return sum(term.amount for term in r.terms if term.name == NOT_FUSED)


def all_explained(found: Sequence[Reconciliation]) -> bool:
    """Whether something was measured and nothing is left of it."""
    return bool(found) and all(r.explained for r in found)
