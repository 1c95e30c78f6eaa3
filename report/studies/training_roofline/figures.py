"""Drawings of training_roofline."""

from collections.abc import Iterator

from figures.panels import Band, Curve, Points, Scaling
from report.core.missing import Missing
from report.studies.training_roofline import results, subject, theory
from report.studies.training_roofline.runs import Run
from report.studies.training_roofline.source import CLOCKS, Source
from report.studies.training_roofline.theory import value_of


def clocks(source: Source) -> Iterator[Scaling]:
    """Draw ratios, with the T4 at its highest clock, over the laptop's clock.

    Dashed lines end at the clock of the printed peak.  In the bands a slower T4 is equal.
    """
    rated = sorted(value_of(source.first_row("cores", clock)) for clock in CLOCKS)
    ends = (0.0, value_of(results.printed_clock(source)))
    lines, curves = [], []
    for series, (name, (networks, collapsed)) in enumerate(results.CASES.items()):
        ratio = results.ratio(source, *networks, collapsed=collapsed)
        slope = 1 / value_of(results.even_clock(source, ratio))
        heights = tuple(slope * clock for clock in rated)
        lines.append(Points(name, tuple(rated), heights, series=series, joined=True))
        curves.append(Curve("", ends, (0.0, slope * ends[1]), series=series))
    printed = Points("", ends[1:], (value_of(source.value("paradox")),), hollow=True)
    least = value_of(results.needed_clock(source))
    by_roofs = value_of(results.needed_clock_by_roofs(source))
    yield Scaling(
        "Laptop's clock (MHz)",
        "The T4's efficiency ÷ the laptop's",
        (*lines, printed),
        tuple(curves),
        (Band("equal", by_roofs, 1, 1, series=6), Band("", least, 1, 1, series=6)),
        x_ticks=(0, rated[0], rated[-1], round(ends[1], -1)),
        x_scale="linear",
        y_scale="linear",
        y_from_zero=True,
        direct=True,
        legend=False,
        regions=(("points: rated clocks", 50, 2.6), ("printed peak", 1_900, 3.15)),
    )


def steps(run: Run) -> Iterator[Scaling]:
    """Draw the steps of all processes behind the slower loader, and the predicted ones."""
    network, files = subject.WAITING
    processes = run.loading(network, files)
    step = run.loaded_step(network)
    longest = theory.waiting_step(run.loaded_step(files=files), step)
    if isinstance(processes, Missing) or longest.missing:
        return
    ready, waiting = 1e3 * value_of(step), 1e3 * value_of(longest)
    places = tuple(float(place) for place in range(1, subject.LOADED_STEPS + 1))
    predicted = tuple(ready if (place - 1) % subject.WORKERS else waiting for place in places)
    times = tuple(1e3 * time for process in processes for time in process.samples)
    yield Scaling(
        "Step",
        "Time (ms)",
        (Points("measured", places * len(processes), times, many=True),),
        (Curve("predicted", places, predicted),),
        x_ticks=places[:: subject.WORKERS],
        x_scale="linear",
        y_scale="linear",
        y_from_zero=True,
    )
