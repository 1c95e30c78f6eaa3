"""The drawing of all speed-ups, with freed memory returned and kept."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Band, Dots, DotSeries
from report.core.missing import Missing
from report.paper.plots import dot_series
from report.quantity.evaluation import point
from report.studies.tuning_tips.runs import Run
from report.studies.tuning_tips.subject import BATCH, MEMORY, NETWORKS, TIPS, Trial

#: Places of the memory policies within a row, and of the prediction.
_SHIFTS: Final = {"returned": -0.28, "kept": 0.0}
_PREDICTION_SHIFT: Final = 0.28
_TICKS: Final = (0.7, 1.0, 1.4, 2.0)


def speedups(run: Run) -> Iterator[Dots]:
    """Draw a panel for each network, with a row for each tip."""
    tips = [tip for tip in TIPS if _is_drawn(run, tip)]
    names = tuple(TIPS[tip] for tip in tips)
    for network in NETWORKS:
        series, bands = [], []
        for place, memory in enumerate(MEMORY):
            trials = [Trial(tip, network, memory=memory) for tip in tips]
            drawn = [run.speedup(trial) for trial in trials]
            label, shift = f"memory {memory}", _SHIFTS[memory]
            series.append(dot_series(label, drawn, "1", series=place, shift=shift))
            low, high = run.control_range(memory)
            bands.append(Band("control", low, 1.0, high, place))
        values = map(point, (run.predicted(trial) for trial in trials))
        predicted = tuple(None if isinstance(value, Missing) else value for value in values)
        label = "predicted, memory kept"
        series.append(DotSeries(label, predicted, 1, hollow=True, shift=_PREDICTION_SHIFT))
        yield Dots(
            names,
            tuple(series),
            "Speed-up",
            1.0,
            network,
            log=True,
            named=network == NETWORKS[0],
            bands=tuple(bands),
            legend=False,
            x_ticks=_TICKS,
        )


def _is_drawn(run: Run, tip: str) -> bool:
    return any(not run.speedup(trial).missing for trial in run.of(tip) if trial.batch == BATCH)
