"""Theory of the networks: complexity, traffic, intensity, and the side of a ridge they lie on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent, exact
from report.records.layers import Layer
from report.studies.training_roofline.measured import MOVED, Drift, Run, network_layers
from report.studies.training_roofline.source import (
    CPU,
    RTX,
    T4,
    Row,
    core_peak,
    environment,
    image_traffic,
    row,
    rows,
)
from report.studies.training_roofline.subject import IMAGE, NETWORKS, Precision
from report.theory.roofline import (
    Load,
    Roof,
    at_batch,
    cached_step_load,
    class_loads,
    operator_class,
    sheet_roof,
    step_load,
    total,
    training_loads,
)
from report.theory.shapes import parameter_count
from report.theory.work import Macs, flops, forward_macs, training_macs

#: The batch size whose intensities the source prints for every network.
SOURCE_BATCH: Final = 128
MEGA, GIGA, TERA = 1e6, 1e9, 1e12


@dataclass(frozen=True)
class Complexity:
    """A network on one image of the source's size, by shapes."""

    layers: tuple[Layer, ...]

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


def complexities(all_runs: Sequence[Run]) -> dict[str, Complexity]:
    """All networks on one image of the source's size."""
    return {name: Complexity(network_layers(all_runs, name, IMAGE)) for name in NETWORKS}


def _printed(item: Row | None, key: str, factor: float) -> Cell:
    number = item.printed(key) if item else None
    if number is None:
        return Missing("not printed in the source")
    whole = number.number * factor
    return round(whole) if factor == MEGA else whole


def complexity_table(inputs: Inputs, found: dict[str, Complexity]) -> Table:
    """Parameters and operations, by shapes and as printed."""
    made = tuple(_complexity_row(inputs, name, of) for name, of in found.items())
    return Table(
        "tbl-complexity",
        f"The networks on one image of {IMAGE} × {IMAGE} pixels: parameters, multiply-adds and "
        "operations of a forward pass, operations of a training step, all from shapes, beside what "
        "the source prints.",
        (
            Column("Network"),
            Column("Parameters", "1"),
            Column("Parameters, printed", "1"),
            Column("Multiply-adds", "MAC", "GMAC"),
            Column("Forward", "FLOP", "GFLOP"),
            Column("Forward, printed", "FLOP", "GFLOP"),
            Column("Training", "FLOP", "GFLOP"),
            Column("Training, printed", "FLOP", "GFLOP"),
            Column("Training / forward", "1"),
        ),
        made,
        sources=(inputs.reported_file,),
        wide=True,
    )


def _complexity_row(inputs: Inputs, name: str, of: Complexity) -> tuple[Cell, ...]:
    item = row(inputs.reported, "complexity", network=name)
    parameters, forward, training = (
        _printed(item, key, factor)
        for key, factor in (("parameters", MEGA), ("forward", GIGA), ("training", GIGA))
    )
    operations = flops(of.macs)
    return (
        *(name, of.parameters, parameters, of.macs, operations, forward),
        *(of.training, training, of.training / operations),
    )


# ---------------------------------------------------------------------------------- intensity


def printed_intensity(inputs: Inputs, network: str) -> Cell:
    """The intensity that the source prints for a network at the largest batch."""
    item = row(inputs.reported, "bound", network=network)
    return _printed(item, "intensity", 1)


def intensity_table(inputs: Inputs, found: dict[str, Complexity]) -> Table:
    """Intensity of a whole step under both models of traffic, beside the printed one."""
    made = []
    for name, of in found.items():
        layerwise, cached = of.layerwise(), of.cached()
        cells = (layerwise.bytes / SOURCE_BATCH, layerwise.intensity)
        ideal = (cached.bytes / SOURCE_BATCH, cached.intensity)
        made.append((name, *cells, *ideal, printed_intensity(inputs, name)))
    return Table(
        "tbl-intensity",
        f"A training step at a batch of {SOURCE_BATCH} in float32: bytes that move for an image "
        "and arithmetic intensity, when every layer reads and writes its tensors once, with a "
        "perfect cache, and as the source prints it.",
        (
            Column("Network"),
            Column("Layer by layer", "B", "MB"),
            Column("Intensity", "FLOP/B"),
            Column("Perfect cache", "B", "MB"),
            Column("Intensity", "FLOP/B"),
            Column("Printed", "FLOP/B"),
        ),
        tuple(made),
        sources=(inputs.reported_file,),
    )


def class_table(found: dict[str, Complexity]) -> Table:
    """Where the work and the traffic of a step are, by operator class."""
    made: list[tuple[Cell, ...]] = []
    for name, of in found.items():
        layers = at_batch(of.layers, SOURCE_BATCH)
        whole = total(training_loads(layers))
        counts = [operator_class(layer) for layer in layers]
        made += [
            (
                *(name, kind, counts.count(kind)),
                amount.flops / whole.flops if amount.flops else "none",
                *(amount.bytes / whole.bytes, amount.intensity if amount.flops else "none"),
            )
            for kind, amount in class_loads(layers).items()
            if amount.bytes
        ]
    return Table(
        "tbl-classes",
        f"Operator classes in a training step at a batch of {SOURCE_BATCH}: share of the "
        "operations, share of the traffic layer by layer, and intensity.",
        (
            Column("Network"),
            Column("Class"),
            Column("Layers", "1"),
            Column("Operations", "1", "%"),
            Column("Traffic", "1", "%"),
            Column("Intensity", "FLOP/B"),
        ),
        tuple(made),
    )


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
    """The roof of an environment by its data sheet, or by cores and clock with its bandwidth."""
    sheet = inputs.devices.find(f"NVIDIA {name}")
    peak, memory = (sheet.peak("float32"), sheet.peak("memory")) if sheet else (None, None)
    if peak and memory:
        return sheet_roof(peak.rate, memory.rate)
    if name == RTX:
        bandwidth = float(environment(inputs.reported, name).number_of("bandwidth").number)
        return sheet_roof(known(point(laptop_peak(inputs, "nominal"))), bandwidth * GIGA)
    return Missing("no data sheet prints it")


def laptop_peak(inputs: Inputs, clock: str) -> Quantity:
    """FLOP/s of the laptop's GPU by its cores at one of its clocks."""
    return core_peak(rows(inputs.reported, "cores")[0], clock, inputs.reported_file)


def own_sheet(inputs: Inputs, run: Run) -> Roof | Missing:
    """The data-sheet roof of a run's device, in float32."""
    gpu = run.stored.record.environment.gpu
    sheet = inputs.devices.find(gpu.model) if gpu else None
    peak, memory = (sheet.peak("float32"), sheet.peak("memory")) if sheet else (None, None)
    if peak and memory:
        return sheet_roof(peak.rate, memory.rate)
    return Missing(f"no data sheet of {run.label} is known")


def ridge_table(inputs: Inputs, all_runs: Sequence[Run]) -> Table:
    """Peaks, bandwidths and ridge points: printed, of data sheets, measured."""
    made: list[tuple[Cell, ...]] = []
    for name in (RTX, T4, CPU):
        made.append((name, "printed", *_roof_cells(printed_roof(inputs, name))))
    for name, origin in ((RTX, "cores and clock"), (T4, "data sheet")):
        made.append((name, origin, *_roof_cells(known_roof(inputs, name))))
    for run in all_runs:
        sheet = own_sheet(inputs, run)
        if isinstance(sheet, Roof):
            made.append((run.label, "data sheet", *_roof_cells(sheet)))
        precisions = dict.fromkeys(step.precision for step in run.steps)
        made += [
            (run.label, f"measured, {precision}", *_measured_cells(run, precision))
            for precision in precisions
        ]
    return Table(
        "tbl-ridges",
        "Peak arithmetic, peak bandwidth and the ridge point that follows: as the source prints "
        "them, of data sheets, and measured by a large matrix product and a large copy, with 95 % "
        "intervals.",
        (
            Column("Device"),
            Column("Origin"),
            Column("Arithmetic", "FLOP/s", "GFLOP/s"),
            Column("Bandwidth", "B/s", "GB/s"),
            Column("Ridge", "FLOP/B"),
        ),
        tuple(made),
        notes=tuple(
            note
            for run in all_runs
            if (note := _DRIFTS[run.copy_state()].format(run.label))
            and not isinstance(run.roof(), Missing)
        ),
        sources=(inputs.reported_file, *(run.file for run in all_runs)),
    )


#: What stands below the roofs of a run, for what is known of its copy.
_DRIFTS: Final[dict[Drift, str]] = {
    "steady": "",
    "moved": f"On {{}} the copy moved by more than {100 * MOVED:.0f} % from before to after all "
    "cases; the better of both stands here.",
    "unknown": "On {} the copy was measured at one end of the run only.",
}


def _roof_cells(roof: Roof | Missing) -> tuple[Cell, Cell, Cell]:
    if isinstance(roof, Missing):
        return (roof, roof, roof)
    return (roof.peak.value, roof.bandwidth.value, roof.ridge.value)


def _measured_cells(run: Run, precision: Precision) -> tuple[Cell, ...]:
    peak, copy = run.peak(precision), run.copy()
    return tuple(map(estimate, (peak, copy, peak / copy)))


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
