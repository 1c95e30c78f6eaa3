"""Theory led to measurement, term by term: the source's numbers and those of our runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from report.evidence import executed as evidence
from report.evidence.events import Explanation, blocked_channels, explain_events
from report.missing import Missing
from report.paper.findings import Inputs
from report.records.layers import Convolution, Layer
from report.records.passes import PASSES, Pass
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.network import find_network
from report.studies.conv_scaling.source import counts, reported_batches
from report.studies.conv_scaling.subject import LAYOUTS, multiply_adds, subject
from report.theory.allocator_requests import around
from report.theory.reconciliation import Reconciliation, Term
from report.theory.roofline import at_batch
from report.theory.terms import (
    allocator_rounding,
    as_flops,
    output_additions,
    output_scaling,
    segment_granularity,
    theory_macs,
    theory_output,
)


def reported_work(inputs: Inputs) -> dict[int, Reconciliation]:
    """The source's counted operations by batch size, from the theoretical work."""
    columns = [counts(inputs, "III", key) for key in ("add", "multiply", "total_flops")]
    batches = reported_batches(inputs)
    return {
        batch: _reported_work(batch, *(column[batch] for column in columns)) for batch in batches
    }


def _reported_work(batch: int, add: int, multiply: int, total: int) -> Reconciliation:
    layer = subject(batch)
    adds, scaling = output_additions(layer, ""), output_scaling(layer, "")
    return Reconciliation(
        f"reported-work-{batch}",
        f"Counted operations of the source at batch {batch}",
        "FLOP",
        as_flops(theory_macs(layer)),
        (
            output_additions(layer, _seen(adds.amount, add, "additions")),
            output_scaling(layer, _seen(scaling.amount, multiply, "multiplications")),
        ),
        Term("Counted", total, "add + 2 · multiply-add + multiply", "the source's Table III"),
    )


def _seen(computed: int, counted: int, what: str) -> str:
    """Whether the source's own column of single operations shows the term."""
    if computed == counted:
        return f"equal to the counted {what} of the source's Table III"
    return f"not equal to the counted {what} of the source's Table III"


def reported_reserved(inputs: Inputs) -> dict[int, Reconciliation]:
    """The source's reserved bytes by batch size, from the output, by a model of the allocator.

    The model replays the requests of the whole network up to its second convolution; without a
    record that holds such a network there is nothing to replay.
    """
    network = find_network(inputs)
    if network is None or len(_convolutions(network.layers)) < 2:
        return {}
    reserved = counts(inputs, "IV", "reserved_memory")
    return {
        batch: _reported_reserved(batch, network.layers, size) for batch, size in reserved.items()
    }


def _reported_reserved(batch: int, layers: Sequence[Layer], reserved: int) -> Reconciliation:
    _, ours, *_ = _convolutions(layers)
    before, then = around(at_batch(layers, batch), ours)
    source = "replay of the network's requests up to the layer"
    return Reconciliation(
        f"reported-reserved-{batch}",
        f"Reserved bytes of the source at batch {batch}",
        "B",
        theory_output(subject(batch)),
        (
            allocator_rounding(before, then, source),
            *segment_granularity(before, then, source),
        ),
        Term("Reserved", reserved, "after − before", "the source's Table IV"),
    )


def _convolutions(layers: Iterable[Layer]) -> list[str]:
    return [layer.name for layer in layers if isinstance(layer, Convolution)]


def executed(run: Run, pass_: Pass = "forward") -> dict[int, Reconciliation]:
    """The multiply-adds that a run's counter saw, by the batch sizes that were counted."""
    cases = {batch: run.factors(batch, pass_) for batch in run.batches}
    return {
        batch: evidence.executed(
            f"executed-{run.key}-{run.layout}-{pass_}-{batch}",
            f"Executed multiply-adds on {run.label} at batch {batch}",
            replace(theory_macs(subject(batch)), amount=multiply_adds(batch, pass_)),
            *count,
        )
        for batch, count in evidence.counts(run, cases).items()
    }


def all_executed(run: Run | None) -> dict[str, Reconciliation]:
    """The same for both layouts and both kinds of call, by id."""
    if run is None:
        return {}
    groups = (executed(run.in_layout(layout), p) for layout in LAYOUTS for p in PASSES)
    return {found.id: found for group in groups for found in group.values()}


def events(run: Run, batch: int) -> Explanation | Missing:
    """What a CPU's allocator did during one forward call, event by event."""
    if run.on_gpu:
        return Missing(f"{run.label} has another allocator")
    changes = run.raw("memory_events", batch)
    if isinstance(changes, Missing):
        return changes
    return explain_events(
        subject(batch),
        [int(change) for change in changes],
        block=blocked_channels(run.stored.record.environment),
        threads=run.threads,
        measured=_peak(run, batch),
    )


def _peak(run: Run, batch: int) -> Term | Missing:
    factors = run.factors(batch, "forward")
    peak = run.grown("allocated_peak", factors, since="allocated_before")
    if isinstance(peak, Missing):
        return peak
    return Term("Peak", peak, "highest − before", "the profiler's memory events")


def peaks(run: Run, batches: Sequence[int]) -> dict[int, Reconciliation]:
    """The peak of the forward call by batch size, from the output alone."""
    explanations = {batch: events(run, batch) for batch in batches}
    return {batch: e.peak for batch, e in explanations.items() if isinstance(e, Explanation)}
