"""Compared settings of published tables, and families of networks by their names in timm."""

import re
from typing import Final, NamedTuple

from report.studies.gpu_survey.source import Setting


class SettingChange(NamedTuple):
    """A change from one setting to another, compared at equal batch sizes or at ``any_batch``."""

    name: str
    before: Setting
    after: Setting
    any_batch: bool = False


OLD, MIDDLE, NEW = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
CARDS: Final = {OLD: "RTX 3090", MIDDLE: "RTX 4090", NEW: "RTX 5090", PRO: "PRO 6000 Max-Q"}
#: Settings of eager tables by card and version of PyTorch (24 is 2.4.0).
_OLD_24, _MID_24 = Setting(OLD, "2.4.0"), Setting(MIDDLE, "2.4.0")
#: Eager settings (PyTorch 2.9.1) in which timm's switch can show in rates of twins.
EAGER_29: Final = tuple(Setting(card, "2.9.1") for card in (MIDDLE, PRO, NEW))
ON_4090, ON_PRO, ON_5090 = EAGER_29
#: Eager settings in which the price of a normalization is computed; the newest card is the last.
PRICED_SETTINGS: Final = (_OLD_24, *EAGER_29)
CHANNELS_LAST: Final = tuple(setting._replace(layout="nhwc") for setting in (_OLD_24, _MID_24))
#: One more setting where the switch can show; three where not: pure bfloat16, an old PyTorch.
CONTROL_SETTINGS: Final = {
    "PRO 6000, mixed bfloat16, compiled": ON_PRO.compiled._replace(precision="amp_bf16"),
    "PRO 6000, pure bfloat16, compiled": ON_PRO.compiled._replace(precision="bf16"),
    "RTX 3090, PyTorch 2.4.0": _OLD_24,
    "RTX 4090, PyTorch 2.4.0": _MID_24,
}
#: Names of transformers with a normalization before the first block.  The groups of the pattern
#: make the name of the twin, the same network without this normalization.
PRE_NORMALIZED_NAMES: Final = r"^(vit_\w+_patch\d+)_clip(_\d+)$"

#: Id → step from one card to a newer card, whose gain data sheets predict.  Steps with an RTX 5090
#: are compiled: its eager rates seem to contain the price of float32.
STEPS: Final = {
    "first": SettingChange("3090 to 4090, eager", _OLD_24, _MID_24),
    "compiled": SettingChange("4090 to 5090, compiled", ON_4090.compiled, ON_5090.compiled),
    "pro": SettingChange(
        "5090 to PRO 6000 Max-Q, compiled", ON_5090.compiled, ON_PRO.compiled, any_batch=True
    ),
}


def _to_channels_last(before: Setting) -> SettingChange:
    name, after = f"{CARDS[before.device]}, {before.torch}", before._replace(layout="nhwc")
    return SettingChange(f"{name}, channels-last", before, after, any_batch=True)


COMPARISONS: Final = {
    **STEPS,
    "second": SettingChange("4090 to 5090, eager", ON_4090, ON_5090),
    "workstation": SettingChange("4090 to PRO 6000 Max-Q, eager", ON_4090, ON_PRO, any_batch=True),
    "any_batch": SettingChange("4090 to 5090, eager, any batch", ON_4090, ON_5090, any_batch=True),
    "from_pro": SettingChange("PRO 6000 Max-Q to 5090, eager", ON_PRO, ON_5090, any_batch=True),
    "layout": _to_channels_last(_MID_24),
    "old_layout": _to_channels_last(_OLD_24),
    "old_layout_21": _to_channels_last(Setting(OLD, "2.1.0")),
    "old_layout_113": _to_channels_last(Setting(OLD, "1.13")),
    "unchanged": SettingChange("RTX 4090, two versions", _MID_24, ON_4090),
}
#: Ids of the changes to channels-last on the oldest card, under three versions of PyTorch.
OLD_LAYOUTS: Final = "old_layout", "old_layout_21", "old_layout_113"
#: The network of the worked example, by its name in timm.
EXAMPLE: Final = "resnet50"
#: CNNs that timm publishes with batch and with group normalization, and their names in timm.
BACKBONES: Final = {
    "ResNetV2-50d": "resnetv2_50d", "ResNet-50": EXAMPLE, "EfficientNet-B0": "efficientnet_b0",
}  # fmt: skip
#: Names of networks from which float32's price is not calibrated: no backbone with group norm.
HELD_OUT_NAMES: Final = rf"^(?!({'|'.join(BACKBONES.values())})_gn$)"
#: Two more backbones, whose bytes with batch normalization are not counted.
UNCOUNTED: Final = {"test_efficientnet": "test_efficientnet", "RegNetY-040": "regnety_040"}
#: A CNN with evonorm, which computes the variance of groups by operators without the switch.
EVONORM: Final = "resnetv2_50d_evos"
#: Names of CNNs with group normalization that the layout does not slow down.
BIT_NAMES: Final = "_bit$"
#: Names of networks that timm 1.0.22 lacks and 1.0.23 has, by the wheels on PyPI.
LATER_NAMES: Final = r"^csatv2|^vit_(dwee|dpwee|dlittle)_"

#: Names of networks with attention or mixers, which are no CNNs even if they have convolutions.
_NO_CNNS: Final = re.compile(
    r"(?<!rep)vit|xcit|deit|beit|swin|^eva|cait|coat|volo|^pit|^pvt|twins|^tnt|caformer"
    r"|nest_(?=tiny|small|base)|hiera|efficientformer|swiftformer|aimv|halo|bot(net|next)|lamb"
    r"|^bat_|edgenext|csatv|visformer|^convit"
    r"|(?<!conv)mixer|(res|g)mlp|poolformer|sequencer|focalnet"
)
#: Names of CNNs: first those with depthwise convolutions.
_CNNS: Final = re.compile(
    r"efficientnet|mobilenet|nasnet|mixnet|fbnet|tinynet|lcnet|ghost|rexnet|hardcore|starnet"
    r"|mobileone|repvit|conv(next|former|mixer)|xception|inception_next|mambaout|rdnet"
    r"|resn|vgg|regnet|densenet|inception|darknet|edgenet|nfnet|dla|dpn|hrnet|hgnet|vovnet"
    r"|res2ne|senet|selecsls|gernet|fasternet|byobnet"
)


def is_cnn(network: str) -> bool | None:
    """Tell by its name whether a network is a CNN; None if no rule decides."""
    if _NO_CNNS.search(network):
        return False
    return True if _CNNS.search(network) else None


#: Families of CNNs by their normalization; of several kinds the rarest counts.
BATCH, LAYER, GROUPED = "CNN, batch norm", "CNN, layer norm", "CNN, group norm"
_OTHER_NORM: Final = "CNN, other"
#: Families of CNNs whose layer or RMS normalization can be switched.
LAYER_OR_RMS: Final = (LAYER, _OTHER_NORM)
#: Operator of a normalization → family.
_CNNS_BY_NORM: Final = {
    "native_batch_norm": BATCH,
    "native_layer_norm": LAYER,
    "native_group_norm": GROUPED,
    None: _OTHER_NORM,
}
#: Families of other networks: group normalization with 32 groups, batch norm, one group.
HYBRIDS: Final = "ViT/ResNet, group"
BATCH_HYBRIDS: Final = "ViT/ResNet, batch"
ONE_GROUP: Final = "PoolFormer, MobileViTv2"
EFFICIENT: Final = "EfficientFormerV2"
OTHERS: Final = "Other networks"
_BY_NAME: Final = {
    HYBRIDS: re.compile(r"^vit_\w+_r\d*_s\d+"),
    BATCH_HYBRIDS: re.compile(r"^vit_\w+_resnet\d+d_"),
    ONE_GROUP: re.compile(r"^(poolformer|mobilevitv2)"),
    EFFICIENT: re.compile(r"^efficientformerv2"),
}
CNNS: Final = tuple(_CNNS_BY_NORM.values())
FAMILIES: Final = (*CNNS, *_BY_NAME, OTHERS)
#: Label of a figure → families whose normalizations can be switched.
SWITCHED: Final = {
    GROUPED: (GROUPED,), HYBRIDS: (HYBRIDS,), "CNN, layer or RMS norm": LAYER_OR_RMS,
    "Other transformers": (OTHERS, BATCH_HYBRIDS),
}  # fmt: skip


def family_of(network: str, norm: str | None) -> str:
    """Return the family of a network; ``norm``: operator of its rarest normalization."""
    if is_cnn(network):
        return _CNNS_BY_NORM[norm]
    return next((name for name, pattern in _BY_NAME.items() if pattern.search(network)), OTHERS)
