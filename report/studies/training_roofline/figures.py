"""Drawings of training_roofline."""

from collections.abc import Iterator

from figures.panels import Dots, DotSeries
from report.paper.plots import dot_series
from report.paper.values import declare
from report.quantity.evaluation import to_digits
from report.studies.training_roofline import results
from report.studies.training_roofline.source import Source
from report.studies.training_roofline.subject import LIGHT, NETWORKS
from report.studies.training_roofline.theory import value_of


def waterfall(source: Source) -> Iterator[Dots]:
    """Draw the ratio of the source's mean and of each network: printed, and after corrections."""
    rows = {"Mean": results.corrections(source, *results.MEAN)}
    for network in NETWORKS:
        rows[network] = results.corrections(source, network, by_rate=network != LIGHT)
    names = []
    for name, (as_printed, _, left) in rows.items():
        ends = (declare(name, ratio).parts.number for ratio in (to_digits(as_printed, 2), left))
        names.append(f"{name}: {' to '.join(ends)}")
    columns = [tuple(map(value_of, column)) for column in zip(*rows.values(), strict=True)]
    final = [left for *_, left in rows.values()]
    series = (
        DotSeries("as printed", columns[0], series=2),
        DotSeries("with the laptop chip's peak", columns[1], series=1, hollow=True),
        dot_series("and without the collapsed run", final, "1"),
    )
    axis = "The T4's efficiency ÷ the laptop's"
    yield Dots(tuple(names), series, axis, 1.0, log=True, x_ticks=(0.7, 1, 1.5, 2, 3))
