"""Results of gpu_survey: prices of a normalization, and errors of predictors of a gain."""

import math
import operator
import re
from collections.abc import Hashable, Mapping
from functools import reduce
from typing import Final

import pandas as pd

from report.core.missing import Missing
from report.core.records import OPERATORS
from report.paper.findings import Inputs
from report.quantity.evaluation import point
from report.quantity.expression import Leaf, Quantity, absent, exact
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.runs import Distribution, Pairs, rounded
from report.studies.gpu_survey.source import Published, Setting, read_tables
from report.studies.gpu_survey.subject import PRE_NORMALIZED
from report.studies.gpu_survey.theory import Networks, Precision, cards

#: Classifiers of twins differ by less than this share of the parameters.
_CLASSIFIER: Final = 0.005
#: The ends of names of variants with group normalization.
_GROUPED: Final = "_s?gn$"
#: Constants that predict a gain: the first step's median gain, and the median of the step itself.
FIRST_STEP: Final = "First step's gain"
OWN_STEP: Final = "Own step's gain"


class Survey:
    """The pairs of published rates, and the cards by their data sheets."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit it."""
        self.inputs = inputs
        tables = read_tables(inputs.imported)
        settings = {*subject.EAGER, *subject.CONTROLS.values()}
        for step in subject.COMPARISONS.values():
            settings |= {step.before, step.after}
        self.tables = {setting: tables[setting] for setting in settings if setting in tables}
        self.cards = cards(inputs.devices, subject.CARDS)
        self.networks = Networks(inputs.networks())
        self.captured = self.networks.captured.set_index("network")
        factor = point(self.calibration)
        factor = math.nan if isinstance(factor, Missing) else factor
        self.pairs = {
            id: Pairs(comparison, self.tables, self.networks, self.cards, factor)
            for id, comparison in subject.COMPARISONS.items()
        }
        # All predictors of all steps meet the same networks.
        known = [self.pairs[id].known.index for id in subject.STEPS]
        common: pd.Index[str] = reduce(pd.Index.intersection, known)
        for id in subject.STEPS:
            pair = self.pairs[id]
            pair.known = pair.known[pair.known.index.isin(common)].copy()
            pair.known[FIRST_STEP] = self.pairs["first"].known["gain"].median()
            pair.known[OWN_STEP] = pair.known["gain"].median()

    def prices(self, setting: Setting) -> list[Leaf]:
        """Bytes (B per element) that group norm costs more than batch norm, at the bandwidth."""
        table, card = self.tables.get(setting, Published()), self.cards.get(setting.device)
        moved = (card.bandwidth / self._rates(table)).to_dict() if card else {}
        return self._prices(setting.device, moved, table.file, OPERATORS, "devices.yaml")

    @property
    def calibration(self) -> Quantity:
        """Price on the RTX 5090 over the bytes of float32, the mean of the backbones."""
        new, counted = self.prices(subject.PRICED_SETTINGS[-1]), self.predicted_prices("single")
        ratios = [price / single for price, single in zip(new, counted, strict=True)]
        return reduce(operator.add, ratios) / len(ratios)

    def grouped_rates(self, setting: Setting) -> Distribution:
        """Rates of the backbones with group normalization over those with batch normalization."""
        table = self.tables.get(setting, Published())
        rates, backbones = self._rates(table), subject.BACKBONES | subject.UNCOUNTED
        grouped = rates.filter(regex=_GROUPED).rename(_backbone)
        ratio = (grouped / rates).reindex(list(backbones.values())).dropna()
        return Distribution(f"grouped rate({setting.device})", ratio, (table.file, OPERATORS))

    def _rates(self, table: Published) -> "pd.Series[float]":
        """The rates of networks at the image sizes of the traced ones with group normalization."""
        sizes = self.captured["image"].filter(regex=_GROUPED).rename(_backbone)
        rows = table.rows[table.rows["image"] == table.rows["network"].map(_backbone).map(sizes)]
        return rows.drop_duplicates("network").set_index("network")["rate"]

    def predicted_prices(self, precision: Precision) -> list[Leaf]:
        """The same bytes as counted from the code of both variants."""
        moved = dict(zip(self.captured.index, self.captured[f"{precision}_bytes"], strict=True))
        return self._prices(f"{precision} bytes", moved, OPERATORS)

    def _prices(self, name: str, moved: Mapping[Hashable, float], *files: str) -> list[Leaf]:
        elements = self.captured["grouped"].to_dict()
        prices: list[Leaf] = []
        for network in subject.BACKBONES.values():
            grouped, label = f"{network}_gn", f"price({name}, {network})"
            if {grouped, network} <= moved.keys() & elements.keys():
                price = rounded((moved[grouped] - moved[network]) / elements[grouped])
                prices.append(exact(label, "B", price, files[0], files[1:]))
            else:
                prices.append(absent(label, "B", "not published or not captured"))
        return prices

    def twins(self, setting: Setting, precision: Precision | None = None) -> Distribution:
        """Rates of ``PRE_NORMALIZED`` over twins' of equal images, batches, parameters of blocks.

        With a ``precision`` its bytes predict the rates, from the time of the twin.
        """
        table, card = self.tables.get(setting, Published()), self.cards.get(setting.device)
        plain = table.rows["network"].str.replace(PRE_NORMALIZED, r"\1\2", regex=True)
        first = table.rows.assign(normalized=table.rows["network"], network=plain)
        first = first[first["network"] != first["normalized"]]
        pairs = table.rows.merge(first, on=["network", "image", "batch"]).set_index("network")
        pairs = pairs[(pairs["parameters_y"] / pairs["parameters_x"] - 1).abs() < _CLASSIFIER]
        ratio = pairs["rate_y"] / pairs["rate_x"]
        if precision and card:
            moved = self.captured[f"{precision}_bytes"].reindex
            more = moved(pairs["normalized"]).to_numpy() - moved(pairs.index).to_numpy()
            ratio = (1 / (1 + pairs["rate_x"] * more / card.bandwidth)).dropna()
        name = f"rate over twin's({setting.device}, {setting.compiler}, {precision or 'published'})"
        return Distribution(name, ratio, (table.file, OPERATORS, "devices.yaml"))

    def layout_slope(self, id: str) -> Leaf:
        """The slope of gains with batch norm over those from channels-last (RTX 4090)."""
        gains = self.pairs["layout"].gain_in(subject.BATCH)
        return self.pairs[id].gain_in(subject.BATCH).slope(gains)

    def mean_error(self, rule: str) -> Quantity:
        """The mean of a rule's median errors over the steps."""
        medians: list[Quantity] = [self.pairs[id].error(rule).median for id in subject.STEPS]
        return reduce(operator.add, medians) / len(medians)


def _backbone(network: str) -> str:
    """Return the name of a network's variant with batch normalization."""
    return re.sub(_GROUPED, "", network)
