"""What the paper of gpu_survey prints, from measurements of others alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final, Literal

from figures.panels import Bars, BarSeries, Curve, Dots, Points, Scaling
from report.evidence.published import (
    Card,
    Comparison,
    Networks,
    Pairs,
    Setting,
    Way,
    cards,
    pairs,
    published,
)
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.plots import distribution_rows
from report.paper.study import Content, Study
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import Statement
from report.records import OPERATORS
from report.records.network_operators import NetworkOperators
from report.records.store import StoredImport
from report.statistics.estimates import CONFIDENCE

# ----------------------------------------------- which published tables are compared with which

OLD, MIDDLE, NEW = CARDS = tuple(f"NVIDIA GeForce RTX {number}" for number in (3090, 4090, 5090))
PRO: Final = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"


def _compiled(setting: Setting) -> Setting:
    return setting._replace(compiler="dynamo")


_BEFORE, _AFTER, _NEWEST = Setting(MIDDLE, "2.4.0"), Setting(MIDDLE, "2.9.1"), Setting(NEW, "2.9.1")
_PRO: Final = Setting(PRO, "2.9.1")
_LAST: Final = _BEFORE._replace(layout="nhwc")

#: The steps from a card to the next one, by the ids of their values.
STEPS: Final = {
    "first": Comparison("3090 to 4090, eager", Setting(OLD, "2.4.0"), _BEFORE),
    "second": Comparison("4090 to 5090, eager", _AFTER, _NEWEST),
    "compiled": Comparison("4090 to 5090, compiled", _compiled(_AFTER), _compiled(_NEWEST)),
}
#: The same card with two versions of PyTorch, which shows how far rates of two tables agree.
UNCHANGED: Final = Comparison("RTX 4090, two versions", _BEFORE, _AFTER)
#: What compiling gains on one card, over either memory layout.
COMPILING: Final = {
    "compile_4090": Comparison("RTX 4090", _AFTER, _compiled(_AFTER)),
    "compile_5090": Comparison("RTX 5090", _NEWEST, _compiled(_NEWEST)),
    "compile_6000": Comparison("RTX PRO 6000", _PRO, _compiled(_PRO)),
    "compile_last": Comparison("RTX 4090, over NHWC", _LAST, _compiled(_BEFORE)),
}
#: A compiled network on the older card for an eager one on the newer.
INSTEAD: Final = Comparison("Compiled on 4090 vs. eager on 5090", _NEWEST, _compiled(_AFTER))
#: A network whose operators are shown.
EXAMPLE: Final = "resnet50", "ResNet-50"
#: Gains that differ by less are called equal.
MARGIN: Final = 0.1


class Survey:
    """The pairs of published rates, and the cards by their data sheets."""

    def __init__(self, inputs: Inputs) -> None:
        """Raises ``StudyError`` for a record that does not fit it."""
        self.inputs = inputs
        self.tables = published(inputs.imported)
        self.cards = cards(inputs.devices, CARDS)
        self.networks = Networks(inputs.networks())

    @property
    def batch(self) -> int:
        """The batch of most pairs; 0 without any."""
        batches = Counter(row.batch for row, _ in self.pairs["second"].rows)
        return max(batches, key=lambda each: batches[each], default=0)

    @cached_property
    def pairs(self) -> Mapping[str, Pairs]:
        """Every comparison by its id."""
        return {
            id: pairs(each, self.tables, self.networks, self.cards)
            for id, each in {
                **STEPS,
                **COMPILING,
                "instead": INSTEAD,
                "unchanged": UNCHANGED,
            }.items()
        }

    def growth(self, id: str, what: Literal["peak", "bandwidth"]) -> Quantity:
        """By how much the data sheet's number grows in a step."""
        names = STEPS[id].before.device, STEPS[id].after.device
        before, after = map(self.cards.get, names)
        if before is None or after is None:
            return absent(what, "1", f"the data sheets of {' and '.join(names)} are not known")
        return after.quantity(what) / before.quantity(what)

    def half(self, id: str) -> float:
        """The gain of a network that spends half of its time on each limit; 1 if unknown."""
        growths = [number(self.growth(id, what)) for what in ("bandwidth", "peak")]
        known = [each for each in growths if isinstance(each, float)]
        return 2 / sum(1 / each for each in known) if len(known) == 2 else 1.0


#: How the networks of a step ran: a compiler merges some operators into others.
WAYS: Final[dict[str, Way]] = {"first": "operators", "second": "operators", "compiled": "merged"}
#: Kinds of normalization, by the operator that computes each.
NORMS: Final = {"native_batch_norm": "Batch", "native_layer_norm": "Layer"}
#: Microseconds in a second.
MICRO: Final = 1e6

study = Study(Survey)
findings = study.findings


# -------------------------------------------------------------------------------------- values


def _slower(p: Survey) -> Quantity:
    """How many CNNs are slower on the newest card."""
    return p.pairs["second"].gain.number("that lose", lambda gain: gain < 1)


def _slower_grouped(p: Survey) -> Quantity:
    """How many of these normalize by groups."""
    grouped = {row.network for row, _ in p.pairs["second"].only("native_group_norm").rows}
    gain = p.pairs["second"].gain
    return exact(
        "that lose, with group normalization",
        "1",
        len(grouped & {*gain.those(lambda each: each < 1)}),
        OPERATORS,
        gain.files,
    )


study.values(
    {
        "tables": lambda p: exact("tables", "1", len(p.tables)),
        "batch": lambda p: exact("usual batch", "1", p.batch),
        "captured": lambda p: exact("CNNs captured", "1", len(p.networks.found)),
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


def _half_error(id: str) -> Callable[[Survey], Quantity]:
    return lambda p: p.pairs[id].error(p.half(id)).median


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
    | _each("reached", ("first", "second"), lambda pair, way: pair.reached(way).of(EXAMPLE[0], 2))
    | {f"{id}_half_error": _half_error(id) for id in STEPS}
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
        predicted, gain = p.pairs[id].predicted(WAYS[id]).numbers, p.pairs[id].gain.numbers
        if not predicted:
            return
        points = Points("", (*predicted.values(),), tuple(gain[n] for n in predicted), many=True)
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
        if not p.pairs[id].known:
            return
        flat = [number(p.growth(id, what)) for what in ("bandwidth", "peak")]
        ways: dict[str, Way | float] = {
            **{
                n: e
                for n, e in zip(("Bandwidth", "Peak"), flat, strict=True)
                if isinstance(e, float)
            },
            "Half and half": p.half(id),
            "Whole network": "network",
            "Operators": "operators",
            "Merged operators": "merged",
        }
        rows = {name: p.pairs[id].over(way) for name, way in ways.items()}
        panel = distribution_rows(step.name, rows, "Predicted over measured gain")
        yield replace(panel, names=tuple(ways), named=id == "first")


@study.figure("fig-example", height=1.9)
def example(p: Survey) -> Iterator[Bars]:
    """What bounds the operators of one network on each card, and how long it took."""
    name, words = EXAMPLE
    pair = p.pairs["first"].known.get(name), p.pairs["second"].known.get(name)
    if not all(pair):
        return
    (old, middle, network), (_, new, _) = pair  # type: ignore[misc]
    names: list[str] = []
    memory: list[float | None] = []
    arithmetic: list[float | None] = []
    measured: list[float | None] = []
    for row, card in zip((old, middle, new), p.cards.values(), strict=True):
        short = card.device.removeprefix("NVIDIA GeForce ")
        names += [f"{short}, roofline", f"{short}, measured"]
        by_arithmetic, by_memory = _bounded(network, row.batch, card)
        memory += [by_memory, None]
        arithmetic += [by_arithmetic, None]
        measured += [None, MICRO / row.rate]
    series = (
        BarSeries("memory-bound operators", tuple(memory), series=0),
        BarSeries("compute-bound operators", tuple(arithmetic), series=1),
        BarSeries("measured, eager", tuple(measured), series=2),
    )
    yield Bars(tuple(names), series, f"Time of an image of {words} (µs)")


def _bounded(network: NetworkOperators, batch: int, card: Card) -> tuple[float, float]:
    """Microseconds an image in operators that arithmetic bounds, and in those that memory does."""
    found = [0.0, 0.0]
    limits = Networks([network]).limits([batch], card)
    by_peak, by_bandwidth = (times.tolist() for times in limits)
    for arithmetic, memory in zip(by_peak, by_bandwidth, strict=True):
        found[memory > arithmetic] += max(arithmetic, memory) * MICRO / batch
    return found[0], found[1]


@study.figure("fig-compiling", height=1.4)
def compiling(p: Survey) -> Iterator[Dots]:
    """What compiling and the next card gain."""
    shown = {f"Compile, {each.name}": p.pairs[id].gain for id, each in COMPILING.items()}
    shown |= {INSTEAD.name: p.pairs["instead"].gain}
    known = {name: gain for name, gain in shown.items() if gain.known}
    if known:
        yield distribution_rows("", known, "Rate after ÷ before")


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
    rows=lambda p: STEPS if p.pairs["first"].known else (),
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
        "Half and half (%)": pair.error(p.half(id)).median,
        "Network (%)": pair.error("network").median,
        "Rank, op.": pair.order(pair.predicted(way)),
        "Rank, FLOP/B": pair.order(pair.intensity),
    }


@study.table("tbl-norms", rows=lambda p: NORMS if p.pairs["second"].known else ())
def norms(p: Survey, norm: str) -> dict[str, Content]:
    second, compiled = (p.pairs[id].only(norm) for id in ("second", "compiled"))
    return {
        "Normalization": NORMS[norm],
        "CNNs": second.over("operators").count,
        "Eager": second.over("operators").median,
        "Compiled": compiled.over("merged").median,
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
