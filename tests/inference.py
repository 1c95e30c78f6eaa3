"""Records of inference_memory with chosen times, for tests that must not depend on a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from report.records.layers import Layer, Linear
from report.records.record import Case, Environment, Record
from report.studies.inference_memory.subject import LAYOUTS, RESNETS, TILED, Call
from report.theory import networks
from report.theory.conditions import conditions_of
from report.theory.peaks import peak
from report.theory.shapes import elements
from tests import factory

IMAGES = {"AlexNet": 224, "ZFNet": 224, "VGG-16": 224}
LayersOf = Callable[[str, int, int], tuple[Layer, ...]]


def layers_of(network: str, batch: int, image: int) -> tuple[Layer, ...]:
    """The layers of a network by its name."""
    return networks.layers_of(network, image, batch)


def call(network: str = "ResNet-20", batch: int = 8, **how: Any) -> Call:
    """A call with the image that the network is made for."""
    return Call(network, how.pop("image", IMAGES.get(network, 32)), batch, **how)


def seconds(of: Call, layers: Sequence[Layer]) -> float:
    """A duration in proportion to what is written, with a cost of each layer."""
    written = sum(elements(layer.output_shape) for layer in layers)
    speed = {"bfloat16": 0.6, "float16": 20}.get(of.precision, 1.0)
    speed *= 0.8 if of.layout == "channels_last" else 1.0
    speed *= {"folded": 0.9, "compiled": 0.7}.get(of.execution, 1.0)
    speed *= 1 + 8 / of.tile if of.tile else 1.0
    return (2e-5 * len(layers) + 1e-9 * written) * speed


def wide() -> Environment:
    """A processor with instructions for bfloat16, so that oneDNN computes it."""
    plain = factory.environment()
    torch = msgspec.structs.replace(plain.torch, cpu_capability="AVX512")
    return msgspec.structs.replace(plain, torch=torch)


def memory(of: Call, machine: Environment) -> dict[str, Sequence[int]]:
    """What the allocator of the theory would say."""
    way = networks.Way("inference", of.layout, of.precision)
    network = networks.captured(of.network, of.image, way)
    assert isinstance(network, networks.Captured)
    at = peak(network, of.batch, conditions_of(machine))
    before = at.before
    return {
        "allocated_before": [before] * 3,
        "allocated_after": [before + 40] * 3,
        "allocated_peak": [at.total] * 3,
    }


def case(
    of: Call, machine: Environment | None = None, layers: LayersOf = layers_of, **change: Any
) -> Case:
    """One call that went well; ``change`` replaces series (None takes one away) or fields."""
    here = machine or wide()
    ran = layers(of.network, of.batch, of.image)
    time = factory.scattered(change.pop("seconds", seconds)(of, ran), 0.02)
    series: dict[str, Any] = {
        "first_call_time": [time[0] * 3],
        "time": time,
        "page_faults": [elements(ran[0].output_shape) // 4096] * len(time),
        **memory(of, here),
    }
    fields = {name: change.pop(name) for name in ("status", "reason") if name in change}
    series |= change
    return Case(
        factors=of.factors,
        status=fields.get("status", "ok"),
        reason=fields.get("reason"),
        layers=ran,
        series=tuple(factory.series(n, s) for n, s in series.items() if s is not None),
    )


def ran(of: Call, layers: LayersOf = layers_of) -> Case:
    """A call that ran within its limit, of which nothing more is known."""
    made = case(of, layers=layers)
    first = tuple(s for s in made.series if s.quantity == "first_call_time")
    return msgspec.structs.replace(made, series=first)


def out_of_memory(of: Call, layers: LayersOf = layers_of) -> Case:
    """A call for which memory ran out."""
    reason = "Memory ran out when 1,000 B more were asked for."
    ran = layers(of.network, of.batch, of.image)
    return Case(factors=of.factors, status="out_of_memory", reason=reason, layers=ran, series=())


def accuracy(precision: str, losses: Sequence[float], correct: Sequence[int]) -> Case:
    """A trained network on test images."""
    factors = {"subject": "accuracy", "network": "ResNet-110", "dataset": "digits"}
    return Case(
        factors={**factors, "precision": precision},
        status="ok",
        reason=None,
        layers=(),
        series=(factory.series("image_loss", losses), factory.series("image_correct", correct)),
    )


def product(precision: str, rate: float) -> Case:
    """A large matrix product in a precision."""
    time = factory.scattered(2 * 2048**3 / rate)
    linear = Linear(
        name="product", input_shape=(2048, 2048), output_shape=(2048, 2048), dtype="float32",
        bias=False,
    )  # fmt: skip
    return Case(
        factors={"subject": "matrix_product", "precision": precision, "side": 2048},
        status="ok",
        reason=None,
        layers=(linear,),
        series=(factory.series("time", time),),
    )


def plan(
    resnets: Iterable[str] = RESNETS,
    batches: Sequence[int] = (1, 8, 64, 512, 1024),
    others: Sequence[tuple[str, Sequence[int]]] = (("LeNet-5", (1, 8, 64)), ("AlexNet", (1, 8))),
) -> tuple[Call, ...]:
    """The calls of every sweep, each once."""
    swept = [(name, batches) for name in resnets] + list(others)
    deep = "ResNet-110"
    tiling: dict[str, Any] = {"network": "ResNet-20", "image": 224, "batch": 8}
    found = [
        *(call(n, b, layout=y) for n, bs in swept for b in bs for y in LAYOUTS),
        *(call(deep, b, precision="bfloat16") for b in batches),
        call(deep, 1, precision="float16"),
        *(call(n, batches[-1], precision="bfloat16", layout=y) for n in resnets for y in LAYOUTS),
        *(
            call(n, b, layout=y, execution="folded")
            for n, b in ((deep, 1), (deep, 64), ("LeNet-5", 64), ("AlexNet", 8))
            for y in LAYOUTS
        ),
        *(call(n, b, execution="compiled") for n, b in ((deep, 64), ("LeNet-5", 64))),
        Call(**tiling),
        *(Call(**tiling, execution=way, tile=t) for way in TILED for t in (8, 16, 32, 64)),
    ]
    return tuple(dict.fromkeys(found))


def cases(
    machine: Environment | None = None, calls: Iterable[Call] | None = None, **how: Any
) -> list[Case]:
    """Every sweep of a run, the limited calls and the trained network included."""
    made = [case(of, machine, **how) for of in (plan() if calls is None else calls)]
    limited = [call(n, b, memory_limit=128) for n in ("ResNet-20", "LeNet-5") for b in (64, 1024)]
    reduced = call("ResNet-20", 1024, layout="channels_last", precision="bfloat16")
    limited.append(replace(reduced, memory_limit=128))
    return [
        *made,
        *(ran(of) for of in limited[:1] + limited[2:]),
        out_of_memory(limited[1]),
        product("bfloat16", 3e11),
        accuracy("float32", [0.1, 0.2, 0.3, 2.0] * 25, [1, 1, 1, 0] * 25),
        accuracy("bfloat16", [0.1, 0.21, 0.3, 1.9] * 25, [1, 1, 1, 0] * 25),
    ]


def record(made: Iterable[Case] | None = None, machine: Environment | None = None) -> Record:
    """A whole record of this study, each case measured by several processes."""
    found = factory.by_processes(cases(machine) if made is None else made)
    return factory.record(found, machine or wide(), study="inference_memory")
