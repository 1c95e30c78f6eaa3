"""Theory of the network and of an iteration, in the letters of ``subject``."""

from __future__ import annotations

from functools import cache
from typing import Final

from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.studies.backend_speedup.subject import CALLS, CLASSES, HIDDEN, PIXELS, Size

D = exact("d", "1", PIXELS)
H, K = exact("h", "1", HIDDEN), exact("k", "1", CLASSES)
ELEMENT: Final = exact("s", "B", 4)
PARAMETERS: Final = named("parameters", (D + 1) * H + (H + 1) * K)
#: Number of library calls per iteration.
ALL_CALLS: Final = exact("calls of an iteration", "1", sum(CALLS.values()))


@cache
def work(size: Size) -> Quantity:
    """Work (FLOP) of the products of an iteration, which are nearly all of it."""
    h, m = exact("h", "1", size.hidden), exact("m", "1", size.images)
    image = counted_in("MAC", 2 * D * h + 3 * h * K)
    return named("work", flops(m * image))


def first_product(size: Size) -> Quantity:
    """Work (FLOP) of the product of the first layer."""
    h, m = exact("h", "1", size.hidden), exact("m", "1", size.images)
    return named("work of the first product", flops(counted_in("MAC", D * h * m)))


def image_bytes(size: Size) -> Quantity:
    """Bytes of the images in float32."""
    return named("images", ELEMENT * D * exact("m", "1", size.images))
