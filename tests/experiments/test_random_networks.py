"""Random networks of supported layers: theory counts them exactly, or refuses them."""

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

from experiments.theory.captures import Input  # noqa: E402
from experiments.theory.checked import checked  # noqa: E402
from report.core.errors import MeasurementError  # noqa: E402
from tests.experiments.functions import First, Function  # noqa: E402

#: Operators with multiply-adds that torch's own counter leaves out on a processor.
UNCOUNTED = {
    "_scaled_dot_product_flash_attention_for_cpu", "_native_multi_head_attention",
    "mkldnn_rnn_layer", "mv", "dot",
}  # fmt: skip

#: Chooses one of several values.
Pick = Callable[[Any], Any]
ACTIVATIONS = (
    nn.ReLU(), nn.ReLU6(inplace=True), nn.GELU(), nn.SiLU(inplace=True), nn.Hardswish(), nn.Tanh(),
)  # fmt: skip


class Joined(nn.Module):
    """A branch and its input, added or concatenated."""

    def __init__(self, branch: nn.Module, join: str) -> None:
        super().__init__()
        self.branch, self.join = branch, join

    def forward(self, x: Any) -> Any:
        y = self.branch(x)
        return torch.cat((x, y), 1) if self.join == "cat" else y.add_(x)


def convolution(pick: Pick, channels: int, side: int) -> nn.Module:
    groups, kernel = pick(divisors(channels)), pick(range(1, min(3, side) + 1))
    same = pick((True, False))
    return nn.Conv2d(
        channels, groups * pick((1, 2, 3)), kernel, groups=groups, bias=pick((True, False)),
        stride=1 if same else pick((1, 2)),
        padding="same" if same else pick(range(kernel // 2 + 1)),
        dilation=pick((1, 2)) if side >= 5 else 1,
        padding_mode=pick(("zeros", "circular", "replicate", *["reflect"] * (side > 1))),
    )  # fmt: skip


def divisors(channels: int) -> list[int]:
    return [g for g in (1, 2, 3, channels) if channels % g == 0]


def map_layer(pick: Pick, shape: tuple[int, ...]) -> nn.Module:
    """Draw a layer for inputs of shape ``(N, C, H, W)``."""
    channels, side = shape[1], min(shape[2:])
    groups, kernel = pick(divisors(channels)), pick(range(1, min(3, side) + 1))
    mode, join = pick(("nearest", "bilinear", "bicubic")), pick(("cat", "sum"))
    reduce = pick((torch.mean, torch.sum, torch.amax, torch.var))
    return pick((
        lambda: convolution(pick, channels, side),
        lambda: nn.ConvTranspose2d(channels, groups * 2, kernel, pick((1, 2)), groups=groups),
        lambda: nn.BatchNorm2d(channels),
        lambda: nn.GroupNorm(groups, channels),
        lambda: pick(ACTIVATIONS),
        lambda: First(nn.MaxPool2d(kernel, pick((1, 2, 3)), return_indices=True)),
        lambda: nn.MaxPool2d(1, 2, dilation=pick((1, 2)), ceil_mode=pick((True, False))),
        lambda: nn.AvgPool2d(kernel, ceil_mode=pick((True, False))),
        lambda: nn.AdaptiveAvgPool2d(pick((1, 2, 3, 4))),
        lambda: nn.Softmax(pick((1, 2, 3))),
        lambda: Function(lambda x: functional.interpolate(x, scale_factor=2, mode=mode)),
        lambda: Joined(nn.Conv2d(channels, channels, 1), join),
        lambda: nn.ZeroPad2d(pick((0, 1, 2))),
        lambda: Function(lambda x: x.contiguous(memory_format=torch.channels_last)),
        lambda: Function(lambda x: x - reduce(x, dim=(2, 3), keepdim=True)),
    ))()  # fmt: skip


def volume_layer(pick: Pick, shape: tuple[int, ...]) -> nn.Module:
    """Draw a layer for inputs of shape ``(N, C, D, H, W)``."""
    channels, kernel = shape[1], pick(range(1, min(2, *shape[2:]) + 1))
    return pick((
        lambda: nn.Conv3d(channels, pick((1, 2, 3)), kernel, pick((1, 2)), padding=kernel // 2),
        lambda: nn.ConvTranspose3d(channels, channels, kernel, groups=channels),
        lambda: nn.BatchNorm3d(channels),
        lambda: pick((nn.MaxPool3d, nn.AvgPool3d))(kernel),
        lambda: pick(ACTIVATIONS),
    ))()  # fmt: skip


def sequence_layer(pick: Pick, shape: tuple[int, ...]) -> nn.Module:
    """Draw a layer for inputs of shape ``(N, L, E)``."""
    width, swap_axes = shape[2], Function(lambda x: x.transpose(1, 2))
    heads, size = pick([h for h in (1, 2, 3) if width % h == 0]), pick(range(1, 7))
    to_indices = Function(lambda x: x[..., 0].abs().clamp(max=6).long())
    option = pick((True, False))
    return pick((
        lambda: nn.Linear(width, size, bias=option),
        lambda: nn.LayerNorm(width),
        lambda: First(nn.MultiheadAttention(width, heads, batch_first=True), 3),
        lambda: First(nn.LSTM(width, 4, batch_first=True, bidirectional=option)),
        lambda: First(nn.GRU(width, size, batch_first=True)),
        lambda: nn.Sequential(swap_axes, nn.Conv1d(width, size, 1), swap_axes),
        lambda: Function(lambda x: torch.einsum("ble,bme->blm", x, x)),
        lambda: nn.Softmax(pick((0, 1, 2))),
        lambda: pick(ACTIVATIONS),
        lambda: nn.Sequential(to_indices, nn.Embedding(7, size)),
        lambda: Function(lambda x: torch.bmm(x, x.transpose(1, 2))),
    ))()  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...]]:
    """Draw a network of one to six layers, and the shape of its input."""
    pick = lambda options: draw(st.sampled_from(options))  # noqa: E731
    draw_layer, rank = pick((*[(sequence_layer, 3), (map_layer, 4)] * 2, (volume_layer, 5)))
    shape = (pick((1, 2, 3)), *(pick(range(1, 7)) for _ in range(rank - 1)))
    layers: list[nn.Module] = []
    current = shape
    for _ in range(pick(range(1, 7))):
        layer = draw_layer(pick, current).eval()
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
@given(drawn=networks(), train=st.booleans())
def test_theory_is_exact_or_refuses(drawn: tuple[nn.Module, tuple[int, ...]], train: bool) -> None:
    module, shape = drawn
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        module(torch.randn(shape))
    expected = counter.get_total_flops()
    parameters = sum(p.numel() for p in module.parameters())
    trains = train and parameters > 0
    try:
        theory = checked(lambda: copy.deepcopy(module), [Input(shape)], train=trains)
    except MeasurementError:
        # Theory refuses only networks that torch also refuses, such as statistics of one value.
        with pytest.raises((RuntimeError, ValueError)):
            module.train(trains)(torch.randn(shape)).sum().backward()
        return
    assert (theory.parameters, theory.refused) == (parameters, ())
    operators = zip(theory.network.operators, theory.work, strict=True)
    counted = sum(work.flops for o, work in operators if work and o.base not in UNCOUNTED)
    assert trains or counted == expected
