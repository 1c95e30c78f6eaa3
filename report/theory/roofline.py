"""Roofline model: work, traffic and intensity of layers, and a device's two ceilings (roof).

In the model of Williams, Waterman and Patterson (CACM 2009), a kernel of intensity I cannot run
faster than ``min(peak, I · bandwidth)``.  Every pass of a layer reads and writes each of the
layer's tensors once (``theory.work.compulsory_traffic``).  A real pass moves more bytes if an
algorithm reads a tensor twice, and fewer bytes if a cache holds a tensor of the previous layer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.core.records.layers import Layer
from report.core.statistics.estimates import Estimate
from report.theory.work import LayerPass, compulsory_traffic, flops, macs, parameter_bytes

#: Number of tensors of a parameter's size that the update moves.  SGD with momentum reads
#: parameter, gradient and momentum, and writes parameter and momentum (``torch.optim.SGD``).
UPDATE_TENSORS: Final = 5


@dataclass(frozen=True)
class Roof:
    """Two ceilings of a device: ``peak`` in FLOP/s and ``bandwidth`` in B/s.

    ``device`` and ``source`` are texts for printing: the device's name, and the numbers' origin.
    """

    peak: Estimate
    bandwidth: Estimate
    device: str = ""
    source: str = ""

    def least_time(self, flops: int, bytes: int) -> float:
        """Return the least time (s): the longer of the times for work (FLOP) and traffic (B)."""
        return max(flops / self.peak.value, bytes / self.bandwidth.value)


def sheet_roof(peak: float, bandwidth: float, device: str = "", source: str = "data sheet") -> Roof:
    """Return a roof of exact numbers (FLOP/s, B/s), such as the numbers of a data sheet."""

    def exact_estimate(rate: float) -> Estimate:
        return Estimate(rate, low=rate, high=rate, n=1, confidence=1.0)

    return Roof(exact_estimate(peak), exact_estimate(bandwidth), device, source)


@dataclass(frozen=True)
class Load:
    """Work (``flops``, two per multiply-add) and traffic (``bytes``)."""

    flops: int = 0
    bytes: int = 0

    @property
    def intensity(self) -> float:
        """FLOP/B, or 0 if no bytes move."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.flops + other.flops, self.bytes + other.bytes)


def total_load(loads: Iterable[Load]) -> Load:
    """Return the sum of loads."""
    return sum(loads, Load())


@lru_cache(maxsize=16_384)
def load(layer: Layer, passes: tuple[LayerPass, ...] = ("forward",)) -> Load:
    """Return work and compulsory traffic of a layer's passes (cached, since tables share loads)."""
    return total_load(Load(flops(macs(layer, p)), compulsory_traffic(layer, p)) for p in passes)


def update_load(layers: Sequence[Layer]) -> Load:
    """Return the load of the optimiser's update of ``layers``, which has no multiply-adds."""
    return Load(0, UPDATE_TENSORS * sum(map(parameter_bytes, layers)))
