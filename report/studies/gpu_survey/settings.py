"""Which published tables are compared with which; the template has the words."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Final

from report.evidence.published_gains import Comparison
from report.evidence.published_rates import Setting

OLD, MIDDLE, NEW = CARDS = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
#: The newest software that each card was measured with.
_NEWEST: Final = {OLD: "2.4.0", MIDDLE: "2.9.1", NEW: "2.9.1", PRO: "2.9.1"}
#: Networks of the other studies, as timm calls them, and as papers do.
NAMED: Final = {
    "mobilenetv2_100": "MobileNetV2", "resnet18": "ResNet-18", "resnet50": "ResNet-50",
    "vgg16": "VGG-16",
}  # fmt: skip


def short(card: str) -> str:
    """How figures and tables call a card."""
    return card.removeprefix("NVIDIA ").removeprefix("GeForce ").partition(" Blackwell")[0]


def eager(card: str) -> Setting:
    """A card with its newest software, as PyTorch runs a network by default."""
    return Setting(card, _NEWEST[card])


def compiled(card: str) -> Setting:
    """The same with the network compiled."""
    return replace(eager(card), compiler="dynamo")


def _layout(torch: str, direction: str = "inference", card: str = OLD) -> tuple[Setting, Setting]:
    first = Setting(card, torch, direction=direction)
    return first, replace(first, layout="nhwc")


_BF16: Final = replace(compiled(PRO), precision="amp_bf16")
_CPU: Final = Setting("Intel Core i9-10940X", "2.4.0", compiler="dynamo", precision="fp32")
_BEFORE, _LAST = _layout("2.4.0", card=MIDDLE)
#: What changes between two tables, by its id: all of one batch of runs first.
COMPARISONS: Final = {
    id: Comparison(name, before, after)
    for id, name, before, after in (
        ("compiled_4090", "Compile, RTX 4090", eager(MIDDLE), compiled(MIDDLE)),
        ("compiled_5090", "Compile, RTX 5090", eager(NEW), compiled(NEW)),
        ("compiled_6000", "Compile, RTX PRO 6000", eager(PRO), compiled(PRO)),
        ("last_113", "Channels last, PyTorch 1.13", *_layout("1.13")),
        ("last_210", "Channels last, PyTorch 2.1", *_layout("2.1.0")),
        ("last_240", "Channels last, PyTorch 2.4", *_layout("2.4.0")),
        ("last_4090", "Channels last, RTX 4090", _BEFORE, _LAST),
        ("last_training", "Channels last, training", *_layout("1.12", "training")),
        ("bf16", "AMP: bfloat16 for float16", compiled(PRO), _BF16),
        ("pure_bf16", "All bfloat16 for AMP", _BF16, replace(_BF16, precision="bf16")),
        ("compiled_last", "Compile for channels last", _LAST, replace(_BEFORE, compiler="dynamo")),
        ("card_4090", "RTX 3090 to 4090", eager(OLD), _BEFORE),
        ("card_5090", "RTX 4090 to 5090", eager(MIDDLE), eager(NEW)),
        ("instead", "Compiled 4090 for eager 5090", eager(NEW), compiled(MIDDLE)),
        ("torch_210", "RTX 3090, PyTorch 1.13 to 2.1", Setting(OLD, "1.13"), Setting(OLD, "2.1.0")),
        ("torch_240", "RTX 3090, PyTorch 2.1 to 2.4", Setting(OLD, "2.1.0"), eager(OLD)),
        ("torch_291", "RTX 4090, PyTorch 2.4 to 2.9", _BEFORE, eager(MIDDLE)),
        ("cpu_240", "i9-10940X, PyTorch 2.2 to 2.4", replace(_CPU, torch="2.2.1"), _CPU),
        ("cpu", "i9-10940X to i7-12700H", _CPU, replace(_CPU, device="Intel Core i7-12700H")),
    )
}  # fmt: skip
COMPILING, CHANNELS_LAST = tuple(COMPARISONS)[:3], tuple(COMPARISONS)[3:8]
AGAINST_CARD: Final = ("card_4090", "card_5090", *COMPILING)
AGAINST_ITSELF: Final = ("torch_210", "torch_240", "torch_291", "cpu_240")
BY_INTENSITY: Final = ("compiled_5090", "last_240", "bf16")
#: Classes of the intensity of operators one by one (FLOP/B), by their ends.
CLASSES: Final = tuple(pairwise((0, 25, 50, 100, inf)))
