"""Drawings of training_roofline."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from figures.panels import Dots, DotSeries
from report.paper.plots import dot_series
from report.studies.training_roofline.results import MEAN, ratio
from report.studies.training_roofline.source import RTX, Source
from report.studies.training_roofline.subject import HEAVY, LIGHT, SMALL
from report.studies.training_roofline.theory import value_of

#: Row of the figure → networks of its ratio, and whether collapsed cases count.
_ROWS: Final = {
    "Mean, run kept": (MEAN, True),
    "Mean, run left out": (MEAN, False),
    SMALL: ((SMALL,), False),
    f"{HEAVY}, run kept": ((HEAVY,), True),
    f"{HEAVY}, run left out": ((HEAVY,), False),
    LIGHT: ((LIGHT,), False),
}


def waterfall(source: Source) -> Iterator[Dots]:
    """Draw ratios with the laptop's printed peak, and by both printed speeds with its chip's."""
    printed, by_efficiency, by_throughput = [], [], []
    for networks, collapsed in _ROWS.values():
        compute = partial(ratio, source, *networks, collapsed=collapsed)
        desktop = compute(peaks=(source.printed_peak(RTX),), by_rate=LIGHT not in networks)
        printed.append(value_of(desktop))
        by_efficiency.append(compute())
        by_throughput.append(compute(by_rate=False))
    series = (
        DotSeries("with the printed peak, a desktop card's", tuple(printed), 1, hollow=True),
        dot_series("with the chip's peak, by efficiencies", by_efficiency, "1", shift=-0.15),
        dot_series(
            "with the chip's peak, by throughputs", by_throughput, "1", series=2, shift=0.15
        ),
    )
    axis = "The T4's efficiency ÷ the laptop's"
    yield Dots(tuple(_ROWS), series, axis, 1.0, log=True, x_ticks=(0.7, 1, 1.5, 2, 3))
