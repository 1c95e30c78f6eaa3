"""The figures of training_roofline; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from figures.dots import Dots, DotSeries
from figures.points import Points
from figures.roofline import Roofline
from figures.scaling import Band, Scaling
from report.missing import Missing
from report.paper.plots import points, theory_line
from report.paper.roofs import GIGA, TERA, cache_lines, roof_line
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity
from report.statistics.estimates import Estimate
from report.studies.training_roofline import theory
from report.studies.training_roofline.runs import Profile, Run
from report.studies.training_roofline.source import LAPTOP, RTX, T4, Source, value_of
from report.studies.training_roofline.subject import HEAVY, IMAGE, LIGHT, NETWORKS, Step
from report.theory.roofline import DEPTHWISE, LINEAR, sheet_roof

_INTENSITY: Final = "Arithmetic intensity (FLOP/B)"
#: The colour of a class of layers.
_CLASSES: Final = {
    "3 × 3 convolution": 0,
    "1 × 1 convolution": 1,
    DEPTHWISE: 2,
    LINEAR: 3,
    "7 × 7 convolution": 4,
}


def source_roofs(source: Source) -> tuple[Roofline, ...]:
    """The source's points as it drew them (hollow), and where they belong, a panel a GPU."""
    return tuple(_source_panel(source, device) for device in (RTX, T4))


def _source_panel(source: Source, device: str) -> Roofline:
    # The legend of the first panel is that of both.
    labels = ("As printed", "Corrected") if device == RTX else ("", "")
    printed = sheet_roof(*map(value_of, source.printed_roof(device)))
    known = sheet_roof(value_of(source.peak(device)), value_of(source.bandwidth(device)))
    drawn = []
    for series, network in enumerate(NETWORKS):
        cases = [c for c in source.cases if (c.device, c.network) == (device, network)]
        rows = [case.row for case in cases if case.row]
        x = tuple(float(row.printed("intensity").number) for row in rows)
        y = tuple(float(row.printed("rate").number) for row in rows)
        drawn += [Points("", x, y, series=series, hollow=True)] * bool(rows)
        x = tuple(value_of(theory.intensity(network, case.batch)) for case in cases)
        y = tuple(value_of(case.rate) / TERA for case in cases)
        names = tuple(
            "collapsed" if rate < max(y) / 2 else network if rate == max(y) else "" for rate in y
        )
        drawn.append(Points("", x, y, series=series, names=names))
    roofs = (
        roof_line(printed, labels[0], "printed", TERA),
        roof_line(known, labels[1], "sheet", TERA),
    )
    name = LAPTOP if device == RTX else device
    return Roofline(_INTENSITY, "Rate (TFLOP/s)", roofs, tuple(drawn), name)


def shares(found: Mapping[str, Mapping[str, Quantity]]) -> Dots:
    """What each device reaches of the roofs of a network's layers (%), a row a network."""
    series = []
    for place, (device, by_network) in enumerate(found.items()):
        measured = map(estimate, by_network.values())
        ends = [each if isinstance(each, Estimate) else None for each in measured]
        series.append(
            DotSeries(
                device,
                tuple(100 * e.value if e else None for e in ends),
                place,
                False,
                tuple(100 * e.low if e else None for e in ends),
                tuple(100 * e.high if e else None for e in ends),
                shift=0.12 * (place - (len(found) - 1) / 2),
            )
        )
    return Dots(
        NETWORKS, tuple(series), "Throughput ÷ that of the layers' roofs (%)", reference=100.0
    )


def memory(run: Run, source: Source) -> Iterator[Scaling]:
    """What a step reserves over the batch, what theory needs, and what the source's GPUs hold."""
    drawn: tuple[Points, ...] = ()
    batches = [b for b in run.batches(HEAVY, IMAGE) if b <= theory.SOURCE_BATCH]
    for series, network in enumerate((HEAVY, LIGHT)):
        over = {b: run.bytes("reserved_peak", Step(network, IMAGE, b)) for b in batches}
        drawn += points(network, over, "GB", series=2 * series, joined=True)
    for series, network in enumerate((HEAVY, LIGHT)):
        fast = run.bytes("reserved_peak", Step(network, IMAGE, theory.SOURCE_BATCH, "tfloat32"))
        over = {theory.SOURCE_BATCH: fast}
        drawn += points("", over, "GB", series=2 * series, hollow=True)
    if not batches or not drawn:
        return
    curves = [
        theory_line(
            f"{network}, theory",
            {b: theory.alive(network, b) for b in batches},
            "GB",
            part=network == LIGHT,
        )
        for network in (HEAVY, LIGHT)
    ]
    size = source.memory(RTX) / GIGA
    yield Scaling(
        "Batch size (images)",
        "Memory of a step (GB)",
        drawn,
        tuple(curves),
        (Band("laptop", size, size, size, 3),),
        x_ticks=tuple(map(float, batches)),
        x_scale="linear",
        y_scale="linear",
        y_top=1.2 * size,
        y_bottom=0.0,
        direct=True,
    )


def layers(run: Run) -> tuple[Roofline, ...]:
    """Every layer with multiply-adds under the measured roofs, a panel a network."""
    shown = (each for name, each in run.profiles.items() if name in (HEAVY, LIGHT))
    return tuple(map(_layer_panel, shown))


def _layer_panel(profile: Profile) -> Roofline:
    roof, drawn = profile.run.roof, []
    for part in profile.parts:
        found = [each for each in part.layers if each.load.flops and each.time]
        x = tuple(each.load.intensity for each in found)
        y = tuple(each.load.flops / each.time / GIGA for each in found)
        # One name a class, at its lowest point, where no roof and few marks are.
        name = part.name.removesuffix(" convolution") if len(found) > 1 else ""
        names = tuple(name * (rate == min(y)) for rate in y)
        drawn += [Points("", x, y, series=_CLASSES.get(part.name, 5), names=names)] * bool(found)
    lines = () if isinstance(roof, Missing) else (roof_line(roof, "", "measured", GIGA),)
    # Between the first cache and the last one there is no room for the names of others.
    caches = cache_lines(profile.run.cache_roofs(), GIGA)
    caches = (caches[0], caches[-1]) if len(caches) > 1 else caches
    network = profile.step.network
    return Roofline(_INTENSITY, "Rate (GFLOP/s)", lines, tuple(drawn), network, caches)
