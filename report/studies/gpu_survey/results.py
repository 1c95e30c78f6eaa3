"""The survey: prices of normalizations, and the errors of predictors in each step."""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Final, Literal

import pandas as pd

from report.core.records import OPERATORS
from report.paper.findings import Inputs
from report.quantity.expression import Leaf, Quantity, absent, exact
from report.studies.gpu_survey.runs import Distribution, Pairs
from report.studies.gpu_survey.source import Setting, read_tables
from report.studies.gpu_survey.subject import (
    BACKBONES,
    CARDS,
    COMPARISONS,
    PAIRS_OF_CARDS,
    STEPS,
)
from report.studies.gpu_survey.theory import Networks, Precision, cards

#: The step whose median gain is the constant that predicts each step.
FITTED_ON: Final = {
    "first": "second", "second": "first", "compiled": "first",
    "pro_eager": "second", "pro": "compiled",
}  # fmt: skip
#: Predictors of a gain by their labels in figures.
PREDICTORS: Final = {
    "Nothing is gained": "none",
    "Constant of another pair": "constant",
    "Bandwidth": "bandwidth",
    "Peak": "peak",
    "Smaller growth": "smaller",
    "Half and half": "half",
    "Whole network": "network",
    "Operators": "operators",
}


class Survey:
    """The pairs of published rates, and the cards by their data sheets."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit it."""
        self.inputs = inputs
        tables = read_tables(inputs.imported)
        settings = {setting for step in COMPARISONS.values() for setting in step[1:3]}
        self.tables = {setting: tables[setting] for setting in settings if setting in tables}
        self.cards = cards(inputs.devices, CARDS)
        self.networks = Networks(inputs.networks())
        self.captured = self.networks.captured.set_index("network")
        self.pairs = {
            id: Pairs(comparison, self.tables, self.networks, self.cards)
            for id, comparison in COMPARISONS.items()
        }
        # All predictors of all steps meet the same networks.
        known = [self.pairs[id].known.index for id in STEPS]
        common: pd.Index[str] = reduce(pd.Index.intersection, known)
        for id in STEPS:
            pair = self.pairs[id]
            pair.known = pair.known[pair.known.index.isin(common)]

    # ------------------------------------------------------------- the price of a normalization

    def price(self, setting: Setting, network: str) -> Leaf:
        """Bytes that group normalization costs more than batch normalization (B per element).

        They are the difference of the published times of two variants of ``network``, an image, as
        bytes at the listed bandwidth, over the elements that are normalized.
        """
        grouped, name = f"{network}_gn", f"price({network}, {setting.device})"
        table, card = self.tables.get(setting), self.cards.get(setting.device)
        if table is None or card is None or grouped not in self.captured.index:
            return absent(name, "B", "no such table is published")
        at_size = table.rows[table.rows["image"] == self.captured["image"][grouped]]
        rates = at_size.drop_duplicates("network").set_index("network")["rate"]
        if not {grouped, network} <= {*rates.index}:
            return absent(name, "B", "not published")
        more = (1 / rates[grouped] - 1 / rates[network]) * card.bandwidth
        price = float(more / self.captured.loc[grouped, "grouped"])
        return exact(name, "B", float(f"{price:.3g}"), table.file, (OPERATORS, "devices.yaml"))

    def predicted_price(self, network: str, precision: Precision) -> Leaf:
        """The same bytes as counted from the code of both variants."""
        grouped, name = f"{network}_gn", f"{precision} bytes({network})"
        if not {grouped, network} <= {*self.captured.index}:
            return absent(name, "B", "not captured")
        columns = self.captured[f"{precision}_bytes"]
        price = float((columns[grouped] - columns[network]) / self.captured["grouped"][grouped])
        return exact(name, "B", float(f"{price:.3g}"), OPERATORS)

    def prices(self, setting: Setting) -> list[Leaf]:
        """The prices of all backbones under a setting."""
        return [self.price(setting, network) for network in BACKBONES.values()]

    def predicted_prices(self, precision: Precision) -> list[Leaf]:
        """The prices of all backbones by their code."""
        return [self.predicted_price(network, precision) for network in BACKBONES.values()]

    # ------------------------------------------------------------------- the errors of predictors

    def error(self, id: str, way: str) -> Distribution:
        """Errors of a predictor; its number, if it has one, is fitted on another pair of cards."""
        pair = self.pairs[id]
        if way == "constant":
            fitted = self.pairs[FITTED_ON[id]]
            return pair.error(float(fitted.known_gain.numbers.median()) if len(fitted.known) else 1)
        return pair.error(way)

    def mean(self, way: str) -> Quantity:
        """The mean of a predictor's median errors, over steps within pairs and over pairs."""
        means = []
        for steps in PAIRS_OF_CARDS:
            means.append(_mean([self.error(id, way).median for id in steps]))
        return _mean(means)

    def growth(self, id: str, limit: Literal["peak", "bandwidth"]) -> Quantity:
        """Return the ratio of a data-sheet value after a step to the value before it."""
        names = STEPS[id].before.device, STEPS[id].after.device
        before, after = map(self.cards.get, names)
        if before is None or after is None:
            return absent(limit, "1", f"the data sheets of {' and '.join(names)} are not known")
        return after.quantity(limit) / before.quantity(limit)


def _mean(quantities: Sequence[Quantity]) -> Quantity:
    return reduce(operator.add, quantities) / len(quantities)
