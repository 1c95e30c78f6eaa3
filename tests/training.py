"""Records of training_roofline with chosen times, for tests that must not depend on a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from report.layers import Layer, Linear
from report.records import Case, Environment, Record
from report.resized import at_image
from report.roofline import at_batch, in_type, training_loads
from report.studies.training_roofline.subject import ELEMENTS, NETWORKS, Step
from report.training_memory import categories
from tests import factory
from tests.networks import Chain

#: What the machine of these records reaches: FLOP/s in float32 and in bfloat16, and B/s.
PEAK, SHORT_PEAK, COPY = 2e11, 4e11, 3e10
PROCESSES = (1, 2, 3)

Seconds = Callable[[Step, Sequence[Layer]], float]


class Network:
    """A network in the making, with the names by which ``report.dataflow`` finds its edges."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = (1, 3, 224, 224)
        self.layers: list[Layer] = []

    def add(self, name: str, chain: Chain) -> Network:
        """Append the layers of a chain, which start at the shape reached so far."""
        self.layers += _named(chain, name)
        self.shape = chain.shape
        return self

    def residual(self, name: str, inside: Chain, side: Chain | None, last: str | None) -> Network:
        """A block with a way around its layers, a sum, and what follows it."""
        after = Chain(*inside.shape).add()
        ends = [msgspec.structs.replace(after.layers[0], name=f"{name}.add")]
        if last:
            ends.append(msgspec.structs.replace(after.act(last).layers[1], name=f"{name}.last"))
        around = _named(side, f"{name}.shortcut") if side else []
        self.layers += [*_named(inside, name), *around, *ends]
        self.shape = inside.shape
        return self


def _named(chain: Chain, name: str) -> list[Layer]:
    return [
        msgspec.structs.replace(layer, name=f"{name}.part{number}")
        for number, layer in enumerate(chain.layers)
    ]


def _resnet(depth: int) -> list[Layer]:
    net = Network()
    net.add("stem", Chain(*net.shape).conv_norm(64, 7, 2, act="relu").pool("max", 3, 2, 1))
    counts = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]
    for stage, (width, blocks) in enumerate(zip((64, 128, 256, 512), counts, strict=True)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            inside, before = Chain(*net.shape), net.shape
            if depth == 18:
                inside.conv_norm(width, 3, stride, act="relu").conv_norm(width, 3)
            else:
                inside.conv_norm(width, 1, act="relu").conv_norm(width, 3, stride, act="relu")
                inside.conv_norm(4 * width, 1)
            same = inside.shape == before
            side = None if same else Chain(*before).conv_norm(inside.shape[1], 1, stride)
            net.residual(f"stage{stage}_block{block}", inside, side, "relu")
    return _ended(net, Chain(*net.shape))


def _mobilenet() -> list[Layer]:
    net = Network()
    net.add("first", Chain(*net.shape).conv_norm(32, 3, 2, act="relu6"))
    for number, (expand, channels, blocks, stride) in enumerate((
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    )):  # fmt: skip
        for block in range(blocks):
            before, hidden = net.shape, net.shape[1] * expand
            inside = Chain(*before)
            if expand != 1:
                inside.conv_norm(hidden, 1, act="relu6")
            inside.conv_norm(hidden, 3, 1 if block else stride, groups=hidden, act="relu6")
            inside.conv_norm(channels, 1)
            name = f"stage{number}_block{block}"
            same = inside.shape == before
            net.residual(name, inside, None, None) if same else net.add(name, inside)
    net.add("last", Chain(*net.shape).conv_norm(1280, 1, act="relu6"))
    return _ended(net, Chain(*net.shape), dropout=0.2)


def _ended(net: Network, end: Chain, dropout: float | None = None) -> list[Layer]:
    end.pool("average", 7).flatten()
    if dropout:
        end.dropout(dropout)
    return net.add("end", end.linear(1000)).layers


@lru_cache
def layers_of(network: str, batch: int = 1, image: int = 224) -> tuple[Layer, ...]:
    """The layers of a network by its name."""
    made = _mobilenet() if network == "MobileNetV2" else _resnet(int(network.partition("-")[2]))
    return at_batch(at_image(made, image), batch)


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
    """One process of a step; ``change`` replaces series (``steps`` is that of time) or fields."""
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
        theory = categories(layers)
        before = theory.between_steps
        found |= {
            "allocated_before": [before],
            "allocated_after": [before + 4],
            "allocated_peak": [theory.before_backward + 1_000_000],
        }
    if "steps" in change:
        found["time"] = change.pop("steps")
    fields = {name: change.pop(name) for name in ("status", "reason") if name in change}
    found |= change
    return Case(
        factors=step.factors(process),
        status=fields.get("status", "ok"),
        reason=fields.get("reason"),
        layers=layers,
        series=tuple(factory.series(n, s) for n, s in found.items() if s is not None),
    )


def profile(step: Step, steps: int = 3) -> Case:
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
    found += [Step(network, image, 8) for image in (64, 128, 224)]
    found.append(Step(network, 224, 8, "bfloat16", "channels_last"))
    return tuple(dict.fromkeys(found))


def cases(
    networks: Iterable[str] = NETWORKS,
    time: Seconds = seconds,
    processes: Sequence[int] = PROCESSES,
) -> list[Case]:
    """A whole plan."""
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
    chosen = cases() if found is None else tuple(found)
    change.setdefault("peaks", factory.ceilings(PEAK, COPY))
    return factory.record(chosen, machine, study="training_roofline", **change)
