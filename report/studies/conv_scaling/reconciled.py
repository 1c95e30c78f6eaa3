"""Theory led to what was counted, term by term: the source's numbers and those of our runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from report.evidence import executed as evidence
from report.paper.findings import Inputs
from report.records.layers import Convolution, Layer, at_batch
from report.records.record import PASSES
from report.studies.conv_scaling.requests import around
from report.studies.conv_scaling.runs import Run
from report.studies.conv_scaling.source import Source
from report.studies.conv_scaling.subject import LAYOUTS, multiply_adds, subject
from report.text.format import NO_BREAK
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import (
    allocator_rounding,
    as_flops,
    for_each_output,
    segment_granularity,
    theory_macs,
    theory_output,
)


def source_work(source: Source) -> dict[int, Reconciliation]:
    """The source's counted operations by batch size, from the theoretical work."""
    columns = (source.counts("III", key) for key in ("add", "multiply", "total_flops"))
    found = {}
    for batch, add, multiply, total in zip(source.batches, *columns, strict=True):
        layer = subject(batch)
        added, scaled = for_each_output("additions", layer), for_each_output("scaling", layer)
        found[batch] = Reconciliation(
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
    return found


def _seen(equal: bool, what: str) -> str:
    """Whether the source's own column of single operations shows the term."""
    return f"{'' if equal else 'not '}equal to the counted {what} of the source's Table III"


def source_reserved(inputs: Inputs, source: Source) -> dict[int, Reconciliation]:
    """The source's reserved bytes by batch size, from the output, by a model of the allocator.

    The model replays the requests of the whole network up to its second convolution; without a
    record that holds such a network there is nothing to replay.
    """
    layers = network(inputs)
    convolutions = [layer.name for layer in layers if isinstance(layer, Convolution)]
    if len(convolutions) < 2:
        return {}
    found, why = {}, "replay of the network's requests up to the layer"
    for batch, reserved in zip(source.batches, source.counts("IV", "reserved_memory"), strict=True):
        before, then = around(at_batch(layers, batch), convolutions[1])
        found[batch] = Reconciliation(
            f"reported-reserved-{batch}",
            f"Reserved bytes of the source at batch {batch}",
            "B",
            theory_output(subject(batch)),
            (allocator_rounding(before, then, why), *segment_granularity(before, then, why)),
            Term("Reserved", reserved, "after − before", "the source's Table IV"),
        )
    return found


def network(inputs: Inputs) -> tuple[Layer, ...]:
    """The layers of the network in the newest record that holds it."""
    return next(
        (
            case.layers
            for stored in inputs.records
            for case in stored.record.cases
            if case.factors.get("subject") == "network" and case.layers
        ),
        (),
    )


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


def variants(run: Run) -> dict[str, Reconciliation]:
    """What was counted of other convolutions than the study's, by name and batch size."""
    found = {}
    for case in run.stored.record.cases:
        counted, layers = case.samples(evidence.COUNTED), case.layers
        if "variant" in case.factors and counted and isinstance(layers[0], Convolution):
            name, batch = case.factors["variant"], case.factors["batch"]
            found[f"{name}, batch {batch}".replace(" ", NO_BREAK)] = evidence.executed(
                f"variant-{run.key}-{name}-{batch}",
                f"Executed multiply-adds of {name} on {run.label}",
                theory_macs(layers[0]),
                int(counted[-1]),
                None,
                *evidence.padding_terms(layers[0]),
            )
    return found


def device_work(run: Run) -> Iterator[Reconciliation]:
    """What the counters of a GPU's CUDA cores saw of forward calls."""
    for batch in run.batches:
        found = evidence.device_work(
            run,
            run.factors(batch),
            subject(batch),
            multiply_adds(batch),
            f"device-work-{run.key}-{batch}",
            f"Operations of the CUDA cores on {run.label} at batch {batch}",
        )
        if found is not None:
            yield found
