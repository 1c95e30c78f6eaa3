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

#: Examples of the possible names of networks, for messages.
NAME_FORMS: Final = "torchvision:resnet50, timm:resnet50, study:ResNet-20, or my_file.py:function"


class NamedNetwork(NamedTuple):
    """Builder of a network, and channels, height and width of its images (empty if unknown)."""

    build: Build
    image: tuple[int, ...] = (3, 224, 224)


@contextmanager
def users_code(network: str) -> Iterator[None]:
    """Redirect output of a network's code to standard error; standard output is for results.

    Raises ``MeasurementError`` for any exception of this code, including ``SystemExit``, but passes
    on ``RidgepointError`` and ``KeyboardInterrupt``.
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


def find_network(name: str) -> NamedNetwork:
    """Return the builder of the network ``name``, with the shape of its images.

    Raises ``UsageError`` for an unknown name or a missing file, and ``MeasurementError`` for a
    missing package.
    """
    origin, _, member = name.rpartition(":")
    if member and origin.endswith(".py"):
        return _find_in_file(Path(origin), member)
    if member and origin == "torchvision":
        return _find_in_torchvision(member)
    if member and origin == "timm":
        return _find_in_timm(member)
    if member and origin == "study":
        return _find_in_studies(member)
    raise UsageError(f"There is no network {name!r}; possible are {NAME_FORMS}.")


def with_layout(build: Build, dtype: str, channels_last: bool = False) -> Build:
    """Return a builder that converts the module of ``build`` to a type and memory layout."""

    def build_with_layout() -> Any:
        import torch

        layout = torch.channels_last if channels_last else torch.preserve_format
        return build().to(getattr(torch, dtype)).to(memory_format=layout)

    return build_with_layout


def _import_torch_after_checking(*packages: str) -> None:
    """Raise ``MeasurementError`` for a missing package, else import torch, which takes seconds."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            command = INSTALL_BY_PACKAGE[package]
            raise MeasurementError(f"{package} is not installed; install it with: {command}")
    import_torch()


def _find_in_file(path: Path, function: str) -> NamedNetwork:
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file.")
    import_torch()  # sets threads and precision, and so must precede the file's own import
    module = import_file(path)
    try:
        return NamedNetwork(function_of(module, function), ())
    except LookupError as error:
        raise UsageError(f"{error}; name a function that returns a module.") from None


def _find_in_studies(name: str) -> NamedNetwork:
    import_torch()
    from experiments.networks import catalogue

    if name not in catalogue.INPUT_SHAPES:
        names = ", ".join(catalogue.INPUT_SHAPES)
        raise UsageError(f"No study has a network {name!r}; possible are {names}.")
    return NamedNetwork(partial(catalogue.build_network, name), catalogue.INPUT_SHAPES[name])


def _find_in_torchvision(name: str) -> NamedNetwork:
    _import_torch_after_checking("torchvision")
    _declare_torchvision_operators()
    from torchvision import models  # type: ignore[import-untyped]

    if name not in models.list_models():
        raise UsageError(f"torchvision has no network {name!r}.")
    return NamedNetwork(partial(models.get_model, name, weights=None))


def _find_in_timm(name: str) -> NamedNetwork:
    timm = import_timm()
    if not timm.is_model(name):
        raise UsageError(f"timm has no network {name!r}.")
    settings = timm.get_pretrained_cfg(name)
    build = partial(timm.create_model, name)
    return NamedNetwork(build, tuple(settings.input_size)) if settings else NamedNetwork(build)


def import_timm() -> Any:
    """Import timm, with any build of torch; raises ``MeasurementError`` if timm is missing."""
    _import_torch_after_checking("timm", "torchvision")
    _declare_torchvision_operators()
    import timm  # type: ignore[import-untyped]

    return timm


@cache  # keeps the library alive: its definitions disappear when it is freed
def _declare_torchvision_operators() -> Any:
    """Declare two operators of torchvision if its compiled library cannot be loaded.

    ``import torchvision`` fails without these operators, although its networks use neither.  The
    general build of torchvision cannot load its library with a CPU build of torch.
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


class MemoryLimit(NamedTuple):
    """Memory (``bytes``) of a device or machine with this ``name``."""

    bytes: int
    name: str
    is_gpu: bool = False


def named_limit(name: str) -> MemoryLimit:
    """Parse a memory limit: a size (``8GB``), a GPU of ``devices.yaml``, or ``record:FILE``.

    A record stands for its machine's GPU, or for the machine if there is none.  Raises
    ``UsageError`` for any other name, and for a missing record.
    """
    if name.startswith("record:"):
        environment = _read_record(name, name.removeprefix("record:")).record.environment
        gpu = environment.gpu
        size = gpu.memory_bytes if gpu else environment.memory_bytes
        return MemoryLimit(size, environment.label, gpu is not None)
    if name[:1].isdigit():
        return MemoryLimit(bytes_of(name), name)
    device, capacity = _rates_of_device("--fits", name, "capacity")
    return MemoryLimit(int(capacity), f"{device} (data sheet)", is_gpu=True)


def named_roof(name: str, dtype: str) -> Roof:
    """Return the peak rates of a device of ``data/devices.yaml``, or of the record in a file.

    Raises ``UsageError`` if the peak of arithmetic in ``dtype``, or of memory, is unknown.
    """
    if name.endswith(ENDING):
        return _measured_roof(Path(name), dtype)
    device, arithmetic, memory = _rates_of_device("--device-peaks", name, dtype, "memory")
    return sheet_roof(arithmetic, memory, device)


def _rates_of_device(option: str, name: str, *operations: str) -> tuple[Any, ...]:
    """Return a device's name, and its ``operations``' rates in ``data/devices.yaml``, in order.

    ``name`` may be the beginning of a device's key.  Raises ``UsageError``, which begins with the
    ``option`` and lists the possible devices, if the device or one of its rates is unknown.
    """
    devices = read_devices(ROOT / "data" / "devices.yaml")
    rates = {}
    for sheet in devices.devices:
        peaks = [sheet.peak(operation) for operation in operations]  # type: ignore[arg-type]
        if all(peaks):
            rates[sheet.key] = [peak.rate for peak in peaks if peak]
    key = name.casefold().replace(" ", "-")
    prefix_matches = (device for device in devices.devices if device.key.startswith(key))
    device = devices.find(name) or next(prefix_matches, None)
    if device is not None and device.key in rates:
        return device.name, *rates[device.key]
    needed = f"peaks in {operations[0]}; give one"
    if option == "--fits":
        needed = "memory; give a size such as 8GB, record:FILE.json, or one"
    raise UsageError(f"{option} {name}: no data sheet states its {needed} of {', '.join(rates)}.")


def _read_record(option: str, file: str) -> Stored:
    """Read a record; ``option`` begins the message of the ``UsageError`` for a missing file."""
    path = Path(file).resolve()
    if not path.is_file():
        raise UsageError(f"{option}: there is no such file.")
    return read_record(path, path.parent.parent)


def _measured_roof(path: Path, dtype: str) -> Roof:
    """Return the measured peak rates of a record; raise ``UsageError`` if one is missing."""
    record = _read_record(f"--device-peaks {path}", str(path)).record
    peak = bounding_rate(record, "matrix_product", dtype)
    bandwidth = bounding_rate(record, "copy")
    if peak is None or bandwidth is None:
        reason = f"the record has no ceilings of memory and of arithmetic in {dtype}"
        raise UsageError(f"--device-peaks {path}: {reason}; give a record of a full run.")
    return sheet_roof(peak, bandwidth, record.environment.label, "measured")
