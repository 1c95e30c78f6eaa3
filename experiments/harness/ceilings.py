"""The machine's ceilings: large matrix products and a large copy, in a fresh process.

A ceiling must not lie below what a network reaches.  On a CPU PyTorch computes matrix products by
one library (MKL on x86) and convolutions by another (oneDNN), which may use wider vectors: on an
AMD processor with AVX-512 the first reaches half the rate of the second.  Both are measured, and
the better one is the ceiling.

A process that has measured a series gives lower ceilings than a new one (its allocator and thread
pools are used), hence the process of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from experiments.harness import isolated, runtime, timing
from experiments.harness.outcomes import OutcomeError
from experiments.harness.study import SEED, CeilingSize, Device
from experiments.harness.workload import Workload
from report.errors import MeasurementError
from report.records.record import Ceiling

if TYPE_CHECKING:
    import torch

Moment = Literal["before", "after"]

_WARMUP: Final = 3
_LIMIT_S: Final = 300
_FLOAT_BYTES: Final = 4


@dataclass(frozen=True)
class Sizes:
    """Side of the square matrices, elements of the copied array, runs of each; all float32."""

    side: int
    elements: int
    runs: int


#: Arrays of a copy are far larger than the last-level cache of the device.
SIZES: Final[dict[tuple[Device, CeilingSize], Sizes]] = {
    ("cpu", "large"): Sizes(side=2048, elements=2**26, runs=20),
    ("cpu", "small"): Sizes(side=1024, elements=2**24, runs=10),
    ("cuda", "large"): Sizes(side=8192, elements=2**28, runs=20),
    ("cuda", "small"): Sizes(side=4096, elements=2**26, runs=10),
}


def measure_isolated(
    device: Device, threads: int, size: CeilingSize, moment: Moment
) -> tuple[Ceiling, ...]:
    """All ceilings, measured by a new process with the same number of threads.

    Raises ``MeasurementError`` with what went wrong in that process.
    """
    if size == "none":
        return ()
    try:
        return isolated.run(partial(measure, device, threads, size, moment), limit_s=_LIMIT_S)
    except OutcomeError as error:
        raise MeasurementError(f"The ceilings could not be measured: {error.reason}") from error


def measure(device: Device, threads: int, size: CeilingSize, moment: Moment) -> tuple[Ceiling, ...]:
    """All ceilings, in this process; raises what torch raises."""
    torch = runtime.start_torch(device, threads)
    torch.manual_seed(SEED)
    sizes = SIZES[device, size]
    clock = timing.cpu_clock if device == "cpu" else timing.cuda_clock
    with torch.device(device), torch.no_grad():
        return (
            *(
                _product(name, call, sizes, moment, clock)
                for name, call in _products(torch, device, sizes.side).items()
            ),
            _copy(torch, sizes, moment, clock),
        )


def _products(torch: Any, device: Device, side: int) -> dict[str, Callable[[], object]]:
    """C = A B with square matrices, by each library that PyTorch has for it; ``""`` is its own."""
    left, right = torch.randn(side, side), torch.randn(side, side)
    out = torch.empty(side, side)
    found: dict[str, Callable[[], object]] = {"": lambda: torch.mm(left, right, out=out)}
    if device == "cpu" and torch.backends.mkldnn.is_available():
        from torch.utils import mkldnn

        linear = mkldnn.to_mkldnn(torch.nn.Linear(side, side, bias=False))
        blocked = left.to_mkldnn()
        found[" by oneDNN"] = lambda: linear(blocked)
    return found


def _product(
    library: str, call: Callable[[], object], sizes: Sizes, moment: Moment, clock: timing.Clock
) -> Ceiling:
    """``2 n^3`` FLOP."""
    n = sizes.side
    return Ceiling(
        operation="matrix_product",
        moment=moment,
        dtype="float32",
        size=f"{n}x{n}x{n}{library}",
        work=2 * n**3,
        work_unit="FLOP",
        samples=_samples(call, sizes.runs, clock),
    )


def _copy(torch: Any, sizes: Sizes, moment: Moment, clock: timing.Clock) -> Ceiling:
    """One array to another: every byte is read once and written once."""
    source = torch.randn(sizes.elements)
    target: torch.Tensor = torch.zeros(sizes.elements)
    return Ceiling(
        operation="copy",
        moment=moment,
        dtype="float32",
        size=f"{sizes.elements} elements",
        work=2 * _FLOAT_BYTES * sizes.elements,
        work_unit="B",
        samples=_samples(lambda: target.copy_(source), sizes.runs, clock),
    )


def _samples(call: Callable[[], object], runs: int, clock: timing.Clock) -> tuple[float, ...]:
    workload = Workload(call, reset=lambda: None)
    with timing.collector_off():
        durations = [clock(workload).wall for _ in range(_WARMUP + runs)]
    return tuple(durations[_WARMUP:])
