"""What theory says of both networks, as quantities in the letters of ``subject``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Final

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.records.layers import ELEMENT_BYTES
from report.studies.backend_speedup import subject
from report.studies.backend_speedup.subject import Step, kinds, total
from report.studies.backend_speedup.theory_tables import source_setting

EXTENT: Final = exact("extent", "1", subject.EXTENT)
D: Final = named("d", EXTENT * EXTENT)
H, K = exact("h", "1", subject.HIDDEN), exact("k", "1", subject.CLASSES)
C, KERNEL = exact("c", "1", subject.CHANNELS), exact("kernel", "1", subject.KERNEL)
_MAP: Final = named("map", EXTENT - KERNEL + 1)
_POOLED: Final = named("pooled", _MAP / 2)
Q, N = named("q", KERNEL * KERNEL), named("n", _MAP * _MAP)
F: Final = named("f", C * _POOLED * _POOLED)
ELEMENT: Final = exact("s", "B", ELEMENT_BYTES["float32"])

PARAMETERS: Final = named("parameters", (D + 1) * H + (H + 1) * K)
PARAMETER_BYTES: Final = named("parameter bytes", ELEMENT * PARAMETERS)
_FIRST, _SECOND = counted_in("MAC", D * H), counted_in("MAC", H * K)
FORWARD: Final = named("forward multiply-adds", _FIRST + _SECOND)
TRAINING: Final = named("training multiply-adds", 2 * _FIRST + 3 * _SECOND)
CONVNET_PARAMETERS: Final = (Q + 1) * C + (F + 1) * K
CONVNET_TRAINING: Final = named(
    "convnet training multiply-adds",
    2 * counted_in("MAC", C * Q * N) + 3 * counted_in("MAC", F * K),
)


def source_work(inputs: Inputs) -> Quantity:
    """Work (FLOP) of an iteration of the source, by equations (1) to (10) and the update."""
    return named("work", _over_kinds(inputs, "work", "FLOP", lambda step: step.flops))


def source_traffic(inputs: Inputs) -> Quantity:
    """Bytes of the operands and results of these operations, each once."""
    moved = _over_kinds(inputs, "elements", "1", lambda step: step.elements)
    return named("traffic", ELEMENT * moved)


def product_intensity(inputs: Inputs) -> Quantity:
    """Work over traffic (FLOP/B) of the first product at the source's number of images."""
    m = exact("m", "1", source_setting(inputs).samples, inputs.reported_file)
    return flops(counted_in("MAC", H * D * m)) / (ELEMENT * (H * D + D * m + H * m))


def _over_kinds(inputs: Inputs, what: str, unit: str, of: Callable[[Step], int]) -> Quantity:
    """The sum over all kinds of operations of an iteration of the source."""
    setting, file = source_setting(inputs), inputs.reported_file
    parts = (
        exact(f"{kind.replace('_', ' ')} {what}", unit, of(total(setting, kind)), file)
        for kind in kinds(setting.network)
    )
    return reduce(add, parts)
