"""What the paper of gpu_survey prints, from measurements of others alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, Literal

import numpy as np

from figures.panels import Bars, BarSeries, Curve, Dots, DotSeries, Points, Scaling
from report.core.missing import Missing
from report.core.records import OPERATORS
from report.core.records.store import StoredImport
from report.core.statistics.estimates import CONFIDENCE
from report.paper.findings import Inputs
from report.paper.study import Content, Part, Study
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import Statement
from report.studies.gpu_survey.results import Distribution, Pairs
from report.studies.gpu_survey.source import read_tables
from report.studies.gpu_survey.subject import CARDS, COMPARISONS, COMPILING, EXAMPLE, STEPS
from report.studies.gpu_survey.theory import Card, Networks, Way, cards

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

    @property
    def batch(self) -> int:
        """The batch of most pairs; 0 without any."""
        batches = self.pairs["second"].rows["batch"].mode()
        return int(batches.min()) if len(batches) else 0

    def growth(self, id: str, what: Literal["peak", "bandwidth"]) -> Quantity:
        """By how much the data sheet's number grows in a step."""
        names = STEPS[id].before.device, STEPS[id].after.device
        before, after = map(self.cards.get, names)
        if before is None or after is None:
            return absent(what, "1", f"the data sheets of {' and '.join(names)} are not known")
        return after.quantity(what) / before.quantity(what)


#: How the networks of a step ran: a compiler merges some operators into others.
WAYS: Final[dict[str, Way]] = {"first": "operators", "second": "operators", "compiled": "merged"}
#: Kinds of normalization, by the operator that computes each.
NORMS: Final = {"native_batch_norm": "Batch", "native_layer_norm": "Layer"}
#: What predicts a gain, by what figures call it.
SHOWN: Final = {
    "Bandwidth": "bandwidth",
    "Peak": "peak",
    "Half and half": "half",
    "Whole network": "network",
    "Operators": "operators",
    "Merged operators": "merged",
}
#: Microseconds in a second.
MICRO: Final = 1e6

study = Study(Survey)
findings = study.findings
survey: Part[Survey] = study.part("", "others")


# -------------------------------------------------------------------------------------- values


def _slower(p: Survey) -> Quantity:
    """The number of CNNs that are slower on the newest card."""
    gain = p.pairs["second"].gain
    return gain.exactly("number of networks that lose", int((gain.numbers < 1).sum()))


def _slower_grouped(p: Survey) -> Quantity:
    """The number of these that normalize by groups."""
    gain, norm = p.pairs["second"].gain, p.pairs["second"].rows["norm"]
    lost = int(((gain.numbers < 1) & (norm == "native_group_norm")).sum())
    return gain.absent or exact(
        "that lose, with group normalization", "1", lost, OPERATORS, gain.files
    )


@survey.value()
def tables(p: Survey) -> Quantity:
    return exact("tables", "1", len(p.tables))


@survey.value()
def batch(p: Survey) -> Quantity:
    return exact("usual batch", "1", p.batch)


@survey.value()
def captured(p: Survey) -> Quantity:
    return exact("CNNs captured", "1", len(p.networks.captured))


@survey.value()
def first_count(p: Survey) -> Quantity:
    return p.pairs["first"].over(WAYS["first"]).count


@survey.value()
def compile_last_count(p: Survey) -> Quantity:
    return p.pairs["compile_last"].gain.count


survey.values(slower=_slower, slower_grouped=_slower_grouped)


def _gain(p: Survey, id: str) -> Quantity:
    return p.pairs[id].gain.median


def _order(p: Survey, id: str) -> Quantity:
    """The rank correlation of measured gains with those of the roofline of operators."""
    pair = p.pairs[id]
    return pair.order(pair.predicted(WAYS[id]))


def _intensity_order(p: Survey, id: str) -> Quantity:
    """The rank correlation of measured gains with arithmetic intensity."""
    pair = p.pairs[id]
    return pair.order(pair.intensity)


def _error(p: Survey, id: str, way: Way | Literal["half"]) -> Quantity:
    """The median error of one way of predicting."""
    return p.pairs[id].error(way).median


def _reached(p: Survey, id: str) -> Quantity:
    """The share of its roofline that the example reaches."""
    return p.pairs[id].reached(EXAMPLE[0])


for _id in (*STEPS, "compile_last", "instead", "unchanged"):
    survey.values("measured", **{f"{_id}_gain": partial(_gain, id=_id)})
for _id in ("first", "compiled"):
    survey.values("measured", **{f"{_id}_order": partial(_order, id=_id)})
for _id in ("first", "compiled"):
    survey.values("measured", **{f"{_id}_intensity_order": partial(_intensity_order, id=_id)})


@survey.value("measured")
def second_over(p: Survey) -> Quantity:
    return p.pairs["second"].over(WAYS["second"]).median


@survey.value("measured")
def first_bandwidth(p: Survey) -> Quantity:
    return p.growth("first", "bandwidth")


@survey.value("measured")
def first_peak(p: Survey) -> Quantity:
    return p.growth("first", "peak")


@survey.value("measured")
def unchanged_q5(p: Survey) -> Quantity:
    return p.pairs["unchanged"].gain.quantile(5)


@survey.value("measured")
def unchanged_q95(p: Survey) -> Quantity:
    return p.pairs["unchanged"].gain.quantile(95)


for _id in ("first", "compiled"):
    survey.values("percent", **{f"{_id}_error": partial(_error, id=_id, way=WAYS[_id])})
for _id in ("first", "second"):
    survey.values("percent", **{f"{_id}_network_error": partial(_error, id=_id, way="network")})
for _id in ("first", "second"):
    survey.values("percent", **{f"{_id}_reached": partial(_reached, id=_id)})
for _id in STEPS:
    survey.values("percent", **{f"{_id}_half_error": partial(_error, id=_id, way="half")})

study.constants(
    "percent",
    margin=exact("smallest effect that matters", "1", MARGIN),
    confidence=exact("confidence, chosen", "1", CONFIDENCE),
)


@survey.value("percent")
def compiled_unmerged_error(p: Survey) -> Quantity:
    """The error of compiled networks without the rule of merged operators."""
    return p.pairs["compiled"].error("operators").median


@survey.value("percent")
def cached_change(p: Survey) -> Quantity:
    """The share by which the last cache changes a median gain."""
    return p.pairs["first"].cached_change.median


# -------------------------------------------------------------------------------------- claims


@survey.claim("The median gain follows neither bandwidth nor peak within a tenth")
def neither_number(p: Survey) -> Iterator[Statement]:
    first, second = (p.pairs[id].gain.median for id in ("first", "second"))
    yield first / p.growth("first", "bandwidth") > 1 + MARGIN
    yield first / p.growth("first", "peak") < 1 - MARGIN
    yield second / p.growth("second", "bandwidth") < 1 - MARGIN


@survey.claim("The median error of the roofline of operators is below a tenth")
def operators_predict(p: Survey) -> Iterator[Statement]:
    for id in ("first", "compiled"):
        yield p.pairs[id].error(WAYS[id]).median < MARGIN


@survey.claim("The roofline of the whole network errs by more than a tenth in every step")
def network_fails(p: Survey) -> Iterator[Statement]:
    for id in STEPS:
        yield p.pairs[id].error("network").median > MARGIN


@survey.claim("The roofline of operators predicts over a tenth too much for the newest card, eager")
def eager_falls_short(p: Survey) -> Statement:
    return p.pairs["second"].over("operators").median > 1 + MARGIN


@survey.claim("The last cache moves the predicted median gain by less than a tenth")
def cache_changes_nothing(p: Survey) -> Iterator[Statement]:
    for id in ("first", "second"):
        yield p.pairs[id].cached_change.median < MARGIN


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
        points = Points("", tuple(known[WAYS[id]]), tuple(gain), many=True)
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


@survey.figure(key=True, height=1.75, wide=True, same_axes=True)
def errors(p: Survey) -> Iterator[Dots]:
    """Predicted over measured gain by each way of predicting, step by step."""
    for id, step in STEPS.items():
        if p.pairs[id].known.empty:
            return
        rows = {name: p.pairs[id].over(way) for name, way in SHOWN.items()}
        panel = _distributions(step.name, rows, "Predicted over measured gain")
        yield replace(panel, names=tuple(SHOWN), named=id == "first")


@survey.figure(height=1.9)
def example(p: Survey) -> Iterator[Bars]:
    """What bounds the operators of one network on each card, and how long it took."""
    name, words = EXAMPLE
    if not all(name in p.pairs[id].known.index for id in ("first", "second")):
        return
    names: list[str] = []
    memory: list[float | None] = []
    arithmetic: list[float | None] = []
    measured: list[float | None] = []
    sides = ("first", "rate_before"), ("first", "rate_after"), ("second", "rate_after")
    for card, (id, side) in zip(p.cards.values(), sides, strict=True):
        row = p.pairs[id].known.loc[[name], ["place", "batch", side]]
        ((place, batch, rate),) = row.to_numpy(float).tolist()
        short = card.device.removeprefix("NVIDIA GeForce ")
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


@survey.figure(height=1.4)
def compiling(p: Survey) -> Iterator[Dots]:
    """What compiling and the next card gain."""
    gains = {f"Compile, {pair.name}": p.pairs[id].gain for id, pair in COMPILING.items()}
    gains |= {p.pairs["instead"].name: p.pairs["instead"].gain}
    known = {name: gain for name, gain in gains.items() if not gain.absent}
    if known:
        yield _distributions("", known, "Rate after ÷ before")


def _distributions(title: str, rows: Mapping[str, Distribution], x_label: str) -> Dots:
    """Distributions of ratios in named rows, with their numbers of networks.

    Each has its median, and lines between its outer and its inner quantiles.
    """

    def cuts(percent: int) -> tuple[float | None, ...]:
        return tuple(row.cut(percent) for row in rows.values())

    quartiles = zip(cuts(25), cuts(75), strict=True)
    inner = tuple((low, high) if low and high else None for low, high in quartiles)
    names = tuple(f"{name} ({len(row.numbers)})" for name, row in rows.items())
    series = DotSeries("", cuts(50), low=cuts(5), high=cuts(95), inner=inner)
    return Dots(names, (series,), x_label, 1.0, title)


# -------------------------------------------------------------------------------------- tables


@survey.table("cards", digits={"L2 (MB)": 3, "Ridge": 3})
def data_sheets(p: Survey) -> Iterator[Mapping[str, Content]]:
    for card in p.cards.values():
        yield {
            "Card": card.device.removeprefix("NVIDIA GeForce "),
            "Peak (TFLOP/s)": card.quantity("peak"),
            "Bandwidth (GB/s)": card.quantity("bandwidth"),
            "L2 (MB)": card.quantity("cache"),
            "Ridge": card.quantity("peak") / card.quantity("bandwidth"),
        }


@survey.table(wide=True, digits={"Rank, op.": 2, "Rank, FLOP/B": 2})
def steps(p: Survey) -> Iterator[Mapping[str, Content]]:
    for id in () if p.pairs["first"].known.empty else STEPS:
        pair, way = p.pairs[id], WAYS[id]
        yield {
            "Step": STEPS[id].name,
            "CNNs": pair.over(way).count,
            "Measured": pair.gain.median,
            "Predicted": pair.predicted(way).median,
            "Operators (%)": pair.error(way).median,
            "Half and half (%)": pair.error("half").median,
            "Network (%)": pair.error("network").median,
            "Rank, op.": pair.order(pair.predicted(way)),
            "Rank, FLOP/B": pair.order(pair.intensity),
        }


@survey.table()
def norms(p: Survey) -> Iterator[Mapping[str, Content]]:
    for norm in () if p.pairs["second"].known.empty else NORMS:
        eager, compiled = (
            p.pairs[id].over(WAYS[id]).among(p.pairs[id].known["norm"] == norm)
            for id in ("second", "compiled")
        )
        yield {
            "Normalization": NORMS[norm],
            "CNNs": eager.count,
            "Eager": eager.median,
            "Compiled": compiled.median,
        }


def _conditions(each: StoredImport) -> dict[str, Content]:
    """The machine of a published table, and what was the same in all its rows."""
    record, machine = each.record, each.record.environment
    conditions = ", ".join(f"{name} {level}" for name, level in record.conditions.items())
    return {
        "Device": machine.model,
        "Software": machine.framework or Missing(record.missing["framework"]),
        "CUDA": machine.cuda or Missing(record.missing.get("cuda", "not recorded")),
        "Conditions": conditions or Missing("the file states none"),
        "Cases": len(record.cases),
    }


def _published(p: Survey) -> list[dict[str, Content]]:
    rows = map(_conditions, p.inputs.imported)
    return sorted(rows, key=lambda row: [*map(str, row.values())])


@survey.table(wide=True)
def imported(p: Survey) -> Iterator[Mapping[str, Content]]:
    yield from _published(p)
