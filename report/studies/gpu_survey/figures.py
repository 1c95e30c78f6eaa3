"""Figures of gpu_survey: gains, and rates of networks over those of similar networks."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.results import Survey

#: Ends of both axes of gains.
_AXIS_LIMITS: Final = 0.6, 1.6


def gains(p: Survey) -> Iterator[Scaling]:
    """Draw measured against predicted gains of networks whose normalizations can be switched."""
    switched = p.pairs["second"].switched
    if switched.empty:
        return
    points = []
    for index, (label, families) in enumerate(subject.SWITCHED.items()):
        rows = switched[switched["family"].isin(families)]
        x, y = tuple(rows["single"]), tuple(rows["gain"])
        # The last two groups have many points, drawn small; the last is grey.
        points.append(Points(label, x, y, style_number=index, small=index > 1, pale=index > 2))
    half_gain = float(switched["half"].iloc[0])  # the predicted gain of all networks
    float32 = Curve("Predicted = measured", _AXIS_LIMITS, _AXIS_LIMITS)
    float16 = Curve(f"Float16: {half_gain:.2f}", (half_gain, half_gain), _AXIS_LIMITS, dotted=True)
    labels = [(float32.label, 0.61, 1.04), (float16.label, 1.17, 0.63)]
    for x, y in switched.loc[switched.index == "resnet50_gn", ["single", "gain"]].to_numpy():
        labels.append(("ResNet-50", float(x) + 0.03, float(y) - 0.03))
    yield Scaling(
        "Predicted gain", "Measured gain", tuple(points), (float32, float16), x_scale="linear",
        y_scale="linear", y_bottom=_AXIS_LIMITS[0], y_top=_AXIS_LIMITS[1], regions=tuple(labels),
    )  # fmt: skip


def backbones(p: Survey) -> Iterator[Dots]:
    """Draw the rates of backbones with group normalization over those with batch normalization."""
    settings = {subject.CARDS[setting.device]: setting for setting in subject.PRICED_SETTINGS}
    settings |= {f"{subject.CARDS[s.device]}, compiled": s.compiled for s in subject.EAGER_29}
    settings |= {f"{subject.CARDS[s.device]}, channels-last": s for s in subject.CHANNELS_LAST}
    rows = [p.grouped_rates(setting).numbers for setting in settings.values()]
    series = []
    for index, (label, network) in enumerate((subject.BACKBONES | subject.UNCOUNTED).items()):
        dots = tuple(numbers.get(network) for numbers in rows)
        series.append(DotSeries(label, dots, index, shift=0.12 * (index - 2)))
    yield Dots(tuple(settings), tuple(series), "Rate over batch normalization's", x_top=1)


def twins(p: Survey) -> Iterator[Dots]:
    """Draw rates of transformers over rates of twins without the first normalization."""
    rows = {"Counted, float16": p.twins(subject.ON_4090, "half").numbers}
    rows["Counted, float32"] = p.twins(subject.ON_4090, "single").numbers
    settings = {subject.CARDS[setting.device]: setting for setting in subject.EAGER_29}
    settings |= {f"{label}, compiled": setting.compiled for label, setting in settings.items()}
    for label, setting in (settings | subject.CONTROL_SETTINGS).items():
        rows[label] = p.twins(setting).numbers
    series = []
    for network in rows["RTX 5090"].index:
        series.append(DotSeries(network, tuple(dots.get(network) for dots in rows.values())))
    yield Dots(tuple(rows), tuple(series), "Rate over the twin's", reference=1, legend=False)
