"""What PyTorch allocates on a CPU while one layer runs, beside input and output, from its shapes.

Eager PyTorch in evaluation mode without gradients.  Convolutions go to oneDNN, which works on
layouts of its own; what it copies and when, the allocator's events show (``evidence.events``).
A layer has one or more *moments*: sets of blocks that are alive together; the largest of them is
what the layer needs.  Sizes follow from shapes; the evidence of each is the event that showed it.

Verified to the byte with PyTorch 2.13 (oneDNN 3.12) on AVX-512 and AVX2: convolutions without
groups and dilation, kernels larger than 1 × 1, pooling, batch normalisation; float32, and bfloat16
under autocast on processors without tiles (AMX).  On AVX2 the sizes of caches decide about some
kernels (``theory.avx2_kernels``).  Of those, of other convolutions, of one of one channel in the
channels-last layout, of bfloat16 convolutions in tiles and of bfloat16 linear layers, workspaces
are not known, and what stands here is the least that they take (``unknown_workspace``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from report.records.layers import (
    ELEMENT_BYTES,
    BatchNorm,
    Convolution,
    DType,
    Layer,
    Linear,
    Pooling,
)
from report.theory.allocator_options import Options
from report.theory.avx2_kernels import (
    BLOCK,
    copies_output_last,
    has_known_batch,
    has_known_block,
    is_direct,
)
from report.theory.memory import element_bytes, output_bytes
from report.theory.reconciliation import Term
from report.theory.shapes import elements
from report.theory.terms import (
    bias_workspace,
    blocked_output,
    descriptor_workspace,
    input_reorder,
    weight_reorder,
)

Layout: TypeAlias = Literal["contiguous", "channels_last"]

#: Elements of an input from which on a small convolution of a single image goes to oneDNN
#: (``aten/src/ATen/native/Convolution.cpp``, ``use_mkldnn``).
NATIVE_UP_TO: Final = 20_480
_INDEX_BYTES: Final = ELEMENT_BYTES["int64"]
_FLOAT_BYTES: Final = ELEMENT_BYTES["float32"]
_KNOWN_TYPES: Final = frozenset({"float32", "tfloat32", "bfloat16"})
#: The divisor of a mean as a tensor of one element, in float64 and then in float32.
_DIVISOR_BYTES: Final = 12

_ALLOCATED: Final = "event of the allocator"
_FREED: Final = "freed before the output is allocated"


@dataclass(frozen=True)
class Conditions:
    """How a forward pass ran: all that decides about memory and stands in no shape.

    ``block`` are the channels of a float32 vector, which oneDNN's blocks have (``vector_block``);
    ``threads`` those of PyTorch.  ``in_place`` says that the activations that can overwrite their
    input do.  ``autocast`` is the type that autocast computes in, whatever type the layers name,
    or None without autocast; with it parameters are float32.  ``tiles`` says that the processor
    multiplies bfloat16 in tiles (AMX).  On a GPU only ``allocator`` decides, the options of its
    caching allocator.
    """

    layout: Layout = "contiguous"
    threads: int = 1
    block: int = 16
    in_place: bool = False
    autocast: DType | None = None
    tiles: bool = False
    allocator: Options | None = None


def vector_block(cpu_capability: str) -> int:
    """Channels in a block by what a record's ``environment.torch.cpu_capability`` says."""
    return 16 if "AVX512" in cpu_capability else 8


@dataclass(frozen=True)
class Moment:
    """Blocks beside input and held tensors that are alive at once; whether the output is."""

    with_output: bool
    terms: tuple[Term, ...] = ()

    @property
    def amount(self) -> int:
        """Their bytes in all, without the output."""
        return sum(term.amount for term in self.terms)


#: Every kind of workspace, so that each has its place in a table, 0 where it is not there.
WORKSPACES: Final = (
    "Input reorder",
    "Weight reorder",
    "Blocked output",
    "Workspace, padded bias",
    "Workspace, batch descriptors",
    "Unfolded input",
    "Pooling indices",
    "Scale and shift",
    "Workspace of the mean",
)


def moments(layer: Layer, conditions: Conditions) -> tuple[Moment, ...]:
    """The moments of one layer, in their order."""
    match layer:
        case Convolution() if _untried(layer, conditions):
            return (Moment(True),)
        case Convolution():
            return _convolution(layer, conditions)
        case Pooling() if layer.mode == "max":
            return (Moment(True, (_indices(layer),)),)
        case Pooling() if layer.output_shape[2:] == (1, 1):
            return (Moment(True, (_mean(layer),)),)
        case BatchNorm():
            return (Moment(True, (_scale_and_shift(layer),)),)
        case _:
            return (Moment(True),)


def unknown_workspace(layer: Layer, conditions: Conditions) -> bool:
    """Whether a layer may take more than its moments say, since no rule here gives all of it."""
    if isinstance(layer, Linear):
        return conditions.autocast is not None
    if not isinstance(layer, Convolution):
        return False
    return _untried(layer, conditions) or _left_to_caches(layer, conditions)


def _untried(layer: Convolution, conditions: Conditions) -> bool:
    """Whether nothing at all is known of a convolution."""
    plain = layer.groups == 1 and not layer.transposed and layer.dilation == (1, 1)
    unfolds_one_channel = layer.input_shape[1] == 1 and conditions.layout == "channels_last"
    in_tiles = conditions.tiles and layer.dtype == "bfloat16"
    known = layer.dtype in _KNOWN_TYPES and plain and layer.kernel != (1, 1)
    return not known or unfolds_one_channel or in_tiles


def _left_to_caches(layer: Convolution, conditions: Conditions) -> bool:
    """Whether an AVX2 kernel takes more or less by the sizes of caches."""
    if conditions.block != BLOCK or native(layer, conditions):
        return False
    if conditions.layout == "channels_last":
        return not (has_known_block(layer) and has_known_batch(layer))
    return not (is_direct(layer) or copies_output_last(layer, conditions.threads))


def _convolution(layer: Convolution, conditions: Conditions) -> tuple[Moment, ...]:
    if native(layer, conditions):
        return (Moment(True, (unfolded(layer),)),)
    if conditions.layout == "channels_last":
        return (Moment(True, _channels_last(layer, conditions)),)
    if conditions.block == BLOCK and not is_direct(layer):
        return (Moment(True, (blocked_output(layer, 1, _ALLOCATED),)),)
    blocked = blocked_output(layer, conditions.block, _ALLOCATED)
    return (Moment(False, (*_reorders(layer, conditions), blocked)), Moment(True, (blocked,)))


def native(layer: Convolution, conditions: Conditions) -> bool:
    """Whether PyTorch computes it itself: one small image and no kernel over 3 × 3.

    Also bfloat16 on AVX2, which has no instructions for it.
    """
    if conditions.autocast is not None:
        return conditions.block == BLOCK
    small = elements(layer.input_shape) <= NATIVE_UP_TO and min(layer.kernel) <= 3
    return layer.input_shape[0] == 1 and small


def unfolded(layer: Convolution) -> Term:
    """The input with a copy of it for every tap, as a matrix (im2col)."""
    columns = layer.input_shape[1] * elements(layer.kernel)
    positions = layer.output_shape[0] * elements(layer.output_shape[2:])
    size = columns * positions * element_bytes(layer)
    formula = f"N · C_in · K_h · K_w · H_out · W_out · {element_bytes(layer)} B"
    return Term("Unfolded input", size, formula, _ALLOCATED)


def _reorders(layer: Convolution, conditions: Conditions) -> tuple[Term, ...]:
    """Copies in blocks of channels; an input with less than one block stays as it is."""
    block = conditions.block
    bias = bias_workspace(layer, block, _FREED)
    if layer.input_shape[1] < block:
        return (bias, _weights(layer, conditions))
    weights = weight_reorder(layer, block, _FREED, in_block=block)
    return (bias, input_reorder(layer, block, _FREED), weights)


def _channels_last(layer: Convolution, conditions: Conditions) -> tuple[Term, ...]:
    known = conditions.block != BLOCK or has_known_batch(layer)
    batch = layer if known else msgspec.structs.replace(layer, kernel=(1, 1))
    return (
        descriptor_workspace(batch, conditions.threads, _ALLOCATED),
        _weights(layer, conditions),
    )


def _weights(layer: Convolution, conditions: Conditions) -> Term:
    """Weights with blocked output channels; 16-bit products take input channels by twos."""
    in_block = _FLOAT_BYTES // element_bytes(layer)
    return weight_reorder(layer, conditions.block, _ALLOCATED, in_block=in_block)


def _indices(layer: Pooling) -> Term:
    """Where each maximum was: computed without gradients too, and dropped."""
    size = elements(layer.output_shape) * _INDEX_BYTES
    return Term("Pooling indices", size, f"output elements · {_INDEX_BYTES} B", _ALLOCATED)


def _scale_and_shift(layer: BatchNorm) -> Term:
    """Statistics and parameters made into one factor and one summand a channel, float32."""
    size = 2 * layer.input_shape[1] * _FLOAT_BYTES
    return Term("Scale and shift", size, f"2 · C · {_FLOAT_BYTES} B", _ALLOCATED)


def _mean(layer: Pooling) -> Term:
    """Average over a whole map, a mean: in float32, with input and sums copied where they are not.

    The copy of the input and the divisor are not alive together; the former is the larger.
    """
    if element_bytes(layer) >= _FLOAT_BYTES:
        return Term("Workspace of the mean", _DIVISOR_BYTES, f"{_DIVISOR_BYTES} B", _ALLOCATED)
    copies = elements(layer.input_shape) + elements(layer.output_shape)
    formula = f"(input + output elements) · {_FLOAT_BYTES} B"
    return Term("Workspace of the mean", copies * _FLOAT_BYTES, formula, _ALLOCATED)


def largest(layer: Layer, candidates: Sequence[Moment]) -> Moment:
    """The moment with most bytes, the output counted where it is there; the first of equals."""
    output = output_bytes(layer)
    return max(candidates, key=lambda moment: moment.amount + moment.with_output * output)
