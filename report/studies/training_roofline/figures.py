"""Drawings of training_roofline."""

from collections.abc import Iterator

from figures.panels import Band, Bars, BarSeries, Dots, DotSeries
from report.paper.plots import dot_series
from report.paper.values import declare
from report.quantity.evaluation import to_digits
from report.studies.training_roofline import results
from report.studies.training_roofline.source import CLOCKS, T4_CLOCK, Source
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, SMALL
from report.studies.training_roofline.theory import value_of


def waterfall(source: Source) -> Iterator[Bars]:
    """Draw the ratio of the source's mean and of each network, and what two corrections remove."""
    rows = {
        "Mean": results.corrections(source, *results.MEAN),
        "ResNet-18": results.corrections(source, SMALL),
        "ResNet-50": results.corrections(source, HEAVY),
        "MobileNetV2": results.corrections(source, LIGHT, by_rate=False),
    }
    names = []
    for name, (printed, _, both) in rows.items():
        ends = (declare(name, ratio).parts.number for ratio in (to_digits(printed, 2), both))
        names.append(f"{name}: {' to '.join(ends)}")
    left = dot_series("what remains", [both for *_, both in rows.values()], "1")
    series = [BarSeries(left.label, left.x, low=left.low, high=left.high)]
    for place, what in (1, "collapsed run"), (0, "desktop card's peak"):
        removed = [value_of(row[place]) - value_of(row[place + 1]) for row in rows.values()]
        known = tuple(ratio or None for ratio in removed)
        series.append(BarSeries(f"from the {what}", known, series=len(series)))
    yield Bars(tuple(names), tuple(series), "The T4's efficiency ÷ the laptop's", reference=1.0)


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
