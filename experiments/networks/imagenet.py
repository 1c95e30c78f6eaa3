"""What networks for images of 224 × 224 pixels have in common."""

from __future__ import annotations

from torch import nn

CLASSES = 1000
HIDDEN = 4096


def classifier(features: int, in_place: bool) -> dict[str, nn.Module]:
    """The three linear layers behind a flattened map of ``features`` elements an image."""
    return {
        "flatten": nn.Flatten(),
        "dropout1": nn.Dropout(0.5),
        "fc1": nn.Linear(features, HIDDEN),
        "relu_fc1": nn.ReLU(in_place),
        "dropout2": nn.Dropout(0.5),
        "fc2": nn.Linear(HIDDEN, HIDDEN),
        "relu_fc2": nn.ReLU(in_place),
        "fc3": nn.Linear(HIDDEN, CLASSES),
    }
