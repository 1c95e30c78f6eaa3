"""Which published tables are compared with which; the template has the words."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Final

from report.evidence.published_rates import CNNS, Setting
from report.evidence.published_survey import Comparison, Series

OLD, MIDDLE, NEW = CARDS = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
#: The newest software that each card was measured with.
_NEWEST: Final = {OLD: "2.4.0", MIDDLE: "2.9.1", NEW: "2.9.1", PRO: "2.9.1"}
#: Networks of the other studies and outliers, as timm calls them, and as papers do.
NAMED: Final = {"mobilenetv2_100": "MobileNetV2", "resnet50": "ResNet-50", "vgg16": "VGG-16"}
OUTLIERS: Final = {"convmixer_1536_20": "ConvMixer-1536/20"}
#: Networks whose gains are printed, of the comparison, by the ids of their values.
GAINS: Final = {
    "dla46_gain": ("compiled_5090", "dla46x_c"),
    "dla60_gain": ("compiled_5090", "dla60x_c"), "kernel_7": ("compiled_5090", "convmixer_768_32"),
    "mixer_4090": ("compiled_4090", "convmixer_1536_20"),
    "mixer_5090": ("compiled_5090", "convmixer_1536_20"),
    "patch_4090": ("compiled_4090", "convmixer_1024_20_ks9_p14"),
    "patch_5090": ("compiled_5090", "convmixer_1024_20_ks9_p14"),
}  # fmt: skip
#: Names of networks with group normalisation, or in one case layer normalisation.
NORMALISED: Final = r"_s?gn$|_bit$|^test_\w+_ln$"


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
_BEFORE, _LAST = _layout("2.4.0", card=MIDDLE)
_OVER_LAST: Final = (_LAST, replace(_BEFORE, compiler="dynamo"))
#: What changes between two tables, by its id; v is the version of PyTorch.
COMPARISONS: Final = {
    id: Comparison(name, before, after, any_batch=id == "compiled_any")
    for id, name, before, after in (
        ("card_4090", "RTX 3090 to 4090, v2.4", eager(OLD), _BEFORE),
        ("card_5090", "RTX 4090 to 5090, v2.9", eager(MIDDLE), eager(NEW)),
        ("card_compiled", "4090 to 5090, compiled, v2.9", compiled(MIDDLE), compiled(NEW)),
        ("compiled_4090", "Compile, RTX 4090, v2.9", eager(MIDDLE), compiled(MIDDLE)),
        ("compiled_5090", "Compile, RTX 5090, v2.9", eager(NEW), compiled(NEW)),
        ("compiled_6000", "Compile, PRO 6000, v2.9", eager(PRO), compiled(PRO)),
        ("compiled_last", "Compile for NHWC, 4090, v2.4", *_OVER_LAST),
        ("compiled_any", "The same, any batch", *_OVER_LAST),
        ("instead", "Compiled 4090 for eager 5090", eager(NEW), compiled(MIDDLE)),
        ("last_113", "NHWC, RTX 3090, v1.13", *_layout("1.13")),
        ("last_210", "NHWC, RTX 3090, v2.1", *_layout("2.1.0")),
        ("last_240", "NHWC, RTX 3090, v2.4", *_layout("2.4.0")),
        ("last_4090", "NHWC, RTX 4090, v2.4", _BEFORE, _LAST),
        ("last_training", "NHWC, training, v1.12", *_layout("1.12", "training")),
        ("bf16", "bfloat16 for float16, AMP", compiled(PRO), _BF16),
        ("pure_bf16", "All bfloat16 for AMP", _BF16, replace(_BF16, precision="bf16")),
        ("torch_291", "RTX 4090, v2.4 to v2.9", _BEFORE, eager(MIDDLE)),
    )
}  # fmt: skip
COMPILING, CHANNELS_LAST = tuple(COMPARISONS)[3:6], tuple(COMPARISONS)[9:14]
AGAINST_CARD = tuple(COMPARISONS)[:8]
#: What is shown by class of intensity, panel by panel.
BY_CARD: Final = (
    (Series("eager", "card_4090", CNNS),),
    (Series("eager", "card_5090", CNNS), Series("compiled", "card_compiled", CNNS)),
)
BY_FAMILY: Final = tuple(
    (Series("plain", id, CNNS[:1]), Series("depthwise", id, CNNS[1:]))
    for id in ("compiled_5090", "last_240")
)
#: Rates that differ by less are called equal: about what most of them differ by between versions.
MARGIN: Final = 0.05
#: Classes of the intensity of operators one by one (FLOP/B), by their ends.
CLASSES: Final = tuple(pairwise((0, 25, 50, 100, inf)))
