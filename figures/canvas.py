"""What stands in a figure: its panels and its size.

A kind of figure is one module here with a subclass of ``Panel``: what is drawn in numbers and
words, how it is drawn, and what stands in its table of data.  matplotlib is imported where
something is drawn, since a study describes its figures without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

#: What the columns of a figure's data hold: a point of ``series`` that has a name or lies ``at`` a
#: place, with its value and the ends of its interval; None where there is none.
COLUMNS: Final = (
    "panel", "series", "name", "at_label", "at", "value_label", "value", "low", "high",
)  # fmt: skip

#: What stands in all columns but the first.
Row: TypeAlias = tuple[str | float | None, ...]

#: Series by what they were drawn as.  A series has a label, and its points in ``x`` and ``y``.
Drawn: TypeAlias = list[tuple[Any, Sequence["Artist"]]]


class Panel(ABC):
    """One panel of a figure: a finished description, in the units of its labels.

    Subclasses are frozen dataclasses of texts, numbers and tuples.
    """

    title: str

    @abstractmethod
    def draw(self, axes: Axes) -> Drawn:
        """Draw all marks on ``axes``; returns the series whose values a page shows."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """All that is drawn in numbers."""

    def finish(self, axes: Axes) -> None:
        """Draw what depends on the ends of the axes, which are final: names and legends."""
        return


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper: its panels in ``rows``, side by side, its width and height in inches.

    ``same_axes`` gives the panels of a row the range that holds those of each, for panels that are
    compared.  ``place`` is the function that describes the figure, for readers of its page.
    """

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3
    same_axes: bool = False
    rows: int = 1
    place: str = ""

    def data(self) -> Iterator[Row]:
        """All that is drawn in numbers, panel by panel, in ``COLUMNS``."""
        for number, panel in enumerate(self.panels, start=1):
            for row in panel.rows():
                yield panel.title or str(number), *row
