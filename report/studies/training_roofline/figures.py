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

    Dashed lines end at the clock of the printed peak.  In the band a slower T4 is equal.
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
    yield Scaling(
        "Laptop's clock (MHz)",
        "The T4's efficiency ÷ the laptop's",
        (*lines, printed),
        tuple(curves),
        (Band("equal", least, 1, 1, series=6),),
        x_ticks=(0, rated[0], rated[-1], round(ends[1], -1)),
        x_scale="linear",
        y_scale="linear",
        y_from_zero=True,
        direct=True,
        legend=False,
        regions=(("points: rated clocks", 50, 2.6), ("printed peak", 1_900, 3.15)),
    )


def steps(run: Run) -> Iterator[Scaling]:
    """Draw the steps of all processes behind the slower loader, and those of the equations."""
    network, files = subject.WAITING
    processes, loader = run.loading(network, files), run.loaded_step(files=files)
    alone, beside = run.loaded_step(network), run.ready_step(network, files)
    if isinstance(processes, Missing) or (loader * alone).missing:
        return
    turns = tuple(float(1 + place % subject.WORKERS) for place in range(subject.LOADED_STEPS))
    curves: list[Curve] = []
    for name, step in ("predicted", alone), ("with the step beside the loader", beside):
        waiting, ready = 1e3 * value_of(theory.waiting_step(loader, step)), 1e3 * value_of(step)
        heights = (waiting, *(subject.WORKERS - 1) * (ready,))
        curves.append(Curve(name, turns[: subject.WORKERS], heights, series=1 + len(curves)))
    times = tuple(1e3 * time for process in processes for time in process.samples)
    yield Scaling(
        "Step of each four",
        "Time (ms)",
        (Points("measured", turns * len(processes), times, many=True),),
        tuple(curves),
        x_ticks=turns[: subject.WORKERS],
        x_scale="linear",
        y_scale="linear",
        y_from_zero=True,
    )
