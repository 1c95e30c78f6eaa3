"""The figures of training_roofline; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from figures.dots import Dots, DotSeries
from figures.points import Points
from figures.roofline import Roofline
from figures.scaling import Band, Scaling
from report.paper.plots import GIGA, TERA, points, roof_line
from report.quantity.evaluation import estimate
from report.statistics.estimates import Estimate
from report.studies.training_roofline import theory
from report.studies.training_roofline.runs import Run
from report.studies.training_roofline.source import GPUS, LAPTOP, RTX, T4, Source, value_of
from report.studies.training_roofline.subject import HEAVY, IMAGE, NETWORKS, Step
from report.theory.roofline import sheet_roof

_INTENSITY: Final = "Arithmetic intensity (FLOP/B)"


def shares(source: Source) -> Dots:
    """What each device reaches of the roofs of a network's layers (%), a row a network.

    From throughputs as they are printed, and hollow from printed efficiencies.
    """
    series = []
    for place, (name, device) in enumerate((("laptop", RTX), (T4, T4))):
        for by_print in (False, True):
            cases = (source.compared(device, network, by_print) for network in NETWORKS)
            measured = (estimate(source.of_roof(case)) for case in cases)
            ends = [each if isinstance(each, Estimate) else None for each in measured]
            series.append(
                DotSeries(
                    f"{name}, by {'rate' if by_print else 'throughput'}",
                    tuple(100 * e.value if e else None for e in ends),
                    place,
                    by_print,
                    tuple(100 * e.low if e else None for e in ends),
                    tuple(100 * e.high if e else None for e in ends),
                    shift=0.3 * place + 0.15 * by_print - 0.2,
                )
            )
    label = "Throughput ÷ that of the layers' roofs (%)"
    return Dots(NETWORKS, tuple(series), label, reference=100.0)


def source_roofs(source: Source) -> tuple[Roofline, ...]:
    """The source's cases as it drew them (hollow), and where they belong, a panel a GPU."""
    return tuple(_source_panel(source, device) for device in GPUS)


def _source_panel(source: Source, device: str) -> Roofline:
    # The legend of the first panel is that of both.
    labels = ("As printed", "Corrected") if device == RTX else ("", "")
    printed = sheet_roof(*map(value_of, source.printed_roof(device)))
    known = sheet_roof(value_of(source.peak(device)), value_of(source.bandwidth(device)))
    fell = [case for case in source.cases if source.collapsed(case)]
    drawn = []
    for series, network in enumerate(NETWORKS):
        cases = [source.compared(device, network)]
        cases += [case for case in fell if (case.device, case.network) == (device, network)]
        rows = [case.row for case in cases if case.row]
        x = tuple(float(row.printed("intensity").number) for row in rows)
        y = tuple(float(row.printed("rate").number) for row in rows)
        drawn += [Points("", x, y, series=series, hollow=True)] * bool(rows)
        x = tuple(value_of(theory.intensity(network, case.batch)) for case in cases)
        y = tuple(value_of(case.rate) / TERA for case in cases)
        names = tuple("collapsed" if case in fell else network for case in cases)
        drawn.append(Points("", x, y, series=series, names=names))
    roofs = (
        roof_line(printed, labels[0], "printed", TERA),
        roof_line(known, labels[1], "sheet", TERA),
    )
    name = LAPTOP if device == RTX else device
    return Roofline(_INTENSITY, "Rate (TFLOP/s)", roofs, tuple(drawn), name)


def memory(run: Run, source: Source) -> Iterator[Scaling]:
    """What a step reserves over the batch, and what the laptop of the source holds."""
    drawn: tuple[Points, ...] = ()
    batches = [b for b in run.batches(HEAVY, IMAGE) if b <= theory.SOURCE_BATCH]
    for series, network in enumerate(NETWORKS):
        over = {b: run.bytes("reserved_peak", Step(network, IMAGE, b)) for b in batches}
        drawn += points(network, over, "GB", series=series, joined=True)
        fast = run.bytes("reserved_peak", Step(network, IMAGE, theory.SOURCE_BATCH, "tfloat32"))
        drawn += points("", {theory.SOURCE_BATCH: fast}, "GB", series=series, hollow=True)
    if not batches or not drawn:
        return
    size = source.memory(RTX) / GIGA
    yield Scaling(
        "Batch size (images)",
        "Reserved memory (GB)",
        drawn,
        bands=(Band("laptop", size, size, size, len(NETWORKS)),),
        x_ticks=tuple(map(float, batches)),
        x_scale="linear",
        y_scale="linear",
        y_top=1.2 * size,
        y_bottom=0.0,
        direct=True,
    )
