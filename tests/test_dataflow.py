"""Which layer reads what: hand-made blocks, and the tensors that torch really passed on."""

from __future__ import annotations

from typing import Any

import pytest

from report.errors import StudyError
from report.records.layers import Layer
from report.theory.dataflow import NETWORK_INPUT, Caller, callers, sources
from tests.blocks import named, plain_block, shortcut
from tests.networks import Chain, alexnet


def test_a_chain_reads_the_layer_before() -> None:
    layers = alexnet()
    assert sources(layers) == tuple((number - 1,) for number in range(len(layers)))
    assert sources([]) == ()
    assert NETWORK_INPUT == -1


def test_a_block_adds_what_it_read() -> None:
    stem = named(Chain(1, 3, 8, 8).conv(4, 3, 1, 1).layers, "stem")
    layers = stem + plain_block((1, 4, 8, 8), "a") + plain_block((1, 4, 8, 8), "b")
    assert sources(layers) == (
        (-1,), (0,), (1,), (2,), (3, 0), (4,), (5,), (6,), (7,), (8, 5), (9,),
    )  # fmt: skip


def test_a_block_at_the_start_adds_the_input_of_the_network() -> None:
    assert sources(plain_block((1, 4, 8, 8), "a"))[3] == (2, NETWORK_INPUT)


def test_a_shortcut_reads_what_its_block_read_wherever_it_runs() -> None:
    block = plain_block((1, 4, 8, 8), "a", channels=8)
    assert sources(block) == ((-1,), (0,), (1,), (-1,), (2, 3), (4,))
    first = [block[3], *block[:3], *block[4:]]
    assert sources(first) == ((-1,), (-1,), (1,), (2,), (3, 0), (4,))


def test_a_shortcut_of_several_layers_is_a_chain() -> None:
    block = plain_block((1, 4, 8, 8), "a", channels=8)
    side = Chain(1, 4, 8, 8).conv(8, 1, 2, bias=False).norm().layers
    block[3:4] = named(side, "a.shortcut.0", "a.shortcut.1")
    assert sources(block) == ((-1,), (0,), (1,), (-1,), (3,), (2, 4), (5,))


def test_names_that_break_the_rules_are_told() -> None:
    block = plain_block((1, 4, 8, 8), "a", channels=8)
    block[3] = shortcut((1, 4, 8, 8), (1, 8, 4, 4), "a.around")
    with pytest.raises(
        StudyError, match=r"layer a\.around: by its name it reads the output of a\.conv2"
    ):
        sources(block)


def test_modules_hold_their_arguments() -> None:
    stem = named(Chain(1, 3, 8, 8).conv(4, 3, 1, 1).layers, "stem")
    layers = stem + plain_block((1, 4, 8, 8), "stage.0") + plain_block((1, 4, 8, 8), "stage.1")
    assert callers(layers) == (
        Caller("stage", 0, 10),
        Caller("stage.0", 0, 5),
        Caller("stage.1", 5, 10),
    )
    assert callers(alexnet()) == ()


# --------------------------------------------------------------------------- torch as oracle


def passed_on(module: Any, image: Any) -> list[tuple[int, ...]]:
    """For each leaf that ran, which leaves made its arguments, by the identity of tensors."""
    from torch import nn

    made: dict[int, int] = {id(image): NETWORK_INPUT}
    found: list[tuple[int, ...]] = []
    kept: list[Any] = []  # so that no identity is given away again

    def hook(leaf: Any, arguments: Any, output: Any) -> None:
        if isinstance(leaf, nn.Identity):
            return
        found.append(tuple(made[id(argument)] for argument in arguments))
        kept.append(output)
        made[id(output)] = len(found) - 1

    for leaf in module.modules():
        if next(leaf.children(), None) is None:
            leaf.register_forward_hook(hook)
    module(image)
    return found


@pytest.mark.parametrize(
    "name",
    ["LeNet-5", "AlexNet", "ResNet-20", "ResNet-110", "ResNet-18", "ResNet-50", "MobileNetV2"],
)
def test_names_say_what_torch_passes_on(name: str) -> None:
    torch = pytest.importorskip("torch")
    from experiments.harness.capture import layers_of
    from experiments.networks.catalogue import INPUT_SHAPES, network

    with torch.device("meta"), torch.no_grad():
        module, image = network(name), torch.empty(1, *INPUT_SHAPES[name])
        layers: tuple[Layer, ...] = layers_of(module, image)
        real = passed_on(module, image)  # in training, where dropout makes a new tensor
    assert list(sources(layers)) == real
