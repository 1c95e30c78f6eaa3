"""Drawings of the survey: predicted and measured gains, and prices."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.quantity.expression import Exact
from report.studies.gpu_survey.results import Survey
from report.studies.gpu_survey.subject import (
    BACKBONES,
    BY_LAYER,
    CARDS,
    CHANNELS_LAST,
    GROUPED,
    NEW,
    ONE_GROUP,
    PRICED,
)

#: Families whose normalizations can be switched, by their labels.
_SWITCHED: Final = {
    "CNN, group norm": (GROUPED,), "CNN, layer or RMS norm": BY_LAYER, ONE_GROUP: (ONE_GROUP,),
}  # fmt: skip
#: Ends of the axes of gains.
_GAINS: Final = 0.6, 1.6
#: Distance of the markers of two series in a row of dots.
_SHIFT: Final = 0.15


def gains(p: Survey) -> Iterator[Scaling]:
    """Draw measured against predicted gains of networks whose normalizations can be switched."""
    pair = p.pairs["second"]
    if pair.switched.empty:
        return
    points = []
    for series, (label, families) in enumerate(_SWITCHED.items()):
        rows = pair.switched[pair.switched["family"].isin(families)]
        measured = tuple(rows["rate_after"] / rows["rate_before"])
        points.append(Points(label, tuple(rows["single"]), measured, series=series))
        points.append(Points("", tuple(rows["half"]), measured, series=series, hollow=True))
    yield Scaling(
        "Predicted gain",
        "Measured gain",
        tuple(points),
        (Curve("equal", _GAINS, _GAINS),),
        x_scale="linear",
        y_scale="linear",
        y_bottom=_GAINS[0],
        y_top=_GAINS[1],
    )


def prices(p: Survey) -> Iterator[Dots]:
    """Draw the bytes that group normalization costs, counted and by published times."""
    rows = {"Counted, float16": p.predicted_prices("half")}
    for setting in PRICED:
        if setting.device == NEW:
            rows["Counted, float32"] = p.predicted_prices("single")
        rows[CARDS[setting.device]] = p.prices(setting)
    for setting in CHANNELS_LAST:
        rows[f"{CARDS[setting.device]}, channels-last"] = p.prices(setting)
    numbers = []
    for row in rows.values():
        numbers.append([float(leaf.value) if isinstance(leaf, Exact) else None for leaf in row])
    if any(None in row for row in numbers):
        return
    blank = (None,) * len(rows)
    series = []
    for place, label in enumerate(BACKBONES):
        dots = tuple(row[place] for row in numbers)
        shift = _SHIFT * (place - 1)
        series.append(DotSeries(label, dots, place, low=blank, high=blank, shift=shift))
    yield Dots(tuple(rows), tuple(series), "Bytes per normalized element", x_top=34)
