"""Numbers that the source of training_roofline printed, and their audit.

The source prints the throughput of a case twice: as images per second, and within an efficiency.
The audit checks each number that follows from other numbers, shapes or data sheets once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise, product
from math import ceil
from typing import Any, Final, NamedTuple

from report.core.records.reported import RatedPeak, Reported
from report.evidence import audit as audits
from report.evidence.audit import (
    Check,
    Printed,
    check,
    check_formula,
    printed_value,
    unrounded_value,
)
from report.paper.findings import Inputs
from report.quantity import expression
from report.quantity.expression import Quantity, missing_number
from report.studies.training_roofline import subject, theory
from report.studies.training_roofline.subject import RESNET18, RESNET50, SOURCE_BATCH
from report.theory import work

RTX, T4, CPU = "RTX 4080", "T4", "CPU"
GPUS: Final = (RTX, T4)
#: A throughput below this share of the network's best on the same device has collapsed.
COLLAPSED: Final = 0.5
#: Rated clocks of the laptop's chip, between which a maker may choose; the nominal clock is first.
CLOCKS: Final = ("nominal", "low", "high")
#: The T4's highest clock (MHz), at which its data sheet rates it (``nvidiaturing``).
T4_CLOCK: Final = 1590
#: Device → column of the throughput table.
_COLUMNS: Final = {RTX: "rtx4080", T4: "t4"}
#: Device → beginning of the ids of numbers in the text.
_PREFIXES: Final = {RTX: "rtx", T4: "t4"}
#: Table whose rows are read by their position → number of rows.
_ROWS: Final = {"cores": 2, "cpu_cores": 2, "intensity": 3, "batches": 3}


@dataclass(frozen=True)
class ResultRow:
    """A row of a table; ``number`` counts from 0."""

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
        """Return a number with its decimals and place; raises ``StudyError`` for other cells."""
        table, cell = self.reported.table(self.table), self.cell(key)
        column = next(column for column in table.columns if column.key == key)
        if not isinstance(cell, int | float) or column.unit is None:
            place = f"table {self.table}, row {self.number + 1}, {key}"
            raise self.reported.fault(f"{place}: expected a number, found none")
        # The batch size and the columns without a unit identify the row.
        cells = zip(table.columns, table.rows[self.number], strict=True)
        words = [str(cell) for head, cell in cells if head.unit is None or head.key == "batch"]
        place = f"{table.place}, {column.name}, {', '.join(words)}"
        return Printed(cell, column.decimals, column.unit, place)


class PrintedCase(NamedTuple):
    """A case with its printed throughput (1/s).

    ``implied``: the throughput that the printed efficiency implies; absent without an efficiency.
    """

    device: str
    network: str
    batch: int
    throughput: Quantity
    implied: Quantity

    @property
    def gap(self) -> Quantity:
        """The printed throughput divided by the implied throughput, less 1."""
        return self.throughput / self.implied - 1


class Source:
    """The source's tables and numbers; methods raise ``StudyError`` for a missing one."""

    def __init__(self, inputs: Inputs) -> None:
        self.reported, self.file = inputs.reported, inputs.reported_file
        self.devices = inputs.devices

    def rows(self, table: str) -> tuple[ResultRow, ...]:
        """Return the rows of a table."""
        count = len(self.reported.table(table, _ROWS.get(table)).rows)
        return tuple(ResultRow(self.reported, table, number) for number in range(count))

    def find_row(self, table: str, **where: object) -> ResultRow:
        """Return the first row with these cells; raises ``StudyError`` if no row has them."""
        for row in self.rows(table):
            if all(row.cell(key) == value for key, value in where.items()):
                return row
        wanted = ", ".join(f"{key} {value}" for key, value in where.items())
        raise self.reported.fault(f"table {table} has no row with {wanted}")

    def exact(self, printed: Printed, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a printed number times ``factor`` in ``unit``, without an interval."""
        return replace(printed, decimals=None).quantity(unit, self.file, factor)

    def value(self, id: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a number of the source's text, like ``exact``."""
        return self.exact(printed_value(self.reported, id), unit, factor)

    def first_cell(self, table: str, key: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a number of a table's first row, like ``exact``."""
        return self.exact(self.rows(table)[0].printed(key), unit, factor)

    def device_cell(self, device: str, key: str) -> Printed:
        """Return a printed property of a device, such as its peak."""
        return self.find_row("environments", environment=device).printed(key)

    def printed_peak(self, device: str) -> Quantity:
        """Return the peak (FLOP/s) that the source prints for a device."""
        return self.exact(self.device_cell(device, "peak"), "FLOP/s", subject.TERA)

    def peak(self, device: str, clock: str = "nominal") -> Quantity:
        """Return the peak (FLOP/s) by the data sheet, or by the laptop's cores and ``clock``."""
        if device != RTX:
            return self._sheet_rate(device, "float32", "FLOP/s")
        # A core does one multiply-add a cycle.
        flop_per_cycle = self.first_cell("cores", "cores", "FLOP", 2)
        return flop_per_cycle * self.first_cell("cores", clock, "1/s", subject.MEGA)

    def bandwidth(self, device: str) -> Quantity:
        """Return the bandwidth (B/s) by the data sheet, or by the laptop's bus and data rate."""
        if device == RTX:
            width = self.first_cell("bus", "width", "1", 1 / 8)
            return width * self.first_cell("bus", "rate", "B/s", subject.GIGA)
        return self._sheet_rate(device, "memory", "B/s")

    def _sheet_rate(self, device: str, operation: str, unit: str) -> Quantity:
        """Return the rate of an operation by the data sheet; absent without a data sheet."""
        peak, name = self.sheet_peak(device, operation), f"{operation} of the {device}"
        if peak is None:
            return missing_number(name, unit, f"no data sheet of the {device} is known")
        return expression.exact_number(name, unit, peak.rate)

    def sheet_peak(self, device: str, operation: str) -> RatedPeak | None:
        """Return a peak of the data sheet, or None for a device without one."""
        sheet = self.devices.find(f"NVIDIA {device}")
        return sheet.peak(operation) if sheet else None  # type: ignore[arg-type]

    @cached_property
    def cases(self) -> tuple[PrintedCase, ...]:
        """All cases of both GPUs."""
        efficiencies = {}
        for row in self.rows("achieved"):
            case = row.cell("environment"), row.cell("network"), row.batch
            efficiencies[case] = row.printed("efficiency")
        # The summary prints the efficiency of the collapsed run with one digit more.
        collapsed = printed_value(self.reported, "collapse_efficiency")
        efficiencies[RTX, RESNET50, SOURCE_BATCH] = collapsed
        cases = []
        for device, row in product(GPUS, self.rows("throughput")):
            key = device, row.cell("network"), row.batch
            images = row.printed(_COLUMNS[device]).quantity("1/s", self.file)
            implied: Quantity = missing_number("throughput", "1/s", "no efficiency is printed")
            if key in efficiencies:
                efficiency = efficiencies[key].quantity("1", self.file, 0.01)
                implied = efficiency * self.printed_peak(device) / self.printed_work(key[1])
            cases.append(PrintedCase(*key, images, implied))
        return tuple(cases)

    def printed_work(self, network: str) -> Quantity:
        """Return the printed work of a training step on one image (FLOP)."""
        training = self.find_row("complexity", network=network).printed("training")
        return self.exact(training, "FLOP", subject.GIGA)

    def steady_cases(self, device: str, network: str) -> list[PrintedCase]:
        """Return cases of a network on a device, at batches that collapsed on neither GPU."""
        collapsed: set[int] = set()
        for gpu in GPUS:
            cases = self.cases_of(gpu, network)
            limit = COLLAPSED * max(theory.value_of(case.throughput) for case in cases)
            collapsed |= {case.batch for case in cases if theory.value_of(case.throughput) < limit}
        return [case for case in self.cases_of(device, network) if case.batch not in collapsed]

    def cases_of(self, device: str, network: str) -> list[PrintedCase]:
        """Return the cases of a network on a device, by batch."""
        return [case for case in self.cases if case[:2] == (device, network)]

    def largest_steady_case(self, device: str, network: str) -> PrintedCase:
        """Return the case of a network at the largest batch that collapsed on neither GPU."""
        return self.steady_cases(device, network)[-1]


def audit(s: Source) -> tuple[Check, ...]:
    """Check all printed numbers: of devices, networks and cases, and in the text."""
    return (*_check_devices(s), *_check_networks(s), *_check_cases(s), *_check_text(s))


def _check_devices(s: Source) -> Iterator[Check]:
    """Check peaks and bandwidths against data sheets, or against numbers of cores and clocks."""
    for device, (key, operation) in product(GPUS, (("peak", "float32"), ("bandwidth", "memory"))):
        if rated := s.sheet_peak(device, operation):
            printed = s.device_cell(device, key)
            known = unrounded_value(rated.value, printed.unit, f"data sheet of the {device}")
            yield check_formula(printed, "data_sheet", data_sheet=known)
    chip, bus, cpu = (s.rows(table)[0] for table in ("cores", "bus", "cpu_cores"))
    inputs = {"cores": chip.printed("cores"), "clock": chip.printed("nominal")}
    yield check_formula(s.device_cell(RTX, "peak"), "2 * cores * clock / 1000000", **inputs)
    inputs = {"bus_width": bus.printed("width"), "data_rate": bus.printed("rate")}
    yield check_formula(s.device_cell(RTX, "bandwidth"), "bus_width * data_rate / 8", **inputs)
    cells = {"cores": "cores", "lanes": "lanes", "highest_clock": "high"}
    inputs = {name: cpu.printed(key) for name, key in cells.items()}
    formula = "2 * cores * lanes * highest_clock / 1000000"
    yield check_formula(s.device_cell(CPU, "peak"), formula, **inputs)


def _check_networks(s: Source) -> Iterator[Check]:
    """Check parameters and work against the shapes, and work of training against a forward pass."""
    place = "shapes of the published network"
    for row in s.rows("complexity"):
        layers, forward = theory.shapes(row.cell("network")), row.printed("forward")
        count = unrounded_value(sum(map(work.parameter_count, layers)) / 1e6, "M", place)
        printed = row.printed("parameters")
        yield check_formula(printed, "parameters_by_shapes", parameters_by_shapes=count)
        operations = unrounded_value(work.flops(work.forward_macs(layers)) / 1e9, "GFLOP", place)
        yield check_formula(forward, "work_by_shapes", work_by_shapes=operations)
        yield check_formula(row.printed("training"), "3 * forward", forward=forward)


def _printed_throughput(s: Source, device: str, network: str, batch: int) -> Printed:
    return s.find_row("throughput", network=network, batch=batch).printed(_COLUMNS[device])


def _check_cases(s: Source) -> Iterator[Check]:
    """Check rates, efficiencies, speed-ups, gains of larger batches, and the number of steps."""
    for row in s.rows("achieved"):
        device, network = row.cell("environment"), row.cell("network")
        images = _printed_throughput(s, device, network, row.batch)
        step = s.find_row("complexity", network=network).printed("training")
        rate, peak = row.printed("rate"), s.device_cell(device, "peak")
        yield check_formula(rate, "images * work / 1000", images=images, work=step)
        yield check_formula(row.printed("efficiency"), "100 * rate / peak", rate=rate, peak=peak)
    for row in s.rows("throughput"):
        decimals = int(row.printed("speedup_decimals").number)
        speedup = replace(row.printed("speedup"), decimals=decimals)
        laptop, t4 = row.printed("rtx4080"), row.printed("t4")
        yield check_formula(speedup, "laptop / T4", laptop=laptop, T4=t4)
    for before, after in pairwise(s.rows("batches")):
        new, old = after.printed("throughput"), before.printed("throughput")
        yield check(after.printed("gain"), "gain over the row before", audits.gain, new, old)
    steps, warmup = (printed_value(s.reported, id) for id in ("iterations", "warmup"))
    formula, images = f"images / {SOURCE_BATCH} − warm-up", s.rows("dataset")[0].printed("images")
    yield check(steps, formula, _measured_steps, images, warmup)


def _measured_steps(images: Fraction, warmup: Fraction) -> Fraction:
    """Count the steps of an epoch after warm-up; the last step has the remaining images."""
    return ceil(images / SOURCE_BATCH) - warmup


def _check_text(s: Source) -> Iterator[Check]:
    """Check averages, ratios and ranges in the text that follow from the tables."""
    # Numbers of the source's text by id, and printed throughputs by device, network and batch.
    text, rate = partial(printed_value, s.reported), partial(_printed_throughput, s)
    efficiencies = []
    for device, prefix in _PREFIXES.items():
        rows = [row for row in s.rows("achieved") if row.cell("environment") == device]
        averaged = [row.printed("efficiency") for row in rows]
        efficiencies += averaged
        for id in (f"{prefix}_efficiency", f"summary_{prefix}_efficiency"):
            yield check(text(id), f"mean of the {len(rows)} efficiencies", audits.mean, *averaged)
        peak, bandwidth = (s.device_cell(device, key) for key in ("peak", "bandwidth"))
        ridge = text(f"{prefix}_ridge")
        yield check_formula(ridge, "1000 * peak / bandwidth", peak=peak, bandwidth=bandwidth)
        gpu, cpu = rate(device, RESNET18, SOURCE_BATCH), text("cpu_throughput")
        yield check_formula(text(f"{prefix}_over_cpu"), "GPU / CPU", GPU=gpu, CPU=cpu)
    laptop, t4 = (s.device_cell(device, "peak") for device in GPUS)
    best, worst = (rate(RTX, RESNET50, batch) for batch in (64, 128))
    collapsed = s.find_row("achieved", environment=RTX, network=RESNET50, batch=128).printed("rate")
    intensity = s.rows("intensity")[0].printed("intensity")
    for id, formula, inputs in (
        ("peak_ratio", "laptop / T4", {"laptop": laptop, "T4": t4}),
        ("paradox", "T4 / laptop", {"T4": text("t4_efficiency"), "laptop": text("rtx_efficiency")}),
        ("above_ridge", "intensity / ridge", {"intensity": intensity, "ridge": text("t4_ridge")}),
        ("collapse_factor", "best / worst", {"best": best, "worst": worst}),
        ("collapse_to_t4", "T4 / laptop", {"T4": rate(T4, RESNET50, 128), "laptop": worst}),
        ("collapse_efficiency", "100 * rate / peak", {"rate": collapsed, "peak": laptop}),
    ):
        yield check_formula(text(id), formula, **inputs)
    speedups = [row.printed("speedup") for row in s.rows("throughput")]
    above_one = [speedup for speedup in speedups if speedup.number > 1]
    for id in ("summary_speedup", "range"):
        yield check(text(f"{id}_low"), "least speed-up above 1", min, *above_one)
        yield check(text(f"{id}_high"), "largest speed-up", max, *above_one)
    yield check(text("efficiency_low"), "lowest efficiency", min, *efficiencies)
    yield check(text("efficiency_high"), "highest efficiency", max, *efficiencies)
