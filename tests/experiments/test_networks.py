"""Layers and operators of networks: published counts, tiles, and requests to an allocator.

A capture is the list of the operators that a call of a network runs.  Captures are compared with
what an H100's allocator recorded, and with torch's own counter of floating-point operations.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from experiments.networks.capture import capture_layers
from experiments.networks.catalogue import INPUT_SHAPES, build_network
from experiments.networks.chains import mnist_cnn
from experiments.networks.residual import basic_block, cifar_resnet, option_a_shortcut
from experiments.networks.tiled import Form, Tiled, tile_network
from experiments.theory.checked import capture_theory
from experiments.theory.operators import Input, capture, capture_variant
from report.core.errors import MeasurementError
from report.core.records.layers import Activation, Convolution, Linear
from report.core.records.record import Case
from report.core.records.store import read_record
from report.theory.allocator import DEFAULT_OPTIONS, Allocate
from report.theory.network import Theory
from report.theory.networks import CapturedNetwork, Variant, load_capture
from report.theory.operators import operator_work
from report.theory.timeline import requests_of
from report.theory.work import check_shapes, forward_macs, parameter_count
from report.theory.workspaces import WITHOUT_WORKSPACE_ON_GPU
from tests.experiments.functions import First, Function
from tests.factory import DATA

SHAPES = {"MNIST": (1, 28, 28), **INPUT_SHAPES}
#: Network → parameters, millions of multiply-adds, and decimals of the millions; from the authors'
#: papers or torchvision's documentation.
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
def test_captured_layers_match_module_and_published_counts(name: str) -> None:
    with torch.device("meta"):
        module = mnist_cnn() if name == "MNIST" else build_network(name)
        layers = capture_layers(module.eval(), torch.empty(2, *SHAPES[name]))
    parameters = sum(parameter.numel() for parameter in module.parameters())
    assert sum(map(parameter_count, layers)) == parameters
    assert len({layer.name for layer in layers}) == len(layers)
    for layer in layers:
        check_shapes(layer)
        assert layer.input_shape[0] == layer.output_shape[0] == 2
    functions = {layer.function for layer in layers if isinstance(layer, Activation)}
    assert functions == {"MobileNetV2": {"relu6"}, "LeNet-5": {"tanh"}}.get(name, {"relu"})
    published_parameters, published_millions, decimals = PUBLISHED[name]
    millions = forward_macs(layers) / 2 / 1e6  # the batch has two images
    assert parameters == published_parameters and round(millions, decimals) == published_millions
    if SHAPES[name] == (3, 32, 32):  # these names contain the number of weighted layers
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
def test_unknown_layers_are_refused(module: nn.Module, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(MeasurementError, match=reason):
        capture_layers(module, torch.zeros(shape))


class Functional(nn.Module):
    """A network whose functional calls are invisible to hooks on modules."""

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
    network = capture(Functional, [Input((2, 3, 16, 16))]).theory.network
    assert network.parameter_count == 8 * 27 + 5 + 64 + 2 * 8, "tied weights count once"
    assert network.unused_parameters == ("unread",)
    flops = 0
    for operator in network.operators:
        work = operator_work(operator)
        assert work is not None, operator
        flops += work.flops
    # For two images: one convolution of 16 × 16 pixels, and two linear layers of 8 to 8 values.
    assert flops == 2 * (2 * 16 * 16 * 8 * 27 + 2 * 2 * 64)
    assert {operator.module for operator in network.operators} >= {"", "first", "second"}


def set_whole_weights(module: nn.Module) -> nn.Module:
    """Set all weights to small whole numbers, so that sums in float64 have no rounding error."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))
    return module.double().eval()


def block(channels: int, stride: int) -> nn.Module:
    """Return a residual block that computes without rounding errors."""
    residual = basic_block(4, channels, stride, shortcut=option_a_shortcut, last="relu2")
    set_whole_weights(residual)
    for norm in (residual.trunk[1], residual.trunk[4]):
        norm.running_var.fill_(1.0 - norm.eps)  # the divisor becomes 1
    return residual


def convolution(kernel: int, stride: int, padding: int) -> nn.Module:
    return set_whole_weights(nn.Conv2d(4, 3, kernel, stride, min(padding, kernel - 1)))


CONVOLUTIONS = st.builds(
    partial,
    st.just(convolution),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
)
BLOCKS = st.sampled_from(
    [partial(block, channels=4, stride=1), partial(block, channels=8, stride=2)]
)


@given(
    build=CONVOLUTIONS | BLOCKS,
    extents=st.tuples(st.integers(5, 40), st.integers(5, 25)),
    tile=st.integers(1, 45),
)
@settings(max_examples=80, deadline=None)
def test_tiles_give_exactly_the_whole_map(
    build: Callable[[], nn.Module], extents: tuple[int, int], tile: int
) -> None:
    """The side of a tile (pixels) may exceed the map's extents, and need not divide them."""
    module, generator = build(), torch.Generator().manual_seed(1)
    images = torch.randint(-3, 4, (2, 4, *extents), generator=generator).double()
    with torch.no_grad():
        assert torch.equal(Tiled([module], tile)(images), module(images))


@pytest.mark.parametrize("form", ["tiled_layers", "tiled_blocks", "tiled_stages"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_tiled_networks_compute_the_same_maps(form: Form, layout: torch.memory_format) -> None:
    """Compare the maps before average pooling, which could hide wrong borders."""
    torch.manual_seed(0)
    network = cifar_resnet(8).eval().to(memory_format=layout)
    images = torch.randn(1, 3, 40, 24).contiguous(memory_format=layout)

    def maps_and_flops(module: Any) -> tuple[torch.Tensor, int]:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            maps = module[:-3](images)
        return maps, counter.get_total_flops()

    expected, flops = maps_and_flops(network)
    maps, flops_of_tiles = maps_and_flops(tile_network(network, form, 8))
    assert torch.allclose(maps, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    assert maps.is_contiguous(memory_format=layout)
    # Tiles that pass several layers overlap, so that their borders are computed twice.
    assert flops_of_tiles == flops if form == "tiled_layers" else flops_of_tiles > flops


#: Records of an H100, with the bytes of all requests to PyTorch's allocator (``memory_events``).
INFERENCE = "inference_memory/20261122T103140Z-nvidia-h100-80gb-hbm3-a086b081.json"
TRAINING = "training_roofline/20261122T103542Z-nvidia-h100-80gb-hbm3-893e6327.json"
#: Size (B) of cuBLAS's workspaces after the first product, from the record's allocation history.
CUBLAS = 33_554_432 + 1_048_576


@cache
def cases(file: str) -> tuple[Case, ...]:
    return read_record(DATA / file, DATA).record.cases


def case(file: str, **factors: object) -> Case:
    """Return the only contiguous case of a record in float32 with these factors."""
    factors |= {"layout": "contiguous", "precision": "float32"}
    (match,) = (c for c in cases(file) if factors.items() <= c.factors.items())
    return match


@cache
def inference_theory(name: str, batch: int) -> Theory:
    shape = (batch, *INPUT_SHAPES[name])
    return capture_theory(partial(build_network, name), [Input(shape)], allocator=DEFAULT_OPTIONS)


@cache
def training_theory(batch: int) -> Theory:
    build = partial(build_network, "ResNet-50", "in_place")
    return capture_theory(
        build, [Input((batch, 3, 224, 224))], train=True, allocator=DEFAULT_OPTIONS
    )


def allocated_tensors(theory: Theory) -> Iterator[tuple[str, int]]:
    """Yield operator and bytes of each tensor that theory allocates.

    ``zeros`` makes the labels of a training step; they are left out.
    """
    for operator in theory.network.operators:
        for request in requests_of(operator, theory.network):
            if isinstance(request, Allocate) and request.bytes and operator.base_name != "zeros":
                yield operator.base_name, request.bytes


def further_requests(theory: Theory, events: Sequence[float]) -> list[tuple[str, int]]:
    """Return operator and bytes of the measured requests that are no tensors of theory.

    ``events`` are bytes, negative if freed.  All tensors of theory must occur in order.  A further
    request belongs to the operator of the tensor before it, or after the last tensor to the update.
    """
    expected, extra, operator = list(allocated_tensors(theory)), [], "start"
    for event in events:
        if event < 0:
            continue
        if expected and expected[0][1] == event:
            operator, _ = expected.pop(0)
        else:
            extra.append((operator if expected else "update", int(event)))
    assert not expected, "the allocator has no such requests"
    return extra


@pytest.mark.parametrize(("name", "batch"), [
    ("LeNet-5", 1), ("LeNet-5", 64), ("LeNet-5", 1024),
    ("AlexNet", 1), ("AlexNet", 8), ("AlexNet", 64), ("AlexNet", 128),
    ("VGG-16", 8), ("VGG-16", 640),
    ("ResNet-20", 1), ("ResNet-20", 128), ("ResNet-20", 256), ("ResNet-20", 1024),
])  # fmt: skip
def test_inference_requests_tensors_of_theory_and_workspaces(name: str, batch: int) -> None:
    image = INPUT_SHAPES[name][1]
    measured = case(INFERENCE, network=name, batch=batch, image=image, execution="eager")
    theory = inference_theory(name, batch)
    extra = further_requests(theory, measured.samples("memory_events"))
    assert {operator for operator, _ in extra} <= {"convolution"}
    assert theory.cuda is not None and theory.peak is not None
    assert theory.peak.total <= theory.cuda["allocated"]
    requested = measured.samples("requested_peak")[0]
    allocated = measured.samples("allocated_peak")[0]
    if not extra:
        assert requested == theory.cuda["requested"] + CUBLAS
        assert allocated == theory.cuda["allocated"] + CUBLAS
    assert not theory.complete and theory.peak.total < allocated


@pytest.mark.parametrize("batch", [32, 128])
def test_training_requests_the_tensors_of_theory_in_order(batch: int) -> None:
    measured = case(TRAINING, batch=batch, subject="training")
    theory = training_theory(batch)
    extra = further_requests(theory, measured.samples("memory_events"))
    # The update requests a tensor per parameter for the weight decay, which theory lacks.
    parameter_sizes = sorted(tensor.bytes for tensor in theory.network.parameters.values())
    update_sizes = sorted(size for operator, size in extra if operator == "update")
    assert update_sizes[-len(parameter_sizes) :] == parameter_sizes
    assert {operator for operator, _ in extra} <= {"convolution", "convolution_backward", "update"}
    (allocated, *_) = measured.samples("allocated_peak")
    assert theory.peak is not None
    assert 0.9 * allocated < theory.peak.total < allocated


def test_operators_without_workspace_ran_in_the_calls_above() -> None:
    """Above, only convolutions requested workspaces."""
    theories = [inference_theory(name, 1) for name in ("LeNet-5", "AlexNet", "ResNet-20")]
    operators: set[str] = set()
    for theory in (*theories, training_theory(32)):
        operators |= {operator.base_name for operator in theory.network.operators}
    assert operators >= WITHOUT_WORKSPACE_ON_GPU


@pytest.mark.parametrize(("name", "image", "variant"), [
    ("LeNet-5", 32, Variant("channels_last")),
    ("ResNet-20", 32, Variant("contiguous", "float16")),
    ("AlexNet", 224, Variant("channels_last", "bfloat16")),
])  # fmt: skip
def test_a_stored_network_scales_to_another_batch(name: str, image: int, variant: Variant) -> None:
    stored = load_capture(name, image, variant)
    assert isinstance(stored, CapturedNetwork)
    assert stored.scale_network(5) == capture_variant(name, image, variant, 5)


#: Operators on a CPU whose multiply-adds torch's counter ignores.
UNCOUNTED = {
    "_scaled_dot_product_flash_attention_for_cpu", "_native_multi_head_attention",
    "mkldnn_rnn_layer", "mv", "dot",
}  # fmt: skip

#: Type of a function that draws one of several values.
Pick = Callable[[Any], Any]
ACTIVATIONS = (
    nn.ReLU(), nn.ReLU6(inplace=True), nn.GELU(), nn.SiLU(inplace=True), nn.Hardswish(), nn.Tanh(),
)  # fmt: skip


class Joined(nn.Module):
    """Sum or concatenation of an input and the result of a branch."""

    def __init__(self, branch: nn.Module, join: str) -> None:
        super().__init__()
        self.branch, self.join = branch, join

    def forward(self, x: Any) -> Any:
        y = self.branch(x)
        return torch.cat((x, y), 1) if self.join == "cat" else y.add_(x)


def any_convolution(pick: Pick, channels: int, side: int) -> nn.Module:
    groups, kernel = pick(divisors(channels)), pick(range(1, min(3, side) + 1))
    keeps_size = pick((True, False))
    return nn.Conv2d(
        channels, groups * pick((1, 2, 3)), kernel, groups=groups, bias=pick((True, False)),
        stride=1 if keeps_size else pick((1, 2)),
        padding="same" if keeps_size else pick(range(kernel // 2 + 1)),
        dilation=pick((1, 2)) if side >= 5 else 1,
        padding_mode=pick(("zeros", "circular", "replicate", *["reflect"] * (side > 1))),
    )  # fmt: skip


def divisors(channels: int) -> list[int]:
    return [groups for groups in (1, 2, 3, channels) if channels % groups == 0]


def map_layer(pick: Pick, shape: tuple[int, ...]) -> nn.Module:
    """Draw a layer for inputs of shape ``(N, C, H, W)``."""
    channels, side = shape[1], min(shape[2:])
    groups, kernel = pick(divisors(channels)), pick(range(1, min(3, side) + 1))
    mode, join = pick(("nearest", "bilinear", "bicubic")), pick(("cat", "sum"))
    reduce = pick((torch.mean, torch.sum, torch.amax, torch.var))
    return pick((
        lambda: any_convolution(pick, channels, side),
        lambda: nn.ConvTranspose2d(channels, groups * 2, kernel, pick((1, 2)), groups=groups),
        lambda: nn.BatchNorm2d(channels),
        lambda: nn.GroupNorm(groups, channels),
        lambda: pick(ACTIVATIONS),
        lambda: First(nn.MaxPool2d(kernel, pick((1, 2, 3)), return_indices=True)),
        lambda: nn.MaxPool2d(1, 2, dilation=pick((1, 2)), ceil_mode=pick((True, False))),
        lambda: nn.AvgPool2d(kernel, ceil_mode=pick((True, False))),
        lambda: nn.AdaptiveAvgPool2d(pick((1, 2, 3, 4))),
        lambda: nn.Softmax(pick((1, 2, 3))),
        lambda: Function(lambda x: functional.interpolate(x, scale_factor=2, mode=mode)),
        lambda: Joined(nn.Conv2d(channels, channels, 1), join),
        lambda: nn.ZeroPad2d(pick((0, 1, 2))),
        lambda: Function(lambda x: x.contiguous(memory_format=torch.channels_last)),
        lambda: Function(lambda x: x - reduce(x, dim=(2, 3), keepdim=True)),
    ))()  # fmt: skip


def volume_layer(pick: Pick, shape: tuple[int, ...]) -> nn.Module:
    """Draw a layer for inputs of shape ``(N, C, D, H, W)``."""
    channels, kernel = shape[1], pick(range(1, min(2, *shape[2:]) + 1))
    return pick((
        lambda: nn.Conv3d(channels, pick((1, 2, 3)), kernel, pick((1, 2)), padding=kernel // 2),
        lambda: nn.ConvTranspose3d(channels, channels, kernel, groups=channels),
        lambda: nn.BatchNorm3d(channels),
        lambda: pick((nn.MaxPool3d, nn.AvgPool3d))(kernel),
        lambda: pick(ACTIVATIONS),
    ))()  # fmt: skip


def sequence_layer(pick: Pick, shape: tuple[int, ...]) -> nn.Module:
    """Draw a layer for inputs of shape ``(N, L, E)``."""
    width, swap_axes = shape[2], Function(lambda x: x.transpose(1, 2))
    heads, size = pick([h for h in (1, 2, 3) if width % h == 0]), pick(range(1, 7))
    to_indices = Function(lambda x: x[..., 0].abs().clamp(max=6).long())
    option = pick((True, False))
    return pick((
        lambda: nn.Linear(width, size, bias=option),
        lambda: nn.LayerNorm(width),
        lambda: First(nn.MultiheadAttention(width, heads, batch_first=True), 3),
        lambda: First(nn.LSTM(width, 4, batch_first=True, bidirectional=option)),
        lambda: First(nn.GRU(width, size, batch_first=True)),
        lambda: nn.Sequential(swap_axes, nn.Conv1d(width, size, 1), swap_axes),
        lambda: Function(lambda x: torch.einsum("ble,bme->blm", x, x)),
        lambda: nn.Softmax(pick((0, 1, 2))),
        lambda: pick(ACTIVATIONS),
        lambda: nn.Sequential(to_indices, nn.Embedding(7, size)),
        lambda: Function(lambda x: torch.bmm(x, x.transpose(1, 2))),
    ))()  # fmt: skip


@st.composite
def networks(draw: st.DrawFn) -> tuple[nn.Module, tuple[int, ...]]:
    """Draw a network of one to six layers, and the shape of its input."""

    def pick(options: Sequence[Any]) -> Any:
        return draw(st.sampled_from(options))

    sequence, maps, volume = (sequence_layer, 3), (map_layer, 4), (volume_layer, 5)
    # Volumes are drawn less often, since they are slower.
    draw_layer, dimensions = pick((sequence, maps, sequence, maps, volume))
    input_shape = (pick((1, 2, 3)), *(pick(range(1, 7)) for _ in range(dimensions - 1)))
    layers: list[nn.Module] = []
    shape = input_shape
    for _ in range(pick(range(1, 7))):
        layer = draw_layer(pick, shape).eval()
        try:
            with torch.no_grad():
                result = layer(torch.zeros(shape))
        except ValueError:  # torch cannot normalize a single value
            break
        if result.numel() == 0 or result.numel() > 20_000:
            break
        layers.append(layer)
        shape = tuple(result.shape)
    return nn.Sequential(*layers).eval(), input_shape


@settings(max_examples=100, suppress_health_check=list(HealthCheck), derandomize=True)
@given(drawn=networks(), train=st.booleans())
def test_theory_is_exact_or_refuses(drawn: tuple[nn.Module, tuple[int, ...]], train: bool) -> None:
    module, shape = drawn
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        module(torch.randn(shape))
    expected = counter.get_total_flops()
    parameters = sum(p.numel() for p in module.parameters())
    trains = train and parameters > 0
    try:
        theory = capture_theory(lambda: copy.deepcopy(module), [Input(shape)], train=trains)
    except MeasurementError:
        # Torch must refuse the same network, for example statistics of one value.
        with pytest.raises((RuntimeError, ValueError)):
            module.train(trains)(torch.randn(shape)).sum().backward()
        return
    assert (theory.parameters, theory.unknown_operators) == (parameters, ())
    flops = 0
    for operator, work in zip(theory.network.operators, theory.work, strict=True):
        if work and operator.base_name not in UNCOUNTED:
            flops += work.flops
    # The counter saw only a forward pass.
    assert trains or flops == expected
