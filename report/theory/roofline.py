"""The roofline: work, traffic and intensity of layers in a training step, and the roof above them.

The model is that of Williams, Waterman and Patterson (CACM 2009): a kernel of intensity I cannot
run faster than ``min(peak, I · bandwidth)``.  Two models of traffic bound the real one:

- *layer by layer*: every pass of every layer reads and writes its tensors once
  (``theory.work.compulsory_traffic``), and nothing stays in a cache from one layer to the next;
- *perfect cache*: nothing but what the step takes from and leaves in memory moves: its images, the
  parameters and the momentum of the optimiser.

A real step may move more than the first where an algorithm reads a tensor twice, and less where a
cache keeps one; it cannot move less than the second.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.core.records.layers import Layer
from report.core.statistics.estimates import Estimate
from report.theory.work import (
    LayerPass,
    compulsory_traffic,
    flops,
    input_bytes,
    macs,
    parameter_bytes,
    training_passes,
)

#: Accesses of the update to each parameter's bytes: SGD with momentum reads parameter, gradient
#: and momentum and writes parameter and momentum (PyTorch, torch.optim.SGD).
UPDATE_PASSES: Final = 5
#: The same without the gradient, which a perfect cache keeps from the backward pass.
_CACHED_UPDATE_PASSES: Final = 4


@dataclass(frozen=True)
class Roof:
    """A device's two ceilings: ``peak`` in FLOP/s and ``bandwidth`` in B/s.

    A printed roof names its ``device`` and its ``source``.
    """

    peak: Estimate
    bandwidth: Estimate
    device: str = ""
    source: str = ""

    def least(self, flops: int, bytes: int) -> float:
        """Return the least time (s) of work (FLOP) and traffic (B), at the nearer ceiling."""
        return max(flops / self.peak.value, bytes / self.bandwidth.value)


def sheet_roof(peak: float, bandwidth: float, device: str = "", source: str = "data sheet") -> Roof:
    """Return the roof of a data sheet, whose numbers have no interval."""
    arithmetic, memory = (Estimate(n, n, n, 1, 1.0) for n in (peak, bandwidth))
    return Roof(arithmetic, memory, device, source)


@dataclass(frozen=True)
class Load:
    """Work (FLOP, two a multiply-add) and traffic (B)."""

    flops: int = 0
    bytes: int = 0

    @property
    def intensity(self) -> float:
        """FLOP/B; 0 without traffic."""
        return self.flops / self.bytes if self.bytes else 0.0

    def __add__(self, other: "Load") -> "Load":
        return Load(self.flops + other.flops, self.bytes + other.bytes)


def total(loads: Iterable[Load]) -> Load:
    """Return the sum of loads."""
    return sum(loads, Load())


@lru_cache(maxsize=16_384)
def load(layer: Layer, passes: tuple[LayerPass, ...] = ("forward",)) -> Load:
    """Return work and compulsory traffic of a layer's passes.

    Results are cached, since every table of a study needs them again.
    """
    return total(Load(flops(macs(layer, p)), compulsory_traffic(layer, p)) for p in passes)


def training_loads(layers: Sequence[Layer]) -> tuple[Load, ...]:
    """Return work and traffic of each layer in a training step."""
    return tuple(map(load, layers, training_passes(layers)))


def update_load(layers: Sequence[Layer]) -> Load:
    """Return the optimiser's traffic; its few operations are not multiply-adds of a layer."""
    return Load(0, UPDATE_PASSES * sum(map(parameter_bytes, layers)))


def step_load(layers: Sequence[Layer]) -> Load:
    """Return the load of a training step, layer by layer, with the optimiser's update."""
    return total(training_loads(layers)) + update_load(layers)


def cached_step_load(layers: Sequence[Layer]) -> Load:
    """Return the load of a training step if only images, parameters and momentum move."""
    work = total(training_loads(layers)).flops
    update = _CACHED_UPDATE_PASSES * sum(map(parameter_bytes, layers))
    return Load(work, update + (input_bytes(layers[0]) if layers else 0))
