"""Theory of the network and of an iteration, in the letters of ``subject``."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import counted_in, flops
from report.studies.backend_speedup.subject import CALLS, CLASSES, HIDDEN, PIXELS, Size

D = exact("d", "1", PIXELS)
H, K = exact("h", "1", HIDDEN), exact("k", "1", CLASSES)
ELEMENT: Final = exact("s", "B", 4)
PARAMETERS: Final = named("parameters", (D + 1) * H + (H + 1) * K)
#: How many calls of the library an iteration makes.
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


class OperatorCall(NamedTuple):
    """Work (FLOP) and traffic (B) of a call that reads its operands and writes its result once."""

    work: int
    bytes: int


def calls(size: Size) -> tuple[OperatorCall, ...]:
    """List the calls of an iteration in float32, in the order of the printed program."""
    d, h, k, m = PIXELS, size.hidden, CLASSES, size.images
    parameters = (d * h, h, h * k, k)
    elements = (
        *(2 * h * m + h, 2 * h * m),  # bias and ReLU of the hidden layer
        2 * k * m + k,  # bias of the scores
        *(k * m + m, 2 * k * m + m, 2 * k * m, k * m + m, 2 * k * m + m),  # softmax
        3 * k * m,  # error
        3 * h * m,  # through ReLU
        *(2 * d * h, 2 * h * k),  # means of both products
        *(h * m + h, 2 * h, k * m + k, 2 * k),  # means of both errors
        *(2 * count for count in parameters),  # steps
        *(3 * count for count in parameters),  # new parameters
    )
    mask = 5 * h * m  # elements of four bytes and of one
    products = ((h, d, m), (k, h, m), (k, m, h), (h, k, m), (h, m, d))
    return (
        *(OperatorCall(2 * a * b * c, 4 * (a * b + b * c + a * c)) for a, b, c in products),
        *(OperatorCall(0, 4 * count) for count in elements),
        *(OperatorCall(0, mask),) * 2,
    )


def traffic(size: Size) -> Quantity:
    """Traffic (B) of an iteration whose calls read and write each operand once."""
    total = sum(call.bytes for call in calls(size))
    return exact(f"traffic({size.hidden:,} neurons, {size.images:,} images)", "B", total)


def shortest_time(size: Size, rate: float, bandwidth: float) -> float:
    """Add up the shortest times (s) of all calls, by a rate (FLOP/s) and a bandwidth (B/s)."""
    return sum(max(call.work / rate, call.bytes / bandwidth) for call in calls(size))
