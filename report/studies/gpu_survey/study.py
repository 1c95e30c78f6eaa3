"""The paper of gpu_survey: what CNNs gain from a new GPU, from measurements of others alone."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Final, Literal

import pandas as pd

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.core.statistics.estimates import CONFIDENCE
from report.paper.findings import Inputs
from report.paper.study import Content, Part, Study
from report.quantity.expression import Exact, Leaf, Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.studies.gpu_survey.results import Distribution, Pairs
from report.studies.gpu_survey.subject import (
    BACKBONES,
    CARDS,
    COMPARISONS,
    COMPOSED,
    EFFICIENT,
    EXAMPLE,
    FAMILIES,
    GROUPED,
    HYBRIDS,
    LADDER,
    NEW,
    ONE_GROUP,
    PRO,
    STEPS,
    Published,
    read_tables,
)
from report.studies.gpu_survey.theory import Networks, cards

#: Gains that differ by less are called equal.
MARGIN: Final = 0.1
#: A network whose error is larger is predicted badly.
MAX_ERROR: Final = 0.2
#: Networks that compute at this share of a listed peak are bound by arithmetic.
NEAR_PEAK: Final = 0.8
#: The least share of a listed peak that one network computes at on a card that delivers it.
DELIVERED: Final = 0.9
#: A card on which all networks stay below this share of the listed peak misses it.
MISSED: Final = 0.6
#: The step whose median gain is the constant that predicts each step.
FITTED_ON: Final = {
    "first": "second", "second": "first", "compiled": "first",
    "both": "first", "pro_eager": "second", "pro": "compiled",
}  # fmt: skip
#: Steps by the pair of cards that they compare, without the composed step.
GEFORCE_PAIRS: Final = (("first",), ("second", "compiled"))
PRO_STEPS: Final = ("pro_eager", "pro")
PAIRS_OF_CARDS: Final = (*GEFORCE_PAIRS, PRO_STEPS)
#: Predictors of a gain by their labels in figures.
PREDICTORS: Final = {
    "Nothing is gained": "none",
    "Bandwidth": "bandwidth",
    "Peak": "peak",
    "Smaller growth": "smaller",
    "Half and half": "half",
    "Constant, fitted": "constant",
    "Weighted, hindsight": "hindsight",
    "Whole network": "network",
    "Operators": "operators",
    "Operators, best rates": "attained",
    "Merged operators": "merged",
}
#: The predictors that a figure shows.
SHOWN: Final = (
    "Bandwidth", "Peak", "Smaller growth", "Half and half", "Operators", "Operators, best rates",
)  # fmt: skip
#: Predictors that use data sheets and shapes of networks, and no published rate.
DATA_SHEET: Final = (
    "none", "bandwidth", "peak", "smaller", "half", "network", "operators", "merged",
)  # fmt: skip


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
        self.pairs = {
            id: Pairs(comparison, self.tables, self.networks, self.cards)
            for id, comparison in COMPARISONS.items()
        }
        #: The same without the condition that all predictors of all steps meet the same networks.
        self.all_known = {id: self.pairs[id] for id in LADDER}
        known = [pair.known.index for pair in self.all_known.values()]
        common: pd.Index[str] = reduce(pd.Index.intersection, known)
        self.pairs |= {id: self.pairs[id].among(common) for id in (*LADDER, *COMPOSED)}
        #: The same, with the best published rate of each card in place of its listed peak.
        self.attained = {}
        best = {}
        for name, card in self.cards.items():
            if isinstance(rate := self.best(name), Exact):
                best[name] = card._replace(peak=float(rate.value))
        for id, step in LADDER.items():
            named = step._replace(name=f"{step.name}, best published rates")
            self.attained[id] = Pairs(named, self.tables, self.networks, best).among(common)

    def best(self, device: str, place: int = 1) -> Leaf:
        """The highest rate of a card (FLOP/s), or that of the network in another ``place``."""
        tables = [table for setting, table in self.tables.items() if setting.device == device]
        name, files = f"best rate({device}, {place})", tuple(table.file for table in tables)
        rows = pd.concat([Published().rows, *(table.rows for table in tables)])
        rates = (2 * rows["work"] * rows["rate"]).groupby(rows["network"]).max().sort_values()
        if len(rates) < place or rates.iloc[-1] == 0:
            return absent(name, "FLOP/s", "no such table is published")
        return exact(name, "FLOP/s", float(rates.iloc[-place]), files[0], files[1:])

    def reached(self, device: str, place: int = 1) -> Quantity:
        """A rate of ``best`` over the listed peak of the card."""
        if device not in self.cards:
            return absent(device, "1", "its data sheet is not known")
        return self.best(device, place) / self.cards[device].quantity("peak")

    @cached_property
    def hindsight_weight(self) -> float:
        """The weight, in hundredths, with the smallest worst median error over all steps."""
        steps = [self.pairs[id] for id in LADDER]
        worst = {}
        for weight in (percent / 100 for percent in range(101)):
            errors = [pair.error(pair.weighted(weight)).numbers.median() for pair in steps]
            worst[weight] = max(errors)
        return min(worst, key=lambda weight: worst[weight])

    def error(self, id: str, way: str) -> Distribution:
        """Errors of a predictor; its number, if it has one, is fitted on other rates."""
        pair, source = self.pairs[id], self.pairs[FITTED_ON.get(id, id)]
        if way == "attained":
            return self.attained[id].error("operators")
        if way == "constant":
            return pair.error(float(source.known_gain.numbers.median()) if len(source.known) else 1)
        if way == "hindsight":
            return pair.error(pair.weighted(self.hindsight_weight))
        return pair.error(way)

    def worst(self, way: str) -> Quantity:
        """The largest median error of a predictor over all steps."""
        return largest(*(self.error(id, way).median for id in LADDER))

    def mean(self, way: str, pairs: Sequence[Sequence[str]] = (tuple(LADDER),)) -> Quantity:
        """The mean of a predictor's median errors, over steps within groups and over groups."""
        means = []
        for steps in pairs:
            means.append(_mean([self.error(id, way).median for id in steps]))
        return _mean(means)

    def growth(self, id: str, limit: Literal["peak", "bandwidth"]) -> Quantity:
        """Return the ratio of a data-sheet value after a step to the value before it."""
        names = LADDER[id].before.device, LADDER[id].after.device
        before, after = map(self.cards.get, names)
        if before is None or after is None:
            return absent(limit, "1", f"the data sheets of {' and '.join(names)} are not known")
        return after.quantity(limit) / before.quantity(limit)


def _mean(quantities: Sequence[Quantity]) -> Quantity:
    return reduce(operator.add, quantities) / len(quantities)


study = Study(Survey)
findings = study.findings
survey: Part[Survey] = study.part("", "others")


# -------------------------------------------------------------------------------------- values


@survey.mapping()
def counts(p: Survey) -> dict[str, Quantity]:
    return {
        "tables": exact("tables", "1", len(p.tables)),
        "captured": exact("CNNs captured", "1", len(p.networks.captured)),
        "common_count": p.pairs["first"].known_gain.count,
        "near_peak": p.pairs["pro"].gain_near_peak(NEAR_PEAK).count,
        "near_peak_before": p.pairs["compiled"].gain_near_peak(NEAR_PEAK).count,
        "networks": p.pairs["second"].all_gains.count,
        "slower": p.pairs["second"].all_gains.slower,
        "networks_any_batch": p.pairs["any_batch"].all_gains.count,
        "slower_any_batch": p.pairs["any_batch"].all_gains.slower,
        "slower_cnns": p.pairs["second"].gain.slower,
        "slower_compiled": p.pairs["compiled"].all_gains.slower,
        "grouped": p.pairs["second"].gain_in(GROUPED).count,
        "grouped_rows": p.pairs["any_batch"].gain_at_sizes(GROUPED).count,
        "hybrids": p.pairs["second"].gain_in(HYBRIDS).count,
        "one_group": p.pairs["second"].gain_in(ONE_GROUP).count,
        "efficient": p.pairs["second"].gain_in(EFFICIENT).count,
    }


@survey.mapping("measured")
def gains(p: Survey) -> dict[str, Quantity]:
    """Gains of CNNs and families, and how far two versions agree."""
    values: dict[str, Quantity] = {}
    for id in (*STEPS, *PRO_STEPS):
        values[f"{id}_gain"] = p.pairs[id].known_gain.median
    second = p.pairs["second"]
    one_group = second.gain_in(ONE_GROUP)
    near_peak = p.pairs["pro"].gain_near_peak(NEAR_PEAK)
    return values | {
        "pro_predicted": p.pairs["pro"].column("operators").median,
        "same_batch_predicted": p.pairs["pro_same_batch"].column("operators").median,
        "near_peak_gain": near_peak.middle,
        "near_peak_most": near_peak.largest,
        "near_peak_before_gain": p.pairs["compiled"].gain_near_peak(NEAR_PEAK).middle,
        "compiled_peak": p.growth("compiled", "peak"),
        "pro_peak": p.growth("pro", "peak"),
        "unchanged_gain": p.pairs["unchanged"].gain.median,
        "one_group_least": one_group.smallest,
        "one_group_most": one_group.largest,
        "efficient_most": second.gain_in(EFFICIENT).largest,
        "efficient_workstation": p.pairs["workstation"].gain_in(EFFICIENT).largest,
        "efficient_compiled": p.pairs["compiled"].gain_in(EFFICIENT).smallest,
        "grouped_gain": second.gain_in(GROUPED).middle,
        "grouped_least": p.pairs["any_batch"].gain_at_sizes(GROUPED).smallest,
        "grouped_most": p.pairs["any_batch"].gain_at_sizes(GROUPED).largest,
        "example_predicted": p.pairs["first"].column("operators").of(EXAMPLE),
        "example_gain": p.pairs["first"].known_gain.of(EXAMPLE),
        "first_bandwidth": p.growth("first", "bandwidth"),
        "first_peak": p.growth("first", "peak"),
        "hindsight_weight": exact("weight", "1", p.hindsight_weight),
        "unchanged_q5": p.pairs["unchanged"].gain.quantile(5),
        "unchanged_q95": p.pairs["unchanged"].gain.quantile(95),
    }


@survey.mapping("percent")
def errors_of_steps(p: Survey) -> dict[str, Quantity]:
    """Median errors of predictors in their worst steps and in the mean, and shares."""
    values: dict[str, Quantity] = {}
    for way in ("bandwidth", "half"):
        values[f"worst_{way}"] = p.worst(way)
    for way in ("smaller", "operators"):
        for id in (*LADDER, *COMPOSED, "pro_same_batch"):
            values[f"{way}_{id}"] = p.error(id, way).median
        shares = [p.error(id, way).share_above(MAX_ERROR) for id in LADDER]
        values |= {f"least_far_{way}": smallest(*shares), f"most_far_{way}": largest(*shares)}
    for way in ("smaller", "operators", "attained"):
        values[f"pro_{way}"] = largest(*(p.error(id, way).median for id in PRO_STEPS))
    return values | {
        "too_high_second": p.pairs["second"].over("operators").share_above(1),
        "new_reached": p.reached(NEW),
        "new_second": p.reached(NEW, 2),
        "pro_reached": p.reached(PRO),
        "geforce_reached": smallest(*map(p.reached, CARDS[:3])),
        "roof_median": p.pairs["compiled"].column("roof").median,
    }


study.constants(hybrid_groups=exact("groups, by timm's source", "1", 32))
study.constants(
    "percent",
    near_peak_share=exact("share of the peak, chosen", "1", NEAR_PEAK),
    margin=exact("smallest effect that matters", "1", MARGIN),
    confidence=exact("confidence, chosen", "1", CONFIDENCE),
)


# -------------------------------------------------------------------------------------- claims


@survey.claim(
    "Operators err less than the smaller growth in two of four steps between GeForce cards",
    numbers=("operators_first", "operators_second", "operators_both", "pro_operators"),
)
def operators_win_two(p: Survey) -> Iterator[Statement]:
    for id in LADDER:
        ratio = p.error(id, "operators").median / p.error(id, "smaller").median
        yield ratio < 1 if id in ("first", "compiled") else ratio > 1


@survey.claim("No predictor from the data sheet has the smallest median error in every step")
def no_rule_is_best(p: Survey) -> Iterator[Statement]:
    for way in DATA_SHEET:
        ratios = []
        for id in LADDER:
            errors = [p.error(id, other).median for other in DATA_SHEET]
            ratios.append(p.error(id, way).median / smallest(*errors))
        yield largest(*ratios) > 2


@survey.claim(
    "The best network reaches nine tenths of the listed peak of each GeForce card, and less than "
    "six tenths on the PRO 6000 Max-Q",
    numbers=("pro_reached", "geforce_reached"),
)
def card_misses_peak(p: Survey) -> Iterator[Statement]:
    for device in CARDS:
        share = p.reached(device)
        yield share < MISSED if device == PRO else share > DELIVERED


@survey.claim(
    "From the RTX 5090 to the PRO 6000 Max-Q operators err more than twice as much as the smaller "
    "growth by the listed peak, and by the best published rates less than a tenth, but still more",
    numbers=("pro_operators", "pro_attained", "pro_smaller"),
)
def peak_explains(p: Survey) -> Iterator[Statement]:
    for id in PRO_STEPS:
        yield p.error(id, "operators").median / p.error(id, "smaller").median > 2
        yield p.error(id, "attained").median < MARGIN
        yield p.error(id, "attained").median / p.error(id, "smaller").median > 1


@survey.claim(
    "Networks bound by arithmetic gain what the peak grows from the RTX 4090 to the RTX 5090, and "
    "less than two thirds of that from the RTX 5090 to the PRO 6000 Max-Q"
)
def arithmetic_gains(p: Survey) -> Iterator[Statement]:
    delivered = p.pairs["compiled"].gain_near_peak(NEAR_PEAK).median / p.growth("compiled", "peak")
    yield delivered > 1 - MARGIN
    yield delivered < 1 + MARGIN
    yield p.pairs["pro"].gain_near_peak(NEAR_PEAK).largest / p.growth("pro", "peak") < 2 / 3


@survey.claim(
    "Networks with group normalization of several groups are slower on an RTX 5090 than on an RTX "
    "4090 in eager PyTorch, though peak and bandwidth grow",
    numbers=("grouped", "grouped_rows", "hybrids", "one_group"),
)
def group_normalization_slows(p: Survey) -> Iterator[Statement]:
    """None is slower compiled, on another card of its generation, or with a single group."""
    yield p.growth("second", "peak") > 1
    yield p.growth("second", "bandwidth") > 1
    yield p.pairs["any_batch"].gain_at_sizes(GROUPED).largest < 1
    for family in GROUPED, HYBRIDS:
        yield p.pairs["second"].gain_in(family).largest < 1
        for id in ("compiled", "workstation"):
            yield p.pairs[id].gain_in(family).smallest > 1
    yield p.pairs["second"].gain_in(ONE_GROUP).smallest > 1


@survey.claim("Of one backbone only the variant with group normalization is slower on the RTX 5090")
def backbone_slows(p: Survey) -> Iterator[Statement]:
    """The others, evonorm too where it is published, gain more than a third."""
    gains = p.pairs["second"].all_gains
    for network in BACKBONES.values():
        yield gains.of(network) > 4 / 3
        yield gains.of(f"{network}_gn") < 1
    yield gains.of("resnetv2_50d_evos") > 4 / 3


# ------------------------------------------------------------------------------------- figures


@survey.figure(key=True, height=3.1)
def errors(p: Survey) -> Iterator[Dots]:
    """Draw the median error of each predictor in each step; a row's name ends with its range."""
    if any(p.pairs[id].known.empty for id in LADDER):
        return
    medians = {}
    for label in SHOWN:
        way = PREDICTORS[label]
        medians[label] = [100 * (p.error(id, way).cut(50) or 0) for id in LADDER]
    names = tuple(f"{name}: {min(row):.0f} to {max(row):.0f} %" for name, row in medians.items())
    blank = (None,) * len(names)
    columns = zip(LADDER.values(), *medians.values(), strict=True)
    series = []
    for place, (step, *errors) in enumerate(columns):
        shift = 0.14 * (place - 2.5)
        dots = DotSeries(step.brief, tuple(errors), place, low=blank, high=blank, shift=shift)
        series.append(dots)
    yield Dots(names, tuple(series), "Median error of the gain (%)", 100 * MAX_ERROR, log=True)


@survey.figure(height=2.0, wide=True)
def scatter(p: Survey) -> Iterator[Scaling]:
    """Draw predicted and measured gains of every network, step by step."""
    for id in (*STEPS, "pro"):
        known = p.pairs[id].known
        if known.empty:
            return
        gain = known["rate_after"] / known["rate_before"]
        points = Points("", tuple(known["operators"]), tuple(gain), many=True)
        ends = 1.0, 2.4
        yield Scaling(
            "Predicted gain",
            "Measured gain",
            (points,),
            (Curve("equal", ends, ends),),
            x_scale="linear",
            y_scale="linear",
            title=LADDER[id].brief.replace(", ", ",\n"),
            y_top=2.4,
            y_bottom=0.5,
        )


# -------------------------------------------------------------------------------------- tables


@survey.table("cards", digits={"Ridge": 3, "Reached (%)": 3})
def data_sheets(p: Survey) -> Iterator[Mapping[str, Content]]:
    for card in p.cards.values():
        short = card.device.removeprefix("NVIDIA GeForce ")
        yield {
            "Card": "RTX PRO 6000 Max-Q" if card.device == PRO else short,
            "Peak (TFLOP/s)": card.quantity("peak"),
            "Bandwidth (GB/s)": card.quantity("bandwidth"),
            "Ridge": card.quantity("peak") / card.quantity("bandwidth"),
            "Reached (%)": p.reached(card.device),
        }


_FAR: Final = {"Far, smaller (%)": "smaller", "Far, op. (%)": "operators"}


@survey.table(wide=True, digits=dict.fromkeys(_FAR, 2))
def steps(p: Survey) -> Iterator[Mapping[str, Content]]:
    for id in () if p.pairs["first"].known.empty else (*LADDER, "pro_same_batch"):
        pair = p.pairs[id]
        yield {
            "Step": COMPARISONS[id].brief,
            "CNNs": p.all_known.get(id, pair).known_gain.count,
            "Measured": pair.known_gain.median,
            "Smaller growth (%)": pair.error("smaller").median,
            "Operators (%)": pair.error("operators").median,
            **{head: pair.error(way).share_above(MAX_ERROR) for head, way in _FAR.items()},
        }


_BRIEF: Final = {f"{step.brief} (%)": id for id, step in LADDER.items()}


@survey.table(wide=True, digits=dict.fromkeys(_BRIEF, 3))
def predictors(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Median errors of all predictors in all steps."""
    for label, way in () if p.pairs["first"].known.empty else PREDICTORS.items():
        errors = {head: p.error(id, way).quantile(50) for head, id in _BRIEF.items()}
        yield {"Predictor": label, **errors, "Mean of pairs (%)": p.mean(way, PAIRS_OF_CARDS)}


_NORMS: Final = ("Batch", "Evo", "Group", "Compiled", "PRO")


@survey.table(digits=dict.fromkeys(_NORMS, 3))
def backbones(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Gains of variants of one backbone, and those of group normalization in two other steps."""
    eager, compiled, workstation = (p.pairs[id].all_gains for id in _FAMILY_STEPS)
    for label, network in BACKBONES.items():
        group = f"{network}_gn"
        cells = [eager.of(name) for name in (network, f"{network}_evos", group)]
        cells += [compiled.of(group), workstation.of(group)]
        yield {"Backbone": label, **dict(zip(_NORMS, cells, strict=True))}


_GAINS: Final = ("Least", "Median", "Compiled", "PRO")
_FAMILY_STEPS: Final = ("second", "compiled", "workstation")


@survey.table(digits=dict.fromkeys(_GAINS, 3))
def families(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Gains by family of networks."""
    pairs = [p.pairs[id] for id in _FAMILY_STEPS]
    for family in () if pairs[0].gain.absent else FAMILIES:
        eager, compiled, workstation = (pair.gain_in(family) for pair in pairs)
        cells = eager.smallest, eager.middle, compiled.middle, workstation.middle
        yield {
            "Networks": family,
            "All": eager.count,
            "Slower": eager.slower,
            **dict(zip(_GAINS, cells, strict=True)),
        }
