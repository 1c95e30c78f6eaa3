"""Compared settings of published tables, and families of networks by their names in timm.

- timm: a library of image networks, whose authors publish the tables.
- Switch: timm's option to normalize in float16 instead of float32 under mixed precision.
- Eager: without ``torch.compile``.
"""

import re
from functools import cache
from typing import Final, NamedTuple

from report.studies.gpu_survey.source import Setting


class SettingChange(NamedTuple):
    """A change of settings; rates are compared at equal batches unless ``any_batch``."""

    name: str
    before: Setting
    after: Setting
    any_batch: bool = False


RTX_3090, RTX_4090, RTX_5090 = (f"NVIDIA GeForce RTX {model}" for model in (3090, 4090, 5090))
PRO_6000: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
#: Name of a GPU in records → name in the paper.
GPU_NAMES: Final = {
    RTX_3090: "RTX 3090", RTX_4090: "RTX 4090", RTX_5090: "RTX 5090", PRO_6000: "PRO 6000 Max-Q",
}  # fmt: skip
#: Eager settings with PyTorch 2.4.0.
_ON_3090, _ON_4090_TORCH_24 = Setting(RTX_3090, "2.4.0"), Setting(RTX_4090, "2.4.0")
#: Eager settings with PyTorch 2.9.1, in which the switch can change the rates of twins.
EAGER_SETTINGS: Final = tuple(Setting(gpu, "2.9.1") for gpu in (RTX_4090, PRO_6000, RTX_5090))
ON_4090, ON_PRO, ON_5090 = EAGER_SETTINGS
#: Eager settings of the three GPUs that are compared with the RTX 5090.
OTHER_GPU_SETTINGS: Final = (_ON_3090, ON_4090, ON_PRO)
CHANNELS_LAST: Final = tuple(s._replace(layout="nhwc") for s in (_ON_3090, _ON_4090_TORCH_24))
#: One more setting in which the switch can change rates, and three in which it cannot: with pure
#: bfloat16 and with an old PyTorch.
CONTROL_SETTINGS: Final = {
    "PRO 6000, mixed bfloat16, compiled": ON_PRO.compiled._replace(precision="amp_bf16"),
    "PRO 6000, pure bfloat16, compiled": ON_PRO.compiled._replace(precision="bf16"),
    "RTX 3090, PyTorch 2.4.0": _ON_3090,
    "RTX 4090, PyTorch 2.4.0": _ON_4090_TORCH_24,
}
#: Names of transformers with a normalization before the first block.  The two groups of the
#: pattern join to the name of the twin: the same network without this normalization.
PRE_NORMALIZED_NAMES: Final = r"^(vit_\w+_patch\d+)_clip(_\d+)$"

#: Id → step from one GPU to a newer GPU, whose gain data sheets predict.  Steps with an RTX 5090
#: are compiled, because its eager rates seem to contain the cost of float32.
STEPS: Final = {
    "3090_to_4090": SettingChange("3090 to 4090, eager", _ON_3090, _ON_4090_TORCH_24),
    "4090_to_5090_compiled": SettingChange(
        "4090 to 5090, compiled", ON_4090.compiled, ON_5090.compiled
    ),
    "5090_to_pro_compiled": SettingChange(
        "5090 to PRO 6000 Max-Q, compiled", ON_5090.compiled, ON_PRO.compiled, any_batch=True
    ),
}


def _to_channels_last(before: Setting) -> SettingChange:
    name, after = f"{GPU_NAMES[before.device]}, {before.torch}", before._replace(layout="nhwc")
    return SettingChange(f"{name}, channels-last", before, after, any_batch=True)


COMPARISONS: Final = {
    **STEPS,
    "4090_to_5090": SettingChange("4090 to 5090, eager", ON_4090, ON_5090),
    "4090_to_5090_any_batch": SettingChange(
        "4090 to 5090, eager, any batch", ON_4090, ON_5090, any_batch=True
    ),
    "4090_to_pro": SettingChange("4090 to PRO 6000 Max-Q, eager", ON_4090, ON_PRO, any_batch=True),
    "pro_to_5090": SettingChange("PRO 6000 Max-Q to 5090, eager", ON_PRO, ON_5090, any_batch=True),
    "layout_on_4090": _to_channels_last(_ON_4090_TORCH_24),
    "layout_on_3090": _to_channels_last(_ON_3090),
    "layout_on_3090_torch_2_1": _to_channels_last(Setting(RTX_3090, "2.1.0")),
    "layout_on_3090_torch_1_13": _to_channels_last(Setting(RTX_3090, "1.13")),
    "torch_on_4090": SettingChange("RTX 4090, two versions", _ON_4090_TORCH_24, ON_4090),
}
#: Id of an eager comparison with an RTX 5090 under PyTorch 2.9.1 → the older GPU in tables.
TO_5090: Final = {"4090_to_5090": "4090", "pro_to_5090": "PRO"}
#: Ids of the changes to channels-last on the oldest GPU, under three versions of PyTorch.
LAYOUTS_ON_3090: Final = "layout_on_3090", "layout_on_3090_torch_2_1", "layout_on_3090_torch_1_13"
#: The network of the worked example, by its name in timm.
EXAMPLE_NETWORK: Final = "resnet50"
#: CNNs that timm publishes with batch and with group normalization, and their names in timm.
BACKBONES: Final = {
    "ResNetV2-50d": "resnetv2_50d", "ResNet-50": EXAMPLE_NETWORK,
    "EfficientNet-B0": "efficientnet_b0",
}  # fmt: skip
#: Names of all networks but ``BACKBONES`` with group norm, which calibrate the cost of float32.
HELD_OUT_NAMES: Final = rf"^(?!({'|'.join(BACKBONES.values())})_gn$)"
#: More backbones with batch and group norm; their bytes with batch norm are not counted.
OTHER_BACKBONES: Final = {"test_efficientnet": "test_efficientnet", "RegNetY-040": "regnety_040"}
#: A CNN with evonorm, which computes the variance of groups by operators without the switch.
EVONORM_NETWORK: Final = "resnetv2_50d_evos"
#: Names of BiT networks: CNNs with group normalization that channels-last does not slow down.
BIT_NAMES: Final = "_bit$"
#: Names of networks that timm 1.0.22 lacks and 1.0.23 has, by the wheels on PyPI.
NEW_TIMM_NAMES: Final = r"^csatv2|^vit_(dwee|dpwee|dlittle)_"

#: Names of networks with attention or mixers, which are no CNNs even if they have convolutions.
_OTHER_NAMES: Final = re.compile(
    r"(?<!rep)vit|xcit|deit|beit|swin|^eva|cait|coat|volo|^pit|^pvt|twins|^tnt|caformer"
    r"|nest_(?=tiny|small|base)|hiera|efficientformer|swiftformer|aimv|halo|bot(net|next)|lamb"
    r"|^bat_|edgenext|csatv|visformer|^convit"
    r"|(?<!conv)mixer|(res|g)mlp|poolformer|sequencer|focalnet"
)
#: Names of CNNs.  The first two lines name networks with depthwise convolutions.
_CNN_NAMES: Final = re.compile(
    r"efficientnet|mobilenet|nasnet|mixnet|fbnet|tinynet|lcnet|ghost|rexnet|hardcore|starnet"
    r"|mobileone|repvit|conv(next|former|mixer)|xception|inception_next|mambaout|rdnet"
    r"|resn|vgg|regnet|densenet|inception|darknet|edgenet|nfnet|dla|dpn|hrnet|hgnet|vovnet"
    r"|res2ne|senet|selecsls|gernet|fasternet|byobnet"
)


def is_cnn(network: str) -> bool | None:
    """Tell by its name in timm whether a network is a CNN; None if the name decides nothing."""
    if _OTHER_NAMES.search(network):
        return False
    return True if _CNN_NAMES.search(network) else None


#: Families of CNNs by their normalization; a CNN with several kinds belongs to the rarest kind.
BATCH_NORM_CNNS, LAYER_NORM_CNNS = "CNN, batch norm", "CNN, layer norm"
GROUP_NORM_CNNS, _OTHER_CNNS = "CNN, group norm", "CNN, other"
#: Families of CNNs whose layer or RMS normalization can be switched.
LAYER_OR_RMS_CNNS: Final = (LAYER_NORM_CNNS, _OTHER_CNNS)
#: Operator of a normalization → family of CNNs.
_CNNS_BY_NORM: Final = {
    "native_batch_norm": BATCH_NORM_CNNS,
    "native_layer_norm": LAYER_NORM_CNNS,
    "native_group_norm": GROUP_NORM_CNNS,
    None: _OTHER_CNNS,
}
#: Families of transformers behind a ResNet with group (of 32 groups) or batch normalization.
GROUP_NORM_HYBRIDS, BATCH_NORM_HYBRIDS = "ViT/ResNet, group", "ViT/ResNet, batch"
#: Family of networks whose group normalization has one group.
ONE_GROUP_NETWORKS: Final = "PoolFormer, MobileViTv2"
EFFICIENTFORMERS: Final = "EfficientFormerV2"
OTHER_NETWORKS: Final = "Other networks"
_NAMES_BY_FAMILY: Final = {
    GROUP_NORM_HYBRIDS: re.compile(r"^vit_\w+_r\d*_s\d+"),
    BATCH_NORM_HYBRIDS: re.compile(r"^vit_\w+_resnet\d+d_"),
    ONE_GROUP_NETWORKS: re.compile(r"^(poolformer|mobilevitv2)"),
    EFFICIENTFORMERS: re.compile(r"^efficientformerv2"),
}
CNNS: Final = tuple(_CNNS_BY_NORM.values())
FAMILIES: Final = (*CNNS, *_NAMES_BY_FAMILY, OTHER_NETWORKS)
#: Label of a figure → families whose normalizations can be switched.
SWITCHABLE_FAMILIES: Final = {
    GROUP_NORM_CNNS: (GROUP_NORM_CNNS,), GROUP_NORM_HYBRIDS: (GROUP_NORM_HYBRIDS,),
    "CNN, layer or RMS norm": LAYER_OR_RMS_CNNS,
    "Other transformers": (OTHER_NETWORKS, BATCH_NORM_HYBRIDS),
}  # fmt: skip


@cache
def family_of(network: str, norm: str | None) -> str:
    """Return the family of a network; ``norm`` is the operator of its rarest normalization."""
    if is_cnn(network):
        return _CNNS_BY_NORM[norm]
    families = (family for family, names in _NAMES_BY_FAMILY.items() if names.search(network))
    return next(families, OTHER_NETWORKS)
