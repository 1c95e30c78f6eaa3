"""Block diagrams: boxes with words and arrows between them, on a plane without axes.

Coordinates run from the lower left corner in a unit of their own; only proportions count.  Words
may hold formulas between dollars.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle with its lower left corner at ``(x, y)``, and words in its middle.

    ``series`` is the colour of its meaning; None leaves it white.
    """

    x: float
    y: float
    width: float
    height: float
    text: str = ""
    series: int | None = None

    @property
    def middle(self) -> Point:
        """The point in the middle."""
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def left(self) -> Point:
        """The middle of the left side."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        """The middle of the right side."""
        return self.x + self.width, self.y + self.height / 2


@dataclass(frozen=True)
class Arrow:
    """A straight arrow; ``broken`` for a way back."""

    start: Point
    end: Point
    broken: bool = False


@dataclass(frozen=True)
class Diagram:
    """A finished description of a plane that is ``width`` by ``height``."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...] = ()
