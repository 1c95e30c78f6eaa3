"""What not every machine can do with a network: compile it, or compute it in 16 bits."""

from __future__ import annotations

import shutil
from typing import Final, cast

import torch
from torch import nn

from experiments.harness.outcomes import UnavailableError

#: What asks oneDNN for its kernels.
_KERNELS: Final = {
    "bfloat16": "_is_mkldnn_bf16_supported",
    "float16": "_is_mkldnn_fp16_supported",
}

COMPILERS: Final = ("g++", "clang++", "c++")


def compiled(network: nn.Module) -> nn.Module:
    """``network`` as torch.compile makes it when it is first called.

    What was compiled before is forgotten, so that no case goes on with the shapes of another.
    Compiling takes one thread, since further ones would still be there while calls are timed.
    """
    if not any(map(shutil.which, COMPILERS)):
        raise UnavailableError(
            "torch.compile needs a C++ compiler and none was found; install one, such as g++."
        )
    import torch._inductor.config as inductor

    torch._dynamo.reset()
    inductor.compile_threads = 1
    return cast(nn.Module, torch.compile(network, dynamic=False))


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
