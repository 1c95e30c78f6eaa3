"""Theory of the networks: complexity, traffic, intensity, and the side of a ridge they lie on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from report.evidence.remembered import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact
from report.records.layers import Layer
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.source import (
    CPU,
    RTX,
    as_printed,
    core_peak,
    environment,
    image_traffic,
    rows,
)
from report.studies.training_roofline.subject import IMAGE, NETWORKS
from report.theory.networks import Way, captured, layers_of
from report.theory.roofline import (
    Load,
    Roof,
    at_batch,
    cached_step_load,
    sheet_roof,
    step_load,
    total,
    training_loads,
)
from report.theory.shapes import parameter_count
from report.theory.training_memory import Categories, categories
from report.theory.work import Macs, flops, forward_macs, training_macs

#: The batch size whose intensities the source prints for every network.
SOURCE_BATCH: Final = 128
MEGA, GIGA, TERA = 1e6, 1e9, 1e12


@dataclass(frozen=True)
class Complexity:
    """A network on one image of the source's size, by shapes."""

    network: str

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Its layers."""
        return layers_of(self.network, IMAGE)

    def memory(self, batch: int) -> Categories:
        """What a training step holds on a GPU."""
        return categories(
            known(captured(self.network, IMAGE, Way("training"))), batch, on_host=False
        )

    @property
    def parameters(self) -> int:
        """All trained numbers."""
        return sum(map(parameter_count, self.layers))

    @property
    def macs(self) -> Macs:
        """Multiply-adds of a forward pass."""
        return forward_macs(self.layers)

    @property
    def training(self) -> int:
        """FLOP of a training step."""
        return flops(training_macs(self.layers))

    def layerwise(self, batch: int = SOURCE_BATCH) -> Load:
        """Work and traffic of a step, layer by layer."""
        return step_load(at_batch(self.layers, batch))

    def cached(self, batch: int = SOURCE_BATCH) -> Load:
        """Work and traffic of a step with a perfect cache."""
        return cached_step_load(at_batch(self.layers, batch))


def complexities() -> dict[str, Complexity]:
    """All networks on one image of the source's size."""
    return {name: Complexity(name) for name in NETWORKS}


def below(layers: Sequence[Layer], ridge: float) -> Quantity:
    """The share of a step's least traffic that belongs to layers below a ridge point."""
    loads = training_loads(layers)
    moved = sum(load.bytes for load in loads if load.intensity < ridge)
    whole = exact("traffic of all layers", "B", total(loads).bytes)
    return exact("traffic of layers below the ridge", "B", moved) / whole


# -------------------------------------------------------------------------------------- ridges


def printed_roof(inputs: Inputs, name: str) -> Roof:
    """The roof that the source draws for an environment."""
    machine = environment(inputs.reported, name)
    peak, bandwidth = machine.number_of("peak"), machine.number_of("bandwidth")
    return sheet_roof(float(peak.number) * TERA, float(bandwidth.number) * GIGA)


def known_roof(inputs: Inputs, name: str) -> Roof | Missing:
    """The roof of an environment by its data sheet, or by cores and clock with its bandwidth.

    The clock is the nominal one of the laptop's GPU, and the highest one of the CPU.
    """
    sheet = inputs.devices.find(f"NVIDIA {name}")
    peak, memory = (sheet.peak("float32"), sheet.peak("memory")) if sheet else (None, None)
    if peak and memory:
        return sheet_roof(peak.rate, memory.rate)
    performance, efficient = cpu_peaks(inputs)
    peaks = {RTX: laptop_peak(inputs, "nominal"), CPU: performance + efficient}
    if name not in peaks:
        return Missing("no data sheet prints it")
    bandwidth = float(environment(inputs.reported, name).number_of("bandwidth").number)
    return sheet_roof(known(point(peaks[name])), bandwidth * GIGA)


def cpu_peaks(inputs: Inputs) -> tuple[Quantity, ...]:
    """FLOP/s of the CPU's performance and of its efficient cores, at their highest clocks."""
    file = inputs.reported_file
    return tuple(
        core_peak(item, "high", file) * as_printed(item.number_of("lanes"), "1", file)
        for item in rows(inputs.reported, "cpu_cores")
    )


def laptop_peak(inputs: Inputs, clock: str) -> Quantity:
    """FLOP/s of the laptop's GPU by its cores at one of its clocks."""
    return core_peak(rows(inputs.reported, "cores")[0], clock, inputs.reported_file)


def laptop_bandwidth(inputs: Inputs) -> Quantity:
    """B/s of the laptop's GPU by the width of its bus and the data rate that others print."""
    (item,), file = rows(inputs.reported, "bus"), inputs.reported_file
    width = as_printed(item.number_of("width"), "1", file, 1 / 8)
    return width * as_printed(item.number_of("rate"), "B/s", file, GIGA)


def own_sheet(inputs: Inputs, run: Run) -> Roof | Missing:
    """The data-sheet roof of a run's device, in float32."""
    gpu = run.stored.record.environment.gpu
    sheet = inputs.devices.find(gpu.model) if gpu else None
    peak, memory = (sheet.peak("float32"), sheet.peak("memory")) if sheet else (None, None)
    if peak and memory:
        return sheet_roof(peak.rate, memory.rate)
    return Missing(f"no data sheet of {run.label} is known")


def traffic_of_source(inputs: Inputs) -> Quantity:
    """Bytes an image with which all printed intensities of ResNet-50 agree."""
    found, name = image_traffic(inputs.reported), "traffic by all printed intensities"
    if found is None:
        why = "the printed intensities do not share one traffic an image"
        return absent(name, "B", why)
    low, high = (
        exact(f"{end} {name}", "B", number, inputs.reported_file)
        for end, number in (("least", found.low), ("most", found.high))
    )
    return (low + high) / 2
