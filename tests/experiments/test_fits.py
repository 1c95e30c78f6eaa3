"""``--fits``: the largest batch by prediction, against every batch and closed forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from experiments.harness.operators import Input, Policy, Step, capture  # noqa: E402
from experiments.theory import theory_of  # noqa: E402
from report.errors import MeasurementError  # noqa: E402
from report.theory.network import Theory  # noqa: E402
from tests.experiments.functions import Function  # noqa: E402

WIDTH, DEPTH = 64, 8
#: Bytes of the parameters of ``deep``.
WEIGHTS = 4 * DEPTH * (WIDTH * WIDTH + WIDTH)


def deep() -> nn.Module:
    parts = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)]
    return nn.Sequential(*parts)


class Doubling(nn.Module):
    """Computes more for small batches, so that its operators do not grow with the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return self.layer(torch.cat((x, x)) if x.shape[0] < 100 else x)


def total(theory: Theory) -> int:
    assert theory.peak is not None
    return theory.peak.total


@pytest.mark.parametrize("build", [deep, Doubling])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_largest_batch_is_that_of_trying_each(
    build: Callable[[], nn.Module], train: bool, device: str
) -> None:
    theory = theory_of(build, (3, WIDTH), train=train, device=device)
    assert theory.captured is not None
    sizes = {n: total(theory.captured(n, None)) for n in range(1, 6)}
    for limit in (sizes[1] - 1, sizes[1], sizes[4] + 1):
        found = theory.fits(limit)
        assert found.largest == max((n for n, size in sizes.items() if size <= limit), default=0)
        for batch, predicted in found.bracket.items():
            assert total(predicted) == sizes[batch]
            # No rule tells what a backward pass takes, nor what cuBLAS does.
            known = "undecided" if train or device == "cuda" else "fits"
            assert found.verdict(batch) == (known if batch <= found.largest else "does not fit")


def looped(x: Any) -> Any:
    """Loops over its first extent, as code of recurrent networks does."""
    state = torch.zeros_like(x[0])
    for step in x:
        state = torch.tanh(state + step)
    return state


@pytest.mark.parametrize("shape", [(5, "N", 8), ("N", 5, 8)])
@pytest.mark.parametrize("build", [partial(nn.LSTM, 8, 8), partial(Function, looped)])
def test_the_batch_is_the_extent_that_is_marked(
    build: Callable[[], nn.Module], shape: tuple[int | str, ...]
) -> None:
    theory = theory_of(build, shape)
    if shape[0] == "N":
        with pytest.raises(MeasurementError, match="128,N,512"):
            theory.fits("1MB")
        return
    found = theory.fits("1MB")
    assert theory.captured is not None
    for batch, predicted in found.bracket.items():
        assert total(predicted) == total(theory.captured(batch, None))


#: Bytes of state beside the gradients; a count of steps has four.
COUNTS = 4 * 2 * DEPTH
STATE = {
    "sgd": 0,
    "momentum": WEIGHTS,
    "adam": 2 * WEIGHTS + COUNTS,
    "adamw": 2 * WEIGHTS + COUNTS,
    # A row and a column for each weight, as much as itself for each bias.
    "adafactor": 4 * DEPTH * (2 * WIDTH + WIDTH) + COUNTS,
}


@pytest.mark.parametrize("optimizer", STATE)
@pytest.mark.parametrize("update", ["single", "foreach", "fused"])
def test_an_optimizer_keeps_copies_of_the_parameters(optimizer: Any, update: Any) -> None:
    if (optimizer, update) == ("adafactor", "fused"):
        return
    policy = Policy(optimizer=optimizer, update=update)
    network = capture(deep, [Input((4, WIDTH))], train=True, policy=policy).network
    kept = sum(network.storages[tensor.storage] for tensor in network.state)
    assert kept == WEIGHTS + STATE[optimizer]
    step, recorder = Step(deep().train(), policy, gpu=False), SimpleNamespace(writes=True)
    step.prepare((torch.randn(4, WIDTH),), recorder)  # type: ignore[arg-type]
    assert kept == sum(tensor.untyped_storage().nbytes() for tensor in step.state())


def activations(**how: Any) -> int:
    """What a step has alive beside parameters, state and inputs at its peak."""
    build = lambda: nn.Sequential(deep(), deep())  # noqa: E731
    theory = theory_of(build, (4096, WIDTH), train=True, **how)
    return max(m.alive["activations"] + m.alive["gradients"] for m in theory.moments)


def test_policies_change_what_is_alive() -> None:
    whole = activations()
    halves = activations(checkpoint=["0", "1"])
    assert halves < 0.7 * whole
    assert whole <= activations(accumulate=2) <= whole + 2 * WEIGHTS + 4096 * 8
    assert activations(autocast="bfloat16") < whole
    single, lists = (
        total(theory_of(deep, (1, WIDTH), train=True, optimizer="adam", update=update))
        for update in ("single", "foreach")
    )
    assert lists > single + WEIGHTS / 2, "a list of all square roots is alive at once"
