"""What the source of backend_speedup printed, as numbers and as an audit of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Final

from report.evidence.audit import (
    Check,
    Printed,
    check,
    difference,
    exact,
    printed_column,
    printed_value,
    ratio,
    times,
    total,
)
from report.evidence.reported import Reported
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, named
from report.quantity.expression import exact as leaf
from report.studies.backend_speedup.subject import CLASSES, HIDDEN, PIXELS, parameter_count
from report.text.format import Number

MEGA: Final = 10**6
FLOAT: Final = 4

#: Rows of the source's tables, by what this study calls them.
PERFORMANCE_ROWS: Final = {
    "iteration": "Average time per iteration",
    "forward": "Forward pass time",
    "backward": "Backward pass time",
}
OPERATION_ROWS: Final = {
    "matrix_product": "Matrix multiplication",
    "relu": "ReLU activation",
    "softmax": "Softmax activation",
    "gradient": "Gradient computation",
}
MEMORY_ROWS: Final = {
    "parameters": "Model parameters",
    "input": "Input data",
    "activations": "Intermediate activations",
    "gradients": "Gradient storage",
    "framework": "Framework overhead",
    "total": "Total",
}
_TABLES: Final = {"3": PERFORMANCE_ROWS, "4": OPERATION_ROWS, "5": MEMORY_ROWS}
SIDES: Final = ("cpu", "gpu")


def cell(reported: Reported, table: str, row: str, column: str) -> Printed:
    """One number of the source's Table 3, 4 or 5; raises ``StudyError`` if it is not there."""
    source = reported.table(table)
    names, name = source.column(source.columns[0].key), _TABLES[table][row]
    for found, printed in zip(names, printed_column(source, column), strict=True):
        if found == name and printed is not None:
            return Printed(
                printed.number, printed.decimals, printed.unit, f"{source.place}, {name}, {column}"
            )
    raise reported.fault(f"{source.place}: no number for {name}, {column}")


def text(printed: Printed) -> str:
    """The number with the decimals of the print."""
    return f"{printed.number:.{printed.decimals or 0}f}"


def number(reported: Reported, table: str, row: str, column: str) -> Number:
    """The number of a cell as printed, in the unit of its column."""
    return cell(reported, table, row, column).number


# ------------------------------------------------------------------------------------- audit


def audit(reported: Reported) -> tuple[Check, ...]:
    """Every derived number of the source, computed again from what is printed beside it."""
    return (*_times(reported), *_speedups(reported), *_memory(reported), *_samples(reported))


def _value(reported: Reported) -> Callable[[str], Printed]:
    return lambda id: printed_value(reported, id)


#: The place of both whole times and of their ratio, as ``cell`` names those of other rows.
_TOTAL_TIME: Final = "Table 3, Total training time"


def _total_time(reported: Reported, side: str) -> Printed:
    printed = printed_value(reported, f"total_time_{side}")
    return replace(printed, place=f"{_TOTAL_TIME}, {side}")


def _times(reported: Reported) -> Iterator[Check]:
    of = _value(reported)
    for side in SIDES:
        iteration = cell(reported, "3", "iteration", side)
        yield check(
            _total_time(reported, side),
            "iterations · time of an iteration / 10³",
            lambda n, t: n * t / 1000,
            exact(of("iterations").number, "1", "Section 6.4"),
            iteration,
        )
        passes = (cell(reported, "3", row, side) for row in ("forward", "backward"))
        yield check(iteration, "forward + backward", total, *passes)
        operations = (cell(reported, "4", row, side) for row in OPERATION_ROWS)
        yield check(iteration, "sum of the operations of Table 4", total, *operations)


def _speedups(reported: Reported) -> Iterator[Check]:
    cpu, gpu = (_total_time(reported, side) for side in SIDES)
    total_speedup = replace(
        printed_value(reported, "total_speedup"), place=f"{_TOTAL_TIME}, speedup"
    )
    yield check(total_speedup, "CPU / GPU", ratio, cpu, gpu)
    for table, rows in (("3", PERFORMANCE_ROWS), ("4", OPERATION_ROWS)):
        for row in rows:
            both = (cell(reported, table, row, side) for side in SIDES)
            yield check(cell(reported, table, row, "speedup"), "CPU / GPU", ratio, *both)


def _memory(reported: Reported) -> Iterator[Check]:
    for side in SIDES:
        *parts, whole = (cell(reported, "5", row, side) for row in MEMORY_ROWS)
        yield check(whole, "sum of the components", total, *parts)
    parameters = exact(parameter_count(), "1", "theory: parameters")
    images = exact(data_set_number(reported, "training"), "1", "Table 2, training samples")
    learned = exact(reported.count("training"), "1", "Section 7, training samples")
    pixels = exact(PIXELS, "1", "theory: pixels of an image")
    yield check(
        cell(reported, "5", "parameters", "cpu"), "4 B · parameters / 10⁶", _megabytes, parameters
    )
    yield check(
        cell(reported, "5", "input", "cpu"), "4 B · pixels · images / 10⁶", _megabytes, pixels,
        images,
    )  # fmt: skip
    neurons = exact(2 * (HIDDEN + CLASSES), "1", "theory: Z and A of both layers")
    yield check(
        cell(reported, "5", "activations", "cpu"), "4 B · (Z1, A1, Z2, A2) / 10⁶", _megabytes,
        neurons, learned,
    )  # fmt: skip
    yield check(
        cell(reported, "5", "gradients", "cpu"),
        "4 B · (parameters + (h + k) · images) / 10⁶",
        lambda p, m: FLOAT * (p + (HIDDEN + CLASSES) * m) / MEGA,
        parameters,
        learned,
    )


def _samples(reported: Reported) -> Iterator[Check]:
    of = _value(reported)
    images = exact(data_set_number(reported, "training"), "1", "Table 2, training samples")
    yield check(
        of("training"), "training samples − validation samples", difference, images,
        of("validation"),
    )  # fmt: skip


def _megabytes(*counts: Fraction) -> Fraction:
    return FLOAT * times(*counts) / MEGA


def data_set_number(reported: Reported, column: str) -> int:
    """A whole number of the source's table of data sets."""
    (found,) = reported.table("2").column(column)
    return reported.whole(found, f"Table 2, {column}")


# -------------------------------------------------------------------------------- quantities

#: Unit of the print → the unit of a quantity, and how many of it the printed one has.
_UNITS: Final = {"ms": ("s", Fraction(1, 1000)), "MB": ("B", Fraction(MEGA))}


def printed_number(inputs: Inputs, id: str) -> Quantity:
    """A single number of the source as it is printed, without its rounding."""
    found, printed = inputs.reported.value(id), printed_value(inputs.reported, id)
    return _quantity(inputs, found.name, printed.place, printed)


def printed_cell(inputs: Inputs, table: str, row: str, column: str) -> Quantity:
    """A cell of the source's Table 3, 4 or 5 in the same way, in s, B or without unit."""
    printed = cell(inputs.reported, table, row, column)
    return _quantity(inputs, row, f"Table {table}, {column}", printed)


def printed_data_set(inputs: Inputs, column: str) -> Quantity:
    """A cell of the source's table of data sets in the same way."""
    source = inputs.reported.table("2")
    ((name, unit),) = [(c.name, c.unit or "1") for c in source.columns if c.key == column]
    printed = exact(data_set_number(inputs.reported, column), unit, source.place)
    return _quantity(inputs, name, printed.place, printed)


def _quantity(inputs: Inputs, name: str, place: str, printed: Printed) -> Quantity:
    unit, factor = _UNITS.get(printed.unit, (printed.unit, Fraction(1)))
    words = name[0].lower() + name[1:].replace("_", " ")
    return leaf(f"reported {words}({place})", unit, printed.value * factor, inputs.reported_file)


# ------------------------------------------------------------------------------------ Amdahl


def _times_on_cpu(inputs: Inputs) -> tuple[dict[str, Quantity], Quantity]:
    """The CPU's time of every operation, and their sum."""
    cpu = {row: printed_cell(inputs, "4", row, "cpu") for row in OPERATION_ROWS}
    return cpu, named("sum of operations", reduce(add, cpu.values()))


def amdahl(inputs: Inputs) -> Quantity:
    """The total speed-up that the printed shares and speed-ups of the operations give.

    1 / Σ (fᵢ / sᵢ) with fᵢ the share of operation i in the CPU's time (Amdahl 1967).
    """
    cpu, whole = _times_on_cpu(inputs)
    speedups = {row: printed_cell(inputs, "4", row, "speedup") for row in cpu}
    return 1 / reduce(add, (time / whole / speedups[row] for row, time in cpu.items()))


def amdahl_limit(inputs: Inputs, row: str) -> Quantity:
    """The total speed-up if one operation took no time at all and the others stayed as they are."""
    cpu, whole = _times_on_cpu(inputs)
    return whole / (whole - cpu[row])
