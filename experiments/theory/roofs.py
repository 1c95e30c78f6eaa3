"""Roofs that ``--device-peaks`` names: of a data sheet, or as a record measured them."""

from pathlib import Path
from typing import Any, NamedTuple

from experiments.machine.code import ROOT
from report.core.errors import UsageError
from report.core.records import ENDING
from report.core.records.devices import read_devices
from report.core.records.store import Stored, read_record
from report.instruments.gates import bounding_rate
from report.theory.fits import bytes_of
from report.theory.roofline import Roof, sheet_roof


class MemoryLimit(NamedTuple):
    """Memory of a device or a machine (B), its name, and whether it is a GPU."""

    bytes: int
    name: str
    gpu: bool = False


def named_limit(name: str) -> MemoryLimit:
    """Return a size such as ``8GB``, or the memory of a device of ``devices.yaml`` or a record.

    Raises ``UsageError`` where it is none of them.
    """
    if name.startswith("record:"):
        environment = _record(name, name.removeprefix("record:")).record.environment
        gpu = environment.gpu
        size = gpu.memory_bytes if gpu else environment.memory_bytes
        return MemoryLimit(size, environment.label, gpu is not None)
    if name[:1].isdigit():
        return MemoryLimit(bytes_of(name), name)
    device, capacity = _sheet("--fits", name, "capacity")
    return MemoryLimit(int(capacity), f"{device} (data sheet)", gpu=True)


def named_roof(name: str, dtype: str) -> Roof:
    """Return the roof of a device of ``data/devices.yaml``, or of the record in a file.

    Raises ``UsageError`` where there is none for arithmetic in ``dtype``.
    """
    if name.endswith(ENDING):
        return _measured(Path(name), dtype)
    device, arithmetic, memory = _sheet("--device-peaks", name, dtype, "memory")
    return sheet_roof(arithmetic, memory, device)


def _sheet(option: str, name: str, *operations: str) -> tuple[Any, ...]:
    """Return name and rates of a device in ``data/devices.yaml``; raise if a rate is missing."""
    devices = read_devices(ROOT / "data" / "devices.yaml")
    rates = {}
    for sheet in devices.devices:
        rates[sheet.key] = [sheet.peak(operation) for operation in operations]  # type: ignore[arg-type]
    known = [key for key, peaks in rates.items() if all(peaks)]
    key = name.casefold().replace(" ", "-")
    begins = (device for device in devices.devices if device.key.startswith(key))
    device = devices.find(name) or next(begins, None)
    if device is None or device.key not in known:
        what, size = f"peaks in {operations[0]}", ""
        if option == "--fits":
            what, size = "memory", "a size such as 8GB, record:FILE.json, or "
        raise UsageError(
            f"{option} {name}: no data sheet gives its {what}; give {size}one of "
            f"{', '.join(known)}."
        )
    return device.name, *(peak.rate for peak in rates[device.key] if peak)


def _record(option: str, file: str) -> Stored:
    path = Path(file).resolve()
    if not path.is_file():
        raise UsageError(f"{option}: there is no such file.")
    return read_record(path, path.parent.parent)


def _measured(path: Path, dtype: str) -> Roof:
    stored = _record(f"--device-peaks {path}", str(path))
    record = stored.record
    peak, bandwidth = bounding_rate(record, "matrix_product", dtype), bounding_rate(record, "copy")
    if peak is None or bandwidth is None:
        raise UsageError(
            f"--device-peaks {path}: the record has no ceilings of memory and of arithmetic in "
            f"{dtype}; give one of a full run."
        )
    return sheet_roof(peak, bandwidth, record.environment.label, "measured")
