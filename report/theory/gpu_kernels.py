"""What the float32 counters of a GPU see of a layer, by the names and grids of its kernels; pure.

cuDNN and cuBLAS name most kernels after what they do: the arithmetic (``tf32``), the tile of the
result (``sgemm_32x32``), the slices into which a block cuts its inner dimension (``sliced1x4``),
the size of a transform (``fft2d_r2c_32x32``).  How many times a block's work is repeated stands in
its grid.  The terms below follow from these and from shapes; no term is computed from a count.

The rules were read off the kernels that compute AlexNet on an A100 (see the tests), one or two
layers a rule; for other kernels they are guesses until they are compared with counts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from report.records.layers import Convolution, Layer, Linear
from report.theory.reconciliation import Term
from report.theory.shapes import elements
from report.theory.work import macs

#: How a kernel multiplies.
Method: TypeAlias = Literal["direct", "fourier", "tensor cores"]

#: The inner dimension is read in steps of this many elements by each slice of a block.
STEP: Final = 8
#: Real products of a complex one with one product less and three additions more (Gauss).
REAL_PRODUCTS: Final = 3

_TRANSFORM: Final = re.compile(r"fft2d_r2c_(\d+)x\1\b")
_COMPLEX: Final = re.compile(r"gcgemm_(\d+)x(\d+)")
_PRODUCT: Final = re.compile(r"sgemm_(\d+)x(\d+)_sliced1x(\d+)")
_IMPLICIT: Final = "implicit_convolve_sgemm"
_LAYOUT: Final = "nchwToNhwc"
_TENSOR: Final = "tf32"
_BIAS_KERNEL: Final = "CUDAFunctor_add"
_EPILOGUE: Final = "epilogue"
_NAMES: Final = "names of the kernels"


@dataclass(frozen=True)
class Kernels:
    """The kernels of one call of a layer: their names, and into how many parts one splits sums."""

    names: tuple[str, ...]
    splits: int = 1

    def has(self, part: str) -> bool:
        """Whether the name of one of them contains ``part``."""
        return any(part in name for name in self.names)

    def sizes(self, pattern: re.Pattern[str]) -> tuple[int, ...]:
        """The numbers in the first name that ``pattern`` finds; none where it finds none."""
        found = (match for name in self.names if (match := pattern.search(name)))
        return next((tuple(map(int, match.groups())) for match in found), ())

    @property
    def transform(self) -> int:
        """The extent of the transforms; 0 where there are none."""
        return next(iter(self.sizes(_TRANSFORM)), 0)

    @property
    def method(self) -> Method:
        """How they multiply."""
        if self.transform:
            return "fourier"
        return "tensor cores" if self.has(_TENSOR) else "direct"


def padded_depth(inner: int, splits: int = 1, slices: int = 1) -> int:
    """The inner dimension as it is multiplied: each part rounded up to whole steps."""
    step = STEP * slices
    return splits * _up(-(-inner // splits), step)


def frequency_points(extent: int) -> int:
    """Complex numbers of a real transform of ``extent`` × ``extent``; the rest are conjugates."""
    return extent * (extent // 2 + 1)


def counter_terms(layer: Convolution | Linear, kernels: Kernels) -> tuple[Term, ...]:
    """From twice the multiply-adds of ``layer`` to what the float32 counters see (FLOP).

    Always the same terms; those that do not apply are 0.
    """
    return (
        _uncounted(layer, kernels),
        _frequency_products(layer, kernels),
        _transforms(layer, kernels),
        _padding(layer, kernels),
        _scaling(layer, kernels),
        _layout(layer, kernels),
        _bias(layer, kernels),
    )


def _uncounted(layer: Layer, kernels: Kernels) -> Term:
    tensor = kernels.method == "tensor cores"
    return Term(
        "Tensor cores, not counted",
        -2 * macs(layer) if tensor else 0,
        "−theory, for kernels that multiply in TF32",
        _NAMES,
    )


def _frequency_products(layer: Layer, kernels: Kernels) -> Term:
    """Products at each frequency point in place of the direct ones (Mathieu et al., 2014)."""
    name, formula = "Fourier products", "2 · 3 · points · N · C_in · C_out − theory"
    if not isinstance(layer, Convolution) or not kernels.transform:
        return Term(name, 0, formula, _NAMES)
    batch, inputs, outputs = _maps(layer)
    products = REAL_PRODUCTS * frequency_points(kernels.transform) * batch * inputs * outputs
    return Term(name, 2 * (products - macs(layer)), formula, _NAMES)


def _transforms(layer: Layer, kernels: Kernels) -> Term:
    """Each map of input, weights and output transformed once, by the usual count of operations.

    A real transform of n points is taken for 5/2 · n · log₂ n operations, as FFTW's benchmark does
    (http://www.fftw.org/speed/method.html); implementations execute less or more.
    """
    extent, formula = kernels.transform, "(N · C_in + C_in · C_out + N · C_out) · 5/2 · n · log₂ n"
    if not isinstance(layer, Convolution) or not extent:
        return Term("Transforms", 0, formula, _NAMES)
    batch, inputs, outputs = _maps(layer)
    maps = batch * inputs + inputs * outputs + batch * outputs
    return Term("Transforms", maps * round(2.5 * extent**2 * math.log2(extent**2)), formula, _NAMES)


def _padding(layer: Layer, kernels: Kernels) -> Term:
    """Multiply-adds that fill up steps of the inner dimension and tiles of the result."""
    formula = "2 · (rows · columns · depth, each rounded up) − theory"
    rows, columns, depth = _sides(layer)
    sizes = kernels.sizes(_PRODUCT)
    if kernels.has(_IMPLICIT):
        executed = rows * columns * padded_depth(depth)
    elif sizes and isinstance(layer, Linear):
        tiles = _padded_outputs(layer, kernels)
        executed = tiles * padded_depth(depth, kernels.splits, sizes[2])
    else:
        executed = rows * columns * depth
    return Term("Padding", 2 * (executed - rows * columns * depth), formula, "names and grids")


def _scaling(layer: Layer, kernels: Kernels) -> Term:
    """What a kernel does with finished sums: y = α · sum (+ β · y), and the sums of parts."""
    outputs, sizes = elements(layer.output_shape), kernels.sizes(_PRODUCT)
    amount, formula = 0, "0"
    if kernels.method == "tensor cores":
        amount, formula = 2 * outputs, "2 · outputs"
    elif kernels.has(_IMPLICIT):
        amount, formula = outputs, "outputs"
    elif isinstance(layer, Convolution) and kernels.transform:
        amount, formula = _complex_sums(layer, kernels), "6 · sums + three-product additions"
    elif sizes:
        slices, splits = sizes[2], kernels.splits
        each = (2 * slices - 1) * splits + 2 * (splits - 1)
        amount = each * _padded_outputs(layer, kernels)
        formula = "padded outputs · ((2 · slices − 1) · parts + 2 · (parts − 1))"
    return Term("Scaling and sums of parts", amount, formula, "names and grids")


def _complex_sums(layer: Convolution, kernels: Kernels) -> int:
    """Each complex sum times a complex α, and the additions that save the fourth real product.

    A tile adds real and imaginary parts of what it reads, once for one factor and twice for the
    other, and two of the three products at the end.
    """
    batch, inputs, outputs = _maps(layer)
    points = frequency_points(kernels.transform)
    scaled = 6 * points * batch * outputs
    tile = kernels.sizes(_COMPLEX)
    if not tile:
        return scaled
    tiles = -(-outputs // tile[0]) * -(-batch // tile[1])
    each = inputs * (tile[0] + 2 * tile[1]) + 2 * tile[0] * tile[1]
    return scaled + points * tiles * each


def _layout(layer: Layer, kernels: Kernels) -> Term:
    """One multiplication by α for each element that a kernel brings into channels-last order."""
    formula = "input + weights"
    if not isinstance(layer, Convolution) or not kernels.has(_LAYOUT):
        return Term("Layout conversion", 0, formula, _NAMES)
    weights = layer.output_shape[1] * layer.input_shape[1] // layer.groups * math.prod(layer.kernel)
    return Term("Layout conversion", elements(layer.input_shape) + weights, formula, _NAMES)


def _bias(layer: Layer, kernels: Kernels) -> Term:
    """In a kernel of its own: a multiply-add an output of PyTorch's, an addition of cuBLAS's."""
    if kernels.has(_BIAS_KERNEL):
        return Term("Bias", 2 * elements(layer.output_shape), "2 · outputs", _NAMES)
    count = _padded_outputs(layer, kernels) if kernels.has(_EPILOGUE) else 0
    return Term("Bias", count, "padded outputs", _NAMES)


def _maps(layer: Convolution) -> tuple[int, int, int]:
    """Images, channels in and channels out."""
    return layer.input_shape[0], layer.input_shape[1], layer.output_shape[1]


def _sides(layer: Layer) -> tuple[int, int, int]:
    """Rows, columns and inner dimension of the layer as a matrix product."""
    outputs = layer.output_shape
    if isinstance(layer, Convolution):
        depth = math.prod(layer.kernel) * layer.input_shape[1] // layer.groups
        return outputs[0] * math.prod(outputs[2:]), outputs[1], depth
    return math.prod(outputs[:-1]), outputs[-1], layer.input_shape[-1]


def _padded_outputs(layer: Layer, kernels: Kernels) -> int:
    rows, columns, _ = _sides(layer)
    tile = kernels.sizes(_PRODUCT) or (1, 1)
    return _up(rows, tile[1]) * _up(columns, tile[0])


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
