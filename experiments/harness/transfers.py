"""How long a call's input takes to a GPU, and its result back, apart from the call.

Both copies go through page-locked memory of the host, which the device reads and writes itself; a
copy from other memory goes through such memory too, with one more copy on the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.harness.timing import collector_off, cuda_clock, repeated
from experiments.harness.workload import Workload
from report.records.record import Protocol, Series

if TYPE_CHECKING:
    import torch


def transfers(source: torch.Tensor, result: torch.Tensor, protocol: Protocol) -> tuple[Series, ...]:
    """``to_device_time`` of ``source`` and ``from_device_time`` of ``result``, both on the device.

    One sample is one copy, in s by the device's clock.
    """
    return (
        _copied(source, _locked(source), "to_device_time", protocol),
        _copied(_locked(result), result, "from_device_time", protocol),
    )


def _locked(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in page-locked memory of the host."""
    return tensor.cpu().pin_memory()


def _copied(
    target: torch.Tensor, source: torch.Tensor, quantity: str, protocol: Protocol
) -> Series:
    copy = Workload(lambda: target.copy_(source, non_blocking=True), reset=lambda: None)
    for _ in range(protocol.warmup_calls):
        cuda_clock(copy)
    with collector_off():
        durations = repeated(copy, protocol, cuda_clock)
    return Series(quantity=quantity, unit="s", samples=tuple(d.wall for d in durations))
