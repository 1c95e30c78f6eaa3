"""Networks made at random from what is supported: the theory is exact, or refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from experiments.harness.operators import Input  # noqa: E402
from experiments.theory.checked import checked  # noqa: E402
from report.errors import MeasurementError  # noqa: E402
from report.theory.operators import load  # noqa: E402
from tests.experiments.functions import First, Function  # noqa: E402

#: Operators with multiply-adds that torch's own counter leaves out on a processor.
UNCOUNTED = {
    "_scaled_dot_product_flash_attention_for_cpu", "_native_multi_head_attention",
    "mkldnn_rnn_layer", "mv", "dot",
}  # fmt: skip

Draw = Callable[[Any], Any]
ACTIVATIONS = (
    nn.ReLU(), nn.ReLU6(inplace=True), nn.GELU(), nn.SiLU(inplace=True), nn.Hardswish(),
    nn.Hardsigmoid(), nn.LeakyReLU(), nn.ELU(), nn.Mish(), nn.Softplus(), nn.Tanh(), nn.Sigmoid(),
)  # fmt: skip


class Joined(nn.Module):
    """A branch beside its input: their sum, or both in a row."""

    def __init__(self, branch: nn.Module, how: str) -> None:
        super().__init__()
        self.branch, self.how = branch, how

    def forward(self, x: Any) -> Any:
        y = self.branch(x)
        return torch.cat((x, y), 1) if self.how == "cat" else y.add_(x)


def on_maps(draw: Draw, shape: tuple[int, ...]) -> nn.Module:  # noqa: PLR0911, PLR0912
    """A layer for ``(N, C, H, W)``."""
    channels, side = shape[1], min(shape[2:])
    kind = draw(st.sampled_from((
        "convolution", "transposed", "norm", "group norm", "activation", "pool", "adaptive",
        "softmax", "interpolate", "join", "pad", "reduce", "copy",
    )))  # fmt: skip
    groups = draw(st.sampled_from([g for g in (1, 2, 3, channels) if channels % g == 0]))
    kernel = draw(st.integers(1, min(3, side)))
    match kind:
        case "convolution":
            same = draw(st.booleans())
            return nn.Conv2d(
                channels, groups * draw(st.integers(1, 3)), kernel, groups=groups,
                stride=1 if same else draw(st.integers(1, 2)),
                padding="same" if same else draw(st.integers(0, kernel // 2)),
                dilation=draw(st.integers(1, 2)) if side >= 5 else 1,
                bias=draw(st.booleans()),
                padding_mode=draw(st.sampled_from(
                    ("zeros", "circular", "replicate", *["reflect"] * (side > 1))
                )),
            )  # fmt: skip
        case "transposed":
            return nn.ConvTranspose2d(
                channels, groups * draw(st.integers(1, 2)), kernel, groups=groups,
                stride=draw(st.integers(1, 2)),
            )  # fmt: skip
        case "norm":
            return nn.BatchNorm2d(channels)
        case "group norm":
            return nn.GroupNorm(groups, channels)
        case "activation":
            return draw(st.sampled_from(ACTIVATIONS))
        case "pool":
            ceil, indices = draw(st.booleans()), draw(st.booleans())
            if draw(st.booleans()):
                dilation = draw(st.integers(1, 2)) if side >= 5 else 1
                pool = nn.MaxPool2d(kernel, draw(st.integers(1, 3)), 0, dilation, indices, ceil)
                return First(pool) if indices else pool
            return nn.AvgPool2d(kernel, ceil_mode=ceil)
        case "adaptive":
            return nn.AdaptiveAvgPool2d(draw(st.integers(1, 4)))
        case "softmax":
            return nn.Softmax(draw(st.integers(1, 3)))
        case "interpolate":
            mode = draw(st.sampled_from(("nearest", "bilinear", "bicubic")))
            return Function(lambda x: functional.interpolate(x, scale_factor=2, mode=mode))
        case "join":
            branch = nn.Conv2d(channels, channels, 1)
            return Joined(branch, draw(st.sampled_from(("cat", "sum"))))
        case "pad":
            return nn.ZeroPad2d(draw(st.integers(0, 2)))
        case "copy":
            return Function(lambda x: x.contiguous(memory_format=torch.channels_last))
    reduce = draw(st.sampled_from((torch.mean, torch.sum, torch.amax, torch.var)))
    return Function(lambda x: x - reduce(x, dim=(2, 3), keepdim=True))


def on_volumes(draw: Draw, shape: tuple[int, ...]) -> nn.Module:
    """A layer for ``(N, C, D, H, W)``."""
    channels, kernel = shape[1], draw(st.integers(1, min(2, *shape[2:])))
    match draw(st.sampled_from(("convolution", "transposed", "norm", "pool", "activation"))):
        case "convolution":
            return nn.Conv3d(channels, draw(st.integers(1, 3)), kernel, draw(st.integers(1, 2)),
                             padding=draw(st.integers(0, kernel // 2)))  # fmt: skip
        case "transposed":
            return nn.ConvTranspose3d(channels, channels, kernel, groups=channels)
        case "norm":
            return nn.BatchNorm3d(channels)
        case "pool":
            return draw(st.sampled_from((nn.MaxPool3d, nn.AvgPool3d)))(kernel)
    return draw(st.sampled_from(ACTIVATIONS))


def on_sequences(draw: Draw, shape: tuple[int, ...]) -> nn.Module:  # noqa: PLR0911
    """A layer for ``(N, L, E)``."""
    width = shape[2]
    kind = draw(st.sampled_from((
        "linear", "norm", "attention", "lstm", "gru", "convolution", "einsum", "softmax",
        "activation", "embedding", "products",
    )))  # fmt: skip
    match kind:
        case "linear":
            return nn.Linear(width, draw(st.integers(1, 7)), bias=draw(st.booleans()))
        case "norm":
            return nn.LayerNorm(width)
        case "attention":
            heads = draw(st.sampled_from([h for h in (1, 2, 3) if width % h == 0]))
            return First(nn.MultiheadAttention(width, heads, batch_first=True), 3)
        case "lstm":
            sides = draw(st.booleans())
            return First(nn.LSTM(width, 4, batch_first=True, bidirectional=sides))
        case "gru":
            return First(nn.GRU(width, draw(st.integers(1, 5)), batch_first=True))
        case "convolution":
            turn = Function(lambda x: x.transpose(1, 2))
            return nn.Sequential(turn, nn.Conv1d(width, draw(st.integers(1, 5)), 1), turn)
        case "einsum":
            return Function(lambda x: torch.einsum("ble,bme->blm", x, x))
        case "softmax":
            return nn.Softmax(draw(st.integers(0, 2)))
        case "embedding":
            words = Function(lambda x: x[..., 0].abs().clamp(max=6).long())
            return nn.Sequential(words, nn.Embedding(7, draw(st.integers(1, 5))))
        case "products":
            return Function(lambda x: torch.bmm(x, x.transpose(1, 2)))
    return draw(st.sampled_from(ACTIVATIONS))


@st.composite
def networks(draw: Draw) -> tuple[nn.Module, tuple[int, ...]]:
    """A network of one to six layers, and the shape of its input."""
    extents = st.integers(1, 6)
    on, rank = draw(st.sampled_from(
        ((on_sequences, 3), (on_sequences, 3), (on_maps, 4), (on_maps, 4), (on_volumes, 5))
    ))  # fmt: skip
    shape = (draw(st.integers(1, 3)), *(draw(extents) for _ in range(rank - 1)))
    layers: list[nn.Module] = []
    current = shape
    for _ in range(draw(st.integers(1, 6))):
        layer = on(draw, current).eval()
        try:
            with torch.no_grad():
                result = layer(torch.zeros(current))
        except ValueError:  # a norm over a single value
            break
        if result.numel() == 0 or result.numel() > 20_000:
            break
        layers.append(layer)
        current = tuple(result.shape)
    return nn.Sequential(*layers).eval(), shape


@settings(max_examples=200, suppress_health_check=list(HealthCheck), derandomize=True)
@given(made=networks(), train=st.booleans())
def test_networks_are_exact_or_refused(
    made: tuple[nn.Module, tuple[int, ...]], train: bool
) -> None:
    module, shape = made
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        module(torch.randn(shape))
    expected = counter.get_total_flops()
    parameters = sum(p.numel() for p in module.parameters())
    trains = train and parameters > 0
    try:
        found = checked(lambda: copy.deepcopy(module), [Input(shape)], train=trains)
    except MeasurementError:
        # Refused is only what torch refuses too, such as statistics of a single value.
        with pytest.raises((RuntimeError, ValueError)):
            module.train(trains)(torch.randn(shape)).sum().backward()
        return
    assert found.parameters == parameters
    assert found.refused == ()
    forward = [
        (operator, load(operator))
        for operator in found.network.operators
        if operator.phase == "forward"
    ]
    seen = sum(each.flops for o, each in forward if each and o.base not in UNCOUNTED)
    if not trains:
        assert seen == expected
    assert all(o.phase == "forward" for o in found.network.operators) != trains
    assert found.peak is None or found.peak.total >= 4 * parameters
