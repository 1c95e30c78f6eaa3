"""Numbers that the source of conv_scaling printed, as quantities by batch size."""

from dataclasses import replace
from typing import Final

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact, named
from report.quantity.operations import constant
from report.studies.conv_scaling import theory
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import as_flops, for_each_output, theory_macs
from report.theory.work import mnist_conv2

#: Every table of the source has a row for each batch size.
_ROWS: Final = 5


class Source:
    """The source's tables; raises ``StudyError`` for a cell that holds no whole number.

    ``excess`` are counted operations beyond theory, ``gap`` the bytes by which the allocation is
    below theory.
    """

    def __init__(self, inputs: Inputs) -> None:
        """``inputs`` hold what the source printed."""
        self.inputs, self.file = inputs, inputs.reported_file
        self.batches = tuple(self.counts("I", "batch"))
        self.operations = self.column("III", "total_flops", "FLOP")
        self.fused = self.column("III", "multiply_add", "MAC")
        allocated = self.column("IV", "allocated_memory", "B")
        self.excess: dict[int, Quantity] = {}
        self.gap: dict[int, Quantity] = {}
        for batch in self.batches:
            more = self.operations[batch] - theory.forward_work(batch)
            self.excess[batch] = named("excess", more)
            self.gap[batch] = theory.memory(batch) - allocated[batch]

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

    def per_output(self, key: str) -> Quantity:
        """Operations for each output element in a column of Table III, the same in every row."""
        counts = self.column("III", key, "FLOP").items()
        return constant(*(count / (batch * theory.OUTPUTS) for batch, count in counts))

    def theory_ratios(self) -> list[Quantity]:
        """The source's theoretical work and memory over ours, row by row."""
        work = self.column("I", "theoretical_flops", "FLOP")
        memory = self.column("II", "theoretical_memory", "B")
        return [
            *(printed / theory.forward_work(batch) for batch, printed in work.items()),
            *(printed / theory.memory(batch) for batch, printed in memory.items()),
        ]


def source_work(source: Source) -> dict[int, Reconciliation]:
    """The source's counted operations by batch size, from the theoretical work."""
    columns = (source.counts("III", key) for key in ("add", "multiply", "total_flops"))
    reconciled = {}
    for batch, add, multiply, total in zip(source.batches, *columns, strict=True):
        layer = mnist_conv2(batch)
        reconciled[batch] = Reconciliation(
            f"reported-work-{batch}",
            f"Counted operations of the source at batch {batch}",
            "FLOP",
            as_flops(theory_macs(layer)),
            (
                _compared(for_each_output("additions", layer), add, "additions"),
                _compared(for_each_output("scaling", layer), multiply, "multiplications"),
            ),
            Term("Counted", total, "add + 2 · multiply-add + multiply", "the source's Table III"),
        )
    return reconciled


def _compared(term: Term, counted: int, quantity: str) -> Term:
    """Say as evidence if the source's own column of single operations shows the term."""
    negation = "" if term.amount == counted else "not "
    words = f"{negation}equal to the counted {quantity} of the source's Table III"
    return replace(term, evidence=words)
