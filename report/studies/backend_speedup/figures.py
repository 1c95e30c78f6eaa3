"""The figures of backend_speedup, described; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.plots import points
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity
from report.statistics.estimates import Estimate
from report.studies.backend_speedup import diagrams, memory
from report.studies.backend_speedup.learning import learned
from report.studies.backend_speedup.measured import CUPY, NUMPY, ON_GPU, VARIANTS, Run, Variant
from report.studies.backend_speedup.source import SIDES, cell, number
from report.studies.backend_speedup.subject import KIND_NAMES, Kind, Setting, kinds
from report.studies.backend_speedup.theory import least, source_setting

_MILLI: Final = 1e3
_MEGA: Final = 1e6
_WIDTH, _IMAGES = "Neurons of the hidden layer", "Images"
#: The smallest ratio of two levels whose numbers stand beside each other on an axis.
_GAP: Final = 3
_LAST: Final = Missing("the last row is the source's")
#: Iterations between two marks of one library; libraries start at different ones.
_APART: Final = 25


def all_figures(
    inputs: Inputs, runs: Sequence[Run], run: Run | None, gpu: Run | None
) -> Iterator[Figure]:
    """The figures that the data have; ``run`` is the one that the prose speaks of."""
    yield Figure("fig-perceptron", "", "", diagrams.perceptron())
    reported, own = (inputs.reported_file,), (run.file,) if run else ()
    measured = tuple(each.file for each in runs)
    for id, drawing, files in (
        ("fig-operations", _operations(inputs, run), (*reported, *own)),
        ("fig-operation-speedups", _operation_speedups(inputs, gpu), (*reported, *measured)),
        ("fig-memory", _memory(inputs, run), (*reported, *own)),
        ("fig-widths", _widths(run) if run else None, own),
        ("fig-convergence", _convergence(run) if run else None, own),
    ):
        if drawing is not None:
            yield Figure(id, "", "", drawing, files)
    shown = tuple(each for each in (run, gpu if gpu is not run else None) if each is not None)
    if (speedups := _answers(inputs, shown)) is not None:
        yield Figure("fig-answers", "", "", speedups, (*reported, *(each.file for each in shown)))


def _series(variant: Variant) -> int:
    return VARIANTS.index(variant)


def _wide(*panels: Bars | None) -> Drawing:
    shown = tuple(panel for panel in panels if panel is not None)
    return Drawing(shown, wide=True, height=max(panel.height for panel in shown))


# ------------------------------------------------------------------------------------- answers


def _answers(inputs: Inputs, measured: Sequence[Run]) -> Drawing | None:
    """Every library's speed-up over NumPy at the ends of each sweep, on one scale."""
    rows = [row for run in measured for row in _settings(run)]
    found = {
        variant: [*(estimate(run.speedup(setting, variant)) for _, run, setting in rows), _LAST]
        for variant in VARIANTS
        if variant != NUMPY
    }
    own = tuple(
        _dot_series(variant, each)
        for variant, each in found.items()
        if any(isinstance(one, Estimate) for one in each)
    )
    if not own:
        return None
    printed = float(inputs.reported.value("total_speedup").number)
    last = (*(None for _ in rows), printed)
    source = DotSeries("Source, CuPy", last, series=VARIANTS.index(CUPY), hollow=True)
    names = (*(name for name, _, _ in rows), "Source")
    dots = Dots(names, (*own, source), "Speed-up over NumPy", reference=1.0, log=True)
    return Drawing((dots,), wide=True, height=dots.height)


def _settings(run: Run) -> Iterator[tuple[str, Run, Setting]]:
    """The training, the ends of the sweeps and the convolutional network, with their names."""
    named = {
        "{hidden:,} neurons, {samples:,} images": run.training(),
        "{hidden:,} neurons": run.widths()[-1] if len(run.widths()) > 1 else None,
        "{samples:,} images": run.sizes()[-1] if len(run.sizes()) > 1 else None,
    }
    for name, setting in named.items():
        if setting is not None and run.others(setting):
            size = name.format(hidden=setting.hidden, samples=setting.samples)
            yield f"{run.label}: {size}", run, setting


def _dot_series(variant: Variant, found: Sequence[Estimate | Missing]) -> DotSeries:
    value, low, high = _ends(found)
    return DotSeries(variant.name, value, _series(variant), low=low, high=high)


# --------------------------------------------------------------------------------- operations

#: The operations of the source's Table 4, and their colours among all kinds of the perceptron.
_SOURCE_KINDS: Final[tuple[Kind, ...]] = ("matrix_product", "relu", "softmax", "gradient")
_PLACES: Final = {kind: place for place, kind in enumerate(kinds())}


def _eager(run: Run | None) -> tuple[Setting, tuple[Variant, ...]] | None:
    """The training and the libraries whose operations were timed in it."""
    setting = run.training() if run else None
    if run is None or setting is None:
        return None
    found = tuple(v for v in run.variants(setting, "matrix_product_time") if v.eager)
    return (setting, found) if found else None


def _operations(inputs: Inputs, run: Run | None) -> Drawing:
    """Time of an iteration by kind of operation: own libraries (left) and the source's (right)."""
    source = tuple(
        BarSeries(
            KIND_NAMES[kind],
            tuple(float(number(inputs.reported, "4", kind, side)) for side in SIDES),
            series=_PLACES[kind],
        )
        for kind in _SOURCE_KINDS
    )
    right = Bars(("Source, NumPy", "Source, CuPy"), source, "Time (ms)", stacked=True)
    found = _eager(run)
    if run is None or found is None:
        return _wide(right)
    setting, shown = found
    own = tuple(
        BarSeries(
            KIND_NAMES[kind],
            tuple(_drawn(run.operation(kind, setting, v), _MILLI) for v in shown),
            series=index,
        )
        for index, kind in enumerate(kinds())
    )
    left = Bars(tuple(v.name for v in shown), own, "Time (ms)", stacked=True)
    return _wide(left, right)


def _drawn(found: Quantity, factor: float) -> float | None:
    at = point(found)
    return None if isinstance(at, Missing) else factor * at


def _operation_speedups(inputs: Inputs, gpu: Run | None) -> Drawing:
    """Speed-up of each kind of operation on a GPU: the source's, and CuPy's with most images."""
    rows = {"time": "Iteration", **{f"{kind}_time": KIND_NAMES[kind] for kind in _SOURCE_KINDS}}
    printed = (
        float(inputs.reported.value("total_speedup").number),
        *(float(number(inputs.reported, "4", k, "speedup")) for k in _SOURCE_KINDS),
    )
    source = DotSeries("Source, GPU not named", printed, series=3, hollow=True)
    setting = gpu.sizes()[-1] if gpu and gpu.sizes() else None
    own = tuple(
        _dot_series(v, [estimate(gpu.speedup(setting, v, quantity)) for quantity in rows])
        for v in ON_GPU
        if gpu and setting and v in gpu.variants(setting, "matrix_product_time")
    )
    dots = Dots(
        tuple(rows.values()), (*own, source), "Speed-up over NumPy", reference=1.0, log=True
    )
    return Drawing((dots,), wide=True, height=dots.height)


def _ends(found: Sequence[Estimate | Missing]) -> Iterator[tuple[float | None, ...]]:
    """The values, the lower and the upper ends; None where one is missing."""
    for end in ("value", "low", "high"):
        yield tuple(getattr(one, end) if isinstance(one, Estimate) else None for one in found)


# -------------------------------------------------------------------------------------- scaling


def _widths(run: Run) -> Drawing | None:
    """Time and speed-up over the width of the hidden layer."""
    settings = run.widths()
    if len(settings) < 2:
        return None
    level: Callable[[Setting], int] = lambda setting: setting.hidden  # noqa: E731
    panels = (
        _times(run, settings, level, _WIDTH, ""),
        _speedups(run, settings, level, _WIDTH, ""),
    )
    return Drawing(panels, wide=True, height=2.2)


def _all(run: Run, settings: Sequence[Setting]) -> list[Variant]:
    return [v for v in VARIANTS if any(v in run.variants(setting) for setting in settings)]


def _ticks(levels: Sequence[int]) -> tuple[float, ...]:
    """Levels that are so far apart that their numbers are, too."""
    kept: list[float] = []
    for level in levels:
        if not kept or level >= _GAP * kept[-1]:
            kept.append(float(level))
    return tuple(kept)


def _joined(
    variants: Iterable[Variant],
    of: Callable[[Variant], Mapping[int, Quantity]],
    unit: str = "ms",
) -> tuple[Points, ...]:
    """A joined line of each variant, over the levels of its quantities."""
    return tuple(
        line
        for v in variants
        for line in points(v.name, of(v), unit, series=_series(v), joined=True)
    )


def _times(
    run: Run, settings: Sequence[Setting], level: Callable[[Setting], int], x: str, title: str
) -> Scaling:
    drawn = _joined(_all(run, settings), lambda v: {level(s): run.time(s, v) for s in settings})
    bounds = {level(s): least(run, s, NUMPY) for s in settings}
    known = {at: _MILLI * b for at, b in bounds.items() if not isinstance(b, Missing)}
    curves = (Curve("Least time", tuple(known), tuple(known.values())),) if known else ()
    levels = [level(setting) for setting in settings]
    label = "Time of an iteration (ms)"
    return Scaling(x, label, drawn, curves, x_ticks=_ticks(levels), title=title, direct=True)


def _speedups(
    run: Run, settings: Sequence[Setting], level: Callable[[Setting], int], x: str, title: str
) -> Scaling:
    others = [v for v in _all(run, settings) if v != NUMPY]
    drawn = _joined(others, lambda v: {level(s): run.speedup(s, v) for s in settings}, "1")
    levels = [level(setting) for setting in settings]
    line = (Curve("", tuple(map(float, levels)), (1.0,) * len(levels)),) if drawn else ()
    ticks = _ticks(levels)
    return Scaling(x, "Speed-up over NumPy", drawn, line, x_ticks=ticks, title=title, direct=True)


# --------------------------------------------------------------------------------------- memory


def _memory(inputs: Inputs, run: Run | None) -> Drawing:
    """Stacked bars of the components: theory, each library, the source."""
    setting = source_setting(inputs)
    series = []
    for index, (name, title) in enumerate((*memory.COMPONENTS.items(), ("framework", "Framework"))):
        printed = [float(cell(inputs.reported, "5", name, side).value) for side in SIDES]
        expected = None if name == "framework" else memory.theory(setting, name) / _MEGA
        series.append(BarSeries(title, (expected, *printed), series=index))
    names = ("Theory", "Source, CPU", "Source, GPU")
    right = Bars(names, tuple(series), "Memory (MB)", stacked=True)
    return _wide(_own_memory(run) if run else None, right)


def _own_memory(run: Run) -> Bars | None:
    setting = run.training()
    shown = memory.variants(run, setting)
    if setting is None or not shown:
        return None

    def scaled(size: int | Missing) -> float | None:
        return None if isinstance(size, Missing) else size / _MEGA

    series = [
        BarSeries(
            title,
            (
                memory.theory(setting, name) / _MEGA,
                *(scaled(memory.component(run, setting, v, name)) for v in shown),
            ),
            series=index,
        )
        for index, (name, title) in enumerate(memory.COMPONENTS.items())
    ]
    overhead = (_drawn(memory.framework(run, setting, v), 1 / _MEGA) for v in shown)
    series.append(BarSeries("Framework", (None, *overhead), series=4))
    names = ("Theory", *(v.name for v in shown))
    return Bars(names, tuple(series), "Resident memory (MB)", stacked=True)


# ------------------------------------------------------------------------------------- learning


def _convergence(run: Run) -> Drawing | None:
    """Accuracy over the iterations, of the training images and of those held out."""
    setting = run.training()
    shown = learned(run, setting)
    if setting is None or not shown:
        return None

    def course(variant: Variant, quantity: str) -> Points:
        found, index = run.curve(quantity, setting, variant), _series(variant)
        first = index * _APART // len(VARIANTS)
        at = range(first, len(found), _APART) if len(found) > _APART else range(len(found))
        y = tuple(100 * found[i] for i in at)
        return Points(variant.name, tuple(map(float, at)), y, series=index, hollow=bool(index % 2))

    def panel(title: str, quantity: str) -> Scaling:
        drawn = tuple(course(v, quantity) for v in shown)
        return Scaling(
            "Iteration",
            "Accuracy (%)",
            drawn,
            x_scale="linear",
            y_scale="linear",
            y_from_zero=True,
            title=title,
        )

    panels = (panel("Training images", "train_accuracy"), panel("Held out", "test_accuracy"))
    return Drawing(panels, wide=True, height=2.6)
