"""What theory says of the network and of an iteration, in the letters of ``subject``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.records.layers import ELEMENT_BYTES
from report.studies.backend_speedup import subject
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.subject import Setting, Step, iteration, kinds, total

EXTENT: Final = exact("extent", "1", subject.EXTENT)
D: Final = named("d", EXTENT * EXTENT)
H, K = exact("h", "1", subject.HIDDEN), exact("k", "1", subject.CLASSES)
ELEMENT: Final = exact("s", "B", ELEMENT_BYTES["float32"])

PARAMETERS: Final = named("parameters", (D + 1) * H + (H + 1) * K)
PARAMETER_BYTES: Final = named("parameter bytes", ELEMENT * PARAMETERS)
_FIRST, _SECOND = counted_in("MAC", D * H), counted_in("MAC", H * K)
FORWARD: Final = named("forward multiply-adds", _FIRST + _SECOND)
TRAINING: Final = named("training multiply-adds", 2 * _FIRST + 3 * _SECOND)

#: The numbers of the prose that follow from the shapes of the network.
VALUES: Final[dict[str, Quantity]] = {
    "extent": EXTENT,
    "classes": K,
    "hidden": H,
    "parameters": PARAMETERS,
    "parameter_bytes": PARAMETER_BYTES,
    "forward_macs": FORWARD,
    "training_macs": TRAINING,
}


def source_setting(inputs: Inputs) -> Setting:
    """The source's training, as theory takes it: float32, all its training images."""
    return Setting("training", "float32", inputs.reported.count("training"), "mnist")


def source_work(inputs: Inputs) -> Quantity:
    """Work (FLOP) of an iteration of the source, by equations (1) to (10) and the update."""
    return named("work", _over_kinds(inputs, "work", "FLOP", lambda step: step.flops))


def source_traffic(inputs: Inputs) -> Quantity:
    """Bytes of the operands and results of these operations, each once."""
    moved = _over_kinds(inputs, "elements", "1", lambda step: step.elements)
    return named("traffic", ELEMENT * moved)


def product_intensity(inputs: Inputs) -> Quantity:
    """Work over traffic (FLOP/B) of all products at the source's number of images."""
    step = total(source_setting(inputs), "matrix_product")
    work = flops(exact("multiply-adds of the products", "MAC", step.macs, inputs.reported_file))
    return work / (ELEMENT * exact("their elements", "1", step.elements, inputs.reported_file))


def _over_kinds(inputs: Inputs, what: str, unit: str, of: Callable[[Step], int]) -> Quantity:
    """The sum over all kinds of operations of an iteration of the source."""
    setting, file = source_setting(inputs), inputs.reported_file
    parts = (
        exact(f"{kind.replace('_', ' ')} {what}", unit, of(total(setting, kind)), file)
        for kind in kinds()
    )
    return reduce(add, parts)


# -------------------------------------------------------------------------------------- bounds


def bound(step: Step, dtype: str, product: float, copy: float) -> float:
    """The least time (s) of an operation: its work at the products' rate, its bytes at the copies'.

    The roofline's bound (Williams, Waterman and Patterson 2009): the longer of the two.
    """
    return max(step.flops / product, step.elements * ELEMENT_BYTES[dtype] / copy)


def least(run: Run, setting: Setting, variant: Variant) -> float | Missing:
    """The least time (s) of an iteration on the run's device."""
    rates = run.rates(variant)
    if isinstance(rates, Missing):
        return rates
    return sum(bound(step, setting.dtype, *rates) for step in iteration(setting))
