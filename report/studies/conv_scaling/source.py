"""What the source of conv_scaling printed, as numbers."""

from __future__ import annotations

from typing import Final

from report.errors import StudyError
from report.evidence.reported import Reported
from report.paper.findings import Inputs
from report.statistics.estimates import LinearFit, linear_fit

#: Every table of the source has a row for each batch size.
_BATCHES: Final = 5


def numbers(reported: Reported, table: str, column: str) -> tuple[int, ...]:
    """A column of whole numbers of the source.

    Raises ``StudyError`` for a cell that holds none, or a row that is none of a batch size: this
    study needs every one of them.
    """
    cells = reported.table(table).exactly(_BATCHES).column(column)
    return tuple(
        _number(cell, f"{reported.table(table).place}, row {row}, {column}")
        for row, cell in enumerate(cells, start=1)
    )


def _number(cell: object, place: str) -> int:
    if isinstance(cell, int):
        return cell
    raise StudyError(
        f"data/reported/conv_scaling.json: {place}: expected a whole number, found {cell!r}; "
        "restore the file with git."
    )


def reported_batches(reported: Reported) -> tuple[int, ...]:
    """The batch sizes that the source measured."""
    return numbers(reported, "I", "batch")


def work_fit(inputs: Inputs) -> LinearFit:
    """The line of the source's counted operations (FLOP) over the batch size."""
    counted = numbers(inputs.reported, "III", "total_flops")
    return linear_fit(reported_batches(inputs.reported), counted, relative=False)


def memory_fit(inputs: Inputs) -> LinearFit:
    """The line of the source's allocated bytes over the batch size."""
    allocated = numbers(inputs.reported, "IV", "allocated_memory")
    return linear_fit(reported_batches(inputs.reported), allocated, relative=False)
