"""Networks as layers and operators, against published figures, torch's own count and other ways.

Committed captures equal new ones, and explain every request that an H100's allocator saw.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from experiments.harness.capture import capture_layers
from experiments.networks.catalogue import INPUT_SHAPES, network
from experiments.networks.chains import mnist_cnn
from experiments.networks.residual import basic, cifar_resnet, option_a
from experiments.networks.tiled import Form, Tiled, tiled
from experiments.theory.capturing import at_batch
from experiments.theory.checked import checked
from experiments.theory.operators import Input, capture
from report.core.errors import MeasurementError
from report.core.records.layers import Activation, Convolution, Linear
from report.core.records.record import Case
from report.core.records.store import read_record
from report.theory.allocator import DEFAULT, Allocate
from report.theory.network import Theory
from report.theory.networks import CapturedNetwork, Variant, captured
from report.theory.operators import operator_work
from report.theory.shapes import check, parameter_count
from report.theory.timeline import requests
from report.theory.work import forward_macs
from report.theory.workspaces import TAKES_NOTHING_ON_GPU
from tests.factory import DATA

SHAPES = {"MNIST": (1, 28, 28), **INPUT_SHAPES}
#: Parameters, multiply-adds and digits behind the point of millions, as printed by their authors or
#: by torchvision's documentation.
PUBLISHED: dict[str, tuple[int, float, int]] = {
    "MNIST": (1_199_882, 11.992448, 6),
    "LeNet-5": (61_706, 0.416520, 6),
    "AlexNet": (61_100_840, 714.188480, 6),
    "VGG-16": (138_357_544, 15_470, 0),
    "ResNet-20": (269_722, 40.55, 2),
    "ResNet-32": (464_154, 68.86, 2),
    "ResNet-44": (658_586, 97.17, 2),
    "ResNet-56": (853_018, 125.49, 2),
    "ResNet-110": (1_727_962, 252.89, 2),
    "ResNet-18": (11_689_512, 1_814.073344, 6),
    "ResNet-50": (25_557_032, 4_089.184256, 6),
    "MobileNetV2": (3_504_872, 300.774272, 6),
}


@pytest.mark.parametrize("name", SHAPES)
def test_layers_are_those_of_the_module_and_of_its_authors(name: str) -> None:
    with torch.device("meta"):
        module = mnist_cnn() if name == "MNIST" else network(name)
        layers = capture_layers(module.eval(), torch.empty(2, *SHAPES[name]))
    parameters = sum(parameter.numel() for parameter in module.parameters())
    assert sum(map(parameter_count, layers)) == parameters
    assert len({layer.name for layer in layers}) == len(layers)
    for layer in layers:
        check(layer)
        assert layer.input_shape[0] == layer.output_shape[0] == 2
    functions = {layer.function for layer in layers if isinstance(layer, Activation)}
    assert functions == {"MobileNetV2": {"relu6"}, "LeNet-5": {"tanh"}}.get(name, {"relu"})
    published, millions, digits = PUBLISHED[name]
    assert (parameters, round(forward_macs(layers) / 2e6, digits)) == (published, millions)
    if SHAPES[name] == (3, 32, 32):
        depth = sum(isinstance(layer, Convolution | Linear) for layer in layers)
        assert name == f"ResNet-{depth}"
    if "ResNet" not in name and name != "MobileNetV2":
        assert all(before.output_shape == after.input_shape for before, after in pairwise(layers))


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(("module", "shape", "reason"), [
    (nn.LSTM(4, 4), (2, 3, 4), r"ridgepoint cannot describe LSTM"),
    (nn.AdaptiveAvgPool2d(3), (1, 1, 10, 10), r"from 10x10 to 3x3 has windows of different"),
    (nn.Conv2d(1, 1, 2, padding="same"), (1, 1, 4, 4), r"padding='same' with an even kernel"),
])  # fmt: skip
def test_unknown_layers(module: nn.Module, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(MeasurementError, match=reason):
        capture_layers(module, torch.zeros(shape))


class Functional(nn.Module):
    """A network that hides from hooks on modules."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 3, 3, 3))
        self.unread = nn.Parameter(torch.randn(5))
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        y = functional.relu(functional.conv2d(x, self.weight, padding=1)).mean((2, 3))
        return self.second(self.first(y)) + y


def test_functional_calls_and_tied_weights_are_captured() -> None:
    network = capture(Functional, [Input((2, 3, 16, 16))]).network
    assert network.parameter_count == 8 * 27 + 5 + 64 + 2 * 8, "tied weights count once"
    assert network.unused == ("unread",)
    loads = [known.flops for known in map(operator_work, network.operators) if known is not None]
    assert len(loads) == len(network.operators)
    assert sum(loads) == 2 * (2 * 16 * 16 * 8 * 27 + 2 * 2 * 64)
    assert {operator.module for operator in network.operators} >= {"", "first", "second"}


def whole_numbers(module: nn.Module) -> nn.Module:
    """Small whole numbers for weights, so that float64 sums are exact in whatever order."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))
    return module.double().eval()


def block(channels: int, stride: int) -> nn.Module:
    residual = basic(4, channels, stride, shortcut=option_a, last="relu2")
    whole_numbers(residual)
    for norm in (residual.trunk[1], residual.trunk[4]):
        norm.running_var.fill_(1.0 - norm.eps)  # so that normalising divides by exactly 1
    return residual


def convolution(kernel: int, stride: int, padding: int) -> nn.Module:
    return whole_numbers(nn.Conv2d(4, 3, kernel, stride, min(padding, kernel - 1)))


WINDOW = st.integers(1, 5), st.integers(1, 3), st.integers(0, 2)
CONVOLUTIONS = st.builds(partial, st.just(convolution), *WINDOW)
BLOCKS = st.sampled_from([partial(block, 4, 1), partial(block, 8, 2)])


@given(
    make=CONVOLUTIONS | BLOCKS,
    extents=st.tuples(st.integers(5, 40), st.integers(5, 25)),
    tile=st.integers(1, 45),
)
@settings(max_examples=80, deadline=None)
def test_tiling_exact(make: Callable[[], nn.Module], extents: tuple[int, int], tile: int) -> None:
    """Also where tiles do not divide the map and where padding exceeds a tile's halo."""
    module, generator = make(), torch.Generator().manual_seed(1)
    source = torch.randint(-3, 4, (2, 4, *extents), generator=generator).double()
    with torch.no_grad():
        assert torch.equal(Tiled([module], tile)(source), module(source))


@pytest.mark.parametrize("form", ["tiled_layers", "tiled_blocks", "tiled_stages"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_tiled_maps_are_the_same(form: Form, layout: torch.memory_format) -> None:
    """Scores average over the map, so that a wrong border could hide in them."""
    torch.manual_seed(0)
    network = cifar_resnet(8).eval().to(memory_format=layout)
    source = torch.randn(1, 3, 40, 24).contiguous(memory_format=layout)
    results, work = [], []
    for variant in (network, tiled(network, form, 8)):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            results.append(variant[:-3](source))
        work.append(counter.get_total_flops())
    wanted, maps = results
    assert torch.allclose(maps, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
    assert maps.is_contiguous(memory_format=layout)
    assert (work[1] > work[0]) == (form != "tiled_layers") and work[1] >= work[0]


INFERENCE = "inference_memory/20261122T103140Z-nvidia-h100-80gb-hbm3-a086b081.json"
TRAINING = "training_roofline/20261122T103542Z-nvidia-h100-80gb-hbm3-893e6327.json"
#: What cuBLAS holds from its first product on, by the record's history (B).
CUBLAS = 33_554_432 + 1_048_576


@cache
def cases(file: str) -> tuple[Case, ...]:
    return read_record(DATA / file, DATA).record.cases


def case(file: str, **factors: object) -> Case:
    factors |= {"layout": "contiguous", "precision": "float32"}
    (match,) = (c for c in cases(file) if factors.items() <= c.factors.items())
    return match


def of_inference(name: str, batch: int) -> Theory:
    shape = (batch, *INPUT_SHAPES[name])
    return checked(partial(network, name), [Input(shape)], allocator=DEFAULT)


@cache
def of_training(batch: int) -> Theory:
    build = partial(network, "ResNet-50", in_place=True)
    return checked(build, [Input((batch, 3, 224, 224))], train=True, allocator=DEFAULT)


def tensors(theory: Theory) -> Iterator[tuple[str, int]]:
    """Each tensor that a call allocates: the operator's name and the bytes; labels are inputs."""
    for operator in theory.network.operators:
        for request in requests(operator, theory.network):
            if isinstance(request, Allocate) and request.bytes and operator.base != "zeros":
                yield operator.base, request.bytes


def others(theory: Theory, events: Sequence[float]) -> list[tuple[str, int]]:
    """The requests for anything else than theory's tensors, each with the operator that ran.

    Theory's tensors must all be there, in order; an operator asks for its results first.
    """
    expected, extra, running = list(tensors(theory)), [], "start"
    for size in (int(event) for event in events if event > 0):
        if expected and expected[0][1] == size:
            running, _ = expected.pop(0)
        else:
            extra.append((running if expected else "update", size))
    assert not expected, "requests of theory that the allocator never saw"
    return extra


@pytest.mark.parametrize(("name", "batch"), [
    *(("LeNet-5", batch) for batch in (1, 64, 1024)),
    *(("AlexNet", batch) for batch in (1, 8, 64, 128)),
    *(("VGG-16", batch) for batch in (8, 640)),
    *(("ResNet-20", batch) for batch in (1, 128, 256, 1024)),
])  # fmt: skip
def test_inference_asks_for_tensors_of_theory_and_workspaces(name: str, batch: int) -> None:
    image = INPUT_SHAPES[name][1]
    measured = case(INFERENCE, network=name, batch=batch, image=image, execution="eager")
    theory = of_inference(name, batch)
    extra = others(theory, measured.samples("memory_events"))
    assert {operator for operator, _ in extra} <= {"convolution"}
    assert theory.cuda is not None and theory.peak is not None
    assert theory.peak.total <= theory.cuda["allocated"]
    (requested, *_), (allocated, *_) = map(measured.samples, ("requested_peak", "allocated_peak"))
    if not extra:
        assert requested == theory.cuda["requested"] + CUBLAS
        assert allocated == theory.cuda["allocated"] + CUBLAS
    assert not theory.complete and theory.peak.total < allocated


@pytest.mark.parametrize("batch", [32, 128])
def test_training_asks_for_the_tensors_of_theory_in_their_order(batch: int) -> None:
    measured = case(TRAINING, batch=batch, subject="training")
    theory = of_training(batch)
    extra = others(theory, measured.samples("memory_events"))
    # The measured update adds the decay of weights to all gradients at once; theory's has none.
    parameters = sorted(t.bytes for t in theory.network.parameters.values())
    assert sorted(size for running, size in extra if running == "update")[-161:] == parameters
    assert {r for r, _ in extra} <= {"convolution", "convolution_backward", "update"}
    (allocated, *_) = measured.samples("allocated_peak")
    assert theory.peak is not None
    assert 0.9 * allocated < theory.peak.total < allocated


def test_what_takes_nothing_was_seen_in_these_calls() -> None:
    calls = [*(of_inference(name, 1) for name in ("LeNet-5", "AlexNet", "ResNet-20"))]
    calls.append(of_training(32))
    seen = {operator.base for call in calls for operator in call.network.operators}
    assert seen >= TAKES_NOTHING_ON_GPU


@pytest.mark.parametrize(("name", "image", "variant"), [
    ("LeNet-5", 32, Variant("channels_last")),
    ("ResNet-20", 32, Variant("contiguous", "float16")),
    ("AlexNet", 224, Variant("channels_last", "bfloat16")),
])  # fmt: skip
def test_a_stored_network_scales_to_another_batch(name: str, image: int, variant: Variant) -> None:
    stored = captured(name, image, variant)
    assert isinstance(stored, CapturedNetwork)
    assert stored.at(5) == at_batch(name, image, variant, 5)
