"""Training a network as PyTorch's MNIST example does, with every loss kept.

The example (github.com/pytorch/examples, mnist/main.py) trains with Adadelta from a learning rate
of 1.0, multiplied by 0.7 after each epoch (``StepLR``), in batches of 64 drawn anew each epoch, on
pixels normalised with the mean and the standard deviation of the training images.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from experiments.datasets.images import Images, Split
from experiments.harness.study import SEED
from report.errors import MeasurementError
from report.records.record import Series

BATCH: Final = 64
LEARNING_RATE: Final = 1.0
GAMMA: Final = 0.7

#: It changes a score by rounding alone; larger maps take a CPU longer for each image.
_EVALUATED_AT_ONCE: Final = 100


@dataclass(frozen=True)
class Score:
    """Mean cross-entropy (nats an image) and share of images recognised, in evaluation mode."""

    loss: float
    accuracy: float


@dataclass(frozen=True)
class Epoch:
    """How good the network is after an epoch; ``seconds`` are wall time of its steps alone."""

    train: Score
    test: Score
    learning_rate: float
    seconds: float


@dataclass(frozen=True)
class History:
    """What one training gave.

    ``losses`` has the loss of every step on its own batch, in training mode (with dropout).
    ``threads`` is what torch used: on a CPU the same seed, threads and machine give the same
    numbers.
    """

    losses: tuple[float, ...]
    epochs: tuple[Epoch, ...]
    threads: int


@dataclass(frozen=True)
class Prepared:
    """Normalised images ``(N, C, H, W)`` in float32 and their labels ``(N,)`` on a device."""

    inputs: torch.Tensor
    labels: torch.Tensor


def train(
    module: nn.Module,
    images: Images,
    epochs: int,
    lr: float = LEARNING_RATE,
    seed: int = SEED,
) -> History:
    """Train ``module`` in place, where its parameters are, and leave it in evaluation mode.

    It gives logits or log-probabilities ``(N, classes)``: cross-entropy normalises, which leaves
    log-probabilities as they are.  ``seed`` decides the order of the images and what dropout
    drops; the weights to begin with are the caller's, and so is the number of threads.  torch's own
    random numbers go on afterwards as if nothing had been drawn.  Raises ``MeasurementError`` if a
    loss is no longer finite.
    """
    device = next(module.parameters()).device
    train_part, test_part = prepared(images, device)
    optimizer = torch.optim.Adadelta(module.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=GAMMA)
    losses: list[float] = []
    finished: list[Epoch] = []
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for _ in range(epochs):
            rate, began = float(optimizer.param_groups[0]["lr"]), time.perf_counter()
            for loss in _steps(module, train_part, optimizer):
                losses.append(_finite(loss, len(losses) + 1))
            seconds = time.perf_counter() - began
            schedule.step()
            module.eval()
            scores = evaluate(module, train_part), evaluate(module, test_part)
            finished.append(Epoch(*scores, rate, seconds))
    return History(tuple(losses), tuple(finished), torch.get_num_threads())


def prepared(images: Images, device: torch.device | str) -> tuple[Prepared, Prepared]:
    """Both parts, normalised with mean and standard deviation of the training images."""
    mean, deviation = normalisation(images.train)

    def of(split: Split) -> Prepared:
        values = (split.pixels.astype(np.float32) - mean) / deviation
        labels = torch.from_numpy(split.labels.astype(np.int64))
        return Prepared(torch.from_numpy(values).to(device), labels.to(device))

    return of(images.train), of(images.test)


def normalisation(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each channel, ``(C, 1, 1)`` float32, in pixel values 0 to 255.

    They come from how often each value occurs, so that no order of summing can change them.
    """
    values = np.arange(256)
    moments = []
    for channel in range(split.pixels.shape[1]):
        counts = np.bincount(split.pixels[:, channel].reshape(-1), minlength=256)
        mean = counts @ values / counts.sum()
        variance = counts @ (values - mean) ** 2 / counts.sum()
        moments.append((mean, math.sqrt(variance) or 1.0))
    means, deviations = np.array(moments, np.float32).T.reshape(2, -1, 1, 1)
    return means, deviations


def history_series(history: History) -> tuple[Series, ...]:
    """A loss a step; scores and duration (s) an epoch."""
    epochs = history.epochs
    found: dict[str, tuple[float, ...]] = {
        "step_loss": history.losses,
        "epoch_time": tuple(epoch.seconds for epoch in epochs),
        "train_loss": tuple(epoch.train.loss for epoch in epochs),
        "train_accuracy": tuple(epoch.train.accuracy for epoch in epochs),
        "test_loss": tuple(epoch.test.loss for epoch in epochs),
        "test_accuracy": tuple(epoch.test.accuracy for epoch in epochs),
    }
    return tuple(
        Series(quantity=name, unit="s" if name == "epoch_time" else "1", samples=samples)
        for name, samples in found.items()
    )


def evaluate(module: nn.Module, part: Prepared) -> Score:
    """Loss and accuracy in evaluation mode, without gradients; the mode is put back afterwards.

    The output is summed up in float32, whatever precision an ``autocast`` around the call gives.
    """
    before = module.training
    module.eval()
    loss, right = 0.0, 0
    try:
        with torch.no_grad():
            for inputs, labels in zip(
                torch.split(part.inputs, _EVALUATED_AT_ONCE),
                torch.split(part.labels, _EVALUATED_AT_ONCE),
                strict=True,
            ):
                output = module(inputs).float()
                loss += functional.cross_entropy(output, labels, reduction="sum").item()
                right += int((output.argmax(dim=1) == labels).sum().item())
    finally:
        module.train(before)
    return Score(loss / len(part.labels), right / len(part.labels))


def _steps(module: nn.Module, part: Prepared, optimizer: torch.optim.Optimizer) -> Iterator[float]:
    """The loss of each step of one epoch, in an order drawn from torch's random numbers."""
    module.train()
    # Drawn on the CPU, so that every device sees the same order.
    order = torch.randperm(len(part.labels)).to(part.labels.device)
    for chosen in torch.split(order, BATCH):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(module(part.inputs[chosen]), part.labels[chosen])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield loss.item()


def _finite(loss: float, step: int) -> float:
    if not math.isfinite(loss):
        raise MeasurementError(
            f"Training diverged: the loss of step {step:,} is {loss}; take a smaller learning rate."
        )
    return loss
