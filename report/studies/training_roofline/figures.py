"""Figure of training_roofline: ratios of two GPUs' efficiencies against the laptop's clock."""

from collections.abc import Iterator

from figures.panels import Band, Curve, Points, Scaling
from report.studies.training_roofline import results
from report.studies.training_roofline.source import CLOCKS, Source
from report.studies.training_roofline.subject import T4_CLOCK
from report.studies.training_roofline.theory import value_of


def clocks(source: Source) -> Iterator[Scaling]:
    """Draw the T4's efficiency divided by the laptop's, against the laptop's clock.

    The T4 runs at its highest clock.  Points are at the laptop's rated clocks; dashed lines end at
    the clock that the printed peak implies.  Within the band, the T4 would be as efficient as the
    laptop if it ran at a lower clock that its roofs still allow.
    """
    rated_clocks = sorted(value_of(source.first_cell("cores", clock)) for clock in CLOCKS)
    ends = (0.0, value_of(results.printed_clock(source)))
    points, curves = [], []
    for colour, (name, (networks, collapsed)) in enumerate(results.RATIO_CASES.items()):
        ratio = results.efficiency_ratio(source, *networks, with_collapsed_run=collapsed)
        slope = 1 / value_of(results.clock_for_equality(source, ratio))
        heights = tuple(slope * clock for clock in rated_clocks)
        points.append(Points(name, tuple(rated_clocks), heights, style_number=colour, joined=True))
        curves.append(Curve("", ends, (0.0, slope * ends[1]), style_number=colour))
    printed = Points("", ends[1:], (value_of(source.value("paradox")),), hollow=True)
    lowest_share = results.lowest_clock_by_roofs(source) / T4_CLOCK
    x_ticks = (0, rated_clocks[0], rated_clocks[-1], round(ends[1], -1))
    yield Scaling(
        "Laptop's clock (MHz)", "The T4's efficiency ÷ the laptop's", (*points, printed),
        tuple(curves), (Band("equal", lowest_share, 1, 1, style_number=6),),
        x_ticks=x_ticks, x_scale="linear", y_scale="linear",
        y_from_zero=True, names_at_ends=True, legend=False,
        inside_labels=(("points: rated clocks", 50, 2.6), ("printed peak", 1_650, 3.15)),
    )  # fmt: skip
