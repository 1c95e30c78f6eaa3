"""The committed captures are what PyTorch runs today."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from experiments.theory import capturing
from experiments.theory.capturing import at_batch
from report.records.operations import Network
from report.theory.networks import Captured, Way, captured, file_of


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


def test_every_network_is_captured_again_and_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing = Network(storages=(), parameters={}, buffers={}, inputs=(), operators=())
    monkeypatch.setattr(capturing, "_captured", lambda *given: nothing)
    monkeypatch.setattr(capturing, "layers_of", lambda *given: ())
    kept = file_of("LeNet-5", 32).parent
    monkeypatch.setattr(capturing, "file_of", lambda *given: tmp_path / file_of(*given).name)
    capturing.write_networks()
    assert {p.name for p in tmp_path.iterdir()} == {p.name for p in kept.glob("*.gz")}
