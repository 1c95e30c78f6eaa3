"""A network trained once in a run, and what it makes of every test image in each precision."""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from experiments.harness.study import SEED, CaseFile, Device, Factors, Session
from report.records.record import Series

if TYPE_CHECKING:
    import torch
    from torch import nn

    from experiments.datasets import Images
    from experiments.harness.training import History

EPOCHS: Final = 4
_SCORED_AT_ONCE: Final = 100


def precisely(precision: str, device: Device) -> AbstractContextManager[object]:
    """``torch.autocast`` to a reduced precision; nothing for float32."""
    import torch

    if precision == "float32":
        return nullcontext()
    return torch.autocast(device, dtype=getattr(torch, precision))


@lru_cache(maxsize=1)
def images() -> Images:
    """The digits, as large as CIFAR-10's images."""
    from experiments.datasets import digits

    return digits(size=32, channels=3)


def trained(factors: Factors, session: Session) -> tuple[nn.Module, History]:
    """The network of a case, trained from the seed; once in a process."""
    return _trained(str(factors["network"]), session.device)


@lru_cache(maxsize=1)
def _trained(network: str, device: Device) -> tuple[nn.Module, History]:
    import torch

    from experiments.harness.training import train
    from experiments.networks import catalogue

    torch.manual_seed(SEED)
    with torch.device(device):
        module = catalogue.network(network)
    history = train(module, images(), epochs=EPOCHS)
    return module.eval(), history


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


def image_series(factors: Factors, session: Session) -> tuple[Series, ...]:
    """``image_loss`` (nats) and ``image_correct`` of every test image, in their order."""
    from experiments.harness.training import prepared

    module, _ = trained(factors, session)
    _, test = prepared(images(), session.device)
    losses, correct = scored(
        module, test.inputs, test.labels, str(factors["precision"]), session.device
    )
    return (
        Series(quantity="image_loss", unit="1", samples=tuple(losses.tolist())),
        Series(quantity="image_correct", unit="1", samples=tuple(correct.long().tolist())),
    )


def scored(
    module: nn.Module,
    inputs: torch.Tensor,
    labels: torch.Tensor,
    precision: str,
    device: Device,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy in nats ``(N,)`` and whether the largest score is the label's ``(N,)``.

    The scores of the network are summed up in float32, whatever their precision.
    """
    import torch
    from torch.nn import functional

    parts = []
    with torch.no_grad(), precisely(precision, device):
        for part in torch.split(inputs, _SCORED_AT_ONCE):
            parts.append(module(part).float())
    scores = torch.cat(parts)
    losses = functional.cross_entropy(scores, labels, reduction="none")
    return losses.cpu(), (scores.argmax(dim=1) == labels).cpu()


def images_file() -> CaseFile:
    """Which images were trained and tested on."""
    from experiments.datasets import identity

    return CaseFile(
        name="images.json",
        meaning="which images were trained and tested on",
        content=identity(images()),
    )


def weights_file(factors: Factors, session: Session) -> CaseFile:
    """Which weights gave the scores: the same in every precision."""
    network, precision = str(factors["network"]), factors["precision"]
    content = {
        "network": network,
        "images": images().digest,
        "weights": weights_digest(trained(factors, session)[0]),
    }
    return CaseFile(
        name=f"weights.{network.lower()}-{precision}.json",
        meaning=f"SHA-256 of the weights of {network} that were scored in {precision}, and of the "
        "images",
        content=json.dumps(content, sort_keys=True).encode() + b"\n",
    )


def weights_digest(module: nn.Module) -> str:
    """SHA-256 in hexadecimal over names and values of all parameters and running statistics."""
    whole = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        whole.update(name.encode())
        whole.update(tensor.cpu().contiguous().numpy().data)
    return whole.hexdigest()
