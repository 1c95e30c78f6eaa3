"""What the source of conv_scaling printed, as quantities by batch size."""

from __future__ import annotations

from typing import Final

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact

#: Every table of the source has a row for each batch size.
_BATCHES: Final = 5


def reported_batches(inputs: Inputs) -> tuple[int, ...]:
    """The batch sizes that the source measured."""
    return _numbers(inputs, "I", "batch")


def column(inputs: Inputs, table: str, key: str, unit: str) -> dict[int, Quantity]:
    """A column of counts, which are exact, by batch size.

    Raises ``StudyError`` for a cell that holds no whole number, or a row that is none of a batch
    size: this study needs every one of them.
    """
    name = f"reported {key.replace('_', ' ')}"
    cells = zip(reported_batches(inputs), _numbers(inputs, table, key), strict=True)
    return {
        batch: exact(f"{name}({batch})", unit, cell, inputs.reported_file) for batch, cell in cells
    }


def counts(inputs: Inputs, table: str, key: str) -> dict[int, int]:
    """The same as plain numbers, for reconciliations."""
    return dict(zip(reported_batches(inputs), _numbers(inputs, table, key), strict=True))


def _numbers(inputs: Inputs, table: str, key: str) -> tuple[int, ...]:
    printed = inputs.reported.table(table).exactly(_BATCHES)
    return tuple(
        inputs.reported.whole(cell, f"{printed.place}, row {row}, {key}")
        for row, cell in enumerate(printed.column(key), start=1)
    )
