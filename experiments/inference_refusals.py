"""Which calls of ``experiments.inference_memory`` are not started, since they cannot end soon."""

from __future__ import annotations

from math import prod

from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import Device, Factors
from report.records.layers import ELEMENT_BYTES, Convolution, Layer


def refuse_float16(factors: Factors, device: Device) -> None:
    """A processor without float16 kernels is measured on a single image alone.

    It computes each convolution element by element, hundreds of times slower than in float32.
    """
    if factors.get("precision") != "float16" or device != "cpu":
        return
    if factors.get("batch") != 1 and not has_float16_kernels():
        raise UnavailableError(
            "oneDNN has no float16 kernels for this processor; what it does instead is measured at "
            "batch 1 only, since it takes far too long."
        )


def has_float16_kernels() -> bool:
    """Whether oneDNN, which computes torch's convolutions, has kernels for float16 here."""
    import torch

    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


def needed_bytes(found: tuple[Layer, ...]) -> int:
    """A lower bound of what must be held at once: a convolution's input and output, and the image.

    Folding, compiling and tiling cannot avoid the maps of the first convolution in these networks,
    and those of later ones only by tiling over several layers, which is done at one small batch.
    """
    image = _bytes(found[0].input_shape, found[0])
    return max(
        _bytes(layer.input_shape, layer) * (layer is not found[0])
        + _bytes(layer.output_shape, layer)
        + image
        for layer in found
        if layer is found[0] or isinstance(layer, Convolution)
    )


def _bytes(shape: tuple[int, ...], layer: Layer) -> int:
    return prod(shape) * ELEMENT_BYTES[layer.dtype]
