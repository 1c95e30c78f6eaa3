"""The tables of inference_memory; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.declared import Content, Field, table
from report.paper.environments import setup
from report.paper.findings import Download, Inputs
from report.paper.tables import Cell, Table, to_csv
from report.quantity.expression import Quantity
from report.studies.inference_memory import scores
from report.studies.inference_memory.columns import BATCH, LAYOUT, NETWORK
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory_tables import (
    agreement_table,
    fault_table,
    limit_table,
    peak_table,
)
from report.studies.inference_memory.network_tables import network_table
from report.studies.inference_memory.peaks import predicted_peak
from report.studies.inference_memory.rules import rule_table
from report.studies.inference_memory.setting_tables import (
    operator_table,
)
from report.studies.inference_memory.source import checks
from report.studies.inference_memory.subject import (
    EXECUTION_NAMES,
    LAYOUTS,
    REDUCED,
    TILED,
    Call,
    Precision,
)
from report.studies.inference_memory.sweeps import (
    both_bases,
    pairs,
    plain,
    sweep,
    tiled_calls,
    with_amp,
    with_both,
    with_layout,
)
from report.studies.inference_memory.tilings import Cost, call_cost
from report.studies.inference_memory.traces import Traced
from report.studies.inference_memory.values import needed_saved, paged

#: The batch sizes of the table beside the smallest and the largest one; the download has all.
_SHOWN: Final = frozenset({8, 64})


def all_tables(
    inputs: Inputs, runs: Sequence[Run], primary: Run | None, traced: Sequence[Traced]
) -> Iterator[Table]:
    """Every table that the data have; those without a row are left out."""
    yield network_table(inputs, runs)
    yield setup(inputs, runs)
    yield audit_table("tbl-audit", "", checks(inputs.reported), (inputs.reported_file,))
    found = [batch_table(run, _shown(run), f"tbl-batches-{run.key}") for run in runs]
    found.append(limit_table(runs))
    if (mapping := paged(*(run for run in runs if not run.on_gpu))) is not None:
        found.append(fault_table(mapping))
    if primary is not None:
        found += _of_primary(primary)
        found.append(operator_table(primary, traced))
    yield from (each for each in found if each.rows)


def _of_primary(run: Run) -> Iterator[Table]:
    yield peak_table(run)
    yield rule_table(run)
    yield agreement_table(run)
    yield _precision(run)
    yield _accuracy(run)
    yield _both(run)
    yield _tiles(run)


# --------------------------------------------------------------------------------- batch sizes


def _shown(run: Run) -> list[Call]:
    sweeps = [run.timed(sweep(run, network)) for network in run.networks()]
    return [
        c
        for calls in sweeps
        for c in calls
        if c.batch in _SHOWN or c in calls[:: len(calls) - 1 or 1]
    ]


def batch_table(run: Run, calls: Sequence[Call], id: str) -> Table:
    """Time, rate, utilisation and memory of plain calls."""
    return table(
        id,
        calls,
        [
            NETWORK,
            BATCH,
            *([LAYOUT] if len({call.layout for call in calls}) > 1 else []),
            Field("Time", "s", run.time, "ms"),
            Field("Rate", "image/s", run.image_rate),
            Field("Share", "1", run.utilisation, "%"),
            Field("Peak", "B", run.peak, "MB"),
        ],
        sources=(run.file,),
        wide=True,
    )


def download(run: Run) -> Download:
    """Every plain call of a run as CSV."""
    calls = [c for layout in LAYOUTS for n in run.networks() for c in sweep(run, n, layout)]
    content = to_csv(batch_table(run, calls, "tbl-all-batches")).encode()
    return Download(f"{run.key}.batches.csv", content, f"All batch sizes: {run.label}")


# ------------------------------------------------------------------------- precision and layout


def _precision(run: Run) -> Table:
    """Time and peak in reduced precision against float32, over the batch size."""
    # Of a precision that was not measured, the first call says why.
    absent = [call for call, _ in pairs(run) if isinstance(run.case(call.factors), Missing)]
    first = {call.precision: call for call in reversed(absent)}
    rows = [call for call, _ in pairs(run) if call not in absent or call == first[call.precision]]
    return table(
        "tbl-precision",
        rows,
        [
            Field("Precision", "", lambda call: call.precision),
            BATCH,
            Field("Time in float32", "s", lambda call: run.time(plain(call)), "ms"),
            Field("Time", "s", run.time, "ms"),
            Field("Peak in float32", "B", lambda call: run.peak(plain(call)), "MB"),
            Field("Peak", "B", run.peak, "MB"),
            Field("Predicted", "B", lambda call: predicted_peak(run, call), "MB"),
            Field("Saved", "1", lambda call: run.saved(call, plain(call)), "%"),
        ],
        sources=(run.file,),
        wide=True,
    )


def _accuracy(run: Run) -> Table:
    """Accuracy and loss of one trained network in each precision, paired over the images."""
    precisions: tuple[Precision, ...] = ("float32", *REDUCED)
    rows = [(dataset, precision) for dataset in scores.datasets(run) for precision in precisions]

    def images(row: tuple[str, Precision]) -> Cell:
        found = scores.score(run, *row, "image_correct")
        return found if isinstance(found, Missing) else len(found)

    def changed(get: Callable[..., Quantity]) -> Callable[[tuple[str, Precision]], Content]:
        return lambda row: "base" if row[1] == "float32" else get(run, *row)

    return table(
        "tbl-accuracy",
        rows,
        [
            Field("Images", "", lambda row: row[0]),
            Field("Precision", "", lambda row: row[1]),
            Field("Number", "1", images),
            Field("Accuracy", "1", lambda row: scores.mean_score(run, *row, "image_correct"), "%"),
            Field("Change of accuracy", "1", changed(scores.accuracy_change), "%"),
            Field("Loss", "1", lambda row: scores.mean_score(run, *row, "image_loss")),
            Field("Change of loss", "1", changed(scores.loss_change)),
        ],
        sources=(run.file,),
        wide=True,
    )


def _both(run: Run) -> Table:
    """Time and peak of the four settings of each ResNet."""
    ways = {"AMP": with_amp, "layout": with_layout, "both": with_both}

    def time(name: str) -> Field[Call]:
        return Field(f"Time, {name}", "s", lambda b: run.time(ways[name](run, b)), "ms")

    def saved(name: str) -> Field[Call]:
        return Field(f"Saved, {name}", "1", lambda b: run.saved(ways[name](run, b), b), "%")

    return table(
        "tbl-amp",
        both_bases(run),
        [
            NETWORK,
            BATCH,
            Field("Base time", "s", run.time, "ms"),
            time("both"),
            Field("Base peak", "B", run.peak, "MB"),
            *map(saved, ways),
            Field("Saved, theory", "1", lambda base: needed_saved(run, base), "%"),
        ],
        sources=(run.file,),
        wide=True,
    )


# ----------------------------------------------------------------------------- tiles, settings


def _tiles(run: Run) -> Table:
    """Theory and measurement of every tile size and form, below the call without tiles."""
    tiled = sorted(tiled_calls(run), key=lambda c: (TILED.index(c.execution), c.tile or 0))
    rows = [*dict.fromkeys(map(plain, tiled)), *tiled]

    def theory(get: Callable[[Cost], float], whole: Content) -> Callable[[Call], Content]:
        def found(call: Call) -> Content:
            if call.tile is None:
                return whole
            cost = call_cost(run, call)
            return cost if isinstance(cost, Missing) else get(cost)

        return found

    def needed(call: Call) -> Content:
        return theory(lambda cost: cost.needed, run.needed(plain(call)))(call)

    def form(call: Call) -> str:
        return EXECUTION_NAMES[call.execution] if call.tile else "whole maps"

    return table(
        "tbl-tiling",
        rows,
        [
            Field("Patches through", "", form),
            Field("Tile", "", lambda call: str(call.tile or "none")),
            Field("Tiles", "1", theory(lambda cost: cost.tiles, 1)),
            Field("Work", "1", theory(lambda cost: cost.work, 1)),
            Field("Bytes read", "1", theory(lambda cost: cost.read, 1)),
            Field("Needed", "B", needed, "MB"),
            Field("Time", "s", run.time, "ms"),
            Field("Peak", "B", run.peak, "MB"),
        ],
        sources=(run.file,),
        wide=True,
    )
