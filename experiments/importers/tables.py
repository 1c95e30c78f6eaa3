"""Tables: tidy tables, which name quantities and units, and tables of timm's ``benchmark.py``.

A tidy table has columns of factors, and measured columns with their units: ``time [ms]``.

timm's table has one row per network; the file's name states conditions.  The columns are the mean
time of a step (ms), images per second in the same steps, parameters and activations in millions,
and multiply-adds of one image as «GMACs».  Only the time has more than two decimal places.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from experiments.importers.imported import Imported, ImportSource, environment, scaled
from report.core.records.quantities import QUANTITIES
from report.core.records.record import (
    Case,
    ImportedEnvironment,
    Level,
    Sample,
    SeriesByQuantity,
)
from report.core.records.strict import repeated


class MeasuredColumn(NamedTuple):
    """Measured column: quantity, factor to the quantity's unit, rounding step in that unit."""

    quantity: str
    to_unit: str
    step: float = 0.0


#: Row of a table: its line number in the file, and its cells by heading.
_TableRow: TypeAlias = tuple[int, dict[str, str]]
#: Heading → name of the factor, or measured column.
_Columns: TypeAlias = Mapping[str, str | MeasuredColumn]


def _cases(source: ImportSource, rows: Iterable[_TableRow], columns: _Columns) -> tuple[Case, ...]:
    """Combine rows with equal factors into one case; its samples are in the order of the rows."""
    series_by_levels: dict[tuple[tuple[str, Level], ...], dict[str, list[Sample]]] = {}
    for line, row in rows:
        factors: dict[str, Level] = {}
        measured: dict[str, Sample] = {}
        for name, cell in row.items():
            column, text = columns[name], cell.strip()
            if isinstance(column, str):  # 12.0 remains text, because it may be a version
                factors[column] = int(text) if re.fullmatch(r"0|[1-9]\d{0,17}", text) else text
            elif cell:
                number = scaled(text, column.to_unit, whole=QUANTITIES[column.quantity].whole)
                if number is None or not _is_possible(number, column.quantity):
                    raise source.error(f"line {line}, {name}: found {cell!r}; fix it")
                measured[column.quantity] = number
        series = series_by_levels.setdefault(tuple(factors.items()), {})
        for quantity, number in measured.items():
            series.setdefault(quantity, []).append(number)
    cases = []
    for levels, series in series_by_levels.items():
        case = Case(factors=dict(levels), status="unavailable", reason="the table gives no number")
        if series:
            samples: SeriesByQuantity = {}
            for quantity, numbers in series.items():
                samples[quantity] = tuple(numbers)
            case = Case(factors=dict(levels), series=samples)
        cases.append(case)
    return tuple(cases)


def _is_possible(number: Sample, quantity: str) -> bool:
    """Return whether a quantity can have this value: no accuracy above 1, no time or rate of 0."""
    if quantity.endswith("_accuracy"):
        return number <= 1
    may_round_to_0 = quantity in ("wait_time", "cpu_time")
    return number > 0 or may_round_to_0 or QUANTITIES[quantity].unit not in ("s", "1/s")


#: Heading of a measured column, such as ``time [ms]``.
_HEADING: Final = re.compile(r"(?P<quantity>\w+) \[(?P<unit>[^\]]+)\]")
#: Unit of a quantity → other units of its columns → factor to the unit of the quantity.
_OTHER_UNITS: Final[dict[str, dict[str, str]]] = {
    "s": {"ms": "1e-3", "us": "1e-6", "µs": "1e-6", "ns": "1e-9"},
    "B": {"kB": "1e3", "MB": "1e6", "GB": "1e9", "KiB": "1024", "MiB": "1048576",
          "GiB": "1073741824"},
    "MAC": {"MMAC": "1e6", "GMAC": "1e9"},
    "FLOP": {"MFLOP": "1e6", "GFLOP": "1e9"},
    "Hz": {"MHz": "1e6", "GHz": "1e9"},
}  # fmt: skip
#: Kind of device that the user states → device in records.
_DEVICE_BY_KIND: Final[dict[str, Literal["cpu", "cuda"]]] = {"cpu": "cpu", "gpu": "cuda"}


def read_tidy(source: ImportSource) -> Imported:
    """Read a tidy table; the user states instrument, device and kind of device (cpu or gpu)."""
    header, rows = source.table()
    columns = {name: _column(source, name) for name in header}
    if duplicate := repeated([column.quantity for column in _measured(columns)]):
        raise source.error(f"two columns hold {duplicate}; remove one")
    _check_factors(source, columns)
    kind = source.resolve_condition("kind")
    if kind not in _DEVICE_BY_KIND:
        raise source.error(f"--set kind={kind}: possible are {', '.join(_DEVICE_BY_KIND)}")
    cases = _cases(source, rows, columns)
    if not any(case.series for case in cases):
        raise source.error("no row has a measured number; fetch the table again")
    return Imported(
        instrument=source.resolve_condition("instrument"),
        environment=environment(_DEVICE_BY_KIND[kind], source.resolve_condition("device")),
        cases=cases,
        unstated="the table does not say it",
        conditions=source.conditions_except(("instrument", "kind", "device")),
    )


def _measured(columns: _Columns) -> list[MeasuredColumn]:
    return [column for column in columns.values() if isinstance(column, MeasuredColumn)]


def _column(source: ImportSource, name: str) -> MeasuredColumn | str:
    """Return the measured column with this heading, or the heading as the name of a factor."""
    heading = _HEADING.fullmatch(name)
    if heading is None and re.search(r"[\[\]()]", name):
        raise source.error(f"column {name}: no quantity and unit; write for example time [ms]")
    if heading is None:
        return name
    quantity, unit = heading["quantity"], heading["unit"]
    if quantity not in QUANTITIES:
        raise source.error(
            f"column {name}: {quantity} is no quantity of report/core/records/quantities.py; "
            "rename it"
        )
    own_unit = QUANTITIES[quantity].unit
    scale_by_unit = {own_unit: "1", **_OTHER_UNITS.get(own_unit, {})}
    if unit not in scale_by_unit:
        raise source.error(f"column {name}: {quantity} is measured in {own_unit}; fix the unit")
    return MeasuredColumn(quantity, scale_by_unit[unit])


#: Headings of columns that name a device.
_DEVICE_HEADINGS: Final = {"device", "device_name", "gpu", "gpu_name", "name_gpu", "hardware"}
#: Headings of measurements, which need a unit.
_NEED_UNIT: Final = {"speed", "latency", "throughput", "rate", "fps", "memory", "loss", *QUANTITIES}


def _check_factors(source: ImportSource, columns: _Columns) -> None:
    """Raise ``RecordError`` if a factor's column has measurements or names another device."""
    device, named_devices = source.resolve_condition("device"), set()
    _, rows = source.table()
    for line, row in rows:
        for name, cell in row.items():
            if not isinstance(columns[name], str) or not cell.strip():
                continue
            if scaled(cell, "1") is not None:
                if _NEED_UNIT & {name, name.removesuffix("_ms"), name.removesuffix("_s")}:
                    remedy = "head it with a quantity and its unit"
                    raise source.error(f"column {name}: its unit is not known; {remedy}")
            elif name.casefold() in _DEVICE_HEADINGS:
                named_devices.add(cell.casefold())
                if len(named_devices) > 1 or cell.casefold() not in device.casefold():
                    reason = f"line {line}, {name}: found {cell}, --device {device}"
                    raise source.error(f"{reason}; import the rows of one device at a time")


#: Pattern of the names of timm's files, which state the conditions.
_FILE_NAME: Final = re.compile(
    r"benchmark-(?P<kind>infer|train)-(?P<precision>[a-z0-9_]+)-(?P<layout>nchw|nhwc)"
    r"-pt(?P<torch>\d{3})-(?P<cuda>cu\d{3}|cpu)-(?P<device>[a-z0-9_]+?)(?P<dynamo>-dynamo)?\.csv"
)
#: Conditions of cases.  The others in the file's name (torch, cuda) describe the environment.
_CASE_CONDITIONS: Final = ("precision", "layout", "compiler")
#: Kind of run in headings and names of files → direction.
_DIRECTIONS: Final = {"infer": "inference", "train": "training"}
#: Heading in timm's table, without ``infer_`` or ``train_`` → factor, or measured column.
_COLUMNS: Final[_Columns] = {
    "model": "network",
    "batch_size": "batch",
    "img_size": "image",
    "step_time": MeasuredColumn("mean_time", to_unit="1e-3", step=1e-6),
    "samples_per_sec": MeasuredColumn("image_rate", to_unit="1", step=0.01),
    "gmacs": MeasuredColumn("multiply_adds", to_unit="1e9", step=1e7),
    "macts": MeasuredColumn("activations", to_unit="1e6", step=1e4),
    "param_count": MeasuredColumn("parameters", to_unit="1e6", step=1e4),
}
#: Fact that timm's table lacks → reason.
_MISSING: Final = {
    "repetitions": "timm's table gives the mean alone; its script repeats 40 steps by default",
    "warm_up": "timm's table does not say it; its script warms up for 10 steps by default",
}


def read_timm(source: ImportSource) -> Imported:
    """Read timm's table; the user states the conditions that the file's name does not state."""
    header, _ = source.table()
    kind, *other_kinds = (name for name in _DIRECTIONS if f"{name}_step_time" in header)
    if other_kinds:
        raise source.error("found inference and training in one table; split it")
    conditions, machine = _conditions(source, kind)
    plain_names = {name: name.removeprefix(f"{kind}_") for name in header}
    for name, plain_name in plain_names.items():
        if plain_name not in _COLUMNS:
            raise source.error(f"column {name}: its unit is not known; remove the column")
    required = {"batch_size", "img_size", "step_time", "samples_per_sec"}
    if missing := required - set(plain_names.values()):
        raise source.error(f"column {min(missing)}: not found; fetch the file again")
    columns = {name: _COLUMNS[plain_name] for name, plain_name in plain_names.items()}
    cases = _cases(source, _rows(source, columns), columns)
    _refuse_exchanged_columns(source, cases)
    rounding = {}
    for column in _measured(columns):
        if any(column.quantity in case.series for case in cases):
            rounding[column.quantity] = column.step
    return Imported(
        instrument="benchmark.py of timm",
        environment=machine,
        cases=tuple(_checked_case(source, case) for case in cases),
        unstated="timm's table and the name of its file do not say it",
        conditions=conditions,
        rounding=rounding,
        missing=_MISSING,
    )


def _refuse_exchanged_columns(source: ImportSource, cases: Iterable[Case]) -> None:
    """Raise ``RecordError`` if the columns of times and rates seem exchanged.

    The product of time and rate is the same either way.  But exchanged columns make large networks
    seem fast: the larger half of at least eight networks has a higher median rate than the smaller.
    """
    size_and_rate: list[tuple[Sample, Sample]] = []
    for case in cases:
        size_and_rate += product(case.samples("parameters"), case.samples("image_rate"))
    rates = [rate for _, rate in sorted(size_and_rate)]
    half = len(rates) // 2
    if half >= 4 and median(rates[:half]) < median(rates[half:]):  # fewer networks show nothing
        raise source.error("larger networks are faster: times stand under rates; fetch it again")


def _rows(source: ImportSource, columns: _Columns) -> Iterator[_TableRow]:
    """Yield the table's rows without their empty cells; raise ``RecordError`` for a wrong count."""
    _, rows = source.table()
    for line, row in rows:
        for name, column in columns.items():
            if row[name] and column in ("batch", "image"):
                count = scaled(row[name], "1", whole=True)  # older tables print 1024 as 1024.0
                if not count:
                    raise source.error(f"line {line}, {name}: found {row[name]!r}; fix it")
                row[name] = str(count)
        if not row["model"]:
            raise source.error(f"line {line}, model: found no network; fix it")
        yield line, {name: cell for name, cell in row.items() if cell}


def _checked_case(source: ImportSource, case: Case) -> Case:
    """Return the case, with the status unavailable unless it has a batch size, a time and a rate.

    Raises ``RecordError`` if two rows describe the case, or if batch, time and rate contradict.
    """
    network, batch = case.factors["network"], case.factors.get("batch")
    times, rates = case.samples("mean_time"), case.samples("image_rate")
    if any(len(samples) > 1 for samples in case.series.values()):
        raise source.error(f"{network}: two rows are of one case; remove one")
    if not (times and rates and isinstance(batch, int)):
        reason = "the table gives no time"
        return msgspec.structs.replace(case, status="unavailable", reason=reason)
    images = times[0] * rates[0]
    if abs(batch - images) > 0.1 * images:  # rounding alone causes a smaller difference
        raise source.error(f"{network}: batch, time and rate contradict; fetch it again")
    return case


def _conditions(source: ImportSource, kind: str) -> tuple[dict[str, str], ImportedEnvironment]:
    """Return the conditions and the machine of a file, from the file's name and the user."""
    file_name = _FILE_NAME.fullmatch(source.name.removesuffix(".gz"))
    parts = file_name.groupdict() if file_name else {}
    if parts and parts["kind"] != kind:
        raise source.error(f"the name says {parts['kind']}, the columns say {kind}; fix the name")
    by_name: dict[str, str | None] = dict.fromkeys((*_CASE_CONDITIONS, "torch", "cuda"))
    if parts:
        digits, cuda = parts["torch"], parts["cuda"].removeprefix("cu")
        by_name = {
            "precision": parts["precision"],
            "layout": parts["layout"],
            "compiler": "dynamo" if parts["dynamo"] else "none",
            # «113» means PyTorch 1.13, and «240» means 2.4.0.
            "torch": f"1.{digits[1:]}" if digits[0] == "1" else ".".join(digits),
            "cuda": "none" if cuda == "cpu" else f"{cuda[:2]}.{cuda[2:]}",
        }
    source.refuse_unknown_conditions(by_name)
    conditions = {name: source.resolve_condition(name, value) for name, value in by_name.items()}
    device = source.user_facts.get("device")
    short_name = parts.get("device") or ""
    if device is None and (rtx := re.fullmatch(r"rtx(\d{4})", short_name)):
        device = f"NVIDIA GeForce RTX {rtx[1]}"
    if device is None:
        reason = "its name does not state the device"
        if short_name:
            reason = f"its name calls the device {short_name}, which is no full name"
        raise source.error(f"{reason}; give it with --device")
    on_cpu = conditions["cuda"] == "none"
    machine = environment(
        "cpu" if on_cpu else "cuda",
        device,
        framework=f"PyTorch {conditions['torch']}",
        cuda=None if on_cpu else conditions["cuda"],
    )
    case_conditions = {name: conditions[name] for name in _CASE_CONDITIONS}
    return {"direction": _DIRECTIONS[kind], **case_conditions}, machine
