"""What the source of training_roofline printed: rows of its tables, and quantities of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from report.errors import StudyError
from report.evidence.audit import (
    Interval,
    Printed,
    check,
    exact,
    printed_value,
)
from report.evidence.reported import Reported
from report.paper.tables import Cell
from report.quantity import operations
from report.quantity.expression import Quantity
from report.studies.training_roofline.subject import NETWORKS

RTX: Final = "RTX 4080"
T4: Final = "T4"
CPU: Final = "CPU"
#: What tells the GPU that the source used from the desktop card of the same name.
LAPTOP: Final = "Laptop"
#: Column of the throughput table by environment.
_THROUGHPUT: Final = {RTX: "rtx4080", T4: "t4"}

_ROWS: Final = {"cores": 2, "cpu_cores": 2, "intensity": 3}


@dataclass(frozen=True)
class Row:
    """A row of a table, by the keys of its columns."""

    reported: Reported
    table: str
    number: int

    def text(self, key: str) -> str:
        """A cell of text."""
        return str(self.reported.table(self.table).column(key)[self.number])

    @property
    def name(self) -> str:
        """The texts of the row and its batch size."""
        table = self.reported.table(self.table)
        named = [
            str(cell)
            for column, cell in zip(table.columns, table.rows[self.number], strict=True)
            if (column.unit is None and isinstance(cell, str)) or column.key == "batch"
        ]
        return ", ".join(named)

    def printed(self, key: str) -> Printed | None:
        """A number with its decimals and its place; None where nothing is printed."""
        table = self.reported.table(self.table)
        cell = table.column(key)[self.number]
        column = next(column for column in table.columns if column.key == key)
        if not isinstance(cell, int | float) or column.unit is None:
            return None
        place = f"{table.place}, {column.name}, {self.name}"
        return Printed(cell, column.decimals, column.unit, place)

    def number_of(self, key: str) -> Printed:
        """A number that must be there; raises ``StudyError`` if it is not."""
        found = self.printed(key)
        if found is None:
            raise StudyError(
                f"data/reported/{self.reported.study}.json: table {self.table}, row "
                f"{self.number + 1}, {key}: expected a number, found none; restore the file with "
                "git."
            )
        return found


def rows(reported: Reported, table: str) -> tuple[Row, ...]:
    """The rows of a table, some of which are known by their place in it."""
    found = reported.table(table)
    if table in _ROWS:
        found.exactly(_ROWS[table])
    return tuple(Row(reported, table, i) for i in range(len(found.rows)))


def row(reported: Reported, table: str, **where: object) -> Row | None:
    """The first row whose cells have these texts or numbers, if there is one."""
    columns = {key: reported.table(table).column(key) for key in where}
    for found in rows(reported, table):
        if all(columns[key][found.number] == value for key, value in where.items()):
            return found
    return None


def environment(reported: Reported, name: str) -> Row:
    """The row of an environment; raises ``StudyError`` for a name that is none."""
    found = row(reported, "environments", environment=name)
    if found is None:
        raise StudyError(
            f"data/reported/{reported.study}.json: no environment {name}; restore the file with "
            "git."
        )
    return found


def throughput(reported: Reported, device: str, network: str, batch: int) -> Printed | None:
    """The printed images a second of a device, None where none are printed."""
    found = row(reported, "throughput", network=network, batch=batch)
    return found.printed(_THROUGHPUT[device]) if found and device in _THROUGHPUT else None


def source_setup(reported: Reported) -> dict[str, Cell]:
    """What the source prints of how it measured, by the rows of the table of environments."""
    machines = rows(reported, "environments")
    memory = ", ".join(
        f"{m.number_of('memory').text} GB ({m.text('environment')})" for m in machines
    )
    gpu, cpu, warm = (
        printed_value(reported, name).text for name in ("iterations", "cpu_iterations", "warmup")
    )
    return {
        "Memory": memory,
        "Arithmetic": "float32",
        "Processes a case": "1",
        "Samples a case": f"{gpu} ({cpu} on the CPU), after {warm} warm-up calls",
    }


def as_printed(number: Printed, unit: str, source: str, factor: float = 1.0) -> Quantity:
    """A printed number as it stands, without the interval of its digits, in ``unit``."""
    return replace(number, decimals=None).quantity(unit, source, factor)


def core_peak(item: Row, clock: str, source: str) -> Quantity:
    """The peak (FLOP/s) of a row of cores and clocks: a core does one multiply-add a cycle."""
    cores = as_printed(item.number_of("cores"), "1", source)
    cycles = as_printed(item.number_of(clock), "1/s", source, 1e6)
    return operations.flops(operations.counted_in("MAC", cores) * cycles)


# ------------------------------------------------------------------- what intensities stand for


def image_traffic(reported: Reported) -> Interval | None:
    """Bytes an image that all printed intensities of ResNet-50 share, if they share any.

    Parameters move once a batch and something moves for each image: solving
    ``intensity = B · work / (4 · parameters + B · traffic)`` for the traffic gives an interval a
    row, and the rows agree where these have a common part.
    """
    work = row(reported, "complexity", network=NETWORKS[1])
    if work is None:
        return None
    training, parameters = work.number_of("training"), work.number_of("parameters")
    found = [
        check(
            item.number_of("intensity"),
            "traffic of an image",
            lambda i, b, w, p: w * 10**9 / i - 4 * p * 10**6 / b,
            *(item.number_of("intensity"), exact(item.number_of("batch").number, "1", "batch")),
            *(training, parameters),
        ).possible
        for item in rows(reported, "intensity")
    ]
    return common(found)


def common(intervals: Sequence[Interval]) -> Interval | None:
    """The part that all intervals have in common, if there is one."""
    low, high = max(i.low for i in intervals), min(i.high for i in intervals)
    return Interval(low, high) if low <= high else None
