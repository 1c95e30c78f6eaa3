"""All that the paper of gpu_survey prints, from measurements of others alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final, Literal

from figures.canvas import Drawing
from figures.dots import Dots
from figures.roofline import Marks, Roofline
from report.evidence import published_survey
from report.evidence.published_rates import CNNS, TRANSFERS, Setting, counted
from report.evidence.published_survey import Ends, Series, Survey, class_name
from report.paper.claims import judge
from report.paper.declared import Field, quantile_fields, table
from report.paper.environments import imported_setup
from report.paper.findings import Claim, Figure, Findings, Inputs
from report.paper.plots import distribution_rows
from report.paper.published_roofs import EMPTY, row_marks, sheet_panel
from report.paper.tables import Table
from report.paper.values import declare
from report.quantity.distribution import PERCENTS, Distribution
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, exact
from report.quantity.verdicts import Range, Several, Statement, all_of, equals, exactly, expect
from report.statistics.estimates import CONFIDENCE
from report.studies.gpu_survey import settings
from report.studies.gpu_survey.settings import CARDS, COMPARISONS, MIDDLE, NEW, compiled, eager
from report.text.escape import markdown

_EAGER: Final = dict(zip(("old", "middle", "new"), map(eager, CARDS), strict=True))
_COMPILED: Final = {"middle_compiled": compiled(MIDDLE), "new_compiled": compiled(NEW)}
#: What two cards differ in by their data sheets.
_SHEET: Final[tuple[Literal["bandwidth", "peak"], ...]] = ("bandwidth", "peak")
_GROUPED: Final = re.compile(settings.NORMALISED).search
#: Of which series the lowest and the highest class are printed.
_ENDS: Final = dict(zip(("eager", "compiled"), settings.BY_CARD[-1], strict=True)) | {
    "compiling": settings.BY_FAMILY[0][0]
}
_SERIES: Final = tuple(chain(*settings.BY_CARD, *settings.BY_FAMILY))
_CHANGE: Final = Field[Series]("Change", "", lambda s: f"{COMPARISONS[s.id].name}, {s.label}")
_OUTER: Final = ("last_113", 5), ("last_training", 5), ("torch_291", 5), ("torch_291", 95)
_GAIN: Final = "Rate after over rate before"


def survey_of(inputs: Inputs) -> Survey:
    """The survey of the imported records; raises ``StudyError`` for one that does not fit it."""
    return published_survey.survey_of(
        inputs.imported, inputs.networks, inputs.devices, CARDS, COMPARISONS
    )


def findings(inputs: Inputs) -> Findings:
    """Everything that the paper prints; raises ``StudyError`` for records that do not fit it."""
    survey = survey_of(inputs)
    measured = any(each.rows for each in survey.tables.values())
    counts, ratios, percents = _counts(survey), _ratios(survey), _percents(survey)
    values = {
        **{id: declare(id, quantity) for id, quantity in counts.items()},
        **{id: declare(id, quantity, "measured") for id, quantity in ratios.items()},
        **{id: declare(id, quantity, "percent") for id, quantity in percents.items()},
    }
    tables = (*_tables(survey), imported_setup(inputs.imported))
    files = tuple(each.file for each in survey.tables.values())
    return Findings(
        values=values,
        tables={t.id: replace(t, sources=t.sources or files) for t in tables if measured},
        figures={f.id: replace(f, sources=f.sources or files) for f in _plots(survey) if measured},
        claims={claim.id: claim for claim in _claims({**ratios, **percents})},
        facts={"measured": measured, **_names(survey)},
    )


# -------------------------------------------------------------------------------------- values


def _counts(survey: Survey) -> dict[str, Quantity]:
    """What is printed in full."""
    rows = [row for each in survey.tables.values() for row in each.rows]
    slower = survey.gain("card_5090")
    found: dict[str, Quantity] = {
        "tables": exact("tables", "1", len(survey.tables)),
        "networks": exact("networks with a time", "1", len({row.network for row in rows})),
        "cnns": exact("CNNs", "1", len({row.network for row in rows if row.family in CNNS})),
        "counted": survey.share(eager(NEW), fused=True).count,
        "captured": survey.share(eager(NEW), fused=False).count,
        "transfers": exact("transfers of a result", "1", TRANSFERS),
        "slower": slower.number("that lose", lambda gain: gain < 1),
    }
    for id, setting in _EAGER.items():
        shares = survey.share(setting, fused=False)
        found[f"{id}_above"] = shares.number("above the roof", lambda share: share > 1)
        found[f"{id}_count"] = shares.count
    shown = "card_5090", "instead", "compiled_last", "compiled_any"
    return found | {f"{id}_count": survey.gain(id).count for id in shown}


def _ratios(survey: Survey) -> dict[str, Quantity]:
    """What is printed as it would be if it were measured: gains, rates and ratios of counts."""
    found: dict[str, Quantity] = {f"{id}_gain": survey.gain(id).median for id in COMPARISONS}
    found |= {f"{id}_q{percent}": survey.gain(id).quantile(percent) for id, percent in _OUTER}
    for id in ("card_4090", "card_5090"):
        found |= {f"{id}_{what}": survey.factor(id, what) for what in _SHEET}
        found |= {
            f"{id}_over_{what}": found[f"{id}_gain"] / found[f"{id}_{what}"] for what in _SHEET
        }
    for count in ("multiply_adds", "outputs"):
        ours = survey.agreement(eager(NEW), count)
        found |= {f"{count}_q{percent}": ours.quantile(percent) for percent in (5, 50, 95)}
        found[f"{count}_largest"] = ours.largest
    for name, series in _ENDS.items():
        low, high = (survey.of(series, settings.CLASSES[end]).median for end in (0, -1))
        found |= {f"{name}_low": low, f"{name}_high": high, f"{name}_low_over_high": low / high}
    found |= {name: survey.gain(id).of(network) for name, (id, network) in settings.GAINS.items()}
    cards = survey.gain("card_5090")
    return found | {
        "compiled_over_eager": found["card_compiled_gain"] / found["card_5090_gain"],
        "last_over_card": found["compiled_last_gain"] / found["card_5090_gain"],
        "any_over_card": found["compiled_any_gain"] / found["card_5090_gain"],
        "last_attention": survey.gain("last_240", ("attention",)).median,
        "depthwise_gain": survey.gain("compiled_5090", CNNS[1:]).median,
        "slowest_card": cards.smallest,
        "fastest_card": cards.largest,
        **_normalised(survey),
    }


def _normalised(survey: Survey) -> dict[str, Quantity]:
    """Of the networks that lose on the newer card and those with group normalisation."""
    gain = survey.gain("card_5090")
    lose, alike = ({*gain.those(lambda each: each < 1)}, {*filter(_GROUPED, gain.numbers)})
    either, both = lose | alike, lose & alike
    again = survey.gain("card_compiled").only(alike, "with group normalisation")
    share = exact("both over either", "1", len(both) / (len(either) or 1))
    alike_share = share if gain.known else gain.median
    return {"normalised_gain": again.median, "normalised_alike": alike_share}


def _percents(survey: Survey) -> dict[str, Quantity]:
    """What is printed as a share."""
    found: dict[str, Quantity] = {}
    for id, setting in {**_EAGER, **_COMPILED}.items():
        shares, ridge = survey.share(setting, fused=False), survey.over_ridge(setting)
        found[f"{id}_share"] = shares.median
        found[f"{id}_over"] = shares.share("above the roof", lambda share: share > 1)
        found[f"{id}_bound"] = ridge.share("left of the ridge", lambda ratio: ratio < 1)
    return found | {
        "confidence": exact("confidence, chosen", "1", CONFIDENCE),
        "most": exact("between the outer quantiles", "1", (PERCENTS[-1] - PERCENTS[0]) / 100),
        "margin": exact("margin of equality, chosen", "1", settings.MARGIN),
        "instead_faster": survey.gain("instead").share("that gain", lambda gain: gain > 1),
        "new_largest": survey.share(compiled(NEW), fused=True).of("repvgg_b3", 4),
    }


def _names(survey: Survey) -> dict[str, str]:
    """The cards and networks that sentences name."""
    lose = survey.gain("card_5090").those(lambda gain: gain < 1)
    above = survey.share(eager(MIDDLE), fused=False).those(lambda share: share > 1)
    names = {
        **{id: settings.short(setting.device) for id, setting in _EAGER.items()},
        "pro": settings.short(settings.PRO),
        "furthest": survey.agreement(eager(NEW), "outputs").extreme(max),
        "losers": ", ".join(lose),
        "above": ", ".join(above),
    }
    return {id: markdown(name) for id, name in names.items()}


def _claims(found: Mapping[str, Quantity]) -> Iterator[Claim]:
    """Every claim that distributions can decide."""

    def each(ids: Iterable[str], what: str, expected: Range) -> Several:
        return all_of(*(Statement(found[f"{id}_{what}"], expected, "cuda") for id in ids))

    more, less, alike = expect("> 1"), expect("< 1"), equals(1, within=settings.MARGIN)
    cards = "card_4090", "card_5090"
    yield judge("bandwidth-predicts", each(cards, "over_bandwidth", alike))
    yield judge("peak-predicts", each(cards, "over_peak", alike))
    yield judge("compiled-gain-less", each(["compiled"], "over_eager", less))
    yield judge("compiled-gain-falls", each(["compiled"], "low_over_high", more))
    yield judge("eager-gain-flat", each(["eager"], "low_over_high", alike))
    yield judge("memory-side", each(_EAGER, "bound", expect("> 0.5")))
    yield judge("compiler-fuses", each(_COMPILED, "share", more))
    yield judge("compile-pays", each(settings.COMPILING, "gain", more))
    yield judge("compiler-beats-card", each(["instead"], "gain", more))
    yield judge("compiler-beats-last", each(["last", "any"], "over_card", more))
    yield judge("gain-falls", each(["compiling"], "low_over_high", more))
    yield judge("last-pays", each(settings.CHANNELS_LAST, "gain", more))
    yield judge("bf16-is-even", each(["bf16"], "gain", alike))
    yield judge("losers-normalise", each(["normalised"], "alike", exactly(1)))


# ------------------------------------------------------------------------------------- figures


def _plots(survey: Survey) -> Iterator[Figure]:
    """Every figure, with the files that it is drawn from."""
    known = {COMPARISONS[id].name: survey.gain(id) for id in settings.AGAINST_CARD}
    known = {name: gain for name, gain in known.items() if gain.known}
    panel = distribution_rows("", {"": tuple(known.values())}, tuple(known), _GAIN)
    yield _figure("fig-gains", Drawing((panel,), height=panel.height), known.values())
    for id, panels in (("fig-cards", settings.BY_CARD), ("fig-intensity", settings.BY_FAMILY)):
        drawn = tuple(_by_class(survey, series) for series in panels)
        height = sum(panel.height for panel in drawn)
        drawing = Drawing(drawn, height=height, same_axes=True, rows=len(drawn))
        yield _figure(
            id, drawing, (survey.of(e, ends) for e in chain(*panels) for ends in settings.CLASSES)
        )
    ways = [way(card) for card in survey.roofs for way in (eager, compiled)]
    rooflines = tuple(_roofline(survey, card) for card in survey.roofs) or (EMPTY,)
    drawing = Drawing(rooflines, height=2.0 * len(rooflines), same_axes=True, rows=len(rooflines))
    yield _figure("fig-rooflines", drawing, (survey.share(s, fused=False) for s in ways))


def _figure(id: str, drawing: Drawing, rows: Iterable[Distribution]) -> Figure:
    files = dict.fromkeys(file for row in rows for file in row.files)
    return Figure(id, "", "", drawing, tuple(files))


def _by_class(survey: Survey, panel: tuple[Series, ...]) -> Dots:
    """Gains by class of intensity, beside those that data sheets of two cards let expect."""
    id = panel[0].id
    factors = {str(what): number(survey.factor(id, what)) for what in _SHEET}
    lines = {name: each for name, each in factors.items() if isinstance(each, float) and each > 1}
    rows = {each.label: [survey.of(each, ends) for ends in settings.CLASSES] for each in panel}
    names = tuple(map(class_name, settings.CLASSES))
    return distribution_rows(COMPARISONS[id].name, rows, names, _GAIN, lines)


def _roofline(survey: Survey, card: str) -> Roofline:
    """All CNNs of a card that theory counts, eager and compiled, some of them named."""
    marks: list[Marks] = []
    ways = ((eager(card), "eager", settings.NAMED), (compiled(card), "compiled", settings.OUTLIERS))
    for series, (setting, label, names) in enumerate(ways):
        if setting in survey.tables:
            rows = [row for row in counted(survey.tables[setting]) if row.captured]
            named = [row for row in rows if row.network in names]
            shown = [names[row.network] for row in named]
            marks += [
                row_marks(label, rows, series, many=True, fused=False),
                row_marks("", named, series, shown, fused=False),
            ]
    return sheet_panel(settings.short(card), survey.roofs[card], marks)


# -------------------------------------------------------------------------------------- tables


def _tables(survey: Survey) -> Iterator[Table]:
    """Every table; what a table of others lacks is missing in its cell."""

    def share(name: str, *, fused: bool) -> Field[Setting]:
        return Field(name, "1", lambda way: survey.share(way, fused=fused).median, "%")

    def in_class(ends: Ends) -> Field[Series]:
        return Field(class_name(ends), "1", lambda series: survey.of(series, ends).median)

    ways = [*_EAGER.values(), *_COMPILED.values()]
    cards: list[Field[Setting]] = [
        Field("Card", "", lambda way: settings.short(way.device)),
        Field("Mode", "", lambda way: "eager" if way.compiler == "none" else "compiled"),
        share("Eager roof", fused=False),
        share("Fused roof", fused=True),
    ]
    yield table("tbl-cards", ways, cards)
    rows = [(each.name, survey.gain(id)) for id, each in COMPARISONS.items()]
    fields: list[Field[tuple[str, Distribution]]] = [
        Field("Comparison", "", lambda row: row[0]),
        Field("Networks", "1", lambda row: row[1].count),
        Field("Faster", "1", lambda row: row[1].share("that gain", lambda gain: gain > 1), "%"),
        *quantile_fields(lambda row: row[1]),
    ]
    yield table("tbl-comparisons", rows, fields, wide=True)
    yield table("tbl-classes", _SERIES, [_CHANGE, *map(in_class, settings.CLASSES)], wide=True)
