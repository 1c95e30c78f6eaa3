"""The figures of training_roofline; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from figures.panels import Dots, Points, Roofline
from report.core.missing import Missing
from report.paper.plots import GIGA, dot_series, roof_line
from report.studies.training_roofline import theory
from report.studies.training_roofline.runs import DEPTHWISE, Run, Timed
from report.studies.training_roofline.source import RTX, T4, Source, value_of
from report.studies.training_roofline.subject import IMAGE, NETWORKS, Precision, Step

#: The kinds of layers with multiply-adds, in the order of their colours.
_KINDS: Final = ("3 × 3", "1 × 1", DEPTHWISE, "7 × 7", "linear")
#: The precisions and the parts of the source's batch whose memory is shown.
_SHOWN: Final[tuple[tuple[Precision, int], ...]] = (
    ("tfloat32", 1),
    ("float32", 1),
    ("float32", 2),
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
    steps = [
        Step(network, IMAGE, theory.SOURCE_BATCH // part, precision)
        for network in NETWORKS
        for precision, part in _SHOWN
    ]
    series = []
    for place, name in enumerate(("allocated", "reserved")):
        sizes = [run.bytes(f"{name}_peak", step) for step in steps]
        series.append(dot_series(name, sizes, "GB", series=place, hollow=bool(place)))
    names = tuple(
        f"{step.network}, {step.batch}{', TF32' * (step.precision == 'tfloat32')}" for step in steps
    )
    size = value_of(source.memory(RTX)) / GIGA
    yield Dots(names, tuple(series), "Memory of a step (GB)", reference=size)


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
        # One name a kind of several layers, at its lowest point, where few other marks are.
        names = tuple(kind * (rate == min(y) and len(y) > 1) for rate in y)
        yield Points("", x, y, series=series, names=names)
