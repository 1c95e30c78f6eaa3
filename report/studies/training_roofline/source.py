"""Numbers that the source of training_roofline printed, and results computed from them.

The source prints the throughput of a case twice: as images a second, and within an efficiency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from operator import attrgetter
from typing import Final, NamedTuple

from report.core.records.reported import Reported
from report.core.statistics.estimates import Estimate
from report.evidence.audit import Printed, printed_value
from report.paper.findings import Inputs
from report.quantity import expression
from report.quantity.evaluation import number, to_digits
from report.quantity.expression import Quantity, absent
from report.quantity.operations import counted_in, flops, largest, spanning
from report.studies.training_roofline import theory
from report.studies.training_roofline.subject import NETWORKS

RTX: Final = "RTX 4080"
T4: Final = "T4"
CPU: Final = "CPU"
GPUS: Final = (RTX, T4)
MEGA, GIGA, TERA = 1e6, 1e9, 1e12
#: A rate below this share of the network's best rate on the same device has collapsed.
COLLAPSED: Final = 0.5
#: Clocks by device, the nominal one first: the rated ones between which the maker of a laptop may
#: choose; and the T4's by its data sheet, and the lowest at which its printed rates are possible.
CLOCKS: Final = {RTX: ("nominal", "low", "high"), T4: ("nominal", "low")}
#: The T4's highest clock (MHz), at which its data sheet rates it (``nvidiaturing``).
T4_CLOCK: Final = 1590
#: Column of the throughput table by device.
_THROUGHPUT: Final = {RTX: "rtx4080", T4: "t4"}
#: Number of rows of each table whose rows are read by their position.
_ROWS: Final = {"cores": 2, "cpu_cores": 2, "intensity": 3, "batches": 3}


@dataclass(frozen=True)
class ResultRow:
    """A row of a table, by the keys of its columns."""

    reported: Reported
    table: str
    number: int

    def text(self, key: str) -> str:
        """A cell of text."""
        return str(self.reported.table(self.table).column(key)[self.number])

    @property
    def batch(self) -> int:
        """The batch size."""
        return self.reported.whole(
            self.reported.table(self.table).column("batch")[self.number], f"{self.table}, batch"
        )

    def printed(self, key: str) -> Printed:
        """A number with its decimals and its place; raises ``StudyError`` where there is none."""
        table = self.reported.table(self.table)
        cell = table.column(key)[self.number]
        column = next(column for column in table.columns if column.key == key)
        if not isinstance(cell, int | float) or column.unit is None:
            place = f"table {self.table}, row {self.number + 1}, {key}"
            raise self.reported.fault(f"{place}: expected a number, found none")
        words = []
        for head, content in zip(table.columns, table.rows[self.number], strict=True):
            if (head.unit is None and isinstance(content, str)) or head.key == "batch":
                words.append(str(content))
        place = f"{table.place}, {column.name}, {', '.join(words)}"
        return Printed(cell, column.decimals, column.unit, place)


class PrintedRate(NamedTuple):
    """One printed throughput (1/s); ``row`` is its row in the table of rates, if it has one."""

    device: str
    network: str
    batch: int
    images: Quantity
    row: ResultRow | None

    @property
    def rate(self) -> Quantity:
        """FLOP/s by the work of the shapes."""
        return self.images * theory.work(self.network)


class Correction(NamedTuple):
    """The mean efficiencies of both GPUs, from throughputs.

    ``ratio`` divides the T4's efficiency by the laptop's; ``by_print`` is this ratio of the
    efficiencies that the source prints.
    """

    name: str
    t4: Quantity
    rtx: Quantity
    ratio: Quantity
    by_print: Quantity


class Source:
    """The source's tables and numbers; raises ``StudyError`` for one that is not there."""

    def __init__(self, inputs: Inputs) -> None:
        """``inputs`` hold what the source printed, and the data sheets."""
        self.reported, self.file = inputs.reported, inputs.reported_file
        self.devices = inputs.devices

    def rows(self, table: str) -> tuple[ResultRow, ...]:
        """The rows of a table."""
        count = len(self.reported.table(table, _ROWS.get(table)).rows)
        return tuple(ResultRow(self.reported, table, number) for number in range(count))

    def one(self, table: str, **where: object) -> ResultRow:
        """The first row with these cells; raises ``StudyError`` if no row has them."""
        columns = {key: self.reported.table(table).column(key) for key in where}
        for row in self.rows(table):
            if all(columns[key][row.number] == value for key, value in where.items()):
                return row
        raise self.reported.fault(f"table {table} has no row of {', '.join(map(str, where))}")

    def exact(self, printed: Printed, unit: str, factor: float = 1.0) -> Quantity:
        """A printed number in ``unit`` as an exact one, without the interval of its digits."""
        return replace(printed, decimals=None).quantity(unit, self.file, factor)

    def value(self, id: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """A number of the source's text as an exact one."""
        return self.exact(printed_value(self.reported, id), unit, factor)

    def first_row(self, table: str, key: str) -> Quantity:
        """A number of a table's first row as an exact one without unit."""
        return self.exact(self.rows(table)[0].printed(key), "1")

    # ---------------------------------------------------------------------------------- roofs

    def printed_peak(self, device: str) -> Quantity:
        """Peak (FLOP/s) that the source prints for a device."""
        row = self.one("environments", environment=device)
        return self.exact(row.printed("peak"), "FLOP/s", TERA)

    def memory(self, device: str) -> Quantity:
        """Memory of a GPU (B); a printed gigabyte is taken as a binary one."""
        return self.exact(
            self.one("environments", environment=device).printed("memory"), "B", 2**30
        )

    def peak(self, device: str, clock: str = "nominal") -> Quantity:
        """Peak (FLOP/s) by the data sheet; for the laptop's GPU by its cores and ``clock``."""
        if device == RTX:
            row = self.rows("cores")[0]
            cores = counted_in("MAC", self.exact(row.printed("cores"), "1"))
            # A core does one multiply-add a cycle.
            return flops(cores * self.exact(row.printed(clock), "1/s", MEGA))
        sheet = self._sheet(device, "float32", "FLOP/s")
        return sheet * self.needed_clock if clock == "low" else sheet

    def bandwidth(self, device: str) -> Quantity:
        """Bandwidth (B/s) by the data sheet; for the laptop's GPU by bus width and data rate."""
        if device == RTX:
            (bus,) = self.rows("bus")
            width = self.exact(bus.printed("width"), "1", 1 / 8)
            return width * self.exact(bus.printed("rate"), "B/s", GIGA)
        return self._sheet(device, "memory", "B/s")

    def _sheet(self, device: str, operation: str, unit: str) -> Quantity:
        sheet = self.devices.find(f"NVIDIA {device}")
        peak = sheet.peak(operation) if sheet else None  # type: ignore[arg-type]
        name = f"{operation} on the data sheet of the {device}"
        if peak is None:
            return absent(name, unit, f"no data sheet of the {device} is known")
        return expression.exact(name, unit, peak.rate)

    def ridge(self, device: str) -> Quantity:
        """The intensity (FLOP/B) at which both known ceilings of a device meet."""
        return self.peak(device) / self.bandwidth(device)

    # ------------------------------------------------------------------------------- the cases

    @cached_property
    def cases(self) -> tuple[PrintedRate, ...]:
        """Every printed throughput of a GPU."""
        rates = {}
        for row in self.rows("achieved"):
            rates[row.text("environment"), row.text("network"), row.batch] = row
        cases = []
        for device, item in product(GPUS, self.rows("throughput")):
            key = device, item.text("network"), item.batch
            images = item.printed(_THROUGHPUT[device]).quantity("1/s", self.file)
            cases.append(PrintedRate(*key, images, rates.get(key)))
        return tuple(cases)

    def steady(self, device: str, network: str = "") -> list[PrintedRate]:
        """Cases of a device, or one of its networks, at batches that collapsed on neither GPU."""
        collapsed = {(c.network, c.batch) for c in self.cases if self.collapsed(c)}
        own = (c for c in self.cases if c.device == device and network in ("", c.network))
        return [c for c in own if (c.network, c.batch) not in collapsed]

    def collapsed(self, case: PrintedRate) -> bool:
        """Tell if a case is far slower than the same network at its best batch."""
        own = [c for c in self.cases if (c.device, c.network) == (case.device, case.network)]
        return value_of(case.images) < COLLAPSED * max(value_of(c.images) for c in own)

    def compared(self, device: str, network: str, by_print: bool = False) -> PrintedRate:
        """The case of a network at the largest batch that collapsed on neither GPU."""
        case = max(self.steady(device, network), key=attrgetter("batch"))
        return self.by_print(case) if by_print else case

    def by_print(self, case: PrintedRate) -> PrintedRate:
        """Replace the throughput of a case by the one that its printed efficiency implies."""
        if case.row is None:
            return case._replace(images=absent("throughput", "1/s", "no rate is printed"))
        # The summary prints the efficiency of the collapsed case with one more digit.
        known = printed_value(self.reported, "collapse_efficiency")
        cell = known if self.collapsed(case) else case.row.printed("efficiency")
        share = cell.quantity("1", self.file, 0.01)
        rate = share * self.printed_peak(case.device)
        return case._replace(images=rate / self._printed_work(case))

    # --------------------------------------------------------------------------- efficiencies

    def share(self, case: PrintedRate, clock: str = "") -> Quantity:
        """Divide the rate by the known peak, the laptop's at ``clock`` or over all its clocks."""
        if case.device != RTX:
            return case.rate / self.peak(case.device)
        clocks = (clock,) if clock else CLOCKS[RTX]
        return spanning(*(case.rate / self.peak(RTX, clock) for clock in clocks))

    @cached_property
    def printed_clock(self) -> Quantity:
        """The clock (MHz) at which the laptop's chip would have the printed peak."""
        nominal = self.first_row("cores", "nominal")
        return to_digits(nominal * self.printed_peak(RTX) / self.peak(RTX), 3)

    @cached_property
    def needed_clock(self) -> Quantity:
        """Lowest clock at which direct convolution reaches the T4's rates, over its highest."""
        cases = (self.by_print(case) for case in self.cases if case.row and case.device == T4)
        return largest(*map(self.share, cases))

    def of_roof(self, case: PrintedRate, *clocks: str, **model: bool) -> Quantity:
        """Divide the throughput by that of layers at the nearer of their roofs.

        The value is that of the first clock; its bounds span all ``clocks``, by default all rated.
        ``model`` are the options of ``theory.least_time``.
        """
        shares = []
        for clock in clocks or CLOCKS[case.device]:
            least, _ = self.least(case.device, case.network, case.batch, clock, **model)
            shares.append(case.images * least / case.batch)
        return spanning(*shares)

    def memory_share(self, device: str, network: str, clock: str = "nominal") -> Quantity:
        """The share of a step's least time in which memory is the nearer roof."""
        share = self.least(device, network, theory.SOURCE_BATCH, clock)[1]
        return expression.exact(f"share of {network} near memory, {device}", "1", share, self.file)

    def least(
        self, device: str, network: str, batch: int, clock: str = "nominal", **model: bool
    ) -> tuple[Quantity, float]:
        """Compute the least time (s) of a step on a device, and its share near memory's roof."""
        roofs = value_of(self.peak(device, clock)), value_of(self.bandwidth(device))
        return theory.least_time(network, batch, *roofs, **model)

    def of_bandwidth(self, case: PrintedRate) -> Quantity:
        """Divide the traffic per second, summed over the layers, by the bandwidth."""
        moved = theory.traffic(case.network, case.batch)
        return case.images * moved / self.bandwidth(case.device)

    def corrections(self) -> tuple[Correction, ...]:
        """Mean efficiencies; each also has the corrections of the ones before it.

        The source prints no efficiency of MobileNetV2, so that it is in no mean.
        """
        printed = [case for case in self.cases if case.row]
        steady = [case for gpu in GPUS for case in self.steady(gpu) if case.row]

        def as_printed(case: PrintedRate) -> Quantity:
            return case.images * self._printed_work(case) / self.printed_peak(case.device)

        def of_printed(case: PrintedRate) -> Quantity:
            return case.rate / self.printed_peak(case.device)

        return (
            self._correction("as printed", printed, as_printed),
            self._correction("operations", printed, of_printed),
            self._correction("chip's peak", printed, self.share),
            self._correction("no collapse", steady, self.share),
        )

    def remainders(self, clock: str = "") -> dict[str, Correction]:
        """Correct each network alone, with the T4 at its highest clock and the laptop at one."""
        share, rows = partial(self.share, clock=clock), {}
        for network in NETWORKS:
            cases = [*self.steady(RTX, network), *self.steady(T4, network)]
            rows[network] = self._correction(network, cases, share)
        return rows

    def _correction(
        self, name: str, cases: Sequence[PrintedRate], share: Callable[[PrintedRate], Quantity]
    ) -> Correction:
        def mean(device: str, by_print: bool = False) -> Quantity:
            own = [case for case in cases if case.device == device]
            shares = [share(self.by_print(case) if by_print else case) for case in own]
            none = absent("mean efficiency", "1", "no case was printed for both GPUs")
            return sum(shares[1:], shares[0]) / len(shares) if shares else none

        t4, rtx = mean(T4), mean(RTX)
        by_print = mean(T4, by_print=True) / mean(RTX, by_print=True)
        return Correction(name, t4, rtx, t4 / rtx, by_print)

    def _printed_work(self, case: PrintedRate) -> Quantity:
        work = self.one("complexity", network=case.network).printed("training")
        return self.exact(work, "FLOP", GIGA)


def value_of(quantity: Quantity) -> float:
    """Value of a quantity of the source alone, without the interval of its digits."""
    value = number(quantity)
    return value.value if isinstance(value, Estimate) else float(value)  # type: ignore[arg-type]
