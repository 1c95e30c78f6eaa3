"""The paper of gpu_survey: what CNNs gain from a new GPU, from measurements of others alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Final, Literal

import numpy as np
import pandas as pd

from figures.panels import Bars, BarSeries, Curve, Dots, DotSeries, Points, Scaling
from report.core.missing import Missing
from report.core.records import OPERATORS
from report.core.records.store import StoredImport
from report.core.statistics.estimates import CONFIDENCE
from report.paper.findings import Inputs
from report.paper.study import Content, Part, Study
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.operations import largest, smallest
from report.studies.gpu_survey.results import Distribution, Pairs
from report.studies.gpu_survey.source import read_tables
from report.studies.gpu_survey.subject import (
    CARDS,
    COMPARISONS,
    COMPILING,
    EXAMPLE,
    GEFORCE,
    LADDER,
    PRO,
    STEPS,
)
from report.studies.gpu_survey.theory import GROUP_NORM, Card, Networks, cards

#: Gains that differ by less are called equal.
MARGIN: Final = 0.1


class Survey:
    """The pairs of published rates, and the cards by their data sheets."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit it."""
        self.inputs = inputs
        self.tables = read_tables(inputs.imported)
        self.cards = cards(inputs.devices, CARDS)
        self.networks = Networks(inputs.networks())

        self.pairs = {
            id: Pairs(comparison, self.tables, self.networks, self.cards)
            for id, comparison in COMPARISONS.items()
        }
        #: All predictors of all steps meet the same networks.
        self.all_known = {id: self.pairs[id] for id in LADDER}
        known = [pair.known.index for pair in self.all_known.values()]
        common: pd.Index[str] = reduce(pd.Index.intersection, known)
        self.pairs |= {id: pair.among(common) for id, pair in self.all_known.items()}

    def batch(self, id: str, column: str = "batch") -> int:
        """Return the most frequent batch in ``column`` (smallest on a tie); 0 without pairs."""
        batches = self.pairs[id].rows[column].mode()
        return int(batches.min()) if len(batches) else 0

    def growth(self, id: str, spec: Literal["peak", "bandwidth"]) -> Quantity:
        """Return the ratio of the data-sheet value after a step to the value before it."""
        names = STEPS[id].before.device, STEPS[id].after.device
        before, after = map(self.cards.get, names)
        if before is None or after is None:
            return absent(spec, "1", f"the data sheets of {' and '.join(names)} are not known")
        return after.quantity(spec) / before.quantity(spec)


#: Kinds of normalization, by the operator that computes each.
NORMS: Final = {
    "native_batch_norm": "Batch", "native_layer_norm": "Layer", GROUP_NORM: "Group", None: "Other",
}  # fmt: skip
#: The step on which a rule with one number is fitted, for each step on which it is tested.
FITTED_ON: Final = {
    "first": "second", "second": "first", "compiled": "first",
    "both": "first", "pro_eager": "second", "pro": "compiled",
}  # fmt: skip
#: Predictor of a gain by its label in figures.
PREDICTORS: Final = {
    "Nothing is gained": "none",
    "Bandwidth": "bandwidth",
    "Peak": "peak",
    "Constant, fitted": "constant",
    "Weighted mean, fitted": "weighted",
    "Half and half": "half",
    "Whole network": "network",
    "Operators": "operators",
    "Operators, L2": "cached",
    "Merged operators": "merged",
}
#: Predictors that do not sum over operators.
WITHOUT_OPERATORS: Final = tuple(PREDICTORS.values())[:7]
#: Steps held out: no predictor was fitted or chosen on them.
TESTS: Final = tuple(id for id in LADDER if id not in STEPS)
#: Largest relative difference between the group normalization rates of all networks.
MAX_GROUP_NORM_SPREAD: Final = 1 / 3
#: The median relative error of the per-operator roofline is smaller on every step.
MAX_ERROR: Final = 0.2
#: Microseconds in a second.
MICRO: Final = 1e6

study = Study(Survey)
findings = study.findings
survey: Part[Survey] = study.part("", "others")


# -------------------------------------------------------------------------------------- values


def _slower_ungrouped(p: Survey) -> Quantity:
    """Count the CNNs without group normalization that are slower on the newest card."""
    pair = p.pairs["second"]
    lost = int((pair.gain.numbers[~pair.grouped] < 1).sum())
    name = "slower CNNs without group normalization"
    return pair.gain.absent or exact(name, "1", lost, OPERATORS, pair.gain.files)


def _normalized(p: Survey, id: str, grouped: bool) -> Distribution:
    """Return the gains of the CNNs with group normalization, or of those without."""
    pair = p.pairs[id]
    name = f"{pair.gain.name}, {'with' if grouped else 'without'} group normalization"
    return pair.gain.among(pair.grouped == grouped, name)


def _error_of(p: Survey, id: str, way: str, *, common: bool = True) -> Distribution:
    """Errors of a predictor; its number, if it has one, is fitted on another step.

    The networks are the ``common`` ones, or all whose operators are known in the step.
    """
    pairs = p.pairs if common else p.all_known
    fitted = pairs[id].fitted(pairs[FITTED_ON[id]])
    return pairs[id].error(fitted.get(way, way))


def _worst(p: Survey, way: str) -> Quantity:
    """Return the largest median error of a predictor over all steps."""
    return largest(*(_error_of(p, id, way).median for id in LADDER))


def _grouped_pairs(p: Survey, id: str, slower: bool = False) -> Quantity:
    """Count pairs of CNNs with group normalization at any image size, or those that are slower."""
    pair = p.pairs[id]
    rows = pair.every[pair.every["norm"] == GROUP_NORM]
    if slower:
        rows = rows[rows["rate_after"] < rows["rate_before"]]
    name = f"{'slower ' if slower else ''}pairs with group normalization"
    return pair.gain.absent or exact(name, "1", len(rows), OPERATORS, pair.gain.files)


def _batches(p: Survey, id: str, column: str, name: str) -> dict[str, Quantity]:
    """Return the smallest and the largest batch of CNNs with group normalization."""
    pair = p.pairs[id]
    batches = pair.every.loc[pair.every["norm"] == GROUP_NORM].get(column, pd.Series(dtype=int))
    if pair.gain.absent or batches.empty:
        none = absent("batch", "1", "published for too few networks")
        return {f"{name}_least_batch": none, f"{name}_most_batch": none}
    files = pair.gain.files
    least, most = int(batches.min()), int(batches.max())
    return {
        f"{name}_least_batch": exact("smallest batch", "1", least, OPERATORS, files),
        f"{name}_most_batch": exact("largest batch", "1", most, OPERATORS, files),
    }


@survey.mapping()
def counts(p: Survey) -> dict[str, Quantity]:
    return {
        "tables": exact("tables", "1", len(p.tables)),
        "batch": exact("usual batch", "1", p.batch("second")),
        "pro_batch": exact("usual batch of the last card", "1", p.batch("pro", "batch_after")),
        "captured": exact("CNNs captured", "1", len(p.networks.captured)),
        "common_count": p.pairs["first"].over("operators").count,
        "fewest_known": smallest(*(p.all_known[id].over("operators").count for id in LADDER)),
        "most_known": largest(*(p.all_known[id].over("operators").count for id in LADDER)),
        "pro_same_count": p.pairs["pro_same_batch"].gain.count,
        "pro_same_known": p.pairs["pro_same_batch"].known_gain.count,
        "compile_last_count": p.pairs["compile_last"].gain.count,
        "grouped": _normalized(p, "second", True).count,
        "ungrouped": _normalized(p, "second", False).count,
        "grouped_pairs": _grouped_pairs(p, "second"),
        "any_batch_pairs": _grouped_pairs(p, "any_batch"),
        "any_batch_slower": _grouped_pairs(p, "any_batch", slower=True),
        **_batches(p, "second", "batch", "grouped"),
        **_batches(p, "workstation", "batch_after", "workstation"),
        "slower_ungrouped": _slower_ungrouped(p),
    }


def _of_example(gains: Distribution) -> Quantity:
    """Return the gain of the example network, to three digits."""
    network, words = EXAMPLE
    if gains.absent or network not in gains.numbers.index:
        return absent(words, "1", "not published")
    return gains.exactly(words, float(f"{gains.numbers[network]:.3g}"))


@survey.mapping("measured")
def gains(p: Survey) -> dict[str, Quantity]:
    """Median gains, how well predictions rank them, and how far two versions agree."""
    values: dict[str, Quantity] = {}
    for id in (*STEPS, "pro"):
        values[f"{id}_gain"] = p.pairs[id].known_gain.median
    for id in ("compile_last", "instead", "unchanged", "pro_same_batch"):
        values[f"{id}_gain"] = p.pairs[id].gain.median
    for id in ("first", "compiled"):
        values[f"{id}_order"] = p.pairs[id].order(p.pairs[id].predicted("operators"))
    values["pro_intensity_order"] = p.pairs["pro"].order(p.pairs["pro"].intensity)
    values["pro_most_gain"] = p.pairs["pro"].known_gain.quantile(95)
    for id in ("first", "compiled"):
        values[f"{id}_intensity_order"] = p.pairs[id].order(p.pairs[id].intensity)
    share, lost = p.pairs["second"].bandwidth_share, p.pairs["second"].lost_share
    return values | {
        "second_over": p.pairs["second"].over("operators").median,
        "norm_share_spread": share.largest / share.smallest,
        "lost_share_spread": lost.largest / lost.smallest,
        "example_predicted": _of_example(p.pairs["first"].predicted("operators")),
        "example_gain": _of_example(p.pairs["first"].known_gain),
        "first_bandwidth": p.growth("first", "bandwidth"),
        "first_peak": p.growth("first", "peak"),
        "unchanged_q5": p.pairs["unchanged"].gain.quantile(5),
        "unchanged_q95": p.pairs["unchanged"].gain.quantile(95),
    }


@survey.mapping("percent")
def errors_of_steps(p: Survey) -> dict[str, Quantity]:
    """Median errors of predictors, step by step, and in their worst steps."""
    values: dict[str, Quantity] = {}
    for id, way in (
        *product((*STEPS, "both", "pro"), ("half",)),
        *product(("first", "compiled", "pro"), ("operators",)),
        *product(STEPS, ("constant",)),
    ):
        values[f"{id}_{way}_error"] = _error_of(p, id, way).median
    for way in ("peak", "network", "operators"):
        values[f"worst_{way}_error"] = _worst(p, way)
    values["least_operators_error"] = smallest(
        *(_error_of(p, id, "operators").median for id in LADDER)
    )
    values["worst_other_error"] = smallest(*(_worst(p, way) for way in WITHOUT_OPERATORS))
    values["all_operators_error"] = largest(
        *(_error_of(p, id, "operators", common=False).median for id in LADDER)
    )
    values["all_half_error"] = largest(
        *(_error_of(p, id, "half", common=False).median for id in STEPS)
    )
    for id in ("compiled", "pro"):
        values[f"{id}_merged_error"] = _error_of(p, id, "merged").median
    for way in ("bandwidth", "network"):
        values[f"tests_{way}_error"] = largest(*(_error_of(p, id, way).median for id in TESTS))
    tails = [p.pairs[id].error("operators").quantile(90) for id in ("second", "pro_eager", "pro")]
    same = p.pairs["pro_same_batch"]
    for way in ("bandwidth", "peak", "half", "operators", "merged"):
        values[f"pro_same_{way}_error"] = same.error(way).median
    operators = [_error_of(p, id, "operators").median for id in TESTS]
    return values | {
        "tests_operators_error": smallest(*operators),
        "operators_least_tail": smallest(*tails),
        "operators_most_tail": largest(*tails),
    }


@survey.mapping("measured")
def gains_by_norm(p: Survey) -> dict[str, Quantity]:
    values: dict[str, Quantity] = {}
    for id in ("second", "compiled", "workstation"):
        values[f"{id}_grouped_gain"] = _normalized(p, id, True).median
        values[f"{id}_ungrouped_gain"] = _normalized(p, id, False).median
    return values


@survey.mapping("percent")
def shares(p: Survey) -> dict[str, Quantity]:
    rate = p.pairs["second"].bandwidth_share
    roofs = p.pairs["compiled"].reached_roofs
    return {
        "norm_share": rate.median,
        "norm_share_least": rate.smallest,
        "norm_share_most": rate.largest,
        "roof_median": roofs.median,
        "roof_q5": roofs.quantile(5),
        "roof_q95": roofs.quantile(95),
        "cached_change": p.pairs["first"].cached_change.median,
    }


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


@survey.claim("The median error of the roofline of operators is below a tenth")
def operators_predict(p: Survey) -> Iterator[Statement]:
    for id in ("first", "compiled"):
        yield p.pairs[id].error("operators").median < MARGIN


@survey.claim(
    "The roofline of operators errs by less than a fifth in every step, in the median",
    numbers=(
        "worst_operators_error",
        "operators_least_tail",
        "operators_most_tail",
        "common_count",
    ),
)
def operators_hold(p: Survey) -> Iterator[Statement]:
    for id in LADDER:
        yield _error_of(p, id, "operators").median < MAX_ERROR


@survey.claim(
    "In every test bandwidth alone errs less than the roofline of operators",
    numbers=("tests_bandwidth_error", "tests_operators_error"),
)
def bandwidth_wins_tests(p: Survey) -> Iterator[Statement]:
    for id in TESTS:
        yield _error_of(p, id, "bandwidth").median / _error_of(p, id, "operators").median < 1


@survey.claim(
    "Every rule that ignores single operators errs by more than a fifth in some step",
    numbers=("worst_other_error",),
)
def others_fail(p: Survey) -> Iterator[Statement]:
    for way in WITHOUT_OPERATORS:
        yield _worst(p, way) > MAX_ERROR


@survey.claim("The roofline of operators predicts over a tenth too much for the newest card, eager")
def eager_falls_short(p: Survey) -> Statement:
    return p.pairs["second"].over("operators").median > 1 + MARGIN


@survey.claim("Half the time on each limit predicts within a tenth between neighboring cards")
def mean_predicts(p: Survey) -> Iterator[Statement]:
    for id in STEPS:
        yield p.pairs[id].error("half").median < MARGIN


@survey.claim(
    "The median eager gain of one step errs by over a tenth for compiled CNNs in the next"
)
def constant_fails(p: Survey) -> Statement:
    return _error_of(p, "compiled", "constant").median > MARGIN


@survey.claim(
    "Every CNN with group normalization is slower on the RTX 5090, eager; none is compiled",
    numbers=("grouped",),
)
def group_normalization_slows(p: Survey) -> Iterator[Statement]:
    """Neither is one slower on another card of the same generation with the same software."""
    yield _normalized(p, "second", True).largest < 1
    for id in ("compiled", "workstation"):
        yield _normalized(p, id, True).smallest > 1


@survey.claim("The time lost is the bytes of group normalization at one rate, within a third")
def one_rate(p: Survey) -> Statement:
    share = p.pairs["second"].bandwidth_share
    return share.largest / share.smallest < 1 + MAX_GROUP_NORM_SPREAD


@survey.claim("Compiling on the old card beats the next card, eager, by more than a tenth")
def compiling_beats_card(p: Survey) -> Statement:
    return p.pairs["instead"].gain.median > 1 + MARGIN


# ------------------------------------------------------------------------------------- figures


@survey.figure(height=2.3, wide=True)
def scatter(p: Survey) -> Iterator[Scaling]:
    """Predicted and measured gains of every network, step by step."""
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


@survey.figure(key=True, height=4.2, wide=True, rows=2)
def errors(p: Survey) -> Iterator[Dots]:
    """The error of each way of predicting, step by step: median, and nine CNNs in ten."""
    if any(p.pairs[id].known.empty for id in LADDER):
        return
    panels: list[Dots] = []
    longest = 0.0
    for id, step in LADDER.items():
        rows = [_error_of(p, id, way) for way in PREDICTORS.values()]
        medians = tuple(100 * (row.cut(50) or 0) for row in rows)
        tails = tuple(100 * (row.cut(90) or 0) for row in rows)
        series = DotSeries("", medians, low=medians, high=tails)
        named = id in ("first", "both")
        panel = Dots(
            tuple(PREDICTORS), (series,), "Error of the gain (%)", 100 * MAX_ERROR, named=named
        )
        panels.append(replace(panel, title=step.name.replace(", ", ",\n")))
        longest = max(longest, *tails)
    for panel in panels:
        yield replace(panel, x_top=1.05 * longest)


@survey.figure(height=2.4)
def lost(p: Survey) -> Iterator[Scaling]:
    """Draw the time that CNNs with group normalization lose over the bytes that it moves."""
    pair = p.pairs["second"]
    share, card = point(pair.bandwidth_share.median), p.cards.get(STEPS["second"].after.device)
    excess = pair.excess()
    if isinstance(share, Missing) or card is None:
        return
    x, y = excess["bytes"] / 1e6, excess["seconds"] * MICRO
    ends = float(x.min()) / 1.5, float(x.max()) * 1.5
    scale = MICRO * 1e6 / (card.bandwidth * share)
    line = Curve("one rate", ends, (ends[0] * scale, ends[1] * scale))
    points = Points("CNNs with group normalization", tuple(x), tuple(y))
    yield Scaling(
        "Bytes of group normalization, an image (MB)",
        "Lost time, an image (µs)",
        (points,),
        (line,),
    )


@survey.figure(height=1.9)
def example(p: Survey) -> Iterator[Bars]:
    """Draw the time of one network on each card by the limits that bound its operators."""
    name, words = EXAMPLE
    if not all(name in p.pairs[id].known.index for id in ("first", "second")):
        return
    names: list[str] = []
    memory: list[float | None] = []
    arithmetic: list[float | None] = []
    measured: list[float | None] = []
    sides = ("first", "rate_before"), ("first", "rate_after"), ("second", "rate_after")
    for device, (id, side) in zip(GEFORCE, sides, strict=True):
        card = p.cards[device]
        row = p.pairs[id].known.loc[[name], ["place", "batch", side]]
        ((place, batch, rate),) = row.to_numpy(float).tolist()
        short = _short(device)
        names += [f"{short}, roofline", f"{short}, measured"]
        by_arithmetic, by_memory = _bounded(p.networks, place, batch, card)
        memory += [by_memory, None]
        arithmetic += [by_arithmetic, None]
        measured += [None, MICRO / rate]
    series = (
        BarSeries("memory-bound operators", tuple(memory), series=0),
        BarSeries("compute-bound operators", tuple(arithmetic), series=1),
        BarSeries("measured, eager", tuple(measured), series=2),
    )
    yield Bars(tuple(names), series, f"Time of an image of {words} (µs)")


def _bounded(networks: Networks, place: int, batch: int, card: Card) -> list[float]:
    """Microseconds an image in operators that arithmetic bounds, and in those that memory does."""
    limits = networks.limits([batch] * len(networks.captured), card)
    own = networks.operators.index == place
    arithmetic, memory = (seconds[own] * MICRO / batch for seconds in limits)
    slower = np.maximum(arithmetic, memory)
    bounded: list[float] = np.bincount(memory > arithmetic, slower, 2).tolist()
    return bounded


def _cuts(gains: Iterable[Distribution], percent: int) -> tuple[float | None, ...]:
    """Return one quantile of each distribution."""
    return tuple(gain.cut(percent) for gain in gains)


@survey.figure(height=1.4)
def compiling(p: Survey) -> Iterator[Dots]:
    """Draw medians and quantiles of the gains by compiling and by the next card."""
    gains = {f"Compile, {pair.name}": p.pairs[id].gain for id, pair in COMPILING.items()}
    gains |= {p.pairs["instead"].name: p.pairs["instead"].gain}
    known = {name: gain for name, gain in gains.items() if not gain.absent}
    if known:
        low, quarter, middle, rest, high = (_cuts(known.values(), n) for n in (5, 25, 50, 75, 95))
        quartiles = zip(quarter, rest, strict=True)
        inner = tuple((start, end) if start and end else None for start, end in quartiles)
        names = tuple(f"{name} ({len(gain.numbers)})" for name, gain in known.items())
        series = DotSeries("", middle, low=low, high=high, inner=inner)
        yield Dots(names, (series,), "Rate after ÷ before", 1.0)


# -------------------------------------------------------------------------------------- tables


def _short(device: str) -> str:
    """Name a card without its maker and line of products."""
    return "RTX PRO 6000 Max-Q" if device == PRO else device.removeprefix("NVIDIA GeForce ")


@survey.table("cards", digits={"L2 (MB)": 3, "Ridge": 3})
def data_sheets(p: Survey) -> Iterator[Mapping[str, Content]]:
    for card in p.cards.values():
        yield {
            "Card": _short(card.device),
            "Peak (TFLOP/s)": card.quantity("peak"),
            "Bandwidth (GB/s)": card.quantity("bandwidth"),
            "L2 (MB)": card.quantity("cache") if card.cache else Missing("not in our sources"),
            "Ridge": card.quantity("peak") / card.quantity("bandwidth"),
        }


#: Quantiles and rank correlations have no interval.
_DIGITS: Final = {"Tail, op. (%)": 3, "Rank, op.": 2, "Rank, FLOP/B": 2}


@survey.table(wide=True, digits=_DIGITS)
def steps(p: Survey) -> Iterator[Mapping[str, Content]]:
    for id in () if p.pairs["first"].known.empty else (*LADDER, "pro_same_batch"):
        pair, way = p.pairs[id], "operators"
        yield {
            "Step": pair.name,
            "CNNs, all": p.all_known.get(id, pair).over(way).count,
            "Measured": pair.known_gain.median,
            "Bandwidth (%)": pair.error("bandwidth").median,
            "Half and half (%)": pair.error("half").median,
            "Operators (%)": pair.error(way).median,
            "Tail, op. (%)": pair.error(way).quantile(90),
            "Rank, op.": pair.order(pair.predicted(way)),
            "Rank, FLOP/B": pair.order(pair.intensity),
        }


@survey.table()
def norms(p: Survey) -> Iterator[Mapping[str, Content]]:
    """Gains by the rarest kind of normalization in a network."""
    pairs = p.pairs["second"], p.pairs["compiled"], p.pairs["workstation"]
    for norm in () if pairs[0].gain.absent else NORMS:
        eager, compiled, workstation = (pair.gain.among(pair.has_norm(norm)) for pair in pairs)
        yield {
            "Normalization": NORMS[norm],
            "CNNs": eager.count,
            "5090, eager": eager.median,
            "5090, compiled": compiled.median,
            "PRO 6000 Max-Q, eager": workstation.median,
        }


def _conditions(table: StoredImport) -> dict[str, Content]:
    """Return the machine of a published table, and the conditions of all its rows."""
    record, machine = table.record, table.record.environment
    conditions = ", ".join(f"{name} {level}" for name, level in record.conditions.items())
    return {
        "Device": machine.model,
        "Software": machine.framework or Missing(record.missing["framework"]),
        "CUDA": machine.cuda or Missing(record.missing.get("cuda", "not recorded")),
        "Conditions": conditions or Missing("the file states none"),
        "Cases": len(record.cases),
    }


@survey.table(wide=True)
def imported(p: Survey) -> Iterator[Mapping[str, Content]]:
    yield from sorted(map(_conditions, p.inputs.imported), key=str)
