"""What ran when: bars in lanes over one axis of time, with a changing level below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Inches: a lane, and the room for a level.
LANE: Final = 0.22
LEVEL: Final = 0.95
#: Inches of all else.
_REST: Final = 0.85


@dataclass(frozen=True)
class Span:
    """Work of a kind from ``start`` to ``end`` in the unit of the axis."""

    start: float
    end: float
    kind: int
    label: str = ""


@dataclass(frozen=True)
class Lane:
    """A row of spans that do not overlap."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Level:
    """A quantity that holds ``y[i]`` from ``x[i]`` on, from 0 before the first."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Timeline:
    """A finished description; ``kinds`` are the words of the legend, by the spans' numbers."""

    lanes: tuple[Lane, ...]
    kinds: tuple[str, ...]
    x_label: str
    level: Level | None = None
    title: str = ""

    @property
    def end(self) -> float:
        """The last moment at which something ran."""
        return max((span.end for lane in self.lanes for span in lane.spans), default=0.0)

    @property
    def height(self) -> float:
        """The height in inches that leaves every lane its room."""
        return round(_REST + LANE * len(self.lanes) + (LEVEL if self.level else 0.0), 2)
