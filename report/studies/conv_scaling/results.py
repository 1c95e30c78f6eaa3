"""Results of conv_scaling: reconciliations of theory with counts, and a cliff's start and price."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from report.core.missing import Missing
from report.core.records.layers import Convolution, Layer, at_batch
from report.core.records.record import PASSES
from report.core.statistics.estimates import Estimate
from report.evidence import executed as evidence
from report.paper.findings import Inputs
from report.quantity.evaluation import number, point
from report.quantity.expression import Quantity, Statement, absent, exact, named
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.runs import Block, Run
from report.studies.conv_scaling.source import Source
from report.studies.conv_scaling.subject import LAYOUTS, multiply_adds, subject
from report.theory.reconciliation import Reconciliation, Term
from report.theory.requests import around
from report.theory.terms import (
    allocator_rounding,
    as_flops,
    for_each_output,
    segment_granularity,
    theory_macs,
    theory_output,
)

#: Share of the processes beyond which most map pages.
MOST: Final = 0.5
#: Images of a call from which on the copy of the input lies at the top of the heap.
MANY: Final = 16
#: The events of a traced call in order.
EVENTS: Final = (
    "take the copy of the input",
    "take the copy of the weights",
    "take the output in blocks",
    "free the copy of the weights",
    "free the copy of the input",
    "take the output",
    "free the output in blocks",
    "free the output, after the call",
)


def source_work(source: Source) -> dict[int, Reconciliation]:
    """The source's counted operations by batch size, from the theoretical work."""
    columns = (source.counts("III", key) for key in ("add", "multiply", "total_flops"))
    reconciled = {}
    for batch, add, multiply, total in zip(source.batches, *columns, strict=True):
        layer = subject(batch)
        added, scaled = for_each_output("additions", layer), for_each_output("scaling", layer)
        reconciled[batch] = Reconciliation(
            f"reported-work-{batch}",
            f"Counted operations of the source at batch {batch}",
            "FLOP",
            as_flops(theory_macs(layer)),
            (
                replace(added, evidence=_seen(added.amount == add, "additions")),
                replace(scaled, evidence=_seen(scaled.amount == multiply, "multiplications")),
            ),
            Term("Counted", total, "add + 2 · multiply-add + multiply", "the source's Table III"),
        )
    return reconciled


def _seen(equal: bool, quantity: str) -> str:
    """Say if the source's own column of single operations shows the term."""
    return f"{'' if equal else 'not '}equal to the counted {quantity} of the source's Table III"


def source_reserved(inputs: Inputs, source: Source) -> dict[int, Reconciliation]:
    """The source's reserved bytes by batch size, from the output, by a model of the allocator.

    The model replays the requests of the whole network up to its second convolution; without a
    record that holds such a network there is nothing to replay.
    """
    layers = network(inputs)
    convolutions = [layer.name for layer in layers if isinstance(layer, Convolution)]
    if len(convolutions) < 2:
        return {}
    reconciled, why = {}, "replay of the network's requests up to the layer"
    for batch, reserved in zip(source.batches, source.counts("IV", "reserved_memory"), strict=True):
        before, then = around(at_batch(layers, batch), convolutions[1])
        reconciled[batch] = Reconciliation(
            f"reported-reserved-{batch}",
            f"Reserved bytes of the source at batch {batch}",
            "B",
            theory_output(subject(batch)),
            (allocator_rounding(before, then, why), *segment_granularity(before, then, why)),
            Term("Reserved", reserved, "after − before", "the source's Table IV"),
        )
    return reconciled


def network(inputs: Inputs) -> tuple[Layer, ...]:
    """The layers of the network in the newest record that holds it."""
    for stored in inputs.records:
        for case in stored.record.cases:
            if case.factors.get("subject") == "network" and case.layers:
                return case.layers
    return ()


def executed(run: Run) -> Iterator[Reconciliation]:
    """The multiply-adds that lackey saw of both kinds of call, in both layouts."""
    for layout in LAYOUTS:
        seen = run.in_layout(layout)
        for pass_ in PASSES:
            cases = {batch: seen.factors(batch, pass_) for batch in seen.batches}
            for batch, count in evidence.counts(seen, cases).items():
                yield evidence.executed(
                    f"executed-{run.key}-{layout}-{pass_}-{batch}",
                    f"Executed multiply-adds on {run.label} at batch {batch}",
                    replace(theory_macs(subject(batch)), amount=multiply_adds(batch, pass_)),
                    *count,
                )


def device_work(run: Run) -> Iterator[Reconciliation]:
    """Reconcile forward calls with the counts of a GPU's CUDA cores."""
    for batch in run.batches:
        reconciled = evidence.device_work(
            run,
            run.factors(batch),
            subject(batch),
            multiply_adds(batch),
            f"device-work-{run.key}-{batch}",
            f"Operations of the CUDA cores on {run.label} at batch {batch}",
        )
        if reconciled is not None:
            yield reconciled


# ------------------------------------------------------------------------------------- the cliff


def medians(run: Run, name: str, quantities: Iterable[Quantity]) -> list[Quantity]:
    """Medians without their intervals, of which the text names the smallest and the largest."""
    exact_medians: list[Quantity] = []
    for estimate in map(number, quantities):
        if isinstance(estimate, Estimate):
            exact_medians.append(exact(name, "1", estimate.value, run.file))
    return exact_medians or [absent(name, "1", "no two memory policies were measured")]


def priced_share(run: Run, choose: Callable[..., Quantity]) -> Quantity:
    """Extreme share of the added time that pages at their price make, over batch sizes."""
    return choose(*medians(run, "pages ÷ added time", map(run.priced_share, run.doubled)))


def largest_without_pages(run: Run) -> int:
    """The largest batch size at which no process maps pages, below those at which any does."""
    shares = [number(run.mapping_share(batch)) for batch in run.timed]
    first = next((index for index, share in enumerate(shares) if share), 1)
    return run.timed[max(first - 1, 0)]


def first_mapping_batch(run: Run) -> Quantity:
    """The batch size from which outputs, copy and reserve exceed the threshold at the start."""
    arrived = run.threshold(run.timed[0]) - theory.RESERVE
    return named("images", arrived / theory.free(1))


def all_mapping_batch(run: Run) -> Quantity:
    """The batch size from which outputs and reserve alone exceed the threshold at the start."""
    arrived = run.threshold(run.timed[0]) - theory.RESERVE
    return named("images", arrived / (2 * theory.output_bytes(1)))


def events(run: Run, batch: int) -> list[tuple[str, Block]]:
    """The events of a traced call with their blocks, unless another library makes others."""
    blocks = run.blocks(batch)
    return list(zip(EVENTS, blocks, strict=True)) if len(blocks) == len(EVENTS) else []


def without_residual(
    reconciliations: Iterable[Reconciliation], source: str = ""
) -> Iterator[Statement]:
    """State for each reconciliation that its terms give what was counted, to the unit."""
    for item in reconciliations:
        if not isinstance(item.measured, Missing):
            rest = exact("residual", item.unit, item.measured.amount - item.end, source)
            yield rest.exactly(0)


def starts_as_predicted(run: Run) -> Iterator[Statement]:
    """State that no process maps pages below the predicted start, and most do above its end."""
    low, high = point(first_mapping_batch(run)), point(all_mapping_batch(run))
    if isinstance(low, Missing) or isinstance(high, Missing):
        yield first_mapping_batch(run) > 0
        return
    for batch in run.timed:
        if batch < low:
            yield run.mapping_share(batch).exactly(0)
        if batch > high:
            yield run.mapping_share(batch) > MOST


def pages_as_predicted(run: Run) -> Iterator[Statement]:
    """State for each batch size from 16 on that most calls map the pages of their blocks.

    A process either has the copy of the weights among the blocks at the top of its heap or lower.
    """
    for batch in run.doubled:
        if batch < MANY:
            continue
        rest = run.under("default").faults(batch) - theory.pages(batch)
        size = point(rest)
        if isinstance(size, Missing):
            yield rest.exactly(0)
            continue
        weights = theory.WEIGHT_PAGES if size > theory.WEIGHT_PAGES / 2 else 0
        excess = exact("median pages − pages of the blocks", "1", size - weights, run.file)
        yield excess.near(0, within=1)
