"""Published tables that gpu_survey compares, and the kinds of their networks, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import pandas as pd

from report.core.errors import StudyError
from report.core.records.store import StoredImport


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

    @property
    def brief(self) -> str:
        """The name without the line of the workstation's card and ``eager``, for legends."""
        return self.name.replace(" 6000 Max-Q", "").replace(" to ", "–").replace(", eager", "")


OLD, MIDDLE, NEW = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
CARDS: Final = (OLD, MIDDLE, NEW, PRO)
#: Settings of tables by card and version of PyTorch (24 is 2.4.0).
_OLD_24, _MID_24, _MID_29 = (
    Setting(OLD, "2.4.0"),
    Setting(MIDDLE, "2.4.0"),
    Setting(MIDDLE, "2.9.1"),
)
_NEW_29, _PRO_29 = Setting(NEW, "2.9.1"), Setting(PRO, "2.9.1")

#: Steps from one generation of cards to the next, by the id in the names of their values.
STEPS: Final = {
    "first": SettingChange("3090 to 4090, eager", _OLD_24, _MID_24),
    "second": SettingChange("4090 to 5090, eager", _MID_29, _NEW_29),
    "compiled": SettingChange("4090 to 5090, compiled", _MID_29.compiled, _NEW_29.compiled),
}
#: ``STEPS``, and three steps that were compared after the first predictors were chosen.
LADDER: Final = {
    **STEPS,
    # Both steps at once; each table has its own version of PyTorch.
    "both": SettingChange("3090 to 5090, eager", _OLD_24, _NEW_29),
    # The PRO 6000 has the 5090's generation and bandwidth, and twice its peak.  A * marks unequal
    # batches.
    "pro_eager": SettingChange("5090 to PRO 6000 Max-Q, eager*", _NEW_29, _PRO_29, any_batch=True),
    "pro": SettingChange(
        "5090 to PRO 6000 Max-Q, compiled*", _NEW_29.compiled, _PRO_29.compiled, any_batch=True
    ),
}
COMPARISONS: Final = {
    **LADDER,
    # The PRO 6000's table has the same versions of PyTorch and CUDA as the 5090's.
    "workstation": SettingChange("4090 to PRO 6000 Max-Q, eager", _MID_29, _PRO_29, any_batch=True),
    "workstation_compiled": SettingChange(
        "4090 to PRO 6000 Max-Q, compiled", _MID_29.compiled, _PRO_29.compiled, any_batch=True
    ),
    "longest": SettingChange("3090 to PRO 6000 Max-Q, eager", _OLD_24, _PRO_29, any_batch=True),
    "pro_same_batch": SettingChange(
        "5090 to PRO 6000 Max-Q, equal batch", _NEW_29.compiled, _PRO_29.compiled
    ),
    "any_batch": SettingChange("4090 to 5090, eager, any batch", _MID_29, _NEW_29, any_batch=True),
    # The same card with two versions of PyTorch, which shows how far rates of two tables agree.
    "unchanged": SettingChange("RTX 4090, two versions", _MID_24, _MID_29),
}
#: Composed steps to the PRO 6000, which no figure or table shows.
COMPOSED: Final = ("workstation", "workstation_compiled", "longest")
#: The network of the worked example, by its name in timm.
EXAMPLE: Final = "resnet50"
#: CNNs that timm publishes with several normalizations, by their names in timm.
BACKBONES: Final = {
    "ResNetV2-50d": "resnetv2_50d", "ResNet-50": EXAMPLE, "EfficientNet-B0": "efficientnet_b0",
}  # fmt: skip

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


#: CNNs by the operator of their rarest normalization.
GROUPED: Final = "CNN, group norm"
_CNNS_BY_NORM: Final = {
    "native_batch_norm": "CNN, batch norm",
    "native_layer_norm": "CNN, layer norm",
    "native_group_norm": GROUPED,
    None: "CNN, no norm",
}
#: Families of other networks by patterns of their names.  By timm's source the group normalizations
#: of ``HYBRIDS`` have 32 groups, those of ``ONE_GROUP`` have one.
HYBRIDS: Final = "ViT on ResNet"
ONE_GROUP: Final = "PoolFormer, MobileViTv2"
EFFICIENT: Final = "EfficientFormerV2"
_OTHERS: Final = "Other networks"
_BY_NAME: Final = {
    HYBRIDS: re.compile(r"^vit_\w+_r\d*_s\d+"),
    ONE_GROUP: re.compile(r"^(poolformer|mobilevitv2)"),
    EFFICIENT: re.compile(r"^efficientformerv2"),
}
FAMILIES: Final = (*_CNNS_BY_NORM.values(), *_BY_NAME, _OTHERS)


def family_of(network: str, norm: str | None) -> str:
    """Return the family, of ``FAMILIES``, of a network with the rarest normalization ``norm``."""
    if is_cnn(network):
        return _CNNS_BY_NORM[norm]
    return next((name for name, names in _BY_NAME.items() if names.search(network)), _OTHERS)


#: Rates are in images/s; parameters and multiply-adds of an image are as printed.
_TYPES: Final = {
    "network": str, "image": int, "batch": int, "parameters": float, "rate": float, "work": float,
}  # fmt: skip
_FACTORS: Final = [*_TYPES][:3]
_CONDITIONS: Final = Setting._fields[2:]


class Published(NamedTuple):
    """The record of one published table, and its rows that have a rate."""

    file: str = ""
    rows: pd.DataFrame = pd.DataFrame(columns=list(_TYPES)).astype(_TYPES)


def read_tables(imports: Iterable[StoredImport]) -> dict[Setting, Published]:
    """Read the tables by setting; raise ``StudyError`` for one without conditions or levels."""
    tables = {}
    for stored in imports:
        machine, conditions = stored.record.environment, stored.record.conditions
        for name in _CONDITIONS:
            if name not in conditions:
                raise StudyError(
                    f"data/{stored.file}: conditions.{name}: not found; import the file again with "
                    f"--set {name}=…."
                )
        version = (machine.framework or "").removeprefix("PyTorch ")
        setting = Setting(machine.model, version, *(str(conditions[n]) for n in _CONDITIONS))
        rows = pd.DataFrame(_rows(stored), columns=list(_TYPES)).astype(_TYPES)
        tables[setting] = Published(stored.file, rows)
    return tables


def _rows(stored: StoredImport) -> Iterator[tuple[object, ...]]:
    for index, case in enumerate(stored.record.cases):
        names = "image_rate", "parameters", "multiply_adds"
        rate, parameters, work = (case.series.get(name, ()) for name in names)
        if case.status != "ok" or len(rate) != 1 or not rate[0]:
            continue
        network, *sizes = levels = [case.factors.get(name) for name in _FACTORS]
        if not (isinstance(network, str) and all(isinstance(n, int) and n > 0 for n in sizes)):
            raise StudyError(
                f"data/{stored.file}: cases[{index}].factors: found {levels}, "
                "expected a network, an image size and a batch size; import the file again."
            )
        printed = (numbers[0] if len(numbers) == 1 else 0.0 for numbers in (parameters, rate, work))
        yield *levels, *printed
