"""The source's efficiencies, computed again from its images a second and the work by shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent, exact, named
from report.studies.training_roofline.source import as_printed, environment, row, rows, throughput
from report.studies.training_roofline.theory import GIGA, TERA, Complexity, known_roof

#: A rate below this share of the same network's best on the same device is no working point.
COLLAPSED: Final = 0.5


@dataclass(frozen=True)
class Corrected:
    """One printed case: FLOP/s as images a second say, and the peaks to compare it with."""

    device: str
    network: str
    batch: int
    images: float
    printed_rate: float
    printed_efficiency: float
    rate: float
    printed_peak: float
    known_peak: float | Missing
    efficiency: Quantity

    @property
    def of_printed(self) -> float:
        """The rate over the printed peak."""
        return self.rate / self.printed_peak

    @property
    def of_known(self) -> float | Missing:
        """The rate over the peak of a data sheet, or by cores and clock."""
        known = self.known_peak
        return known if isinstance(known, Missing) else self.rate / known


def corrected(inputs: Inputs, found: dict[str, Complexity]) -> tuple[Corrected, ...]:
    """Every printed case of achieved rates that has images a second beside it."""
    made = []
    for item in rows(inputs.reported, "achieved"):
        device, network = item.text("environment"), item.text("network")
        batch = int(item.number_of("batch").number)
        images = throughput(inputs.reported, device, network, batch)
        if images is None:
            continue
        roof = known_roof(inputs, device)
        made.append(
            Corrected(
                device,
                network,
                batch,
                float(images.number),
                float(item.number_of("rate").number) * TERA,
                float(item.number_of("efficiency").number) / 100,
                images.number * found[network].training,
                float(environment(inputs.reported, device).number_of("peak").number) * TERA,
                roof if isinstance(roof, Missing) else roof.peak.value,
                absent("known peak", "1", roof.reason)
                if isinstance(roof, Missing)
                else images.quantity("1/s", inputs.reported_file)
                * exact("work of an image", "FLOP", found[network].training)
                / exact("known peak", "FLOP/s", roof.peak.value),
            )
        )
    return tuple(made)


def average(cases: Sequence[Corrected], device: str) -> Quantity:
    """The mean efficiency of a device over the known peak, without collapsed cases."""
    own = [case for case in cases if case.device == device]
    shares = [case.efficiency for case in own if not _collapsed(case, own)]
    there = [share for share in shares if not share.missing]
    if not there:
        return absent("efficiency", "1", "no corrected efficiency is known")
    return named(f"mean efficiency of the {device}", sum(there[1:], there[0]) / len(there))


def _collapsed(case: Corrected, others: Sequence[Corrected]) -> bool:
    """Whether the same network ran much faster at another batch size, image by image."""
    return case.images < COLLAPSED * max(
        other.images for other in others if other.network == case.network
    )


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
