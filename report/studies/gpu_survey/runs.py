"""Gains of networks between two published tables, beside those that bytes and rooflines predict.

A table has a thousand networks with one sample each, so that quantities begin where its rows become
a distribution.  One number has no interval.  The interval of a median is about networks of the
same kinds: it treats them as drawn independently, which variants of one design are not.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, get_args

import numpy as np
import pandas as pd

from report.core.records import OPERATORS
from report.core.statistics.estimates import median_interval
from report.quantity.expression import Inferred, Leaf, absent, exact
from report.quantity.units import ONE
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.source import Published, Setting
from report.studies.gpu_survey.subject import SettingChange
from report.studies.gpu_survey.theory import Card, Networks, Precision

#: The image size at which most of the networks were trained (px).
_USUAL_SIZE: Final = 224
#: Columns that must be equal in compared rows.
SAME: Final = ["network", "image", "batch", "parameters"]
#: Parameters are printed with two decimals of a million.
_ROUNDING: Final = 5_010
#: The least share of more bytes in float32 that tells the predictions of a network apart.
_LEAST_MOVED: Final = 0.01
#: Fewest networks whose median has an interval.
_FEWEST: Final = 10


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number without unit for each network, from ``files``."""

    name: str
    numbers: "pd.Series[float]"
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
        return Inferred(ONE, name, file, further=others, interval=interval)

    @property
    def count(self) -> Leaf:
        """The number of networks."""
        return self.exactly("number of networks", len(self.numbers))

    def quantile(self, percent: int) -> Leaf:
        """The quantile below which ``percent`` of the networks lie, to three digits."""
        if self.absent:
            return self.absent
        cut = statistics.quantiles(self.numbers, n=100)[percent - 1]
        return self.exactly(f"{percent} % quantile", rounded(cut))

    @property
    def smallest(self) -> Leaf:
        """The smallest number, to three digits."""
        return self.exactly("smallest", rounded(float(self.numbers.min())))

    @property
    def unrounded_smallest(self) -> Leaf:
        """The smallest number, for a lower bound that its printing rounds down."""
        return self.exactly("smallest", float(self.numbers.min()))

    @property
    def largest(self) -> Leaf:
        """The largest number, to three digits."""
        return self.exactly("largest", rounded(float(self.numbers.max())))

    @property
    def middle(self) -> Leaf:
        """The median without an interval, to three digits, also of few networks."""
        return self.exactly("median", rounded(float(self.numbers.median())))

    @property
    def errors_of_median(self) -> "Distribution":
        """Errors of the median as a prediction of every number, as shares of the number."""
        errors = (self.numbers.median() / self.numbers - 1).abs()
        return replace(self, name=f"error of the median of {self.name}", numbers=errors)

    def correlation(self, other: "Distribution") -> Leaf:
        """The correlation with other numbers of the same networks, to two digits."""
        correlation = float(f"{self.numbers.corr(other.numbers):.2g}")
        return self.exactly(f"correlation with {other.name}", correlation)

    @property
    def below_one(self) -> Leaf:
        """The number of networks whose number is below one, such as slower ones for a gain."""
        return self.exactly("number below 1", int((self.numbers < 1).sum()))

    def of(self, network: str) -> Leaf:
        """The number of one network, to three digits."""
        if network not in self.numbers.index:
            return absent(network, "1", "not published")
        return self.exactly(network, rounded(float(self.numbers[network])))

    def named(self, pattern: str) -> "Distribution":
        """The numbers of the networks whose names match a regular expression."""
        return replace(
            self, name=f"{self.name}, {pattern}", numbers=self.numbers.filter(regex=pattern)
        )

    def exactly(self, name: str, number: float) -> Leaf:
        """A number of the distribution, called ``name``, that has no interval."""
        if self.numbers.empty:
            return absent(self.name, "1", "published for no such network")
        return exact(f"{name} of {self.name}", "1", number, self.files[0], self.files[1:])


def rounded(number: float) -> float:
    """Round to three digits."""
    return float(f"{number:.3g}")


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
        self.files = (before.file, after.file) if before.file and after.file else ()
        self._cards = [cards.get(setting.device) for setting in settings]
        self.name, self._networks = comparison.name, networks
        same = [name for name in SAME if name != "batch" or not comparison.any_batch]
        pairs = _in_both(before.rows, after.rows, same)
        # Layers of a kind are the same at every image size.
        norms = networks.captured.drop_duplicates("network").set_index("network")["norm"].to_dict()
        pairs["family"] = [subject.family_of(name, norms.get(name)) for name in pairs["network"]]
        self.all_sizes = pairs
        #: The pairs of all networks, one a network.
        self.networks = _nearest_to_usual(pairs).set_index("network")
        pairs = pairs[pairs["network"].map(subject.is_cnn).eq(True)]
        captured = networks.captured.drop(columns="norm")
        rows = _nearest_to_usual(pairs).merge(captured, how="left", on=["network", "image"])
        self.rows = rows.set_index("network")

    @property
    def gain(self) -> Distribution:
        """Rate after over rate before."""
        return self._gain_of(self.rows, self.name)

    def gain_in(self, family: str, *, all_sizes: bool = False) -> Distribution:
        """The gains of the networks of a family, at the usual size or at every image size."""
        rows, size = (self.all_sizes, ", all sizes") if all_sizes else (self.networks, "")
        return self._gain_of(rows[rows["family"] == family], f"{self.name}, {family}{size}")

    def _gain_of(self, rows: pd.DataFrame, name: str) -> Distribution:
        return Distribution(f"gain({name})", rows["rate_after"] / rows["rate_before"], self.files)

    @property
    def all_gains(self) -> Distribution:
        """The gains of networks of all kinds."""
        return self._gain_of(self.networks, f"{self.name}, all networks")

    @property
    def growths(self) -> dict[str, float]:
        """The gains that rules of two numbers predict for every network; 1 for unknown cards.

        ``half`` is the harmonic mean of both growths: the gain of a network that waits for memory
        for half of its time on the older card, and otherwise computes at the peak.
        """
        older, newer = self._cards
        bandwidth = newer.bandwidth / older.bandwidth if older and newer else 1.0
        peak = newer.peak / older.peak if older and newer else 1.0
        rules = {"none": 1.0, "bandwidth": bandwidth, "peak": peak}
        return {**rules, "half": 2 / (1 / bandwidth + 1 / peak), "smaller": min(bandwidth, peak)}

    @cached_property
    def known(self) -> pd.DataFrame:
        """The rows whose operators and cards are known, with the gain that rooflines predict.

        A network of this name and image size may have been captured in another variant.
        """
        older, newer = self._cards
        close = _same_parameters(self.rows)
        if older is None or newer is None or not close.any():
            return self.rows[:0].reindex(columns=[*self.rows, "operators"])
        known = self.rows[close].astype({"place": int})
        place, batches = known["place"], np.ones(len(self._networks.captured))
        batches[place] = known["batch"]
        before, after = (self._networks.seconds(batches, card)[place] for card in (older, newer))
        return known.assign(operators=before / after)

    @cached_property
    def switched(self) -> pd.DataFrame:
        """Networks of any kind whose normalizations can be float16 or float32, with their bytes.

        ``half`` and ``single`` are the gains that they predict if the newer card normalizes so and
        the older one in float16: the median of CNNs with batch normalization, and less by the time
        of the further bytes at the newer card's bandwidth.
        """
        captured = self._networks.captured.drop(columns="norm")
        rows = self.all_sizes.merge(captured, on=["network", "image"])
        moved = rows["single_bytes"] > (1 + _LEAST_MOVED) * rows["half_bytes"]
        rows = rows[moved & _same_parameters(rows)].set_index("network")
        newer, usual = self._cards[1], float(self.gain_in(subject.BATCH).numbers.median())
        if newer is None or rows.empty or math.isnan(usual):
            return rows[:0].reindex(columns=[*rows, *get_args(Precision)])
        seconds, more = 1 / rows["rate_before"], rows["single_bytes"] - rows["half_bytes"]
        single = seconds / usual + more / newer.bandwidth
        return rows.assign(half=usual, single=seconds / single)

    def switched_gain(self, families: Collection[str]) -> Distribution:
        """The measured gains of the switched networks of some families."""
        rows = self.switched[self.switched["family"].isin(families)]
        return self._gain_of(rows, f"{self.name}, {', '.join(families)}")

    def predicted_gain(self, families: Collection[str], precision: Precision) -> Distribution:
        """The gains of the same networks that the bytes of a ``precision`` predict."""
        gain = self.switched_gain(families)
        predicted = self.switched.loc[gain.numbers.index, precision]
        return self._of_theory(f"{gain.name} by {precision} precision", predicted)

    def precision_error(self, families: Collection[str], precision: Precision) -> Distribution:
        """Errors of the gains that the bytes of a ``precision`` predict, as those of ``error``."""
        predicted = self.predicted_gain(families, precision)
        errors = (predicted.numbers / self.switched_gain(families).numbers - 1).abs()
        return self._of_theory(f"error of {predicted.name}", errors)

    def nearer_to_single(self, families: Collection[str]) -> Leaf:
        """The number of networks that float32 predicts better than float16."""
        half, single = (self.precision_error(families, way) for way in get_args(Precision))
        nearer = int((single.numbers < half.numbers).sum())
        return single.exactly("number of networks nearer to single precision", nearer)

    @property
    def known_gain(self) -> Distribution:
        """The gain of the CNNs whose operators are known."""
        return replace(self.gain, numbers=self.gain.numbers[self.known.index])

    def error(self, way: str | float) -> Distribution:
        """Distance of a predicted gain from the measured one, as a share of the measured one.

        The prediction is one number for all networks, a rule of ``growths``, or a roofline.
        """
        gain = self.known_gain.numbers
        growth = self.growths.get(way) if isinstance(way, str) else way
        predicted = self.known[str(way)] if growth is None else growth
        label = way if isinstance(way, str) else f"{way:.3g}"
        return self._of_theory(f"error of {label}({self.name})", (predicted / gain - 1).abs())

    def _of_theory(self, name: str, numbers: "pd.Series[float]") -> Distribution:
        files = (*self.files, OPERATORS, "devices.yaml") if self.files else ()
        return Distribution(name, numbers, files)


def _same_parameters(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Tell for each row if the captured network has as many parameters as the published one."""
    return (rows["counted"] - rows["parameters"]).abs() <= _ROUNDING


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
