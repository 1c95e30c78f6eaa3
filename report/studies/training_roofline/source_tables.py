"""The tables of theory and of the source; their captions stand in the template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.missing import Missing
from report.paper.declared import Content, Field, table
from report.paper.findings import Inputs
from report.paper.tables import Cell, Table
from report.studies.training_roofline.corrected import Corrected
from report.studies.training_roofline.measured import Run, copy_mark
from report.studies.training_roofline.source import CPU, RTX, T4, Row, row, rows
from report.studies.training_roofline.subject import HEAVY
from report.studies.training_roofline.theory import (
    GIGA,
    MEGA,
    SOURCE_BATCH,
    TERA,
    Complexity,
    known_roof,
    own_sheet,
    printed_roof,
)
from report.theory.roofline import Load, Roof, at_batch, class_loads, operator_class, total
from report.theory.work import flops

_NOT_PRINTED: Final = Missing("not printed in the source")


def _printed(item: Row | None, key: str, factor: float) -> Cell:
    number = item.printed(key) if item else None
    if number is None:
        return _NOT_PRINTED
    whole = number.number * factor
    return round(whole) if factor == MEGA else whole


def complexity_table(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """Parameters and operations, by shapes and as printed."""

    def printed(key: str, factor: float) -> Callable[[str], Cell]:
        return lambda n: _printed(row(inputs.reported, "complexity", network=n), key, factor)

    def of(get: Callable[[Complexity], Cell]) -> Callable[[str], Cell]:
        return lambda network: get(complexities[network])

    return table(
        "tbl-complexity",
        complexities,
        [
            Field("Network", "", lambda network: network),
            Field("Parameters", "1", of(lambda c: c.parameters)),
            Field("Parameters, printed", "1", printed("parameters", MEGA)),
            Field("Multiply-adds", "MAC", of(lambda c: c.macs), "GMAC"),
            Field("Forward", "FLOP", of(lambda c: flops(c.macs)), "GFLOP"),
            Field("Forward, printed", "FLOP", printed("forward", GIGA), "GFLOP"),
            Field("Training", "FLOP", of(lambda c: c.training), "GFLOP"),
            Field("Training, printed", "FLOP", printed("training", GIGA), "GFLOP"),
            Field("Training / forward", "1", of(lambda c: c.training / flops(c.macs))),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def intensity_table(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """Intensity of a whole step under both models of traffic, beside the printed one."""

    def image(load: Callable[[Complexity], Load]) -> Callable[[str], Cell]:
        return lambda network: load(complexities[network]).bytes / SOURCE_BATCH

    def intensity(load: Callable[[Complexity], Load]) -> Callable[[str], Cell]:
        return lambda network: load(complexities[network]).intensity

    def printed(network: str) -> Cell:
        return _printed(row(inputs.reported, "bound", network=network), "intensity", 1)

    return table(
        "tbl-intensity",
        complexities,
        [
            Field("Network", "", lambda network: network),
            Field("Layer by layer", "B", image(Complexity.layerwise), "MB"),
            Field("Intensity", "FLOP/B", intensity(Complexity.layerwise)),
            Field("Perfect cache", "B", image(Complexity.cached), "MB"),
            Field("Its intensity", "FLOP/B", intensity(Complexity.cached)),
            Field("Printed", "FLOP/B", printed),
        ],
        sources=(inputs.reported_file,),
    )


def class_table(complexities: dict[str, Complexity]) -> Table:
    """Where the work and the traffic of a step are, by operator class."""
    found: list[tuple[str, str, int, Load, Load]] = []
    for name, of in complexities.items():
        layers = at_batch(of.layers, SOURCE_BATCH)
        kinds = [operator_class(layer) for layer in layers]
        loads = class_loads(layers)
        whole = total(loads.values())
        found += [
            (name, kind, kinds.count(kind), load, whole)
            for kind, load in loads.items()
            if load.bytes
        ]
    return table(
        "tbl-classes",
        found,
        [
            Field("Network", "", lambda r: r[0]),
            Field("Class", "", lambda r: r[1]),
            Field("Layers", "1", lambda r: r[2]),
            Field("Operations", "1", lambda r: r[3].flops / r[4].flops or "none", "%"),
            Field("Traffic", "1", lambda r: r[3].bytes / r[4].bytes, "%"),
            Field("Intensity", "FLOP/B", lambda r: r[3].intensity if r[3].flops else "none"),
        ],
    )


def ridge_table(inputs: Inputs, runs: Sequence[Run]) -> Table:
    """Peaks, bandwidths and ridge points: printed, of data sheets, measured."""
    sheets = [(name, "printed", printed_roof(inputs, name)) for name in (RTX, T4, CPU)]
    known = ((RTX, "cores and clock"), (T4, "data sheet"))
    sheets += [(n, o, r) for n, o in known if isinstance(r := known_roof(inputs, n), Roof)]
    sheets += [
        (run.label, "data sheet", sheet)
        for run in runs
        if isinstance(sheet := own_sheet(inputs, run), Roof)
    ]
    rows_: list[tuple[str, str, Content, Content, Content]] = [
        (name, origin, roof.peak.value, roof.bandwidth.value, roof.ridge.value)
        for name, origin, roof in sheets
    ]
    for run in runs:
        for precision in run.precisions:
            peak, copy = run.peak(precision), run.copy()
            rows_.append((run.label, f"measured, {precision}", peak, copy, peak / copy))
    return table(
        "tbl-ridges",
        rows_,
        [
            Field("Device", "", lambda r: r[0]),
            Field("Origin", "", lambda r: r[1]),
            Field("Arithmetic", "FLOP/s", lambda r: r[2], "GFLOP/s"),
            Field("Bandwidth", "B/s", lambda r: r[3], "GB/s"),
            Field("Ridge", "FLOP/B", lambda r: r[4]),
        ],
        notes=tuple(
            f"{run.label}: {note}"
            for run in runs
            for note in copy_mark(run)
            if not isinstance(run.roof(), Missing)
        ),
        sources=(inputs.reported_file, *(run.file for run in runs)),
    )


def corrected_table(inputs: Inputs, cases: Sequence[Corrected]) -> Table:
    """Printed and corrected rates and efficiencies side by side."""
    return table(
        "tbl-corrected",
        cases,
        [
            Field("Device", "", lambda case: case.device),
            Field("Network", "", lambda case: case.network),
            Field("Batch", "1", lambda case: case.batch),
            # Without digits that the source does not print.
            Field("Images / s", "1", lambda c: int(c.images) if c.images % 1 == 0 else c.images),
            Field("Printed", "FLOP/s", lambda c: f"{c.printed_rate / TERA:g}", "TFLOP/s"),
            Field("Efficiency", "1", lambda c: f"{100 * c.printed_efficiency:g}", "%"),
            Field("Corrected", "FLOP/s", lambda case: case.rate, "TFLOP/s"),
            Field("Of printed peak", "1", lambda case: case.of_printed, "%"),
            Field("Of known peak", "1", lambda case: case.of_known, "%"),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def anchor_table(inputs: Inputs, complexities: dict[str, Complexity]) -> Table:
    """What NVIDIA publishes of ResNet-50, with the utilisation that it means."""
    work = complexities[HEAVY].training

    def rate(item: Row) -> float:
        return work * float(item.number_of("throughput").number)

    def peak(item: Row) -> float:
        return float(item.number_of("peak").number) * TERA

    return table(
        "tbl-anchors",
        rows(inputs.reported, "anchors"),
        [
            Field("Device", "", lambda item: item.text("device")),
            Field("Precision", "", lambda item: item.text("precision")),
            Field("Images / s", "1", lambda item: float(item.number_of("throughput").number)),
            Field("Peak", "FLOP/s", peak, "TFLOP/s"),
            Field("Rate", "FLOP/s", rate, "TFLOP/s"),
            Field("Utilisation", "1", lambda item: rate(item) / peak(item), "%"),
        ],
        sources=(inputs.reported_file,),
    )
