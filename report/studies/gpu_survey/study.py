"""All that the paper of gpu_survey prints, from measurements of others alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from math import inf
from typing import Any, Final

from figures.canvas import Drawing
from figures.dots import Dots
from figures.roofline import Marks, Roofline
from report.evidence import published_gains as evidence
from report.evidence.network_families import CNNS, Family
from report.evidence.published_rates import TRANSFERS, Published, Row, Setting, published
from report.evidence.runs import Factors
from report.paper.claims import judge
from report.paper.declared import Field, quantile_fields, table
from report.paper.environments import imported_setup
from report.paper.findings import Claim, Figure, Findings, Inputs
from report.paper.plots import quantile_series
from report.paper.published_roofs import EMPTY, row_marks, sheet_panel
from report.paper.tables import Table
from report.paper.values import declare
from report.quantity.distribution import PERCENTS, Distribution
from report.quantity.expression import Leaf, Quantity, absent, exact
from report.quantity.verdicts import Range, Several, Statement, all_of, equals, expect
from report.records import COUNTS
from report.statistics.estimates import CONFIDENCE
from report.studies.gpu_survey import settings
from report.studies.gpu_survey.settings import COMPARISONS, MIDDLE, NEW, OLD, compiled, eager
from report.text.escape import markdown

_EAGER: Final = {"old": eager(OLD), "middle": eager(MIDDLE), "new": eager(NEW)}
_COMPILED: Final = {"middle_compiled": compiled(MIDDLE), "new_compiled": compiled(NEW)}
_VERSIONS: Final = COMPARISONS["torch_210"]
_ATTENTION: Final[tuple[Family, ...]] = ("attention",)
#: Which outer quantiles of gains are printed.
_OUTER: Final = (
    ("last_113", 5), ("last_training", 5), ("torch_210", 5), ("torch_210", 95), ("torch_291", 95)
)  # fmt: skip
#: Half the distance of two series in one row (rows).
_APART: Final = 0.2
_GAIN: Final = "Rate after over rate before"


@dataclass(frozen=True, eq=False)
class Survey:
    """The published tables and the roofs of the cards whose data sheets are known."""

    tables: Mapping[Setting, Published]
    roofs: Mapping[str, evidence.Roof]

    @cache  # noqa: B019 (a survey lives as long as its paper is computed)
    def gain(
        self, id: str, families: tuple[Family, ...] = CNNS, ends: tuple[float, float] = (0, inf)
    ) -> Distribution:
        """The gains in one comparison, of CNNs or other families, in one class of intensity."""

        def within(row: Row) -> bool:
            return bool(row.captured) and ends[0] <= row.intensity(fused=False) < ends[1]

        if ends == (0, inf):
            return evidence.gains(COMPARISONS[id], self.tables, families)
        about = f", {families[0]}, {_class_name(ends)}"
        found = evidence.gains(COMPARISONS[id], self.tables, families, within, about)
        return replace(found, files=(*found.files, COUNTS))

    @cache  # noqa: B019
    def share(self, setting: Setting, *, fused: bool) -> Distribution:
        """The shares of the roof of CNNs in one setting."""
        roof = self.roofs.get(setting.device)
        return evidence.shares(self.tables.get(setting), roof, fused=fused)

    def agreement(self, count: str) -> Distribution:
        """A count of theory over the published one, in the newest table."""
        return evidence.agreement(self.tables.get(eager(NEW)), count)

    def sheet(self, card: str, unit: str) -> Leaf:
        """The peak of a card in FLOP/s or B/s by its data sheet."""
        roof = self.roofs.get(card)
        if roof is None:
            return absent("peak", unit, f"no data sheet of {card} is known")
        return roof.memory if unit == "B/s" else roof.arithmetic

    def resnet(self, setting: Setting, image: int) -> Leaf:
        """Images a second of ResNet-50: one sample, without an interval."""
        if setting not in self.tables:
            return absent("rate", "1/s", f"no table of {setting.device} is there")
        levels: Factors = {"network": "resnet50", "image": image, "batch": 1024}
        return self.tables[setting].run.series("image_rate", levels)


def survey_of(inputs: Inputs) -> Survey:
    """The survey of the imported records; raises ``StudyError`` for one that does not fit it."""
    roofs = {card: evidence.roof_of(card, inputs.devices) for card in settings.CARDS}
    known = {card: roof for card, roof in roofs.items() if roof is not None}
    return Survey(published(inputs.imported, inputs.networks), known)


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
    return {
        "tables": exact("tables", "1", len(survey.tables)),
        "networks": exact("networks with a time", "1", len({row.network for row in rows})),
        "cnns": exact("CNNs", "1", len({row.network for row in rows if row.family in CNNS})),
        "counted": survey.share(eager(NEW), fused=True).count,
        "captured": survey.share(eager(NEW), fused=False).count,
        "transfers": exact("transfers of a result", "1", TRANSFERS),
        **{f"{id}_count": survey.gain(id).count for id in ("instead", "compiled_last")},
    }


def _ratios(survey: Survey) -> dict[str, Quantity]:
    """What is printed as it would be if it were measured: gains, rates and ratios of counts."""
    found: dict[str, Quantity] = {f"{id}_gain": survey.gain(id).median for id in COMPARISONS}
    found |= {f"{id}_q{percent}": survey.gain(id).quantile(percent) for id, percent in _OUTER}
    for id, new, old in (("card_4090", MIDDLE, OLD), ("card_5090", NEW, MIDDLE)):
        for name, unit in (("peak", "FLOP/s"), ("bandwidth", "B/s")):
            found[f"{id}_{name}"] = survey.sheet(new, unit) / survey.sheet(old, unit)
    for count in ("multiply_adds", "outputs"):
        ours = survey.agreement(count)
        found |= {f"{count}_q{percent}": ours.quantile(percent) for percent in (5, 50, 95)}
        found[f"{count}_largest"] = ours.largest
    low, high = (survey.gain("compiled_5090", CNNS[:1], settings.CLASSES[n]) for n in (0, -1))
    return found | {
        "low_class": low.median,
        "high_class": high.median,
        "low_over_high_class": low.median / high.median,
        "last_attention": survey.gain("last_240", _ATTENTION).median,
        "resnet_before": survey.resnet(_VERSIONS.before, 224),
        "resnet_after": survey.resnet(_VERSIONS.after, 224),
        "resnet_larger": survey.resnet(_VERSIONS.after, 288),
        "vgg_change": survey.gain("torch_210").of("vgg16"),
        "slowest_gain": survey.gain("compiled_4090").smallest,
        "falls_gain": survey.gain("torch_210").smallest,
        "rises_gain": survey.gain("torch_210").largest,
    }


def _percents(survey: Survey) -> dict[str, Quantity]:
    """What is printed as a share."""
    found: dict[str, Quantity] = {}
    for id, setting in {**_EAGER, **_COMPILED}.items():
        one_by_one, fused = (survey.share(setting, fused=each) for each in (False, True))
        found[f"{id}_share"], found[f"{id}_fused"] = one_by_one.median, fused.median
        found[f"{id}_above"] = one_by_one.share("above the roof", lambda share: share > 1)
    for id, setting in _EAGER.items():
        ridge = evidence.bounds(survey.tables.get(setting), survey.roofs.get(setting.device))
        found[f"{id}_bound"] = ridge.share("bound by memory", lambda intensity: intensity < 1)
    for id in ("instead", "compiled_4090"):
        found[f"{id}_faster"] = survey.gain(id).share("that gain", lambda gain: gain > 1)
    larger = survey.resnet(_VERSIONS.after, 288) / survey.resnet(_VERSIONS.before, 224)
    return found | {
        "confidence": exact("confidence, chosen", "1", CONFIDENCE),
        "most": exact("between the outer quantiles", "1", (PERCENTS[-1] - PERCENTS[0]) / 100),
        "resnet_less": 1 - larger,
        "new_largest": survey.share(compiled(NEW), fused=True).largest,
    }


def _names(survey: Survey) -> dict[str, str]:
    """The cards and networks that sentences name."""
    versions = survey.gain("torch_210")
    names = {
        **{id: settings.short(setting.device) for id, setting in _EAGER.items()},
        "pro": settings.short(settings.PRO),
        "nearest": survey.share(compiled(NEW), fused=True).extreme(max),
        "slowest": survey.gain("compiled_4090").extreme(min),
        "furthest": survey.agreement("outputs").extreme(max),
        "falls": versions.extreme(min),
        "rises": versions.extreme(max),
    }
    return {id: markdown(name) for id, name in names.items()}


def _claims(found: Mapping[str, Quantity]) -> Iterator[Claim]:
    """Every claim that distributions can decide."""

    def each(ids: Iterable[str], what: str, expected: Range) -> Several:
        return all_of(*(Statement(found[f"{id}_{what}"], expected, "cuda") for id in ids))

    more, half = expect("> 1"), expect("> 0.5")
    yield judge("compiler-beats-card", each(["instead"], "gain", more))
    yield judge("compile-pays", each(settings.COMPILING, "gain", more))
    yield judge("last-pays", each(settings.CHANNELS_LAST, "gain", more))
    yield judge("bf16-is-even", each(["bf16"], "gain", equals(1, within=0.02)))
    yield judge("same-at-equal-size", each(["torch_210"], "gain", equals(1, within=0.05)))
    yield judge("gain-falls", each(["low_over_high"], "class", more))
    yield judge("eager-is-bound", each(_EAGER, "bound", half))
    yield judge("eager-is-near", each(_EAGER, "share", half))
    yield judge("compiler-fuses", each(_COMPILED, "above", expect("> 0.25")))
    yield judge("more-to-gain", each(_COMPILED, "fused", expect("< 0.5")))


# ------------------------------------------------------------------------------------- figures


def _plots(survey: Survey) -> Iterator[Figure]:
    """Every figure, with the files that it is drawn from."""
    yield _gains("fig-gains", survey, settings.AGAINST_CARD)
    settings_ = [way(card) for card in survey.roofs for way in (eager, compiled)]
    panels = tuple(_roofline(survey, card) for card in survey.roofs) or (EMPTY,)
    drawing = Drawing(panels, wide=True, height=2.6, same_axes=True)
    yield _figure("fig-rooflines", drawing, (survey.share(s, fused=False) for s in settings_))
    rows = [
        [[survey.gain(id, (family,), ends) for ends in settings.CLASSES] for family in CNNS]
        for id in settings.BY_INTENSITY
    ]
    drawing = Drawing(tuple(map(_by_class, settings.BY_INTENSITY, rows)), wide=True, height=1.7)
    yield _figure("fig-intensity", drawing, chain(*chain(*rows)))
    yield _gains("fig-itself", survey, settings.AGAINST_ITSELF)


def _figure(id: str, drawing: Drawing, rows: Iterable[Distribution]) -> Figure:
    files = dict.fromkeys(file for row in rows for file in row.files)
    return Figure(id, "", "", drawing, tuple(files))


def _gains(id: str, survey: Survey, ids: Iterable[str]) -> Figure:
    """A row for each comparison that has networks enough."""
    known = {COMPARISONS[id].name: survey.gain(id) for id in ids if survey.gain(id).known}
    names = tuple(f"{name} ({len(gain.numbers)})" for name, gain in known.items())
    panel = Dots(names, (quantile_series("", tuple(known.values())),), _GAIN, 1.0)
    return _figure(id, Drawing((panel,), height=panel.height), known.values())


def _by_class(id: str, rows: Sequence[Sequence[Distribution]]) -> Dots:
    """The gains of one change by class of intensity, a series for each family."""
    first = id == settings.BY_INTENSITY[0]
    names = tuple(_class_name(ends) if first else "" for ends in settings.CLASSES)
    series = (
        quantile_series(family if first else "", each, number, _APART * (2 * number - 1))
        for number, (family, each) in enumerate(zip(CNNS, rows, strict=True))
    )
    return Dots(names, tuple(series), _GAIN, 1.0, COMPARISONS[id].name)


def _class_name(ends: tuple[float, float]) -> str:
    low, high = ends
    return f"from {low:g} FLOP/B" if high == inf else f"{low:g} to {high:g} FLOP/B"


def _roofline(survey: Survey, card: str) -> Roofline:
    """All CNNs of a card that theory counts, eager and compiled, those of other studies named."""
    marks: list[Marks] = []
    for number, setting in enumerate((eager(card), compiled(card))):
        if setting in survey.tables:
            rows = [row for row in evidence.counted(survey.tables[setting]) if row.captured]
            named = [row for row in rows if row.network in settings.NAMED and setting == eager(NEW)]
            names = [settings.NAMED[row.network] for row in named]
            label = "compiled" if number else "eager"
            marks += [
                row_marks(label, rows, number, many=True, fused=False),
                row_marks("", named, number, names, fused=False),
            ]
    return sheet_panel(settings.short(card), survey.roofs[card], marks)


# -------------------------------------------------------------------------------------- tables


def _tables(survey: Survey) -> Iterator[Table]:
    """Every table; what a table of others lacks is missing in its cell."""

    def share(name: str, way: Any, *, fused: bool) -> Field[str]:
        return Field(name, "1", lambda card: survey.share(way(card), fused=fused).median, "%")

    cards = [
        Field("Card", "", settings.short),
        Field("Peak", "FLOP/s", lambda card: survey.sheet(card, "FLOP/s"), "TFLOP/s"),
        Field("Bandwidth", "B/s", lambda card: survey.sheet(card, "B/s"), "GB/s"),
        share("Eager, eager roof", eager, fused=False),
        share("Compiled, eager roof", compiled, fused=False),
        share("Eager, fused roof", eager, fused=True),
        share("Compiled, fused roof", compiled, fused=True),
    ]
    yield table("tbl-cards", settings.CARDS, cards, wide=True)
    rows = [
        (f"{each.name}, {name}", survey.gain(id, families))
        for id, each in COMPARISONS.items()
        for name, families in (("CNNs", CNNS), ("attention", _ATTENTION))
    ]
    fields: list[Field[tuple[str, Distribution]]] = [
        Field("Comparison", "", lambda row: row[0]),
        Field("Networks", "1", lambda row: row[1].count),
        Field("Faster", "1", lambda row: row[1].share("that gain", lambda gain: gain > 1), "%"),
        *quantile_fields(lambda row: row[1]),
    ]
    yield table("tbl-comparisons", rows, fields, wide=True)
