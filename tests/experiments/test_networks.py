"""Every network against published figures, closed forms, torch's own count and other shapes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional  # noqa: E402

from experiments.harness.capture import layers_of  # noqa: E402
from experiments.networks.catalogue import INPUT_SHAPES, network  # noqa: E402
from experiments.networks.residual import basic, option_a  # noqa: E402
from report.records.layers import Convolution, Layer, Linear  # noqa: E402
from report.theory.shapes import check, parameter_count  # noqa: E402
from report.theory.work import Macs, flops, forward_macs, macs, training_macs  # noqa: E402

#: Parameters and multiply-adds as printed by their authors or by torchvision's documentation.
PUBLISHED: dict[str, tuple[int, float, int]] = {
    # name: parameters, multiply-adds, digits behind the point of millions
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

#: The networks of the study of training.
TRAINED = ("ResNet-18", "ResNet-50", "MobileNetV2")


def layers(name: str, batch: int = 1) -> tuple[Layer, ...]:
    with torch.device("meta"):
        return layers_of(network(name).eval(), torch.empty(batch, *INPUT_SHAPES[name]))


@pytest.mark.parametrize("name", INPUT_SHAPES)
def test_layers_are_those_of_the_module_and_of_its_authors(name: str) -> None:
    with torch.device("meta"):
        parameters = sum(p.numel() for p in network(name).parameters())
    found = layers(name, batch=2)
    assert sum(map(parameter_count, found)) == parameters
    assert len({layer.name for layer in found}) == len(found)
    for layer in found:
        check(layer)
        assert layer.input_shape[0] == layer.output_shape[0] == 2
    if name in PUBLISHED:
        published, millions, digits = PUBLISHED[name]
        assert (parameters, round(forward_macs(found) / 2e6, digits)) == (published, millions)
    if name in {f"ResNet-{depth}" for depth in (20, 32, 44, 56, 110)}:
        depth = sum(isinstance(layer, Convolution | Linear) for layer in found)
        assert name == f"ResNet-{depth}"


@pytest.mark.parametrize("name", TRAINED)
def test_a_training_step_has_the_work_that_torch_counts(name: str) -> None:
    """torch leaves out the groups of a weight gradient, so that only dense networks agree."""
    from torch.utils.flop_counter import FlopCounterMode

    found = layers(name)
    with torch.device("meta"), FlopCounterMode(display=False) as counted:
        network(name)(torch.empty(1, *INPUT_SHAPES[name])).sum().backward()
    grouped = [layer for layer in found if isinstance(layer, Convolution) and layer.groups > 1]
    forgotten = sum((layer.groups - 1) * macs(layer, "weight_gradient") for layer in grouped)
    counts = {flops(Macs(training_macs(found) + more)) for more in (0, forgotten)}
    assert counted.get_total_flops() in counts
    assert bool(grouped) == (name == "MobileNetV2")


# ------------------------------------------------------------------------------------ shortcuts


def test_a_block_computes_what_the_paper_defines() -> None:
    block = basic(4, 8, 2, in_place=False, shortcut=option_a).eval()
    source = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(3))
    main = functional.relu(block.bn1(functional.conv2d(source, block.conv1.weight, None, 2, 1)))
    main = block.bn2(functional.conv2d(main, block.conv2.weight, None, 1, 1))
    around = torch.zeros(2, 8, 3, 3)
    around[:, 2:6] = source[:, :, ::2, ::2]
    with torch.no_grad():
        assert torch.allclose(block(source), functional.relu(main + around), atol=1e-6)
