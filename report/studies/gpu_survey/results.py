"""Gains of CNNs between two published tables, beside those that rooflines predict.

A table has a thousand networks with one sample each, so that quantities begin where its rows become
a distribution.  One number has no interval.  The interval of a median is about networks of the
same kinds: it treats them as drawn independently, which variants of one design are not.
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, get_args

import numpy as np
import pandas as pd

from report.core.records import OPERATORS
from report.core.statistics.estimates import median_interval
from report.quantity.expression import Inferred, Leaf, absent, exact
from report.quantity.units import ONE
from report.studies.gpu_survey.source import Published
from report.studies.gpu_survey.subject import Setting, SettingChange, is_cnn
from report.studies.gpu_survey.theory import GROUP_NORM, ByteModel, Card, Networks

#: The image size at which most of the networks were trained (px).
_USUAL: Final = 224
#: Columns that must be equal in compared rows.
_SAME: Final = ["network", "image", "batch", "parameters"]
#: Parameters are printed with two decimals of a million.
_ROUNDED: Final = 5_010
#: Fewest networks that make a distribution.
FEW: Final = 10


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number without unit for each network, from ``files``."""

    name: str
    numbers: pd.Series[float]
    files: tuple[str, ...]

    @property
    def absent(self) -> Leaf | None:
        """Reason in place of all numbers if there are too few networks, else None."""
        few = "published for too few networks" if self.files else "no such table is published"
        return absent(self.name, "1", few) if len(self.numbers) < FEW else None

    @property
    def median(self) -> Leaf:
        """The median with its interval over networks."""
        if self.absent:
            return self.absent
        (file, *further), interval = self.files, partial(median_interval, self.numbers.tolist())
        name = f"median of {self.name}"
        return Inferred(ONE, name, file, "cuda", further=tuple(further), interval=interval)

    @property
    def count(self) -> Leaf:
        """The number of networks."""
        return self.exactly("number of networks", len(self.numbers))

    def quantile(self, percent: int) -> Leaf:
        """The quantile below which ``percent`` of the networks lie, to three digits."""
        return self.exactly(f"{percent} % quantile", _rounded(self.cut(percent) or 0, 3))

    def cut(self, percent: int) -> float | None:
        """The same as a plain number; None for too few networks."""
        return None if self.absent else statistics.quantiles(self.numbers, n=100)[percent - 1]

    @property
    def smallest(self) -> Leaf:
        """The smallest number, to three digits."""
        return self.exactly("smallest", _rounded(float(self.numbers.min()), 3))

    @property
    def largest(self) -> Leaf:
        """The largest number, to three digits."""
        return self.exactly("largest", _rounded(float(self.numbers.max()), 3))

    def exactly(self, name: str, number: float) -> Leaf:
        """A number of the distribution, called ``name``, that has no interval."""
        if self.absent:
            return self.absent
        return exact(f"{name} of {self.name}", "1", number, self.files[0], self.files[1:])

    def among(self, chosen: pd.Series[bool], name: str = "") -> Distribution:
        """The distribution over the networks for which ``chosen`` is true, called ``name``."""
        return replace(self, numbers=self.numbers[chosen], name=name or self.name)


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


class Pairs:
    """The CNNs that both tables of a comparison hold, and the gains that data sheets predict.

    ``rows`` has one a network: its rates before and after, and what is known of it as captured.
    """

    def __init__(
        self,
        comparison: SettingChange,
        tables: Mapping[Setting, Published],
        networks: Networks,
        cards: Mapping[str, Card],
    ) -> None:
        settings = comparison.before, comparison.after
        before, after = (tables.get(setting, Published()) for setting in settings)
        self._files = (before.file, after.file) if before.file and after.file else ()
        self._cards = [cards.get(setting.device) for setting in settings]
        self.name, self._networks = comparison.name, networks
        same = [name for name in _SAME if name != "batch" or not comparison.any_batch]
        #: The pairs at every image size; ``rows`` has one a network.
        self.every = _in_both(before.rows, after.rows, same).set_index("network")
        rows = _nearest_to_usual(self.every.reset_index())
        captured = networks.captured.drop(columns="norm")
        rows = rows.merge(captured, how="left", on=["network", "image"])
        self.rows = rows.set_index("network")
        # Layers of a kind are the same at every image size.
        kinds = networks.captured.drop_duplicates("network").set_index("network")["norm"]
        self.rows["norm"] = kinds.reindex(self.rows.index)
        self.every["norm"] = kinds.reindex(self.every.index)

    @property
    def gain(self) -> Distribution:
        """Rate after over rate before."""
        numbers = self.rows["rate_after"] / self.rows["rate_before"]
        return Distribution(f"gain({self.name})", numbers, self._files)

    @property
    def growths(self) -> dict[str, float]:
        """The gains that numbers of the data sheets predict for every network; 1 without these.

        By ``half`` a network spends half of its time on each limit of the older card; by ``none``
        nothing is gained.
        """
        older, newer = self._cards
        bandwidth = peak = 1.0
        if older and newer:
            bandwidth, peak = newer.bandwidth / older.bandwidth, newer.peak / older.peak
        half = 2 / (1 / bandwidth + 1 / peak)
        return {"none": 1.0, "bandwidth": bandwidth, "peak": peak, "half": half}

    def fitted(self, other: Pairs) -> dict[str, float]:
        """The gains that rules with one number predict, with the number fitted on ``other`` pairs.

        The ``constant`` is the median gain there.  The ``weighted`` geometric mean of the growths
        of bandwidth and peak has the weight that makes it the median gain there.
        """
        gains = other.known_gain.numbers
        constant = float(gains.median()) if len(gains) else 1.0
        source, growths = other.growths, self.growths
        if source["bandwidth"] == source["peak"]:
            return {"constant": constant, "weighted": growths["half"]}
        ratio = math.log(source["bandwidth"] / source["peak"])
        weight = math.log(constant / source["peak"]) / ratio
        weighted = growths["bandwidth"] ** weight * growths["peak"] ** (1 - weight)
        return {"constant": constant, "weighted": weighted}

    @cached_property
    def known(self) -> pd.DataFrame:
        """The rows whose operators and cards are known, with columns of what these predict.

        They are the gain by each way, the ``intensity`` (FLOP/B), and the time that the ``roof`` of
        merged operators on the newer card allows, as a share of the published one.
        """
        older, newer = self._cards
        # A network of this name and image size may have been captured in another variant.
        close = (self.rows["counted"] - self.rows["parameters"]).abs() <= _ROUNDED
        if older is None or newer is None or not close.any():
            predictions = (*get_args(ByteModel), "intensity", "roof")
            return self.rows[:0].reindex(columns=[*self.rows, *predictions])
        known = self.rows[close].astype({"place": int})
        place, batches = known["place"], np.ones(len(self._networks.captured))
        batches[place] = known["batch"]
        for way in get_args(ByteModel):
            before, after = (self._networks.seconds(batches, card, way) for card in (older, newer))
            known[way] = (before / after)[place]
        known["intensity"] = self._networks.intensities(batches)[place]
        seconds = self._networks.seconds(batches, newer, "merged")[place]
        known["roof"] = seconds * known["rate_after"] / known["batch"]
        return known

    def among(self, networks: pd.Index[str]) -> Pairs:
        """Return the same pairs, with ``networks`` alone among those whose operators are known."""
        chosen = copy.copy(self)
        chosen.known = self.known[self.known.index.isin(networks)]
        return chosen

    def predicted(self, way: str) -> Distribution:
        """The gain that the data sheets of both cards predict."""
        return self._of_theory(f"predicted gain({self.name}, {way})", self.known[way])

    @property
    def known_gain(self) -> Distribution:
        """The gain of the networks whose operators are known."""
        return replace(self.gain, numbers=self.gain.numbers[self.known.index])

    def over(self, way: str | float) -> Distribution:
        """The gain that a way predicts, or one number for all networks, over the measured one."""
        gain = self.known_gain.numbers
        if isinstance(way, str) and way not in self.growths:
            name = f"predicted over gain({self.name}, {way})"
            return self._of_theory(name, self.known[way] / gain)
        growth = self.growths[way] if isinstance(way, str) else way
        return self._of_theory(f"{growth:.3g} over gain({self.name})", growth / gain)

    def error(self, way: str | float) -> Distribution:
        """Distance of the predicted gain from the measured one, as a share of the measured one."""
        over = self.over(way)
        return replace(over, name=f"error of {over.name}", numbers=(over.numbers - 1).abs())

    def has_norm(self, norm: str | None) -> pd.Series[bool]:
        """Tell for each network if ``norm`` is its rarest normalization; None for none of them."""
        return self.rows["norm"] == norm if norm else self.rows["norm"].isna()

    @property
    def grouped(self) -> pd.Series[bool]:
        """Tell for each network if it holds a group normalization."""
        return self.has_norm(GROUP_NORM)

    def excess(self) -> pd.DataFrame:
        """The CNNs with group normalization: its ``bytes``, and the ``seconds`` that an image lost.

        ``share`` is that time over the time on the newer card.

        A row is a pair at any image size.  It lost what it takes longer on the newer card than if
        it gained as the median CNN without group normalization.  Bytes of a network that was
        captured at another image size are scaled by its pixels.
        """
        captured = self._networks.captured.drop_duplicates("network").set_index("network")
        moved = pd.Series(self._networks.traffic(GROUP_NORM)[captured["place"]], captured.index)
        rows = self.every[self.every["norm"] == GROUP_NORM]
        captured, usual = captured.loc[rows.index], self.gain.numbers[~self.grouped].median()
        pixels = (rows["image"] / captured["image"]) ** 2
        expected = 1 / (rows["rate_before"] * usual)
        lost = 1 / rows["rate_after"] - expected
        moved = moved[rows.index] * pixels
        return pd.DataFrame({"bytes": moved, "seconds": lost, "share": lost * rows["rate_after"]})

    @property
    def bandwidth_share(self) -> Distribution:
        """The bytes of group normalization over the lost time, as a share of the bandwidth."""
        excess, newer = self.excess(), self._cards[1]
        bandwidth = newer.bandwidth if newer else math.nan
        lost = excess[excess["seconds"] > 0]
        numbers = lost["bytes"] / (lost["seconds"] * bandwidth)
        return self._of_theory(f"bandwidth of group normalization({self.name})", numbers)

    @property
    def lost_share(self) -> Distribution:
        """The lost time of CNNs with group normalization as a share of their time."""
        share = self.excess()["share"]
        return self._of_theory(f"lost share of the time({self.name})", share[share > 0])

    @property
    def reached_roofs(self) -> Distribution:
        """The time that the roofline of merged operators allows over the published one."""
        name = f"share of the merged roof({self.name})"
        return self._of_theory(name, self.known["roof"])

    @property
    def cached_change(self) -> Distribution:
        """Relative change of a predicted gain if the last-level cache is modelled."""
        change = self.known["cached"] / self.known["operators"] - 1
        return self._of_theory(f"change by the cache({self.name})", change.abs())

    @property
    def intensity(self) -> Distribution:
        """Operations for each byte that the operators of a network move."""
        return self._of_theory(f"FLOP a byte({self.name})", self.known["intensity"])

    def order(self, predicted: Distribution) -> Leaf:
        """Spearman's rank correlation with measured gains, to two digits."""
        ranks, name = predicted.numbers.rank(), f"rank correlation({predicted.name})"
        gains, files = self.gain.numbers[ranks.index].rank(), predicted.files
        if predicted.absent:
            return replace(predicted.absent, name=name)
        if 1 in (ranks.nunique(), gains.nunique()):
            return absent(name, "1", "all networks have the same rank")
        return exact(name, "1", _rounded(ranks.corr(gains), 2), files[0], files[1:])

    def _of_theory(self, name: str, numbers: pd.Series[float]) -> Distribution:
        files = (*self._files, OPERATORS, "devices.yaml") if self._files else ()
        return Distribution(name, numbers, files)


def _in_both(before: pd.DataFrame, after: pd.DataFrame, same: Sequence[str]) -> pd.DataFrame:
    """The CNNs that two tables have in common, at each image size once.

    Rows are compared whose columns ``same`` are equal.  Of several, the last one of ``after`` and
    the larger batch of ``before`` count.
    """
    others = after.drop_duplicates(same, keep="last")
    rows = before.merge(others, on=[*same], suffixes=("_before", "_after"))
    if "batch" not in rows:
        rows = rows.rename(columns={"batch_before": "batch"})
    rows = rows.sort_values("batch", ascending=False, kind="stable")
    once = rows.drop_duplicates(["network", "image"])
    return once[once["network"].map(is_cnn).eq(True)]


def _nearest_to_usual(rows: pd.DataFrame) -> pd.DataFrame:
    """Each network once, at the image size nearest to the usual one, the smaller of two as near."""
    ordered = rows.assign(distance=(rows["image"] - _USUAL).abs())
    ordered = ordered.sort_values(["distance", "image"], kind="stable")
    return ordered.drop_duplicates("network")
