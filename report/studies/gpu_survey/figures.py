"""Figures of gpu_survey: gains, and rates of networks divided by rates of similar networks."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Curve, Dots, DotSeries, Points, Scaling
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.results import Survey
from report.studies.gpu_survey.theory import FLOAT16, FLOAT32

#: Ends of both axes of gains.
_AXIS_LIMITS: Final = 0.6, 1.6


def gains(survey: Survey) -> Iterator[Scaling]:
    """Draw measured against predicted gains of networks whose normalizations can be switched."""
    networks = survey.comparisons["4090_to_5090"].switchable_networks
    if networks.empty:
        return
    points = []
    for index, (label, families) in enumerate(subject.SWITCHABLE_FAMILIES.items()):
        rows = networks[networks["family"].isin(families)]
        x, y = tuple(rows[FLOAT32]), tuple(rows["gain"])
        # The last two groups have many points, drawn small.  The last group is grey.
        points.append(Points(label, x, y, style_number=index, small=index > 1, pale=index > 2))
    float16_gain = float(networks[FLOAT16].iloc[0])  # the same prediction for all networks
    diagonal = Curve("Predicted = measured", _AXIS_LIMITS, _AXIS_LIMITS)
    gain_on_x = (float16_gain, float16_gain)
    float16 = Curve(f"Float16: {float16_gain:.2f}", gain_on_x, _AXIS_LIMITS, dotted=True)
    labels = [(diagonal.label, 0.61, 1.04), (float16.label, 1.17, 0.63)]
    for x, y in networks.loc[networks.index == "resnet50_gn", [FLOAT32, "gain"]].to_numpy():
        labels.append(("ResNet-50", float(x) + 0.03, float(y) - 0.03))
    yield Scaling(
        "Predicted gain", "Measured gain", tuple(points), (diagonal, float16),
        x_scale="linear", y_scale="linear", y_bottom=_AXIS_LIMITS[0], y_top=_AXIS_LIMITS[1],
        inside_labels=tuple(labels),
    )  # fmt: skip


def backbones(survey: Survey) -> Iterator[Dots]:
    """Draw rates of backbones with group norm divided by their rates with batch norm."""
    eager_settings = (*subject.OTHER_GPU_SETTINGS, subject.ON_5090)
    settings = {subject.GPU_NAMES[setting.device]: setting for setting in eager_settings}
    for setting in subject.EAGER_SETTINGS:
        settings[f"{subject.GPU_NAMES[setting.device]}, compiled"] = setting.compiled
    for setting in subject.CHANNELS_LAST:
        settings[f"{subject.GPU_NAMES[setting.device]}, channels-last"] = setting
    rows = [survey.group_norm_rate_ratios(setting).numbers for setting in settings.values()]
    series = []
    for index, (label, network) in enumerate((subject.BACKBONES | subject.OTHER_BACKBONES).items()):
        dots = tuple(ratios.get(network) for ratios in rows)
        series.append(DotSeries(label, dots, index, shift=0.12 * (index - 2)))
    yield Dots(tuple(settings), tuple(series), "Rate over batch normalization's", x_top=1)


def twins(survey: Survey) -> Iterator[Dots]:
    """Draw rates of transformers divided by rates of twins without the first normalization."""
    rows = {"Counted, float16": survey.twin_ratios(subject.ON_4090, FLOAT16).numbers}
    rows["Counted, float32"] = survey.twin_ratios(subject.ON_4090, FLOAT32).numbers
    settings = {subject.GPU_NAMES[setting.device]: setting for setting in subject.EAGER_SETTINGS}
    settings |= {f"{label}, compiled": setting.compiled for label, setting in settings.items()}
    for label, setting in (settings | subject.CONTROL_SETTINGS).items():
        rows[label] = survey.twin_ratios(setting).numbers
    series = []
    for network in rows["RTX 5090"].index:
        series.append(DotSeries(network, tuple(ratios.get(network) for ratios in rows.values())))
    yield Dots(tuple(rows), tuple(series), "Rate over the twin's", reference=1, legend=False)
