"""Gains of networks between two published tables, beside those that rooflines predict.

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
from report.studies.gpu_survey.subject import (
    Published,
    Setting,
    SettingChange,
    family_of,
    is_cnn,
)
from report.studies.gpu_survey.theory import ByteModel, Card, Networks

#: The image size at which most of the networks were trained (px).
_USUAL_SIZE: Final = 224
#: Columns that must be equal in compared rows.
_SAME: Final = ["network", "image", "batch", "parameters"]
#: Parameters are printed with two decimals of a million.
_ROUNDING: Final = 5_010
#: Fewest networks whose median has an interval.
_FEWEST: Final = 10


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number without unit for each network, from ``files``."""

    name: str
    numbers: pd.Series[float]
    files: tuple[str, ...]

    @property
    def absent(self) -> Leaf | None:
        """Reason in place of a median with an interval if there are too few networks."""
        few = "published for too few networks" if self.files else "no such table is published"
        return absent(self.name, "1", few) if len(self.numbers) < _FEWEST else None

    @property
    def median(self) -> Leaf:
        """The median with its interval over networks."""
        if self.absent:
            return self.absent
        (file, *further), interval = self.files, partial(median_interval, self.numbers.tolist())
        name, others = f"median of {self.name}", tuple(further)
        return Inferred(ONE, name, file, "cuda", further=others, interval=interval)

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

    @property
    def middle(self) -> Leaf:
        """The median without an interval, to three digits, also of few networks."""
        return self.exactly("median", _rounded(float(self.numbers.median()), 3))

    def exactly(self, name: str, number: float) -> Leaf:
        """A number of the distribution, called ``name``, that has no interval."""
        if self.numbers.empty:
            return absent(self.name, "1", "published for no such network")
        return exact(f"{name} of {self.name}", "1", number, self.files[0], self.files[1:])

    def share_above(self, limit: float) -> Leaf:
        """The share of the networks above ``limit``, to three digits."""
        share = _rounded(float((self.numbers > limit).mean()), 3)
        return self.exactly(f"share above {limit:g}", share)

    def of(self, network: str) -> Leaf:
        """The number of one network, to three digits."""
        if network not in self.numbers.index:
            return absent(network, "1", "not published")
        return self.exactly(network, _rounded(float(self.numbers[network]), 3))

    @property
    def slower(self) -> Leaf:
        """The number of networks whose gain is below one."""
        return self.exactly("number of slower networks", int((self.numbers < 1).sum()))


def _rounded(number: float, digits: int) -> float:
    return float(f"{number:.{digits}g}")


class Pairs:
    """The networks that both tables of a comparison hold, and the gains that data sheets predict.

    ``rows`` has one for each CNN: its rates before and after, and its captured properties.
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
        pairs = _in_both(before.rows, after.rows, same)
        # Layers of a kind are the same at every image size.
        norms = networks.captured.drop_duplicates("network").set_index("network")["norm"].to_dict()
        pairs["family"] = [family_of(name, norms.get(name)) for name in pairs["network"]]
        self._all_sizes = pairs
        #: The pairs of all networks, one a network.
        self.networks = _nearest_to_usual(pairs).set_index("network")
        pairs = pairs[pairs["network"].map(is_cnn).eq(True)]
        captured = networks.captured.drop(columns="norm")
        rows = _nearest_to_usual(pairs).merge(captured, how="left", on=["network", "image"])
        self.rows = rows.set_index("network")

    @property
    def gain(self) -> Distribution:
        """Rate after over rate before."""
        return self._gain_of(self.rows, self.name)

    def gain_in(self, family: str) -> Distribution:
        """The gains of the networks of a family."""
        rows = self.networks[self.networks["family"] == family]
        return self._gain_of(rows, f"{self.name}, {family}")

    def gain_at_sizes(self, family: str) -> Distribution:
        """The gains of a family at every image size."""
        rows = self._all_sizes[self._all_sizes["family"] == family]
        return self._gain_of(rows, f"{self.name}, {family}, all sizes")

    def _gain_of(self, rows: pd.DataFrame, name: str) -> Distribution:
        return Distribution(f"gain({name})", rows["rate_after"] / rows["rate_before"], self._files)

    @property
    def all_gains(self) -> Distribution:
        """The gains of networks of all kinds."""
        return self._gain_of(self.networks, f"{self.name}, all networks")

    def gain_near_peak(self, share: float) -> Distribution:
        """The gains of networks of all kinds that compute at ``share`` of the older card's peak."""
        older, rows = self._cards[0], self.networks
        rates = 2 * rows["work_before"] * rows["rate_before"]
        fast = rows[rates >= share * (older.peak if older else math.inf)]
        return self._gain_of(fast, f"{self.name}, at {share:g} of the peak")

    @property
    def limits(self) -> tuple[float, float]:
        """The growth of the bandwidth and that of the peak; 1 if a card is unknown."""
        older, newer = self._cards
        if not (older and newer):
            return 1.0, 1.0
        return newer.bandwidth / older.bandwidth, newer.peak / older.peak

    @property
    def growths(self) -> dict[str, float]:
        """The gains that rules of two numbers predict for every network."""
        bandwidth, peak = self.limits
        rules = {"none": 1.0, "bandwidth": bandwidth, "peak": peak, "half": self.weighted(0.5)}
        return {**rules, "smaller": min(bandwidth, peak)}

    def weighted(self, weight: float) -> float:
        """The harmonic mean of both growths with this weight on the bandwidth.

        It is the gain of a network that waits for memory for this share of its time on the older
        card, and otherwise computes at the peak.
        """
        bandwidth, peak = self.limits
        return 1 / (weight / bandwidth + (1 - weight) / peak)

    @cached_property
    def known(self) -> pd.DataFrame:
        """The rows whose operators and cards are known, with columns of what these predict.

        They are the gain by each way, and the time that the ``roof`` of merged operators on the
        newer card allows, as a share of the published one.
        """
        older, newer = self._cards
        # A network of this name and image size may have been captured in another variant.
        close = (self.rows["counted"] - self.rows["parameters"]).abs() <= _ROUNDING
        if older is None or newer is None or not close.any():
            predictions = (*get_args(ByteModel), "roof")
            return self.rows[:0].reindex(columns=[*self.rows, *predictions])
        known = self.rows[close].astype({"place": int})
        place, batches = known["place"], np.ones(len(self._networks.captured))
        batches[place] = known["batch"]
        for way in get_args(ByteModel):
            before, after = (self._networks.seconds(batches, card, way) for card in (older, newer))
            known[way] = (before / after)[place]
        seconds = self._networks.seconds(batches, newer, "merged")[place]
        known["roof"] = seconds * known["rate_after"] / known["batch"]
        return known

    def among(self, networks: pd.Index[str]) -> Pairs:
        """Return the same pairs, with ``networks`` alone among those whose operators are known."""
        chosen = copy.copy(self)
        chosen.known = self.known[self.known.index.isin(networks)]
        return chosen

    def column(self, name: str) -> Distribution:
        """A column of ``known``, such as the gain that a roofline predicts."""
        return self._of_theory(f"{name}({self.name})", self.known[name])

    @property
    def known_gain(self) -> Distribution:
        """The gain of the CNNs whose operators are known."""
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

    def _of_theory(self, name: str, numbers: pd.Series[float]) -> Distribution:
        files = (*self._files, OPERATORS, "devices.yaml") if self._files else ()
        return Distribution(name, numbers, files)


def _in_both(before: pd.DataFrame, after: pd.DataFrame, same: Sequence[str]) -> pd.DataFrame:
    """The networks that two tables have in common, at each image size once.

    Rows are compared whose columns ``same`` are equal.  Of several, the last one of ``after`` and
    the larger batch of ``before`` count.
    """
    others = after.drop_duplicates(same, keep="last")
    rows = before.merge(others, on=[*same], suffixes=("_before", "_after"))
    if "batch" not in rows:
        rows = rows.rename(columns={"batch_before": "batch"})
    rows = rows.sort_values("batch", ascending=False, kind="stable")
    return rows.drop_duplicates(["network", "image"])


def _nearest_to_usual(rows: pd.DataFrame) -> pd.DataFrame:
    """Each network once, at the image size nearest to the usual one, the smaller of two as near."""
    ordered = rows.assign(distance=(rows["image"] - _USUAL_SIZE).abs())
    ordered = ordered.sort_values(["distance", "image"], kind="stable")
    return ordered.drop_duplicates("network")
