"""Over the batch sizes: throughput, a saturation curve, and whether a batch is an anomaly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from report.errors import StudyError
from report.evidence.audit import printed_value
from report.evidence.remembered import known
from report.missing import Missing
from report.paper.findings import Inputs
from report.quantity.evaluation import point, to_digits
from report.quantity.expression import Inferred, Quantity, absent, exact
from report.quantity.operations import at_least
from report.quantity.units import ONE
from report.quantity.verdicts import Several, Statement, all_of, expect
from report.statistics.estimates import CONFIDENCE, Estimate
from report.statistics.saturation import Saturation, saturation_fit
from report.studies.training_roofline.declared import WORDS
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.source import RTX, T4, rows, throughput
from report.studies.training_roofline.subject import HEAVY, NETWORKS, Step

#: A rate this much below that of a smaller batch is a fall.
FALL: Final = 0.1
#: A deviation of more than this share of the mean is no scatter of one steady process.
WIDE: Final = 0.1


def sweep(run: Run, network: str, dataset: str = "synthetic") -> tuple[Step, ...]:
    """The plain steps of a network over its batch sizes, at the image size that has most of them.

    Plain is what PyTorch does by default: float32, contiguous, eager.
    """
    plain = [s for s in run.chosen(network=network) if _plain(s) and s.dataset == dataset]
    sizes = {step.image for step in plain}
    most = max(sizes, key=lambda size: (sum(s.image == size for s in plain), size), default=0)
    return tuple(step for step in plain if step.image == most)


def _plain(step: Step) -> bool:
    return (step.precision, step.layout, step.execution, step.optimizer) == (
        "float32",
        "contiguous",
        "eager",
        "default",
    )


def times(run: Run, network: str) -> dict[int, Quantity]:
    """The time of a step (s) over the batch sizes of a network's sweep."""
    return {step.batch: run.time(step) for step in run.timed(sweep(run, network))}


def fitted(
    batches: Sequence[float], times: Sequence[float], where: str, confidence: float = CONFIDENCE
) -> Saturation | Missing:
    """A saturation curve, or why there is none."""
    if len(set(batches)) < 3:
        return Missing(f"fewer than three batch sizes were measured on {where}")
    try:
        return saturation_fit(batches, times, confidence)
    except StudyError as error:
        return Missing(str(error).rstrip("."))


def source_times(inputs: Inputs) -> dict[int, Quantity]:
    """The time (s) that the source's throughputs of ResNet-50 on the T4 mean, by batch size."""
    return {
        int(item.number_of("batch").number): item.number_of("batch").number
        / item.number_of("throughput").quantity("1/s", inputs.reported_file)
        for item in rows(inputs.reported, "batches")
    }


def source_fit(inputs: Inputs, confidence: float = CONFIDENCE) -> Saturation | Missing:
    """The saturation curve through them."""
    table = rows(inputs.reported, "batches")
    batches = [float(item.number_of("batch").number) for item in table]
    images = [float(item.number_of("throughput").number) for item in table]
    return fitted(batches, [b / i for b, i in zip(batches, images, strict=True)], T4, confidence)


#: A curve at a level of its intervals.
Curve: TypeAlias = Callable[[float], Saturation | Missing]


def half(over: Mapping[int, Quantity], curve: Curve) -> Quantity:
    """The batch size for half the limit of the curve, with the interval of the curve alone."""

    def at(level: float) -> Estimate | Missing:
        found = curve(level)
        return found if isinstance(found, Missing) else found.half

    name, found = "batch for half the limit of the curve", at(CONFIDENCE)
    if isinstance(found, Missing):
        return absent(name, "1", found.reason)
    first, *_, last = over.values()
    name = f"{name} through {first.symbol}, …, {last.symbol}"
    source, *further = first.sources
    return Inferred(
        ONE, name, source, interval=lambda level: known(at(level)), further=tuple(further)
    )


# ------------------------------------------------------------------------------- the collapse


@dataclass(frozen=True)
class Collapse:
    """A batch's rate over the best of smaller batches, and what is printed of its iterations.

    ``scatter`` is the relative deviation of the steps; ``overrun`` the fastest of them over what
    the line through smaller batches gives.
    """

    against_smaller: Quantity
    scatter: Quantity
    overrun: Quantity

    @property
    def claimed(self) -> Several:
        """That the batch falls behind a smaller one, and that its steps scatter widely."""
        return all_of(
            Statement(self.against_smaller, expect(f"< {1 - FALL}")),
            Statement(self.scatter, expect(f"> {WIDE}")),
        )


def source_collapse(inputs: Inputs) -> Collapse | None:
    """ResNet-50 at batch 128 on the RTX 4080, from what the source prints of its iterations."""
    reported, file = inputs.reported, inputs.reported_file
    printed = [throughput(reported, RTX, HEAVY, batch) for batch in (32, 64, 128)]
    if None in printed:
        return None
    small, middle, large = (one.quantity("1/s", file) for one in printed if one)
    deviation, fastest = (
        printed_value(reported, f"collapse_{what}") for what in ("deviation", "fastest")
    )
    return Collapse(
        large / at_least(small, middle),
        deviation.quantity("s", file, 1e-3) * large / 128,
        fastest.quantity("s", file, 1e-3) / source_line(inputs),
    )


def source_line(inputs: Inputs) -> Quantity:
    """The time (s) at batch 128 of that network by the line through those at 32 and at 64."""
    printed = [throughput(inputs.reported, RTX, HEAVY, batch) for batch in (32, 64)]
    small, middle = (
        one.quantity("1/s", inputs.reported_file)
        if one
        else absent("images a second", "1/s", "the source prints no throughputs")
        for one in printed
    )
    return 3 * (64 / middle) - 2 * (32 / small)


def _doublings(run: Run, network: str) -> list[float]:
    """How many times as many images a second each doubling of the batch trains, step by step."""
    found = ((batch, point(time)) for batch, time in times(run, network).items())
    rates = [(batch, batch / time) for batch, time in found if isinstance(time, float)]
    return [
        (new / old) ** (1 / math.log2(larger / smaller))
        for (smaller, old), (larger, new) in pairwise(rates)
    ]


def growing(run: Run) -> list[dict[str, str]]:
    """The networks of which the last doubling of the batch gains more than the first."""
    gains = {network: _doublings(run, network) for network in NETWORKS}
    return [
        {"network": n, **{end: f"{WORDS[n]}_doubling_{end}" for end in ("first", "last")}}
        for n, found in gains.items()
        if len(found) > 1 and found[-1] > found[0]
    ]


def by_doubling(run: Run) -> dict[str, Quantity]:
    """What the first and the last doubling of the batch gain, of networks that gain more late."""
    made = {}
    for each in growing(run):
        first, *_, last = _doublings(run, each["network"])
        for end, gain in (("first", first), ("last", last)):
            name = f"gain of the {end} doubling of the batch"
            made[each[end]] = to_digits(exact(name, "1", gain, run.file), 3)
    return made
