"""Records of training_roofline whose times are closed forms, for tests that need no machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from report.records.layers import Layer
from report.records.record import Case, Environment, Record
from report.studies.training_roofline.subject import NETWORKS, Step
from report.theory import networks
from report.theory.roofline import training_loads
from tests import factory

#: What the machine of these records reaches: FLOP/s and B/s.
PEAK, COPY = 2e11, 3e10
#: So many bound a median at 95 %.
PROCESSES = (1, 2, 3, 4, 5, 6)
#: Every layer reaches this share of its nearer ceiling.
REACHED = 0.6


@lru_cache
def layers_of(network: str, batch: int = 1, image: int = 224) -> tuple[Layer, ...]:
    """The layers of a network by its name, as an experiment records them."""
    return networks.layers_of(network, image, batch)


def layer_seconds(step: Step) -> list[float]:
    """The time of each layer: its work or its traffic, whichever takes longer."""
    loads = training_loads(layers_of(step.network, step.batch, step.image))
    return [max(load.flops / PEAK, load.bytes / COPY) / REACHED for load in loads]


def seconds(step: Step) -> float:
    """The time of a step."""
    return sum(layer_seconds(step))


def _case(step: Step, subject: str, by_process: Iterable[Mapping[str, Any]], **series: Any) -> Case:
    """A step with what each process measured."""
    return Case(
        factors={"subject": subject, **step._asdict()},
        layers=layers_of(step.network, step.batch, step.image),
        series=factory.measured(series),
        rounds=tuple(factory.round_(n, found) for n, found in enumerate(by_process, start=1)),
    )


def case(
    step: Step,
    time: Callable[[Step], float] = seconds,
    processes: Sequence[int] = PROCESSES,
    **series: Any,
) -> Case:
    """A step that was trained."""
    times = [time(step) * (1 + 4e-4 * (process - 2)) for process in processes]
    scattered = ({"time": factory.scattered(each, 1e-3, 11)} for each in times)
    return _case(step, "training", scattered, **series)


def profile(step: Step, processes: Sequence[int] = PROCESSES) -> Case:
    """A step timed layer by layer, two steps a process."""

    def measured(process: int) -> dict[str, list[float]]:
        times = [t * (1 + 1e-4 * process) for t in layer_seconds(step)] * 2
        ways = {"forward": 1 / 3, "backward": 2 / 3}
        layers = {f"layer_{way}_time": [share * t for t in times] for way, share in ways.items()}
        return {"time": [sum(times) / 2] * 2, **layers}

    return _case(step, "profile", map(measured, processes))


def record(
    found: Iterable[Case] | None = None, machine: Environment | None = None, **change: Any
) -> Record:
    """A record of the study: ``found``, or every network timed layer by layer in each process."""
    plan = (profile(Step(network, 224, 8)) for network in NETWORKS)
    change.setdefault("peaks", factory.ceilings(PEAK, COPY))
    made = plan if found is None else found
    return factory.record(made, machine, study="training_roofline", **change)
