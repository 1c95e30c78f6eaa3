"""Numbers printed in the source of backend_speedup (a course report), and their audit."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

from report.evidence import audit
from report.evidence.audit import Check, Printed, check, printed_value, unrounded_value
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact_number
from report.studies.backend_speedup.subject import CLASSES, HIDDEN, PIXELS

#: Quantity of this study → row of the source's Table 3.
PERFORMANCE: Final = {
    "time": "Average time per iteration",
    "forward_time": "Forward pass time",
    "backward_time": "Backward pass time",
}
#: Quantity of this study → row of the source's Table 4.
OPERATIONS: Final = {
    "matrix_product_time": "Matrix multiplication",
    "relu_time": "ReLU activation",
    "softmax_time": "Softmax activation",
    "gradient_time": "Gradient computation",
}
#: Component of memory → row of the source's Table 5.
_MEMORY: Final = {
    "parameters": "Model parameters",
    "input": "Input data",
    "activations": "Intermediate activations",
    "gradients": "Gradient storage",
    "framework": "Framework overhead",
    "total": "Total",
}
#: Number of the source's table → its rows.
_ROWS_OF_TABLE: Final = {"3": PERFORMANCE, "4": OPERATIONS, "5": _MEMORY}
#: Columns of the times in Tables 3 and 4, and of the sizes in Table 5.
_DEVICES: Final = ("cpu", "gpu")
#: Size (MB) of an element in float32.
_ELEMENT_SIZE: Final = unrounded_value(4e-6, "MB", "theory: bytes of an element")
#: Factor from milliseconds to seconds.
_MILLISECOND: Final = unrounded_value(0.001, "1", "a millisecond in seconds")
#: Number of arrays that training keeps of each layer.
_ARRAYS_OF_LAYER: Final = unrounded_value(2, "1", "theory: sums and activations")
#: Printed unit → unit of a quantity, and the factor from the printed unit to this unit.
_UNITS: Final = {"ms": ("s", Fraction(1, 1000)), "MB": ("B", Fraction(10**6))}


class Source:
    """Numbers printed in the source; methods raise ``StudyError`` for a missing number."""

    def __init__(self, inputs: Inputs) -> None:
        self.reported, self.file = inputs.reported, inputs.reported_file

    def cell(self, table: str, row: str, column: str) -> Printed:
        """Return one number of Table 3, 4 or 5 as printed; ``row`` is a key of the tables above."""
        source = self.reported.table(table)
        names, name = source.column(source.columns[0].key), _ROWS_OF_TABLE[table][row]
        for row_name, printed in zip(names, audit.printed_column(source, column), strict=True):
            if row_name == name and printed is not None:
                return replace(printed, place=f"{source.place}, {name}, {column}")
        raise self.reported.fault(f"{source.place}: no number for {name}, {column}")

    def number(self, table: str, row: str, column: str) -> Quantity:
        """Return a cell as an exact quantity; ms become s, MB become B, other units remain."""
        return self._quantity(self.cell(table, row, column))

    def value(self, id: str) -> Quantity:
        """Return a number of the source's text as an exact quantity, in units as ``number``."""
        return self._quantity(printed_value(self.reported, id))

    def _quantity(self, printed: Printed) -> Quantity:
        unit, factor = _UNITS.get(printed.unit, (printed.unit, Fraction(1)))
        return exact_number(f"reported {printed.place}", unit, printed.value * factor, self.file)

    def audit(self) -> Iterator[Check]:
        """Recompute each derived number from other printed numbers, or from array shapes."""
        for device in _DEVICES:
            yield from self._check_sums(device)
        totals = (printed_value(self.reported, f"total_time_{device}") for device in _DEVICES)
        speedup = printed_value(self.reported, "total_speedup")
        yield check(speedup, "CPU / GPU", audit.ratio, *totals)
        for table, rows in (("3", PERFORMANCE), ("4", OPERATIONS)):
            for row in rows:
                cells = (self.cell(table, row, device) for device in _DEVICES)
                yield check(self.cell(table, row, "speedup"), "CPU / GPU", audit.ratio, *cells)
        yield from self._check_shapes()

    def _check_sums(self, device: str) -> Iterator[Check]:
        """Check the total time on one device, and the sums of times and of memory sizes."""
        count = unrounded_value(self.reported.value("iterations").number, "1", "Section 6.4")
        iteration = self.cell("3", "time", device)
        formula = "iterations · time of an iteration / 10³"
        total_time = printed_value(self.reported, f"total_time_{device}")
        yield check(total_time, formula, audit.times, count, iteration, _MILLISECOND)
        passes = (self.cell("3", f"{name}_time", device) for name in ("forward", "backward"))
        yield check(iteration, "forward + backward", audit.total, *passes)
        operations = (self.cell("4", row, device) for row in OPERATIONS)
        yield check(iteration, "sum of the operations of Table 4", audit.total, *operations)
        *components, whole = (self.cell("5", row, device) for row in _MEMORY)
        yield check(whole, "sum of the components", audit.total, *components)

    def _check_shapes(self) -> Iterator[Check]:
        """Check the number of training images, and the memory sizes that follow from shapes."""
        (cell,) = self.reported.table("2").column("training")
        training_images = self.reported.whole(cell, "Table 2, training")
        images = unrounded_value(training_images, "1", "Table 2, training samples")
        training = printed_value(self.reported, "training")
        validation = printed_value(self.reported, "validation")
        formula = "training samples − validation samples"
        yield check(training, formula, audit.difference, images, validation)
        parameter_count = (PIXELS + 1) * HIDDEN + (HIDDEN + 1) * CLASSES
        parameters = unrounded_value(parameter_count, "1", "theory: parameters")
        training_count = self.reported.count("training")
        learned = unrounded_value(training_count, "1", "Section 7, training samples")
        rows = unrounded_value(HIDDEN + CLASSES, "1", "theory: rows of both layers")
        pixels = unrounded_value(PIXELS, "1", "theory: pixels of an image")
        activations = (_ARRAYS_OF_LAYER, rows, learned)
        gradients = "4 B · (parameters + (h + k) · training images)"
        for component, formula, compute, operands in (
            ("parameters", "4 B · parameters", audit.times, (parameters,)),
            ("input", "4 B · pixels · all images", audit.times, (pixels, images)),
            ("activations", "4 B · 2 · (h + k) · training images", audit.times, activations),
            ("gradients", gradients, _bytes_of_gradients, (parameters, rows, learned)),
        ):
            printed = self.cell("5", component, "cpu")
            yield check(printed, f"{formula} / 10⁶", compute, _ELEMENT_SIZE, *operands)


def _bytes_of_gradients(element: Fraction, parameters: Fraction, *shape: Fraction) -> Fraction:
    return element * (parameters + audit.times(*shape))
