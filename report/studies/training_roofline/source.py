"""Numbers that the source of training_roofline printed, and their audit.

The source prints the throughput of a case twice: as images a second, and within an efficiency.
The audit checks every number that others, shapes or data sheets determine, once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise, product
from math import ceil
from operator import attrgetter
from typing import Any, Final, NamedTuple

from report.core.records.reported import Reported
from report.evidence.audit import (
    Check,
    Printed,
    check,
    check_formula,
    exact,
    gain,
    mean,
    printed_value,
)
from report.paper.findings import Inputs
from report.quantity import expression
from report.quantity.expression import Quantity, absent
from report.studies.training_roofline import theory
from report.studies.training_roofline.subject import GIGA, HEAVY, MEGA, SMALL, SOURCE_BATCH, TERA
from report.theory import work

RTX: Final = "RTX 4080"
T4: Final = "T4"
CPU: Final = "CPU"
GPUS: Final = (RTX, T4)
#: A rate below this share of the network's best rate on the same device has collapsed.
COLLAPSED: Final = 0.5
#: Rated clocks of the laptop's chip, between which a maker may choose; the nominal one first.
CLOCKS: Final = ("nominal", "low", "high")
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


class PrintedCase(NamedTuple):
    """A case with its printed throughput (1/s), and the one that its printed efficiency implies.

    ``implied`` is absent for a case without a printed efficiency.
    """

    device: str
    network: str
    batch: int
    images: Quantity
    implied: Quantity


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

    # ---------------------------------------------------------------------------------- devices

    def of_device(self, device: str, key: str) -> Printed:
        """Return a printed property of a device, such as its peak."""
        return self.one("environments", environment=device).printed(key)

    def printed_peak(self, device: str) -> Quantity:
        """Peak (FLOP/s) that the source prints for a device."""
        return self.exact(self.of_device(device, "peak"), "FLOP/s", TERA)

    def peak(self, device: str, clock: str = "nominal") -> Quantity:
        """Peak (FLOP/s) by the data sheet; for the laptop's GPU by its cores and ``clock``."""
        if device != RTX:
            return self._sheet(device, "float32", "FLOP/s")
        # A core does one multiply-add a cycle.
        of_cycle = self.first_row("cores", "cores", "FLOP", 2)
        return of_cycle * self.first_row("cores", clock, "1/s", MEGA)

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

    # ------------------------------------------------------------------------------- the cases

    @cached_property
    def cases(self) -> tuple[PrintedCase, ...]:
        """Every case of a GPU."""
        efficiencies = {}
        for row in self.rows("achieved"):
            efficiencies[row.cell("environment"), row.cell("network"), row.batch] = row
        cases = []
        for device, row in product(GPUS, self.rows("throughput")):
            key = device, row.cell("network"), row.batch
            images = row.printed(_COLUMN[device]).quantity("1/s", self.file)
            implied: Quantity = absent("throughput", "1/s", "no efficiency is printed")
            if key in efficiencies:
                efficiency = efficiencies[key].printed("efficiency").quantity("1", self.file, 0.01)
                implied = efficiency * self.printed_peak(device) / self.printed_work(key[1])
            cases.append(PrintedCase(*key, images, implied))
        return tuple(cases)

    def printed_work(self, network: str) -> Quantity:
        """Return the printed work of a training step on one image (FLOP)."""
        training = self.one("complexity", network=network).printed("training")
        return self.exact(training, "FLOP", GIGA)

    def steady(self, device: str, network: str) -> list[PrintedCase]:
        """Cases of a network on a device, at batches that collapsed on neither GPU."""
        collapsed = {c.batch for c in self.cases if c.network == network and self._collapsed(c)}
        return [c for c in self.of(device, network) if c.batch not in collapsed]

    def of(self, device: str, network: str) -> list[PrintedCase]:
        """Cases of a network on a device, by batch."""
        return [c for c in self.cases if (c.device, c.network) == (device, network)]

    def _collapsed(self, case: PrintedCase) -> bool:
        """Tell if a case is far slower than the same network at its best batch."""
        best = max(theory.value_of(c.images) for c in self.of(case.device, case.network))
        return theory.value_of(case.images) < COLLAPSED * best

    def compared(self, device: str, network: str) -> PrintedCase:
        """The case of a network at the largest batch that collapsed on neither GPU."""
        return max(self.steady(device, network), key=attrgetter("batch"))


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
            yield check_formula(printed, "data_sheet", data_sheet=known)
    laptop, bus, cpu = (source.rows(table)[0].printed for table in ("cores", "bus", "cpu_cores"))
    of_laptop, of_cpu = (source.of_device(device, "peak") for device in (RTX, CPU))
    inputs = {"cores": laptop("cores"), "clock": laptop("nominal")}
    yield check_formula(of_laptop, "2 * cores * clock / 1000000", **inputs)
    inputs = {"bus_width": bus("width"), "data_rate": bus("rate")}
    yield check_formula(source.of_device(RTX, "bandwidth"), "bus_width * data_rate / 8", **inputs)
    inputs = {"cores": cpu("cores"), "lanes": cpu("lanes"), "highest_clock": cpu("high")}
    yield check_formula(of_cpu, "2 * cores * lanes * highest_clock / 1000000", **inputs)


def _networks(source: Source) -> Iterator[Check]:
    """Check parameters and operations against the shapes, and training against a forward pass."""
    place = "shapes of the published network"
    for row in source.rows("complexity"):
        layers, forward = theory.shapes(row.cell("network")), row.printed("forward")
        count = exact(sum(map(work.parameter_count, layers)) / 1e6, "M", place)
        printed = row.printed("parameters")
        yield check_formula(printed, "parameters_by_shapes", parameters_by_shapes=count)
        operations = exact(work.flops(work.forward_macs(layers)) / 1e9, "GFLOP", place)
        yield check_formula(forward, "work_by_shapes", work_by_shapes=operations)
        yield check_formula(row.printed("training"), "3 * forward", forward=forward)


def _images(source: Source, device: str, network: str, batch: int) -> Printed:
    return source.one("throughput", network=network, batch=batch).printed(_COLUMN[device])


def _cases(source: Source) -> Iterator[Check]:
    """Check rates, efficiencies, speed-ups, gains of larger batches, and the number of steps."""
    for row in source.rows("achieved"):
        device, network = row.cell("environment"), row.cell("network")
        images = _images(source, device, network, row.batch)
        step = source.one("complexity", network=network).printed("training")
        rate, peak = row.printed("rate"), source.of_device(device, "peak")
        yield check_formula(rate, "images * work / 1000", images=images, work=step)
        yield check_formula(row.printed("efficiency"), "100 * rate / peak", rate=rate, peak=peak)
    for row in source.rows("throughput"):
        decimals = int(row.printed("speedup_decimals").number)
        speedup = replace(row.printed("speedup"), decimals=decimals)
        laptop, t4 = row.printed("rtx4080"), row.printed("t4")
        yield check_formula(speedup, "laptop / T4", laptop=laptop, T4=t4)
    for before, after in pairwise(source.rows("batches")):
        new, old = after.printed("throughput"), before.printed("throughput")
        yield check(after.printed("gain"), "gain over the row before", gain, new, old)
    steps, warmup = (printed_value(source.reported, id) for id in ("iterations", "warmup"))
    formula, dataset = f"images / {SOURCE_BATCH} − warm-up", source.rows("dataset")[0]
    yield check(steps, formula, _measured_steps, dataset.printed("images"), warmup)


def _measured_steps(images: Fraction, warmup: Fraction) -> Fraction:
    """Count the steps of an epoch after warm-up; the last one has the remaining images."""
    return ceil(images / SOURCE_BATCH) - warmup


def _text(source: Source) -> Iterator[Check]:
    """Check averages, ratios and ranges that the text draws from the tables."""
    of, images = partial(printed_value, source.reported), partial(_images, source)
    efficiencies: dict[str, list[Printed]] = {}
    extremes: list[tuple[str, str, Callable[..., Any], Sequence[Printed]]] = []
    for device, prefix in _PREFIX.items():
        rows = [row for row in source.rows("achieved") if row.cell("environment") == device]
        efficiencies[device] = [row.printed("efficiency") for row in rows]
        for id in (f"{prefix}_efficiency", f"summary_{prefix}_efficiency"):
            formula = f"mean of the {len(rows)} efficiencies"
            extremes.append((id, formula, mean, efficiencies[device]))
        peak, bandwidth = (source.of_device(device, key) for key in ("peak", "bandwidth"))
        ridge = of(f"{prefix}_ridge")
        yield check_formula(ridge, "1000 * peak / bandwidth", peak=peak, bandwidth=bandwidth)
        gpu, cpu = images(device, SMALL, SOURCE_BATCH), of("cpu_throughput")
        yield check_formula(of(f"{prefix}_over_cpu"), "GPU / CPU", GPU=gpu, CPU=cpu)
    laptop, t4 = (source.of_device(device, "peak") for device in GPUS)
    best, worst = (images(RTX, HEAVY, batch) for batch in (64, 128))
    collapsed = source.one("achieved", environment=RTX, network=HEAVY, batch=128).printed("rate")
    intensity = source.rows("intensity")[0].printed("intensity")
    for id, formula, inputs in (
        ("peak_ratio", "laptop / T4", {"laptop": laptop, "T4": t4}),
        ("paradox", "T4 / laptop", {"T4": of("t4_efficiency"), "laptop": of("rtx_efficiency")}),
        ("above_ridge", "intensity / ridge", {"intensity": intensity, "ridge": of("t4_ridge")}),
        ("collapse_factor", "best / worst", {"best": best, "worst": worst}),
        ("collapse_to_t4", "T4 / laptop", {"T4": images(T4, HEAVY, 128), "laptop": worst}),
        ("collapse_efficiency", "100 * rate / peak", {"rate": collapsed, "peak": laptop}),
    ):
        yield check_formula(of(id), formula, **inputs)
    speedups = [row.printed("speedup") for row in source.rows("throughput")]
    gains = [speedup for speedup in speedups if speedup.number > 1]
    for id in ("summary_speedup", "range"):
        extremes.append((f"{id}_low", "least speed-up above 1", min, gains))
        extremes.append((f"{id}_high", "largest speed-up", max, gains))
    both = [*efficiencies[RTX], *efficiencies[T4]]
    extremes.append(("efficiency_low", "lowest efficiency", min, both))
    extremes.append(("efficiency_high", "highest efficiency", max, both))
    for id, words, compute, numbers in extremes:
        yield check(of(id), words, compute, *numbers)
