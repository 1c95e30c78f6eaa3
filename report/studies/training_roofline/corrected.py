"""The source's rates, computed again from its images a second and from work and least traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from report.evidence.audit import Printed, printed_value
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least
from report.studies.training_roofline.source import (
    CPU,
    RTX,
    T4,
    Row,
    as_printed,
    environment,
    row,
    rows,
    throughput,
)
from report.studies.training_roofline.theory import GIGA, TERA, Complexity, known_roof
from report.theory.roofline import Load, Roof

#: A rate below this share of the same network's best on the same device is no working point.
COLLAPSED: Final = 0.5
#: The network and the batch size at which the source ran its CPU.
_CPU_CASE: Final = ("ResNet-18", 64)


@dataclass(frozen=True)
class Corrected:
    """One printed throughput (1/s) with the step's work and least traffic under a known roof.

    ``achieved`` is the row of rates that the source prints for it, if it does.
    """

    device: str
    network: str
    batch: int
    images: Quantity
    load: Load
    achieved: Row | None
    printed_peak: Quantity
    roof: Roof | Missing

    @property
    def rate(self) -> Quantity:
        """FLOP/s by the work of the shapes."""
        return self.images * exact("work of an image", "FLOP", self.load.flops / self.batch)

    @property
    def of_printed(self) -> Quantity:
        """The rate over the printed peak."""
        return self.rate / self.printed_peak

    @property
    def of_arithmetic(self) -> Quantity:
        """The rate over the peak of a data sheet, or by cores and clock."""
        if isinstance(self.roof, Missing):
            return absent("known peak", "1", self.roof.reason)
        return self.rate / exact("known peak", "FLOP/s", self.roof.peak.value)

    @property
    def of_bandwidth(self) -> Quantity:
        """The least traffic a second over the bandwidth."""
        if isinstance(self.roof, Missing):
            return absent("known bandwidth", "1", self.roof.reason)
        least = exact("least traffic of an image", "B", self.load.bytes / self.batch)
        bandwidth = exact("known bandwidth", "B/s", self.roof.bandwidth.value)
        return self.images * least / bandwidth

    @property
    def toward_memory(self) -> Quantity:
        """The ridge point over the intensity: above 1 the roof of memory is the nearer one.

        It is the share of the bandwidth over that of the peak, in which images a second cancel.
        """
        if isinstance(self.roof, Missing):
            return absent("known roof", "1", self.roof.reason)
        ridge = exact("known ridge point", "FLOP/B", self.roof.ridge.value)
        return ridge / exact("intensity", "FLOP/B", self.load.intensity)

    @property
    def nearest(self) -> Quantity:
        """The share of the nearer roof."""
        return at_least(self.of_arithmetic, self.of_bandwidth)


def corrected(inputs: Inputs, found: dict[str, Complexity]) -> tuple[Corrected, ...]:
    """Every printed throughput: those of both GPUs, and that of the CPU."""
    file, made = inputs.reported_file, []
    for device, network, batch, images in _throughputs(inputs):
        peak = environment(inputs.reported, device).number_of("peak")
        made.append(
            Corrected(
                device,
                network,
                batch,
                images.quantity("1/s", file),
                found[network].layerwise(batch),
                row(inputs.reported, "achieved", environment=device, network=network, batch=batch),
                as_printed(peak, "FLOP/s", file, TERA),
                known_roof(inputs, device),
            )
        )
    return tuple(made)


def _throughputs(inputs: Inputs) -> Iterator[tuple[str, str, int, Printed]]:
    for device in (RTX, T4):
        for item in rows(inputs.reported, "throughput"):
            network, batch = item.text("network"), int(item.number_of("batch").number)
            images = throughput(inputs.reported, device, network, batch)
            if images is not None:
                yield device, network, batch, images
    yield CPU, *_CPU_CASE, printed_value(inputs.reported, "cpu_throughput")


def matched(cases: Sequence[Corrected]) -> tuple[tuple[Corrected, Corrected], ...]:
    """The cases with printed rates on both GPUs, that of the T4 first; no collapsed one."""
    averaged = [case for case in cases if case.achieved is not None]
    fast = {(c.network, c.batch): c for c in averaged if c.device == RTX}
    slow = {(c.network, c.batch): c for c in averaged if c.device == T4}
    return tuple(
        (slow[key], fast[key])
        for key in slow
        if key in fast and not any(collapsed(c, cases) for c in (slow[key], fast[key]))
    )


def collapsed(case: Corrected, cases: Sequence[Corrected]) -> bool:
    """Whether the same network ran much faster there at another batch size, image by image."""
    best = max(
        known(point(other.images))
        for other in cases
        if (other.device, other.network) == (case.device, case.network)
    )
    return known(point(case.images)) < COLLAPSED * best


def rate_ratios(inputs: Inputs) -> tuple[Quantity, ...]:
    """Printed rates over images a second times printed work, in the order of the rows."""
    made, file = [], inputs.reported_file
    for item in rows(inputs.reported, "achieved"):
        network, batch = item.text("network"), int(item.number_of("batch").number)
        images = throughput(inputs.reported, item.text("environment"), network, batch)
        of = row(inputs.reported, "complexity", network=network)
        if images is not None and of is not None:
            work = as_printed(of.number_of("training"), "FLOP", file, GIGA)
            rate = as_printed(item.number_of("rate"), "FLOP/s", file, TERA)
            made.append(rate / (as_printed(images, "1/s", file) * work))
    return tuple(made)
