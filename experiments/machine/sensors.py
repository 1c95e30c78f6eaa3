"""Read sensors: clock, temperature, power and throttling of a GPU; energy of GPU and processor.

NVML is NVIDIA's management library, which ``nvidia-ml-py`` (the extra ``gpu``) calls.  Sensors are
never read while a call is timed.  Linux shows the energy of each processor package in
``/sys/class/powercap``, on most systems only to root.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from experiments.harness.study import Device
from report.core.missing import Missing
from report.core.records.record import SeriesByQuantity

#: Bit of NVML's throttle reasons (``nvml.h``) → cause.  The power limit (0x04) is left out,
#: because GPUs reach it in most runs.
_THROTTLE_CAUSES: Final = {
    0x08: "the hardware slowed it",
    0x20: "its driver slowed it for heat",
    0x40: "its hardware slowed it for heat",
    0x80: "its supply of power slowed it",
}
_POWERCAP: Final = Path("/sys/class/powercap")
#: Value of an energy counter, and the value at which the counter restarts from 0 (J).
EnergyReading: TypeAlias = tuple[float, float]


class GpuState(NamedTuple):
    """GPU at one moment: clock (Hz), temperature (°C), power (W), bits of throttle reasons."""

    device_clock: int
    device_temperature: int
    device_power: float
    throttle_reasons: int


def unavailable() -> str | None:
    """Explain why the state of a GPU cannot be read; None if ``nvidia-ml-py`` is installed."""
    if importlib.util.find_spec("pynvml") is None:
        return "nvidia-ml-py is not installed; install it with: python -m pip install -e '.[gpu]'"
    return None


def _gpu() -> tuple[Any, Any]:
    """Return NVML and NVML's handle of PyTorch's GPU."""
    torch: Any = importlib.import_module("torch")
    nvml: Any = importlib.import_module("pynvml")
    nvml.nvmlInit()
    properties: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
    return nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")


def read(device: Device) -> GpuState | None:
    """Read the state of PyTorch's GPU; None on a CPU, or if the state cannot be read."""
    if device == "cpu" or unavailable():
        return None
    try:
        nvml, gpu = _gpu()
        return GpuState(
            device_clock=10**6 * nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
            device_temperature=nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            device_power=nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
            throttle_reasons=nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
        )
    except Exception:  # NVML refuses single readings on some GPUs; times are valid without them
        return None


def series_of(states: Sequence[GpuState | None]) -> SeriesByQuantity:
    """Return a series per quantity with a sample per state, or {} if a state is None."""
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return {}
    series = zip(*known, strict=True)
    return dict(zip(GpuState._fields, series, strict=True))


def throttling(series: SeriesByQuantity) -> str | None:
    """Describe what slowed the GPU, by the series ``throttle_reasons``; None if nothing did."""
    for reasons in series.get("throttle_reasons", ()):
        for bit, cause in _THROTTLE_CAUSES.items():
            if int(reasons) & bit:
                return f"the GPU was throttled: {cause}"
    return None


def read_energy(device: Device) -> tuple[EnergyReading, ...] | Missing:
    """Read the energy counter of the GPU, or of each processor package; a reason if impossible."""
    reason = unavailable() if device == "cuda" else None
    if reason is not None:
        return Missing(reason)
    readings = []
    try:
        if device == "cuda":
            nvml, gpu = _gpu()
            return ((nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1e3, inf),)
        for folder in sorted(_POWERCAP.glob("intel-rapl:*")):
            if (folder / "name").read_text().startswith("package-"):  # not a part of a package
                microjoules = int((folder / "energy_uj").read_text())
                largest = int((folder / "max_energy_range_uj").read_text())
                readings.append((microjoules / 1e6, largest / 1e6))
    except Exception as error:  # some GPUs and systems refuse; times are valid without energy
        cause = getattr(error, "strerror", None) or error
        return Missing(f"the energy counter cannot be read ({cause})")
    return tuple(readings) or Missing("the system shows no energy counter (powercap)")


def energy_series(
    before: tuple[EnergyReading, ...] | Missing,
    after: tuple[EnergyReading, ...] | Missing,
    calls: int,
) -> SeriesByQuantity:
    """Return the mean energy per call (J) between two readings, and ``calls``.

    Returns {} if a reading is missing or no counter advanced.  A counter may have restarted from 0
    once between the readings.
    """
    if isinstance(before, Missing) or isinstance(after, Missing):
        return {}
    energy = 0.0
    for (start, largest), (end, _) in zip(before, after, strict=True):
        energy += (end - start) % largest
    return {"energy": (energy / calls,), "energy_calls": (calls,)} if energy else {}
