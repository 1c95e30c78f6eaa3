"""The figures of training_roofline; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from figures.panels import Band, Dots, Points, Roofline, Scaling
from report.core.missing import Missing
from report.paper.plots import GIGA, dot_series, roof_line
from report.studies.training_roofline import theory
from report.studies.training_roofline.runs import DEPTHWISE, Run, Timed
from report.studies.training_roofline.source import CLOCKS, RTX, T4, Source, value_of
from report.studies.training_roofline.subject import (
    HEAVY,
    IMAGE,
    LIGHT,
    NETWORKS,
    SMALL,
    Step,
    TrainingPrecision,
)

#: The kinds of layers with multiply-adds, in the order of their colours.
_KINDS: Final = ("3 × 3", "1 × 1", DEPTHWISE, "7 × 7", "linear")
#: The precisions and the parts of the source's batch whose memory is shown.
_SHOWN: Final[tuple[tuple[TrainingPrecision, int], ...]] = (
    ("tfloat32", 1),
    ("float32", 1),
    ("float32", 2),
)


#: The lines of the ratio over the laptop's clock: a network, and whether by rates.
_LINES: Final = ((SMALL, False), (SMALL, True), (LIGHT, False), (HEAVY, False))


def clocks(source: Source) -> Iterator[Scaling]:
    """Draw the T4's efficiency over the laptop's over the laptop's clock, a line a network.

    Each begins where it is one, and ends at the clock of the printed peak.  Bars reach to the
    lowest clock of the T4 at which direct convolution gives ResNet-18's throughput or rate.
    """
    remainders = {row.name: row for row in source.remainders()}
    nominal, low, high = (value_of(source.first_row("cores", name)) for name in CLOCKS[RTX])
    lines = []
    for series, (network, by_rate) in enumerate(_LINES):
        row = remainders[network]
        ratio = value_of(row.by_print if by_rate else row.ratio) / nominal
        small = source.compared(T4, SMALL, by_rate)
        x = (*sorted((1 / ratio, low, nominal, high)), value_of(source.printed_clock))
        y = tuple(ratio * clock for clock in x)
        slow = tuple(at_top / value_of(source.share(small)) for at_top in y)
        label = f"{network}{', by rates' * by_rate}"
        lines.append(Points(label, x, y, y, slow, series, hollow=by_rate, joined=True))
    claim = value_of(source.value("paradox"))
    bands = (Band("", 1, 1, 1, 6), Band("the source", claim, claim, claim, 6))
    yield Scaling(
        "The laptop's clock (MHz)",
        "T4's efficiency over the laptop's",
        tuple(lines),
        bands=bands,
        x_ticks=(low, high, value_of(source.printed_clock)),
        x_scale="linear",
        y_scale="linear",
        y_from_zero=True,
        direct=True,
    )


def shares(source: Source) -> Iterator[Dots]:
    """Draw the share that devices reach of the roofs of a network's layers (%), a row a network.

    Filled marks are from printed throughputs, hollow ones from printed efficiencies.
    """
    series = []
    for place, (name, device) in enumerate((("laptop", RTX), (T4, T4))):
        for by_print in (False, True):
            # The T4's throughputs need more than the lowest clock that its rates need.
            clocks = () if by_print or device == RTX else ("nominal",)
            cases = (source.compared(device, network, by_print) for network in NETWORKS)
            drawn = dot_series(
                f"{name}, by {'rate' if by_print else 'throughput'}",
                [source.of_roof(case, *clocks) for case in cases],
                "%",
                series=place,
                hollow=by_print,
                shift=0.3 * place + 0.15 * by_print - 0.2,
            )
            series.append(drawn)
    label = "Throughput relative to Equation (1) (%)"
    yield Dots(NETWORKS, tuple(series), label, reference=100.0)


def memory(both: tuple[Run, Source]) -> Iterator[Dots]:
    """Draw the bytes that steps allocate and reserve, a row a case, and the laptop's memory."""
    run, source = both
    steps, names = [], []
    for network, (precision, part) in product(NETWORKS, _SHOWN):
        step = Step(network, IMAGE, theory.SOURCE_BATCH // part, precision)
        steps.append(step)
        suffix = ", TF32" if precision == "tfloat32" else ""
        names.append(f"{network}, {step.batch}{suffix}")
    series = []
    for place, name in enumerate(("allocated", "reserved")):
        sizes = [run.bytes(f"{name}_peak", step) for step in steps]
        series.append(dot_series(name, sizes, "GB", series=place, hollow=bool(place)))
    size = value_of(source.memory(RTX)) / GIGA
    yield Dots(tuple(names), tuple(series), "Memory of a step (GB)", reference=size)


def layers(run: Run) -> Iterator[Roofline]:
    """Every layer with multiply-adds under the measured roofs, a panel a network."""
    if isinstance(run.roof, Missing):
        return
    roof = roof_line(run.roof, "", GIGA)
    caches = tuple((name, (rate / GIGA,) * 3) for name, rate in run.caches.items())
    for network, layers in run.profiles.items():
        axes = "Arithmetic intensity (FLOP/B)", "Rate (GFLOP/s)"
        yield Roofline(*axes, (roof,), tuple(_marks(layers)), network, caches)


def _marks(layers: Sequence[Timed]) -> Iterator[Points]:
    for series, kind in enumerate(_KINDS):
        own = [layer for layer in layers if layer.kind == kind and layer.load.flops]
        x = tuple(layer.load.intensity for layer in own)
        y = tuple(layer.load.flops / layer.time / GIGA for layer in own)
        # One name a kind of several layers, at an end, where few other marks are.
        named = x.index(max(x)) if kind == "3 × 3" and x else y.index(min(y)) if y else 0
        names = tuple(kind * (place == named and len(y) > 1) for place in range(len(y)))
        yield Points("", x, y, series=series, names=names)
