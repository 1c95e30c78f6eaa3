"""Numbers that the source of conv_scaling printed, as quantities by batch size."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import constant
from report.studies.conv_scaling import theory

#: Every table of the source has a row for each batch size.
_ROWS: Final = 5


class Source:
    """The source's tables; raises ``StudyError`` for a cell that holds no whole number."""

    def __init__(self, inputs: Inputs) -> None:
        """``inputs`` hold what the source printed."""
        self.inputs = inputs
        self.file = inputs.reported_file
        self.batches = tuple(self.counts("I", "batch"))

    def counts(self, table: str, key: str) -> list[int]:
        """A column of counts, a row for each batch size."""
        printed = self.inputs.reported.table(table, _ROWS)
        counts = []
        for row, cell in enumerate(printed.column(key), start=1):
            place = f"{printed.place}, row {row}, {key}"
            counts.append(self.inputs.reported.whole(cell, place))
        return counts

    def column(self, table: str, key: str, unit: str) -> dict[int, Quantity]:
        """A column as exact quantities by batch size."""
        name = f"reported {key.replace('_', ' ')}"
        column: dict[int, Quantity] = {}
        for batch, count in zip(self.batches, self.counts(table, key), strict=True):
            column[batch] = exact(f"{name}({batch})", unit, count, self.file)
        return column

    @cached_property
    def fused(self) -> dict[int, Quantity]:
        """Fused multiply-adds that the source counted."""
        return self.column("III", "multiply_add", "MAC")

    @cached_property
    def excess(self) -> dict[int, Quantity]:
        """The source's counted operations beyond theory (FLOP)."""
        counted = self.column("III", "total_flops", "FLOP")
        return {batch: named("excess", n - theory.work(batch)) for batch, n in counted.items()}

    @cached_property
    def allocated(self) -> dict[int, Quantity]:
        """The source's allocated bytes."""
        return self.column("IV", "allocated_memory", "B")

    @cached_property
    def gap(self) -> dict[int, Quantity]:
        """Bytes by which the source's allocation is below theory."""
        return {batch: theory.memory(batch) - own for batch, own in self.allocated.items()}

    @property
    def gap_growth(self) -> Quantity:
        """Growth of the gap from the smallest batch to the largest (B)."""
        return self.gap[max(self.gap)] - self.gap[min(self.gap)]

    def per_output(self, over: dict[int, Quantity]) -> Quantity:
        """Operations for each output element, the same in every row."""
        return constant(*(n / (batch * theory.OUTPUTS) for batch, n in over.items()))

    def theory_ratios(self) -> list[Quantity]:
        """The source's theoretical work and memory over ours, row by row."""
        work = self.column("I", "theoretical_flops", "FLOP")
        memory = self.column("II", "theoretical_memory", "B")
        return [
            *(printed / theory.work(batch) for batch, printed in work.items()),
            *(printed / theory.memory(batch) for batch, printed in memory.items()),
        ]
