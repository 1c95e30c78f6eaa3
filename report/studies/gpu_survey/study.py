"""What the paper of gpu_survey prints, from measurements of others alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from figures.panels import Bars, BarSeries, Curve, Dots, DotSeries, Points, Scaling
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.study import Content
from report.paper.study import OldStudy as Study
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import Statement
from report.records import OPERATORS
from report.records.store import StoredImport
from report.statistics.estimates import CONFIDENCE
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


study.values(
    {
        "tables": lambda p: exact("tables", "1", len(p.tables)),
        "batch": lambda p: exact("usual batch", "1", p.batch),
        "captured": lambda p: exact("CNNs captured", "1", len(p.networks.captured)),
        "first_count": lambda p: p.pairs["first"].over(WAYS["first"]).count,
        "compile_last_count": lambda p: p.pairs["compile_last"].gain.count,
        "slower": _slower,
        "slower_grouped": _slower_grouped,
    }
)


def _each(
    name: str, ids: Iterable[str], what: Callable[[Pairs, Way], Quantity]
) -> dict[str, Callable[[Survey], Quantity]]:
    """A number of the networks of several comparisons, as they ran."""

    def of(id: str) -> Callable[[Survey], Quantity]:
        return lambda p: what(p.pairs[id], WAYS.get(id, "operators"))

    return {f"{id}_{name}": of(id) for id in ids}


study.values(
    _each(
        "gain", (*STEPS, "compile_last", "instead", "unchanged"), lambda pair, way: pair.gain.median
    )
    | _each("order", ("first", "compiled"), lambda pair, way: pair.order(pair.predicted(way)))
    | _each("intensity_order", ("first", "compiled"), lambda pair, way: pair.order(pair.intensity))
    | _each("over", ("second",), lambda pair, way: pair.over(way).median)
    | {
        "first_bandwidth": lambda p: p.growth("first", "bandwidth"),
        "first_peak": lambda p: p.growth("first", "peak"),
        "unchanged_q5": lambda p: p.pairs["unchanged"].gain.quantile(5),
        "unchanged_q95": lambda p: p.pairs["unchanged"].gain.quantile(95),
    },
    "measured",
)
study.values(
    _each("error", ("first", "compiled"), lambda pair, way: pair.error(way).median)
    | _each("network_error", ("first", "second"), lambda pair, way: pair.error("network").median)
    | _each("reached", ("first", "second"), lambda pair, way: pair.reached(EXAMPLE[0]))
    | _each("half_error", STEPS, lambda pair, way: pair.error("half").median)
    | {
        "margin": lambda p: exact("smallest effect that matters", "1", MARGIN),
        "confidence": lambda p: exact("confidence, chosen", "1", CONFIDENCE),
        # Without the rule of merged operators, and what the last cache changes of a median.
        "compiled_unmerged_error": lambda p: p.pairs["compiled"].error("operators").median,
        "cached_change": lambda p: p.pairs["first"].cached_change.median,
    },
    "percent",
)


# -------------------------------------------------------------------------------------- claims


def _neither(p: Survey) -> tuple[Statement, ...]:
    first, second = (p.pairs[id].gain.median for id in ("first", "second"))
    return (
        first / p.growth("first", "bandwidth") > 1 + MARGIN,
        first / p.growth("first", "peak") < 1 - MARGIN,
        second / p.growth("second", "bandwidth") < 1 - MARGIN,
    )


study.claims(
    {
        "neither-number": _neither,
        "operators-predict": lambda p: (
            p.pairs[id].error(WAYS[id]).median < MARGIN for id in ("first", "compiled")
        ),
        "network-fails": lambda p: (p.pairs[id].error("network").median > MARGIN for id in STEPS),
        "eager-falls-short": lambda p: p.pairs["second"].over("operators").median > 1 + MARGIN,
        "cache-changes-nothing": lambda p: (
            p.pairs[id].cached_change.median < MARGIN for id in ("first", "second")
        ),
        "compiling-beats-card": lambda p: p.pairs["instead"].gain.median > 1 + MARGIN,
    }
)


# ------------------------------------------------------------------------------------- figures


@study.figure("fig-scatter", height=2.3, wide=True)
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


@study.figure("fig-errors", height=1.75, wide=True, same_axes=True)
def errors(p: Survey) -> Iterator[Dots]:
    """Predicted over measured gain by each way of predicting, step by step."""
    for id, step in STEPS.items():
        if p.pairs[id].known.empty:
            return
        rows = {name: p.pairs[id].over(way) for name, way in SHOWN.items()}
        panel = _distributions(step.name, rows, "Predicted over measured gain")
        yield replace(panel, names=tuple(SHOWN), named=id == "first")


@study.figure("fig-example", height=1.9)
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


@study.figure("fig-compiling", height=1.4)
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


@study.table("tbl-cards", rows=lambda p: p.cards.values(), digits={"L2 (MB)": 3, "Ridge": 3})
def the_cards(p: Survey, card: Card) -> dict[str, Content]:
    return {
        "Card": card.device.removeprefix("NVIDIA GeForce "),
        "Peak (TFLOP/s)": card.quantity("peak"),
        "Bandwidth (GB/s)": card.quantity("bandwidth"),
        "L2 (MB)": card.quantity("cache"),
        "Ridge": card.quantity("peak") / card.quantity("bandwidth"),
    }


@study.table(
    "tbl-steps",
    rows=lambda p: () if p.pairs["first"].known.empty else STEPS,
    wide=True,
    digits={"Rank, op.": 2, "Rank, FLOP/B": 2},
)
def steps(p: Survey, id: str) -> dict[str, Content]:
    pair, way = p.pairs[id], WAYS[id]
    return {
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


@study.table("tbl-norms", rows=lambda p: () if p.pairs["second"].known.empty else NORMS)
def norms(p: Survey, norm: str) -> dict[str, Content]:
    eager, compiled = (
        p.pairs[id].over(WAYS[id]).among(p.pairs[id].known["norm"] == norm)
        for id in ("second", "compiled")
    )
    return {
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


@study.table("tbl-imported", rows=_published, wide=True)
def imported(p: Survey, row: dict[str, Content]) -> dict[str, Content]:
    return row
