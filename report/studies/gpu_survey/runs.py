"""Gains of networks between two published tables, beside those that bytes and rooflines predict."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from report.core.records import OPERATORS
from report.core.statistics.estimates import Estimate, least_squares_slope, median_interval
from report.quantity.expression import Inferred, Leaf, absent, exact
from report.quantity.units import ONE
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.source import Published, Setting
from report.studies.gpu_survey.subject import SettingChange
from report.studies.gpu_survey.theory import Card, Networks, Precision

#: The image size at which most of the networks were trained (px).
_USUAL_SIZE: Final = 224
#: Columns that must be equal in compared rows.
_SAME: Final = ["network", "image", "batch", "parameters"]
#: Parameters are printed with two decimals of a million.
_ROUNDING: Final = 5_010
#: Networks to which float32 adds a smaller share of bytes have predictions too alike to compare.
_LEAST_MOVED: Final = 0.01
#: Predictions by bytes; those of *calibrated* float32 last longer than the bandwidth allows.
Prediction: TypeAlias = Literal[Precision, "calibrated"]
#: Rules that predict a gain from a data sheet; half and half: half of the time waits for memory.
RULES: Final = "Operators", "Bandwidth", "Half and half", "Nothing is gained", "Peak"
#: Fewest networks whose median has an interval.
_FEWEST: Final = 10


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number without unit for each network, from ``files``."""

    name: str
    numbers: "pd.Series[float]"
    files: tuple[str, ...]

    @property
    def median(self) -> Leaf:
        """The median with its interval over networks."""
        return self._inferred("median", partial(median_interval, self.numbers.tolist()))

    @property
    def count(self) -> Leaf:
        """The number of networks."""
        return self.exactly("number of networks", len(self.numbers))

    @property
    def smallest(self) -> Leaf:
        """The smallest number, to three decimals."""
        return self.exactly("smallest", round(float(self.numbers.min()), 3))

    @property
    def largest(self) -> Leaf:
        """The largest number, to three decimals."""
        return self.exactly("largest", round(float(self.numbers.max()), 3))

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
        """The correlation with the ``other`` numbers, to three digits."""
        number = rounded(float(self.numbers.corr(other.numbers)))
        return self.exactly(f"correlation with {other.name}", number)

    def slope(self, other: "Distribution") -> Leaf:
        """The slope of the logarithms over those of the ``other`` numbers, with its interval."""
        x, y = other.numbers.align(self.numbers, join="inner")
        shared = replace(self, numbers=self.numbers[x.index], files=(*self.files, *other.files))
        interval = partial(least_squares_slope, np.log(x).tolist(), np.log(y).tolist())
        return shared._inferred(f"slope over {other.name}", interval)

    def _inferred(self, name: str, interval: Callable[[float], Estimate]) -> Leaf:
        if len(self.numbers) < _FEWEST:
            return absent(self.name, "1", "published for too few networks")
        (file, *further), name = self.files, f"{name} of {self.name}"
        return Inferred(ONE, name, file, further=tuple(further), interval=interval)

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
        numbers = self.numbers.filter(regex=pattern)
        return replace(self, name=f"{self.name}, {pattern}", numbers=numbers)

    def exactly(self, name: str, number: float) -> Leaf:
        """A number of the distribution, called ``name``, that has no interval."""
        if self.numbers.empty:
            return absent(self.name, "1", "published for no such network")
        return exact(f"{name} of {self.name}", "1", number, self.files[0], self.files[1:])


def rounded(number: float) -> float:
    """Round to three digits."""
    return float(f"{number:.3g}")


class Pairs:
    """The networks that both tables of a comparison hold, with their gains and captured counts.

    ``all_sizes`` has one row per network and image size, ``networks`` one per network.  Its bytes
    are scaled by pixels from the image size at which the network was ``traced``.
    """

    def __init__(
        self,
        comparison: SettingChange,
        tables: Mapping[Setting, Published],
        networks: Networks,
        cards: Mapping[str, Card],
        calibration: float,
    ) -> None:
        settings = comparison.before, comparison.after
        before, after = (tables.get(setting, Published()) for setting in settings)
        self.files = (before.file, after.file) if before.file and after.file else ()
        self._cards = [cards.get(setting.device) for setting in settings]
        self.name, self._networks = comparison.name, networks
        self._calibration = calibration
        same = [name for name in _SAME if name != "batch" or not comparison.any_batch]
        pairs = _in_both(before.rows, after.rows, same)
        pairs["gain"] = pairs["rate_after"] / pairs["rate_before"]
        norms = networks.captured.drop_duplicates("network").set_index("network")["norm"].to_dict()
        pairs["family"] = [subject.family_of(name, norms.get(name)) for name in pairs["network"]]
        captured = networks.captured.drop(columns="norm").rename(columns={"image": "traced"})
        self.all_sizes = pairs.merge(captured, how="left", on="network")
        pixels = (self.all_sizes["image"] / self.all_sizes["traced"]) ** 2
        for name in ("half_bytes", "single_bytes"):
            self.all_sizes[name] *= pixels
        self.networks = _nearest_to_usual(self.all_sizes).set_index("network")

    def gain_in(self, *families: str, all_sizes: bool = False) -> Distribution:
        """The gains of the networks of some families, at the usual size or at every image size."""
        rows = self.all_sizes.set_index("network") if all_sizes else self.networks
        size = ", all sizes" if all_sizes else ""
        name = ", ".join(families) if len(families) < len(subject.FAMILIES) else "all networks"
        gains = rows.loc[rows["family"].isin(families), "gain"]
        return Distribution(f"gain({self.name}, {name}{size})", gains, self.files)

    @property
    def switched(self) -> pd.DataFrame:
        """The networks that can be switched, at the image sizes at which they were traced."""
        return self._switched_sizes[self._switched_sizes["image"] == self._switched_sizes["traced"]]

    @cached_property
    def _switched_sizes(self) -> pd.DataFrame:
        """Networks of any kind whose normalizations can be float16 or float32, with their bytes.

        ``half`` and ``single`` are the gains that they predict if the newer card normalizes so and
        the older one in float16: the usual gain, and less by the time of the further bytes at the
        newer card's bandwidth, or longer (``calibrated``, not for networks that calibrate).
        """
        rows, newer = self.all_sizes, self._cards[1]
        usual = float(self.gain_in(subject.BATCH).numbers.median())  # NaN without any
        moved = rows["single_bytes"] > (1 + _LEAST_MOVED) * rows["half_bytes"]
        rows = rows[moved & _same_parameters(rows, all_sizes=True)].set_index("network")
        if newer is None or rows.empty or math.isnan(usual):
            return rows[:0].reindex(columns=[*rows, *get_args(Prediction)])
        seconds, more = 1 / rows["rate_before"], rows["single_bytes"] - rows["half_bytes"]
        single = seconds / usual + more / newer.bandwidth
        calibrated = seconds / usual + self._calibration * more / newer.bandwidth
        calibrated = calibrated.where(rows.index.str.match(subject.HELD_OUT))
        return rows.assign(half=usual, single=seconds / single, calibrated=seconds / calibrated)

    def switched_gain(
        self, families: Collection[str], precision: Prediction | None = None
    ) -> Distribution:
        """The measured gains of the switched networks of some families, or the predicted ones."""
        rows = self.switched[self.switched["family"].isin(families)]
        name = f"{precision or 'measured'} gain({self.name}, {', '.join(families)})"
        return self._of_theory(name, rows[precision or "gain"].dropna())

    def precision_error(
        self, families: Collection[str], precision: Prediction, *, all_sizes: bool = False
    ) -> Distribution:
        """Errors of the gains that the bytes of a ``precision`` predict, as those of ``error``."""
        rows = self._switched_sizes if all_sizes else self.switched
        rows = rows[rows["family"].isin(families)]
        name = f"error of {precision} gain({self.name}, {', '.join(families)})"
        return self._of_theory(name, (rows[precision] / rows["gain"] - 1).abs().dropna())

    def nearer_to_single(self, families: Collection[str]) -> Leaf:
        """The number of networks that float32 predicts better than float16."""
        half, single = (self.precision_error(families, way) for way in get_args(Precision))
        nearer = int((single.numbers < half.numbers).sum())
        return single.exactly("number of networks nearer to single precision", nearer)

    @cached_property
    def known(self) -> pd.DataFrame:
        """The CNNs whose operators and cards are known, with a column for each predicted gain."""
        older, newer = self._cards
        close = self.networks["family"].isin(subject.CNNS) & _same_parameters(self.networks)
        if older is None or newer is None or not close.any():
            return self.networks[:0].reindex(columns=[*self.networks, *RULES])
        known = self.networks[close].astype({"place": int})
        place, batches = known["place"], np.ones(len(self._networks.captured))
        batches[place] = known["batch"]
        before, after = (self._networks.seconds(batches, card)[place] for card in (older, newer))
        bandwidth, peak = newer.bandwidth / older.bandwidth, newer.peak / older.peak
        known[RULES[0]] = before / after
        growths = bandwidth, 2 / (1 / bandwidth + 1 / peak), 1.0, peak
        return known.assign(**dict(zip(RULES[1:], growths, strict=True)))

    def error(self, rule: str) -> Distribution:
        """Distances of the gains of a rule from the measured ones, as shares of the latter."""
        errors = (self.known[rule] / self.known["gain"] - 1).abs()
        return self._of_theory(f"error of {rule}({self.name})", errors)

    def _of_theory(self, name: str, numbers: "pd.Series[float]") -> Distribution:
        files = (*self.files, OPERATORS, "devices.yaml") if self.files else ()
        return Distribution(name, numbers, files)


def _same_parameters(rows: pd.DataFrame, *, all_sizes: bool = False) -> "pd.Series[bool]":
    """Tell for each row if the network was traced with as many parameters, at its image size."""
    same = (rows["counted"] - rows["parameters"]).abs() <= _ROUNDING
    return same if all_sizes else same & (rows["image"] == rows["traced"])


def _in_both(before: pd.DataFrame, after: pd.DataFrame, same: Sequence[str]) -> pd.DataFrame:
    """Rows of two tables whose columns ``same`` are equal, once per network and image size.

    Of several, the last one of ``after`` and the larger batch of ``before`` count.
    """
    others = after.drop_duplicates(same, keep="last")
    rows = before.merge(others, on=[*same], suffixes=("_before", "_after"))
    if "batch" not in rows:
        rows = rows.rename(columns={"batch_before": "batch"})
    rows = rows.sort_values("batch", ascending=False, kind="stable")
    return rows.drop_duplicates(["network", "image"])


def _nearest_to_usual(rows: pd.DataFrame) -> pd.DataFrame:
    """Each network once, at the image size nearest to the usual one, the smaller of two as near."""
    rows = rows.assign(distance=(rows["image"] - _USUAL_SIZE).abs())
    return rows.sort_values(["distance", "image"], kind="stable").drop_duplicates("network")
