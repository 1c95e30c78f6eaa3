"""Photographs from a folder: what is read of them, in which order, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.datasets import DataSetError, check
from experiments.datasets.image_folder import photographs
from tests.experiments.conftest import measured


def photograph(path: Path, size: tuple[int, int] = (50, 40), colour: str = "red") -> None:
    image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.new("RGB", size, colour).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, JPEG and PNG, as Imagenette lies on a disk."""
    for name, colour in (("n01/a.JPEG", "red"), ("n01/b.png", "blue"), ("n02/c.jpg", "green")):
        photograph(tmp_path / "small/train" / name, colour=colour)
    photograph(tmp_path / "small/val/n01/d.png")
    return tmp_path / "small"


def test_a_folder_of_classes(folder: Path) -> None:
    found = photographs(folder)
    assert found.classes == ("n01", "n02")
    assert [(image.path.name, image.label) for image in found.images] == [
        ("a.JPEG", 0),
        ("b.png", 0),
        ("c.jpg", 1),
    ]
    assert photographs(folder / "train") == found


def test_a_folder_that_cannot_be_used(folder: Path, tmp_path: Path) -> None:
    def refused(place: Path, words: str) -> None:
        with pytest.raises(DataSetError, match=words):
            check("folder", place)

    refused(tmp_path / "nowhere", "nowhere: cannot be read")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no folder with images")
    (folder / "train/n03").mkdir()
    refused(folder, "n03: found no image")
    (folder / "train/n03/x.png").write_text("a letter")
    refused(folder, "x.png: byte 0: found the bytes 61 20 6c 65")
    (folder / "train/n03/x.png").write_bytes(b"")
    refused(folder, "x.png: byte 0: found an empty file")


def test_batches_of_photographs(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    from experiments.datasets.image_folder import DEVIATION, MEAN, batches

    def take(workers: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        found = batches(photographs(folder), 4, 24, workers=workers, seed=3, pinned=False)
        return [next(found) for _ in range(2)]

    first, again = take(0), take(0)
    for (images, _), (others, _) in zip(first, again, strict=True):
        assert images.shape == (4, 3, 24, 24) and images.dtype == torch.float32
        assert torch.equal(images, others)
    # Every photograph has one colour, which is known before and tells its class.
    colours = {(255, 0, 0): 0, (0, 0, 255): 0, (0, 128, 0): 1}
    for images, labels in (*first, *take(1)):
        for image, label in zip(images, labels.tolist(), strict=True):
            plain = image.flatten(1).T * torch.tensor(DEVIATION) + torch.tensor(MEAN)
            seen = (255 * plain).mean(0)
            nearest = min(colours, key=lambda c: float((seen - torch.tensor(c)).abs().sum()))
            assert (seen - torch.tensor(nearest)).abs().max() < 4
            assert colours[nearest] == label


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_photograph_ends_in_one_sentence(folder: Path, workers: int) -> None:
    pytest.importorskip("torch")
    from experiments.datasets.image_folder import batches

    for path in (folder / "train").rglob("*.*"):
        path.write_bytes(path.read_bytes()[:200])
    found = batches(photographs(folder), 4, 24, workers=workers, seed=0, pinned=False)
    with pytest.raises(DataSetError, match=r"cannot be decoded \(.*\); leave it out\.$"):
        next(found)


def test_training_on_photographs(folder: Path, tmp_path: Path) -> None:
    words = ["--threads", "1", "--data", str(folder)]
    for setting in ("network=ResNet-18", "image=32", "batch=2", "sweep=batch"):
        words += ["--set", setting]
    stored = measured("training_roofline", tmp_path / "data", *words)
    plain, real = stored.record.cases
    assert plain.samples("loader_wait_time") == ()
    assert len(real.samples("loader_wait_time")) == len(real.samples("time"))
    assert [file.name for file in stored.record.attachments] == ["images.json"]
    assert "small" in stored.record.command and str(folder) not in stored.record.command
