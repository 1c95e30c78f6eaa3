"""The figures of training_roofline, described; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.roofline import Marks, Roofline, alike
from figures.scaling import Curve, Points, Scaling
from report.evidence.audit import Check
from report.evidence.remembered import known as known_number
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.plots import points
from report.paper.roofs import GIGA, TERA, cache_lines, marks, roof_line
from report.quantity.evaluation import point
from report.quantity.expression import exact
from report.studies.training_roofline.batches import fit, sweep
from report.studies.training_roofline.corrected import Corrected, collapsed, corrected
from report.studies.training_roofline.ladder import RUNGS, Rung, gain_over_base, ladder
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.memory import StepMemory, sweep_memory
from report.studies.training_roofline.profiled import Profile, main_profiles, profiles
from report.studies.training_roofline.source import CPU, RTX, T4
from report.studies.training_roofline.subject import NETWORKS
from report.studies.training_roofline.theory import Complexity, known_roof, own_sheet, printed_roof
from report.theory.roofline import DEPTHWISE, LINEAR, Roof, step_load

_INTENSITY: Final = "Arithmetic intensity (FLOP/B)"
_RATE: Final = "Achieved rate (GFLOP/s)"
_MEGA: Final = 1e6
#: The colour of a class in every figure.
_CLASS_SERIES: Final = {
    "7 × 7 convolution": 4,
    "3 × 3 convolution": 0,
    "1 × 1 convolution": 1,
    DEPTHWISE: 2,
    LINEAR: 3,
}
#: What may be called near a roof, in per cent of it.
_THRESHOLDS: Final = (20, 30, 40, 50, 60, 70, 80)
#: Characters of a title that fit over one of three panels.
_TITLE: Final = 26


def all_figures(
    inputs: Inputs,
    runs: Sequence[Run],
    shown: Sequence[Run],
    complexities: dict[str, Complexity],
    checks: Mapping[str, Sequence[Check]],
) -> Iterator[Figure]:
    """The figures that the data have; ``shown`` are the runs of which each has its own."""
    # More machines than the prose speaks of, and those whose memory policy is known, are cramped.
    side_by_side = tuple(run for run in runs if run in shown or run.policies)
    cases = corrected(inputs, complexities)
    source = alike(_source_panel(inputs, name, cases) for name in (RTX, T4, CPU))
    drawing = Drawing(source, wide=True, height=2.9)
    yield Figure("fig-source-roofline", "", "", drawing, (inputs.reported_file,))
    audited = _audit(checks)
    drawing = Drawing((audited,), height=audited.height)
    yield Figure("fig-audit", "", "", drawing, (inputs.reported_file,))
    yield from _side_by_side(inputs, side_by_side)
    for run in shown:
        if not run.timed(run.steps):
            continue
        for name, drawn in (
            ("layers", _layers(run)),
            ("threshold", _thresholds(run)),
            ("shares", _shares(run)),
            ("ladder", _ladder(run)),
            ("peak", _peaks(run)),
        ):
            if drawn is not None:
                yield Figure(f"fig-{name}-{run.key}", "", "", drawn, (run.file,))


# ------------------------------------------------------------------------------- the source


def _source_panel(inputs: Inputs, device: str, cases: Sequence[Corrected]) -> Roofline:
    """The source's points as it drew them, and where they belong; the best batch has a name."""
    roofs = [roof_line(printed_roof(inputs, device), "Printed roof", "printed", TERA)]
    known = known_roof(inputs, device)
    if isinstance(known, Roof):
        roofs.append(roof_line(known, "Data sheet, cores and clock", "sheet", TERA))
    drawn: list[Marks] = []
    for series, network in enumerate(NETWORKS):
        own = [c for c in cases if (c.device, c.network) == (device, network)]
        printed = [c.achieved for c in own if c.achieved]
        if printed:
            x = tuple(float(item.number_of("intensity").number) for item in printed)
            y = tuple(float(item.number_of("rate").number) for item in printed)
            drawn.append(Marks("", x, y, series=series, hollow=True))
        if own:
            x = tuple(case.load.intensity for case in own)
            y = tuple(known_number(point(case.rate)) / TERA for case in own)
            names = tuple(_name(case, cases, y_, max(y)) for case, y_ in zip(own, y, strict=True))
            drawn.append(Marks("", x, y, series=series, names=names))
    return Roofline(_INTENSITY, "Achieved rate (TFLOP/s)", tuple(roofs), tuple(drawn), device)


def _name(case: Corrected, cases: Sequence[Corrected], rate: float, best: float) -> str:
    if collapsed(case, cases):
        return "collapsed"
    return case.network if rate == best else ""


def _audit(checks: Mapping[str, Sequence[Check]]) -> Dots:
    """Every audited number over what its formula gives, a row a kind of number."""

    def of(differs: bool) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(c.factor for c in each if c.factor and (c.verdict == "differs") == differs)
            for each in checks.values()
        )

    return Dots(
        tuple(f"{kind} ({len(each)})" for kind, each in checks.items()),
        (
            DotSeries("follows", of(False), 0, hollow=True),
            DotSeries("does not follow", of(True), 1),
        ),
        "Printed ÷ recomputed",
        reference=1.0,
        log=True,
    )


# ------------------------------------------------------------------------------ steps of runs


def _side_by_side(inputs: Inputs, runs: Sequence[Run]) -> Iterator[Figure]:
    """Whole steps under each device's roofs, and images a second; a panel a run."""
    timed = [run for run in runs if any(run.timed(sweep(run, n)) for n in NETWORKS)]
    roofed = [run for run in timed if isinstance(run.roof(), Roof)]
    for id, drawn, panels, height in (
        ("fig-roofline", roofed, alike(_run_panel(inputs, run) for run in roofed), 2.9),
        ("fig-throughput", timed, [_throughput_panel(run) for run in timed], 2.6),
    ):
        if drawn:
            files = tuple(run.file for run in drawn)
            yield Figure(id, "", "", Drawing(tuple(panels), wide=True, height=height), files)


def _run_panel(inputs: Inputs, run: Run) -> Roofline:
    sheet, measured = own_sheet(inputs, run), run.roof()
    roofs = [
        roof_line(roof, label, look, GIGA)  # type: ignore[arg-type]
        for roof, label, look in (
            (measured, "Measured roof", "measured"),
            (sheet, "Data sheet", "sheet"),
        )
        if isinstance(roof, Roof)
    ]
    drawn: list[Marks] = []
    for series, network in enumerate(NETWORKS):
        over = {}
        for step in sweep(run, network):
            layers = run.layers(step.factors)
            if not isinstance(layers, Missing):
                intensity = exact("intensity", "FLOP/B", step_load(layers).intensity)
                over[step.batch] = (intensity, run.rate(step))
        drawn += marks(network, over, GIGA, series=series)
    caches = cache_lines(run.cache_roofs(), GIGA)
    return Roofline(_INTENSITY, _RATE, tuple(roofs), tuple(drawn), _short(run), caches)


def _short(run: Run) -> str:
    """A title that fits a panel: the device's label, or else its kind."""
    environment = run.stored.record.environment
    if environment.gpu or len(run.label) <= _TITLE:
        return run.label
    return f"CPU, {environment.threads} thread{'s' if environment.threads > 1 else ''}"


def _throughput_panel(run: Run) -> Scaling:
    """Images a second over the batch size with the fitted curves."""
    drawn: list[Points] = []
    curves: list[Curve] = []
    for series, network in enumerate(NETWORKS):
        steps = run.timed(sweep(run, network))
        found = points(
            network, {step.batch: run.images(step) for step in steps}, "image/s", series=series
        )
        drawn += found
        curve = fit(run, network)
        if found and not isinstance(curve, Missing):
            x = found[0].x
            line = [x[0] * (x[-1] / x[0]) ** (i / 40) for i in range(41)]
            xy = [(b, curve.rate(b)) for b in line if curve.line.at(b) > 0]
            xs, ys = zip(*xy, strict=True)
            curves.append(Curve("" if curves else "Fitted curve", xs, ys, "fit", series))
    return Scaling(
        "Batch size (images)",
        "Throughput (images/s)",
        tuple(drawn),
        tuple(curves),
        x_ticks=tuple(sorted({float(x) for each in drawn for x in each.x})),
        y_scale="linear",
        y_from_zero=True,
        title=_short(run),
    )


# -------------------------------------------------------------------------------------- layers


def _layers(run: Run) -> Drawing | None:
    """Every layer with multiply-adds under the measured roof, a panel a network."""
    found = [p for p in main_profiles(run) if isinstance(p.roof, Roof) and p.disturbed is None]
    panels = alike(map(_layer_panel, found))
    return Drawing(panels, wide=True, height=2.9) if panels else None


def _layer_panel(profile: Profile) -> Roofline:
    roof = profile.roof
    drawn = []
    for kind, items in profile.by_class().items():
        xy = [(item.load.intensity, item.rate / GIGA) for item in items if item.load.flops]
        if xy:
            x, y = zip(*xy, strict=True)
            label, series = kind.removesuffix(" convolution"), _CLASS_SERIES.get(kind, 5)
            drawn.append(Marks(label, x, y, series=series))
    lines = (roof_line(roof, "Measured roof", "measured", GIGA),) if isinstance(roof, Roof) else ()
    caches = cache_lines(profile.run.cache_roofs(), GIGA)
    return Roofline(_INTENSITY, _RATE, lines, tuple(drawn), profile.step.network, caches)


def _thresholds(run: Run) -> Drawing | None:
    """The share of the layers' time near a roof, over what is called near."""
    found = [p for p in main_profiles(run) if isinstance(p.roof, Roof) and p.disturbed is None]
    drawn = [
        each
        for p in found
        for each in points(
            p.step.network,
            {percent: p.near_share(percent / 100) for percent in _THRESHOLDS},
            "%",
            series=NETWORKS.index(p.step.network),
            joined=True,
        )
    ]
    panel = Scaling(
        "Least share of a roof that is called near (%)",
        "Layers' time near a roof (%)",
        tuple(drawn),
        x_ticks=tuple(map(float, _THRESHOLDS)),
        x_scale="linear",
        y_scale="linear",
        y_from_zero=True,
        direct=True,
    )
    return Drawing((panel,), height=2.3) if drawn else None


def _shares(run: Run) -> Drawing | None:
    """Where the layers' time goes, a bar a watched step."""
    found = [profile for profile in profiles(run) if profile.disturbed is None]
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
    return Drawing((chart,), wide=True, height=chart.height)


# ------------------------------------------------------------------------------ ladder, memory


def _ladder(run: Run) -> Drawing | None:
    """Images a second of every rung over the base, a series a network."""
    climbed = {n: rungs for n in NETWORKS if (rungs := ladder(run, n))}
    if not climbed:
        return None
    names = [name for name, _ in RUNGS if any(r.name == name for c in climbed.values() for r in c)]
    series = []
    for network, rungs in climbed.items():
        by_name = {rung.name: rung for rung in rungs}
        gains = (
            _gain(run, network, by_name[name], rungs[0]) if name in by_name else None
            for name in names
        )
        series.append(DotSeries(network, tuple(gains), NETWORKS.index(network)))
    drawn = Dots(tuple(names), tuple(series), "Images a second over float32", reference=1.0)
    return Drawing((drawn,), height=max(drawn.height, 1.8))


def _gain(run: Run, network: str, rung: Rung, first: Rung) -> float | None:
    if rung == first:
        return 1.0
    found = point(gain_over_base(run, network, rung))
    return None if isinstance(found, Missing) else found


def _peaks(run: Run) -> Drawing | None:
    """The peak of the largest batch of each network as a sum of categories."""
    largest: dict[str, tuple[StepMemory, int]] = {}
    for item in sweep_memory(run):
        if not isinstance(item.beyond, Missing):
            largest[item.step.network] = (item, item.beyond)
    if not largest:
        return None
    items = tuple(largest.values())
    parts = {
        "Parameters": [m.theory.parameters for m, _ in items],
        "Momentum": [m.theory.momentum for m, _ in items],
        "Images, statistics": [m.theory.batch + m.theory.statistics for m, _ in items],
        "Kept for backward": [m.theory.kept for m, _ in items],
        "Beyond theory": [beyond for _, beyond in items],
    }
    chart = Bars(
        tuple(f"{m.step.network}, batch {m.step.batch}" for m, _ in items),
        tuple(
            BarSeries(name, tuple(amount / _MEGA for amount in amounts), series=number)
            for number, (name, amounts) in enumerate(parts.items())
        ),
        "Memory at the peak of a step (MB)",
        stacked=True,
    )
    return Drawing((chart,), wide=True, height=chart.height)
