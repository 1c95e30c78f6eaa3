"""Gains (ratios of rates) of networks between two published tables, measured and predicted."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from report.core.records import OPERATORS
from report.core.statistics.estimates import Estimate, least_squares_slope, median_interval
from report.quantity.expression import EstimatedNumber, Leaf, exact_number, missing_number
from report.quantity.units import ONE
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.source import Published, Setting
from report.studies.gpu_survey.theory import Card, Networks, Precision

#: The image size at which most of the networks were trained (px).
_USUAL_SIZE: Final = 224
#: Columns that must be equal in compared rows.
_EQUAL_COLUMNS: Final = ["network", "image", "batch", "parameters"]
#: Parameters by which counts may differ: tables print them in millions with two decimals.
_PARAMETER_ROUNDING: Final = 5_010
#: Share of bytes that float32 must add; below it predictions are too alike to compare.
_LEAST_MOVED: Final = 0.01
#: Predictions by bytes.  *Calibrated*: bytes of float32 take longer than the bandwidth says.
Prediction: TypeAlias = Literal[Precision, "calibrated"]
#: Rules that predict a gain from data sheets.  Half and half: half of the time waits for memory.
RULES: Final = "Operators", "Bandwidth", "Half and half", "Nothing is gained", "Peak"
#: Smallest number of networks whose median has an interval.
_FEWEST_NETWORKS: Final = 10


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number without unit for each network (index of ``numbers``), from ``files``."""

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
        return self.without_interval("number of networks", len(self.numbers))

    @property
    def smallest(self) -> Leaf:
        """The smallest number, to three decimals."""
        return self.without_interval("smallest", round(float(self.numbers.min()), 3))

    @property
    def largest(self) -> Leaf:
        """The largest number, to three decimals."""
        return self.without_interval("largest", round(float(self.numbers.max()), 3))

    @property
    def plain_median(self) -> Leaf:
        """The median to three digits, without an interval, also of few networks."""
        return self.without_interval("median", rounded(float(self.numbers.median())))

    @property
    def errors_of_median(self) -> "Distribution":
        """Relative errors of the median as a prediction of every number."""
        errors = (self.numbers.median() / self.numbers - 1).abs()
        return replace(self, name=f"error of the median of {self.name}", numbers=errors)

    def correlation(self, other: "Distribution") -> Leaf:
        """Return the correlation with the ``other`` numbers, to three digits."""
        number = rounded(float(self.numbers.corr(other.numbers)))
        return self.without_interval(f"correlation with {other.name}", number)

    def slope(self, other: "Distribution") -> Leaf:
        """Return the slope of the logarithms over those of ``other``, with its interval."""
        x, y = other.numbers.align(self.numbers, join="inner")
        shared = replace(self, numbers=self.numbers[x.index], files=(*self.files, *other.files))
        interval = partial(least_squares_slope, np.log(x).tolist(), np.log(y).tolist())
        return shared._inferred(f"slope over {other.name}", interval)

    def _inferred(self, name: str, interval: Callable[[float], Estimate]) -> Leaf:
        if len(self.numbers) < _FEWEST_NETWORKS:
            return missing_number(self.name, "1", "published for too few networks")
        (file, *other_files), name = self.files, f"{name} of {self.name}"
        return EstimatedNumber(ONE, name, file, other_files=tuple(other_files), interval=interval)

    @property
    def count_below_one(self) -> Leaf:
        """The count of networks with a number below one, such as gains of slower networks."""
        return self.without_interval("number below 1", int((self.numbers < 1).sum()))

    def number_of(self, network: str) -> Leaf:
        """Return the number of one network, to three digits."""
        if network not in self.numbers.index:
            return missing_number(network, "1", "not published")
        return self.without_interval(network, rounded(float(self.numbers[network])))

    def matching(self, pattern: str) -> "Distribution":
        """Select the networks whose names match a regular expression."""
        numbers = self.numbers.filter(regex=pattern)
        return replace(self, name=f"{self.name}, {pattern}", numbers=numbers)

    def without_interval(self, name: str, number: float) -> Leaf:
        """Return a number of the distribution as an exact quantity called ``name``."""
        if self.numbers.empty:
            return missing_number(self.name, "1", "published for no such network")
        return exact_number(f"{name} of {self.name}", "1", number, self.files[0], self.files[1:])


def rounded(number: float) -> float:
    """Round to three digits."""
    return float(f"{number:.3g}")


class Pairs:
    """The networks in both tables of a comparison, with gains and counts of captured networks.

    ``all_sizes``: one row per network and image size.  Bytes are scaled by the number of pixels
    from the image size at which the network was ``traced``.  ``networks``: one row per network.
    """

    def __init__(
        self,
        comparison: subject.SettingChange,
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
        columns = [name for name in _EQUAL_COLUMNS if name != "batch" or not comparison.any_batch]
        pairs = _join_tables(before.rows, after.rows, columns)
        pairs["gain"] = pairs["rate_after"] / pairs["rate_before"]
        norms = networks.captured.drop_duplicates("network").set_index("network")["norm"].to_dict()
        pairs["family"] = [subject.family_of(name, norms.get(name)) for name in pairs["network"]]
        captured = networks.captured.drop(columns="norm").rename(columns={"image": "traced"})
        self.all_sizes = pairs.merge(captured, how="left", on="network")
        pixels = (self.all_sizes["image"] / self.all_sizes["traced"]) ** 2
        for name in ("half_bytes", "single_bytes"):
            self.all_sizes[name] *= pixels
        self.networks = _one_size_per_network(self.all_sizes).set_index("network")

    def gain_in(self, *families: str, all_sizes: bool = False) -> Distribution:
        """Return the gains in some families, at the usual image size or at all image sizes."""
        rows = self.all_sizes.set_index("network") if all_sizes else self.networks
        size = ", all sizes" if all_sizes else ""
        name = ", ".join(families) if len(families) < len(subject.FAMILIES) else "all networks"
        gains = rows.loc[rows["family"].isin(families), "gain"]
        return Distribution(f"gain({self.name}, {name}{size})", gains, self.files)

    @property
    def switched(self) -> pd.DataFrame:
        """``_switched_sizes`` at the image size at which each network was traced."""
        return self._switched_sizes[self._switched_sizes["image"] == self._switched_sizes["traced"]]

    @cached_property
    def _switched_sizes(self) -> pd.DataFrame:
        """Networks whose normalizations can be in float16 or float32, with predicted gains.

        The older card normalizes in float16.  ``half``: so does the newer card, which gains as much
        as with batch norm.  ``single``: it normalizes in float32, which adds the time of further
        bytes at its bandwidth.  ``calibrated``: this time is scaled by the calibration.
        """
        rows, newer = self.all_sizes, self._cards[1]
        usual_gain = float(self.gain_in(subject.BATCH).numbers.median())  # NaN without CNNs
        adds_bytes = rows["single_bytes"] > (1 + _LEAST_MOVED) * rows["half_bytes"]
        rows = rows[adds_bytes & _same_parameters(rows, all_sizes=True)].set_index("network")
        if newer is None or rows.empty or math.isnan(usual_gain):
            return rows[:0].reindex(columns=[*rows, *get_args(Prediction)])
        seconds = 1 / rows["rate_before"]
        further_seconds = (rows["single_bytes"] - rows["half_bytes"]) / newer.bandwidth
        single = seconds / (seconds / usual_gain + further_seconds)
        calibrated = seconds / (seconds / usual_gain + self._calibration * further_seconds)
        calibrated = calibrated.where(rows.index.str.match(subject.HELD_OUT_NAMES))
        return rows.assign(half=usual_gain, single=single, calibrated=calibrated)

    def switched_gain(
        self, families: Collection[str], precision: Prediction | None = None
    ) -> Distribution:
        """Return measured or predicted gains of networks in some families that can be switched."""
        rows = self.switched[self.switched["family"].isin(families)]
        name = f"{precision or 'measured'} gain({self.name}, {', '.join(families)})"
        return self._of_theory(name, rows[precision or "gain"].dropna())

    def precision_error(
        self, families: Collection[str], precision: Prediction, *, all_sizes: bool = False
    ) -> Distribution:
        """Return the relative errors of gains that the bytes of a ``precision`` predict."""
        rows = self._switched_sizes if all_sizes else self.switched
        rows = rows[rows["family"].isin(families)]
        name = f"error of {precision} gain({self.name}, {', '.join(families)})"
        return self._of_theory(name, (rows[precision] / rows["gain"] - 1).abs().dropna())

    def nearer_to_single(self, families: Collection[str]) -> Leaf:
        """Count the networks whose gain float32 predicts better than float16."""
        half, single = (self.precision_error(families, name) for name in get_args(Precision))
        nearer = int((single.numbers < half.numbers).sum())
        return single.without_interval("number of networks nearer to single precision", nearer)

    @cached_property
    def known(self) -> pd.DataFrame:
        """The CNNs whose operators and cards are known, with the gain by each of ``RULES``."""
        older, newer = self._cards
        comparable = self.networks["family"].isin(subject.CNNS) & _same_parameters(self.networks)
        if older is None or newer is None or not comparable.any():
            return self.networks[:0].reindex(columns=[*self.networks, *RULES])
        known = self.networks[comparable].astype({"place": int})
        place, batches = known["place"], np.ones(len(self._networks.captured))
        batches[place] = known["batch"]
        before, after = (self._networks.seconds(batches, card)[place] for card in (older, newer))
        bandwidth, peak = newer.bandwidth / older.bandwidth, newer.peak / older.peak
        known[RULES[0]] = before / after
        gains = bandwidth, 2 / (1 / bandwidth + 1 / peak), 1.0, peak
        return known.assign(**dict(zip(RULES[1:], gains, strict=True)))

    def error(self, rule: str) -> Distribution:
        """Return the relative errors of the gains that a rule predicts."""
        errors = (self.known[rule] / self.known["gain"] - 1).abs()
        return self._of_theory(f"error of {rule}({self.name})", errors)

    def _of_theory(self, name: str, numbers: "pd.Series[float]") -> Distribution:
        files = (*self.files, OPERATORS, "devices.yaml") if self.files else ()
        return Distribution(name, numbers, files)


def _same_parameters(rows: pd.DataFrame, *, all_sizes: bool = False) -> "pd.Series[bool]":
    """Select the rows whose network was traced with equal parameters (and at the image size)."""
    equal = (rows["counted"] - rows["parameters"]).abs() <= _PARAMETER_ROUNDING
    return equal if all_sizes else equal & (rows["image"] == rows["traced"])


def _join_tables(before: pd.DataFrame, after: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Join rows of two tables that are equal in some ``columns``, once per network and image size.

    Where several rows of ``after`` are equal in these columns, keep the last.  Where several joined
    rows remain for a network and image size, keep the one with the largest batch of ``before``.
    """
    last_rows = after.drop_duplicates(columns, keep="last")
    rows = before.merge(last_rows, on=[*columns], suffixes=("_before", "_after"))
    if "batch" not in rows:
        rows = rows.rename(columns={"batch_before": "batch"})
    rows = rows.sort_values("batch", ascending=False, kind="stable")
    return rows.drop_duplicates(["network", "image"])


def _one_size_per_network(rows: pd.DataFrame) -> pd.DataFrame:
    """Select for each network the image size nearest to 224 px; of two as near, the smaller."""
    rows = rows.assign(distance=(rows["image"] - _USUAL_SIZE).abs())
    return rows.sort_values(["distance", "image"], kind="stable").drop_duplicates("network")
