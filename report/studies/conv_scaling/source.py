"""Numbers that the source of conv_scaling printed, as quantities by batch size."""

from typing import Final

from report.core.text.escape import markdown
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, exact_number, named
from report.quantity.operations import common_value
from report.studies.conv_scaling import theory

#: Items of the source besides its claims, as (item, content, our answer).
ITEMS: Final = (
    ("Tables I, II", "theory", "equal to ours in every row"),
    ("Tables III, V", "counted operations", "exact; the excess is two an output element"),
    ("Tables IV, VI", "allocated bytes", "exact; the gap is the parameters"),
    ("Table IV", "reserved bytes", "left out: segments of the whole network, not of the layer"),
    ("Figures 1 to 7", "network, one run, the tables drawn", "no number beyond the tables"),
    ("Choice of a batch", "balances load and latency", "measured: see the Discussion"),
    ("Memory swapping", "slows down large batches", "outside our runs, which fit the GPU's memory"),
)


class Source:
    """Numbers of the source by batch size; methods raise ``StudyError`` for other cells.

    ``excess``: counted operations (FLOP) minus theory.  ``gap``: theory minus allocated bytes (B).
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.file = inputs, inputs.reported_file
        self.device = markdown(inputs.reported.device)
        self.software = markdown(inputs.reported.software)
        self.batches = tuple(self.counts("I", "batch"))
        self.operations = self.column("III", "total_flops", "FLOP")
        self.fused = self.column("III", "multiply_add", "MAC")
        allocated = self.column("IV", "allocated_memory", "B")
        self.excess: dict[int, Quantity] = {}
        self.gap: dict[int, Quantity] = {}
        for batch in self.batches:
            excess = self.operations[batch] - theory.forward_work(batch)
            self.excess[batch] = named("excess", excess)
            self.gap[batch] = theory.memory(batch) - allocated[batch]

    def counts(self, table: str, key: str) -> list[int]:
        """Return a column of whole numbers, with one number per batch size."""
        printed = self.inputs.reported.table(table, rows=5)  # one row per batch size
        counts = []
        for row, cell in enumerate(printed.column(key), start=1):
            place = f"{printed.place}, row {row}, {key}"
            counts.append(self.inputs.reported.whole(cell, place))
        return counts

    def column(self, table: str, key: str, unit: str) -> dict[int, Quantity]:
        """Return a column as batch size → exact quantity."""
        name = f"reported {key.replace('_', ' ')}"
        counts = zip(self.batches, self.counts(table, key), strict=True)
        file = self.file
        return {batch: exact_number(f"{name}({batch})", unit, n, file) for batch, n in counts}

    def per_output(self, key: str) -> Quantity:
        """Return the operations per output element in Table III; missing if batch sizes differ."""
        counts = self.column("III", key, "FLOP").items()
        return common_value(*(count / (batch * theory.OUTPUTS) for batch, count in counts))
