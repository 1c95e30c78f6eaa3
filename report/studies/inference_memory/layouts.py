"""AMP with the coalesced layout: float32, autocast, channels last, and both, for each ResNet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.paper.declared import cells
from report.paper.findings import Figure
from report.paper.tables import Cell, Column, Table
from report.quantity.expression import Quantity
from report.studies.inference_memory.measured import Run, centre
from report.studies.inference_memory.subject import REDUCED, RESNETS, Call, Precision

#: What is set against contiguous float32, by its name in tables.
AMP, COALESCED, BOTH = "AMP", "channels last", "both"
ALTERNATIVES: Final = (AMP, COALESCED, BOTH)
#: What they are called in the narrow columns of a table.
_SHORT: Final = {AMP: "AMP", COALESCED: "layout", BOTH: "both"}
_PERCENT: Final = 100


def amp_precision(run: Run) -> Precision:
    """The reduced precision that was timed together with channels last; else the first."""
    tried = [
        precision
        for precision in REDUCED
        if run.timed(run.chosen(precision=precision, layout="channels_last", execution="eager"))
    ]
    # The source's is float16: where the device has it, as a GPU does, it comes first.
    return tried[-1] if tried else REDUCED[0]


def base_calls(run: Run) -> tuple[Call, ...]:
    """Each ResNet's plain call at the largest batch at which both settings together ran."""
    found = []
    for network in RESNETS:
        together = run.chosen(
            network=network,
            precision=amp_precision(run),
            layout="channels_last",
            execution="eager",
        )
        ran = [c for c in run.timed(together) if run.timed((_plain(c),))]
        if ran:
            found.append(_plain(ran[-1]))
    return tuple(found)


def _plain(call: Call) -> Call:
    return Call(call.network, call.image, call.batch)


def alternative(run: Run, base: Call, name: str) -> Call:
    """``base`` with one or both of the settings."""
    precision = base.precision if name == COALESCED else amp_precision(run)
    layout = base.layout if name == AMP else "channels_last"
    return Call(base.network, base.image, base.batch, layout, precision)


def amp_table(run: Run, id_: str = "tbl-amp") -> Table:
    """Time and peak of the four settings of each ResNet."""
    columns = [
        Column("Network"),
        Column("Batch", "1"),
        Column("Base time", "s", "ms"),
        *(Column(f"Time, {_SHORT[name]}", "1") for name in ALTERNATIVES),
        Column("Base peak", "B", "MB"),
        *(Column(f"Saved, {_SHORT[name]}", "1", "%") for name in ALTERNATIVES),
        Column("Saved, theory", "1", "%"),
    ]
    return Table(
        id_,
        f"Autocast to {amp_precision(run)} (AMP), channels last (layout), and both, against "
        f"contiguous float32 on {run.label}: base time and peak, ratios of times (below 1 is "
        "faster), shares of the peak that are saved, and the share that AMP saves by theory of "
        "what must be in memory.",
        tuple(columns),
        tuple(_row(run, base) for base in base_calls(run)),
        sources=(run.file,),
        wide=True,
    )


def _row(run: Run, base: Call) -> tuple[Cell, ...]:
    calls = [alternative(run, base, name) for name in ALTERNATIVES]
    return cells(
        base.network,
        base.batch,
        run.time(base),
        *(run.time_ratio(call, base) for call in calls),
        run.peak(base),
        *(run.saved(call, base) for call in calls),
        needed_saved(run, alternative(run, base, AMP), base),
    )


def needed_saved(run: Run, call: Call, base: Call) -> Quantity:
    """The share of the memory that must be held which lower precision saves, by theory alone."""
    return 1 - run.needed(call) / run.needed(base)


def amp_figure(run: Run) -> Figure:
    """Ratio of times and share of memory saved, a row a network."""
    bases = base_calls(run)
    panels = (
        _dots(run, run.time_ratio, 1, "Time against contiguous float32", reference=1.0),
        _dots(run, run.saved, _PERCENT, "Peak memory saved (%)"),
    )
    told = []
    for base in bases:
        both = alternative(run, base, BOTH)
        ratio, saved = run.time_ratio(both, base), run.saved(both, base)
        if not ratio.missing and not saved.missing:
            told.append(
                f"{base.network}: both settings take {centre(ratio):.3g} times as long and save "
                f"{100 * centre(saved):.3g} per cent of the peak."
            )
    return Figure(
        "fig-amp",
        f"Autocast to {amp_precision(run)} (AMP), channels last, and both, against contiguous "
        f"float32 on {run.label}, by network: ratio of median times (left, 1 is equal) and peak "
        "memory saved (right).",
        " ".join(told) or "Nothing measured.",
        Drawing(panels, wide=True, height=panels[0].height + 0.25),
        (run.file,),
    )


def _dots(
    run: Run,
    quantity: Callable[[Call, Call], Quantity],
    factor: float,
    label: str,
    reference: float | None = None,
) -> Dots:
    bases = base_calls(run)
    series = tuple(
        DotSeries(
            name,
            tuple(_number(quantity(alternative(run, b, name), b), factor) for b in bases),
            index,
            hollow=index == 2,
        )
        for index, name in enumerate(ALTERNATIVES)
    )
    return Dots(tuple(base.network for base in bases), series, label, reference)


def _number(found: Quantity, factor: float) -> float | None:
    return None if found.missing else factor * centre(found)
