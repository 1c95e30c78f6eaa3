"""The tables of theory and of the source; their captions stand in the template."""

from __future__ import annotations

from typing import Final

from report.evidence.audit import printed_value
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.images import DataSet
from report.paper.tables import Cell, Table
from report.records.layers import ELEMENT_BYTES
from report.studies.backend_speedup.getters import NO_RECORD
from report.studies.backend_speedup.measured import NUMPY, Run
from report.studies.backend_speedup.source import (
    OPERATION_ROWS,
    PERFORMANCE_ROWS,
    SIDES,
    cell,
    data_set_number,
    text,
)
from report.studies.backend_speedup.subject import (
    KIND_NAMES,
    NETWORK_NAMES,
    PIXELS,
    Kind,
    Network,
    Setting,
    activation_count,
    forward_macs,
    kinds,
    parameter_count,
    total,
)
from report.studies.backend_speedup.theory import least, source_setting

_DATA_SETS: Final = {"digits": "Digits, this study", "mnist": "MNIST, this study"}


def network_table() -> Table:
    """Both networks in numbers."""

    def one(network: Network) -> Setting:
        return Setting("scaling", network, "float32", 1, "")

    rows: list[Network] = list(NETWORK_NAMES)
    return table(
        "tbl-networks",
        rows,
        [
            Field("Network", "", lambda network: NETWORK_NAMES[network]),
            Field("Convolutions", "1", lambda network: int(network == "convnet")),
            Field("Parameters", "1", _parameters),
            Field("Forward", "MAC", forward_macs),
            Field("Training", "MAC", lambda network: total(one(network)).macs),
            Field("Kept elements", "1", lambda network: activation_count(one(network))),
        ],
        notes=("Kept elements: what the forward pass of an image leaves for the backward pass.",),
    )


def _parameters(network: Network) -> int:
    return parameter_count(network)


def operations_theory_table(inputs: Inputs, primary: Run | None) -> Table:
    """Work, bytes, intensity and bound of each kind of operation, at the source's size."""
    setting = source_setting(inputs)
    size = ELEMENT_BYTES[setting.dtype]
    rows: list[Kind | None] = [*kinds("perceptron"), None]

    def moved(kind: Kind | None) -> int:
        return size * total(setting, kind).elements

    def bound(kind: Kind | None) -> Cell:
        return NO_RECORD if primary is None else least(primary, setting, NUMPY, kind)

    return table(
        "tbl-operations-theory",
        rows,
        [
            Field("Operations", "", lambda kind: KIND_NAMES[kind] if kind else "Iteration"),
            Field("Work", "FLOP", lambda kind: total(setting, kind).flops, "MFLOP"),
            Field("Traffic", "B", moved, "MB"),
            Field("Intensity", "FLOP/B", lambda kind: total(setting, kind).flops / moved(kind)),
            Field("Least time", "s", bound, "ms"),
        ],
        notes=("Traffic: every operand and every result once, in float32.",),
        sources=(inputs.reported_file, *((primary.file,) if primary else ())),
    )


def source_performance_table(inputs: Inputs) -> Table:
    """The source's Tables 3 and 4 in one, with the decimals of the print."""
    names = ("total_time_cpu", "total_time_gpu", "total_speedup")
    totals = [text(printed_value(inputs.reported, name)) for name in names]
    rows: list[tuple[str, ...]] = [("Whole training, s", *totals)]
    for of, printed in (("3", PERFORMANCE_ROWS), ("4", OPERATION_ROWS)):
        for row, name in printed.items():
            cells = (cell(inputs.reported, of, row, side) for side in (*SIDES, "speedup"))
            rows.append((f"{name}, ms", *map(text, cells)))
    return table(
        "tbl-source-performance",
        rows,
        [
            Field("Quantity", "", lambda row: row[0]),
            Field("CPU, NumPy", "", lambda row: row[1]),
            Field("GPU, CuPy", "", lambda row: row[2]),
            Field("Speed-up", "1", lambda row: row[3]),
        ],
        sources=(inputs.reported_file,),
    )


def data_set_table(inputs: Inputs, images: DataSet | None) -> Table:
    """The source's data set and the one that was learned from here."""
    reported = inputs.reported
    training, held_out = map(reported.count, ("training", "validation"))
    classes = data_set_number(reported, "classes")
    rows = [("MNIST, source", training, held_out, classes)]
    if images is not None:
        name = _DATA_SETS.get(images.name, images.name)
        rows.append((name, images.train, images.test, images.classes))
    note = f"Own images: {images.source}; {images.split}." if images else ""
    return table(
        "tbl-data",
        rows,
        [
            Field("Data set", "", lambda row: row[0]),
            Field("Training", "1", lambda row: row[1]),
            Field("Held out", "1", lambda row: row[2]),
            Field("Classes", "1", lambda row: row[3]),
            Field("As bytes", "B", lambda row: row[1] * PIXELS, "MB"),
            Field("As float32", "B", lambda row: 4 * row[1] * PIXELS, "MB"),
        ],
        notes=(note,) * bool(note),
        sources=(inputs.reported_file,),
        wide=True,
    )
