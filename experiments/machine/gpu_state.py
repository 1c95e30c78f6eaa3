"""Clock, temperature, power and throttling of the GPU around a series, by NVML.

NVML is NVIDIA's management library, read by ``nvidia-ml-py`` (the extra ``gpu``).  It is read
before the warm-up, between warm-up and samples, and after them, never while a call is timed.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from experiments.harness.study import Device
from report.core.records.record import SeriesByQuantity

#: Bits of NVML's mask (``nvml.h``) that slow a GPU down; a limit of power is its usual state.
_SLOWED: Final = {
    0x08: "the hardware slowed it",
    0x20: "its driver slowed it for heat",
    0x40: "its hardware slowed it for heat",
    0x80: "its supply of power slowed it",
}


class GpuState(NamedTuple):
    """State at one moment: clock (Hz), temperature (°C), power (W), and NVML's mask of reasons."""

    device_clock: int
    device_temperature: int
    device_power: float
    throttle_reasons: int


def unavailable() -> str | None:
    """Explain why the state of a GPU cannot be read; None if the library is installed."""
    if importlib.util.find_spec("pynvml") is None:
        return "nvidia-ml-py is not installed; install it with: python -m pip install -e '.[gpu]'"
    return None


def read(device: Device) -> GpuState | None:
    """Read the state of PyTorch's GPU; None on a CPU, or if the library or the GPU gives none."""
    if device == "cpu" or unavailable():
        return None
    torch, nvml = map(importlib.import_module, ("torch", "pynvml"))
    try:
        nvml.nvmlInit()
        properties: Any = torch.cuda.get_device_properties(torch.cuda.current_device())
        gpu = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{properties.uuid}")
        return GpuState(
            device_clock=10**6 * nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
            device_temperature=nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            device_power=nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
            throttle_reasons=nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
        )
    except Exception:  # NVML refuses single readings on some GPUs; times are valid without them
        return None


def series_of(states: Sequence[GpuState | None]) -> SeriesByQuantity:
    """Return one sample for each moment and quantity; nothing if a state is missing."""
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return {}
    return dict(zip(GpuState._fields, zip(*known, strict=True), strict=True))


def throttling(series: SeriesByQuantity) -> str | None:
    """Describe what slowed the GPU during a series, if anything did."""
    for reasons in series.get("throttle_reasons", ()):
        for bit, cause in _SLOWED.items():
            if int(reasons) & bit:
                return f"the GPU was throttled: {cause}"
    return None
