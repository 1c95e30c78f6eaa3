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
#: Settings of tables by card and version of PyTorch (24 is 2.4.0); ``_NHWC`` is of the 4090.
_MID_24, _MID_29 = Setting(MIDDLE, "2.4.0"), Setting(MIDDLE, "2.9.1")
_NEW_29, _PRO_29 = Setting(NEW, "2.9.1"), Setting(PRO, "2.9.1")
_NHWC: Final = _MID_24._replace(layout="nhwc")

#: Steps from one generation of cards to the next, by the id in the names of their values.
STEPS: Final = {
    "first": SettingChange("3090 to 4090, eager", Setting(OLD, "2.4.0"), _MID_24),
    "second": SettingChange("4090 to 5090, eager", _MID_29, _NEW_29),
    "compiled": SettingChange("4090 to 5090, compiled", _MID_29.compiled, _NEW_29.compiled),
}
#: ``STEPS``, and three held-out steps, unused when the predictors were chosen.
LADDER: Final = {
    **STEPS,
    # Both steps at once; each table has its own version of PyTorch.
    "both": SettingChange("3090 to 5090, eager", Setting(OLD, "2.4.0"), _NEW_29),
    # The PRO 6000 has the 5090's generation and bandwidth, and twice its peak.  A * marks unequal
    # batches.
    "pro_eager": SettingChange("5090 to PRO 6000 Max-Q, eager*", _NEW_29, _PRO_29, any_batch=True),
    "pro": SettingChange(
        "5090 to PRO 6000 Max-Q, compiled*", _NEW_29.compiled, _PRO_29.compiled, any_batch=True
    ),
}
#: Gains by compiling on one card, over either memory layout.
COMPILING: Final = {
    "compile_4090": SettingChange("RTX 4090", _MID_29, _MID_29.compiled),
    "compile_5090": SettingChange("RTX 5090", _NEW_29, _NEW_29.compiled),
    "compile_6000": SettingChange("PRO 6000 Max-Q", _PRO_29, _PRO_29.compiled),
    "compile_last": SettingChange("RTX 4090, from NHWC", _NHWC, _MID_24.compiled, any_batch=True),
}
COMPARISONS: Final = {
    **LADDER,
    **COMPILING,
    # A compiled network on the 4090 instead of an eager one on the 5090.
    "instead": SettingChange("4090 compiled vs. 5090 eager", _NEW_29, _MID_29.compiled),
    # The PRO 6000's table has the same versions of PyTorch and CUDA as the 5090's.
    "workstation": SettingChange("4090 to PRO 6000 Max-Q, eager", _MID_29, _PRO_29, any_batch=True),
    "pro_same_batch": SettingChange(
        "5090 to PRO 6000 Max-Q, compiled, equal batch", _NEW_29.compiled, _PRO_29.compiled
    ),
    # The second step without the condition of equal batches.
    "any_batch": SettingChange("4090 to 5090, eager, any batch", _MID_29, _NEW_29, any_batch=True),
    # The same card with two versions of PyTorch, which shows how far rates of two tables agree.
    "unchanged": SettingChange("RTX 4090, two versions", _MID_24, _MID_29),
}
#: The network whose operators are shown: its name in timm, and in the paper.
EXAMPLE: Final = "resnet50", "ResNet-50"

#: Names of networks with attention or mixers.  They are matched first, since a hybrid such as
#: MobileViT is no CNN, whatever its convolutions are.
_NO_CNNS: Final = re.compile(
    r"(?<!rep)vit|xcit|deit|beit|swin|^eva|cait|coat|volo|^pit|^pvt|twins|^tnt|caformer"
    r"|nest_(?=tiny|small|base)|hiera|efficientformer|swiftformer|aimv|halo|bot(net|next)|lamb"
    r"|^bat_|edgenext|csatv|visformer|^convit"
    r"|(?<!conv)mixer|(res|g)mlp|poolformer|sequencer|focalnet"
)
#: Names of networks of depthwise and of other convolutions.
_CNNS: Final = re.compile(
    r"efficientnet|mobilenet|nasnet|mixnet|fbnet|tinynet|lcnet|ghost|rexnet|hardcore|starnet"
    r"|mobileone|repvit|conv(next|former|mixer)|xception|inception_next|mambaout|rdnet"
    r"|resn|vgg|regnet|densenet|inception|darknet|edgenet|nfnet|dla|dpn|hrnet|hgnet|vovnet"
    r"|res2ne|senet|selecsls|gernet|fasternet|byobnet"
)


@lru_cache(maxsize=4096)
def is_cnn(network: str) -> bool | None:
    """Tell by its name if a network is a CNN; None if no rule decides."""
    if _NO_CNNS.search(network):
        return False
    return True if _CNNS.search(network) else None
