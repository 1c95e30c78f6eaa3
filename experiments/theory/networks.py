"""Find networks, roofs (peak rates of a device) and memory limits by name.

A network comes from torchvision, timm, the studies, or a function in the user's file.  A roof
(``--device-peaks``) comes from a data sheet or from the measurements of a record.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from experiments.machine.code import ROOT
from experiments.machine.runtime import (
    INSTALL_BY_PACKAGE,
    exit_raises,
    function_of,
    import_file,
    import_torch,
)
from report.core.errors import MeasurementError, RidgepointError, UsageError, words_of
from report.core.records import ENDING
from report.core.records.reported import read_devices
from report.core.records.store import Stored, read_record
from report.instruments.gates import bounding_rate
from report.theory.network import bytes_of
from report.theory.roofline import Roof, sheet_roof

if TYPE_CHECKING:
    from experiments.theory.captures import Build

FORMS: Final = "torchvision:resnet50, timm:resnet50, study:ResNet-20, or my_file.py:function"


class NamedNetwork(NamedTuple):
    """Builder of a network, and channels, height and width of its images (empty if unknown)."""

    build: Build
    image: tuple[int, ...] = (3, 224, 224)


@contextmanager
def users_code(network: str) -> Iterator[None]:
    """Redirect all output of a network's code to the standard error, apart from results.

    Raises ``MeasurementError`` for any exception of this code, also for ``SystemExit``.
    """
    with (
        os.fdopen(os.dup(2), "w", errors="replace") as stream,
        redirect_stdout(stream),
        redirect_stderr(stream),
        exit_raises(),
    ):
        try:
            yield
        except (RidgepointError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise MeasurementError(f"{network}: its code ended in {words_of(error)}.") from error


def network(name: str) -> NamedNetwork:
    """Return the builder of the network ``name``, with the shape of its images.

    Raises ``UsageError`` for an unknown name, ``MeasurementError`` for a missing package.
    """
    source, _, member = name.rpartition(":")
    if source.endswith(".py") and member:
        return _of_file(Path(source), member)
    finders = {"torchvision": _of_torchvision, "timm": _of_timm, "study": _of_studies}
    if source not in finders or not member:
        raise UsageError(f"There is no network {name!r}; possible are {FORMS}.")
    return finders[source](member)


def with_layout(build: Build, dtype: str, channels_last: bool = False) -> Build:
    """Return ``build`` with parameters of another type and layout."""

    def build_with_layout() -> Any:
        import torch

        layout = torch.channels_last if channels_last else torch.preserve_format
        return build().to(getattr(torch, dtype)).to(memory_format=layout)

    return build_with_layout


def _require(*packages: str) -> None:
    """Import torch, after a check for missing packages, since importing torch takes seconds."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MeasurementError(
                f"{package} is not installed; install it with: {INSTALL_BY_PACKAGE[package]}"
            )
    import_torch()


def _of_file(path: Path, function: str) -> NamedNetwork:
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file.")
    _require()
    module = import_file(path)
    try:
        return NamedNetwork(function_of(module, function), ())
    except LookupError as error:
        raise UsageError(f"{error}; name a function that returns a module.") from None


def _of_studies(name: str) -> NamedNetwork:
    _require()
    from experiments.networks import catalogue

    if name not in catalogue.INPUT_SHAPES:
        names = ", ".join(catalogue.INPUT_SHAPES)
        raise UsageError(f"No study has a network {name!r}; possible are {names}.")
    return NamedNetwork(partial(catalogue.network, name), catalogue.INPUT_SHAPES[name])


def _of_torchvision(name: str) -> NamedNetwork:
    _require("torchvision")
    _let_torchvision_import()
    from torchvision import models  # type: ignore[import-untyped]

    if name not in models.list_models():
        raise UsageError(f"torchvision has no network {name!r}.")
    return NamedNetwork(partial(models.get_model, name, weights=None))


def _of_timm(name: str) -> NamedNetwork:
    timm = import_timm()
    if not timm.is_model(name):
        raise UsageError(f"timm has no network {name!r}.")
    settings = timm.get_pretrained_cfg(name)
    build = partial(timm.create_model, name)
    return NamedNetwork(build, tuple(settings.input_size)) if settings else NamedNetwork(build)


def import_timm() -> Any:
    """Import timm, also with a CPU build of torch."""
    _require("timm", "torchvision")
    _let_torchvision_import()
    import timm  # type: ignore[import-untyped]

    return timm


@cache  # holds the library: its definitions disappear when it is freed
def _let_torchvision_import() -> Any:
    """Declare two operators of torchvision's compiled library where the library does not load.

    There is no torchvision for a CPU build of torch, and the general build cannot load its library
    with such a torch.  torchvision's networks use neither operator.
    """
    import torch

    try:
        import torchvision  # type: ignore[import-untyped] # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


# ------------------------------------------------------------------------------ roofs and limits


class MemoryLimit(NamedTuple):
    """Memory of a device or machine in bytes, with the device's name and whether it is a GPU."""

    bytes: int
    name: str
    gpu: bool = False


def named_limit(name: str) -> MemoryLimit:
    """Parse a memory limit: a size (``8GB``), a device of ``devices.yaml``, or ``record:FILE``.

    Raises ``UsageError`` for any other name.
    """
    if name.startswith("record:"):
        environment = _record(name, name.removeprefix("record:")).record.environment
        gpu = environment.gpu
        size = gpu.memory_bytes if gpu else environment.memory_bytes
        return MemoryLimit(size, environment.label, gpu is not None)
    if name[:1].isdigit():
        return MemoryLimit(bytes_of(name), name)
    device, capacity = _rates_of_device("--fits", name, "capacity")
    return MemoryLimit(int(capacity), f"{device} (data sheet)", gpu=True)


def named_roof(name: str, dtype: str) -> Roof:
    """Return the peak rates of a device of ``data/devices.yaml``, or of the record in a file.

    Raises ``UsageError`` if the peak of arithmetic in ``dtype`` is unknown.
    """
    if name.endswith(ENDING):
        return _measured_roof(Path(name), dtype)
    device, arithmetic, memory = _rates_of_device("--device-peaks", name, dtype, "memory")
    return sheet_roof(arithmetic, memory, device)


def _rates_of_device(option: str, name: str, *operations: str) -> tuple[Any, ...]:
    """Return name and rates of a device in ``data/devices.yaml``; raise if a rate is unknown."""
    devices = read_devices(ROOT / "data" / "devices.yaml")
    rates = {}
    for sheet in devices.devices:
        peaks = [sheet.peak(operation) for operation in operations]  # type: ignore[arg-type]
        if all(peaks):
            rates[sheet.key] = [peak.rate for peak in peaks if peak]
    key = name.casefold().replace(" ", "-")
    prefix_matches = (device for device in devices.devices if device.key.startswith(key))
    device = devices.find(name) or next(prefix_matches, None)
    if device is None or device.key not in rates:
        missing_value, other_forms = f"peaks in {operations[0]}", ""
        if option == "--fits":
            missing_value, other_forms = "memory", "a size such as 8GB, record:FILE.json, or "
        raise UsageError(
            f"{option} {name}: no data sheet states its {missing_value}; give {other_forms}one of "
            f"{', '.join(rates)}."
        )
    return device.name, *rates[device.key]


def _record(option: str, file: str) -> Stored:
    path = Path(file).resolve()
    if not path.is_file():
        raise UsageError(f"{option}: there is no such file.")
    return read_record(path, path.parent.parent)


def _measured_roof(path: Path, dtype: str) -> Roof:
    stored = _record(f"--device-peaks {path}", str(path))
    record = stored.record
    peak = bounding_rate(record, "matrix_product", dtype)
    bandwidth = bounding_rate(record, "copy")
    if peak is None or bandwidth is None:
        raise UsageError(
            f"--device-peaks {path}: the record has no ceilings of memory and of arithmetic in "
            f"{dtype}; give one of a full run."
        )
    return sheet_roof(peak, bandwidth, record.environment.label, "measured")
