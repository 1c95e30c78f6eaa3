"""Drawings of training_roofline."""

from collections.abc import Iterator

from figures.panels import Band, Dots, DotSeries
from report.paper.plots import dot_series
from report.paper.values import declare
from report.quantity.evaluation import to_digits
from report.studies.training_roofline import results
from report.studies.training_roofline.source import CLOCKS, T4_CLOCK, Source
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, SMALL
from report.studies.training_roofline.theory import value_of


def waterfall(source: Source) -> Iterator[Dots]:
    """Draw the ratio of the source's mean and of each network: printed, and after corrections."""
    rows = {
        "Mean": results.corrections(source, *results.MEAN),
        "ResNet-18": results.corrections(source, SMALL),
        "ResNet-50": results.corrections(source, HEAVY),
        "MobileNetV2": results.corrections(source, LIGHT, by_rate=False),
    }
    names = []
    for name, (as_printed, _, left) in rows.items():
        ends = (declare(name, ratio).parts.number for ratio in (to_digits(as_printed, 2), left))
        names.append(f"{name}: {' to '.join(ends)}")
    columns = [tuple(map(value_of, column)) for column in zip(*rows.values(), strict=True)]
    final = [left for *_, left in rows.values()]
    series = (
        dot_series("laptop chip's peak, no collapsed run", final, "1"),
        DotSeries("laptop chip's peak", columns[1], series=1, hollow=True),
        DotSeries("as printed", columns[0], series=2),
    )
    axis = "The T4's efficiency ÷ the laptop's"
    yield Dots(tuple(names), series, axis, 1.0, log=True, x_ticks=(0.7, 1, 1.5, 2, 3))


def clocks(source: Source) -> Iterator[Dots]:
    """Draw the laptop's clock of equal efficiency, for the T4's highest and least clock."""
    nominal, low, high = (value_of(source.first_row("cores", name)) for name in CLOCKS)
    share = value_of(results.needed_clock(source))
    by_rate = [value_of(results.even_clock(source, network)) for network in results.MEAN]
    light = value_of(results.even_clock(source, LIGHT, by_rate=False))
    top = DotSeries(f"T4 at {T4_CLOCK:,} MHz", (*by_rate, light))
    least = (*(share * clock for clock in by_rate), None)
    slow = DotSeries(f"T4 at {round(share * T4_CLOCK, -1):,.0f} MHz", least, series=1, hollow=True)
    rated = Band("rated clocks", low, nominal, high, 6)
    axis = "The laptop's clock at equal efficiency (MHz)"
    yield Dots(NETWORKS, (top, slow), axis, bands=(rated,), x_top=1.1 * high)
