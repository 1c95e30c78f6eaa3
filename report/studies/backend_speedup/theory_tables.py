"""The tables of backend_speedup that need no run: both networks, theory, and the source."""

from __future__ import annotations

from typing import Final

from report.evidence.audit import Printed, printed_value
from report.missing import Missing
from report.paper.audit_table import audit_table
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.records.layers import ELEMENT_BYTES
from report.studies.backend_speedup.decomposed import intensity, iteration_bound, kind_bound
from report.studies.backend_speedup.measured import NUMPY, Run
from report.studies.backend_speedup.source import (
    OPERATION_ROWS,
    PERFORMANCE_ROWS,
    SIDES,
    audit,
    cell,
    count,
    text,
)
from report.studies.backend_speedup.subject import (
    KIND_NAMES,
    NETWORK_NAMES,
    Kind,
    Network,
    Setting,
    activation_count,
    forward_macs,
    kinds,
    parameter_count,
    total,
)

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")


def networks() -> Table:
    """Both networks in numbers."""
    return Table(
        "tbl-networks",
        "Both networks in numbers, from their shapes. Work is that of an image; training adds the "
        "gradients, without the one of the input.",
        (
            Column("Network"),
            Column("Convolutions", "1"),
            Column("Parameters", "1"),
            Column("Forward", "MAC"),
            Column("Training", "MAC"),
            Column("Kept elements", "1"),
        ),
        tuple(_network_row(network) for network in NETWORK_NAMES),
        notes=("Kept elements: what the forward pass of an image leaves for the backward pass.",),
    )


def _network_row(network: Network) -> tuple[Cell, ...]:
    one = Setting("scaling", network, "float32", 1, "")
    return (
        NETWORK_NAMES[network],
        int(network == "convnet"),
        parameter_count(network),
        forward_macs(network),
        total(one).macs,
        activation_count(one),
    )


def operations_theory(inputs: Inputs, primary: Run | None) -> Table:
    """Work, bytes, intensity and bound of each kind of operation, at the source's size."""
    setting = source_setting(inputs)
    rows = [_theory_row(setting, kind, primary) for kind in kinds("perceptron")]
    step = total(setting)
    size = ELEMENT_BYTES[setting.dtype]
    bound = NO_RECORD if primary is None else iteration_bound(primary, setting, NUMPY)
    rows.append(
        (
            "Iteration",
            step.flops,
            size * step.elements,
            step.flops / (size * step.elements),
            bound,
        )
    )
    return Table(
        "tbl-operations-theory",
        "What one training iteration of the perceptron has to do at the number of images of the "
        "source, by kinds of operations: work, bytes that must move, intensity, and the least time "
        "at the rates of the processor.",
        (
            Column("Operations"),
            Column("Work", "FLOP", "MFLOP"),
            Column("Traffic", "B", "MB"),
            Column("Intensity", "FLOP/B"),
            Column("Least time", "s", "ms"),
        ),
        tuple(rows),
        notes=(
            "Traffic: every operand and every result once, in float32.",
            *(
                (f"Least time: on {primary.label}.",)
                if primary and not isinstance(bound, Missing)
                else ()
            ),
        ),
        sources=(inputs.reported_file, *((primary.file,) if primary else ())),
    )


def _theory_row(setting: Setting, kind: Kind, run: Run | None) -> tuple[Cell, ...]:
    step = total(setting, kind)
    return (
        KIND_NAMES[kind],
        step.flops,
        ELEMENT_BYTES[setting.dtype] * step.elements,
        intensity(setting, kind),
        NO_RECORD if run is None else kind_bound(run, setting, kind, NUMPY),
    )


def source_setting(inputs: Inputs) -> Setting:
    """The source's training, as theory takes it: float32, all its training images."""
    return Setting("training", "perceptron", "float32", count(inputs.reported, "training"), "mnist")


# ------------------------------------------------------------------------------------- source


def source_performance(inputs: Inputs) -> Table:
    """The source's Tables 3 and 4 in one, with the decimals of the print."""
    totals = [printed_value(inputs.reported, f"total_{name}") for name in _TOTALS]
    rows: list[tuple[Cell, ...]] = [("Whole training (s)", *map(text, totals))]
    for table, names in (("3", PERFORMANCE_ROWS), ("4", OPERATION_ROWS)):
        for row, name in names.items():
            cells = (cell(inputs.reported, table, row, side) for side in (*SIDES, "speedup"))
            rows.append((name, *map(text, cells)))
    return Table(
        "tbl-source-performance",
        "What the source reports of times, with its own speed-ups.",
        (
            Column("Quantity"),
            Column("CPU, NumPy", "ms"),
            Column("GPU, CuPy", "ms"),
            Column("Speed-up", "1"),
        ),
        tuple(rows),
        notes=("The whole training is in seconds.",),
        sources=(inputs.reported_file,),
    )


_TOTALS: Final = ("time_cpu", "time_gpu", "speedup")


def audited(inputs: Inputs) -> Table:
    """Every derived number of the source beside what its formula gives."""
    return audit_table(
        "tbl-audit",
        "The derived numbers of the source, computed again from the numbers beside them or from "
        "shapes.",
        audit(inputs.reported),
        (inputs.reported_file,),
    )


def source_memory_rows(inputs: Inputs, name: str) -> tuple[Printed, Printed]:
    """A component as the source prints it for its CPU and its GPU, in MB."""
    cpu, gpu = (cell(inputs.reported, "5", name, side) for side in SIDES)
    return cpu, gpu
