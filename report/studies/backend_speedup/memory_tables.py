"""The tables and the figure of memory by component."""

from __future__ import annotations

from typing import Final

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.reconciliations import series_table
from report.paper.tables import Cell, Column, Table
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.memory import (
    COMPONENTS,
    component,
    framework,
    grown,
    highest,
    peak,
    plain,
    resident,
    theory,
    whole,
)
from report.studies.backend_speedup.source import text
from report.studies.backend_speedup.subject import Setting
from report.studies.backend_speedup.theory_tables import source_memory_rows, source_setting
from report.theory.reconciliation import UNEXPLAINED, Reconciliation

_MEGA = 1e6


def measured_variants(run: Run, setting: Setting | None) -> tuple[Variant, ...]:
    """The libraries of which some memory was measured at a setting."""
    if setting is None:
        return ()
    return tuple(
        v
        for v in run.variants(setting)
        if not isinstance(component(run, setting, v, "input"), Missing)
        or not framework(run, setting, v).missing
    )


def source_memory(inputs: Inputs) -> Table:
    """The source's components beside theory at its size, with the decimals of the print."""
    setting = source_setting(inputs)
    rows: list[tuple[Cell, ...]] = []
    for name, title in COMPONENTS.items():
        printed, size = source_memory_rows(inputs, name)[0], theory(setting, name) / _MEGA
        rows.append((title, size, text(printed), float(printed.value) / size))
    none = Missing("theory says nothing of it")
    for side, where in enumerate(("CPU", "GPU")):
        for name, title in (("framework", "Framework overhead"), ("total", "Total")):
            printed = source_memory_rows(inputs, name)[side]
            rows.append((f"{title}, {where}", none, text(printed), none))
    return Table(
        "tbl-source-memory",
        "Memory of the source by component, beside theory for its network and its training images "
        "in float32.",
        (
            Column("Component"),
            Column("Theory", "MB"),
            Column("Source", "MB"),
            Column("Source ÷ theory", "1"),
        ),
        tuple(rows),
        notes=(
            "Components are printed with the same numbers for CPU and GPU. Theory for the input "
            "holds the one-hot targets, too.",
        ),
        sources=(inputs.reported_file,),
    )


def memory_table(run: Run, id: str) -> Table | None:
    """The components of an iteration with every library, each with theory beside it."""
    setting = run.training()
    shown = measured_variants(run, setting)
    if setting is None or not shown:
        return None
    rows: list[tuple[Cell, ...]] = [
        (
            title,
            theory(setting, name),
            *(component(run, setting, v, name) for v in shown),
        )
        for name, title in COMPONENTS.items()
    ]
    none = Missing("theory says nothing of it")
    rows.append(("Peak of an iteration", none, *(highest(run, setting, v) for v in shown)))
    rows.append(("Framework overhead", none, *(plain(framework(run, setting, v)) for v in shown)))
    rows.append(
        ("Grown until the iteration", none, *(plain(grown(run, setting, v)) for v in shown))
    )
    rows.append(("Resident, in all", none, *(plain(resident(run, setting, v)) for v in shown)))
    return Table(
        id,
        f"Memory of a training iteration on {run.label} at {setting.samples:,} images in "
        f"{setting.dtype}, by component: theory from shapes, and what was measured with each "
        "library.",
        (
            Column("Component"),
            Column("Theory", "B", "kB"),
            *(Column(v.name, "B", "kB") for v in shown),
        ),
        tuple(rows),
        notes=(
            "Framework overhead: resident memory after the first operation less that of the fresh "
            "process. Grown: resident memory before the iteration less that after the first "
            "operation; the components are part of it. Resident: highest of an iteration less that "
            "of the fresh process.",
        ),
        sources=(run.file,),
        wide=True,
    )


def resident_table(run: Run) -> Table | None:
    """From overhead and components to the resident memory, a row a library."""
    found = wholes(run)
    if not found:
        return None
    return series_table(
        {v.name: told for v, told in found.items()},
        "tbl-resident",
        f"From framework overhead and the components of theory to the resident memory on "
        f"{run.label}, with what is left.",
        Column("Library"),
        sources=(run.file,),
    )


def wholes(run: Run) -> dict[Variant, Reconciliation]:
    """The reconciliations of the resident memory by library."""
    setting = run.training()
    if setting is None:
        return {}
    told = {v: whole(run, setting, v) for v in measured_variants(run, setting)}
    return {v: t for v, t in told.items() if isinstance(t, Reconciliation)}


def peaks(run: Run) -> dict[tuple[Setting, Variant], Reconciliation]:
    """The reconciliations of the peak, by width, number of images and library."""
    settings = [run.training(), *run.widths(), *run.sizes()]
    found: dict[tuple[Setting, Variant], Reconciliation] = {}
    seen: set[tuple[int, int, Variant]] = set()
    for setting in dict.fromkeys(s for s in settings if s is not None):
        for variant in run.variants(setting):
            told, level = peak(run, setting, variant), (setting.hidden, setting.samples, variant)
            if isinstance(told, Reconciliation) and level not in seen:
                found[setting, variant] = told
                seen.add(level)
    return found


def peak_table(run: Run) -> Table | None:
    """From the arrays of theory to the peak of an iteration, a row a case."""
    found = peaks(run)
    if not found:
        return None
    return Table(
        "tbl-peaks",
        f"From the arrays of theory to the peak of an iteration of the perceptron on {run.label}. "
        "Kept: parameters, input and targets, activations. Beside them: what else is alive when "
        "ReLU's gradient is taken.",
        (
            Column("Library"),
            Column("Width", "1"),
            Column("Images", "1"),
            Column("Kept", "B"),
            Column("Beside them", "B"),
            Column("Sum", "B"),
            Column("Peak", "B"),
            Column(UNEXPLAINED, "B"),
        ),
        tuple(_peak_row(*level, told) for level, told in found.items()),
        notes=_peak_notes(tuple(found.values())),
        sources=(run.file,),
        wide=True,
    )


#: How many terms of a peak, with its start, are kept through the iteration.
_KEPT: Final = 3


def _peak_row(setting: Setting, variant: Variant, told: Reconciliation) -> tuple[Cell, ...]:
    amounts = [term.amount for term in (told.start, *told.terms)]
    measured = told.measured if isinstance(told.measured, Missing) else told.measured.amount
    kept, beside = sum(amounts[:_KEPT]), sum(amounts[_KEPT:])
    return (
        variant.name,
        setting.hidden,
        setting.samples,
        kept,
        beside,
        told.end,
        measured,
        told.residual,
    )


def _peak_notes(found: tuple[Reconciliation, ...]) -> tuple[str, ...]:
    """Name, formula and evidence of every term that is not 0 everywhere."""
    active = {term.name for told in found for term in told.terms if term.amount}
    first = found[0]
    return tuple(
        f"{term.name}: {term.formula} ({term.evidence})."
        for term in (first.start, *first.terms)
        if term is first.start or term.name in active
    )


def memory_figure(inputs: Inputs, run: Run | None) -> Figure:
    """Stacked bars of the components: theory, each library, the source."""
    bars = [_source_bars(inputs)]
    own = _own_bars(run) if run else None
    if own is not None:
        bars.insert(0, own)
    heights = max(bar.height for bar in bars)
    return Figure(
        "fig-memory",
        "Memory of a training iteration by component. "
        + ("Left: theory and this study's libraries. Right: the" if own else "The")
        + " source's CPU and GPU beside theory for the source's size; the tables hold the "
        "numbers.",
        " ".join(_told(bar) for bar in bars),
        Drawing(tuple(bars), wide=True, height=heights),
        (inputs.reported_file, *((run.file,) if run and own else ())),
    )


def _told(bars: Bars) -> str:
    parts = []
    for row, name in enumerate(bars.names):
        cells = [f"{s.label.lower()} {x:.3g}" for s in bars.series if (x := s.x[row]) is not None]
        parts.append(f"{name}: {', '.join(cells) or 'not measured'}")
    return f"Stacked bars, {bars.x_label}. {'; '.join(parts)}."


def _source_bars(inputs: Inputs) -> Bars:
    setting = source_setting(inputs)
    series = []
    for index, (name, title) in enumerate((*COMPONENTS.items(), ("framework", "Framework"))):
        printed = [float(one.value) for one in source_memory_rows(inputs, name)]
        expected = None if name == "framework" else theory(setting, name) / _MEGA
        series.append(BarSeries(title, (expected, *printed), series=index))
    return Bars(
        ("Theory", "Source, CPU", "Source, GPU"), tuple(series), "Memory (MB)", stacked=True
    )


def _own_bars(run: Run) -> Bars | None:
    setting, found = run.training(), wholes(run)
    told = {v: r for v, r in found.items() if not isinstance(r.measured, Missing)}
    if setting is None or not told:
        return None
    series = []
    for index, (name, title) in enumerate(COMPONENTS.items()):
        sizes = [component(run, setting, v, name) for v in told]
        series.append(BarSeries(title, (theory(setting, name) / _MEGA, *map(_scaled, sizes)),
                                series=index))  # fmt: skip
    overhead = [r.start.amount / _MEGA for r in told.values()]
    series.append(BarSeries("Framework", (None, *overhead), series=4))
    rest = [known(r.residual) / _MEGA for r in told.values()]
    series.append(BarSeries("Unexplained", (None, *rest), series=5))
    names = ("Theory", *(v.name for v in told))
    return Bars(names, tuple(series), "Resident memory (MB)", stacked=True)


def _scaled(size: int | Missing) -> float | None:
    return None if isinstance(size, Missing) else size / _MEGA
