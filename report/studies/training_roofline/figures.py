"""Drawings of training_roofline."""

from collections.abc import Iterator
from itertools import product

from figures.panels import Band, Dots, Points, Scaling
from report.paper.plots import dot_series
from report.studies.training_roofline import results
from report.studies.training_roofline.source import CLOCKS, GPUS, RTX, T4_CLOCK, Source
from report.studies.training_roofline.subject import HEAVY, LIGHT, NETWORKS, SMALL
from report.studies.training_roofline.theory import value_of


def clocks(source: Source) -> Iterator[Scaling]:
    """Draw the laptop's clock at which both GPUs are as efficient, over the T4's clock.

    A line begins at the lowest clock at which arithmetic allows the T4's rates, or throughputs.
    """
    nominal, low, high = (value_of(source.first_row("cores", name)) for name in CLOCKS)
    start = value_of(results.needed_clock(source))
    lines = []
    for series, network in enumerate((SMALL, LIGHT, HEAVY)):
        by_rate = network != LIGHT
        even = value_of(results.even_clock(source, network, by_rate))
        first = value_of(results.needed_clock(source, by_rate))
        x, y = (first * T4_CLOCK, T4_CLOCK), (first * even, even)
        lines.append(Points(network, x, y, series=series, hollow=not by_rate, joined=True))
    claim, rated = value_of(results.printed_clock(source)), "rated clocks (line: nominal)"
    always = value_of(results.always_below(source, HEAVY))
    yield Scaling(
        "The T4's clock (MHz)",
        "The laptop's clock (MHz)",
        tuple(lines),
        bands=(Band(rated, low, nominal, high, 6), Band("as printed", claim, claim, claim, 6)),
        x_ticks=(round(start * T4_CLOCK, -1), always, T4_CLOCK),
        x_scale="linear",
        y_scale="linear",
        y_bottom=0,
        y_top=1.1 * claim,
        direct=True,
        regions=(
            (rated, start * T4_CLOCK, 1.02 * high),
            ("T4 leads", start * T4_CLOCK, 0.82 * claim),
            ("laptop leads", always, 0.1 * claim),
        ),
    )


def shares(source: Source) -> Iterator[Dots]:
    """Draw the share that devices reach of the roofs of a network's layers (%), a row a network.

    Filled marks are from printed throughputs, hollow ones from printed efficiencies.
    """
    series = []
    for (place, device), by_rate in product(enumerate(GPUS), (False, True)):
        drawn = dot_series(
            f"{'laptop' if device == RTX else device}, by {'rate' if by_rate else 'throughput'}",
            [results.of_roof(source, device, network, by_rate=by_rate) for network in NETWORKS],
            "%",
            series=place,
            hollow=by_rate,
            shift=0.3 * place + 0.15 * by_rate - 0.2,
        )
        series.append(drawn)
    yield Dots(NETWORKS, tuple(series), "Share of the roofs reached (%)", 100.0, x_top=135.0)
