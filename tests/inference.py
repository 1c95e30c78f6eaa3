"""Records of inference_memory with chosen times, for tests that must not depend on a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from report.records.layers import Addition, Layer, Linear, PaddedShortcut
from report.records.record import Case, Environment, Record
from report.studies.inference_memory.subject import LAYOUTS, RESNETS, TILED, Call
from report.theory.liveness import peak
from report.theory.shapes import elements
from report.theory.workspaces import Conditions
from tests import factory
from tests import networks as known
from tests.networks import Chain

IMAGES = {"AlexNet": 224, "ZFNet": 224, "VGG-16": 224}
LayersOf = Callable[[str, int, int], tuple[Layer, ...]]


def named(chain: Chain, names: Sequence[str]) -> list[Layer]:
    """The layers of ``chain`` by the names of modules."""
    pairs = zip(chain.layers, names, strict=True)
    return [msgspec.structs.replace(layer, name=name) for layer, name in pairs]


def block(net: Chain, name: str, channels: int, stride: int) -> list[Layer]:
    """A residual block of two convolutions on what ``net`` puts out; option A."""
    before = net.shape
    inside = Chain(*before)
    inside.conv(channels, 3, stride, 1, bias=False).norm().act().conv(channels, 3, 1, 1, bias=False)
    inside.norm()
    found = named(inside, [f"{name}.{part}" for part in ("conv1", "bn1", "relu1", "conv2", "bn2")])
    shape = {"output_shape": inside.shape, "dtype": "float32"}
    if before != inside.shape:
        way = {"name": f"{name}.shortcut", "input_shape": before, "stride": (stride, stride)}
        found.append(PaddedShortcut(**shape, **way))
    found.append(Addition(**shape, name=f"{name}.add", input_shape=inside.shape))
    after = Chain(*inside.shape).act()
    net.shape = inside.shape
    return [*found, *named(after, [f"{name}.relu2"])]


def resnet(depth: int, batch: int, image: int) -> tuple[Layer, ...]:
    """A ResNet of 6n + 2 layers with the names of its modules."""
    net = Chain(batch, 3, image, image).conv(16, 3, 1, 1, bias=False).norm().act()
    found = named(net, ("conv", "bn", "relu"))
    for stage, channels in enumerate((16, 32, 64), start=1):
        for number in range(1, (depth - 2) // 6 + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            found += block(net, f"stage{stage}_block{number}", channels, stride)
    end = Chain(*net.shape).pool("average", net.shape[2]).flatten().linear(10)
    return (*found, *named(end, ("pool", "flatten", "fc")))


def layers_of(network: str, batch: int, image: int) -> tuple[Layer, ...]:
    """The layers of a network by its name."""
    if network.startswith("ResNet-"):
        return resnet(int(network.partition("-")[2]), batch, image)
    if network == "LeNet-5":
        return tuple(known.lenet5(1, batch))
    return tuple(known.alexnet(batch))


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


def memory(of: Call, layers: Sequence[Layer], machine: Environment) -> dict[str, Sequence[int]]:
    """What the allocator of the theory would say."""
    autocast = None if of.precision == "float32" else of.precision
    block_ = 16 if "AVX512" in machine.torch.cpu_capability else 8
    at = peak(layers, Conditions(of.layout, machine.threads, block_, False, autocast))
    before = sum(term.amount for term in at.terms[:3])
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
        **memory(of, ran, here),
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
