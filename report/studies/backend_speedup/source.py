"""Numbers that the source of backend_speedup printed, and their audit."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from report.evidence.audit import (
    Check,
    Printed,
    check,
    difference,
    exact_number,
    printed_column,
    printed_value,
    ratio,
    times,
    total,
)
from report.paper.findings import Inputs
from report.quantity.expression import Quantity
from report.quantity.expression import exact as leaf
from report.studies.backend_speedup.subject import CLASSES, HIDDEN, PIXELS

#: Rows of the source's tables by their names in this study.
PERFORMANCE: Final = {
    "time": "Average time per iteration",
    "forward_time": "Forward pass time",
    "backward_time": "Backward pass time",
}
OPERATIONS: Final = {
    "matrix_product_time": "Matrix multiplication",
    "relu_time": "ReLU activation",
    "softmax_time": "Softmax activation",
    "gradient_time": "Gradient computation",
}
MEMORY: Final = {
    "parameters": "Model parameters",
    "input": "Input data",
    "activations": "Intermediate activations",
    "gradients": "Gradient storage",
    "framework": "Framework overhead",
    "total": "Total",
}
_TABLES: Final = {"3": PERFORMANCE, "4": OPERATIONS, "5": MEMORY}
_SIDES: Final = ("cpu", "gpu")
#: Factors of formulas: size of an element (MB), a millisecond (s), and arrays kept of a layer.
_ELEMENT: Final = exact_number(4e-6, "MB", "theory: bytes of an element")
_MILLISECOND: Final = exact_number(0.001, "1", "a millisecond in seconds")
_ARRAYS: Final = exact_number(2, "1", "theory: sums and activations")
#: Printed unit → unit of a quantity, and the printed unit in it.
_UNITS: Final = {"ms": ("s", Fraction(1, 1000)), "MB": ("B", Fraction(10**6))}


class Source:
    """Numbers of the source; raises ``StudyError`` for a missing one."""

    def __init__(self, inputs: Inputs) -> None:
        """``inputs`` contain the numbers that the source printed."""
        self.reported, self.file = inputs.reported, inputs.reported_file

    def cell(self, table: str, row: str, column: str) -> Printed:
        """One number of Table 3, 4 or 5 as printed."""
        source = self.reported.table(table)
        names, name = source.column(source.columns[0].key), _TABLES[table][row]
        for row_name, printed in zip(names, printed_column(source, column), strict=True):
            if row_name == name and printed is not None:
                return replace(printed, place=f"{source.place}, {name}, {column}")
        raise self.reported.fault(f"{source.place}: no number for {name}, {column}")

    def number(self, table: str, row: str, column: str) -> Quantity:
        """One number as a quantity, without its rounding, in s, B or without unit."""
        return self._quantity(self.cell(table, row, column))

    def value(self, id: str) -> Quantity:
        """A single number as a quantity, without its rounding."""
        return self._quantity(printed_value(self.reported, id))

    def _quantity(self, printed: Printed) -> Quantity:
        unit, factor = _UNITS.get(printed.unit, (printed.unit, Fraction(1)))
        return leaf(f"reported {printed.place}", unit, printed.value * factor, self.file)

    def audit(self) -> Iterator[Check]:
        """Recompute every derived number from what is printed beside it or from shapes."""
        for side in _SIDES:
            yield from self._sums(side)
        totals = (printed_value(self.reported, f"total_time_{side}") for side in _SIDES)
        speedup = printed_value(self.reported, "total_speedup")
        yield check(speedup, "CPU / GPU", ratio, *totals)
        for table, rows in (("3", PERFORMANCE), ("4", OPERATIONS)):
            for row in rows:
                cells = (self.cell(table, row, side) for side in _SIDES)
                yield check(self.cell(table, row, "speedup"), "CPU / GPU", ratio, *cells)
        yield from self._shapes()

    def _sums(self, side: str) -> Iterator[Check]:
        count = exact_number(self.reported.value("iterations").number, "1", "Section 6.4")
        iteration = self.cell("3", "time", side)
        formula = "iterations · time of an iteration / 10³"
        total_time = printed_value(self.reported, f"total_time_{side}")
        yield check(total_time, formula, times, count, iteration, _MILLISECOND)
        passes = (self.cell("3", f"{name}_time", side) for name in ("forward", "backward"))
        yield check(iteration, "forward + backward", total, *passes)
        operations = (self.cell("4", row, side) for row in OPERATIONS)
        yield check(iteration, "sum of the operations of Table 4", total, *operations)
        *parts, whole = (self.cell("5", row, side) for row in MEMORY)
        yield check(whole, "sum of the components", total, *parts)

    def _shapes(self) -> Iterator[Check]:
        (cell,) = self.reported.table("2").column("training")
        training_images = self.reported.whole(cell, "Table 2, training")
        images = exact_number(training_images, "1", "Table 2, training samples")
        training, validation = (
            printed_value(self.reported, id) for id in ("training", "validation")
        )
        formula = "training samples − validation samples"
        yield check(training, formula, difference, images, validation)
        parameters = exact_number(
            (PIXELS + 1) * HIDDEN + (HIDDEN + 1) * CLASSES, "1", "theory: parameters"
        )
        learned = exact_number(self.reported.count("training"), "1", "Section 7, training samples")
        rows = exact_number(HIDDEN + CLASSES, "1", "theory: rows of both layers")
        pixels = exact_number(PIXELS, "1", "theory: pixels of an image")
        gradients = "4 B · (parameters + (h + k) · training images)"
        for row, formula, compute, inputs in (
            ("parameters", "4 B · parameters", times, (parameters,)),
            ("input", "4 B · pixels · all images", times, (pixels, images)),
            ("activations", "4 B · 2 · (h + k) · training images", times, (_ARRAYS, rows, learned)),
            ("gradients", gradients, _with_gradients, (parameters, rows, learned)),
        ):
            printed = self.cell("5", row, "cpu")
            yield check(printed, f"{formula} / 10⁶", compute, _ELEMENT, *inputs)


def _with_gradients(element: Fraction, parameters: Fraction, *shape: Fraction) -> Fraction:
    return element * (parameters + times(*shape))
