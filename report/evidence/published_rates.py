"""The published tables as plain rows, and what follows from a row by itself.

A table has a thousand networks with one sample each, so that a quantity for every cell would say
nothing that a row does not.  Quantities begin where rows become a distribution.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias, TypeGuard

from report.errors import StudyError
from report.records.imported_files import StoredImport
from report.records.network_counts import Counts

#: An element in half precision (B).
ELEMENT: Final = 2
#: Each result of a convolution or product is written once and read once.
TRANSFERS: Final = 2
#: Counts are printed with two decimals of a giga or mega; below this they are rounded by over 5 %.
_LEAST_MACS, _LEAST_ACTIVATIONS = 1e8, 1e5
#: Parameters are printed with two decimals of a million.
_ROUNDED: Final = 5_010
#: The image extent at which most of the networks were trained (px).
_USUAL: Final = 224

Family: TypeAlias = Literal["convolution", "depthwise", "attention", "mixer"]

#: What this paper calls a CNN.
CNNS: Final[tuple[Family, ...]] = ("convolution", "depthwise")


@dataclass(frozen=True)
class Work:
    """What one image takes: multiply-adds, results of convolutions and products, parameters.

    ``moved`` are the elements that operators read and write, each operand once, one operator after
    another, without parameters; None for counts that were published, which lack it.
    """

    multiply_adds: float
    outputs: float
    parameters: float
    moved: float | None = None

    @property
    def precise(self) -> bool:
        """Whether counts that were printed with two decimals have digits enough."""
        return self.multiply_adds >= _LEAST_MACS and self.outputs >= _LEAST_ACTIVATIONS


@dataclass(frozen=True)
class Row:
    """One network at one image extent: rate in images/s, and what one image takes.

    ``printed`` is as published, ``captured`` as theory counts it, None where theory has the network
    with other parameters or at another extent.
    """

    network: str
    family: Family | None
    image: int
    batch: int
    rate: float
    printed: Work
    captured: Work | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What two rows share that may be compared."""
        return self.network, self.image, self.batch

    @property
    def counts(self) -> Work:
        """Those of theory where it has them."""
        return self.captured or self.printed

    @property
    def work(self) -> float:
        """Achieved rate (FLOP/s): a multiply-add is two operations."""
        return 2 * self.counts.multiply_adds * self.rate

    def intensity(self, *, fused: bool = True) -> float:
        """Operations a byte (FLOP/B), with weights read once a batch.

        If all other operators are ``fused`` with them, results of convolutions and products are
        written once and read once.  Else every operator reads and writes memory, which rows that
        are not ``captured`` do not tell; theirs is 0.  Asked of rows that are ``counted``.
        """
        counts = self.counts
        moved = TRANSFERS * counts.outputs if fused else counts.moved
        if moved is None:
            return 0
        return 2 * counts.multiply_adds / (ELEMENT * (moved + counts.parameters / self.batch))

    @property
    def counted(self) -> bool:
        """Whether its counts have digits enough."""
        return bool(self.captured) or self.printed.precise


@dataclass(frozen=True)
class Setting:
    """What all rows of a table were measured with."""

    device: str
    torch: str
    layout: str = "nchw"
    compiler: str = "none"
    precision: str = "amp"
    direction: str = "inference"


@dataclass(frozen=True)
class Published:
    """One published table: the rows that have a rate."""

    setting: Setting
    file: str
    rows: tuple[Row, ...]


def published(
    imports: Iterable[StoredImport], networks: Iterable[Counts] = ()
) -> dict[Setting, Published]:
    """The tables by their settings, with what theory counts of ``networks``.

    Raises ``StudyError`` for a record without conditions or levels.
    """
    counted = {(each.network, each.side): each for each in networks if not each.refused}
    found: dict[Setting, Published] = {}
    for stored in imports:
        machine = stored.record.environment
        setting = Setting(
            machine.model,
            (machine.framework or "").removeprefix("PyTorch "),
            **{name: _condition(stored, name) for name in _CONDITIONS},
        )
        found[setting] = Published(setting, stored.file, tuple(_rows(stored, counted)))
    return found


_CONDITIONS: Final = ("layout", "compiler", "precision", "direction")


def _condition(stored: StoredImport, name: str) -> str:
    conditions = stored.record.conditions
    if name not in conditions:
        raise StudyError(
            f"data/{stored.file}: conditions.{name}: not found; import the file again with "
            f"--set {name}=…."
        )
    return str(conditions[name])


def _rows(stored: StoredImport, counted: Mapping[tuple[str, int], Counts]) -> Iterator[Row]:
    """The rows that have a rate; counts that a table leaves out are 0, which nothing counts on."""
    for index, case in enumerate(stored.record.cases):
        samples = {each.quantity: each.samples for each in case.series}
        if case.status == "ok" and _one(samples, "image_rate"):
            levels = [case.factors.get(name) for name in ("network", "image", "batch")]
            network, image, batch = levels
            if not (isinstance(network, str) and _extent(image) and _extent(batch)):
                raise StudyError(
                    f"data/{stored.file}: cases[{index}].factors: found {levels}, expected a "
                    "network, an image extent and a batch size; import the file again."
                )
            printed = Work(*(_one(samples, name) for name in _COUNTS))
            own = _captured(counted.get((network, image)), printed)
            rate = _one(samples, "image_rate")
            yield Row(network, family_of(network), image, batch, rate, printed, own)


_COUNTS: Final = ("multiply_adds", "activations", "parameters")


def _captured(counts: Counts | None, printed: Work) -> Work | None:
    """What theory counts if it has the network that was timed, known by its number of parameters.

    Some are timed with their branches merged, or were another version at that time.
    """
    if counts is None or abs(counts.parameters - printed.parameters) > _ROUNDED:
        return None
    outputs = counts.outputs + counts.attention_outputs
    return Work(counts.multiply_adds, outputs, counts.parameters, counts.moved)


def _extent(level: object) -> TypeGuard[int]:
    return isinstance(level, int) and level > 0


def _one(samples: Mapping[str, tuple[float, ...]], quantity: str) -> float:
    found = samples.get(quantity, ())
    return found[0] if len(found) == 1 else 0.0


def counted(table: Published) -> tuple[Row, ...]:
    """The CNNs of a table, each once, whose counts have digits enough; those of theory first."""
    rows = [row for row in table.rows if row.family in CNNS and row.counted]
    captured = {row.network for row in rows if row.captured}
    return once(row for row in rows if row.captured or row.network not in captured)


def once(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Each network once, at the image extent nearest to the usual one."""
    nearest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (abs(row.image - _USUAL), row.image, -row.batch)):
        nearest.setdefault(row.network, row)
    return tuple(nearest.values())


# ------------------------------------------------------------------------------------ families


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
