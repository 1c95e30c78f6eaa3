"""The figures of backend_speedup over operations and sizes; ``figures/`` draws them."""

from __future__ import annotations

from collections.abc import Sequence

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper import Figure, Inputs
from report.statistics import Estimate
from report.studies.backend_speedup.crossovers import Factor
from report.studies.backend_speedup.decomposed import iteration_bound
from report.studies.backend_speedup.measured import NUMPY, VARIANTS, Run, Variant
from report.studies.backend_speedup.source import OPERATION_ROWS, SIDES, number
from report.studies.backend_speedup.subject import HIDDEN, KIND_NAMES, Kind, Setting, kinds

_MILLI, _MICRO = 1e3, 1e6
_FACTOR_LABELS: dict[Factor, str] = {
    "hidden": "Neurons of the hidden layer",
    "samples": "Images",
}


def _series(variant: Variant) -> int:
    return VARIANTS.index(variant)


# --------------------------------------------------------------------------------- operations


def operations(inputs: Inputs, run: Run | None) -> Figure:
    """Time of each kind of operation: own libraries (left) and the source's two (right)."""
    own = _own_operations(run) if run else None
    panels = (*((own,) if own else ()), _source_operations(inputs))
    return Figure(
        "fig-operations",
        "Time of the operations of one iteration, by kind. "
        + ("Left: this study, with intervals. Right: " if own else "The ")
        + "source's CPU and GPU, with more images.",
        " ".join(_told(panel) for panel in panels),
        Drawing(panels, wide=True, height=max(panel.height for panel in panels)),
        (inputs.reported_file, *((run.file,) if run and own else ())),
    )


def _own_operations(run: Run) -> Bars | None:
    setting = run.training()
    shown = [v for v in run.variants(setting, "matrix_product_time") if v.eager]
    if setting is None or not shown:
        return None
    every = kinds(setting.network)
    return Bars(
        tuple(KIND_NAMES[kind] for kind in every),
        tuple(_operation_bars(run, setting, every, variant) for variant in shown),
        "Time (µs)",
        x_scale="log",
    )


def _operation_bars(
    run: Run, setting: Setting, every: Sequence[Kind], variant: Variant
) -> BarSeries:
    times = [run.operation(kind, setting, variant) for kind in every]
    return BarSeries(
        variant.name,
        tuple(t.value * _MICRO if isinstance(t, Estimate) else None for t in times),
        tuple(t.low * _MICRO if isinstance(t, Estimate) else None for t in times),
        tuple(t.high * _MICRO if isinstance(t, Estimate) else None for t in times),
        series=_series(variant),
    )


def _source_operations(inputs: Inputs) -> Bars:
    names = {"matrix_product": "Matrix products", "relu": "ReLU", "softmax": "Softmax"}
    rows = tuple(OPERATION_ROWS)
    return Bars(
        tuple(names.get(row, "Gradients") for row in rows),
        tuple(
            BarSeries(
                label,
                tuple(float(number(inputs.reported, "4", row, side)) for row in rows),
                (None,) * len(rows),
                (None,) * len(rows),
                series=index,
            )
            for side, label, index in (
                (SIDES[0], "Source, NumPy", 0),
                (SIDES[1], "Source, CuPy", len(VARIANTS) - 1),
            )
        ),
        "Time (ms)",
        x_scale="log",
    )


def _told(bars: Bars) -> str:
    parts = []
    for row, name in enumerate(bars.names):
        cells = [f"{s.label} {x:.3g}" for s in bars.series if (x := s.x[row]) is not None]
        parts.append(f"{name}: {', '.join(cells) or 'not measured'}")
    return f"Bars, {bars.x_label}. {'; '.join(parts)}."


# ------------------------------------------------------------------------------------ scaling


def widths(run: Run | None) -> Figure:
    """Time and speed-up over the width of the hidden layer."""
    settings = run.widths() if run else ()
    return _scaling_figure(
        run, settings, "hidden", "fig-widths", "the width of the hidden layer",
        (("", settings),),
    )  # fmt: skip


def sizes(run: Run | None) -> Figure:
    """Time and speed-up over the number of images, at the smallest width and at a larger one."""
    settings = run.sizes() if run else ()
    wide = max((s.hidden for s in run.sizes_of_all_widths()), default=HIDDEN) if run else HIDDEN
    sweeps = [(f"width {HIDDEN}", settings)]
    if run and wide != HIDDEN:
        sweeps.append((f"width {wide}", run.sizes(hidden=wide)))
    return _scaling_figure(
        run, settings, "samples", "fig-sizes", "the number of images", tuple(sweeps)
    )


def _scaling_figure(
    run: Run | None,
    settings: Sequence[Setting],
    factor: Factor,
    id: str,
    what: str,
    sweeps: tuple[tuple[str, Sequence[Setting]], ...],
) -> Figure:
    """Times of ``settings`` on the left, speed-ups over NumPy of all ``sweeps`` on the right."""
    levels = tuple(float(getattr(s, factor)) for s in settings)
    variants = _all_variants(run, settings)
    times = tuple(_times(run, settings, factor, v) for v in variants) if run else ()
    ratios = [
        _ratios(run, some, factor, v, label, hollow=bool(index))
        for index, (label, some) in enumerate(sweeps)
        for v in variants
        if run and v != NUMPY
    ]
    drawn = tuple(points for points in ratios if points.x)
    one = (Curve("as fast as NumPy", levels, (1.0,) * len(levels)),) if drawn else ()
    panels = (
        Scaling(
            _FACTOR_LABELS[factor],
            "Time of an iteration (ms)",
            times,
            _bounds(run, settings, levels) if run else (),
            x_ticks=levels,
        ),
        Scaling(_FACTOR_LABELS[factor], "Speed-up over NumPy", drawn, one, x_ticks=levels),
    )
    name = run.label if run else "no machine of this study"
    return Figure(
        id,
        f"Time of an iteration (left) and speed-up over NumPy (right) over {what}, on {name}. The "
        "broken line on the left is the least time at the rates of the processor."
        + (" Hollow marks are the wider network." if len(sweeps) > 1 else ""),
        _scaling_told(times, drawn),
        Drawing(panels, wide=True, height=2.7),
        (run.file,) if run else (),
    )


def _all_variants(run: Run | None, settings: Sequence[Setting]) -> tuple[Variant, ...]:
    if run is None:
        return ()
    found = {variant for setting in settings for variant in run.variants(setting)}
    return tuple(variant for variant in VARIANTS if variant in found)


def _times(run: Run, settings: Sequence[Setting], factor: Factor, variant: Variant) -> Points:
    found = [(getattr(s, factor), run.estimate("time", s, variant)) for s in settings]
    return _points(variant.name, found, variant, _MILLI)


def _ratios(
    run: Run | None,
    settings: Sequence[Setting],
    factor: Factor,
    variant: Variant,
    label: str,
    hollow: bool,
) -> Points:
    assert run is not None
    found = [(getattr(s, factor), run.speedup("time", s, variant)) for s in settings]
    name = f"{variant.name}, {label}" if label else variant.name
    return _points(name, found, variant, 1.0, hollow)


def _points(
    label: str,
    found: Sequence[tuple[int, Estimate | Missing]],
    variant: Variant,
    scale: float,
    hollow: bool = False,
) -> Points:
    known = [(level, e) for level, e in found if isinstance(e, Estimate)]
    return Points(
        label,
        tuple(float(level) for level, _ in known),
        tuple(scale * e.value for _, e in known),
        tuple(scale * e.low for _, e in known),
        tuple(scale * e.high for _, e in known),
        series=_series(variant),
        hollow=hollow,
        joined=True,
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
