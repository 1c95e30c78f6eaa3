"""The geometry of a network's layers.

A layer records the shapes of its tensors.  Work, parameters and bytes are computed from the shapes
when a paper is built (see ``theory.work``).

Shapes begin with the batch: ``(N, C, H, W)`` or ``(N, features)``.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from report.core.records.operations import ITEM_BYTES

#: Length of an axis, bounded so that the product of the lengths in a shape does not overflow.
Extent: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
#: Length of a kernel along an axis, bounded since code loops over the elements of a kernel.
KernelExtent: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**12)]
NonNegativeInt: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
Shape: TypeAlias = Annotated[tuple[Extent, ...], msgspec.Meta(min_length=1, max_length=8)]
ExtentPair: TypeAlias = tuple[Extent, Extent]
PaddingPair: TypeAlias = tuple[NonNegativeInt, NonNegativeInt]
DType: TypeAlias = Literal[
    "float64", "float32", "tfloat32", "bfloat16", "float16", "int64", "int32", "uint8"
]

#: Bytes of one element in memory; TF32 is a mode of the multiplier, stored as float32.
ELEMENT_BYTES: Final = {**ITEM_BYTES, "tfloat32": 4}


class _Layer(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
):
    """Name, tensor shapes and element type of any layer.

    ``name`` is empty in the file of a record, where networks may use one layer under different
    names.  ``gc=False``: layers have no reference cycles, and Python's search for cycles in
    thousands of layers would be slow.
    """

    name: str = ""
    input_shape: Shape
    output_shape: Shape
    dtype: DType


class Convolution(_Layer, frozen=True, kw_only=True, tag="conv2d"):
    """A two-dimensional convolution, or its transpose; weights ``(C_out, C_in/groups, Kh, Kw)``."""

    kernel: tuple[KernelExtent, KernelExtent]
    stride: ExtentPair
    padding: PaddingPair
    dilation: ExtentPair
    groups: Extent
    bias: bool
    transposed: bool


class Linear(_Layer, frozen=True, kw_only=True, tag="linear"):
    """A fully connected layer on the last axis; weights ``(features_out, features_in)``."""

    bias: bool


class Pooling(_Layer, frozen=True, kw_only=True, tag="pool2d"):
    """Maximum or average over windows."""

    mode: Literal["max", "average"]
    kernel: tuple[KernelExtent, KernelExtent]
    stride: ExtentPair
    padding: PaddingPair


class BatchNorm(_Layer, frozen=True, kw_only=True, tag="batch_norm"):
    """Batch normalisation over the channels; ``affine`` adds a scale and a shift per channel."""

    affine: bool


class Activation(_Layer, frozen=True, kw_only=True, tag="activation"):
    """An element-wise activation function."""

    function: Literal["relu", "relu6", "sigmoid", "tanh", "gelu", "silu", "hardswish"]


class Softmax(_Layer, frozen=True, kw_only=True, tag="softmax"):
    """Softmax over the last axis; with ``log`` its logarithm."""

    log: bool


class Addition(_Layer, frozen=True, kw_only=True, tag="add"):
    """The element-wise sum of two tensors of the same shape (a residual connection)."""


class PaddedShortcut(_Layer, frozen=True, kw_only=True, tag="padded_shortcut"):
    """Residual connection without parameters into a stage with more channels.

    The result has every stride-th row and column of the input, and zeros in the added channels
    (option A of He et al., CVPR 2016, section 4.2).
    """

    stride: ExtentPair


class Dropout(_Layer, frozen=True, kw_only=True, tag="dropout"):
    """Elements set to zero with a probability while training; the identity in inference."""

    probability: Annotated[float, msgspec.Meta(ge=0, lt=1)]


class Flatten(_Layer, frozen=True, kw_only=True, tag="flatten"):
    """A change of shape without work."""


Layer: TypeAlias = (
    Convolution
    | Linear
    | Pooling
    | BatchNorm
    | Activation
    | Softmax
    | Addition
    | PaddedShortcut
    | Dropout
    | Flatten
)


def at_batch(layers: Iterable[Layer], batch: int) -> tuple[Layer, ...]:
    """Return the layers with another batch size, which is the first axis of every shape."""
    layers_at_batch = []
    for layer in layers:
        input_shape = (batch, *layer.input_shape[1:])
        output_shape = (batch, *layer.output_shape[1:])
        shapes = {"input_shape": input_shape, "output_shape": output_shape}
        layers_at_batch.append(msgspec.structs.replace(layer, **shapes))
    return tuple(layers_at_batch)
