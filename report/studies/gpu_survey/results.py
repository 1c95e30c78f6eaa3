"""Results of gpu_survey: prices of a normalization, and errors of predictors of a gain."""

import operator
import statistics
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import Final, Literal

import pandas as pd

from report.core.records import OPERATORS
from report.paper.findings import Inputs
from report.quantity.expression import Leaf, Quantity, absent, exact
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.runs import SAME, Distribution, Pairs, rounded
from report.studies.gpu_survey.source import Published, Setting, read_tables
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
    "Operators": "operators",
}


class Survey:
    """The pairs of published rates, and the cards by their data sheets."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit it."""
        self.inputs = inputs
        tables = read_tables(inputs.imported)
        settings = {*subject.EAGER, *subject.NO_SWITCH}
        for step in subject.COMPARISONS.values():
            settings |= {step.before, step.after}
        self.tables = {setting: tables[setting] for setting in settings if setting in tables}
        self.cards = cards(inputs.devices, subject.CARDS)
        self.networks = Networks(inputs.networks())
        self.captured = self.networks.captured.set_index("network")
        self.pairs = {
            id: Pairs(comparison, self.tables, self.networks, self.cards)
            for id, comparison in subject.COMPARISONS.items()
        }
        # All predictors of all steps meet the same networks.
        known = [self.pairs[id].known.index for id in subject.STEPS]
        common: pd.Index[str] = reduce(pd.Index.intersection, known)
        for id in subject.STEPS:
            pair = self.pairs[id]
            pair.known = pair.known[pair.known.index.isin(common)]

    # ------------------------------------------------------------- the price of a normalization

    def prices(self, setting: Setting) -> list[Leaf]:
        """Bytes that group normalization costs more than batch normalization (B per element).

        They are the difference of the published times of two variants of each backbone, an image,
        as bytes at the listed bandwidth, over the elements that are normalized.
        """
        table, card = self.tables.get(setting, Published()), self.cards.get(setting.device)
        prices: list[Leaf] = []
        for network in subject.BACKBONES.values():
            grouped, name = f"{network}_gn", f"price({network}, {setting.device})"
            size = self.captured["image"].get(grouped, 0)
            at_size = table.rows[table.rows["image"] == size]
            rates = at_size.drop_duplicates("network").set_index("network")["rate"]
            if card is None or not {grouped, network} <= {*rates.index}:
                prices.append(absent(name, "B", "not published"))
                continue
            more = (1 / rates[grouped] - 1 / rates[network]) * card.bandwidth
            price = rounded(float(more / self.captured.loc[grouped, "grouped"]))
            prices.append(exact(name, "B", price, table.file, (OPERATORS, "devices.yaml")))
        return prices

    def predicted_prices(self, precision: Precision) -> list[Leaf]:
        """The same bytes as counted from the code of both variants."""
        columns, prices = self.captured[f"{precision}_bytes"], list[Leaf]()
        for network in subject.BACKBONES.values():
            grouped, name = f"{network}_gn", f"{precision} bytes({network})"
            if {grouped, network} <= {*columns.index}:
                more = columns[grouped] - columns[network]
                price = rounded(float(more / self.captured.loc[grouped, "grouped"]))
                prices.append(exact(name, "B", price, OPERATORS))
            else:
                prices.append(absent(name, "B", "not captured"))
        return prices

    # ------------------------------------------------------------------ other traces of a switch

    def twins(self, setting: Setting, precision: Precision | None = None) -> Distribution:
        """Rates of transformers with a normalization before the first block over their twins'.

        Twins agree in image size, batch size, and number of parameters.  With a ``precision`` the
        rates are those that the bytes of this precision predict from the time of the twin.
        """
        table, card = self.tables.get(setting, Published()), self.cards.get(setting.device)
        first = table.rows[table.rows["network"].str.contains(subject.PRE_NORMALIZED)]
        plain = first["network"].str.replace(subject.PRE_NORMALIZED, "_")
        first = first.assign(normalized=first["network"], network=plain)
        pairs = table.rows.merge(first, on=SAME).set_index("network")
        ratio = pairs["rate_y"] / pairs["rate_x"]
        if precision and card:
            moved = self.captured[f"{precision}_bytes"].reindex
            more = moved(pairs["normalized"]).to_numpy() - moved(pairs.index).to_numpy()
            ratio = 1 / (1 + pairs["rate_x"] * more / card.bandwidth)
        name = f"rate over twin's({setting.device}, {setting.compiler}, {precision or 'published'})"
        return Distribution(name, ratio, (table.file, OPERATORS, "devices.yaml"))

    def kept_gains(self, families: Collection[str]) -> tuple[Distribution, Distribution]:
        """Predicted and measured shares of the gain that networks keep in eager PyTorch.

        Predicted is the gain by float32 over that by float16.  Measured is the eager gain over the
        compiled one, relative to the same ratio of the CNNs with batch normalization.
        """
        second, compiled = self.pairs["second"], self.pairs["compiled"]
        rows = second.switched[second.switched["family"].isin(families)].reset_index()
        rows = rows.merge(compiled.all_sizes, on=["network", "image"], suffixes=("", "_compiled"))
        usual = [float(p.gain_in(subject.BATCH).numbers.median()) for p in (second, compiled)]
        eager = rows["rate_after"] / rows["rate_before"] / usual[0]
        gain = rows["rate_after_compiled"] / rows["rate_before_compiled"] / usual[1]
        files = compiled.files
        predicted = Distribution("predicted kept gain", rows["single"] / rows["half"], files)
        return predicted, Distribution("kept gain", eager / gain, files)

    # ------------------------------------------------------------------- the errors of predictors

    def error(self, id: str, way: str) -> Distribution:
        """Errors of a predictor; its number, if it has one, is fitted on another pair of cards."""
        pair = self.pairs[id]
        if way == "constant":
            fitted = self.pairs[FITTED_ON[id]]
            return pair.error(float(fitted.known_gain.numbers.median()) if len(fitted.known) else 1)
        return pair.error(way)

    def mean(self, way: str, pairs: Iterable[str] = subject.PAIRS_OF_CARDS) -> Quantity:
        """The mean of a predictor's median errors, over steps within pairs and over pairs."""
        means = []
        for pair in pairs:
            medians = [self.error(id, way).median for id in subject.PAIRS_OF_CARDS[pair]]
            means.append(_mean(medians))
        return _mean(means)

    def quantile(self, way: str, percent: int, pairs: Iterable[str]) -> float:
        """The mean quantile (%) of a predictor's errors, over steps within pairs and over pairs."""
        means = []
        for pair in pairs:
            errors = [self.error(id, way).numbers for id in subject.PAIRS_OF_CARDS[pair]]
            means.append(statistics.mean([float(e.quantile(percent / 100)) for e in errors]))
        return 100 * statistics.mean(means)

    def growth(self, id: str, limit: Literal["peak", "bandwidth"]) -> Quantity:
        """Return the ratio of a data-sheet value after a step to the value before it."""
        names = subject.STEPS[id].before.device, subject.STEPS[id].after.device
        before, after = map(self.cards.get, names)
        if before is None or after is None:
            return absent(limit, "1", f"the data sheets of {' and '.join(names)} are not known")
        return after.quantity(limit) / before.quantity(limit)


def _mean(quantities: Sequence[Quantity]) -> Quantity:
    return reduce(operator.add, quantities) / len(quantities)
