"""Published tables that gpu_survey compares, and the names of CNNs among their networks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple


class Setting(NamedTuple):
    """Conditions under which all rates of a published table were measured."""

    device: str
    torch: str
    layout: str = "nchw"
    compiler: str = "none"
    precision: str = "amp"
    direction: str = "inference"

    @property
    def compiled(self) -> Setting:
        """The same setting with ``torch.compile``."""
        return self._replace(compiler="dynamo")


class SettingChange(NamedTuple):
    """A change from one setting to another; figures and tables call it ``name``.

    Rates at unequal batch sizes are compared only in a comparison of ``any_batch``, whose tables
    have hardly a batch in common.
    """

    name: str
    before: Setting
    after: Setting
    any_batch: bool = False


OLD, MIDDLE, NEW = GEFORCE = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
CARDS: Final = (*GEFORCE, PRO)
_BEFORE, _AFTER, _NEWEST = Setting(MIDDLE, "2.4.0"), Setting(MIDDLE, "2.9.1"), Setting(NEW, "2.9.1")
_PRO: Final = Setting(PRO, "2.9.1")
_LAST: Final = _BEFORE._replace(layout="nhwc")

#: The steps from a card to the next one, by the ids of their values.
STEPS: Final = {
    "first": SettingChange("3090 to 4090, eager", Setting(OLD, "2.4.0"), _BEFORE),
    "second": SettingChange("4090 to 5090, eager", _AFTER, _NEWEST),
    "compiled": SettingChange("4090 to 5090, compiled", _AFTER.compiled, _NEWEST.compiled),
}
#: These steps, and three on which no rule was chosen.
LADDER: Final = {
    **STEPS,
    # Both steps at once, with the versions of PyTorch of each table.
    "both": SettingChange("3090 to 5090, eager", Setting(OLD, "2.4.0"), _NEWEST),
    # A card of the newest generation with the same bandwidth and twice the peak; * marks unequal
    # batches.
    "pro_eager": SettingChange("5090 to PRO 6000 Max-Q, eager*", _NEWEST, _PRO, any_batch=True),
    "pro": SettingChange(
        "5090 to PRO 6000 Max-Q, compiled*", _NEWEST.compiled, _PRO.compiled, any_batch=True
    ),
}
#: Gains by compiling on one card, over either memory layout.
COMPILING: Final = {
    "compile_4090": SettingChange("RTX 4090", _AFTER, _AFTER.compiled),
    "compile_5090": SettingChange("RTX 5090", _NEWEST, _NEWEST.compiled),
    "compile_6000": SettingChange("PRO 6000 Max-Q", _PRO, _PRO.compiled),
    "compile_last": SettingChange("RTX 4090, from NHWC", _LAST, _BEFORE.compiled, any_batch=True),
}
COMPARISONS: Final = {
    **LADDER,
    **COMPILING,
    # A compiled network on the older card for an eager one on the newer.
    "instead": SettingChange("4090 compiled vs. 5090 eager", _NEWEST, _AFTER.compiled),
    # A card of the newest generation with the same versions of PyTorch and CUDA as the newest one.
    "workstation": SettingChange("4090 to PRO 6000 Max-Q, eager", _AFTER, _PRO, any_batch=True),
    "pro_same_batch": SettingChange(
        "5090 to PRO 6000 Max-Q, compiled, equal batch", _NEWEST.compiled, _PRO.compiled
    ),
    # The second step without the condition of equal batches.
    "any_batch": SettingChange("4090 to 5090, eager, any batch", _AFTER, _NEWEST, any_batch=True),
    # The same card with two versions of PyTorch, which shows how far rates of two tables agree.
    "unchanged": SettingChange("RTX 4090, two versions", _BEFORE, _AFTER),
}
#: A network whose operators are shown.
EXAMPLE: Final = "resnet50", "ResNet-50"

#: Networks of attention or of mixers, asked first: a hybrid such as MobileViT has attention
#: whatever its convolutions are.
_OTHERS: Final = re.compile(
    r"(?<!rep)vit|xcit|deit|beit|swin|^eva|cait|coat|volo|^pit|^pvt|twins|^tnt|caformer"
    r"|nest_(?=tiny|small|base)|hiera|efficientformer|swiftformer|aimv|halo|bot(net|next)|lamb"
    r"|^bat_|edgenext|csatv|visformer|^convit"
    r"|(?<!conv)mixer|(res|g)mlp|poolformer|sequencer|focalnet"
)
#: Networks of depthwise convolutions, and of others.
_CNNS: Final = re.compile(
    r"efficientnet|mobilenet|nasnet|mixnet|fbnet|tinynet|lcnet|ghost|rexnet|hardcore|starnet"
    r"|mobileone|repvit|conv(next|former|mixer)|xception|inception_next|mambaout|rdnet"
    r"|resn|vgg|regnet|densenet|inception|darknet|edgenet|nfnet|dla|dpn|hrnet|hgnet|vovnet"
    r"|res2ne|senet|selecsls|gernet|fasternet|byobnet"
)


@lru_cache(maxsize=4096)
def is_cnn(network: str) -> bool | None:
    """Tell by its name if a network is a CNN; None if no rule decides."""
    if _OTHERS.search(network):
        return False
    return True if _CNNS.search(network) else None
