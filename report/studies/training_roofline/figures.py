"""Drawings of training_roofline."""

from collections.abc import Iterator

from figures.panels import Band, Bars, BarSeries, Dots, DotSeries
from report.paper.plots import dot_series
from report.paper.values import declare
from report.studies.training_roofline import results
from report.studies.training_roofline.source import CLOCKS, T4_CLOCK, Source
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, SMALL
from report.studies.training_roofline.theory import value_of


def waterfall(source: Source) -> Iterator[Bars]:
    """Draw the source's ratio, what remains after each correction, and each network alone."""
    ratios = {
        "As printed": source.value("paradox"),
        "Laptop chip's peak": results.ratio(source, *results.MEAN, collapsed=True),
        "No collapsed run": results.ratio(source, *results.MEAN),
        "ResNet-18 alone": results.ratio(source, SMALL),
        "ResNet-50 alone": results.ratio(source, HEAVY),
        "MobileNetV2 alone": results.ratio(source, LIGHT, by_rate=False),
    }
    names = [f"{name}: {declare(name, ratio).parts.number}" for name, ratio in ratios.items()]
    left = dot_series("what remains", [*ratios.values()], "1")
    printed, peak, run, *_ = (value_of(ratio) for ratio in ratios.values())
    removed = (None, printed - peak, peak - run, None, None, None)
    yield Bars(
        tuple(names),
        (
            BarSeries(left.label, left.x, low=left.low, high=left.high),
            BarSeries("what the correction removes", removed, series=1),
        ),
        "The T4's efficiency ÷ the laptop's",
        reference=1.0,
    )


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
