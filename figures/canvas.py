"""What stands in a figure: its panels and its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from figures.bars import Bars
from figures.diagram import Diagram
from figures.dots import Dots
from figures.image_grid import ImageGrid
from figures.levels import Levels
from figures.roofline import Roofline
from figures.scaling import Scaling
from figures.timeline import Timeline
from figures.waterfall import Waterfall

#: What can stand in one panel of a figure.
Panel: TypeAlias = (
    Bars | Diagram | Dots | ImageGrid | Levels | Roofline | Scaling | Timeline | Waterfall
)


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper: its panels side by side, its width and its height in inches.

    ``same_axes`` gives all panels the range that holds those of each, for panels that are compared.
    """

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3
    same_axes: bool = False
