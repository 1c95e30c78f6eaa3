"""What stands in a figure: its panels and its size."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from figures.bars import Bars
from figures.diagram import Diagram
from figures.dots import Dots
from figures.roofline import Roofline
from figures.scaling import Scaling
from figures.timeline import Timeline
from figures.waterfall import Waterfall

#: What can stand in one panel of a figure.
Panel: TypeAlias = Bars | Diagram | Dots | Roofline | Scaling | Timeline | Waterfall


_STUDIES: Final = "report.studies."


def _describing() -> str:
    """The innermost function of a study that is at work, as ``module.function``; else nothing."""
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_STUDIES):
            return f"{module}.{frame.f_code.co_name}"
    return ""


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper: its panels in ``rows``, side by side, its width and height in inches.

    ``same_axes`` gives all panels the range that holds those of each, for panels that are compared.
    ``place`` is the function of a study that describes the figure, for readers of its page.
    """

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3
    same_axes: bool = False
    rows: int = 1
    place: str = field(default_factory=_describing, compare=False)
