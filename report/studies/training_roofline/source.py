"""Numbers that the source of training_roofline printed, results computed from them, and its audit.

The source prints the throughput of a case twice: as images a second, and within an efficiency.
The audit checks every number that others, shapes or data sheets determine, once; its rules apply
to every row that has the numbers for them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise, product
from math import ceil
from operator import attrgetter
from typing import Any, Final, NamedTuple

from report.core.missing import Missing
from report.core.records.reported import Reported
from report.evidence.audit import (
    Check,
    Printed,
    check,
    exact,
    gain,
    mean,
    printed_value,
    ratio,
    share,
    times,
)
from report.paper.findings import Inputs
from report.quantity import expression
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Quantity, absent
from report.quantity.operations import counted_in, flops, largest, spanning
from report.studies.training_roofline import theory
from report.studies.training_roofline.theory import HEAVY, NETWORKS, SMALL
from report.theory import work

RTX: Final = "RTX 4080"
T4: Final = "T4"
CPU: Final = "CPU"
GPUS: Final = (RTX, T4)
MEGA, GIGA, TERA = 1e6, 1e9, 1e12
#: A rate below this share of the network's best rate on the same device has collapsed.
COLLAPSED: Final = 0.5
#: Clocks by device, the nominal one first: the rated ones between which the maker of a laptop may
#: choose; the T4's by its data sheet, and the lowest for its printed throughputs and rates.
CLOCKS: Final = {RTX: ("nominal", "low", "high"), T4: ("nominal", "for throughputs", "for rates")}
#: The T4's highest clock (MHz), at which its data sheet rates it (``nvidiaturing``).
T4_CLOCK: Final = 1590
#: Column of the throughput table, and beginning of the ids of the text's numbers, by device.
_COLUMN: Final = {RTX: "rtx4080", T4: "t4"}
_PREFIX: Final = {RTX: "rtx", T4: "t4"}
#: Number of rows of each table whose rows are read by their position.
_ROWS: Final = {"cores": 2, "cpu_cores": 2, "intensity": 3, "batches": 3}


@dataclass(frozen=True)
class ResultRow:
    """A row of a table, by the keys of its columns."""

    reported: Reported
    table: str
    number: int

    def cell(self, key: str) -> Any:
        """Return a cell as it was printed."""
        return self.reported.table(self.table).column(key)[self.number]

    @property
    def batch(self) -> int:
        """The batch size."""
        return self.reported.whole(self.cell("batch"), f"{self.table}, batch")

    def printed(self, key: str) -> Printed:
        """A number with its decimals and its place; raises ``StudyError`` where there is none."""
        table, cell = self.reported.table(self.table), self.cell(key)
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
    """The mean efficiencies of both GPUs, from printed rates.

    ``by_print`` divides the T4's efficiency by the laptop's; ``ratio`` is this ratio from
    throughputs.
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
        """Return the rows of a table."""
        count = len(self.reported.table(table, _ROWS.get(table)).rows)
        return tuple(ResultRow(self.reported, table, number) for number in range(count))

    def one(self, table: str, **where: object) -> ResultRow:
        """Return the first row with these cells; raises ``StudyError`` if no row has them."""
        for row in self.rows(table):
            if all(row.cell(key) == value for key, value in where.items()):
                return row
        raise self.reported.fault(f"table {table} has no row of {', '.join(map(str, where))}")

    def exact(self, printed: Printed, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a printed number in ``unit`` as exact, without the interval of its digits."""
        return replace(printed, decimals=None).quantity(unit, self.file, factor)

    def value(self, id: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a number of the source's text as an exact one."""
        return self.exact(printed_value(self.reported, id), unit, factor)

    def first_row(self, table: str, key: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a number of a table's first row as an exact one."""
        return self.exact(self.rows(table)[0].printed(key), unit, factor)

    # ---------------------------------------------------------------------------------- roofs

    def of_device(self, device: str, key: str) -> Printed:
        """Return a printed property of a device, such as its peak."""
        return self.one("environments", environment=device).printed(key)

    def printed_peak(self, device: str) -> Quantity:
        """Peak (FLOP/s) that the source prints for a device."""
        return self.exact(self.of_device(device, "peak"), "FLOP/s", TERA)

    def peak_factor(self) -> Quantity:
        """Divide the laptop's printed peak by its chip's, over all rated clocks."""
        printed = self.of_device(RTX, "peak").quantity("FLOP/s", self.file, TERA)
        return spanning(*(printed / self.peak(RTX, clock) for clock in CLOCKS[RTX]))

    def memory(self, device: str) -> Quantity:
        """Memory of a GPU (B); a printed gigabyte is taken as a binary one."""
        return self.exact(self.of_device(device, "memory"), "B", 2**30)

    def peak(self, device: str, clock: str = "nominal") -> Quantity:
        """Peak (FLOP/s) by the data sheet; for the laptop's GPU by its cores and ``clock``."""
        if device == RTX:
            # A core does one multiply-add a cycle.
            cores = counted_in("MAC", self.first_row("cores", "cores"))
            return flops(cores * self.first_row("cores", clock, "1/s", MEGA))
        sheet = self._sheet(device, "float32", "FLOP/s")
        return sheet if clock == "nominal" else sheet * self.needed_clock(clock == "for rates")

    def bandwidth(self, device: str) -> Quantity:
        """Bandwidth (B/s) by the data sheet; for the laptop's GPU by bus width and data rate."""
        if device == RTX:
            width = self.first_row("bus", "width", "1", 1 / 8)
            return width * self.first_row("bus", "rate", "B/s", GIGA)
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
            rates[row.cell("environment"), row.cell("network"), row.batch] = row
        cases = []
        for device, row in product(GPUS, self.rows("throughput")):
            key = device, row.cell("network"), row.batch
            images = row.printed(_COLUMN[device]).quantity("1/s", self.file)
            cases.append(PrintedRate(*key, images, rates.get(key)))
        return tuple(cases)

    def steady(self, device: str, network: str = "") -> list[PrintedRate]:
        """Cases of a device, or one of its networks, at batches that collapsed on neither GPU."""
        collapsed = {(c.network, c.batch) for c in self.cases if self.collapsed(c)}
        cases = (c for c in self.cases if c.device == device and network in ("", c.network))
        return [c for c in cases if (c.network, c.batch) not in collapsed]

    def collapsed(self, case: PrintedRate) -> bool:
        """Tell if a case is far slower than the same network at its best batch."""
        cases = [c for c in self.cases if (c.device, c.network) == (case.device, case.network)]
        return value_of(case.images) < COLLAPSED * max(value_of(c.images) for c in cases)

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
        rate = cell.quantity("1", self.file, 0.01) * self.printed_peak(case.device)
        return case._replace(images=rate / self._printed_work(case))

    def _printed_work(self, case: PrintedRate) -> Quantity:
        training = self.one("complexity", network=case.network).printed("training")
        return self.exact(training, "FLOP", GIGA)

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

    def needed_clock(self, by_print: bool = True) -> Quantity:
        """Lowest clock for the T4's rates, or its throughputs, by arithmetic, over its highest."""
        cases = (case for case in self.cases if case.row and case.device == T4)
        return largest(*(self.share(self.by_print(c) if by_print else c) for c in cases))

    def of_roof(self, case: PrintedRate, *clocks: str, **model: Any) -> Quantity:
        """Divide the throughput by that of layers at the nearer of their roofs.

        The value is that of the first clock; its bounds span all ``clocks``, by default all rated.
        ``model`` are the options of ``theory.least_time``.
        """
        shares = []
        for clock in clocks or CLOCKS[case.device]:
            least, _ = self.least(case.device, case.network, case.batch, clock, **model)
            shares.append(case.images * least / case.batch)
        return spanning(*shares)

    def saved_traffic(self, network: str) -> Quantity:
        """Compute the share of traffic, in whole percent, without which the laptop ties the T4."""
        laptop, t4 = (self.compared(device, network) for device in GPUS)
        seconds = value_of(self.of_roof(t4, "nominal") * laptop.batch / laptop.images)
        peak, bandwidth = value_of(self.peak(RTX)), value_of(self.bandwidth(RTX))
        for percent in range(100):
            moving = bandwidth / (1 - percent / 100)
            if value_of(theory.least_time(network, laptop.batch, peak, moving)[0]) <= seconds:
                break
        return expression.exact(f"traffic of {network} to save", "1", percent / 100, self.file)

    def memory_share(self, device: str, network: str, clock: str = "nominal") -> Quantity:
        """Compute the share of a step's least time in which memory is the nearer roof."""
        near_memory = self.least(device, network, theory.SOURCE_BATCH, clock)[1]
        return expression.exact(f"{network} near memory, {device}", "1", near_memory, self.file)

    def least(
        self, device: str, network: str, batch: int, clock: str = "nominal", **model: Any
    ) -> tuple[Quantity, float]:
        """Compute the least time (s) of a step on a device, and its share near memory's roof."""
        roofs = value_of(self.peak(device, clock)), value_of(self.bandwidth(device))
        return theory.least_time(network, batch, *roofs, **model)

    def corrections(self) -> tuple[Correction, ...]:
        """Mean efficiencies; each also has the corrections of the ones before it.

        The last one has the T4 at the lowest clock of each reading.  The source prints no
        efficiency of MobileNetV2, so that it is in no mean.
        """
        printed = [case for case in self.cases if case.row]
        steady = [case for gpu in GPUS for case in self.steady(gpu) if case.row]

        def as_printed(case: PrintedRate) -> Quantity:
            return case.images * self._printed_work(case) / self.printed_peak(case.device)

        def of_printed(case: PrintedRate) -> Quantity:
            return case.rate / self.printed_peak(case.device)

        last = self._correction("no collapse", steady, self.share)
        t4, by_print = (of_t4 / self.needed_clock() for of_t4 in (last.t4, last.by_print))
        slow = last.ratio / self.needed_clock(by_print=False)
        return (
            self._correction("as printed", printed, as_printed),
            self._correction("operations", printed, of_printed),
            self._correction("chip's peak", printed, self.share),
            last,
            Correction("lowest T4 clock", t4, last.rtx, slow, by_print),
        )

    def remainders(self, clock: str = "") -> dict[str, Correction]:
        """Correct each network alone, with the T4 at its highest clock and the laptop at one."""
        of_peak, rows = partial(self.share, clock=clock), {}
        for network in NETWORKS:
            cases = [*self.steady(RTX, network), *self.steady(T4, network)]
            rows[network] = self._correction(network, cases, of_peak)
        return rows

    def _correction(
        self, name: str, cases: Sequence[PrintedRate], of_peak: Callable[[PrintedRate], Quantity]
    ) -> Correction:
        def efficiency(device: str, by_print: bool = True) -> Quantity:
            of_device = [case for case in cases if case.device == device]
            first, *others = (of_peak(self.by_print(c) if by_print else c) for c in of_device)
            return sum(others, first) / len(of_device)

        t4, rtx = efficiency(T4), efficiency(RTX)
        ratio = efficiency(T4, by_print=False) / efficiency(RTX, by_print=False)
        return Correction(name, t4, rtx, ratio, t4 / rtx)


def value_of(quantity: Quantity) -> float:
    """Value of a quantity of the source alone, without the interval of its digits."""
    value = point(quantity)
    assert not isinstance(value, Missing), value.reason
    return float(value)


# --------------------------------------------------------------------------------------- audit


def audit(source: Source) -> tuple[Check, ...]:
    """Check all printed numbers: of devices, networks and cases, and in the text."""
    return (*_devices(source), *_networks(source), *_cases(source), *_text(source))


def _devices(source: Source) -> Iterator[Check]:
    """Check peaks and bandwidths against data sheets, or against cores and clocks."""
    for device, (key, operation) in product(GPUS, (("peak", "float32"), ("bandwidth", "memory"))):
        sheet = source.devices.find(f"NVIDIA {device}")
        peak = sheet.peak(operation) if sheet else None  # type: ignore[arg-type]
        if peak is not None:
            printed = source.of_device(device, key)
            known = exact(peak.value, printed.unit, f"data sheet of the {device}")
            yield check(printed, "data sheet", mean, known)
    (laptop, _), (bus,) = source.rows("cores"), source.rows("bus")
    performance, _ = source.rows("cpu_cores")
    for device, key, formula, compute, row, inputs in (
        (RTX, "peak", "2 · cores · clock", _core_peak, laptop,
         ("cores", "nominal")),
        (RTX, "bandwidth", "bus width · data rate / 8", _bus_bandwidth, bus,
         ("width", "rate")),
        (CPU, "peak", "2 · performance cores · multiply-adds a cycle · highest clock", _core_peak,
         performance, ("cores", "high", "lanes")),
    ):  # fmt: skip
        printed = source.of_device(device, key)
        yield check(printed, formula, compute, *map(row.printed, inputs))


def _core_peak(cores: Fraction, clock: Fraction, lanes: Fraction = Fraction(1)) -> Fraction:
    """Multiply 2 FLOP · cores · MHz · multiply-adds a cycle in TFLOP/s."""
    return 2 * cores * clock * lanes / 10**6


def _bus_bandwidth(bits: Fraction, rate: Fraction) -> Fraction:
    """Divide bits of the bus · Gbit/s of a line by 8: GB/s."""
    return bits * rate / 8


def _networks(source: Source) -> Iterator[Check]:
    """Check parameters and operations against the shapes, and training against a forward pass."""
    place, three = "shapes of the published network", exact(3, "1", "rule")
    for row in source.rows("complexity"):
        layers, forward = theory.shapes(row.cell("network")), row.printed("forward")
        count = exact(sum(map(work.parameter_count, layers)) / 1e6, "M", place)
        yield check(row.printed("parameters"), "parameters by shapes, in millions", mean, count)
        operations = exact(work.flops(work.forward_macs(layers)) / 1e9, "GFLOP", place)
        yield check(forward, "work by shapes", mean, operations)
        yield check(row.printed("training"), "3 · forward", times, three, forward)


def _images(source: Source, device: str, network: str, batch: int) -> Printed:
    return source.one("throughput", network=network, batch=batch).printed(_COLUMN[device])


def _cases(source: Source) -> Iterator[Check]:
    """Check rates, efficiencies, speed-ups, gains of larger batches, and the number of steps."""
    for row in source.rows("achieved"):
        device, network = row.cell("environment"), row.cell("network")
        images = _images(source, device, network, row.batch)
        training = source.one("complexity", network=network).printed("training")
        rate, peak = row.printed("rate"), source.of_device(device, "peak")
        yield check(rate, "images/s · work", _rate, images, training)
        yield check(row.printed("efficiency"), "rate / peak", share, rate, peak)
    for row in source.rows("throughput"):
        decimals = int(row.printed("speedup_decimals").number)
        speedup = replace(row.printed("speedup"), decimals=decimals)
        images = row.printed("rtx4080")
        yield check(speedup, "ratio of the throughputs", ratio, images, row.printed("t4"))
    for before, after in pairwise(source.rows("batches")):
        new, old = after.printed("throughput"), before.printed("throughput")
        yield check(after.printed("gain"), "gain over the row before", gain, new, old)
    batch, (data,) = theory.SOURCE_BATCH, source.rows("dataset")
    steps, warmup = (printed_value(source.reported, id) for id in ("iterations", "warmup"))
    formula = f"images / {batch} − warm-up"
    yield check(steps, formula, _measured_steps, data.printed("images"), warmup)


def _rate(images: Fraction, work: Fraction) -> Fraction:
    """Multiply images a second by GFLOP: TFLOP/s."""
    return images * work / 1000


def _measured_steps(images: Fraction, warmup: Fraction) -> Fraction:
    """Count the steps of an epoch after warm-up; the last one has the remaining images."""
    return ceil(images / theory.SOURCE_BATCH) - warmup


def _ridge(peak: Fraction, bandwidth: Fraction) -> Fraction:
    """Divide TFLOP/s by GB/s: FLOP/B."""
    return 1000 * peak / bandwidth


def _text(source: Source) -> Iterator[Check]:
    """Check averages, ratios and ranges that the text draws from the tables."""
    of, images = partial(printed_value, source.reported), partial(_images, source)
    throughputs, cells = "ratio of the throughputs", {}
    rules: list[tuple[str, str, Callable[..., Any], Sequence[Printed]]] = []
    for device, prefix in _PREFIX.items():
        rows = [row for row in source.rows("achieved") if row.cell("environment") == device]
        cells[device] = [row.printed("efficiency") for row in rows]
        for id in (f"{prefix}_efficiency", f"summary_{prefix}_efficiency"):
            rules.append((id, f"mean of the {len(rows)} efficiencies", mean, cells[device]))
        roofs = [source.of_device(device, key) for key in ("peak", "bandwidth")]
        rules.append((f"{prefix}_ridge", "peak / bandwidth", _ridge, roofs))
        fastest = images(device, SMALL, theory.SOURCE_BATCH)
        rules.append((f"{prefix}_over_cpu", throughputs, ratio, [fastest, of("cpu_throughput")]))
    peaks, efficiencies = [source.of_device(gpu, "peak") for gpu in GPUS], [*cells[RTX], *cells[T4]]
    best, worst = (images(RTX, HEAVY, batch) for batch in (64, 128))
    collapsed = source.one("achieved", environment=RTX, network=HEAVY, batch=128).printed("rate")
    speedups = [row.printed("speedup") for row in source.rows("throughput")]
    gains = [speedup for speedup in speedups if speedup.number > 1]
    intensity = source.rows("intensity")[0].printed("intensity")
    for id in ("summary_speedup", "range"):
        rules.append((f"{id}_low", "least speed-up above 1", min, gains))
        rules.append((f"{id}_high", "largest speed-up", max, gains))
    rules += [
        ("peak_ratio", "ratio of the peaks", ratio, peaks),
        ("paradox", "ratio of the average efficiencies", ratio,
         [of("t4_efficiency"), of("rtx_efficiency")]),
        ("above_ridge", "intensity / ridge point", ratio, [intensity, of("t4_ridge")]),
        ("collapse_factor", throughputs, ratio, [best, worst]),
        ("collapse_to_t4", throughputs, ratio, [images(T4, HEAVY, 128), worst]),
        ("collapse_efficiency", "rate / peak", share, [collapsed, peaks[0]]),
        ("efficiency_low", "lowest efficiency", min, efficiencies),
        ("efficiency_high", "highest efficiency", max, efficiencies),
    ]  # fmt: skip
    for id, formula, compute, inputs in rules:
        yield check(of(id), formula, compute, *inputs)
