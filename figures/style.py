"""The style of figures: sizes, fonts and colours.

The colours are from Okabe and Ito (https://jfly.uni-koeln.de/color/), and are distinguishable with
any colour vision.  Series also differ in markers or lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from figures.panels import Drawing

#: Widths (inches) of a narrow and of a wide figure: a column of an IEEE page, and the text of a
#: one-column style (160 mm).  No style scales figures down, so type has the sizes below in print.
COLUMN_INCHES: Final = 3.5
PAGE_INCHES: Final = 6.29

INK: Final = "#1f2328"
GRID: Final = "#d9dde2"
PALE: Final = "#9aa1a9"
THEORY: Final = "#4d4d4d"
SERIES_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
_HATCHES: Final = ("", "////", "||||", "xxxx", "\\\\\\\\", "----", "++++")
SERIES_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")

#: Smallest type size (pt), for labels inside a figure and legends.
SMALL: Final = 7
#: Diameter of a ring (pt): larger than a filled point, so that both are visible.
RING: Final = 5.5

#: Fonts in the order of search: later fonts supply characters that earlier fonts lack.
FAMILIES: Final = (
    "DejaVu Sans Basic",
    "DejaVu Sans",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Droid Sans Fallback",
)

RC: Final[dict[str, object]] = {
    "font.family": FAMILIES,
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.6,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "figure.dpi": 100,
    "savefig.facecolor": "white",
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
}


def inches(drawing: Drawing) -> tuple[float, float]:
    """Return the width and the height of a figure."""
    return PAGE_INCHES if drawing.wide else COLUMN_INCHES, drawing.height


def colour(index: int) -> str:
    """Return the colour of the series ``index``; the seven colours repeat."""
    return SERIES_COLOURS[index % len(SERIES_COLOURS)]


def marker(index: int) -> str:
    """Return the marker of the series ``index``; the seven markers repeat."""
    return SERIES_MARKERS[index % len(SERIES_MARKERS)]


def hatching(index: int) -> str:
    """Return the hatching of the series ``index`` (empty for 0); the seven hatchings repeat."""
    return _HATCHES[index % len(_HATCHES)]


def legend_label(text: str) -> str:
    """Return ``text`` as a label that matplotlib shows; labels that begin with "_" are hidden."""
    return f" {text}" if text.startswith("_") else text
