"""Drawings of training_roofline."""

from collections.abc import Iterator

from figures.panels import Band, Bars, BarSeries, Points, Scaling
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


def clocks(source: Source) -> Iterator[Scaling]:
    """Draw the laptop's clock at which both GPUs are as efficient, over the T4's clock.

    A line begins at the lowest clock at which arithmetic allows the T4's rates, or throughputs.
    """
    nominal, low, high = (value_of(source.first_row("cores", name)) for name in CLOCKS)
    start = T4_CLOCK * value_of(results.needed_clock(source))
    lines = []
    for series, network in enumerate(NETWORKS):
        by_rate = network != LIGHT
        even = value_of(results.even_clock(source, network, by_rate=by_rate))
        first = value_of(results.needed_clock(source, by_rate))
        x, y = (first * T4_CLOCK, T4_CLOCK), (first * even, even)
        lines.append(Points(network, x, y, series=series, hollow=not by_rate, joined=True))
    rated = "rated clocks (line: nominal)"
    yield Scaling(
        "The T4's clock (MHz)",
        "The laptop's clock (MHz)",
        tuple(lines),
        bands=(Band(rated, low, nominal, high, 6),),
        x_ticks=(round(start, -1), T4_CLOCK),
        x_scale="linear",
        y_scale="linear",
        y_bottom=0,
        y_top=1.15 * high,
        direct=True,
        regions=(
            (rated, start, 0.93 * high),
            ("T4 leads", start, 1.06 * high),
            ("laptop leads", 0.5 * (start + T4_CLOCK), 0.2 * low),
        ),
    )
