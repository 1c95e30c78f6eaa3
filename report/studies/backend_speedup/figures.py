"""The figures of backend_speedup over operations and sizes; ``figures/`` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity
from report.statistics.estimates import Estimate
from report.studies.backend_speedup.crossovers import Factor
from report.studies.backend_speedup.decomposed import iteration_bound
from report.studies.backend_speedup.measured import (
    NUMPY,
    VARIANTS,
    Run,
    Variant,
)
from report.studies.backend_speedup.source import SIDES, number
from report.studies.backend_speedup.subject import HIDDEN, KIND_NAMES, Kind, Setting, kinds

_MILLI: Final = 1e3
_FEWEST_JOINED: Final = 3
_FACTOR_LABELS: Final[dict[Factor, str]] = {
    "hidden": "Neurons of the hidden layer",
    "samples": "Images",
}


def _series(variant: Variant) -> int:
    return VARIANTS.index(variant)


# --------------------------------------------------------------------------------- operations


def operations(inputs: Inputs, run: Run | None) -> Figure:
    """Time of an iteration by kind of operation: own libraries (left) and the source's (right)."""
    own = _own_operations(run) if run else None
    panels = (*((own,) if own else ()), _source_operations(inputs))
    return Figure(
        "fig-operations",
        "Time of one iteration by kind of operation, one after another. "
        + ("Left: this study. Right: the source, with more images." if own else "The source."),
        " ".join(_told(panel) for panel in panels),
        Drawing(panels, wide=True, height=max(panel.height for panel in panels)),
        (inputs.reported_file, *((run.file,) if run and own else ())),
    )


def _own_operations(run: Run) -> Bars | None:
    setting, shown = _timed(run)
    if setting is None or not shown:
        return None
    series = []
    for index, kind in enumerate(kinds(setting.network)):
        found = [run.operation(kind, setting, variant) for variant in shown]
        series.append(BarSeries(KIND_NAMES[kind], tuple(map(_milli, found)), series=index))
    return Bars(tuple(variant.name for variant in shown), tuple(series), "Time (ms)", stacked=True)


def _timed(run: Run) -> tuple[Setting | None, tuple[Variant, ...]]:
    """The training and the libraries whose operations were timed in it."""
    setting = run.training()
    found = run.variants(setting, "matrix_product_time")
    return setting, tuple(variant for variant in found if variant.eager)


def _milli(time: Quantity) -> float | None:
    found = point(time)
    return None if isinstance(found, Missing) else found * _MILLI


def _source_operations(inputs: Inputs) -> Bars:
    series = [
        BarSeries(
            KIND_NAMES[kind],
            tuple(float(number(inputs.reported, "4", kind, side)) for side in SIDES),
            series=_PLACES[kind],
        )
        for kind in _SOURCE_KINDS
    ]
    return Bars(("Source, NumPy", "Source, CuPy"), tuple(series), "Time (ms)", stacked=True)


#: The operations of the source's Table 4, and their colours among all kinds of the perceptron.
_SOURCE_KINDS: Final[tuple[Kind, ...]] = ("matrix_product", "relu", "softmax", "gradient")
_PLACES: Final = {kind: place for place, kind in enumerate(kinds("perceptron"))}


def operation_speedups(inputs: Inputs, run: Run | None) -> Figure:
    """Speed-up of each kind of operation over NumPy, own with intervals, and the source's."""
    own = _own_speedups(run) if run else None
    source = Bars(
        tuple(KIND_NAMES[kind] for kind in _SOURCE_KINDS),
        (
            BarSeries(
                "Source, CuPy",
                tuple(float(number(inputs.reported, "4", k, "speedup")) for k in _SOURCE_KINDS),
                (None,) * len(_SOURCE_KINDS),
                (None,) * len(_SOURCE_KINDS),
                series=len(VARIANTS) - 1,
            ),
        ),
        "Speed-up over NumPy",
        reference=1.0,
        title="Source, CuPy",
    )
    panels = (*((own,) if own else ()), source)
    return Figure(
        "fig-operation-speedups",
        "Speed-up over NumPy of each kind of operation. "
        + ("Left: this study, with intervals. Right: the source. " if own else "The source. ")
        + "The broken line is as fast as NumPy.",
        " ".join(_told(panel) for panel in panels),
        Drawing(panels, wide=True, height=max(panel.height for panel in panels)),
        (inputs.reported_file, *((run.file,) if run and own else ())),
    )


def _own_speedups(run: Run) -> Bars | None:
    setting, shown = _timed(run)
    others = [variant for variant in shown if variant != NUMPY]
    if setting is None or not others:
        return None
    every = kinds(setting.network)
    return Bars(
        tuple(KIND_NAMES[kind] for kind in every),
        tuple(_speedup_bars(run, setting, every, variant) for variant in others),
        "Speed-up over NumPy",
        reference=1.0,
    )


def _speedup_bars(run: Run, setting: Setting, every: Sequence[Kind], variant: Variant) -> BarSeries:
    found = [estimate(run.speedup(f"{kind}_time", setting, variant)) for kind in every]
    return BarSeries(
        variant.name,
        tuple(r.value if isinstance(r, Estimate) else None for r in found),
        tuple(r.low if isinstance(r, Estimate) else None for r in found),
        tuple(r.high if isinstance(r, Estimate) else None for r in found),
        series=_series(variant),
    )


def _told(bars: Bars) -> str:
    parts = []
    for row, name in enumerate(bars.names):
        cells = [f"{s.label} {x:.3g}" for s in bars.series if (x := s.x[row]) is not None]
        parts.append(f"{name}: {', '.join(cells) or 'not measured'}")
    return f"Bars, {bars.x_label}. {'; '.join(parts)}."


# ------------------------------------------------------------------------------------ scaling


def widths(run: Run) -> Figure:
    """Time and speed-up over the width of the hidden layer."""
    settings = run.widths()
    what = "the width of the hidden layer"
    return _scaling_figure(run, settings, "hidden", ("fig-widths", what), (("", settings),))


def sizes(run: Run) -> Figure:
    """Time and speed-up over the number of images, at the smallest width and at a larger one."""
    settings = run.sizes()
    wide = max((s.hidden for s in run.sizes_of_all_widths()), default=HIDDEN)
    sweeps = [(f"Width {HIDDEN}", settings)]
    if wide != HIDDEN:
        sweeps.append((f"Width {wide}", run.sizes(hidden=wide)))
    what = "the number of images"
    return _scaling_figure(run, settings, "samples", ("fig-sizes", what), tuple(sweeps))


def _scaling_figure(
    run: Run,
    settings: Sequence[Setting],
    factor: Factor,
    id_and_what: tuple[str, str],
    sweeps: tuple[tuple[str, Sequence[Setting]], ...],
) -> Figure:
    """Times of ``settings`` in the first panel, a panel of speed-ups over NumPy for each sweep."""
    id, what = id_and_what
    levels = tuple(float(getattr(s, factor)) for s in settings)
    times = tuple(_times(run, settings, factor, v) for v in _all_variants(run, settings))
    ratios = [_speedup_panel(run, some, factor, title) for title, some in sweeps]
    bounds = _bounds(run, settings, levels)
    first = Scaling(
        _FACTOR_LABELS[factor],
        "Time of an iteration (ms)",
        times,
        bounds,
        x_ticks=_ticks(levels),
        title=sweeps[0][0],
    )
    return Figure(
        id,
        f"Time of an iteration and speed-up over NumPy over {what}, on {run.label}. "
        + (
            "The broken line of the first panel is the least time at the rates of the processor, "
            "that of the others is as fast as NumPy."
            if bounds
            else "A broken line is as fast as NumPy."
        ),
        _scaling_told(times, [points for panel in ratios for points in panel.points]),
        Drawing((first, *ratios), wide=True, height=2.9),
        (run.file,),
    )


def _ticks(levels: tuple[float, ...]) -> tuple[float, ...]:
    """Levels that are at least a factor of two apart, so that their numbers are."""
    kept: list[float] = []
    for level in levels:
        if not kept or level >= 2 * kept[-1]:
            kept.append(level)
    return tuple(kept)


def _speedup_panel(run: Run, settings: Sequence[Setting], factor: Factor, title: str) -> Scaling:
    levels = tuple(float(getattr(s, factor)) for s in settings)
    drawn = [_ratios(run, settings, factor, v) for v in _all_variants(run, settings) if v != NUMPY]
    points = tuple(one for one in drawn if one.x)
    return Scaling(
        _FACTOR_LABELS[factor],
        "Speed-up over NumPy",
        points,
        (Curve("NumPy", levels, (1.0,) * len(levels)),) if points else (),
        x_ticks=_ticks(levels),
        title=title,
    )


def _all_variants(run: Run, settings: Sequence[Setting]) -> tuple[Variant, ...]:
    found = {variant for setting in settings for variant in run.variants(setting)}
    return tuple(variant for variant in VARIANTS if variant in found)


def _times(run: Run, settings: Sequence[Setting], factor: Factor, variant: Variant) -> Points:
    found = [(getattr(s, factor), estimate(run.time(s, variant))) for s in settings]
    return _points(variant.name, found, variant, _MILLI)


def _ratios(run: Run, settings: Sequence[Setting], factor: Factor, variant: Variant) -> Points:
    found = [(getattr(s, factor), estimate(run.speedup("time", s, variant))) for s in settings]
    return _points(variant.name, found, variant, 1.0)


def _points(
    label: str,
    found: Sequence[tuple[int, Estimate | Missing]],
    variant: Variant,
    scale: float,
) -> Points:
    known = [(level, e) for level, e in found if isinstance(e, Estimate)]
    # A line between two points would look like a course that was measured.
    return Points(
        label,
        tuple(float(level) for level, _ in known),
        tuple(scale * e.value for _, e in known),
        tuple(scale * e.low for _, e in known),
        tuple(scale * e.high for _, e in known),
        series=_series(variant),
        joined=len(known) >= _FEWEST_JOINED,
    )


def _bounds(run: Run, settings: Sequence[Setting], levels: tuple[float, ...]) -> tuple[Curve, ...]:
    bounds = [iteration_bound(run, setting, NUMPY) for setting in settings]
    known = tuple(b * _MILLI for b in bounds if not isinstance(b, Missing))
    return (Curve("Least time", levels, known),) if known and len(known) == len(levels) else ()


def _scaling_told(times: Sequence[Points], ratios: Sequence[Points]) -> str:
    if not times:
        return "Nothing was measured."
    parts = [
        f"{p.label}: {p.y[0]:.3g} ms at {p.x[0]:,.0f}, {p.y[-1]:.3g} ms at {p.x[-1]:,.0f}"
        for p in times
    ]
    parts += [f"speed-up with {p.label} from {p.y[0]:.3g} to {p.y[-1]:.3g}" for p in ratios]
    return f"Axes are logarithmic. {'; '.join(parts)}."
