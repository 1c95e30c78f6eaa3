"""The style of figures: sizes, fonts and colours.

The colours are from Okabe and Ito (https://jfly.uni-koeln.de/color/), and are distinguishable with
any colour vision.  Series also differ in markers or lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from figures.panels import Drawing

#: Width of a narrow figure, which is a column of an IEEE page.  No style of paper scales figures
#: down, so that their texts are printed in the sizes below.
COLUMN_INCHES: Final = 3.5
#: Width of a wide figure, which is the text's width on a one-column page (160 mm).
PAGE_INCHES: Final = 6.29

#: Colour of texts, axes and roofs.
INK: Final = "#1f2328"
GRID: Final = "#d9dde2"
PALE: Final = "#9aa1a9"
#: Colour of predicted values and of reference lines.
THEORY: Final = "#4d4d4d"
SERIES_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
_HATCHINGS: Final = ("", "////", "||||", "xxxx", "\\\\\\\\", "----", "++++")
SERIES_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")

#: Smallest type size, for labels inside a figure and legends.
SMALL_PT: Final = 7
#: Diameter of a ring; it exceeds that of a filled point, so that both are visible at one position.
RING_PT: Final = 5.5

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

#: Settings of matplotlib (``rcParams``).
RC: Final[dict[str, object]] = {
    "font.family": FAMILIES,
    "font.size": 7.5,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "xtick.labelsize": SMALL_PT,
    "ytick.labelsize": SMALL_PT,
    "legend.fontsize": SMALL_PT,
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
    """Return the width and the height of a figure in inches."""
    return PAGE_INCHES if drawing.wide else COLUMN_INCHES, drawing.height


def placeholders(drawings: Mapping[str, Drawing]) -> dict[str, str]:
    """Map files in place of figures that are not drawn yet to contents; only SVGs state a size."""
    contents: dict[str, str] = {}
    for name, drawing in drawings.items():
        width, height = inches(drawing)
        contents[f"figures/{name}.svg"] = f'<svg width="{width:g}in" height="{height:g}in">'
        contents[f"figures/{name}.pdf"] = ""
        if any(drawing.data()):
            contents[f"figures/{name}.csv"] = ""
    return contents


def colour(style_number: int) -> str:
    """Return the colour for a style number; the seven colours repeat."""
    return SERIES_COLOURS[style_number % len(SERIES_COLOURS)]


def marker(style_number: int) -> str:
    """Return the marker for a style number; the seven markers repeat."""
    return SERIES_MARKERS[style_number % len(SERIES_MARKERS)]


def hatching(style_number: int) -> str:
    """Return the hatching for a style number (empty for 0); the seven hatchings repeat."""
    return _HATCHINGS[style_number % len(_HATCHINGS)]


def legend_label(text: str) -> str:
    """Return ``text`` as a label that matplotlib shows, even if ``text`` begins with "_"."""
    return f" {text}" if text.startswith("_") else text
