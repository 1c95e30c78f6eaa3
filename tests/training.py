"""Records of training_roofline with chosen times, for tests that must not depend on a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from report.records.layers import Layer, Linear
from report.records.record import Case, Environment, Record
from report.studies.training_roofline.subject import ELEMENTS, NETWORKS, Step
from report.theory import networks
from report.theory.roofline import in_type, training_loads
from report.theory.training_memory import Categories, categories
from tests import factory

#: What the machine of these records reaches: FLOP/s in float32 and in bfloat16, and B/s.
PEAK, SHORT_PEAK, COPY = 2e11, 4e11, 3e10
#: So many bound a median at 95 %.
PROCESSES = (1, 2, 3, 4, 5, 6)

Seconds = Callable[[Step, Sequence[Layer]], float]


@lru_cache
def layers_of(network: str, batch: int = 1, image: int = 224) -> tuple[Layer, ...]:
    """The layers of a network by its name, as an experiment records them."""
    return networks.layers_of(network, image, batch)


def memory_of(step: Step, *, on_host: bool = True) -> Categories:
    """What theory says that a step holds."""
    network = networks.captured(step.network, step.image, networks.Way("training"))
    assert isinstance(network, networks.Captured)
    return categories(network, step.batch, on_host=on_host)


def seconds(step: Step, layers: Sequence[Layer]) -> float:
    """A fixed time, and for each layer what the dearer of work and traffic takes at 60 %."""
    peak = PEAK if step.precision == "float32" else SHORT_PEAK
    loads = training_loads(in_type(layers, ELEMENTS[step.precision]))
    inside = sum(layer_seconds(load.flops, load.bytes, peak) for load in loads)
    speed = {"eager": 1.0, "compiled": 0.8}.get(step.execution, 0.7)
    speed *= 0.95 if step.layout == "channels_last" else 1.0
    speed *= 0.98 if step.optimizer == "fused" else 1.0
    return (0.02 + inside) * speed


def layer_seconds(work: float, moved: float, peak: float = PEAK) -> float:
    """Seconds of a layer that reaches 60 % of the nearer ceiling."""
    return max(work / peak, moved / COPY) / 0.6


def case(step: Step, process: int, time: Seconds = seconds, **change: Any) -> Case:
    """A step with the round of one process; ``record`` makes one case of all rounds of a step.

    ``change`` replaces series (``steps`` is that of time), or status and reason.
    """
    layers = layers_of(step.network, step.batch, step.image)
    whole = factory.scattered(time(step, layers) * (1 + 0.004 * (process - 2)), 0.01, 11)
    found: dict[str, Any] = {
        "first_call_time": [3 * whole[0]],
        "time": whole,
        "forward_time": [0.3 * t for t in whole],
        "backward_time": [0.6 * t for t in whole],
        "update_time": [0.1 * t for t in whole],
    }
    if step.execution == "eager" and process == 1:
        theory = memory_of(step)
        before = theory.between_steps
        found |= {
            "allocated_before": [before],
            "allocated_after": [before + 4],
            "allocated_peak": [theory.before_backward + 1_000_000],
        }
    if "steps" in change:
        found["time"] = change.pop("steps")
    outcome = {"status": change.pop("status", "ok"), "reason": change.pop("reason", None)}
    measured = {n: s for n, s in (found | change).items() if s is not None}
    rounds = (factory.round_(process, measured, **outcome),)
    return Case(factors=step.factors, layers=layers, series=(), rounds=rounds, **outcome)


def profile(step: Step, steps: int = 8) -> Case:
    """A step watched layer by layer: every layer at 60 % of its nearer ceiling."""
    layers = layers_of(step.network, step.batch, step.image)
    peak = PEAK if step.precision == "float32" else SHORT_PEAK
    loads = training_loads(in_type(layers, ELEMENTS[step.precision]))
    times = [layer_seconds(load.flops, load.bytes, peak) for load in loads]
    return Case(
        factors=step.profile,
        status="ok",
        reason=None,
        layers=layers,
        series=(
            factory.series("time", [1.1 * sum(times)] * steps),
            factory.series("layer_forward_time", [t / 3 for t in times] * steps),
            factory.series("layer_backward_time", [2 * t / 3 for t in times] * steps),
        ),
    )


def product(moment: str, precision: str = "bfloat16", rate: float = SHORT_PEAK) -> Case:
    """A matrix product in a precision whose ceiling the record does not hold."""
    side = 1024
    base = {"input_shape": (side, side), "output_shape": (side, side), "dtype": "float32"}
    layer = Linear(**base, name="product", bias=False)
    return Case(
        factors={
            "subject": "matrix_product",
            "precision": precision,
            "side": side,
            "moment": moment,
        },
        status="ok",
        reason=None,
        layers=(layer,),
        series=(factory.series("time", factory.scattered(2 * side**3 / rate)),),
    )


def sensor(name: str) -> Case:
    """A sensor that the machine does not have."""
    return Case(
        factors={"subject": "sensor", "sensor": name},
        status="unavailable",
        reason=f"The system shows no {name}.",
        layers=(),
        series=(),
    )


LADDER: tuple[dict[str, str], ...] = (
    {"precision": "bfloat16"},
    {"layout": "channels_last"},
    {"execution": "compiled"},
    {"optimizer": "fused"},
)


def steps_of(network: str, batches: Sequence[int] = (2, 8, 32, 128)) -> tuple[Step, ...]:
    """The plan of one network: batches, precision and layout, images, the ladder."""
    found = [Step(network, 64, batch) for batch in batches]
    middle = Step(network, 64, 32)
    found += [middle, middle.with_(layout="channels_last")]
    rung = middle
    for change in LADDER:
        rung = rung.with_(**change)
        found.append(rung)
    found += [Step(network, image, 8) for image in (64, 224)]
    found.append(Step(network, 224, 8, "bfloat16", "channels_last"))
    return tuple(dict.fromkeys(found))


def cases(
    networks: Iterable[str] = NETWORKS,
    time: Seconds = seconds,
    processes: Sequence[int] = PROCESSES,
) -> list[Case]:
    """A whole plan, each step once for every process."""
    chosen = tuple(networks)
    found = [product("before")]
    found += [sensor(n) for n in ("temperature", "clock", "power", "throttle_reasons")]
    for network in chosen:
        plain = Step(network, 224, 8)
        found += [
            profile(plain),
            profile(plain.with_(precision="bfloat16", layout="channels_last")),
        ]
        found += [case(s, p, time) for p in processes for s in steps_of(network)]
    return [*found, product("after")]


def record(
    found: Iterable[Case] | None = None, machine: Environment | None = None, **change: Any
) -> Record:
    """A record of the study."""
    chosen = factory.merged(cases() if found is None else found)
    change.setdefault("peaks", factory.ceilings(PEAK, COPY))
    return factory.record(chosen, machine, study="training_roofline", **change)
