"""Training falls, repeats to the last digit, and learns real digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("sklearn")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from experiments.datasets import Images, Split, digits  # noqa: E402
from experiments.harness import training  # noqa: E402
from experiments.harness.training import (  # noqa: E402
    History,
    evaluate,
    normalisation,
    prepared,
    train,
)
from experiments.networks.mnist import mnist_cnn  # noqa: E402
from report.errors import MeasurementError  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def images() -> Images:
    return digits()


def few(images: Images, count: int = 200) -> Images:
    """The first ``count`` images to train on, a quarter of that to test on."""
    return Images(
        images.name,
        Split(images.train.pixels[:count], images.train.labels[:count]),
        Split(images.test.pixels[: count // 4], images.test.labels[: count // 4]),
        images.classes,
        images.source,
        images.split,
    )


def network() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return mnist_cnn((4, 8))


def numbers(history: History) -> Any:
    """All but the times."""
    return history.losses, [(e.train, e.test, e.learning_rate) for e in history.epochs]


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others(images: Images) -> None:
    some = few(images)
    first = train(network(), some, epochs=2)
    torch.rand(7)  # what was drawn before does not matter
    assert numbers(train(network(), some, epochs=2)) == numbers(first)
    assert numbers(train(network(), some, epochs=2, seed=1)) != numbers(first)


def test_it_takes_the_steps_of_the_example(images: Images) -> None:
    """The example's own loop, with its functions, from the same weights and in the same order."""
    some, module, rates = few(images, 130), network(), []
    (part, _), losses = prepared(some, "cpu"), []
    optimizer = torch.optim.Adadelta(module.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(2):
            module.train()
            order = torch.randperm(130)
            for start in range(0, 130, 64):
                chosen = order[start : start + 64]
                optimizer.zero_grad()
                loss = functional.nll_loss(module(part.inputs[chosen]), part.labels[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(loss.item())
            rates.append(scheduler.get_last_lr()[0])
            scheduler.step()
    history = train(network(), some, epochs=2)
    assert history.losses == pytest.approx(losses, rel=1e-4)
    assert [epoch.learning_rate for epoch in history.epochs] == rates


def test_a_loss_that_is_not_finite_is_refused(images: Images) -> None:
    with pytest.raises(MeasurementError, match=r"^Training diverged: the loss of step \d+ is "):
        train(network(), few(images), epochs=3, lr=1e20)


def test_pixels_are_normalised_with_the_training_images(images: Images) -> None:
    colours = digits(8, channels=3)
    for some in (images, colours):
        mean, deviation = normalisation(some.train)
        values = some.train.pixels.astype(np.float64)
        assert np.allclose(mean[:, 0, 0], values.mean(axis=(0, 2, 3)))
        assert np.allclose(deviation[:, 0, 0], values.std(axis=(0, 2, 3)))
        part, test = prepared(some, "cpu")
        assert part.inputs.dtype == torch.float32
        assert part.inputs.shape == some.train.pixels.shape
        assert abs(part.inputs.mean().item()) < 1e-4
        assert part.inputs.std().item() == pytest.approx(1, abs=1e-3)
        assert test.labels.tolist() == some.test.labels.tolist()


class Constant(nn.Module):
    """Gives the same logits for every image."""

    def __init__(self, logits: list[float]) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, source: Any) -> Any:
        return self.logits.expand(len(source), -1)


def test_a_score_is_the_mean_over_all_images(
    images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = Constant([0.0] * 4 + [math.log(11)] + [0.0] * 5)
    _, part = prepared(images, "cpu")
    share = float(np.mean(images.test.labels == 4))
    expected = share * math.log(20 / 11) + (1 - share) * math.log(20)
    for at_once in (1, 100, 1000):
        monkeypatch.setattr(training, "_EVALUATED_AT_ONCE", at_once)
        score = evaluate(module, part)
        assert score.accuracy == share
        assert score.loss == pytest.approx(expected, rel=1e-5)
        assert module.training  # as it was before
