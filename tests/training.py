"""Records of training_roofline whose times are closed forms, for tests that need no machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from report.records.layers import Layer
from report.records.record import Case, Environment, Record
from report.studies.training_roofline.subject import NETWORKS, Step
from report.theory import networks
from report.theory.peaks import Categories, categories
from report.theory.roofline import training_loads
from tests import factory

#: What the machine of these records reaches: FLOP/s and B/s.
PEAK, COPY = 2e11, 3e10
#: So many bound a median at 95 %.
PROCESSES = (1, 2, 3, 4, 5, 6)
#: Every layer reaches this share of its nearer ceiling.
REACHED = 0.6
#: A step takes so many times as long as its layers.
OUTSIDE = 1.1

Seconds = Callable[[Step], float]


@lru_cache
def layers_of(network: str, batch: int = 1, image: int = 224) -> tuple[Layer, ...]:
    """The layers of a network by its name, as an experiment records them."""
    return networks.layers_of(network, image, batch)


def memory_of(step: Step, *, on_host: bool = True) -> Categories:
    """What theory says that a step holds."""
    network = networks.captured(step.network, step.image, networks.Way("training"))
    assert isinstance(network, networks.Captured)
    return categories(network, step.batch, on_host=on_host)


def layer_seconds(step: Step) -> list[float]:
    """The time of each layer: its work or its traffic, whichever takes longer."""
    loads = training_loads(layers_of(step.network, step.batch, step.image))
    return [max(load.flops / PEAK, load.bytes / COPY) / REACHED for load in loads]


def seconds(step: Step) -> float:
    """The time of a step."""
    return OUTSIDE * sum(layer_seconds(step))


def factors(step: Step, subject: str) -> dict[str, Any]:
    return {"subject": subject, **step._asdict()}


def case(step: Step, process: int, time: Seconds = seconds, **series: Any) -> Case:
    """A step with the round of one process; ``record`` makes one case of all rounds of a step."""
    whole = factory.scattered(time(step) * (1 + 4e-4 * (process - 2)), 1e-3, 11)
    return Case(
        factors=factors(step, "training"),
        status="ok",
        reason=None,
        layers=layers_of(step.network, step.batch, step.image),
        series=factory.measured(series),
        rounds=(factory.round_(process, {"time": whole}),),
    )


def profile(step: Step, process: int, slower: float = 1.0) -> Case:
    """A step timed layer by layer, two steps a process."""
    times = [t * (1 + 1e-4 * process) for t in layer_seconds(step)] * 2
    measured = {
        "time": [slower * OUTSIDE * sum(times) / 2] * 2,
        "layer_forward_time": [t / 3 for t in times],
        "layer_backward_time": [2 * t / 3 for t in times],
    }
    return Case(
        factors=factors(step, "profile"),
        status="ok",
        reason=None,
        layers=layers_of(step.network, step.batch, step.image),
        rounds=(factory.round_(process, measured),),
    )


def record(
    found: Iterable[Case] | None = None, machine: Environment | None = None, **change: Any
) -> Record:
    """A record of the study: ``found``, or every network timed layer by layer in each process."""
    plan = (profile(Step(network, 224, 8), p) for network in NETWORKS for p in PROCESSES)
    chosen = factory.merged(plan if found is None else found)
    change.setdefault("peaks", factory.ceilings(PEAK, COPY))
    return factory.record(chosen, machine, study="training_roofline", **change)
