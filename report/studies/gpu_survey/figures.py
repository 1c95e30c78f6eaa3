"""Drawings of the survey: predicted and measured gains, and rates of backbones and of twins."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.results import Survey

#: Twins whose classifiers differ, by the beginnings of their names.
_CLASSIFIERS: Final = "vit_huge", "vit_gi"
#: Ends of the axes of gains.
_GAINS: Final = 0.6, 1.6


def gains(p: Survey) -> Iterator[Scaling]:
    """Draw measured against predicted gains of networks whose normalizations can be switched."""
    switched = p.pairs["second"].switched
    if switched.empty:
        return
    points = []  # of two families large, of the last one pale
    for series, (label, families) in enumerate(subject.SWITCHED.items()):
        rows = switched[switched["family"].isin(families)]
        x, y = tuple(rows["single"]), tuple(rows["gain"])
        points.append(Points(label, x, y, series=series, many=series > 1, pale=series > 2))
    half = float(switched["half"].iloc[0])
    single, usual = "Float32: equal gains", f"Float16: {half:.2f}"
    labels = [(single, 0.61, 1.04), (usual, 1.17, 0.63)]
    for x, y in switched.loc[switched.index == "resnet50_gn", ["single", "gain"]].to_numpy():
        labels.append(("ResNet-50", float(x) + 0.03, float(y) - 0.03))
    yield Scaling(
        "Predicted gain",
        "Measured gain",
        tuple(points),
        (Curve(single, _GAINS, _GAINS), Curve(usual, (half, half), _GAINS, part=True)),
        x_scale="linear",
        y_scale="linear",
        y_bottom=_GAINS[0],
        y_top=_GAINS[1],
        regions=tuple(labels),
    )


def backbones(p: Survey) -> Iterator[Dots]:
    """Draw the rates of backbones with group normalization over those with batch normalization."""
    settings = {subject.CARDS[setting.device]: setting for setting in subject.PRICED}
    for setting in subject.EAGER:
        settings[f"{subject.CARDS[setting.device]}, compiled"] = setting.compiled
    for setting in subject.CHANNELS_LAST:
        settings[f"{subject.CARDS[setting.device]}, channels-last"] = setting
    rows = [p.grouped_rates(setting).numbers for setting in settings.values()]
    series = []
    for place, (label, network) in enumerate((subject.BACKBONES | subject.UNCOUNTED).items()):
        dots = tuple(numbers.get(network) for numbers in rows)
        series.append(DotSeries(label, dots, place, shift=0.12 * (place - 2)))
    yield Dots(tuple(settings), tuple(series), "Rate over batch normalization's", x_top=1)


def twins(p: Survey) -> Iterator[Dots]:
    """Draw the rates of pre-normalized transformers over their twins', counted and published."""
    card = subject.EAGER[0]
    rows = {"Counted, float16": p.twins(card, "half").numbers}
    rows["Counted, float32"] = p.twins(card, "single").numbers
    settings = {subject.CARDS[setting.device]: setting for setting in subject.EAGER}
    settings |= {f"{label}, compiled": setting.compiled for label, setting in settings.items()}
    for label, setting in (settings | subject.CONTROLS).items():
        rows[label] = p.twins(setting).numbers
    series = []
    for network in rows["RTX 5090"].index:
        dots = tuple(numbers.get(network) for numbers in rows.values())
        series.append(DotSeries(network, dots, hollow=network.startswith(_CLASSIFIERS)))
    yield Dots(tuple(rows), tuple(series), "Rate over the twin's", reference=1, legend=False)
