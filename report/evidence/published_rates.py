"""The published tables of timm as plain rows: one network at one image size and batch, its rate.

A table has a thousand networks with one sample each, so that a quantity for every cell would say
nothing that a row does not.  Quantities begin where rows become a distribution.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias, TypeGuard

from report.errors import StudyError
from report.records.record import Sample
from report.records.store import StoredImport

#: The image size at which most of the networks were trained (px).
_USUAL: Final = 224
_CONDITIONS: Final = ("layout", "compiler", "precision", "direction")


Family: TypeAlias = Literal["convolution", "depthwise", "attention", "mixer"]

#: What the paper calls a CNN.
CNNS: Final[tuple[Family, ...]] = ("convolution", "depthwise")


class Row(NamedTuple):
    """A network at an image size and a batch: images/s, and parameters as printed."""

    network: str
    family: Family | None
    image: int
    batch: int
    rate: float
    parameters: float


class Setting(NamedTuple):
    """What all rows of a table were measured with."""

    device: str
    torch: str
    layout: str = "nchw"
    compiler: str = "none"
    precision: str = "amp"
    direction: str = "inference"


class Published(NamedTuple):
    """The record of one published table, and its rows that have a rate."""

    file: str
    rows: tuple[Row, ...]


def published(imports: Iterable[StoredImport]) -> dict[Setting, Published]:
    """The tables by their settings; raises ``StudyError`` for one without conditions or levels."""
    found: dict[Setting, Published] = {}
    for stored in imports:
        machine = stored.record.environment
        setting = Setting(
            machine.model,
            (machine.framework or "").removeprefix("PyTorch "),
            **{name: _condition(stored, name) for name in _CONDITIONS},
        )
        found[setting] = Published(stored.file, tuple(_rows(stored)))
    return found


def _condition(stored: StoredImport, name: str) -> str:
    conditions = stored.record.conditions
    if name not in conditions:
        raise StudyError(
            f"data/{stored.file}: conditions.{name}: not found; import the file again with "
            f"--set {name}=…."
        )
    return str(conditions[name])


def _rows(stored: StoredImport) -> Iterator[Row]:
    for index, case in enumerate(stored.record.cases):
        samples = case.series
        rate, parameters = (_one(samples, name) for name in ("image_rate", "parameters"))
        if case.status != "ok" or not rate:
            continue
        network, image, batch = (case.factors.get(name) for name in ("network", "image", "batch"))
        if not (isinstance(network, str) and _extent(image) and _extent(batch)):
            raise StudyError(
                f"data/{stored.file}: cases[{index}].factors: found {[network, image, batch]}, "
                "expected a network, an image size and a batch size; import the file again."
            )
        yield Row(network, family_of(network), image, batch, rate, parameters)


def _extent(level: object) -> TypeGuard[int]:
    return isinstance(level, int) and level > 0


def _one(samples: Mapping[str, tuple[Sample, ...]], quantity: str) -> float:
    found = samples.get(quantity, ())
    return found[0] if len(found) == 1 else 0.0


def once(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Each network once, at the image size nearest to the usual one."""
    nearest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (abs(row.image - _USUAL), row.image, -row.batch)):
        nearest.setdefault(row.network, row)
    return tuple(nearest.values())


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
