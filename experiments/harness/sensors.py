"""What a device tells of its own state: temperature, clock, power, and why it holds back.

A reading takes up to milliseconds, so it belongs between timed calls.  On a GPU all of it comes
from NVIDIA's management library (``pip install nvidia-ml-py``); on a CPU from Linux, and virtual
machines mostly show nothing.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeAlias

from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import Device
from report.records.quantities import QUANTITIES
from report.records.record import Series

#: The quantity that each sensor reads.
SENSORS: Final = {
    "temperature": "device_temperature",
    "clock": "device_clock",
    "power": "device_power",
    "throttle_reasons": "throttle_reasons",
}

#: One reading, in the unit of its quantity; raises ``UnavailableError``.
Sensor: TypeAlias = Callable[[], float]

#: Drivers that give the temperature of a processor's cores.
_CORE_DRIVERS: Final = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_CPU: Final = Path("/sys/devices/system/cpu")
_CLOCK: Final = "cpufreq/scaling_cur_freq"


def read(sensor: str, device: Device) -> float:
    """One reading of ``sensor``; raises ``UnavailableError`` with what is missing."""
    return (_GPU if device == "cuda" else _HOST)[sensor]()


def available(device: Device) -> dict[str, Sensor]:
    """The sensors that can be read here, by the name of their quantity."""
    found: dict[str, Sensor] = {}
    for name, quantity in SENSORS.items():
        sensor = (_GPU if device == "cuda" else _HOST)[name]
        try:
            sensor()
        except UnavailableError:
            continue
        found[quantity] = sensor
    return found


@dataclass
class Log:
    """Readings of all sensors, each time that it is asked for."""

    sensors: Mapping[str, Sensor]

    def __post_init__(self) -> None:
        self._samples: dict[str, list[float]] = {name: [] for name in self.sensors}

    def read(self) -> None:
        """Read every sensor once."""
        for name, sensor in self.sensors.items():
            self._samples[name].append(sensor())

    def series(self) -> tuple[Series, ...]:
        """What was read, a series a quantity."""
        return tuple(as_series(name, samples) for name, samples in self._samples.items())


def as_series(quantity: str, samples: Sequence[float]) -> Series:
    """Readings with their unit."""
    return Series(quantity=quantity, unit=QUANTITIES[quantity].unit, samples=tuple(samples))


def _cpu_temperature() -> float:
    """The warmest of the processor's sensors (°C)."""
    import psutil  # type: ignore[import-untyped]

    tell: Callable[[], dict[str, list[Any]]] = getattr(psutil, "sensors_temperatures", dict)
    groups = tell()
    found = [entry.current for name in _CORE_DRIVERS for entry in groups.get(name, ())]
    if not found:
        raise UnavailableError("The system shows no temperature of its processor.")
    return float(max(found))


def _cpu_clock() -> float:
    """The mean over the cores that this process may use (Hz); Linux tells it in kHz."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    try:
        texts = [(_CPU / f"cpu{core}" / _CLOCK).read_text() for core in sorted(cores)]
        return fmean(1e3 * int(text) for text in texts)
    except (OSError, ValueError) as error:
        raise UnavailableError("The system shows no clock of its processor.") from error


def _untold(what: str) -> Sensor:
    def sensor() -> float:
        raise UnavailableError(f"{what} of a processor is not read.")

    return sensor


def _of_gpu(method: str, scale: float) -> Sensor:
    """A reading of torch.cuda, which asks NVIDIA's library for it."""

    def sensor() -> float:
        import torch

        tell: Callable[[], int] = getattr(torch.cuda, method)
        return _reading(lambda: tell() * scale)

    return sensor


def _throttle_reasons() -> int:
    """NVML's mask: 1 idle, 4 power cap, 8 slowdown, 32 and 64 too hot (software, hardware)."""

    def ask() -> int:
        import torch

        library: Any = importlib.import_module("pynvml")
        handle = torch.cuda._get_pynvml_handler()
        return int(library.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    return int(_reading(ask))


def _reading(ask: Callable[[], float]) -> float:
    try:
        return ask()
    except ModuleNotFoundError as error:
        raise UnavailableError(
            "NVIDIA's management library is not there; install it with: pip install nvidia-ml-py"
        ) from error
    except Exception as error:  # the library has an exception of its own for every failure
        raise UnavailableError(f"The driver does not tell: {error}") from error


_HOST: Final[dict[str, Sensor]] = {
    "temperature": _cpu_temperature,
    "clock": _cpu_clock,
    "power": _untold("The power"),
    "throttle_reasons": _untold("What holds back the clock"),
}
_GPU: Final[dict[str, Sensor]] = {
    "temperature": _of_gpu("temperature", 1),
    "clock": _of_gpu("clock_rate", 1e6),
    "power": _of_gpu("power_draw", 1e-3),
    "throttle_reasons": _throttle_reasons,
}
