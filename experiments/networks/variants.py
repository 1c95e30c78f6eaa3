"""Other ways to run the same network: fewer steps, compiled, tiled; the result stays the same."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal, TypeAlias, cast, get_args

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from experiments.harness.outcomes import UnavailableError
from experiments.networks.tiled import Form, tiled

Execution: TypeAlias = Literal["eager", "folded", "compiled"] | Form

#: What asks oneDNN for its kernels.
_KERNELS: Final = {
    "bfloat16": "_is_mkldnn_bf16_supported",
    "float16": "_is_mkldnn_fp16_supported",
}

COMPILERS: Final = ("g++", "clang++", "c++")


def executed(network: nn.Sequential, execution: Execution, tile: int | None = None) -> nn.Module:
    """``network``, in evaluation mode, as it is executed; its weights may be shared.

    Raises ``UnavailableError`` where there is no compiler for ``compiled``.
    """
    if execution == "eager":
        return network
    if execution == "folded":
        return folded(network)
    if execution == "compiled":
        return compiled(network)
    assert tile is not None and execution in get_args(Form)
    return tiled(network, execution, tile)


def folded(network: nn.Module) -> nn.Module:
    """A copy whose batch normalisations are in the convolutions before them, with ReLU in place.

    In evaluation mode a normalisation multiplies and adds a constant a channel, which the weights
    and the bias of the convolution can do (torch's ``fuse_conv_bn_eval``).  It becomes the
    identity, so that the network around it stays as it is.  ReLU overwrites its input, which
    nothing else reads in these networks.
    """
    made = copy.deepcopy(network)
    for parent, convolution, norm in list(_pairs(made)):
        parts = dict(parent.named_children())
        fused = fuse_conv_bn_eval(
            cast(nn.Conv2d, parts[convolution]), cast(nn.BatchNorm2d, parts[norm])
        )
        setattr(parent, convolution, fused)
        setattr(parent, norm, nn.Identity())
    for module in made.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = True
    return made


def _pairs(network: nn.Module) -> Iterator[tuple[nn.Module, str, str]]:
    """A module with the names of two of its parts: a convolution, and a normalisation behind it."""
    for parent in network.modules():
        for (name, part), (behind, next_part) in pairwise(parent.named_children()):
            if isinstance(part, nn.Conv2d) and isinstance(next_part, nn.BatchNorm2d):
                yield parent, name, behind


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
