"""Published tables of many networks: their rows, and gains of a change between two of them.

A table has a thousand networks with one sample each, so that a quantity for every cell would say
nothing that a row does not; quantities begin where rows become a distribution.  Each network counts
once.  Rows are compared only where they share network, image size, batch and number of parameters.

A gain stands beside the one that the roofline predicts (Williams, Waterman and Patterson 2009): the
time of some work is the longer of its operations at the peak rate and its bytes at the bandwidth.
Applied operator by operator it adds the longer times; applied to a whole network it takes the
longer of the sums, which is never more: what one operator lacks in arithmetic another cannot make
up for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import correlation
from typing import Final, Literal, NamedTuple, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from report.errors import StudyError
from report.evidence.cached import cached
from report.evidence.devices import Devices
from report.quantity.distribution import NO_TABLE, Distribution
from report.quantity.expression import Leaf, absent, exact
from report.records import OPERATORS
from report.records.network_operators import NetworkOperators
from report.records.store import StoredImport

#: The image size at which most of the networks were trained (px).
_USUAL: Final = 224
_CONDITIONS: Final = ("layout", "compiler", "precision", "direction")
#: An element in half precision (B).
ELEMENT: Final = 2
#: Parameters are printed with two decimals of a million.
_ROUNDED: Final = 5_010
#: Operators that a compiler leaves where they are; others it merges into the one before them, so
#: that they move nothing.
KEPT: Final = frozenset({
    "convolution", "addmm", "mm", "bmm", "baddbmm", "linear", "max_pool2d_with_indices",
    "avg_pool2d", "_adaptive_avg_pool2d", "mean", "var", "native_group_norm", "native_layer_norm",
    "upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d", "cat",
})  # fmt: skip
#: Operators that normalize, a kind each.
NORMS: Final = ("native_batch_norm", "native_layer_norm", "native_group_norm")

#: How a gain is predicted: by the roofline of each operator, of each with the last cache, of what a
#: compiler leaves, of the whole network.
Way: TypeAlias = Literal["operators", "cached", "merged", "network"]
Vector: TypeAlias = npt.NDArray[np.float64]


class Row(NamedTuple):
    """A network at an image size and a batch: images/s, and parameters as printed.

    ``cnn`` is None of a name that is not known, which no comparison then holds.
    """

    network: str
    cnn: bool | None
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
        machine, conditions = stored.record.environment, stored.record.conditions
        for name in _CONDITIONS:
            if name not in conditions:
                raise StudyError(
                    f"data/{stored.file}: conditions.{name}: not found; import the file again with "
                    f"--set {name}=…."
                )
        setting = Setting(
            machine.model,
            (machine.framework or "").removeprefix("PyTorch "),
            **{name: str(conditions[name]) for name in _CONDITIONS},
        )
        found[setting] = Published(stored.file, tuple(_rows(stored)))
    return found


def _rows(stored: StoredImport) -> Iterator[Row]:
    for index, case in enumerate(stored.record.cases):
        samples = case.series
        rate, parameters = (
            found[0] if len(found := samples.get(name, ())) == 1 else 0.0
            for name in ("image_rate", "parameters")
        )
        if case.status != "ok" or not rate:
            continue
        network, image, batch = (case.factors.get(name) for name in ("network", "image", "batch"))
        if not (isinstance(network, str) and _extent(image) and _extent(batch)):
            raise StudyError(
                f"data/{stored.file}: cases[{index}].factors: found {[network, image, batch]}, "
                "expected a network, an image size and a batch size; import the file again."
            )
        yield Row(network, is_cnn(network), image, batch, rate, parameters)


def _extent(level: object) -> TypeGuard[int]:
    return isinstance(level, int) and level > 0


def once(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Each network once, at the image size nearest to the usual one."""
    nearest: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: (abs(row.image - _USUAL), row.image, -row.batch)):
        nearest.setdefault(row.network, row)
    return tuple(nearest.values())


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
    """Whether a network is one of convolutions, by its name; None if no rule knows that."""
    if _OTHERS.search(network):
        return False
    return True if _CNNS.search(network) else None


class Card(NamedTuple):
    """A card by its data sheet: peak in half precision (FLOP/s), bandwidth (B/s), L2 (B)."""

    device: str
    peak: float
    bandwidth: float
    cache: float

    def quantity(self, what: Literal["peak", "bandwidth", "cache"]) -> Leaf:
        """One number of the data sheet."""
        unit = {"peak": "FLOP/s", "bandwidth": "B/s", "cache": "B"}[what]
        return exact(f"{what}({self.device})", unit, getattr(self, what), "devices.yaml")


def cards(devices: Devices, names: Collection[str]) -> dict[str, Card]:
    """The cards whose peaks and cache are known, by their names."""
    found = {}
    for name in names:
        device = devices.find(name)
        rates = [device and device.peak(each) for each in ("float16", "memory", "cache")]
        if all(rates):
            found[name] = Card(name, *(peak.rate for peak in rates if peak))
    return found


class Networks:
    """Networks by name and image size, with the operators of all of them in one row.

    What is asked of ``batches`` takes one for each network.
    """

    def __init__(self, networks: Sequence[NetworkOperators]) -> None:
        self.found = {(each.network, each.side): each for each in networks}
        operators = [each for network in networks for each in network.operators]
        reads = [each for operator in operators for each in operator.reads]
        counts = np.array([len(each.operators) for each in networks], int)
        self._network = np.repeat(np.arange(len(counts)), counts)
        self._work = np.fromiter((each.multiply_adds for each in operators), float)
        self._weights = np.fromiter((each.weights for each in operators), float)
        self._writes = np.fromiter((each.writes for each in operators), float)
        self._kept = np.fromiter((each.name in KEPT for each in operators), bool)
        counts = np.array([len(each.reads) for each in operators], int)
        self._reader = np.repeat(np.arange(len(counts)), counts)
        self._elements = np.fromiter((each.elements for each in reads), float)
        self._distance = np.fromiter((each.distance for each in reads), float)

    @cached_property
    def names(self) -> dict[tuple[str, int], frozenset[str]]:
        """The names of the operators of each network."""
        return {key: frozenset(o.name for o in each.operators) for key, each in self.found.items()}

    def moved(self, batches: Sequence[int], cache: float = 0.0) -> Vector:
        """Bytes that each operator must move: weights once, each tensor read or written once.

        A tensor is not read from memory where all that was touched since fits into the ``cache``
        (B).
        """
        batch = np.array(batches, float)[self._network]
        far = (self._distance < 0) | (ELEMENT * batch[self._reader] * self._distance > cache)
        read = np.bincount(self._reader[far], self._elements[far], len(batch))
        found: Vector = ELEMENT * (self._weights + batch * (read + self._writes))
        return found

    def limits(
        self, batches: Sequence[int], card: Card, cache: float = 0.0
    ) -> tuple[Vector, Vector]:
        """The time of each operator (s) by the peak of ``card``, and by its bandwidth."""
        work: Vector = 2 * np.array(batches, float)[self._network] * self._work
        return work / card.peak, self.moved(batches, cache) / card.bandwidth

    def seconds(self, batches: Sequence[int], card: Card, way: Way) -> Vector:
        """The time of one batch of each network (s) that the roofline of ``card`` allows."""
        times = self.limits(batches, card, card.cache if way == "cached" else 0.0)
        if way == "network":
            return np.maximum(*(self._sums(each, batches) for each in times))
        slower = np.maximum(*times)
        return self._sums(slower * self._kept if way == "merged" else slower, batches)

    def intensities(self, batches: Sequence[int]) -> Vector:
        """Operations for each byte that the operators of each network move."""
        work = 2 * np.array(batches, float) * self._sums(self._work, batches)
        return work / self._sums(self.moved(batches), batches)

    def _sums(self, numbers: Vector, batches: Sequence[int]) -> Vector:
        """The sum over the operators of each network, added one after the other.

        So it is the same on every processor and with every version of numpy.
        """
        return np.bincount(self._network, numbers, len(batches)).astype(float)


class Comparison(NamedTuple):
    """A change from one setting to another; ``name`` is what figures and tables call it."""

    name: str
    before: Setting
    after: Setting


@dataclass(frozen=True, eq=False)
class Pairs:
    """The CNNs that both tables of a comparison hold: each with its rows before and after.

    ``predicted`` are those whose operators are known, on cards whose data sheets are.
    """

    comparison: Comparison
    rows: tuple[tuple[Row, Row], ...]
    files: tuple[str, ...]
    networks: Networks
    cards: Mapping[str, Card]

    @property
    def gain(self) -> Distribution:
        """Rate after over rate before."""
        found = {before.network: after.rate / before.rate for before, after in self.rows}
        return self._of(f"gain({self.comparison.name})", found, self.files)

    @cached_property
    def known(self) -> dict[str, tuple[Row, Row, NetworkOperators]]:
        """The pairs whose operators are known: same image size and number of parameters."""
        found = {}
        for before, after in self.rows:
            network = self.networks.found.get((before.network, before.image))
            if network and abs(network.parameters - before.parameters) <= _ROUNDED:
                found[before.network] = before, after, network
        return found if {s.device for s in self.comparison[1:3]} <= self.cards.keys() else {}

    @cached_property
    def _batches(self) -> list[int]:
        """The batch of each known pair, and 1 of the networks that are in none."""
        found = {(row.network, row.image): row.batch for row, *_ in self.known.values()}
        return [found.get(key, 1) for key in self.networks.found]

    def _known(self, numbers: Vector) -> dict[str, float]:
        """Of a number for each network, those of the known pairs."""
        by_network = dict(zip(self.networks.found, numbers.tolist(), strict=True))
        return {name: by_network[row.network, row.image] for name, (row, *_) in self.known.items()}

    @cached
    def predicted(self, way: Way) -> Distribution:
        """The gain that the rooflines of both cards predict."""
        found = {}
        if self.known:
            both = (self.cards[each.device] for each in self.comparison[1:3])
            before, after = (self.networks.seconds(self._batches, card, way) for card in both)
            found = self._known(before / after)
        return self._of_theory(f"predicted gain({self.comparison.name}, {way})", found)

    def only(self, operator: str) -> Pairs:
        """The pairs of networks that have ``operator``, and no other kind of normalization."""
        kinds = {name for name in NORMS if name != operator}

        def has(row: Row) -> bool:
            names = self.networks.names.get((row.network, row.image), frozenset())
            return operator in names and not names & kinds

        named = self.comparison._replace(name=f"{self.comparison.name}, {operator}")
        rows = tuple(pair for pair in self.rows if has(pair[0]))
        return replace(self, comparison=named, rows=rows)

    @property
    def cached_change(self) -> Distribution:
        """How far the last cache moves a predicted gain, as a share of that."""
        plain, cached = (self.predicted(way).numbers for way in ("operators", "cached"))
        found = {name: abs(cached[name] / plain[name] - 1) for name in plain}
        return self._of_theory(f"change by the cache({self.comparison.name})", found)

    def over(self, way: Way | float) -> Distribution:
        """The predicted gain over the measured one; a number predicts the same for all."""
        gain = self.gain.numbers
        if isinstance(way, float):
            found = {name: way / gain[name] for name in self.known}
            return self._of_theory(f"{way:.3g} over gain({self.comparison.name})", found)
        found = {name: each / gain[name] for name, each in self.predicted(way).numbers.items()}
        return self._of_theory(f"predicted over gain({self.comparison.name}, {way})", found)

    def error(self, way: Way | float) -> Distribution:
        """How far the predicted gain is from the measured one, as a share of that."""
        over = self.over(way)
        found = {name: abs(each - 1) for name, each in over.numbers.items()}
        return self._of_theory(f"error of {over.name}", found)

    def reached(self, way: Way) -> Distribution:
        """The time that the roofline of the newer card allows, over the published time."""
        found = {}
        if self.known:
            card = self.cards[self.comparison.after.device]
            seconds = self._known(self.networks.seconds(self._batches, card, way))
            found = {
                name: seconds[name] * row.rate / row.batch
                for name, (_, row, _) in self.known.items()
            }
        return self._of_theory(f"share of the roof({self.comparison.name}, {way})", found)

    @property
    def intensity(self) -> Distribution:
        """Operations for each byte that the operators of a network move."""
        found = self._known(self.networks.intensities(self._batches))
        return self._of_theory(f"FLOP a byte({self.comparison.name})", found)

    def order(self, predicted: Distribution) -> Leaf:
        """Spearman's rank correlation with measured gains."""
        gain = self.gain
        if not predicted.known:
            return absent("rank correlation", "1", predicted.reason)
        names = [*predicted.numbers]
        ranks = (_ranks([each.numbers[name] for name in names]) for each in (predicted, gain))
        found = correlation(*ranks)
        name = f"rank correlation({predicted.name})"
        return exact(name, "1", float(f"{found:.2g}"), predicted.files[0], predicted.files[1:])

    def _of_theory(self, name: str, found: Mapping[str, float]) -> Distribution:
        return self._of(name, found, (*self.files, OPERATORS, "devices.yaml"))

    def _of(self, name: str, found: Mapping[str, float], files: tuple[str, ...]) -> Distribution:
        if not self.files:
            return Distribution(name, found, (), NO_TABLE)
        return Distribution(name, found, files, "published for too few networks")


def pairs(
    comparison: Comparison,
    tables: Mapping[Setting, Published],
    networks: Networks,
    cards: Mapping[str, Card],
) -> Pairs:
    """The CNNs that two tables have in common."""
    before, after = (tables.get(each) for each in comparison[1:3])
    if before is None or after is None:
        return Pairs(comparison, (), (), networks, cards)

    def key(row: Row) -> tuple[str | float, ...]:
        return row.network, row.image, row.batch, row.parameters

    others = {key(row): row for row in after.rows if row.cnn}
    both = (row for row in before.rows if key(row) in others)
    rows = tuple((row, others[key(row)]) for row in once(both))
    return Pairs(comparison, rows, (before.file, after.file), networks, cards)


def _ranks(numbers: Collection[float]) -> list[float]:
    """The rank of each number, the mean of theirs where some are equal."""
    _, place, counts = np.unique([*numbers], return_inverse=True, return_counts=True)
    ranks: list[float] = (counts.cumsum() - (counts - 1) / 2)[place].tolist()
    return ranks
