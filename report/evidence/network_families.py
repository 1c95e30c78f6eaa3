"""Families of networks, known by their names, since the published tables say no more of them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Family: TypeAlias = Literal["convolution", "depthwise", "attention", "mixer"]

#: What this paper calls a CNN.
CNNS: Final[tuple[Family, ...]] = ("convolution", "depthwise")

#: In this order, since a hybrid such as MobileViT has attention whatever its convolutions are.
_RULES: Final[tuple[tuple[Family, str], ...]] = (
    (
        "attention",
        r"(?<!rep)vit|xcit|deit|beit|swin|^eva|cait|coat|volo|^pit|^pvt|twins|^tnt|caformer"
        r"|nest_(?=tiny|small|base)|hiera|efficientformer|swiftformer|aimv|halo|bot(net|next)|lamb"
        r"|^bat_|edgenext|csatv|visformer|^convit",
    ),
    ("mixer", r"(?<!conv)mixer|(res|g)mlp|poolformer|sequencer|focalnet"),
    (
        "depthwise",
        r"efficientnet|mobilenet|nasnet|mixnet|fbnet|tinynet|lcnet|ghost|rexnet|hardcore|starnet"
        r"|mobileone|repvit|conv(next|former|mixer)|xception|inception_next|mambaout|rdnet",
    ),
    (
        "convolution",
        r"resn|vgg|regnet|densenet|inception|darknet|edgenet|nfnet|dla|dpn|hrnet|hgnet|vovnet"
        r"|res2ne|senet|selecsls|gernet|fasternet|byobnet",
    ),
)


@lru_cache(maxsize=4096)
def family_of(network: str) -> Family | None:
    """The family of a network; None for a name that no rule knows, which no group then holds."""
    return next((family for family, rule in _RULES if re.search(rule, network)), None)
