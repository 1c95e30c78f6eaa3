"""Which published tables are compared with which; the template has the words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from report.evidence.published_gains import Comparison
from report.evidence.published_rates import Setting

CARDS: Final = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
OLD, MIDDLE, NEW = CARDS
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
#: How figures and tables call them.
SHORT: Final = {card: card.removeprefix("NVIDIA GeForce ") for card in CARDS} | {
    PRO: "RTX PRO 6000 Max-Q"
}
#: The newest software that each card was measured with.
NEWEST: Final = {OLD: "2.4.0", MIDDLE: "2.9.1", NEW: "2.9.1", PRO: "2.9.1"}
#: Networks of the other studies, as timm calls them, and as papers do.
NAMED: Final = {
    "mobilenetv2_100": "MobileNetV2",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "vgg16": "VGG-16",
}


def eager(card: str) -> Setting:
    """A card with its newest software, as PyTorch runs a network by default."""
    return Setting(card, NEWEST[card])


def compiled(card: str) -> Setting:
    """The same with the network compiled."""
    return replace(eager(card), compiler="dynamo")


def _layout(torch: str, direction: str = "inference", card: str = OLD) -> tuple[Setting, Setting]:
    first = Setting(card, torch, direction=direction)
    return first, replace(first, layout="nhwc")


_BF16: Final = replace(compiled(PRO), precision="amp_bf16")
#: What changes between two tables, by its id: all of one batch of runs first.
COMPARISONS: Final = {
    "compiled_4090": Comparison("Compile, RTX 4090", eager(MIDDLE), compiled(MIDDLE)),
    "compiled_5090": Comparison("Compile, RTX 5090", eager(NEW), compiled(NEW)),
    "compiled_6000": Comparison("Compile, RTX PRO 6000", eager(PRO), compiled(PRO)),
    "last_113": Comparison("Channels last, PyTorch 1.13", *_layout("1.13")),
    "last_210": Comparison("Channels last, PyTorch 2.1", *_layout("2.1.0")),
    "last_240": Comparison("Channels last, PyTorch 2.4", *_layout("2.4.0")),
    "last_4090": Comparison("Channels last, RTX 4090", *_layout("2.4.0", card=MIDDLE)),
    "last_training": Comparison("Channels last, training", *_layout("1.12", "training")),
    "bf16": Comparison("AMP: bfloat16 for float16", compiled(PRO), _BF16),
    "pure_bf16": Comparison("All bfloat16 for AMP", _BF16, replace(_BF16, precision="bf16")),
    "compiled_last": Comparison(
        "Compile for channels last, RTX 4090",
        _layout("2.4.0", card=MIDDLE)[1],
        Setting(MIDDLE, "2.4.0", compiler="dynamo"),
    ),
    "card_4090": Comparison(
        "RTX 3090 to 4090", Setting(OLD, "2.4.0"), Setting(MIDDLE, "2.4.0")
    ),
    "card_5090": Comparison("RTX 4090 to 5090", eager(MIDDLE), eager(NEW)),
    "instead": Comparison("Compiled 4090 for eager 5090", eager(NEW), compiled(MIDDLE)),
    "torch_210": Comparison(
        "RTX 3090, PyTorch 1.13 to 2.1", Setting(OLD, "1.13"), Setting(OLD, "2.1.0")
    ),
    "torch_240": Comparison(
        "RTX 3090, PyTorch 2.1 to 2.4", Setting(OLD, "2.1.0"), Setting(OLD, "2.4.0")
    ),
    "torch_291": Comparison(
        "RTX 4090, PyTorch 2.4 to 2.9", Setting(MIDDLE, "2.4.0"), eager(MIDDLE)
    ),
}  # fmt: skip
#: What one batch of runs compares; what cards and versions do, in which machines may differ too.
WITHIN: Final = tuple(COMPARISONS)[:10]
COMPILING, CHANNELS_LAST = WITHIN[:3], WITHIN[3:8]
AGAINST_CARD: Final = ("card_4090", "card_5090", "compiled_4090", "compiled_5090", "compiled_6000")
AGAINST_ITSELF: Final = ("torch_210", "torch_240", "torch_291")
#: Classes of intensity (FLOP/B), each from its number to the next.
CLASSES: Final = (0, 50, 100, 200, 400)
