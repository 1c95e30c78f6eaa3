"""Bytes and pages that tips save, by the shapes of a network's layers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from report.core.records.layers import Activation, Addition, BatchNorm, Convolution, Layer
from report.theory import heap, work


def layout_copies(layers: Iterable[Layer]) -> int:
    """Return the bytes that convolutions read and write to change the layout of their arrays.

    The tip "channels last" saves these copies of inputs and outputs, except the copy of the images.
    """
    saved = 0
    for index, layer in enumerate(layers):
        if isinstance(layer, Convolution):
            input_bytes = work.input_bytes(layer) if index > 0 else 0
            saved += 2 * (input_bytes + work.output_bytes(layer))  # read and written
    return saved


def batch_norm_traffic(layers: Iterable[Layer]) -> int:
    """Return the bytes that batch norms read and write."""
    return sum(work.compulsory_traffic(layer) for layer in layers if isinstance(layer, BatchNorm))


def chain_traffic(layers: Iterable[Layer]) -> int:
    """Return the bytes written and read between elementwise layers that follow each other."""
    saved, follows_elementwise = 0, False
    for layer in layers:
        is_elementwise = isinstance(layer, BatchNorm | Activation | Addition)
        if is_elementwise and follows_elementwise:
            saved += 2 * work.input_bytes(layer)
        follows_elementwise = is_elementwise
    return saved


#: Tip → unit of the saved amount, operation whose measured peak rate gives the saved time, and
#: function that returns the saved amount.  Other tips save nothing.
SAVED: Final[Mapping[str, tuple[str, str, Callable[[tuple[Layer, ...]], int]]]] = {
    "channels_last": ("B", "copy", layout_copies),
    "allocator": ("1", "page_mapping", heap.returned_pages),
    "fused": ("B", "copy", batch_norm_traffic),
    "compiled": ("B", "copy", chain_traffic),
}
