"""Figures of times and speed-ups with freed memory returned and kept, and of predictions."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, Final

from figures.panels import Curve, Dots, Points, Scaling
from report.paper.plots import dot_series
from report.quantity.expression import missing_number
from report.studies.tuning_tips import results
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.source import TIPS
from report.studies.tuning_tips.subject import BATCH, NETWORKS, Trial

#: Policy for freed memory → vertical shift of its points from the middle of a row (in rows).
_SHIFTS: Final = {"returned": -0.2, "kept": 0.2}
_SPEEDUP_TICKS: Final = (0.7, 1.0, 1.4, 2.0)


def times(run: Run) -> Iterator[Dots]:
    """Draw the times (ms) of settings, in a panel per network with a row per setting."""
    for network in NETWORKS:
        series = []
        for color, (memory, shift) in enumerate(_SHIFTS.items()):
            call_time = partial(results.call_time, run, network=network, memory=memory)
            call_times = [call_time(setting) for setting in results.SETTINGS]
            style: dict[str, Any] = {"style_number": color, "shift": shift}
            series.append(dot_series(f"memory {memory}", call_times, "ms", **style))
        longest = max((time for row in series for time in row.high if time), default=1.0)
        ticks = tuple(range(0, int(longest), 10 if longest < 40 else 30))
        yield Dots(
            tuple(results.SETTINGS), tuple(series), "Time (ms)", title=network, legend=False,
            show_names=network == NETWORKS[0], x_top=1.05 * longest, x_ticks=ticks,
        )  # fmt: skip


def speedups(run: Run) -> Iterator[Dots]:
    """Draw the speed-ups by tips, in a panel per network with a row per tip.

    Points are filled if the tip's gain differs between memory returned and memory kept.
    """
    trials = [trial for trial in run.trials if trial.batch == BATCH]
    measured_tips = {trial.tip for trial in trials if not run.speedup(trial).missing}
    tips = [tip for tip in TIPS if tip in measured_tips]
    changed_trials = results.trials_with_changed_gain(run)
    not_drawn = missing_number("speed-up", "1", "drawn in another series")
    for network in NETWORKS:
        series = []
        for (color, memory), hollow in product(enumerate(_SHIFTS), (True, False)):
            drawn_speedups = []
            for tip in tips:
                is_hollow = Trial(tip, network, memory="kept") not in changed_trials
                speedup = run.speedup(Trial(tip, network, memory=memory))
                drawn_speedups.append(speedup if is_hollow == hollow else not_drawn)
            label, style = f"memory {memory}", {"hollow": hollow, "shift": _SHIFTS[memory]}
            series.append(dot_series(label, drawn_speedups, "1", style_number=color, **style))
        yield Dots(
            tuple(TIPS[tip] for tip in tips), tuple(series), "Speed-up", reference=1.0,
            title=network, log=True, show_names=network == NETWORKS[0], x_ticks=_SPEEDUP_TICKS,
            legend=False,
        )  # fmt: skip


def predictions(run: Run) -> Iterator[Scaling]:
    """Draw measured against predicted gains with memory kept, filled as in ``speedups``.

    A panel shows the predictions of the equation, and another those of unchanged gains.
    """
    ends = (0.7, 2.4)  # of both axes
    changed_trials = results.trials_with_changed_gain(run)
    for title in ("Equation", "Unchanged gain"):
        gains = results.predicted_gains(run, results.PREDICTIONS[title])
        points = []
        for (color, network), hollow in product(enumerate(NETWORKS, len(_SHIFTS)), (True, False)):
            drawn_gains = []
            for trial, gain in gains.items():
                if trial.network == network and (trial in changed_trials) != hollow:
                    drawn_gains.append(gain)
            if drawn_gains:
                x, low, y, high = zip(*drawn_gains, strict=True)
                points.append(Points(network, x, y, low, high, style_number=color, hollow=hollow))
        if points:
            yield Scaling(
                "Predicted speed-up", "Measured speed-up", tuple(points), (Curve("", ends, ends),),
                x_ticks=_SPEEDUP_TICKS, title=title, legend=False, y_bottom=ends[0],
                y_top=ends[1],
            )  # fmt: skip
