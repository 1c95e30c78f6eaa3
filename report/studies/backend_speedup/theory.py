"""What theory says of the network and of an iteration, in the letters of ``subject``."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Final, Literal

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.operations import at_least, counted_in, flops
from report.studies.backend_speedup.subject import CALLS, CLASSES, HIDDEN, PIXELS, Size

D = exact("d", "1", PIXELS)
H, K = exact("h", "1", HIDDEN), exact("k", "1", CLASSES)
ELEMENT: Final = exact("s", "B", 4)
PARAMETERS: Final = named("parameters", (D + 1) * H + (H + 1) * K)
#: How many calls of the library an iteration makes.
ALL_CALLS: Final = exact("calls of an iteration", "1", sum(CALLS.values()))
#: Double over single precision on a GPU of the T4's architecture (``nvidiaturing``).
DOUBLE_RATE: Final = exact("rate of double precision", "1", Fraction(1, 32))
#: Copies from pinned memory over PCIe 3 with 16 lanes, an assumption.
COPY_RATE: Final = exact("assumed rate of copies", "B/s", 12 * 10**9)
#: A GPU of the class that free notebooks had in the year of the source, which names none.
_CLASS: Final = "NVIDIA T4"


@cache
def work(size: Size) -> Quantity:
    """Work (FLOP) of the products of an iteration, which are nearly all of it."""
    h, m = exact("h", "1", size.hidden), exact("m", "1", size.images)
    each = counted_in("MAC", 2 * D * h + 3 * h * K)
    return named("work", flops(m * each))


def first_product(size: Size) -> Quantity:
    """Work (FLOP) of the product of the first layer."""
    h, m = exact("h", "1", size.hidden), exact("m", "1", size.images)
    return named("work of the first product", flops(counted_in("MAC", D * h * m)))


def array_bytes(rows: int, size: Size) -> Quantity:
    """Bytes of an array in float32 with a column an image."""
    return named("array", ELEMENT * exact("rows", "1", rows) * exact("m", "1", size.images))


def copy_time(images: Quantity) -> Quantity:
    """The time (s) in which images in float32 reach a GPU, at the assumed rate."""
    return ELEMENT * D * images / COPY_RATE


def peak(inputs: Inputs, of: Literal["float32", "memory"]) -> Quantity:
    """A peak of the T4 by its data sheet, in FLOP/s or B/s."""
    unit = "B/s" if of == "memory" else "FLOP/s"
    device = inputs.devices.find(_CLASS)
    found = device.peak(of) if device else None
    if found is None:
        return absent(f"{of} peak", unit, f"no data sheet of {_CLASS}")
    return exact(f"{of} peak of {_CLASS}", unit, found.rate, "devices.yaml")


def roofs(inputs: Inputs, size: Size, *, double: bool) -> dict[str, Quantity]:
    """The least time (s) on a T4 of the products, ReLU and softmax, by its data sheet.

    Products read the images twice; ReLU and softmax read one array and write another.
    """
    wider, slower = (2, DOUBLE_RATE) if double else (1, exact("rate", "1", 1))
    rate, bandwidth = peak(inputs, "float32") * slower, peak(inputs, "memory")
    rows = {"matrix_product_time": PIXELS, "relu_time": size.hidden, "softmax_time": CLASSES}
    least = {row: 2 * wider * array_bytes(n, size) / bandwidth for row, n in rows.items()}
    products = at_least(work(size) / rate, least["matrix_product_time"])
    return {**least, "matrix_product_time": products}
