"""Drawings of the survey: predicted and measured gains, prices, and errors of predictors."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.quantity.expression import Exact
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.results import PREDICTORS, Survey

#: Families whose normalizations can be switched, by their labels.
_SWITCHED: Final = {
    "CNN, group norm": (subject.GROUPED,),
    "CNN, layer or RMS norm": subject.BY_LAYER,
    subject.ONE_GROUP: (subject.ONE_GROUP,),
}
#: Ends of the axes of gains.
_GAINS: Final = 0.6, 1.6


def gains(p: Survey) -> Iterator[Scaling]:
    """Draw measured against predicted gains of networks whose normalizations can be switched."""
    switched = p.pairs["second"].switched
    if switched.empty:
        return
    points = []
    for series, (label, families) in enumerate(_SWITCHED.items()):
        rows = switched[switched["family"].isin(families)]
        measured = tuple(rows["rate_after"] / rows["rate_before"])
        points.append(Points(label, tuple(rows["single"]), measured, series=series))
        hollow = "" if series else "Hollow: float16"
        points.append(Points(hollow, tuple(rows["half"]), measured, series=series, hollow=True))
    yield Scaling(
        "Predicted gain",
        "Measured gain",
        tuple(points),
        (Curve("Equal", _GAINS, _GAINS),),
        x_scale="linear",
        y_scale="linear",
        y_bottom=_GAINS[0],
        y_top=_GAINS[1],
    )


def prices(p: Survey) -> Iterator[Dots]:
    """Draw the bytes that group normalization costs, counted and by published times."""
    rows = {"Counted, float16": p.predicted_prices("half")}
    for setting in subject.PRICED:
        if setting.device == subject.NEW:
            rows["Counted, float32"] = p.predicted_prices("single")
        rows[subject.CARDS[setting.device]] = p.prices(setting)
    for setting in subject.CHANNELS_LAST:
        rows[f"{subject.CARDS[setting.device]}, channels-last"] = p.prices(setting)
    numbers = []
    for row in rows.values():
        numbers.append([float(leaf.value) if isinstance(leaf, Exact) else None for leaf in row])
    if any(None in row for row in numbers):
        return
    series = []
    for place, label in enumerate(subject.BACKBONES):
        dots = tuple(row[place] for row in numbers)
        series.append(DotSeries(label, dots, place, shift=0.15 * (place - 1)))
    yield Dots(tuple(rows), tuple(series), "Bytes per normalized element", x_top=34)


def leaderboard(p: Survey) -> Iterator[Dots]:
    """Draw median errors with a line to the 90 % quantile, the least mean of pairs on top."""
    if p.pairs["first"].known.empty:
        return
    pairs = tuple(subject.PAIRS_OF_CARDS)
    errors = {label: p.quantile(way, 50, pairs) for label, way in PREDICTORS.items()}
    labels = sorted(errors, key=errors.__getitem__)
    for title in ("Mean of pairs", *pairs):
        drawn = (title,) if title in pairs else pairs
        ends = []
        for percent in (50, 90):
            ends.append(tuple(p.quantile(PREDICTORS[label], percent, drawn) for label in labels))
        dots = DotSeries("", ends[0], low=ends[0], high=ends[1])
        named = title not in pairs
        yield Dots(tuple(labels), (dots,), "Error (%)", title=title, log=True, named=named)
