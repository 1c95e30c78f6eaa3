"""What theory counts of timm's networks: one file, read strictly, with oracles by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.errors import RecordError
from report.records import COUNTS
from report.records.network_counts import read_counts, write_counts
from tests import factory

FILE = factory.ROOT / "data" / COUNTS


def test_counts_are_those_by_hand() -> None:
    """ResNet-50 and MobileNetV2 at 224 pixels, by the shapes of their layers."""
    found = {each.network: each for each in read_counts(FILE)}
    assert all(each.exact for each in found.values() if not each.refused)
    for name, parameters, macs in (
        ("resnet50", 25_557_032, 4_089_184_256),
        ("mobilenetv2_100", 3_504_872, 300_774_272),
    ):
        assert (found[name].parameters, found[name].multiply_adds) == (parameters, macs)


def test_each_operand_of_an_operator_is_moved_once() -> None:
    """VGG-11: ReLU and pooling read and write maps that convolutions have written.

    Five stages of 1, 1, 2, 2, 2 convolutions of 64 to 512 channels at 224 to 14 pixels, then three
    products, which move less than one part in a hundred.
    """
    maps = [64 * 224**2, 128 * 112**2, *2 * [256 * 56**2], *2 * [512 * 28**2], *2 * [512 * 14**2]]
    pooled = [64 * 112**2, 128 * 56**2, 256 * 28**2, 512 * 14**2, 512 * 7**2]
    read = [3 * 224**2, *pooled[:2], maps[2], pooled[2], maps[4], pooled[3], maps[6]]
    before = [maps[i] for i in (0, 1, 3, 5, 7)]
    # Pooling also writes where each maximum was, in integers of twice the size.
    others = 2 * sum(maps) + sum(before) + (1 + 2) * sum(pooled)
    least = sum(maps) + sum(read) + others
    (vgg,) = (each for each in read_counts(FILE) if each.network == "vgg11")
    assert least <= vgg.moved < 1.01 * least


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    found = read_counts(FILE)
    write_counts(tmp_path / COUNTS, found)
    assert (tmp_path / COUNTS).read_bytes() == FILE.read_bytes()
    assert read_counts(tmp_path / "none.csv") == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("3x224x224", "square", "line 2: "),
        ("1234958336", "-1", "line 2: Expected `int` >= 0"),
        ("1234958336", "many", "line 2: Expected `int`"),
        ("\naimv2_1b_patch14_224", "\nx,aimv2_1b_patch14_224", "line 2: "),
        ("outputs", "out", "line 2: "),
        ("aimv2_1b_patch14_336", "aimv2_1b_patch14_224", "stands twice"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = FILE.read_text("utf-8")
    assert old in text
    (tmp_path / COUNTS).write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(RecordError, match=said) as caught:
        read_counts(tmp_path / COUNTS)
    assert str(caught.value).count("\n") == 0 and str(caught.value).endswith("git.")
