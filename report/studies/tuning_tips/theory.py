"""Savings of tips by the shapes of layers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from report.core.records.layers import Activation, Addition, BatchNorm, Convolution, Layer
from report.theory import heap, work


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


#: Amounts that a tip saves, and the ceiling that prices them; other tips save nothing.
SAVED: Final[Mapping[str, tuple[str, str, Callable[[tuple[Layer, ...]], int]]]] = {
    "channels_last": ("B", "copy", layout_copies),
    "allocator": ("1", "page_mapping", heap.returned_pages),
    "fused": ("B", "copy", batch_norm_traffic),
    "compiled": ("B", "copy", chain_traffic),
}
