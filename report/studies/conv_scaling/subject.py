"""What conv_scaling studies: one convolution, and what theory says of it at a batch size."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from report.errors import StudyError
from report.layers import Convolution
from report.memory import LayerMemory, layer_memory
from report.store import Stored
from report.work import Flops, Macs, flops, macs

Pass: TypeAlias = Literal["forward", "forward_backward"]

PASSES: Final[tuple[Pass, ...]] = ("forward", "forward_backward")
PASS_NAMES: Final[dict[Pass, str]] = {
    "forward": "forward",
    "forward_backward": "forward and backward",
}


def subject(batch: int) -> Convolution:
    """The second convolution of the PyTorch MNIST example on a batch of ``batch`` images."""
    return Convolution(
        name="conv2",
        input_shape=(batch, 32, 26, 26),
        output_shape=(batch, 64, 24, 24),
        dtype="float32",
        kernel=(3, 3),
        stride=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        bias=True,
        transposed=False,
    )


def multiply_adds(batch: int, pass_: Pass = "forward") -> Macs:
    """Multiply-adds of one call; backward adds the weight's and the input's gradient."""
    layer = subject(batch)
    forward = macs(layer)
    if pass_ == "forward":
        return forward
    return Macs(forward + macs(layer, "weight_gradient") + macs(layer, "input_gradient"))


def operations(batch: int, pass_: Pass = "forward") -> Flops:
    """FLOPs of one call, two a multiply-add."""
    return flops(multiply_adds(batch, pass_))


def footprint(batch: int) -> LayerMemory:
    """Bytes of parameters, input and output at a batch size."""
    return layer_memory(subject(batch))


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if the layer that ran is not the one that theory speaks of."""
    for index, case in enumerate(stored.record.cases):
        batch = case.factors.get("batch")
        if case.factors.get("subject") != "layer" or not case.layers:
            continue
        if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
            raise StudyError(
                f"data/{stored.file}: cases[{index}].factors.batch: expected a batch size, found "
                f"{batch!r}; run the experiment again."
            )
        for ran in case.layers:
            if _geometry(ran) != _geometry(subject(batch)):
                raise StudyError(
                    f"data/{stored.file}: cases[{index}].layers: {ran} is not the layer that this "
                    "study is about; run the experiment of this version again."
                )


def _geometry(layer: object) -> object:
    """A layer without its name, which a network is free to choose."""
    import msgspec

    return {**msgspec.to_builtins(layer), "name": None}
