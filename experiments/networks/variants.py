"""Half precision, which not every processor has kernels for."""

from __future__ import annotations

from typing import Final

import torch

from experiments.harness.study import UnavailableError

#: What asks oneDNN for its kernels.
_KERNELS: Final = {
    "bfloat16": "_is_mkldnn_bf16_supported",
    "float16": "_is_mkldnn_fp16_supported",
}


def refuse_emulated(precision: object, batch: object, device: str, most: int) -> None:
    """Raise ``UnavailableError`` for more than ``most`` images in 16 bits that oneDNN has not here.

    torch then computes element by element, hundreds of times slower than in float32.  What has no
    ``batch`` is refused too.
    """
    if device != "cpu" or precision not in _KERNELS or has_kernels(str(precision)):
        return
    if not isinstance(batch, int) or batch > most:
        raise UnavailableError(
            f"oneDNN has no {precision} kernels for this processor; what it does instead is "
            f"measured at batch {most} at most, since it takes far too long."
        )


def has_kernels(precision: str) -> bool:
    """Whether oneDNN, which computes torch's convolutions, has kernels of 16 bits here."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return bool(getattr(torch.ops.mkldnn, _KERNELS[precision])())
