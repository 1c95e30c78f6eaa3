"""Published geometry against lists that were written apart, and against what torch runs."""

from __future__ import annotations

import pytest

from report.records.layers import Layer
from report.theory.architectures import ARCHITECTURES
from report.theory.dataflow import sources
from report.theory.rescale_shapes import at_image
from report.theory.shapes import check, parameter_count
from report.theory.work import forward_macs
from tests import networks


def geometry(layers: tuple[Layer, ...] | list[Layer]) -> list[tuple[object, ...]]:
    return [(type(x), x.input_shape, x.output_shape, getattr(x, "groups", 0)) for x in layers]


@pytest.mark.parametrize(
    ("network", "parameters", "macs"),
    [
        ("ResNet-18", 11_689_512, 1_814_073_344),
        ("ResNet-50", 25_557_032, 4_089_184_256),
        ("MobileNetV2", 3_504_872, 300_774_272),
    ],
)
def test_parameters_and_work_are_those_published(network: str, parameters: int, macs: int) -> None:
    layers = ARCHITECTURES[network](1, 224)
    assert sum(map(parameter_count, layers)) == parameters
    assert forward_macs(layers) == macs


@pytest.mark.parametrize(
    ("network", "other"),
    [
        ("ResNet-18", networks.resnet18),
        ("ResNet-50", networks.resnet50),
        ("MobileNetV2", networks.mobilenet_v2),
    ],
)
def test_shapes_are_those_of_another_list(network: str, other: object) -> None:
    assert geometry(ARCHITECTURES[network](3, 224)) == geometry(other(3))  # type: ignore[operator]


@pytest.mark.parametrize("network", ARCHITECTURES)
@pytest.mark.parametrize("side", [64, 224])
def test_shapes_and_names_fit_each_other(network: str, side: int) -> None:
    layers = ARCHITECTURES[network](2, side)
    for layer in layers:
        check(layer)
    assert len(sources(layers)) == len(layers)
    assert at_image(ARCHITECTURES[network](2, 128), side) == layers


@pytest.mark.parametrize("network", ARCHITECTURES)
def test_an_experiment_records_the_same_layers(network: str) -> None:
    torch = pytest.importorskip("torch")
    from experiments.harness.capture import layers_of
    from experiments.networks.catalogue import network as build

    with torch.device("meta"):
        module = build(network).eval()
        recorded = layers_of(module, torch.empty(2, 3, 64, 64))
    assert recorded == ARCHITECTURES[network](2, 64)
