"""The figures of training_roofline; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from figures.panels import Band, Dots, Points, Roofline, Scaling
from report.core.missing import Missing
from report.paper.plots import GIGA, dot_series, roof_line
from report.studies.training_roofline import theory
from report.studies.training_roofline.runs import DEPTHWISE, Run, Timed
from report.studies.training_roofline.source import CLOCKS, RTX, T4, T4_CLOCK, Source, value_of
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


#: The lines of parity: a network, and whether by rates.
_LINES: Final = ((SMALL, True), (SMALL, False), (LIGHT, False), (HEAVY, False))


def clocks(source: Source) -> Iterator[Scaling]:
    """Draw the laptop's clock at which both GPUs are as efficient, over the T4's clock.

    The T4's clocks reach from the lowest at which direct convolution gives its printed rates.
    """
    remainders = source.remainders()
    nominal, low, high = (value_of(source.first_row("cores", name)) for name in CLOCKS[RTX])
    slow = T4_CLOCK * value_of(source.needed_clock)
    lines = []
    for series, (network, by_rate) in enumerate(_LINES):
        row = remainders[network]
        even = nominal / value_of(row.by_print if by_rate else row.ratio)
        y = (even * slow / T4_CLOCK, even)
        label = f"{network}{', by rates' * by_rate}"
        lines.append(Points(label, (slow, T4_CLOCK), y, series=series, hollow=by_rate, joined=True))
    claim = value_of(source.printed_clock)
    bands = (Band("rated", low, nominal, high, 6), Band("as printed", claim, claim, claim, 6))
    yield Scaling(
        "The T4's clock (MHz)",
        "The laptop's clock (MHz)",
        tuple(lines),
        bands=bands,
        x_ticks=(round(slow, -1), T4_CLOCK),
        x_scale="linear",
        y_scale="linear",
        y_bottom=0,
        y_top=1.1 * claim,
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
    caches = [replace(roof, label=n, bandwidth=(r / GIGA,) * 3) for n, r in run.caches.items()]
    for network, layers in run.profiles.items():
        axes = "Intensity (FLOP/B)", "Rate (GFLOP/s)"
        yield Roofline(*axes, (roof, *caches), tuple(_marks(layers)), network)


def _marks(layers: Sequence[Timed]) -> Iterator[Points]:
    for series, kind in enumerate(_KINDS):
        own = [layer for layer in layers if layer.kind == kind and layer.load.flops]
        x = tuple(layer.load.intensity for layer in own)
        y = tuple(layer.load.flops / layer.time / GIGA for layer in own)
        # One name a kind of several layers, at an end, where few other marks are.
        named = x.index(max(x)) if kind == "3 × 3" and x else y.index(min(y)) if y else 0
        names = tuple(kind * (place == named and len(y) > 1) for place in range(len(y)))
        yield Points("", x, y, series=series, names=names)
