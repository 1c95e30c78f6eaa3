"""The figures of training_roofline, described; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.roofline import Marks, Roofline, alike
from report.evidence.audit import Check
from report.evidence.remembered import known as known_number
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.roofs import GIGA, TERA, cache_lines, roof_line
from report.quantity.evaluation import point
from report.studies.training_roofline.corrected import Corrected, collapsed, corrected
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.profiled import THRESHOLDS, Profile, main_profiles
from report.studies.training_roofline.source import CPU, RTX, T4
from report.studies.training_roofline.subject import NETWORKS
from report.studies.training_roofline.theory import Complexity, known_roof, printed_roof
from report.theory.roofline import DEPTHWISE, LINEAR, Roof

_INTENSITY: Final = "Arithmetic intensity (FLOP/B)"
_RATE: Final = "Achieved rate (GFLOP/s)"
#: The colour of a class in every figure.
_CLASS_SERIES: Final = {
    "7 × 7 convolution": 4,
    "3 × 3 convolution": 0,
    "1 × 1 convolution": 1,
    DEPTHWISE: 2,
    LINEAR: 3,
}


def all_figures(
    inputs: Inputs,
    primary: Run | None,
    complexities: dict[str, Complexity],
    checks: Mapping[str, Sequence[Check]],
) -> Iterator[Figure]:
    """The figures that the data have; those of layers are of the run that the prose speaks of."""
    cases = corrected(inputs, complexities)
    source = alike(_source_panel(inputs, name, cases) for name in (RTX, T4, CPU))
    drawing = Drawing(source, wide=True, height=3.1)
    yield Figure("fig-source-roofline", "", "", drawing, (inputs.reported_file,))
    audited = _audit(checks)
    drawing = Drawing((audited,), height=audited.height)
    yield Figure("fig-audit", "", "", drawing, (inputs.reported_file,))
    for name, draw in (("layers", _layers), ("steps", _steps)):
        if primary is not None and (drawn := draw(primary)) is not None:
            yield Figure(f"fig-{name}-{primary.key}", "", "", drawn, (primary.file,))


# ------------------------------------------------------------------------------- the source


def _source_panel(inputs: Inputs, device: str, cases: Sequence[Corrected]) -> Roofline:
    """The source's points as it drew them, and where they belong; the best batch has a name."""
    # The legend of the first panel is that of all.
    labels = ("As printed", "Known") if device == RTX else ("", "")
    roofs = [roof_line(printed_roof(inputs, device), labels[0], "printed", TERA)]
    known = known_roof(inputs, device)
    if isinstance(known, Roof):
        roofs.append(roof_line(known, labels[1], "sheet", TERA))
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


def _steps(run: Run) -> Drawing | None:
    """The share of the layers' time near each ceiling, a dot a step."""
    panel = steps_panel(main_profiles(run), THRESHOLDS)
    return Drawing((panel,), height=panel.height) if panel else None


def steps_panel(profiles: Sequence[Profile], thresholds: Sequence[float]) -> Dots | None:
    """The share of the layers' time near each ceiling or neither in every step, by threshold."""
    rows = [(p, least) for p in profiles for least in thresholds if not _missing(p)]
    if not rows:
        return None

    def of(side: str) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(
                100 * share
                for process in p.side_share(side, least).leaves[0].processes  # type: ignore
                for share in process.samples
            )
            for p, least in rows
        )

    return Dots(
        tuple(f"{p.step.network}, {least:.0%}" for p, least in rows),
        (
            DotSeries("arithmetic", of("arithmetic"), 0),
            DotSeries("memory", of("traffic"), 1),
            DotSeries("neither", of("neither"), 2, hollow=True),
        ),
        "Share of the layers' time (%)",
    )


def _missing(profile: Profile) -> bool:
    return isinstance(point(profile.side_share("neither")), Missing)
