"""A panel drawn as in print, to look at its marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from figures.drawing import style


@contextmanager
def drawn(
    draw: Callable[[Any, Axes], None], panel: Any, inches: float = 3.5, height: float = 2.3
) -> Iterator[Figure]:
    """The figure with ``panel`` alone."""
    with mpl.rc_context({**mpl.rcParamsDefault, **style.RC}):  # type: ignore[arg-type]
        figure = Figure(figsize=(inches, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(panel, figure.subplots())
        figure.canvas.draw()
        yield figure
