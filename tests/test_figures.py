"""Figures: what depends on how they are drawn, and every mark where its number is."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from figures.canvas import Drawing
from figures.drawing import style
from figures.drawing.render import render
from figures.drawing.scaling import draw
from figures.scaling import Band, Curve, Points, Scaling
from report.engine.code import Code
from report.engine.contents import Contents
from report.studies import STUDIES, module_of
from tests.canvas import drawn

ROOT = Path(__file__).parents[1]

POINTS = Points(
    "Run_1 $5", (1.0, 4.0, 16.0), (0.5, 1.25, 4.5), (0.4, 1.2, 4.0), (0.7, 1.3, 5.5), series=0
)
HOLLOW = Points("Reported", (4.0, 16.0), (1.0, 3.5), series=1, hollow=True)
PANEL = Scaling(
    "Batch size",
    "Time (ms)",
    (POINTS, HOLLOW),
    (Curve("Theory", (1.0, 16.0), (0.3, 4.0)), Curve("Fit", (1.0, 16.0), (0.4, 4.1), "fit")),
    (Band("Ceiling", 4.5, 4.6, 5.0, 2),),
    x_ticks=(1, 4, 16),
    title="Forward",
)
DRAWING = Drawing((PANEL, Scaling("x", "y", (HOLLOW,), y_scale="linear", y_from_zero=True)), True)


# --------------------------------------------------------------------- what depends on drawing

#: The modules that draw, as the engine names them.
DRAWING_CODE = {
    path.relative_to(ROOT).as_posix() for path in (ROOT / "figures" / "drawing").glob("*.py")
}


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_does_not_depend_on_how_its_figures_are_drawn(study: str) -> None:
    code = Code(str(ROOT), Contents()).closure(("report.engine.actions.study", module_of(study)))
    assert "figures/canvas.py" in code
    assert not DRAWING_CODE & set(code)


def test_a_figure_depends_on_all_that_draws() -> None:
    code = Code(str(ROOT), Contents()).closure(("report.engine.actions.figures",))
    assert len(DRAWING_CODE) > 8
    assert set(code) >= DRAWING_CODE


# ---------------------------------------------------------------------------- marks and data


def markers(axes: Axes) -> list[tuple[list[float], list[float]]]:
    lines = [line for line in axes.lines if line.get_marker() in style.SERIES_MARKERS]
    return [
        (list(map(float, x)), list(map(float, y))) for x, y in (line.get_data() for line in lines)
    ]


def test_every_marker_stands_at_its_number() -> None:
    with drawn(draw, PANEL) as figure:
        (axes,) = figure.axes
        assert markers(axes) == [
            (list(POINTS.x), list(POINTS.y)),
            (list(HOLLOW.x), list(HOLLOW.y)),
        ]


def test_every_interval_ends_where_it_ends() -> None:
    with drawn(draw, PANEL) as figure:
        (axes,) = figure.axes
        (bars, *_) = [c for c in axes.containers if c.get_label().startswith("Run")]
        (segments,) = [lines.get_segments() for lines in bars[2]]
        ends = [(float(s[0][1]), float(s[1][1])) for s in segments]
        assert ends == [pytest.approx(e) for e in zip(POINTS.low, POINTS.high, strict=True)]


def test_nothing_measured_is_said_and_not_drawn() -> None:
    with drawn(draw, Scaling("x", "y", title="Forward")) as figure:
        (axes,) = figure.axes
        assert [text.get_text() for text in axes.texts] == ["not measured"]
        assert markers(axes) == []
    empty = render(Drawing((Scaling("x", "y", y_scale="linear", y_from_zero=True),)), "x")
    assert empty.svg


# ------------------------------------------------------------------------------------ colours


#: How two kinds of colour blindness see linear RGB (Viénot, Brettel and Mollon 1999).
BLINDNESS = {
    "protan": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deutan": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


@pytest.mark.parametrize("kind", ["normal", *BLINDNESS])
def test_series_differ_in_colour_or_at_least_in_their_marker(kind: str) -> None:
    def seen(colour: str) -> tuple[float, ...]:
        rgb = [(int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
        matrix: Any = BLINDNESS.get(kind, ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
        return tuple(sum(w * c for w, c in zip(row, rgb, strict=True)) for row in matrix)

    pairs = list(combinations(style.SERIES_COLOURS, 2))
    apart = [sum((a - b) ** 2 for a, b in zip(seen(x), seen(y), strict=True)) for x, y in pairs]
    assert min(apart) > 0.005
    assert len(set(style.SERIES_MARKERS)) == len(style.SERIES_COLOURS)
