"""Numbers that the source of training_roofline printed, and their audit.

The source prints the throughput of a case as images per second, and as part of an efficiency.
The audit recomputes each number that follows from other numbers, shapes or data sheets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain, pairwise, product
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

#: Devices as the source names them; the RTX 4080 is a laptop's.
LAPTOP, T4, CPU = "RTX 4080", "T4", "CPU"
GPUS: Final = (LAPTOP, T4)
#: A run has collapsed if its throughput is below this share of the network's best on the device.
COLLAPSED_SHARE: Final = 0.5
#: Rated clocks of the laptop's chip; a laptop's maker chooses a clock between "low" and "high".
CLOCKS: Final = ("nominal", "low", "high")
#: Device → column of the throughput table.
_COLUMNS: Final = {LAPTOP: "rtx4080", T4: "t4"}
#: Device → beginning of the ids of numbers in the text.
_ID_PREFIXES: Final = {LAPTOP: "rtx", T4: "t4"}
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

    ``implied``: throughput that the printed efficiency implies; missing without an efficiency.
    """

    device: str
    network: str
    batch: int
    throughput: Quantity
    implied: Quantity

    @property
    def gap(self) -> Quantity:
        """The printed throughput divided by the implied throughput, minus 1."""
        return self.throughput / self.implied - 1


class Source:
    """The source's tables and numbers; methods raise ``StudyError`` for a missing number."""

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

    def exact_value(self, printed: Printed, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a printed number times ``factor`` in ``unit``, without an interval."""
        return replace(printed, decimals=None).quantity(unit, self.file, factor)

    def value(self, id: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a number of the source's text, like ``exact_value``."""
        return self.exact_value(printed_value(self.reported, id), unit, factor)

    def first_cell(self, table: str, key: str, unit: str = "1", factor: float = 1.0) -> Quantity:
        """Return a number of a table's first row, like ``exact_value``."""
        return self.exact_value(self.rows(table)[0].printed(key), unit, factor)

    def device_cell(self, device: str, key: str) -> Printed:
        """Return a printed property of a device, such as its peak."""
        return self.find_row("environments", environment=device).printed(key)

    def printed_peak(self, device: str) -> Quantity:
        """Return the peak (FLOP/s) that the source prints for a device."""
        return self.exact_value(self.device_cell(device, "peak"), "FLOP/s", subject.TERA)

    def peak(self, device: str, clock: str = "nominal") -> Quantity:
        """Return the peak (FLOP/s) by the data sheet, or by the laptop's cores and ``clock``."""
        if device != LAPTOP:
            return self._sheet_rate(device, "float32", "FLOP/s")
        # A core computes one multiply-add (2 FLOP) per cycle.
        flop_per_cycle = self.first_cell("cores", "cores", "FLOP", 2)
        return flop_per_cycle * self.first_cell("cores", clock, "1/s", subject.MEGA)

    def bandwidth(self, device: str) -> Quantity:
        """Return the bandwidth (B/s) by the data sheet, or by the laptop's bus and data rate."""
        if device == LAPTOP:
            width = self.first_cell("bus", "width", "1", 1 / 8)
            return width * self.first_cell("bus", "rate", "B/s", subject.GIGA)
        return self._sheet_rate(device, "memory", "B/s")

    def _sheet_rate(self, device: str, operation: str, unit: str) -> Quantity:
        """Return the rate of an operation by the data sheet; missing without a data sheet."""
        peak, name = self.sheet_peak(device, operation), f"{operation} of the {device}"
        if peak is None:
            return missing_number(name, unit, f"no data sheet of the {device} is known")
        return expression.exact_number(name, unit, peak.rate)

    def sheet_peak(self, device: str, operation: str) -> RatedPeak | None:
        """Return a peak of a device's data sheet, or None without a data sheet."""
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
        efficiencies[LAPTOP, RESNET50, SOURCE_BATCH] = collapsed
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
        return self.exact_value(training, "FLOP", subject.GIGA)

    def steady_cases(self, device: str, network: str) -> list[PrintedCase]:
        """Return cases of a network on a device, at batch sizes that collapsed on neither GPU."""
        collapsed: set[int] = set()
        for gpu in GPUS:
            cases = self.cases_of(gpu, network)
            limit = COLLAPSED_SHARE * max(theory.value_of(case.throughput) for case in cases)
            collapsed |= {case.batch for case in cases if theory.value_of(case.throughput) < limit}
        return [case for case in self.cases_of(device, network) if case.batch not in collapsed]

    def cases_of(self, device: str, network: str) -> list[PrintedCase]:
        """Return the cases of a network on a device, in the order of the source's table."""
        return [case for case in self.cases if case[:2] == (device, network)]

    def largest_steady_case(self, device: str, network: str) -> PrintedCase:
        """Return a network's case at the largest batch size that collapsed on neither GPU."""
        return self.steady_cases(device, network)[-1]


def audit(source: Source) -> tuple[Check, ...]:
    """Check all printed numbers that follow from other numbers."""
    functions = _check_devices, _check_networks, _check_cases, _check_text
    return tuple(chain.from_iterable(function(source) for function in functions))


def _check_devices(source: Source) -> Iterator[Check]:
    """Check peaks and bandwidths against data sheets, or against numbers of cores and clocks."""
    for device, (key, operation) in product(GPUS, (("peak", "float32"), ("bandwidth", "memory"))):
        if rated := source.sheet_peak(device, operation):
            printed = source.device_cell(device, key)
            known = unrounded_value(rated.value, printed.unit, f"data sheet of the {device}")
            yield check_formula(printed, "data_sheet", data_sheet=known)
    chip, bus, cpu = (source.rows(table)[0] for table in ("cores", "bus", "cpu_cores"))
    inputs = {"cores": chip.printed("cores"), "clock": chip.printed("nominal")}
    yield check_formula(source.device_cell(LAPTOP, "peak"), "2 * cores * clock / 1000000", **inputs)
    inputs = {"bus_width": bus.printed("width"), "data_rate": bus.printed("rate")}
    bandwidth = source.device_cell(LAPTOP, "bandwidth")
    yield check_formula(bandwidth, "bus_width * data_rate / 8", **inputs)
    cells = {"cores": "cores", "lanes": "lanes", "highest_clock": "high"}
    inputs = {name: cpu.printed(key) for name, key in cells.items()}
    formula = "2 * cores * lanes * highest_clock / 1000000"
    yield check_formula(source.device_cell(CPU, "peak"), formula, **inputs)


def _check_networks(source: Source) -> Iterator[Check]:
    """Check parameters and work by the shapes, and the work of training by that of inference."""
    place = "shapes of the published network"
    for row in source.rows("complexity"):
        layers, forward = theory.shapes(row.cell("network")), row.printed("forward")
        count = unrounded_value(sum(map(work.parameter_count, layers)) / 1e6, "M", place)
        printed = row.printed("parameters")
        yield check_formula(printed, "parameters_by_shapes", parameters_by_shapes=count)
        operations = unrounded_value(work.flops(work.forward_macs(layers)) / 1e9, "GFLOP", place)
        yield check_formula(forward, "work_by_shapes", work_by_shapes=operations)
        yield check_formula(row.printed("training"), "3 * forward", forward=forward)


def _printed_throughput(source: Source, device: str, network: str, batch: int) -> Printed:
    return source.find_row("throughput", network=network, batch=batch).printed(_COLUMNS[device])


def _check_cases(source: Source) -> Iterator[Check]:
    """Check rates, efficiencies, speed-ups, gains by larger batches, and the number of steps."""
    for row in source.rows("achieved"):
        device, network = row.cell("environment"), row.cell("network")
        images = _printed_throughput(source, device, network, row.batch)
        step = source.find_row("complexity", network=network).printed("training")
        rate, peak = row.printed("rate"), source.device_cell(device, "peak")
        yield check_formula(rate, "images * work / 1000", images=images, work=step)
        yield check_formula(row.printed("efficiency"), "100 * rate / peak", rate=rate, peak=peak)
    for row in source.rows("throughput"):
        decimals = int(row.printed("speedup_decimals").number)
        speedup = replace(row.printed("speedup"), decimals=decimals)
        laptop, t4 = row.printed("rtx4080"), row.printed("t4")
        yield check_formula(speedup, "laptop / T4", laptop=laptop, T4=t4)
    for before, after in pairwise(source.rows("batches")):
        new, old = after.printed("throughput"), before.printed("throughput")
        yield check(after.printed("gain"), "gain over the row before", audits.gain, new, old)
    steps, warmup = (printed_value(source.reported, id) for id in ("iterations", "warmup"))
    images = source.rows("dataset")[0].printed("images")
    # The division is rounded up (see ``_measured_steps``).
    yield check(steps, f"images / {SOURCE_BATCH} − warm-up", _measured_steps, images, warmup)


def _measured_steps(images: Fraction, warmup: Fraction) -> Fraction:
    """Count the steps of an epoch after warm-up; the last step has the remaining images."""
    return ceil(images / SOURCE_BATCH) - warmup


def _check_text(source: Source) -> Iterator[Check]:
    """Check averages, ratios and ranges in the text that follow from the tables."""
    # ``number_in_text`` takes the id of a number, ``throughput_of`` takes device, network, batch.
    number_in_text = partial(printed_value, source.reported)
    throughput_of = partial(_printed_throughput, source)
    efficiencies = []
    for device, prefix in _ID_PREFIXES.items():
        rows = [row for row in source.rows("achieved") if row.cell("environment") == device]
        averaged = [row.printed("efficiency") for row in rows]
        efficiencies += averaged
        for id in (f"{prefix}_efficiency", f"summary_{prefix}_efficiency"):
            formula = f"mean of the {len(rows)} efficiencies"
            yield check(number_in_text(id), formula, audits.mean, *averaged)
        peak, bandwidth = (source.device_cell(device, key) for key in ("peak", "bandwidth"))
        ridge = number_in_text(f"{prefix}_ridge")
        yield check_formula(ridge, "1000 * peak / bandwidth", peak=peak, bandwidth=bandwidth)
        gpu = throughput_of(device, RESNET18, SOURCE_BATCH)
        speedup, cpu = number_in_text(f"{prefix}_over_cpu"), number_in_text("cpu_throughput")
        yield check_formula(speedup, "GPU / CPU", GPU=gpu, CPU=cpu)
    laptop_peak, t4_peak = (source.device_cell(device, "peak") for device in (LAPTOP, T4))
    t4_mean, laptop_mean = map(number_in_text, ("t4_efficiency", "rtx_efficiency"))
    best, worst = (throughput_of(LAPTOP, RESNET50, batch) for batch in (64, 128))
    collapsed_row = source.find_row("achieved", environment=LAPTOP, network=RESNET50, batch=128)
    collapsed_rate, t4_rate = collapsed_row.printed("rate"), throughput_of(T4, RESNET50, 128)
    intensity = source.rows("intensity")[0].printed("intensity")
    t4_ridge = number_in_text("t4_ridge")
    # Id of a number in the text, its formula, and the formula's inputs.
    for id, formula, inputs in (
        ("peak_ratio", "laptop / T4", {"laptop": laptop_peak, "T4": t4_peak}),
        ("paradox", "T4 / laptop", {"T4": t4_mean, "laptop": laptop_mean}),  # mean efficiencies
        ("above_ridge", "intensity / ridge", {"intensity": intensity, "ridge": t4_ridge}),
        ("collapse_factor", "best / worst", {"best": best, "worst": worst}),
        ("collapse_to_t4", "T4 / laptop", {"T4": t4_rate, "laptop": worst}),
        ("collapse_efficiency", "100 * rate / peak", {"rate": collapsed_rate, "peak": laptop_peak}),
    ):
        yield check_formula(number_in_text(id), formula, **inputs)
    speedups = [row.printed("speedup") for row in source.rows("throughput")]
    above_one = [speedup for speedup in speedups if speedup.number > 1]
    for id in ("summary_speedup", "range"):  # two places that print the range of speed-ups
        yield check(number_in_text(f"{id}_low"), "least speed-up above 1", min, *above_one)
        yield check(number_in_text(f"{id}_high"), "largest speed-up", max, *above_one)
    yield check(number_in_text("efficiency_low"), "lowest efficiency", min, *efficiencies)
    yield check(number_in_text("efficiency_high"), "highest efficiency", max, *efficiencies)
