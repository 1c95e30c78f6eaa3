"""A network trained once in a run, and what it makes of every test image in each precision."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from experiments.harness.measure import precisely
from experiments.harness.study import SEED, CaseFile, Device, Factors, Results, Session
from report.records.record import Series

if TYPE_CHECKING:
    import torch
    from torch import nn

    from experiments.datasets import Images
    from experiments.harness.training import History

EPOCHS: Final = 4
_SCORED_AT_ONCE: Final = 100


@lru_cache(maxsize=1)
def images() -> Images:
    """The digits, as large as CIFAR-10's images."""
    from experiments.datasets import digits

    return digits(size=32, channels=3)


def trained(factors: Factors, session: Session) -> tuple[nn.Module, History | None]:
    """The network of a case, trained from the seed; once in a process."""
    return _trained(str(factors["network"]), session.device)


@lru_cache(maxsize=1)
def _trained(network: str, device: Device) -> tuple[nn.Module, History | None]:
    """Trained once in a run: the processes of other cases read its weights."""
    import torch

    from experiments.harness.runtime import shared_folder
    from experiments.harness.training import train
    from experiments.networks import catalogue

    torch.manual_seed(SEED)
    with torch.device(device):
        module = catalogue.network(network)
    weights = shared_folder() / f"{network}.{device}.pt"
    if weights.exists():
        module.load_state_dict(torch.load(weights, map_location=device))
        return module.eval(), None
    history = train(module, images(), epochs=EPOCHS)
    torch.save(module.state_dict(), weights)
    return module.eval(), history


def course(factors: Factors, session: Session) -> Results:
    """The course of the training, and which images it was made on."""
    from experiments.datasets import identity
    from experiments.harness.training import history_series

    _, history = trained(factors, session)
    assert history is not None
    yield from history_series(history)
    meaning = "which images were trained and tested on"
    yield CaseFile("images.json", meaning, identity(images()))


def image_results(factors: Factors, session: Session) -> Results:
    """``image_loss`` (nats) and ``image_correct`` of every test image, in their order.

    Beside them stands which weights gave the scores: the same in every precision.
    """
    from experiments.harness.training import prepared

    module, _ = trained(factors, session)
    _, test = prepared(images(), session.device)
    network, precision = str(factors["network"]), str(factors["precision"])
    losses, correct = scored(module, test.inputs, test.labels, precision, session.device)
    yield Series(quantity="image_loss", unit="1", samples=tuple(losses.tolist()))
    yield Series(quantity="image_correct", unit="1", samples=tuple(correct.long().tolist()))
    content = {
        "network": network,
        "images": images().digest,
        "weights": weights_digest(module),
    }
    yield CaseFile(
        f"weights.{network.lower()}-{precision}.json",
        f"SHA-256 of the weights of {network} that were scored in {precision}, and of the images",
        json.dumps(content, sort_keys=True).encode() + b"\n",
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


def weights_digest(module: nn.Module) -> str:
    """SHA-256 in hexadecimal over names and values of all parameters and running statistics."""
    whole = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        whole.update(name.encode())
        whole.update(tensor.cpu().contiguous().numpy().data)
    return whole.hexdigest()
