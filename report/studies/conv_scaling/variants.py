"""The layer changed in one respect at a time, led from theory to what was counted of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from report.records.layers import Convolution, Layer, Linear
from report.records.record import Case, Record
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.reconciled import COUNTED
from report.text.format import NO_BREAK
from report.theory.products import MATRIX_VECTOR, product_kernel, product_terms
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import COUNTED_WIDTH, padded_channels, skipped_padding, theory_macs


def variants(run: Run, kind: type[Convolution | Linear] | None = None) -> dict[str, Reconciliation]:
    """What was counted of other layers than the study's, by name and batch size."""
    return {
        _unbroken(f"{case.factors['variant']}, batch {case.factors['batch']}"): _variant(run, case)
        for case in _counted_variants(run.stored.record)
        if kind is None or isinstance(case.layers[0], kind)
    }


def _unbroken(name: str) -> str:
    """A name that stays on one line of a table."""
    return name.replace(" ", NO_BREAK)


def _counted_variants(record: Record) -> Iterable[Case]:
    return (
        case
        for case in record.cases
        if case.factors.get("subject") == "variant" and case.layers and case.samples(COUNTED)
    )


def _variant(run: Run, case: Case) -> Reconciliation:
    layer: Layer = case.layers[0]
    count = case.samples(COUNTED)[-1]
    kernel = product_kernel(layer, run.stored.record.environment.torch.build)
    return Reconciliation(
        f"variant-{run.key}-{case.factors['variant']}-{case.factors['batch']}",
        f"Executed multiply-adds of {case.factors['variant']} on {run.label}",
        "MAC",
        theory_macs(layer),
        (
            skipped_padding(layer, _padding(layer)),
            _vector_channels(layer, kernel),
            *product_terms(layer, kernel, COUNTED_WIDTH),
            _factor_conversions(layer),
        ),
        Term("Executed", int(count), "counted lanes, case less base", COUNTED),
    )


def products_seen(run: Run) -> bool:
    """Whether a kernel was seen for a linear layer among the counted variants."""
    build = run.stored.record.environment.torch.build
    counted = _counted_variants(run.stored.record)
    return any(product_kernel(case.layers[0], build) for case in counted)


def _vector_channels(layer: Layer, kernel: str | None) -> Term:
    """Output channels that only fill up vectors; none where these run along the inputs."""
    seen = f", kernel {kernel}" if kernel else ""
    term = padded_channels(layer, COUNTED_WIDTH, f"{_channels(layer)}{seen}")
    return replace(term, amount=0) if kernel == MATRIX_VECTOR else term


def _factor_conversions(layer: Layer) -> Term:
    """What the counter cannot tell from a multiply-add in a matrix product of PyTorch.

    Its two factors, α and β, are converted to float32 (``c10::Scalar::toFloat``), one operation
    each of the kind that is counted.
    """
    count = 2 if isinstance(layer, Linear) else 0
    return Term(
        "Factors converted",
        count,
        "2 for a matrix product, else 0",
        "callgrind: c10::Scalar::toFloat",
    )


def _padding(layer: Layer) -> str:
    padding = layer.padding if isinstance(layer, Convolution) else (0, 0)
    return f"padding {padding[0]} in the recorded shapes"


def _channels(layer: Layer) -> str:
    channels = layer.output_shape[-1] if isinstance(layer, Linear) else layer.output_shape[1]
    return f"{channels} output channels in the recorded shapes, vectors of {COUNTED_WIDTH}"
