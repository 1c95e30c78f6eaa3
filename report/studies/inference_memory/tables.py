"""The tables of inference_memory; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence.reported import Cell as ReportedCell
from report.evidence.reported import Unreported
from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.declared import Content, Field, table
from report.paper.environments import setup
from report.paper.findings import Download, Inputs
from report.paper.tables import Cell, Table, to_csv
from report.quantity.evaluation import level, point
from report.quantity.expression import Quantity, recorded
from report.quantity.operations import first_within, level_of_largest
from report.records.layers import Convolution, Layer, Linear
from report.studies.inference_memory import faults, scores
from report.studies.inference_memory.choices import (
    Best,
    Decision,
    best,
    compared_base,
    decisions,
    published_networks,
    reported_speedups,
    speedup,
)
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import (
    Parts,
    exact_peaks,
    foretold,
    largest_predicted,
    limit,
    off,
    parts,
    predicted_growth,
    predicted_peak,
    reconciled,
)
from report.studies.inference_memory.source import checks
from report.studies.inference_memory.subject import (
    EXECUTION_NAMES,
    LAYOUT_NAMES,
    LAYOUTS,
    REDUCED,
    TILED,
    Call,
    Precision,
)
from report.studies.inference_memory.sweeps import (
    ENOUGH,
    best_call,
    both_bases,
    failed_calls,
    fused_bases,
    limited_calls,
    pairs,
    plain,
    rates,
    sweep,
    swept,
    tiled_calls,
    with_amp,
    with_both,
    with_layout,
)
from report.studies.inference_memory.tilings import Cost, call_cost
from report.studies.inference_memory.traces import KINDS, Traced
from report.studies.inference_memory.values import needed_saved
from report.theory.liveness import Held
from report.theory.memory import activation_bytes
from report.theory.shapes import parameter_count
from report.theory.work import forward_macs
from report.theory.workspaces import Layout

#: The batch sizes of the table beside the smallest and the largest one; the download has all.
_SHOWN: Final = frozenset({8, 64})
_NETWORK: Final[Field[Call]] = Field("Network", "", lambda call: call.network)
_BATCH: Final[Field[Call]] = Field("Batch", "1", lambda call: call.batch)
_LAYOUT: Final[Field[Call]] = Field("Layout", "", lambda call: LAYOUT_NAMES[call.layout])
_SETTING: Final[Field[Call]] = Field("Setting", "", lambda call: call.setting)


def all_tables(
    inputs: Inputs, runs: Sequence[Run], primary: Run | None, traced: Sequence[Traced]
) -> Iterator[Table]:
    """Every table that the data have; those without a row are left out."""
    yield _networks(inputs, runs)
    yield setup(inputs, runs)
    yield audit_table("tbl-audit", "", checks(inputs.reported), (inputs.reported_file,))
    found = [batch_table(run, _shown(run), f"tbl-batches-{run.key}") for run in runs]
    if primary is not None:
        found += _of_primary(inputs, primary)
        found.append(_operators(primary, traced))
    yield from (each for each in found if each.rows)


def _of_primary(inputs: Inputs, run: Run) -> Iterator[Table]:
    yield _knees(run)
    yield _peaks(run)
    yield _agreement(run)
    yield _limits(run)
    yield _failures(run)
    yield _faults(run)
    yield _precision(run)
    yield _accuracy(run)
    yield _both(run)
    yield _tiles(run)
    yield _fusion(run)
    yield _published(inputs, run)
    yield _decisions(run)


# ------------------------------------------------------------------------------------ networks


@dataclass(frozen=True)
class _Network:
    """A network as it ran and as published."""

    name: str
    layers: tuple[Layer, ...]
    parameters: Cell
    macs: Cell

    def own(self, get: Callable[[tuple[Layer, ...]], Cell]) -> Cell:
        """What ``get`` makes of the layers that ran."""
        return get(self.layers) if self.layers else _NO_SHAPES


_NO_SHAPES: Final = Missing("no record holds the shapes of this network")


def network_layers(runs: Sequence[Run], network: str) -> tuple[Layer, ...]:
    """The layers of a network on its smallest images at its smallest batch, or none."""
    for run in runs:
        calls = [call for call in run.chosen(network=network) if call.tile is None]
        for call in sorted(calls, key=lambda call: (call.image, call.batch)):
            layers = run.layers(call.factors)
            if not isinstance(layers, Missing):
                return layers
    return ()


def _networks(inputs: Inputs, runs: Sequence[Run]) -> Table:
    """Depth, parameters and multiply-adds, own and published."""
    printed = inputs.reported.table("networks")
    names, columns = printed.column("network"), map(printed.column, ("parameters", "macs"))
    rows = [
        _Network(str(name), network_layers(runs, str(name)), _millions(p), _millions(m))
        for name, p, m in zip(names, *columns, strict=True)
    ]
    return table(
        "tbl-networks",
        rows,
        [
            Field("Network", "", lambda row: row.name),
            Field("Image", "", lambda row: _image(row.layers)),
            Field("Layers", "1", lambda row: row.own(_weighted)),
            Field("Parameters", "1", lambda row: row.own(lambda ls: sum(map(parameter_count, ls)))),
            Field("Published", "1", lambda row: row.parameters),
            Field("Multiply-adds", "MAC", lambda row: row.own(_macs), "MMAC"),
            Field("Published ", "MAC", lambda row: row.macs, "MMAC"),
            Field("Maps", "B", lambda row: row.own(_maps), "MB"),
        ],
        notes=(f"Published by: {_origins(inputs)}.",),
        sources=(inputs.reported_file, *(run.file for run in runs)),
        wide=True,
    )


def _image(layers: tuple[Layer, ...]) -> str:
    return "×".join(map(str, layers[0].input_shape[1:])) if layers else ""


def _weighted(layers: tuple[Layer, ...]) -> int:
    return sum(isinstance(layer, Convolution | Linear) for layer in layers)


def _macs(layers: tuple[Layer, ...]) -> int:
    return forward_macs(layers) // layers[0].input_shape[0]


def _maps(layers: tuple[Layer, ...]) -> int:
    return sum(map(activation_bytes, layers)) // layers[0].input_shape[0]


def _millions(cell: ReportedCell) -> Cell:
    """A number printed in millions, in units of one."""
    if isinstance(cell, int | float):
        return round(cell * 1e6)
    return Missing(cell.missing if isinstance(cell, Unreported) else "not a number")


def _origins(inputs: Inputs) -> str:
    printed = inputs.reported.table("networks")
    by_origin: dict[str, list[str]] = {}
    for name, where in zip(printed.column("network"), printed.column("where"), strict=True):
        if where != "none":
            by_origin.setdefault(str(where), []).append(str(name))
    return "; ".join(f"{where} ({', '.join(names)})" for where, names in by_origin.items())


# --------------------------------------------------------------------------------- batch sizes


def _shown(run: Run) -> list[Call]:
    sweeps = [sweep(run, network) for network in run.networks()]
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
            _NETWORK,
            _BATCH,
            _LAYOUT,
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


@dataclass(frozen=True)
class _Knee:
    """The smallest batch that is large enough, and the best one."""

    knee: Call
    best: Call


def _knees(run: Run) -> Table:
    """From which batch size on more of it stops paying, by network and layout."""
    rows = []
    for network in swept(run):
        for layout in LAYOUTS:
            calls = {call.batch: call for call in sweep(run, network, layout)}
            if found := rates(run, network, layout):
                knee, top = first_within(found, ENOUGH, "1"), level_of_largest(found, "1")
                rows.append(_Knee(calls[level(knee)], calls[level(top)]))
    return table(
        "tbl-knees",
        rows,
        [
            Field("Network", "", lambda row: row.knee.network),
            Field("Layout", "", lambda row: LAYOUT_NAMES[row.knee.layout]),
            Field("Knee", "1", lambda row: row.knee.batch),
            Field("Rate", "image/s", lambda row: run.image_rate(row.knee)),
            Field("Time", "s", lambda row: run.time(row.knee), "ms"),
            Field("Peak", "B", lambda row: run.peak(row.knee), "MB"),
            Field("Best batch", "1", lambda row: row.best.batch),
            Field("Best rate", "image/s", lambda row: run.image_rate(row.best)),
            Field("Peak at best", "B", lambda row: run.peak(row.best), "MB"),
        ],
        sources=(run.file,),
        wide=True,
    )


# -------------------------------------------------------------------------------------- memory


def _peaks(run: Run) -> Table:
    """The parts of the predicted peak of each network at its largest batch, both layouts."""
    found = (largest_predicted(run, n, y) for n in run.networks() for y in LAYOUTS)
    calls = [call for call in found if call is not None]

    def held(call: Call) -> Held:
        at = run.predicted(call)
        assert isinstance(at, Held)
        return at

    def part(name: str, get: Callable[[Parts], int]) -> Field[Call]:
        return Field(name, "B", lambda call: get(parts(held(call))), "MB")

    def measured(call: Call) -> int | Missing:
        return run.fixed("allocated_peak", call.factors)

    def left(call: Call) -> Cell:
        size = measured(call)
        return size if isinstance(size, Missing) else size - held(call).total

    unknown = [f"{c.network}, {LAYOUT_NAMES[c.layout]}" for c in calls if not held(c).complete]
    note = f"The layer's workspace is unknown and left out: {'; '.join(unknown)}."
    return table(
        "tbl-peaks",
        calls,
        [
            _NETWORK,
            _BATCH,
            _LAYOUT,
            Field("At layer", "", lambda call: held(call).layer),
            part("Before", lambda p: p.before),
            part("Tensors", lambda p: p.tensors),
            part("Held", lambda p: p.held),
            part("Workspace", lambda p: p.workspace),
            Field("Sum", "B", lambda call: held(call).total, "MB"),
            Field("Measured", "B", measured, "MB"),
            Field("Residual", "B", left),
        ],
        notes=(note,) * bool(unknown),
        sources=(run.file,),
        wide=True,
    )


def _agreement(run: Run) -> Table:
    """How far theory is off, for each network and layout over its batch sizes."""
    by_row: dict[tuple[str, Layout], list[Call]] = {}
    for call in reconciled(run):
        by_row.setdefault((call.network, call.layout), []).append(call)

    def worst(calls: Sequence[Call]) -> Call:
        return max(calls, key=lambda call: abs(point(off(run, reconciled(run)[call])) or 0))  # type: ignore[arg-type]

    rows = [row for n in run.networks() for y in LAYOUTS if (row := by_row.get((n, y)))]
    return table(
        "tbl-agreement",
        rows,
        [
            Field("Network", "", lambda row: row[0].network),
            Field("Layout", "", lambda row: LAYOUT_NAMES[row[0].layout]),
            Field("Smallest", "1", lambda row: row[0].batch),
            Field("Largest", "1", lambda row: row[-1].batch),
            Field("Cases", "1", lambda row: sum(1 for _ in row)),
            Field("Exact", "1", lambda row: exact_peaks(reconciled(run)[call] for call in row)),
            Field("Residual", "B", lambda row: reconciled(run)[worst(row)].residual),
            Field("Of measured", "1", lambda row: off(run, reconciled(run)[worst(row)]), "%"),
        ],
        sources=(run.file,),
        wide=True,
    )


def _limits(run: Run) -> Table:
    """What calls under a limit allocate, and whether they fit as predicted."""
    right = foretold(run)

    def outcome(call: Call) -> Cell:
        return "out of memory" if run.ran_out(call) else "ran" if call in right else "–"

    return table(
        "tbl-limit",
        limited_calls(run),
        [
            _NETWORK,
            _SETTING,
            _BATCH,
            Field("Limit", "B", limit, "MB"),
            Field("Predicted growth", "B", lambda call: predicted_growth(run, call), "MB"),
            Field("Outcome", "", outcome),
            Field("Foretold", "", lambda c: {True: "yes", False: "no"}.get(right.get(c), "–")),  # type: ignore[arg-type]
        ],
        sources=(run.file,),
        wide=True,
    )


def _failures(run: Run) -> Table:
    """Every unlimited call that ran out of memory, with what it needs and what there is."""
    return table(
        "tbl-failures",
        failed_calls(run),
        [
            _NETWORK,
            _BATCH,
            _SETTING,
            Field("Predicted peak", "B", lambda call: predicted_peak(run, call), "GB"),
            Field("Memory", "B", lambda _: run.machine_memory, "GB"),
        ],
        sources=(run.file,),
    )


def _faults(run: Run) -> Table:
    """Predicted and counted page faults of each call with large blocks."""
    returned = run.returned()

    def slower(call: Call) -> Quantity:
        return returned.image_time_ratio(call, best_call(run, call.network))

    def ratio(call: Call) -> Quantity:
        expected = recorded("pages of the blocks", "1", faults.predicted_faults(run, call))
        return faults.counted_faults(run, call) / expected

    return table(
        "tbl-faults",
        faults.told(run),
        [
            _NETWORK,
            _BATCH,
            _SETTING,
            Field("Blocks", "1", lambda call: len(faults.large_blocks(run, call))),
            Field("Predicted", "1", lambda call: faults.predicted_faults(run, call)),
            Field("Counted ÷ predicted", "1", ratio),
            Field("Time of an image", "1", slower),
        ],
        sources=(run.file,),
        wide=True,
    )


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
            _BATCH,
            Field("Time in float32", "s", lambda call: run.time(plain(call)), "ms"),
            Field("Time", "s", run.time, "ms"),
            Field("Time ratio", "1", lambda call: run.time_ratio(call, plain(call))),
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
        return Field(f"Time, {name}", "1", lambda b: run.time_ratio(ways[name](run, b), b))

    def saved(name: str) -> Field[Call]:
        return Field(f"Saved, {name}", "1", lambda b: run.saved(ways[name](run, b), b), "%")

    return table(
        "tbl-amp",
        both_bases(run),
        [
            _NETWORK,
            _BATCH,
            Field("Base time", "s", run.time, "ms"),
            *map(time, ways),
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
            Field("Time ratio", "1", lambda c: run.time_ratio(c, plain(c)) if c.tile else 1),
            Field("Peak", "B", run.peak, "MB"),
        ],
        sources=(run.file,),
        wide=True,
    )


def _operators(run: Run, traced: Sequence[Traced]) -> Table:
    """The share of each kind of work in the time of one call."""

    def share(kind: str) -> Field[Traced]:
        return Field(kind, "1", lambda row: row.times()[kind] / row.total if row.total else 0, "%")

    return table(
        "tbl-operators",
        traced,
        [
            Field("Network", "", lambda row: row.call.network),
            Field("Batch", "1", lambda row: row.call.batch),
            Field("Layout", "", lambda row: LAYOUT_NAMES[row.call.layout]),
            Field("Operators", "s", lambda row: row.total / 1e9, "ms"),
            *(share(kind) for kind, _ in KINDS),
        ],
        sources=(run.file,),
        wide=True,
    )


def _fusion(run: Run) -> Table:
    """Speed-ups by folding, compiling and layout alone, each over the plain call."""

    def as_(execution: str, layout: Layout = "contiguous") -> Callable[[Call], Call]:
        return lambda b: Call(b.network, b.image, b.batch, layout, execution=execution)  # type: ignore[arg-type]

    def gained(name: str, change: Callable[[Call], Call]) -> Field[Call]:
        return Field(name, "1", lambda base: speedup(run, change(base)))

    compiled = as_("compiled")
    return table(
        "tbl-fusion",
        fused_bases(run),
        [
            _NETWORK,
            _BATCH,
            Field("Plain", "s", run.time, "ms"),
            gained("Channels last", as_("eager", "channels_last")),
            gained("Folded", as_("folded")),
            gained("Folded, channels last", as_("folded", "channels_last")),
            gained("Compiled", compiled),
            Field("First call", "s", lambda base: run.count("first_call_time", compiled(base))),
        ],
        sources=(run.file,),
        wide=True,
    )


def _published(inputs: Inputs, run: Run) -> Table:
    """Published speed-ups beside those of the best setting here."""
    printed, no_number = reported_speedups(inputs), Missing("no number is printed")

    def base(get: Callable[[Call], Content]) -> Callable[[str], Content]:
        def found(network: str) -> Content:
            call = compared_base(run, network)
            return Missing(f"no call of it was timed on {run.label}") if call is None else get(call)

        return found

    def own(get: Callable[[Best], Content], *, same: bool) -> Callable[[str], Content]:
        def found(network: str) -> Content:
            made = best(run, network, same_precision=same)
            return made if isinstance(made, Missing) else get(made)

        return found

    return table(
        "tbl-published",
        published_networks(inputs, run),
        [
            Field("Network", "", lambda network: network),
            Field("Published", "1", lambda network: printed.get(network, no_number)),
            Field("Batch", "1", base(lambda call: call.batch)),
            Field("Plain", "s", base(run.time), "ms"),
            Field("In float32", "1", own(lambda made: made.gain, same=True)),
            Field("By", "", own(lambda made: made.call.setting, same=True)),
            Field("In any precision", "1", own(lambda made: made.gain, same=False)),
            Field("By ", "", own(lambda made: made.call.setting, same=False)),
        ],
        sources=(inputs.reported_file, run.file),
        wide=True,
    )


def _decisions(run: Run) -> Table:
    """For each network and goal the best setting, what it takes, and what it gains."""

    def of_call(get: Callable[[Call], Content]) -> Callable[[Decision], Content]:
        return lambda made: get(made.call)

    return table(
        "tbl-decisions",
        decisions(run),
        [
            Field("Network", "", of_call(lambda call: call.network)),
            Field("Goal", "", lambda made: made.goal),
            Field("Batch", "1", of_call(lambda call: call.batch)),
            Field("Setting", "", of_call(lambda call: call.setting)),
            Field("Time", "s", of_call(run.time), "ms"),
            Field("Rate", "image/s", of_call(run.image_rate)),
            Field("Peak", "B", of_call(run.peak), "MB"),
            Field("Gain", "1", lambda made: made.gain),
            Field("Clear", "", lambda made: "yes" if made.clear else "no"),
        ],
        notes=("Clear: above one at the level that all settings share; bytes have no interval.",),
        sources=(run.file,),
        wide=True,
    )
