"""A network trained once in a run, and what it makes of every test image in each precision.

It is trained as PyTorch's MNIST example (github.com/pytorch/examples, mnist/main.py): with Adadelta
from a learning rate of 1.0, multiplied by 0.7 after each epoch, in batches of 64 drawn anew each
epoch, on pixels normalised with the mean and the standard deviation of the training images.
Imports torch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from experiments.datasets import Images, digits
from experiments.harness.measure import precisely
from experiments.harness.runtime import shared_folder
from experiments.harness.study import SEED, Device, Factors, Results, Session
from experiments.networks import catalogue

EPOCHS: Final = 4
_BATCH: Final = 64
_LEARNING_RATE: Final = 1.0
_GAMMA: Final = 0.7
_SCORED_AT_ONCE: Final = 100


@lru_cache(maxsize=1)
def images() -> Images:
    """The digits, as large as CIFAR-10's images."""
    return digits(size=32, channels=3)


def image_results(factors: Factors, session: Session) -> Results:
    """``image_loss`` (nats) and ``image_correct`` of every test image, in their order.

    The scores of the network are summed up in float32, whatever their precision.
    """
    module = trained(str(factors["network"]), session.device)
    parts = []
    with torch.no_grad(), precisely(str(factors["precision"]), session.device):
        inputs, labels = prepared(images(), session.device)[1]
        for part in torch.split(inputs, _SCORED_AT_ONCE):
            parts.append(module(part).float())
    scores = torch.cat(parts)
    losses = functional.cross_entropy(scores, labels, reduction="none")
    correct = (scores.argmax(dim=1) == labels).long()
    yield "image_loss", tuple(losses.tolist())
    yield "image_correct", tuple(correct.tolist())


def trained(network: str, device: Device) -> nn.Module:
    """The network in evaluation mode, trained by the first process of a run that asks for it.

    The others read its weights, so that every precision scores the same.
    """
    torch.manual_seed(SEED)
    with torch.device(device):
        module = catalogue.network(network)
    weights = shared_folder() / f"{network}.{device}.pt"
    if weights.exists():
        module.load_state_dict(torch.load(weights, map_location=device))
    else:
        train(module, images(), device)
        torch.save(module.state_dict(), weights)
    return module.eval()


def train(module: nn.Module, images: Images, device: Device) -> list[float]:
    """Train ``module`` in place from the seed, and return the loss of every step (nats).

    The order of the images is drawn on the CPU, so that every device sees the same.
    """
    inputs, labels = prepared(images, device)[0]
    optimizer = torch.optim.Adadelta(module.parameters(), lr=_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=_GAMMA)
    losses = []
    torch.manual_seed(SEED)
    module.train()
    for _ in range(EPOCHS):
        for chosen in torch.split(torch.randperm(len(labels)).to(device), _BATCH):
            optimizer.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(module(inputs[chosen]), labels[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    return losses


def prepared(images: Images, device: Device) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Training and test images ``(N, C, H, W)``, normalised, with their labels ``(N,)``.

    With mean and standard deviation of each channel of the training images; whole numbers are
    summed, so that no order can change them.
    """
    pixels = images.train.pixels.astype(np.int64)
    mean, square = (np.mean(values, (0, 2, 3), keepdims=True) for values in (pixels, pixels**2))
    deviation = np.sqrt(square - mean**2)
    return [
        (
            torch.from_numpy(((part.pixels - mean) / deviation).astype(np.float32)).to(device),
            torch.from_numpy(part.labels.astype(np.int64)).to(device),
        )
        for part in (images.train, images.test)
    ]
