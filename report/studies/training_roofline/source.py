"""What the source of training_roofline printed, and what follows when it is computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from report.evidence.audit import Printed, printed_value
from report.evidence.reported import Reported
from report.paper.findings import Inputs
from report.quantity import expression
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent
from report.quantity.operations import counted_in, flops, spanning
from report.statistics.estimates import Estimate
from report.studies.training_roofline import theory
from report.studies.training_roofline.subject import HEAVY, LIGHT, SMALL

RTX: Final = "RTX 4080"
#: The laptop's GPU, which is not the desktop card that the source names.
LAPTOP: Final = "RTX 4080 Laptop"
T4: Final = "T4"
CPU: Final = "CPU"
GPUS: Final = (RTX, T4)
MEGA, GIGA, TERA = 1e6, 1e9, 1e12
#: A rate below this share of the same network's best on the same device is no working point.
COLLAPSED: Final = 0.5
#: The clocks (MHz) between which the maker of a laptop may choose, the nominal one first.
CLOCKS: Final = ("nominal", "low", "high")
#: Column of the throughput table by device.
_THROUGHPUT: Final = {RTX: "rtx4080", T4: "t4"}
#: Tables whose rows are known by their place in them, and how many they have.
_ROWS: Final = {"cores": 2, "cpu_cores": 2, "intensity": 3, "batches": 3}


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
        words = [
            str(each)
            for head, each in zip(table.columns, table.rows[self.number], strict=True)
            if (head.unit is None and isinstance(each, str)) or head.key == "batch"
        ]
        place = f"{table.place}, {column.name}, {', '.join(words)}"
        return Printed(cell, column.decimals, column.unit, place)


class Case(NamedTuple):
    """One printed throughput (1/s); ``row`` is that of rates, where the source prints one."""

    device: str
    network: str
    batch: int
    images: Quantity
    row: Row | None

    @property
    def rate(self) -> Quantity:
        """FLOP/s by the work of the shapes."""
        return self.images * theory.work(self.network)


class Correction(NamedTuple):
    """The mean efficiencies of both GPUs after a correction, over so many cases each."""

    name: str
    cases: int
    t4: Quantity
    rtx: Quantity

    @property
    def ratio(self) -> Quantity:
        """How many times as efficient the T4 seems."""
        return self.t4 / self.rtx


class Source:
    """The source's tables and numbers; raises ``StudyError`` for one that is not there."""

    def __init__(self, inputs: Inputs) -> None:
        """``inputs`` hold what the source printed, and the data sheets."""
        self.reported, self.file = inputs.reported, inputs.reported_file
        self.devices = inputs.devices

    def rows(self, table: str) -> tuple[Row, ...]:
        """The rows of a table."""
        found = self.reported.table(table)
        if table in _ROWS:
            found.exactly(_ROWS[table])
        return tuple(Row(self.reported, table, i) for i in range(len(found.rows)))

    def row(self, table: str, **where: object) -> Row | None:
        """The first row whose cells have these texts or numbers, if there is one."""
        columns = {key: self.reported.table(table).column(key) for key in where}
        rows = self.rows(table)
        return next(
            (r for r in rows if all(columns[k][r.number] == v for k, v in where.items())), None
        )

    def one(self, table: str, **where: object) -> Row:
        """The same, which must be there."""
        found = self.row(table, **where)
        if found is None:
            raise self.reported.fault(f"table {table} has no row of {', '.join(map(str, where))}")
        return found

    def exact(self, printed: Printed, unit: str, factor: float = 1.0) -> Quantity:
        """A printed number as it stands, without the interval of its digits, in ``unit``."""
        return replace(printed, decimals=None).quantity(unit, self.file, factor)

    def value(self, id: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """A single number of the text as it stands."""
        return self.exact(printed_value(self.reported, id), unit, factor)

    # ---------------------------------------------------------------------------------- roofs

    def printed_roof(self, device: str) -> tuple[Quantity, Quantity]:
        """Peak (FLOP/s) and bandwidth (B/s) that the source gives a device."""
        row = self.one("environments", environment=device)
        peak, bandwidth = row.printed("peak"), row.printed("bandwidth")
        return self.exact(peak, "FLOP/s", TERA), self.exact(bandwidth, "B/s", GIGA)

    def memory(self, device: str) -> int:
        """Bytes of a GPU's memory, which has as many binary gigabytes as are printed."""
        printed = self.one("environments", environment=device).printed("memory")
        return int(printed.value * 2**30)

    def peak(self, device: str, clock: str = "nominal") -> Quantity:
        """FLOP/s by the data sheet, or by cores and clock where no sheet prints a peak."""
        if device == RTX:
            return self.core_peak(self.rows("cores")[0], clock)
        return self._sheet(device, "float32", "FLOP/s")

    def bandwidth(self, device: str) -> Quantity:
        """B/s by the data sheet, or by the width of the bus and the data rate of a line."""
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

    def core_peak(self, item: Row, clock: str) -> Quantity:
        """FLOP/s of a row of cores and clocks: a core does one multiply-add a cycle."""
        cores = counted_in("MAC", self.exact(item.printed("cores"), "1"))
        return flops(cores * self.exact(item.printed(clock), "1/s", MEGA))

    # ------------------------------------------------------------------------------- the cases

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Every printed throughput of a GPU."""
        return tuple(self._cases())

    def _cases(self) -> Iterator[Case]:
        for device in GPUS:
            for item in self.rows("throughput"):
                where = {"network": item.text("network"), "batch": item.batch}
                images = item.printed(_THROUGHPUT[device]).quantity("1/s", self.file)
                row = self.row("achieved", environment=device, **where)
                yield Case(device, where["network"], item.batch, images, row)  # type: ignore[arg-type]

    def case(self, device: str, network: str, batch: int) -> Case:
        """One of them; raises ``StudyError`` where it is not printed."""
        for case in self.cases:
            if (case.device, case.network, case.batch) == (device, network, batch):
                return case
        raise self.reported.fault(f"no throughput of {network} at batch {batch} on {device}")

    def steady(self, device: str, network: str = "") -> list[Case]:
        """The cases of a device at batches that collapsed on neither GPU, or of one network."""
        fell = {(c.network, c.batch) for c in self.cases if self._collapsed(c)}
        own = (c for c in self.cases if c.device == device and network in ("", c.network))
        return [c for c in own if (c.network, c.batch) not in fell]

    def _collapsed(self, case: Case) -> bool:
        own = [c for c in self.cases if (c.device, c.network) == (case.device, case.network)]
        return value_of(case.images) < COLLAPSED * max(value_of(c.images) for c in own)

    def best(self, device: str, network: str) -> Case:
        """The fastest case of a network on a device."""
        own = (c for c in self.cases if (c.device, c.network) == (device, network))
        return max(own, key=lambda case: value_of(case.images))

    def share(self, case: Case, clock: str = "") -> Quantity:
        """The rate over the known peak; the laptop's over all its clocks, or at one ``clock``."""
        if case.device != RTX or clock:
            return case.rate / self.peak(case.device, clock or "nominal")
        return spanning(*(case.rate / self.peak(RTX, clock) for clock in CLOCKS))

    def of_roof(self, case: Case) -> Quantity:
        """The throughput over that of layers at the nearer of their roofs.

        The laptop's is that of the nominal clock, with the bounds of all clocks.
        """
        clocks = CLOCKS if case.device == RTX else CLOCKS[:1]
        bandwidth = value_of(self.bandwidth(case.device))
        times = (
            theory.least_time(
                case.network, case.batch, value_of(self.peak(case.device, clock)), bandwidth
            )
            for clock in clocks
        )
        shares = [case.images * time / case.batch for time in times]
        return spanning(*shares) if len(shares) > 1 else shares[0]

    def of_bandwidth(self, case: Case) -> Quantity:
        """The traffic layer by layer a second over the bandwidth."""
        moved = theory.traffic(case.network, case.batch)
        return case.images * moved / self.bandwidth(case.device)

    def corrections(self) -> tuple[Correction, ...]:
        """From the printed ratio on, each with those before it; then network by network.

        The source prints no efficiency of MobileNetV2, so that it is in no mean and stands by
        itself.
        """
        both = [[c for c in self.cases if c.row and c.device == device] for device in (T4, RTX)]
        steady = [[c for c in self.steady(device) if c.row] for device in (T4, RTX)]
        printed = (self.value(f"{name}_efficiency", "1", 0.01) for name in ("t4", "rtx"))

        def mean(
            name: str, found: Sequence[Sequence[Case]], share: Callable[[Case], Quantity]
        ) -> Correction:
            t4, rtx = (_mean([share(case) for case in each]) for each in found)
            return Correction(name, len(found[0]), t4, rtx)

        return (
            Correction("as printed", len(both[0]), *printed),
            mean("rates from throughputs", both, self._by_print),
            mean("two operations a multiply-add", both, self._of_printed),
            mean("peak of the laptop's chip", both, self.share),
            mean("without the collapsed batch", steady, self.share),
            *(
                mean(f"{n}, by roofs", [self.steady(T4, n), self.steady(RTX, n)], self.of_roof)
                for n in (HEAVY, LIGHT, SMALL)
            ),
        )

    def _by_print(self, case: Case) -> Quantity:
        printed = self.one("complexity", network=case.network).printed("training")
        return case.images * self.exact(printed, "FLOP", GIGA) / self.printed_roof(case.device)[0]

    def _of_printed(self, case: Case) -> Quantity:
        return case.rate / self.printed_roof(case.device)[0]

    # -------------------------------------------------------------------------- other numbers

    @cached_property
    def gains(self) -> list[Quantity]:
        """What each doubling of the batch makes of the T4's images a second of ResNet-50."""
        images = [
            item.printed("throughput").quantity("1/s", self.file) for item in self.rows("batches")
        ]
        return [new / old for old, new in pairwise(images)]


def value_of(quantity: Quantity) -> float:
    """A number of the source alone, without the interval of its digits."""
    found = number(quantity)
    return found.value if isinstance(found, Estimate) else float(found)  # type: ignore[arg-type]


def _mean(shares: Sequence[Quantity]) -> Quantity:
    if not shares:
        return absent("mean efficiency", "1", "no case was printed for both GPUs")
    return sum(shares[1:], shares[0]) / len(shares)
