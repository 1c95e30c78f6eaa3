"""The figures of gpu_survey, described; captions stand in its template, drawing in figures/."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.roofline import Marks, Roofline
from report.evidence.network_families import Family
from report.evidence.published_gains import Roof, counted, gains, shares
from report.evidence.published_rates import Published, Setting
from report.paper.findings import Figure
from report.paper.published_roofs import EMPTY, row_marks, sheet_panel
from report.quantity.distribution import PERCENTS, Distribution
from report.studies.gpu_survey.settings import (
    AGAINST_CARD,
    AGAINST_ITSELF,
    CARDS,
    CLASSES,
    COMPARISONS,
    NAMED,
    SHORT,
    WITHIN,
    compiled,
    eager,
)
from report.studies.gpu_survey.survey import Survey

#: Which networks are named among the eager and among the compiled points.
_LABELLED: Final = (("mobilenetv2_100", "resnet50"), ("vgg16",))
#: Half the distance of two series in one row (rows).
_APART: Final = 0.2
_FAMILIES: tuple[Family, ...] = ("convolution", "depthwise", "attention")


def all_figures(survey: Survey) -> Iterator[Figure]:
    """Every figure; one that the tables do not suffice for names all of them."""
    for figure in _figures(survey):
        yield figure if figure.sources else replace(figure, sources=survey.files)


def _figures(survey: Survey) -> Iterator[Figure]:
    yield _gains("fig-gains", (survey.gain(id) for id in AGAINST_CARD))
    yield _rooflines(survey)
    yield _shares(survey)
    yield _families(survey)
    alone = [survey.alone] if survey.alone.known else []
    yield _gains("fig-itself", (*alone, *(survey.gain(id) for id in AGAINST_ITSELF)))


def _gains(id: str, rows: Iterable[Distribution]) -> Figure:
    """A row for each distribution."""
    drawn = [row for row in rows if row.known]
    names = tuple(f"{_title(row)} ({len(row.numbers)})" for row in drawn)
    panel = Dots(names, (_series("", drawn, 0),), "Rate after over rate before", 1.0)
    files = tuple(dict.fromkeys(file for row in drawn for file in row.files))
    return Figure(id, "", "", Drawing((panel,), height=panel.height), files)


def _title(row: Distribution) -> str:
    text = row.name.removeprefix("gain(").removesuffix(")")
    return text[0].upper() + text[1:]


def _series(label: str, rows: Sequence[Distribution], number: int, shift: float = 0.0) -> DotSeries:
    """Medians with lines between the outer and the inner quantiles."""

    def cuts(percent: int) -> tuple[float | None, ...]:
        return tuple(row.cut(percent) if row.known else None for row in rows)

    outer, low, high, end = (cuts(percent) for percent in PERCENTS)
    inner = tuple(
        None if a is None or b is None else (a, b) for a, b in zip(low, high, strict=True)
    )
    return DotSeries(label, cuts(50), number, False, outer, end, inner, shift)


def _families(survey: Survey) -> Figure:
    """Gains within one batch of runs, a panel for each family."""
    panels: list[Dots] = []
    files = dict.fromkeys(file for id in WITHIN for file in survey.gain(id).files)
    for number, family in enumerate(_FAMILIES):
        rows = [gains(COMPARISONS[id], survey.tables, (family,)) for id in WITHIN]
        texts = [str(len(row.numbers)) for row in rows]
        named = tuple(f"{_title(r)} ({t})" for r, t in zip(rows, texts, strict=True))
        names = named if number == 0 else tuple(texts)
        panels.append(
            Dots(names, (_series("", rows, number),), "Rate after over before", 1.0,
                 family.capitalize())
        )  # fmt: skip
    drawing = Drawing(tuple(panels), wide=True, height=panels[0].height, same_axes=True)
    return Figure("fig-families", "", "", drawing, tuple(files))


def _shares(survey: Survey) -> Figure:
    """Shares of the roof by intensity, eager and compiled, a panel for each card with a roof."""
    panels: list[Dots] = []
    files = dict[str, None]()
    for card, roof in survey.roofs.items():
        ways = {"eager": eager(card), "compiled": compiled(card)}
        series = []
        for number, (label, setting) in enumerate(ways.items()):
            rows = [by_class(survey.tables.get(setting), roof, *ends) for ends in classes()]
            if any(row.known for row in rows):
                series.append(_series(label, rows, number, _APART * (2 * number - 1)))
                files |= dict.fromkeys(file for row in rows for file in row.files)
        names = tuple("" if panels else _class_name(*ends) for ends in classes())
        panels.append(Dots(names, tuple(series), "Share of the roof", None, SHORT[card]))
    shown = tuple(panels) or (Dots((), (), "Share of the roof"),)
    drawing = Drawing(shown, wide=True, height=1.9, same_axes=True)
    return Figure("fig-shares", "", "", drawing, tuple(files))


def classes() -> tuple[tuple[float, float], ...]:
    """The ends of the classes of intensity (FLOP/B)."""
    return tuple(pairwise((*CLASSES, inf)))


def by_class(table: Published | None, roof: Roof | None, low: float, high: float) -> Distribution:
    """The shares of the CNNs whose intensity lies in one class."""
    about = f", {_class_name(low, high)}"
    return shares(table, roof, lambda row: low <= row.intensity() < high, about=about)


def _class_name(low: float, high: float) -> str:
    return f"from {low:g} FLOP/B" if high == inf else f"{low:g} to {high:g} FLOP/B"


def _rooflines(survey: Survey) -> Figure:
    panels = tuple(_roofline(survey.tables, card, roof) for card, roof in survey.roofs.items())
    settings = (each for card in CARDS for each in (eager(card), compiled(card)))
    files = [survey.tables[each].file for each in settings if each in survey.tables]
    drawing = Drawing(panels or (EMPTY,), wide=True, height=2.6, same_axes=True)
    return Figure("fig-rooflines", "", "", drawing, (*files, "devices.yaml"))


def _roofline(tables: Mapping[Setting, Published], card: str, roof: Roof) -> Roofline:
    """All CNNs of a card, eager and compiled, with the networks of the other studies named."""
    marks: list[Marks] = []
    ways = {"eager": eager(card), "compiled": compiled(card)}
    for number, (label, setting) in enumerate(ways.items()):
        if setting in tables:
            rows = counted(tables[setting])
            named = [row for row in rows if row.network in _LABELLED[number]]
            names = [NAMED[row.network] for row in named]
            marks += [
                row_marks(label, rows, number, many=True), row_marks("", named, number, names)
            ]  # fmt: skip
    return sheet_panel(SHORT[card], roof, marks)
