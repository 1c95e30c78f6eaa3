"""Savings of tips by the shapes of layers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from report.core.records.layers import Activation, Addition, BatchNorm, Convolution, Layer
from report.theory import heap, work
from report.theory.roofline import load, sheet_roof


def layout_copies(layers: Iterable[Layer]) -> int:
    """Return the bytes of copies into and out of blocks of channels (B), without channels last.

    The images are copied once with the tip, too.
    """
    saved = 0
    for place, layer in enumerate(layers):
        if isinstance(layer, Convolution):
            saved += 2 * (work.input_bytes(layer) * (place > 0) + work.output_bytes(layer))
    return saved


def batch_norm_traffic(layers: Iterable[Layer]) -> int:
    """Return the traffic of batch norms (B)."""
    return sum(work.compulsory_traffic(layer) for layer in layers if isinstance(layer, BatchNorm))


def chain_traffic(layers: Iterable[Layer]) -> int:
    """Return the traffic between batch norms, activations and additions in a row (B)."""
    saved, in_a_row = 0, 0
    for layer in layers:
        elementwise = isinstance(layer, BatchNorm | Activation | Addition)
        in_a_row = in_a_row + 1 if elementwise else 0
        saved += 2 * work.input_bytes(layer) * (in_a_row > 1)
    return saved


def returned_pages(layers: tuple[Layer, ...]) -> int:
    """Return the pages that glibc returns and maps again in each call.

    The largest output sets the trimming threshold; a layer that frees more at once is returned.
    """
    trimming = heap.raised_trimming(max(map(work.output_bytes, layers)) // 4)
    freed = map(heap.freed_blocks, layers)
    return sum(size // heap.PAGE for size in freed if not heap.keeps_freed(size, trimming))


#: Amounts that a tip saves or hides, and the ceiling that prices them; other tips save nothing.
SAVED: Final[Mapping[str, tuple[str, str, Callable[[tuple[Layer, ...]], int]]]] = {
    "channels_last": ("B", "copy", layout_copies),
    "allocator": ("1", "page_mapping", returned_pages),
    "fused": ("B", "copy", batch_norm_traffic),
    "compiled": ("B", "copy", chain_traffic),
}


def bfloat16_gain(layers: Iterable[Layer], single: float, half: float, bandwidth: float) -> float:
    """Divide the least time of layers in float32, twice as wide, by that in bfloat16.

    ``single`` and ``half`` are the peaks of both (FLOP/s); the bandwidth is in B/s.
    """
    loads, times = [*map(load, layers)], list[float]()
    for peak, width in ((single, 2), (half, 1)):
        roof = sheet_roof(peak, bandwidth)
        times.append(sum(roof.least(item.flops, width * item.bytes) for item in loads))
    return times[0] / times[1]
