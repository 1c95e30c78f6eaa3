"""Results of gpu_survey: prices of a normalization, and errors of predictors of a gain."""

import math
import re
from collections.abc import Hashable, Mapping
from functools import reduce
from typing import Final

import pandas as pd

from report.core.missing import Missing
from report.core.records import OPERATORS
from report.evidence.cached import cached
from report.paper.findings import Inputs
from report.quantity.evaluation import point_estimate
from report.quantity.expression import Leaf, Quantity, exact_number, missing_number
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.runs import Distribution, Pairs, rounded
from report.studies.gpu_survey.source import Published, Setting, read_tables
from report.studies.gpu_survey.theory import Networks, Precision, cards

#: Largest relative difference of the parameters of twins, whose classifiers may differ.
_CLASSIFIER_SHARE: Final = 0.005
#: The end of the name of a variant with group normalization.
_GROUP_NORM_SUFFIX: Final = "_s?gn$"
#: Rules that predict a gain by a constant: the median gain of the first or of the same step.
FIRST_STEP: Final = "First step's gain"
OWN_STEP: Final = "Own step's gain"


class Survey:
    """Published rates in compared settings, captured networks, and cards by their data sheets."""

    def __init__(self, inputs: Inputs) -> None:
        """Raise ``StudyError`` for a record without the conditions or factors of the study."""
        self.inputs = inputs
        tables = read_tables(inputs.imported)
        settings = {*subject.EAGER_29, *subject.CONTROL_SETTINGS.values()}
        for step in subject.COMPARISONS.values():
            settings |= {step.before, step.after}
        self.tables = {setting: tables[setting] for setting in settings if setting in tables}
        self.cards = cards(inputs.devices, subject.CARDS)
        self.networks = Networks(inputs.networks())
        self.captured = self.networks.captured.set_index("network")
        factor = point_estimate(self.calibration)
        factor = math.nan if isinstance(factor, Missing) else factor
        self.pairs = {
            id: Pairs(comparison, self.tables, self.networks, self.cards, factor)
            for id, comparison in subject.COMPARISONS.items()
        }
        # All rules are tested on the same networks in all steps.
        networks = [self.pairs[id].known.index for id in subject.STEPS]
        common_networks: pd.Index[str] = reduce(pd.Index.intersection, networks)
        for id in subject.STEPS:
            pair = self.pairs[id]
            pair.known = pair.known[pair.known.index.isin(common_networks)].copy()
            pair.known[FIRST_STEP] = self.pairs["first"].known["gain"].median()
            pair.known[OWN_STEP] = pair.known["gain"].median()

    def prices(self, setting: Setting) -> list[Leaf]:
        """Return the further time of group over batch norm, in bytes (B) per normalized element."""
        table, card = self.tables.get(setting, Published()), self.cards.get(setting.device)
        bytes_of_time = (card.bandwidth / self._rates(setting)).to_dict() if card else {}
        return self._prices(setting.device, bytes_of_time, table.file, OPERATORS, "devices.yaml")

    @property
    def calibration(self) -> Quantity:
        """The mean ratio of prices on the RTX 5090 to the counted bytes of float32."""
        new, counted = self.prices(subject.ON_5090), self.predicted_prices("single")
        ratios = [price / single for price, single in zip(new, counted, strict=True)]
        return sum(ratios[1:], ratios[0]) / len(ratios)

    def grouped_rates(self, setting: Setting) -> Distribution:
        """Divide the rates of backbones with group norm by their rates with batch norm."""
        table = self.tables.get(setting, Published())
        rates, backbones = self._rates(setting), subject.BACKBONES | subject.UNCOUNTED
        grouped = rates.filter(regex=_GROUP_NORM_SUFFIX).rename(_backbone)
        ratio = (grouped / rates).reindex(list(backbones.values())).dropna()
        return Distribution(f"grouped rate({setting.device})", ratio, (table.file, OPERATORS))

    @cached
    def _rates(self, setting: Setting) -> "pd.Series[float]":
        """Return rates of backbones at the image size at which their group norm was traced."""
        sizes = self.captured["image"].filter(regex=_GROUP_NORM_SUFFIX).rename(_backbone)
        rows = self.tables.get(setting, Published()).rows
        rows = rows[rows["image"] == rows["network"].map(_backbone).map(sizes)]
        return rows.drop_duplicates("network").set_index("network")["rate"]

    def predicted_prices(self, precision: Precision) -> list[Leaf]:
        """Return the prices of ``prices`` from bytes that are counted in captured networks."""
        moved = dict(zip(self.captured.index, self.captured[f"{precision}_bytes"], strict=True))
        return self._prices(f"{precision} bytes", moved, OPERATORS)

    def _prices(self, name: str, moved: Mapping[Hashable, float], *files: str) -> list[Leaf]:
        """Compute prices from the bytes that each network moves for an image."""
        elements = self.captured["grouped"].to_dict()
        prices: list[Leaf] = []
        for network in subject.BACKBONES.values():
            grouped, label = f"{network}_gn", f"price({name}, {network})"
            if {grouped, network} <= moved.keys() & elements.keys():
                price = rounded((moved[grouped] - moved[network]) / elements[grouped])
                prices.append(exact_number(label, "B", price, files[0], files[1:]))
            else:
                prices.append(missing_number(label, "B", "not published or not captured"))
        return prices

    @cached
    def twins(self, setting: Setting, precision: Precision | None = None) -> Distribution:
        """Divide rates of transformers by rates of twins without the first normalization.

        Twins have equal image sizes, batch sizes and parameters of blocks.  With a ``precision``
        the ratio is predicted from the twin's published rate and the counted further bytes.
        """
        table, card = self.tables.get(setting, Published()), self.cards.get(setting.device)
        twins = table.rows["network"].str.replace(subject.PRE_NORMALIZED_NAMES, r"\1\2", regex=True)
        normalized = table.rows.assign(normalized=table.rows["network"], network=twins)
        normalized = normalized[normalized["network"] != normalized["normalized"]]
        keys = ["network", "image", "batch"]
        pairs = table.rows.merge(normalized, on=keys, suffixes=("_twin", "")).set_index("network")
        difference = (pairs["parameters"] / pairs["parameters_twin"] - 1).abs()
        pairs = pairs[difference < _CLASSIFIER_SHARE]
        ratio = pairs["rate"] / pairs["rate_twin"]
        if precision and card:
            bytes_of = self.captured[f"{precision}_bytes"].reindex
            further = bytes_of(pairs["normalized"]).to_numpy() - bytes_of(pairs.index).to_numpy()
            ratio = (1 / (1 + pairs["rate_twin"] * further / card.bandwidth)).dropna()
        name = f"rate over twin's({setting.device}, {setting.compiler}, {precision or 'published'})"
        return Distribution(name, ratio, (table.file, OPERATORS, "devices.yaml"))

    def layout_slope(self, id: str) -> Leaf:
        """Return the slope of gains of CNNs with batch norm over gains by channels-last (4090)."""
        gains = self.pairs["layout"].gain_in(subject.BATCH)
        return self.pairs[id].gain_in(subject.BATCH).slope(gains)

    def mean_error(self, rule: str) -> Quantity:
        """Return the mean of a rule's median errors over the steps between cards."""
        medians: list[Quantity] = [self.pairs[id].error(rule).median for id in subject.STEPS]
        return sum(medians[1:], medians[0]) / len(medians)


def _backbone(network: str) -> str:
    """Return the name of a network's variant with batch normalization."""
    return re.sub(_GROUP_NORM_SUFFIX, "", network)
