"""Peaks of known devices from their data sheets, looked up by the name that the driver reports.

A peak is dense (never with sparsity) and at the boost clock.  It is printed beside the measured
ceiling of a run and never replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from report.core.records.record import DeviceKey, Text
from report.core.records.reported import CitationKey, ReportedPart
from report.core.records.strict import read_strictly, refuse_first, repeated

RatedQuantity: TypeAlias = Literal[
    "float32", "tfloat32", "bfloat16", "float16", "memory", "cache", "capacity"
]

_REMEDY: Final = "fix the file by the data sheet, or restore it with git"
_UNITS: Final = {"memory": "GB/s", "cache": "MiB", "capacity": "GB"}
#: Peaks below this or above its inverse, in any unit, are typing errors.
_SMALLEST: Final = 1e-6
_FACTORS: Final = {"TFLOP/s": 1e12, "GB/s": 1e9, "MiB": 2**20, "GB": 1e9}


class RatedPeak(ReportedPart, frozen=True):
    """One line of a data sheet, in its printed unit.

    ``operation`` is ``memory`` (its bandwidth), ``capacity`` (of the memory), ``cache`` (size of
    the last level) or the element type of arithmetic: float32 on the ordinary cores, shorter types
    on the matrix units.  ``verified`` is false for a value that was not compared with a document;
    no paper prints it.  ``sparse`` is the peak with structured sparsity, where it is printed too.
    """

    operation: RatedQuantity
    value: Annotated[float, msgspec.Meta(gt=0)]
    unit: Literal["TFLOP/s", "GB/s", "MiB", "GB"]
    source: CitationKey
    verified: bool
    sparse: Annotated[float, msgspec.Meta(gt=0)] | None = None

    @property
    def rate(self) -> float:
        """The peak in FLOP/s or B/s, the size in B."""
        return self.value * _FACTORS[self.unit]


class DataSheet(ReportedPart, frozen=True):
    """A device, matched by names that contain one of ``matches`` and none of ``excludes``."""

    key: DeviceKey
    name: Text
    matches: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
    excludes: tuple[Text, ...]
    peaks: tuple[RatedPeak, ...]

    def is_named(self, model: str) -> bool:
        """Tell whether ``model``, as the driver reports it, names this device."""
        return any(_contains_word(model, word) for word in self.matches) and not any(
            _contains_word(model, word) for word in self.excludes
        )

    def peak(self, operation: RatedQuantity) -> RatedPeak | None:
        """Return the verified peak of an operation, or None."""
        for peak in self.peaks:
            if peak.operation == operation and peak.verified:
                return peak
        return None


class Devices(ReportedPart, frozen=True):
    """All devices whose data sheets are known."""

    devices: tuple[DataSheet, ...]

    def find(self, model: str) -> DataSheet | None:
        """Return the device that ``model`` names, such as ``Tesla V100-SXM2-16GB``, or None."""
        return next((device for device in self.devices if device.is_named(model)), None)


def read_devices(path: Path) -> Devices:
    """Read and check the file of devices; raises ``RecordError``."""
    devices = read_strictly(path, Devices, _REMEDY, path.parent)
    refuse_first(_faults(devices), path, _REMEDY)
    return devices


def _contains_word(model: str, word: str) -> bool:
    """Tell whether ``model`` contains the whole word: T40 does not contain T4."""
    pattern = rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])"
    return re.search(pattern, model, re.IGNORECASE) is not None


def _faults(devices: Devices) -> Iterator[str]:
    if twice := repeated(device.key for device in devices.devices):
        yield f"devices: the key {twice!r} appears twice"
    if twice := repeated(word.lower() for device in devices.devices for word in device.matches):
        yield f"devices: {twice!r} is a match of two devices"
    for i, device in enumerate(devices.devices):
        if twice := repeated(peak.operation for peak in device.peaks):
            yield f"devices[{i}].peaks: the operation {twice!r} appears twice"
        for j, peak in enumerate(device.peaks):
            if peak.unit != _UNITS.get(peak.operation, "TFLOP/s"):
                yield f"devices[{i}].peaks[{j}].unit: {peak.unit} is no unit of {peak.operation}"
            if not _SMALLEST <= peak.value <= 1 / _SMALLEST:
                yield f"devices[{i}].peaks[{j}].value: found {peak.value}, which no device reaches"
