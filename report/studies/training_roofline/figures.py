"""Figure of training_roofline: ratios of efficiencies over the laptop's clock."""

from collections.abc import Iterator

from figures.panels import Band, Curve, Points, Scaling
from report.studies.training_roofline import results
from report.studies.training_roofline.source import CLOCKS, T4_CLOCK, Source
from report.studies.training_roofline.theory import value_of


def clocks(source: Source) -> Iterator[Scaling]:
    """Draw the T4's efficiency, at its highest clock, over the laptop's, by the laptop's clock.

    Dashed lines end at the clock of the printed peak.  In the band a slower T4 may be equal.
    """
    rated = sorted(value_of(source.first_cell("cores", clock)) for clock in CLOCKS)
    ends = (0.0, value_of(results.printed_clock(source)))
    lines, curves = [], []
    for colour, (name, (networks, collapsed)) in enumerate(results.CASES.items()):
        ratio = results.ratio(source, *networks, collapsed=collapsed)
        slope = 1 / value_of(results.equal_clock(source, ratio))
        heights = tuple(slope * clock for clock in rated)
        lines.append(Points(name, tuple(rated), heights, style_number=colour, joined=True))
        curves.append(Curve("", ends, (0.0, slope * ends[1]), style_number=colour))
    printed = Points("", ends[1:], (value_of(source.value("paradox")),), hollow=True)
    least_share = results.clock_by_roofs(source) / T4_CLOCK
    yield Scaling(
        "Laptop's clock (MHz)", "The T4's efficiency ÷ the laptop's", (*lines, printed),
        tuple(curves), (Band("equal", least_share, 1, 1, style_number=6),),
        x_ticks=(0, rated[0], rated[-1], round(ends[1], -1)), x_scale="linear", y_scale="linear",
        y_from_zero=True, names_at_ends=True, legend=False,
        regions=(("points: rated clocks", 50, 2.6), ("printed peak", 1_650, 3.15)),
    )  # fmt: skip
