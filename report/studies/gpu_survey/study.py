"""The paper of gpu_survey: what CNNs gain from a new GPU, from measurements of others alone."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import Final, Literal

import pandas as pd

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE
from report.paper.findings import Inputs
from report.paper.study import Content, Part, Study
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest
from report.studies.gpu_survey.results import Distribution, Pairs
from report.studies.gpu_survey.subject import (
    CARDS,
    COMPARISONS,
    EFFICIENT,
    EXAMPLE,
    FAMILIES,
    GROUPED,
    HYBRIDS,
    LADDER,
    ONE_GROUP,
    PRO,
    STEPS,
    read_tables,
)
from report.studies.gpu_survey.theory import Networks, cards

#: Gains that differ by less are called equal.
MARGIN: Final = 0.1
#: A median error below this is acceptable in every step.
MAX_ERROR: Final = 0.2
#: Two mean errors that differ by less are called near.
MAX_GAP: Final = 0.05
#: Largest relative difference between the group normalization rates of all networks.
MAX_GROUP_NORM_SPREAD: Final = 1 / 3
#: The step whose median gain fits a rule with one number, for each step that the rule predicts.
FITTED_ON: Final = {
    "first": "second", "second": "first", "compiled": "first",
    "both": "first", "pro_eager": "second", "pro": "compiled",
}  # fmt: skip
#: Steps by the pair of cards that they compare, without the composed step.
PAIRS_OF_CARDS: Final = (("first",), ("second", "compiled"), ("pro_eager", "pro"))
#: Predictors of a gain by their labels in figures.
PREDICTORS: Final = {
    "Nothing is gained": "none",
    "Bandwidth": "bandwidth",
    "Peak": "peak",
    "Smaller growth": "smaller",
    "Half and half": "half",
    "Constant, fitted": "constant",
    "Weighted, fitted": "weighted",
    "Weighted, hindsight": "hindsight",
    "Whole network": "network",
    "Operators": "operators",
    "Operators, L2": "cached",
    "Merged operators": "merged",
}
#: Predictors that know no operator and no rate of the step that they predict.
BLIND: Final = ("none", "bandwidth", "peak", "smaller", "half", "constant", "weighted", "network")


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
        self.pairs |= {id: pair.among(common) for id, pair in self.all_known.items()}

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
        pair, source = self.pairs[id], self.pairs[FITTED_ON[id]]
        if way == "constant":
            return pair.error(float(source.known_gain.numbers.median()) if len(source.known) else 1)
        if way in ("weighted", "hindsight"):
            weight = source.fitted_weight if way == "weighted" else self.hindsight_weight
            return pair.error(pair.weighted(weight))
        return pair.error(way)

    def worst(self, way: str) -> Quantity:
        """The largest median error of a predictor over all steps."""
        return largest(*(self.error(id, way).median for id in LADDER))

    def mean(self, way: str, pairs: Sequence[Sequence[str]] = (tuple(LADDER),)) -> Quantity:
        """The mean of a predictor's median errors, over steps within groups and over groups."""
        return _mean([_mean([self.error(id, way).median for id in steps]) for steps in pairs])

    def growth(self, id: str, limit: Literal["peak", "bandwidth"]) -> Quantity:
        """Return the ratio of a data-sheet value after a step to the value before it."""
        names = STEPS[id].before.device, STEPS[id].after.device
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
        "pro_same_known": p.pairs["pro_same_batch"].known_gain.count,
        "compile_last_count": p.pairs["compile_last"].gain.count,
        "networks": p.pairs["second"].all_gains.count,
        "slower": p.pairs["second"].all_gains.slower,
        "networks_any_batch": p.pairs["any_batch"].all_gains.count,
        "slower_any_batch": p.pairs["any_batch"].all_gains.slower,
        "slower_cnns": p.pairs["second"].gain.slower,
        "slower_compiled": p.pairs["compiled"].all_gains.slower,
        "grouped": p.pairs["second"].gain_in(GROUPED).count,
        "grouped_pairs": p.pairs["second"].bandwidth_share.count,
        "hybrids": p.pairs["second"].gain_in(HYBRIDS).count,
        "one_group": p.pairs["second"].gain_in(ONE_GROUP).count,
        "efficient": p.pairs["second"].gain_in(EFFICIENT).count,
    }


def _of_example(gains: Distribution) -> Quantity:
    """Return the gain of the example network, to three digits."""
    network, words = EXAMPLE
    if network not in gains.numbers.index:
        return absent(words, "1", "not published")
    return gains.exactly(words, float(f"{gains.numbers[network]:.3g}"))


@survey.mapping("measured")
def gains(p: Survey) -> dict[str, Quantity]:
    """Gains, how well predictions rank them, and how far two versions agree."""
    values: dict[str, Quantity] = {}
    for id in (*STEPS, "pro"):
        values[f"{id}_gain"] = p.pairs[id].known_gain.median
    for id in ("compile_last", "instead", "unchanged", "pro_same_batch"):
        values[f"{id}_gain"] = p.pairs[id].gain.median
    for id in ("first", "compiled", "pro"):
        values[f"{id}_order"] = p.pairs[id].order("operators")
        values[f"{id}_intensity_order"] = p.pairs[id].order("intensity")
    second = p.pairs["second"]
    share, lost, one_group = second.bandwidth_share, second.lost_share, second.gain_in(ONE_GROUP)
    return values | {
        "pro_most_gain": p.pairs["pro"].known_gain.quantile(95),
        "norm_share_spread": share.largest / share.smallest,
        "lost_share_spread": lost.largest / lost.smallest,
        "one_group_least": one_group.smallest,
        "one_group_most": one_group.largest,
        "efficient_most": second.gain_in(EFFICIENT).largest,
        "efficient_workstation": p.pairs["workstation"].gain_in(EFFICIENT).largest,
        "efficient_compiled": p.pairs["compiled"].gain_in(EFFICIENT).smallest,
        "grouped_gain": second.gain_in(GROUPED).middle,
        "example_predicted": _of_example(p.pairs["first"].column("operators")),
        "example_gain": _of_example(p.pairs["first"].known_gain),
        "first_bandwidth": p.growth("first", "bandwidth"),
        "first_peak": p.growth("first", "peak"),
        "hindsight_weight": exact("weight", "1", p.hindsight_weight),
        "unchanged_q5": p.pairs["unchanged"].gain.quantile(5),
        "unchanged_q95": p.pairs["unchanged"].gain.quantile(95),
    }


@survey.mapping("percent")
def errors_of_steps(p: Survey) -> dict[str, Quantity]:
    """Median errors of predictors in their worst steps and in the mean, and their tails."""
    values: dict[str, Quantity] = {}
    for way in ("bandwidth", "peak", "constant", "weighted", "hindsight"):
        values[f"worst_{way}"] = p.worst(way)
    for way in ("smaller", "operators"):
        values[f"worst_{way}"] = p.worst(way)
        values[f"mean_{way}"] = p.mean(way)
        values[f"mean_cards_{way}"] = p.mean(way, PAIRS_OF_CARDS)
        values[f"tail_{way}"] = largest(*(p.error(id, way).quantile(90) for id in LADDER))
        values[f"all_{way}"] = largest(*(p.all_known[id].error(way).median for id in LADDER))
        values[f"pro_same_{way}"] = p.pairs["pro_same_batch"].error(way).median
    share = p.pairs["second"].bandwidth_share
    return values | {
        "compiled_merged": p.error("compiled", "merged").median,
        "pro_merged": p.error("pro", "merged").median,
        "norm_share_least": share.smallest,
        "norm_share_most": share.largest,
        "roof_median": p.pairs["compiled"].column("roof").median,
    }


study.constants(hybrid_groups=exact("groups, by timm's source", "1", 32))
study.constants(
    "percent",
    margin=exact("smallest effect that matters", "1", MARGIN),
    confidence=exact("confidence, chosen", "1", CONFIDENCE),
)


# -------------------------------------------------------------------------------------- claims


@survey.claim("The median gain follows neither bandwidth nor peak within a tenth")
def neither_number(p: Survey) -> Iterator[Statement]:
    first, second = p.pairs["first"].known_gain.median, p.pairs["second"].known_gain.median
    yield first / p.growth("first", "bandwidth") > 1 + MARGIN
    yield first / p.growth("first", "peak") < 1 - MARGIN
    yield second / p.growth("second", "bandwidth") < 1 - MARGIN


@survey.claim(
    "The mean error of the smaller growth is at most five points above that of operators",
    numbers=("mean_smaller", "mean_operators", "mean_cards_smaller", "mean_cards_operators"),
)
def operators_add_little(p: Survey) -> Iterator[Statement]:
    """The same holds if each pair of cards counts once."""
    yield p.mean("smaller") - p.mean("operators") < MAX_GAP
    yield p.mean("smaller", PAIRS_OF_CARDS) - p.mean("operators", PAIRS_OF_CARDS) < MAX_GAP


@survey.claim(
    "Every rule without operators, unless fitted in hindsight, has a larger worst error than them",
    numbers=("worst_operators", "worst_smaller"),
)
def operators_worst_is_smallest(p: Survey) -> Iterator[Statement]:
    for way in BLIND:
        yield p.worst(way) / p.worst("operators") > 1


@survey.claim("The roofline of operators errs by less than a fifth in every step, in the median")
def operators_hold(p: Survey) -> Iterator[Statement]:
    for id in LADDER:
        yield p.error(id, "operators").median < MAX_ERROR


@survey.claim(
    "A weighted mean of both growths, fitted in hindsight, errs by less than a fifth in every step",
    numbers=("worst_hindsight",),
)
def hindsight_holds(p: Survey) -> Iterator[Statement]:
    for id in LADDER:
        yield p.error(id, "hindsight").median < MAX_ERROR


@survey.claim("A rule whose number is fitted on another step errs by over a fifth in some step")
def fits_fail(p: Survey) -> Iterator[Statement]:
    for way in ("constant", "weighted"):
        yield p.worst(way) > MAX_ERROR


@survey.claim(
    "Networks with group normalization of several groups are slower on the RTX 5090, eager",
    numbers=("grouped", "hybrids", "one_group"),
)
def group_normalization_slows(p: Survey) -> Iterator[Statement]:
    """None is slower compiled, on another card of its generation, or with a single group."""
    for family in GROUPED, HYBRIDS:
        yield p.pairs["second"].gain_in(family).largest < 1
        for id in ("compiled", "workstation"):
            yield p.pairs[id].gain_in(family).smallest > 1
    yield p.pairs["second"].gain_in(ONE_GROUP).smallest > 1


@survey.claim("The time CNNs lose is the bytes of group normalization at one rate, within a third")
def one_rate(p: Survey) -> Statement:
    share = p.pairs["second"].bandwidth_share
    return share.largest / share.smallest < 1 + MAX_GROUP_NORM_SPREAD


@survey.claim("Compiling on the old card beats the next card, eager, by more than a tenth")
def compiling_beats_card(p: Survey) -> Statement:
    return p.pairs["instead"].gain.median > 1 + MARGIN


# ------------------------------------------------------------------------------------- figures


@survey.figure(key=True, height=3.5)
def errors(p: Survey) -> Iterator[Dots]:
    """Draw the median error of each predictor in each step; a row's name ends with its range."""
    if any(p.pairs[id].known.empty for id in LADDER):
        return
    medians = {
        label: [100 * (p.error(id, way).cut(50) or 0) for id in LADDER]
        for label, way in PREDICTORS.items()
    }
    names = tuple(f"{name}: {min(row):.0f} to {max(row):.0f} %" for name, row in medians.items())
    blank = (None,) * len(names)
    columns = zip(LADDER.values(), *medians.values(), strict=True)
    series = []
    for place, (step, *errors) in enumerate(columns):
        series.append(DotSeries(step.brief, tuple(errors), place, low=blank, high=blank))
    yield Dots(names, tuple(series), "Median error of the gain (%)", 100 * MAX_ERROR, log=True)


@survey.figure(height=2.3, wide=True)
def scatter(p: Survey) -> Iterator[Scaling]:
    """Draw predicted and measured gains of every network, step by step."""
    for id, step in STEPS.items():
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
            title=step.name,
            y_top=2.4,
            y_bottom=0.5,
        )


# -------------------------------------------------------------------------------------- tables


@survey.table("cards", digits={"L2 (MB)": 3, "Ridge": 3})
def data_sheets(p: Survey) -> Iterator[Mapping[str, Content]]:
    for card in p.cards.values():
        short = card.device.removeprefix("NVIDIA GeForce ")
        yield {
            "Card": "RTX PRO 6000 Max-Q" if card.device == PRO else short,
            "Peak (TFLOP/s)": card.quantity("peak"),
            "Bandwidth (GB/s)": card.quantity("bandwidth"),
            "L2 (MB)": card.quantity("cache") if card.cache else Missing("not in our sources"),
            "Ridge": card.quantity("peak") / card.quantity("bandwidth"),
        }


#: Quantiles and rank correlations have no interval.
_DIGITS: Final = {"Tail, smaller (%)": 3, "Tail, op. (%)": 3, "Rank, op.": 2, "Rank, FLOP/B": 2}


@survey.table(wide=True, digits=_DIGITS)
def steps(p: Survey) -> Iterator[Mapping[str, Content]]:
    for id in () if p.pairs["first"].known.empty else (*LADDER, "pro_same_batch"):
        pair = p.pairs[id]
        yield {
            "Step": COMPARISONS[id].brief,
            "CNNs, all": p.all_known.get(id, pair).known_gain.count,
            "Measured": pair.known_gain.median,
            "Smaller growth (%)": pair.error("smaller").median,
            "Operators (%)": pair.error("operators").median,
            "Tail, smaller (%)": pair.error("smaller").quantile(90),
            "Tail, op. (%)": pair.error("operators").quantile(90),
            "Rank, op.": pair.order("operators"),
            "Rank, FLOP/B": pair.order("intensity"),
        }


_GAINS: Final = ("Least", "Median", "Compiled", "PRO")


@survey.table(digits=dict.fromkeys(_GAINS, 3))
def families(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Gains by family of networks."""
    pairs = [p.pairs[id] for id in ("second", "compiled", "workstation")]
    for family in () if pairs[0].gain.absent else FAMILIES:
        eager, compiled, workstation = (pair.gain_in(family) for pair in pairs)
        cells = eager.smallest, eager.middle, compiled.middle, workstation.middle
        yield {
            "Networks": family,
            "All": eager.count,
            "Slower": eager.slower,
            **dict(zip(_GAINS, cells, strict=True)),
        }
