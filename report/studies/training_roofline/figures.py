"""The figures of training_roofline, described; ``figures/`` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.roofline import Marks, Roofline
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.roofs import GIGA, TERA, cache_lines, describe_caches, roof_line
from report.quantity.evaluation import estimate, point
from report.statistics.estimates import Estimate
from report.studies.training_roofline.batches import fit, sweep
from report.studies.training_roofline.corrected import Corrected, corrected
from report.studies.training_roofline.ladder import RUNGS, Rung, gain_over_base, ladder
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.profiled import DISTURBED, Profile, main_profiles, profiles
from report.studies.training_roofline.source import RTX, T4, row
from report.studies.training_roofline.subject import NETWORKS
from report.studies.training_roofline.theory import (
    Complexity,
    known_roof,
    own_sheet,
    printed_roof,
)
from report.text.format import NO_BREAK
from report.theory.roofline import DEPTHWISE, LINEAR, Roof, step_load

_INTENSITY: Final = "Arithmetic intensity (FLOP/B)"
#: The colour of a class in every figure.
CLASS_SERIES: Final = {
    "7 × 7 convolution": 4,
    "3 × 3 convolution": 0,
    "1 × 1 convolution": 1,
    DEPTHWISE: 2,
    LINEAR: 3,
}


# ------------------------------------------------------------------------------- the source


def source_roofline(inputs: Inputs, found: dict[str, Complexity]) -> Figure:
    """The source's points as it drew them, and where they belong; a panel a GPU."""
    cases = corrected(inputs, found)
    panels = tuple(_source_panel(inputs, name, cases, found) for name in (RTX, T4))
    told = "; ".join(
        f"{c.device}, {c.network}, batch {c.batch}: {c.printed_rate / TERA:.2g} printed, "
        f"{c.rate / TERA:.3g} TFLOP/s corrected"
        for c in cases
    )
    return Figure(
        "fig-source-roofline",
        "The source's cases under the roofs of both GPUs: as printed (hollow, dotted roof), and "
        "computed again (filled) from images a second, work by shapes and traffic layer by layer, "
        "under the roof of the data sheet or of cores and clock (dashed).",
        f"Two log-log rooflines. {told}.",
        Drawing(panels, wide=True, height=2.9),
        sources=(inputs.reported_file,),
    )


def _source_panel(
    inputs: Inputs, device: str, cases: Sequence[Corrected], found: dict[str, Complexity]
) -> Roofline:
    known = known_roof(inputs, device)
    roofs = [roof_line(printed_roof(inputs, device), "Printed roof", "printed", TERA)]
    if isinstance(known, Roof):
        roofs.append(roof_line(known, "Known roof", "sheet", TERA))
    marks: list[Marks] = []
    for network in NETWORKS:
        own = [c for c in cases if (c.device, c.network) == (device, network)]
        if not own:
            continue
        series = NETWORKS.index(network)
        printed = [_printed_intensity(inputs, case) for case in own]
        rates = tuple(case.printed_rate / TERA for case in own)
        marks.append(Marks(f"{network}, printed", tuple(printed), rates, (), (), series, True))
        x = tuple(found[network].layerwise(case.batch).intensity for case in own)
        y = tuple(case.rate / TERA for case in own)
        marks.append(Marks(f"{network}, corrected", x, y, series=series))
    return Roofline(_INTENSITY, "Achieved rate (TFLOP/s)", tuple(roofs), tuple(marks), device)


def _printed_intensity(inputs: Inputs, case: Corrected) -> float:
    item = row(
        inputs.reported,
        "achieved",
        environment=case.device,
        network=case.network,
        batch=case.batch,
    )
    return float(item.number_of("intensity").number) if item else 1.0


# --------------------------------------------------------------------------------- our runs


def run_roofline(inputs: Inputs, runs: Sequence[Run]) -> Figure | None:
    """Whole steps over the batch sizes under each device's roofs, a panel a run."""
    drawn = [run for run in runs if isinstance(run.roof(), Roof) and run.timed(run.steps)]
    if not drawn:
        return None
    panels = tuple(_run_panel(inputs, run) for run in drawn)
    told = "; ".join(
        f"{run.label}: ridge at {roof.ridge.value:.3g} FLOP/B{describe_caches(run.cache_roofs())}"
        for run in drawn
        if isinstance(roof := run.roof(), Roof)
    )
    return Figure(
        "fig-roofline",
        "Training steps in float32 under the measured roof (line; band: its interval) and, where "
        "it is known, that of the data sheet (dashed): a point a network and batch size, with "
        "the intervals of all processes. Intensity is that of the least traffic, layer by layer."
        + _moved(drawn)
        + _alone(drawn),
        f"Log-log rooflines, one a device. {told}.",
        Drawing(panels, wide=True, height=2.9),
        sources=tuple(run.file for run in drawn),
    )


def _moved(runs: Sequence[Run]) -> str:
    """What a caption says of roofs whose slope is not sure."""
    moved, unknown = (
        ", ".join(_short(run) for run in runs if run.copy_state() == state)
        for state in ("moved", "unknown")
    )
    told = f" The slope is that of the better copy; the copy moved ({moved})." if moved else ""
    if unknown:
        told += f" The copy was measured at one end of the run only ({unknown})."
    return told


def _alone(runs: Sequence[Run]) -> str:
    """What a caption says of intervals that are those of one process's steps."""
    names = ", ".join(
        _short(run)
        for run in runs
        if any(run.processes(step) == 1 for n in NETWORKS for step in run.timed(sweep(run, n)))
    )
    return f" Where one process was measured, the interval is that of its steps ({names})." * bool(
        names
    )


def _run_panel(inputs: Inputs, run: Run) -> Roofline:
    roofs, sheet, measured = [], own_sheet(inputs, run), run.roof()
    if isinstance(measured, Roof):
        roofs.append(roof_line(measured, "Measured roof", "measured", GIGA))
    if isinstance(sheet, Roof):
        roofs.append(roof_line(sheet, "Data sheet", "sheet", GIGA))
    marks = []
    for number, network in enumerate(NETWORKS):
        points = []
        for step in sweep(run, network):
            layers, rate = run.layers(step.factors), estimate(run.rate(step))
            if not isinstance(layers, Missing) and not isinstance(rate, Missing):
                points.append((step_load(layers).intensity, rate))
        if points:
            marks.append(_marks(network, points, number))
    return Roofline(
        _INTENSITY,
        "Achieved rate (GFLOP/s)",
        tuple(roofs),
        tuple(marks),
        _short(run),
        cache_lines(run.cache_roofs(), GIGA) if isinstance(measured, Roof) else (),
    )


def _marks(label: str, points: Sequence[tuple[float, Estimate]], series: int) -> Marks:
    return Marks(
        label,
        tuple(x for x, _ in points),
        tuple(rate.value / GIGA for _, rate in points),
        tuple(rate.low / GIGA for _, rate in points),
        tuple(rate.high / GIGA for _, rate in points),
        series,
    )


#: Characters of a title that fit over one of three panels.
_TITLE: Final = 26


def _short(run: Run) -> str:
    """A title that fits a panel: the device's label, or else its kind."""
    environment = run.stored.record.environment
    if environment.gpu or len(run.label) <= _TITLE:
        return run.label
    return f"CPU, {environment.threads} thread{'s' if environment.threads > 1 else ''}"


def layer_roofline(run: Run) -> Figure | None:
    """Every layer with multiply-adds under the measured roof, a panel a network."""
    found = [p for p in main_profiles(run) if isinstance(p.roof, Roof) and p.disturbed is None]
    if not found:
        return None
    counts = ", ".join(
        f"{p.step.network}: {sum(item.load.flops > 0 for item in p.layers)} layers" for p in found
    )
    first = found[0].step
    above = sum(len(p.above_peak()) for p in found)
    return Figure(
        f"fig-layers-{run.key}",
        f"Every layer with multiply-adds in a training step on {run.label} (float32, batch "
        f"{first.batch}, images of {first.image} pixels), forward and backward together, by its "
        "operator class, under the measured roof." + _above(above) + _moved((run,)),
        f"Log-log rooflines, one a network, a point a layer. {counts}"
        f"{describe_caches(run.cache_roofs())}.",
        Drawing(tuple(_layer_panel(p) for p in found), wide=True, height=2.9),
        sources=(run.file,),
    )


def _above(layers: int) -> str:
    """What a caption says of layers that lie above the flat roof."""
    if not layers:
        return ""
    lie = "1 layer lies" if layers == 1 else f"{layers} layers lie"
    return (
        f" {lie} above it: a rate is the work of direct convolution over time, and no rate of "
        "executed work."
    )


def _layer_panel(profile: Profile) -> Roofline:
    roof = profile.roof
    marks = []
    for kind, items in profile.by_class().items():
        points = [(item.load.intensity, item.rate) for item in items if item.load.flops]
        if points:
            x = tuple(intensity for intensity, _ in points)
            y = tuple(rate / GIGA for _, rate in points)
            marks.append(Marks(_label(kind), x, y, series=CLASS_SERIES.get(kind, 5)))
    lines = (roof_line(roof, "Measured roof", "measured", GIGA),) if isinstance(roof, Roof) else ()
    return Roofline(
        _INTENSITY,
        "Achieved rate (GFLOP/s)",
        lines,
        tuple(marks),
        profile.step.network,
        cache_lines(profile.run.cache_roofs(), GIGA),
    )


def _label(kind: str) -> str:
    """A class as the legend has it."""
    return kind.removesuffix(" convolution")


def time_shares(run: Run) -> Figure | None:
    """Where the layers' time goes, a bar a watched step."""
    every = profiles(run)
    found = [profile for profile in every if profile.disturbed is None]
    if not found:
        return None
    shares = [profile.drawn_shares() for profile in found]
    chart = Bars(
        tuple(f"{p.step.network}, {p.step.setting}" for p in found),
        tuple(
            BarSeries(kind, tuple(100 * share[kind] for share in shares), series=number)
            for number, kind in enumerate(shares[0])
            if any(share[kind] for share in shares)
        ),
        "Share of the layers' time (%)",
        stacked=True,
    )
    told = "; ".join(
        f"{p.step.network}, {p.step.setting}: "
        + ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in s.items() if share >= 0.01)
        for p, s in zip(found, shares, strict=True)
    )
    return Figure(
        f"fig-shares-{run.key}",
        f"Time share of the operator classes in a training step on {run.label}, forward and "
        "backward, of the time inside layers." + _left_out(every),
        f"Stacked bars. {told}.",
        Drawing((chart,), wide=True, height=chart.height),
        sources=(run.file,),
    )


def _left_out(every: Sequence[Profile]) -> str:
    """What a caption says of watched steps that are not drawn."""
    names = ", ".join(f"{p.step.network}, {p.step.setting}" for p in every if p.disturbed)
    slow = f"{100 * (DISTURBED - 1):.0f}{NO_BREAK}%"
    return f" Left out, since watching slows it by more than {slow}: {names}." * bool(names)


def throughput(runs: Sequence[Run]) -> Figure | None:
    """Images a second over the batch size with the fitted curves, a panel a run."""
    drawn = [run for run in runs if any(run.timed(sweep(run, n)) for n in NETWORKS)]
    if not drawn:
        return None
    spans = []
    for run in drawn:
        for network in NETWORKS:
            if steps := run.timed(sweep(run, network)):
                ends = [point(run.images(step)) for step in (steps[0], steps[-1])]
                spans.append(
                    f"{network} on {run.label}: {ends[0]:.3g} images/s at batch {steps[0].batch}, "
                    f"{ends[1]:.3g} at batch {steps[-1].batch}"
                )
    return Figure(
        "fig-throughput",
        "Images a second over the batch size, with intervals that hold the medians of all "
        "processes, and the fitted saturation curve (dotted)." + _alone(drawn),
        "Throughput over batch size, a panel a device. " + "; ".join(spans) + ".",
        Drawing(tuple(_throughput_panel(run) for run in drawn), wide=True, height=2.6),
        sources=tuple(run.file for run in drawn),
    )


def _throughput_panel(run: Run) -> Scaling:
    points: list[Points] = []
    curves: list[Curve] = []
    ticks: set[float] = set()
    for number, network in enumerate(NETWORKS):
        steps = run.timed(sweep(run, network))
        rates = [r for step in steps if not isinstance(r := estimate(run.images(step)), Missing)]
        if not rates:
            continue
        x = tuple(float(step.batch) for step in steps)
        ticks |= set(x)
        points.append(
            Points(
                network,
                x,
                tuple(rate.value for rate in rates),
                tuple(rate.low for rate in rates),
                tuple(rate.high for rate in rates),
                series=number,
            )
        )
        curve = fit(run, network)
        if not isinstance(curve, Missing):
            line = [x[0] * (x[-1] / x[0]) ** (i / 40) for i in range(41)]
            drawn = [(b, curve.rate(b)) for b in line if curve.line.at(b) > 0]
            xs, ys = zip(*drawn, strict=True)
            curves.append(Curve("" if curves else "Fitted curve", xs, ys, "fit", number))
    return Scaling(
        "Batch size (images)",
        "Throughput (images/s)",
        tuple(points),
        tuple(curves),
        x_ticks=tuple(sorted(ticks)),
        y_scale="linear",
        y_from_zero=True,
        title=_short(run),
    )


def ladder_figure(run: Run) -> Figure | None:
    """Images a second of every rung over the base, a series a network."""
    climbed = {n: rungs for n in NETWORKS if (rungs := ladder(run, n))}
    if not climbed:
        return None
    names = [name for name, _ in RUNGS if any(r.name == name for c in climbed.values() for r in c)]
    series = []
    for network, rungs in climbed.items():
        by_name = {rung.name: rung for rung in rungs}
        gains = [
            _gain(run, network, by_name[name], rungs[0]) if name in by_name else None
            for name in names
        ]
        series.append(DotSeries(network, tuple(gains), NETWORKS.index(network)))
    drawn = Dots(tuple(names), tuple(series), "Images a second over float32", reference=1.0)
    best = "; ".join(
        f"{s.label} up to {max(x for x in s.x if x is not None):.3g} times" for s in series
    )
    return Figure(
        f"fig-ladder-{run.key}",
        f"The ladder of optimisations on {run.label}: images a second over the base, medians, each "
        "rung with all changes above it; their intervals stand in the table.",
        f"Dot plot. {best}.",
        Drawing((drawn,), height=max(drawn.height, 1.8)),
        sources=(run.file,),
    )


def _gain(run: Run, network: str, rung: Rung, first: Rung) -> float | None:
    if rung == first:
        return 1.0
    found = point(gain_over_base(run, network, rung))
    return None if isinstance(found, Missing) else found
