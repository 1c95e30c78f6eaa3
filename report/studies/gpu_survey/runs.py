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
from report.studies.gpu_survey.source import PublishedTable, Setting
from report.studies.gpu_survey.theory import FLOAT16, FLOAT32, GpuSheet, Networks, Precision

#: The image size at which most of the networks were trained (px).
_USUAL_SIZE: Final = 224
#: Columns that must be equal in compared rows.
_EQUAL_COLUMNS: Final = ["network", "image", "batch", "parameters"]
#: Largest difference of traced parameters from published parameters, which are rounded to 10,000.
_PARAMETER_ROUNDING: Final = 5_010
#: Share of bytes that float32 must add; below this share the two predictions hardly differ.
_LEAST_ADDED_BYTES: Final = 0.01
#: Predictions of gains by bytes.  Calibrated: the added bytes of float32 take longer than at the
#: bandwidth of the data sheet, by a measured factor.
Prediction: TypeAlias = Literal[Precision, "calibrated"]
CALIBRATED: Final = "calibrated"
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
        """The median with its interval over networks; missing for fewer than ten networks."""
        return self._estimated("median", partial(median_interval, self.numbers.tolist()))

    @property
    def median_number(self) -> Leaf:
        """The median without an interval, to three digits."""
        return self.exact_quantity("median", rounded(float(self.numbers.median())))

    @property
    def count(self) -> Leaf:
        """The number of networks."""
        return self.exact_quantity("number of networks", len(self.numbers))

    @property
    def count_below_one(self) -> Leaf:
        """The count of networks with a number below one, such as gains of slower networks."""
        return self.exact_quantity("number below 1", int((self.numbers < 1).sum()))

    @property
    def smallest(self) -> Leaf:
        """The smallest number, to three decimals."""
        return self.exact_quantity("smallest", round(float(self.numbers.min()), 3))

    @property
    def largest(self) -> Leaf:
        """The largest number, to three decimals."""
        return self.exact_quantity("largest", round(float(self.numbers.max()), 3))

    @property
    def errors_of_constant(self) -> "Distribution":
        """Relative errors of a constant prediction: the median for every network."""
        errors = (self.numbers.median() / self.numbers - 1).abs()
        return replace(self, name=f"error of the median of {self.name}", numbers=errors)

    def correlation(self, other: "Distribution") -> Leaf:
        """Return the correlation with the ``other`` numbers, to three digits."""
        coefficient = rounded(float(self.numbers.corr(other.numbers)))
        return self.exact_quantity(f"correlation with {other.name}", coefficient)

    def slope(self, other: "Distribution") -> Leaf:
        """Fit log(number) against log(``other`` number); return the slope with its interval."""
        x, y = other.numbers.align(self.numbers, join="inner")
        shared = replace(self, numbers=self.numbers[x.index], files=(*self.files, *other.files))
        interval = partial(least_squares_slope, np.log(x).tolist(), np.log(y).tolist())
        return shared._estimated(f"slope over {other.name}", interval)

    def _estimated(self, name: str, interval: Callable[[float], Estimate]) -> Leaf:
        """Return a number with an interval; it is missing for fewer than ten networks."""
        if len(self.numbers) < _FEWEST_NETWORKS:
            return missing_number(self.name, "1", "published for too few networks")
        (file, *other_files), name = self.files, f"{name} of {self.name}"
        return EstimatedNumber(ONE, name, file, other_files=tuple(other_files), interval=interval)

    def of_network(self, network: str) -> Leaf:
        """Return the number of one network, to three digits."""
        if network not in self.numbers.index:
            return missing_number(network, "1", "not published")
        return self.exact_quantity(network, rounded(float(self.numbers[network])))

    def select(self, names: str) -> "Distribution":
        """Select the networks whose names match the regular expression ``names``."""
        return replace(self, name=f"{self.name}, {names}", numbers=self.numbers.filter(regex=names))

    def exact_quantity(self, name: str, number: float) -> Leaf:
        """Return a number of the distribution as a quantity without an interval."""
        if self.numbers.empty:
            return missing_number(self.name, "1", "published for no such network")
        return exact_number(f"{name} of {self.name}", "1", number, self.files[0], self.files[1:])


def rounded(number: float) -> float:
    """Round to three digits."""
    return float(f"{number:.3g}")


class TableComparison:
    """The networks in both tables of a change of settings, with their gains and traced counts.

    ``all_sizes``: one row per network and image size.  Bytes are scaled by the number of pixels
    from the image size at which the network was traced.  ``networks``: one row per network.
    """

    def __init__(
        self,
        change: subject.SettingChange,
        tables: Mapping[Setting, PublishedTable],
        networks: Networks,
        data_sheets: Mapping[str, GpuSheet],
        calibration: float,
    ) -> None:
        settings = change.before, change.after
        before, after = (tables.get(setting, PublishedTable()) for setting in settings)
        self.files = (before.file, after.file) if before.file and after.file else ()
        self._data_sheets = [data_sheets.get(setting.device) for setting in settings]
        self.name, self._traced_networks, self._calibration = change.name, networks, calibration
        columns = [name for name in _EQUAL_COLUMNS if name != "batch" or not change.any_batch]
        rows = _join_tables(before.rows, after.rows, columns)
        rows["gain"] = rows["rate_after"] / rows["rate_before"]
        norms = networks.norms
        rows["family"] = [subject.family_of(name, norms.get(name)) for name in rows["network"]]
        self.all_sizes = rows.merge(networks.traced.drop(columns="norm"), how="left", on="network")
        pixel_ratio = (self.all_sizes["image"] / self.all_sizes["traced_image"]) ** 2
        for name in ("half_bytes", "single_bytes"):
            self.all_sizes[name] *= pixel_ratio
        self.networks = _one_size_per_network(self.all_sizes).set_index("network")

    def gains(self, *families: str, all_sizes: bool = False) -> Distribution:
        """Return the gains in some families, at the usual image size or at all image sizes."""
        rows = self.all_sizes.set_index("network") if all_sizes else self.networks
        size = ", all sizes" if all_sizes else ""
        name = ", ".join(families) if len(families) < len(subject.FAMILIES) else "all networks"
        gains = rows.loc[rows["family"].isin(families), "gain"]
        return Distribution(f"gain({self.name}, {name}{size})", gains, self.files)

    @cached_property
    def switchable_networks(self) -> pd.DataFrame:
        """``_switchable_at_all_sizes`` at the image size at which each network was traced."""
        rows = self._switchable_at_all_sizes
        return rows[rows["image"] == rows["traced_image"]]

    @cached_property
    def _switchable_at_all_sizes(self) -> pd.DataFrame:
        """Networks whose normalizations can be in float16 or float32, with predicted gains.

        All predictions assume that the older GPU normalizes in float16.  With ``FLOAT16`` the newer
        GPU does so too, and a network gains as much as CNNs with batch norm.  With ``FLOAT32`` the
        newer GPU needs more time, for the added bytes at its bandwidth.  With ``CALIBRATED`` this
        added time is multiplied by the calibration.
        """
        rows, newer = self.all_sizes, self._data_sheets[1]
        usual_gain = float(self.gains(subject.BATCH_NORM_CNNS).numbers.median())  # NaN without CNNs
        adds_bytes = rows["single_bytes"] > (1 + _LEAST_ADDED_BYTES) * rows["half_bytes"]
        rows = rows[adds_bytes & _same_parameters(rows, all_sizes=True)].set_index("network")
        if newer is None or rows.empty or math.isnan(usual_gain):
            return rows[:0].reindex(columns=[*rows, *get_args(Prediction)])
        seconds = 1 / rows["rate_before"]
        added_seconds = (rows["single_bytes"] - rows["half_bytes"]) / newer.bandwidth
        float32_gain = seconds / (seconds / usual_gain + added_seconds)
        calibrated_gain = seconds / (seconds / usual_gain + self._calibration * added_seconds)
        calibrated_gain = calibrated_gain.where(rows.index.str.match(subject.HELD_OUT_NAMES))
        rows[FLOAT16], rows[FLOAT32], rows[CALIBRATED] = usual_gain, float32_gain, calibrated_gain
        return rows

    def switchable_gains(
        self, families: Collection[str], prediction: Prediction | None = None
    ) -> Distribution:
        """Return the measured or predicted gains of the switchable networks in some families."""
        rows = self.switchable_networks
        rows = rows[rows["family"].isin(families)]
        name = f"{prediction or 'measured'} gain({self.name}, {', '.join(families)})"
        return self._with_theory_files(name, rows[prediction or "gain"].dropna())

    def prediction_errors(
        self, families: Collection[str], prediction: Prediction, *, all_sizes: bool = False
    ) -> Distribution:
        """Return the relative errors of predicted gains of the switchable networks."""
        rows = self._switchable_at_all_sizes if all_sizes else self.switchable_networks
        rows = rows[rows["family"].isin(families)]
        name = f"error of {prediction} gain({self.name}, {', '.join(families)})"
        return self._with_theory_files(name, (rows[prediction] / rows["gain"] - 1).abs().dropna())

    def count_nearer_to_float32(self, families: Collection[str]) -> Leaf:
        """Count the networks whose gain float32 predicts better than float16."""
        float16_errors = self.prediction_errors(families, FLOAT16)
        float32_errors = self.prediction_errors(families, FLOAT32)
        count = int((float32_errors.numbers < float16_errors.numbers).sum())
        return float32_errors.exact_quantity("number of networks nearer to single precision", count)

    @cached_property
    def traced_cnns(self) -> pd.DataFrame:
        """The traced CNNs with the gain by each of ``RULES``; empty without both data sheets."""
        older, newer = self._data_sheets
        comparable = self.networks["family"].isin(subject.CNNS) & _same_parameters(self.networks)
        if older is None or newer is None or not comparable.any():
            return self.networks[:0].reindex(columns=[*self.networks, *RULES])
        cnns = self.networks[comparable].astype({"position": int})
        positions, batches = cnns["position"], np.ones(len(self._traced_networks.traced))
        batches[positions] = cnns["batch"]
        seconds_before = self._traced_networks.seconds(batches, older)[positions]
        seconds_after = self._traced_networks.seconds(batches, newer)[positions]
        bandwidth_gain, peak_gain = newer.bandwidth / older.bandwidth, newer.peak / older.peak
        cnns["Operators"] = seconds_before / seconds_after
        cnns["Bandwidth"], cnns["Peak"] = bandwidth_gain, peak_gain
        cnns["Half and half"] = 2 / (1 / bandwidth_gain + 1 / peak_gain)
        cnns["Nothing is gained"] = 1.0
        return cnns

    def rule_errors(self, rule: str) -> Distribution:
        """Return the relative errors of the gains that a rule predicts for the traced CNNs."""
        errors = (self.traced_cnns[rule] / self.traced_cnns["gain"] - 1).abs()
        return self._with_theory_files(f"error of {rule}({self.name})", errors)

    def _with_theory_files(self, name: str, numbers: "pd.Series[float]") -> Distribution:
        files = (*self.files, OPERATORS, "devices.yaml") if self.files else ()
        return Distribution(name, numbers, files)


def _same_parameters(rows: pd.DataFrame, *, all_sizes: bool = False) -> "pd.Series[bool]":
    """Select the rows whose network was traced with the published number of parameters.

    Unless ``all_sizes``, the image size must also be the size at which the network was traced.
    """
    equal = (rows["traced_parameters"] - rows["parameters"]).abs() <= _PARAMETER_ROUNDING
    return equal if all_sizes else equal & (rows["image"] == rows["traced_image"])


def _join_tables(before: pd.DataFrame, after: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Join rows of two tables that are equal in some ``columns``, once per network and image size.

    If several rows of ``after`` are equal in these columns, only the last is joined.  If several
    joined rows remain for a network and image size, keep the one with the largest batch of
    ``before``.
    """
    last_rows = after.drop_duplicates(columns, keep="last")
    rows = before.merge(last_rows, on=[*columns], suffixes=("_before", "_after"))
    if "batch" not in rows:
        rows = rows.rename(columns={"batch_before": "batch"})
    rows = rows.sort_values("batch", ascending=False, kind="stable")
    return rows.drop_duplicates(["network", "image"])


def _one_size_per_network(rows: pd.DataFrame) -> pd.DataFrame:
    """Select for each network the image size nearest to 224 px; if two are, the smaller one."""
    rows = rows.assign(distance=(rows["image"] - _USUAL_SIZE).abs())
    return rows.sort_values(["distance", "image"], kind="stable").drop_duplicates("network")
