"""The committed captures are what PyTorch runs today."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from experiments.theory.capturing import at_batch
from report.theory.networks import Captured, Way, captured


@pytest.mark.parametrize(
    ("name", "image", "way"),
    [
        ("LeNet-5", 32, Way("channels_last")),
        ("ResNet-20", 32, Way("contiguous", "bfloat16")),
        ("ResNet-20", 32, Way("contiguous", "float16")),
        ("AlexNet", 224, Way("channels_last", "bfloat16")),
    ],
)
def test_a_network_is_captured_again_at_another_batch(name: str, image: int, way: Way) -> None:
    kept = captured(name, image, way)
    assert isinstance(kept, Captured)
    assert kept.at(5) == at_batch(name, image, way, 5)
