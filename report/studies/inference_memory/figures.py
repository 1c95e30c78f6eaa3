"""The figures of inference_memory, described; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.scaling import Absent, Band, Curve, Points, Scaling
from report.missing import Missing, present
from report.paper.findings import Figure, Inputs
from report.paper.plots import band, every_other, points
from report.paper.policies import by_policy
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, recorded
from report.studies.inference_memory.choices import (
    best_speedup,
    published_networks,
    reported_speedups,
)
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import (
    TOLERANCE,
    limit,
    off,
    predicted_growth,
    predicted_peak,
    reconciled,
)
from report.studies.inference_memory.policies import deepest
from report.studies.inference_memory.subject import (
    EXECUTION_NAMES,
    LAYOUT_NAMES,
    LAYOUTS,
    REDUCED,
    TILED,
    Call,
)
from report.studies.inference_memory.sweeps import (
    both_bases,
    failed_calls,
    limited_calls,
    pairs,
    plain,
    resnets,
    sweep,
    tiled_calls,
    with_amp,
    with_both,
    with_layout,
)

_X: Final = "Batch size (images)"
_MEGA: Final = 1e-6
#: How lines across a panel look.
_LIMIT_LOOK: Final = 4


def all_figures(inputs: Inputs, run: Run) -> Iterator[Figure]:
    """The figures of the run that the prose speaks of, where it measured what they show."""
    drawn = {
        "fig-agreement": _agreement(run),
        "fig-limit": _limits(run),
        "fig-batch": _batches(run),
        "fig-policies": _policies(run),
        "fig-precision": _precision(run),
        "fig-amp": _both(run),
        "fig-tiling": _tiles(run),
        "fig-published": _published(inputs, run),
    }
    for id, drawing in drawn.items():
        if drawing is not None:
            files = (inputs.reported_file, run.file) if id == "fig-published" else (run.file,)
            yield Figure(id, "", "", drawing, files)


def _over_batches(
    label: str,
    calls: Sequence[Call],
    get: Callable[[Call], Quantity],
    shown: str,
    index: int,
    *,
    hollow: bool = False,
) -> tuple[Points, ...]:
    """A line over the batch size."""
    found = {call.batch: get(call) for call in calls}
    return points(label, found, shown, series=index, hollow=hollow, joined=True)


def _ticks(drawn: Iterable[Points]) -> tuple[float, ...]:
    return tuple(map(float, every_other(sorted({int(x) for each in drawn for x in each.x}))))


# -------------------------------------------------------------------------------------- memory


def _agreement(run: Run) -> Drawing | None:
    """Measured over predicted peaks, and the residual over the batch size."""
    found = reconciled(run)
    if not found:
        return None
    identity, residuals = [], []
    for index, layout in enumerate(LAYOUTS):
        of = [this for call, this in found.items() if call.layout == layout]
        batches = tuple(float(call.batch) for call in found if call.layout == layout)
        if not of:
            continue
        measured = tuple(t.measured.amount for t in of if not isinstance(t.measured, Missing))
        x, y = (tuple(size * _MEGA for size in each) for each in ([t.end for t in of], measured))
        identity.append(Points(LAYOUT_NAMES[layout], x, y, series=index, hollow=index > 0))
        y = tuple(100 * share for this in of if isinstance(share := point(off(run, this)), float))
        residuals.append(Points(LAYOUT_NAMES[layout], batches, y, series=index, hollow=index > 0))
    sizes = [x for each in identity for x in each.x]
    line, bound = (min(sizes), max(sizes)), 100 * TOLERANCE
    powers = tuple(10.0**n for n in range(-3, 7) if line[0] <= 10.0**n <= line[1])
    left = Scaling(
        "Predicted peak (MB)",
        "Measured peak (MB)",
        tuple(identity),
        (Curve("Equality", line, line),),
        x_ticks=powers,
    )
    right = Scaling(
        _X,
        "Residual (% of measured)",
        tuple(residuals),
        bands=(Band("Rule of agreement", -bound, 0, bound, 2),),
        x_ticks=_ticks(residuals),
        y_scale="linear",
    )
    return Drawing((left, right), wide=True, height=2.5)


def _limits(run: Run) -> Drawing | None:
    """Where memory runs out over the batch size: a panel a limited setting, and one without."""
    limited, failed = limited_calls(run), failed_calls(run)
    panels = []
    for setting in dict.fromkeys(call.setting for call in limited):
        calls = [call for call in limited if call.setting == setting]

        def grown(call: Call) -> int | Missing:
            return run.growth(_unlimited(call))

        most = limit(calls[0])
        panels.append(_limit_panel(run, calls, setting, grown, predicted_growth, most))
    if failed:
        panels.append(_machine_panel(run, failed))
    return Drawing(tuple(panels), wide=len(panels) > 1, height=2.7) if panels else None


def _unlimited(call: Call) -> Call:
    return Call(call.network, call.image, call.batch, call.layout, call.precision)


def _machine_panel(run: Run, failed: Sequence[Call]) -> Scaling:
    """All batches of the networks of which a call failed without a limit."""
    ways = dict.fromkeys((c.network, c.layout, c.precision, c.execution) for c in failed)
    names = ("network", "layout", "precision", "execution")
    calls = [
        call for way in ways for call in run.chosen(**dict(zip(names, way, strict=True)), tile=None)
    ]

    def peak(call: Call) -> int | Missing:
        return run.fixed("allocated_peak", call.factors)

    return _limit_panel(run, calls, "no limit", peak, predicted_peak, run.machine_memory)


def _limit_panel(
    run: Run,
    calls: Sequence[Call],
    title: str,
    measured: Callable[[Call], int | Missing],
    predicted: Callable[[Run, Call], int | Missing],
    most: int,
) -> Scaling:
    """Points where calls ran, crosses where they failed, the prediction through both."""
    drawn: list[Points] = []
    curves: list[Curve] = []
    absent: list[Absent] = []
    for index, network in enumerate(run.networks(calls)):
        own = [call for call in calls if call.network == network]
        ran = [call for call in own if not run.ran_out(call)]
        found = {c.batch: recorded("bytes", "B", measured(c), run.file) for c in ran}
        drawn += points(network, found, "MB", series=index, hollow=index > 0, joined=True)
        line = present({call.batch: predicted(run, call) for call in own})
        if line:
            y = tuple(size * _MEGA for size in line.values())
            curves.append(Curve("" if curves else "predicted", tuple(line), y, "fit", index))
        if failed := tuple(float(call.batch) for call in own if run.ran_out(call)):
            absent.append(Absent("" if absent else "out of memory", failed, index))
    there = most * _MEGA
    growth = "Peak memory (MB)" if title == "no limit" else "Growth of memory (MB)"
    return Scaling(
        _X,
        growth,
        tuple(drawn),
        tuple(curves),
        bands=(Band("limit" if curves else "", there, there, there, _LIMIT_LOOK),),
        x_ticks=tuple(float(b) for b in sorted({call.batch for call in calls})),
        title=title,
        absent=tuple(absent),
    )


# ---------------------------------------------------------------------------------- batch sizes


def _batches(run: Run) -> Drawing | None:
    """Time of an image, peak memory and utilisation of the ResNets over the batch size."""
    names = resnets(run)
    if not names:
        return None

    def panel(label: str, get: Callable[[Call], Quantity], shown: str, *, log: bool) -> Scaling:
        drawn = tuple(
            each
            for index, network in enumerate(names)
            for each in _over_batches(network, sweep(run, network), get, shown, index)
        )
        scale = {"y_scale": "log" if log else "linear", "y_from_zero": not log}
        return Scaling(_X, label, drawn, x_ticks=_ticks(drawn), direct=True, **scale)  # type: ignore[arg-type]

    panels = (
        panel("Time of an image (ms)", run.image_time, "ms", log=True),
        panel("Share of the ceiling (%)", run.utilisation, "%", log=False),
        panel("Peak memory (MB)", run.peak, "MB", log=True),
    )
    return Drawing(panels, wide=True, height=2.6)


def _policies(run: Run) -> Drawing | None:
    """Time and page faults of the deepest ResNet over the batch size, by policy."""
    found = deepest(run)
    return None if found is None else by_policy(found, every_other(found.timed), "ms")


# ------------------------------------------------------------------------- precision and layout


def _precision(run: Run) -> Drawing | None:
    """Ratio of times and share of memory saved over the batch size."""
    if not pairs(run):
        return None

    def panel(
        label: str, get: Callable[[Call, Call], Quantity], shown: str, equal: float
    ) -> Scaling:
        drawn = tuple(
            each
            for index, precision in enumerate(REDUCED)
            for each in points(
                precision,
                {c.batch: get(c, base) for c, base in pairs(run) if c.precision == precision},
                shown,
                series=index,
                joined=True,
            )
        )
        x = [x for each in drawn for x in each.x]
        curves = (Curve("as float32", (min(x), max(x)), (equal, equal)),) if x else ()
        scale = "log" if equal else "linear"
        return Scaling(_X, label, drawn, curves, x_ticks=_ticks(drawn), y_scale=scale)  # type: ignore[arg-type]

    panels = (
        panel("Time against float32", run.time_ratio, "1", 1),
        panel("Peak memory saved (%)", run.saved, "%", 0),
    )
    return Drawing(panels, wide=True, height=2.4)


def _both(run: Run) -> Drawing | None:
    """Ratio of times and share of memory saved by AMP, channels last and both; a row a network."""
    bases = both_bases(run)
    if not bases:
        return None
    ways = {"AMP": with_amp, "channels last": with_layout, "both": with_both}

    def panel(
        label: str, get: Callable[[Call, Call], Quantity], factor: float, reference: float | None
    ) -> Dots:
        series = tuple(
            DotSeries(
                name,
                tuple(_drawn(get(change(run, base), base), factor) for base in bases),
                index,
                hollow=name == "both",
            )
            for index, (name, change) in enumerate(ways.items())
        )
        return Dots(tuple(base.network for base in bases), series, label, reference)

    panels = (
        panel("Time against contiguous float32", run.time_ratio, 1, 1.0),
        panel("Peak memory saved (%)", run.saved, 100, None),
    )
    return Drawing(panels, wide=True, height=panels[0].height + 0.25)


def _drawn(found: Quantity, factor: float = 1) -> float | None:
    number = point(found)
    return None if isinstance(number, Missing) else factor * number


# ----------------------------------------------------------------------------- tiles, settings


def _tiles(run: Run) -> Drawing | None:
    """Time, peak memory and utilisation over the tile size, a line a form."""
    calls = tiled_calls(run)
    if not calls:
        return None

    def panel(label: str, get: Callable[[Call], Quantity], shown: str) -> Scaling:
        by_form: Mapping[str, list[Call]] = {
            form: [call for call in calls if call.execution == form] for form in TILED
        }
        drawn = tuple(
            each
            for index, form in enumerate(TILED)
            for each in points(
                EXECUTION_NAMES[form],
                {call.tile or 0: get(call) for call in by_form[form]},
                shown,
                series=index,
                joined=True,
            )
        )
        return Scaling(
            "Tile (pixels)",
            label,
            drawn,
            bands=band("whole maps", get(plain(calls[0])), shown, _LIMIT_LOOK),
            x_ticks=_ticks(drawn),
            y_scale="linear",
            y_from_zero=True,
        )

    panels = (
        panel("Time of a call (ms)", run.time, "ms"),
        panel("Peak memory (MB)", run.peak, "MB"),
        panel("Share of the ceiling (%)", run.utilisation, "%"),
    )
    return Drawing(panels, wide=True, height=2.4)


def _published(inputs: Inputs, run: Run) -> Drawing:
    """Published and own speed-ups, a row a network."""
    names, printed = published_networks(inputs, run), reported_speedups(inputs)

    def own(*, same: bool) -> tuple[float | None, ...]:
        return tuple(_drawn(best_speedup(run, n, same_precision=same)) for n in names)

    dots = Dots(
        names,
        (
            DotSeries("published", tuple(map(printed.get, names)), 1, hollow=True),
            DotSeries("own, float32", own(same=True), 0),
            DotSeries("own, any precision", own(same=False), 2),
        ),
        "Speed-up",
        reference=1.0,
    )
    return Drawing((dots,), height=dots.height + 0.2)
