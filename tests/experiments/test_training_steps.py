"""Steps of training and their layers."""

from __future__ import annotations

import msgspec
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from experiments.harness import timing  # noqa: E402
from experiments.harness.layer_clock import LayerClock  # noqa: E402
from experiments.harness.measure import training  # noqa: E402
from experiments.harness.study import QUICK, Precision, Subject  # noqa: E402
from experiments.networks.blocks import Residual  # noqa: E402
from report.errors import MeasurementError  # noqa: E402


def small(precision: Precision = "float32") -> Subject:
    """A residual block with ReLUs in place, and what stands around one."""
    torch.manual_seed(0)
    block = Residual(
        [("conv", nn.Conv2d(4, 4, 3, padding=1)), ("bn", nn.BatchNorm2d(4))],
        last=nn.ReLU(inplace=True),
    )
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(inplace=True),
        block,
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(4, 5),
    )
    return Subject(module, torch.randn(4, 3, 8, 8), "step", "channels_last", precision)


def test_a_step_is_that_of_stochastic_gradient_descent() -> None:
    """Momentum 0.9, weight decay 1e-4, rate 0.1, twice, by hand."""
    module, step = training(small(), "cpu")
    module.eval()  # dropout would draw other random numbers
    weight = module.get_parameter("7.weight")
    before, speed = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(2):
        step.reset()
        step.call()
        assert weight.grad is not None
        speed = 0.9 * speed + weight.grad + 1e-4 * before
        before = before - 0.1 * speed
        assert torch.allclose(weight, before, atol=1e-6)


def test_reduced_precision_leaves_weights_and_gradients_alone() -> None:
    module, step = training(small("bfloat16"), "cpu")
    seen: list[torch.dtype] = []
    module.get_submodule("0").register_forward_hook(lambda m, i, output: seen.append(output.dtype))
    step.call()
    assert seen == [torch.bfloat16]
    for parameter in module.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None and parameter.grad.dtype == torch.float32


def test_every_layer_is_timed_both_ways_and_one_that_was_not_seen_is_no_zero() -> None:
    module, step = training(small(), "cpu")
    clock = LayerClock()
    with clock.watching(module):
        step.call()
        step.call()
    names = ["0", "1", "2.conv", "2.bn", "2.add", "2.last", "3", "4", "5", "6", "7"]
    for series in clock.series(names):
        assert len(series.samples) == 2 * len(names) and min(series.samples) > 0
    with pytest.raises(MeasurementError, match="Layer forward b: 0 of 2 steps"):
        clock.series(("0", "b"))


def test_the_warm_up_of_slow_steps_ends_early() -> None:
    slow = msgspec.structs.replace(QUICK.protocol, warmup_calls=2, case_budget_s=2.0)
    assert timing.warm_up(lambda: 5.0, slow, now=iter((0.0, 5.0)).__next__) == 3
    assert timing.warm_up(lambda: 0.001, slow) == 5  # the first, and four that are steady
