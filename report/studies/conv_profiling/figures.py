"""The figures of conv_profiling, described; captions stand in its template, drawing in figures/."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.evidence.primitives import Logged
from report.evidence.remembered import known
from report.instruments.onednn import NATIVE
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.reconciliations import as_figure
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.studies.conv_profiling import profiled, theory
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import (
    NOT_FUSED,
    changed,
    reported_estimate,
)
from report.studies.conv_profiling.source import CONVOLUTION, operator_bytes
from report.studies.conv_profiling.subject import dimensions_of
from report.text.format import quantity_text
from report.theory.reconciliation import Reconciliation

_EXECUTED = "Multiply-adds executed ÷ theory"
#: The colour of what the source reports, in all figures; runs take the others.
_REPORTED = 1
#: The part of theory from which on a difference is drawn.
_SEEN: Final = 1e-3
_CAUSES: Final = {
    "Channels padded to the vector width": "blocks of channels padded",
    "Input channels padded to the vector width": "blocks of channels padded",
    "Positions padded to the vector width": "positions padded",
}
#: The colours and markers of batch sizes, beside those of what is explained.
_OF_BATCHES: Final = (0, 2, 3, 4, 5)


def all_figures(
    inputs: Inputs,
    chosen: tuple[Run | None, Run | None],
    traced: Traced | None,
    owns: Sequence[Traced],
    shapes: Mapping[str, Reconciliation],
    logs: Sequence[Logged],
) -> Iterator[Figure]:
    """The figures that the data have; see ``tables.all_tables`` for what is chosen.

    ``owns`` are all traces of the run that the prose speaks of.
    """
    primary, gpu = chosen
    yield _estimate(inputs)
    yield _memory(inputs, primary, gpu, owns)
    if primary is not None:
        yield from _exceptions(primary, logs)
    if gpu is not None:
        yield from _shapes(shapes, gpu)
    if traced is not None:
        yield profiled.timeline(traced)


def _exceptions(run: Run, logs: Sequence[Logged]) -> Iterator[Figure]:
    """The cases in which a CPU does not execute what theory says, with what its own code pads."""
    native = {
        f"{dimensions_of(each.case).name}, {each.case.factors['batch']}": point(ratio)
        for each in logs
        if each.case.factors["pass"] == "forward"
        and not isinstance(point(ratio := each.executed(NATIVE)), Missing)
    }
    reconciliations = {
        name: r
        for name, r in changed(run).items()
        if abs(_share(r.end, r) - 1) > _SEEN or abs((native.get(name) or 1) - 1) > _SEEN  # type: ignore[operator]
    }
    if not reconciliations:
        return
    own = DotSeries(
        "In the CPU's own blocks, by its log",
        tuple(native.get(name) for name in reconciliations),  # type: ignore[misc]
        series=2,
        hollow=True,
    )
    counted = tuple(map(_counted, reconciliations.values()))
    explained = tuple(_share(r.end, r) for r in reconciliations.values())
    drawn = Dots(
        tuple(f"{name}: {_cause(r)}" for name, r in reconciliations.items()),
        (
            DotSeries("By shape and code (AVX2)", explained, series=_REPORTED, hollow=True),
            DotSeries("Counted (AVX2)", counted, series=0),
            *((own,) if logs else ()),
        ),
        _EXECUTED,
        reference=1.0,
    )
    drawing = Drawing((drawn,), wide=True, height=drawn.height)
    yield Figure("fig-changed", "", "", drawing, (run.file,))


def _counted(r: Reconciliation) -> float | None:
    """The count over theory."""
    return None if isinstance(r.measured, Missing) else _share(r.measured.amount, r)


def _cause(r: Reconciliation) -> str:
    """The words for the largest term."""
    largest = max(r.terms, key=lambda term: abs(term.amount))
    if abs(largest.amount) <= _SEEN * r.start.amount:
        return "no padding in AVX2"
    if largest.name == NOT_FUSED:
        return f"counter misses {quantity_text(-_share(largest.amount, r), '1', 'percent')}"
    return _CAUSES.get(largest.name, largest.name)


def _shapes(reconciliations: Mapping[str, Reconciliation], run: Run) -> Iterator[Figure]:
    """Executed over theoretical work of every shape, a marker a batch size, and by its terms."""
    rows: dict[str, dict[str, Reconciliation]] = {}
    for name, r in reconciliations.items():
        shape, _, batch = name.rpartition(", ")
        rows.setdefault(shape, {})[batch] = r
    if not rows:
        return
    batches = sorted({batch for row in rows.values() for batch in row}, key=int)
    explained = tuple(tuple(_share(r.end, r) for r in row.values()) for row in rows.values())
    drawn = Dots(
        tuple(_named(shape, row) for shape, row in rows.items()),
        (
            DotSeries("By shape and tile", explained, series=_REPORTED, hollow=True),
            *(
                DotSeries(f"Counted, batch {batch}", _of_batch(rows.values(), batch), series)
                for batch, series in zip(batches, _OF_BATCHES, strict=False)
            ),
        ),
        _EXECUTED,
        reference=1.0,
    )
    drawing = Drawing((drawn,), wide=True, height=drawn.height)
    yield Figure("fig-tiled", "", "", drawing, (run.file,))


def _of_batch(rows: Iterable[Mapping[str, Reconciliation]], batch: str) -> tuple[float | None, ...]:
    """What was counted at a batch size, row by row."""
    return tuple(_counted(row[batch]) if batch in row else None for row in rows)


def _named(shape: str, row: Mapping[str, Reconciliation]) -> str:
    """A shape, with the batch sizes whose counts its terms do not give."""
    left = ", ".join(batch for batch, r in row.items() if not r.explained)
    return f"{shape} (batch {left} unexplained)" if left else shape


def _share(amount: int, r: Reconciliation) -> float:
    return amount / r.start.amount


def _memory(inputs: Inputs, run: Run | None, gpu: Run | None, owns: Sequence[Traced]) -> Figure:
    """Bytes of a call over those of its output: rules of estimation, runs, and the source."""
    batch = inputs.reported.count("profiled_batch")
    batches = (1, batch)
    size = operator_bytes(inputs.reported, CONVOLUTION, "allocation_size")
    allocated = {
        each.batch: row.total.allocated
        for each in owns
        if each.scope == "layer" and not isinstance(row := each.row("aten::conv2d"), Missing)
    }
    rows: dict[str, Callable[[int], Quantity | int | Missing | None]] = {
        "Estimate, parameters for every image": theory.for_every_image,
        "Estimate, parameters once": theory.once,
        "Allocated, source": lambda b: size if b == batch else None,
    }
    if run is not None:
        rows |= {"Allocated, CPU": allocated.get, "Peak, CPU": run.peak, "Retained, CPU": run.held}
    if gpu is not None and gpu is not run:
        rows |= {"Peak, GPU": gpu.peak}
    drawn = Bars(
        tuple(rows),
        tuple(
            BarSeries(f"Batch {b}", tuple(_of_output(get(b), b) for get in rows.values()), series=i)
            for i, b in enumerate(batches)
        ),
        "Bytes of a call ÷ its output",
        reference=1.0,
    )
    files = (inputs.reported_file, *((run.file,) if run is not None else ()))
    drawing = Drawing((drawn,), wide=True, height=drawn.height)
    return Figure("fig-memory", "", "", drawing, files)


def _of_output(size: Quantity | int | Missing | None, batch: int) -> float | None:
    """Bytes over those of the output of a batch."""
    if size is None or isinstance(size, Missing):
        return None
    found = point(size) if isinstance(size, Quantity) else size
    return known(found) / known(point(batch * theory.OUTPUT_BYTES))


def _estimate(inputs: Inputs) -> Figure:
    """From the source's estimate of memory to its measurement, which the terms meet."""
    drawn = as_figure(reported_estimate(inputs))
    drawn = replace(drawn, x_label=drawn.x_label.replace("From zero", "Memory"))
    drawing = Drawing((drawn,), height=drawn.height)
    return Figure("fig-estimate", "", "", drawing, (inputs.reported_file,))
