"""Drawings of the survey: predicted and measured gains, prices, and rates of twins."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.quantity.expression import Exact
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.results import Survey

#: Families whose normalizations can be switched, by their labels.
_SWITCHED: Final = {
    "CNN, group norm": (subject.GROUPED,),
    "CNN, layer or RMS norm": subject.BY_LAYER,
    subject.HYBRIDS: (subject.HYBRIDS,),
    "Other transformers": (subject.OTHERS,),
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
        x, y = tuple(rows["single"]), tuple(rows["gain"])
        points.append(Points(label, x, y, series=series, many=len(x) > 99))
    half = float(switched["half"].iloc[0])
    yield Scaling(
        "Predicted gain",
        "Measured gain",
        tuple(points),
        (Curve("Equal", _GAINS, _GAINS), Curve("Float16", (half, half), _GAINS, part=True)),
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


def twins(p: Survey) -> Iterator[Dots]:
    """Draw the rates of pre-normalized transformers over their twins', counted and published."""
    card = subject.EAGER[0]
    rows = {"Counted, float16": p.twins(card, "half").numbers}
    rows["Counted, float32"] = p.twins(card, "single").numbers
    for setting in subject.EAGER:
        rows[subject.CARDS[setting.device]] = p.twins(setting).numbers
    for setting in subject.EAGER:
        rows[f"{subject.CARDS[setting.device]}, compiled"] = p.twins(setting.compiled).numbers
    labels = "RTX 4090, older timm", "PRO 6000, bfloat16 compiled"
    for label, setting in zip(labels, subject.NO_SWITCH, strict=True):
        rows[label] = p.twins(setting).numbers
    if any(numbers.empty for numbers in rows.values()):
        return
    series = []
    for network in rows["RTX 5090"].index:
        series.append(DotSeries(network, tuple(numbers[network] for numbers in rows.values())))
    yield Dots(tuple(rows), tuple(series), "Rate over the twin's", reference=1, legend=False)
