"""Tiling changes when things are computed, never what: every tile, every form, every border."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from experiments.networks.residual import basic, cifar_resnet, option_a  # noqa: E402
from experiments.networks.tiled import (  # noqa: E402
    Form,
    Tiled,
    tiled,
)


def whole_numbers(module: nn.Module, seed: int = 0) -> nn.Module:
    """Small whole numbers for weights, so that float64 sums are exact in whatever order."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))
    return module.double().eval()


def image(*shape: int) -> torch.Tensor:
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(1)).double()


@given(
    extents=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    tile=st.integers(1, 45),
)
@settings(max_examples=60, deadline=None)
def test_a_tiled_convolution_is_exactly_the_untiled_one(
    extents: tuple[int, int], kernel: int, stride: int, padding: int, tile: int
) -> None:
    """Also where tiles do not divide the map and where padding exceeds a tile's halo."""
    if min(extents) + 2 * padding < kernel or padding >= kernel:
        return
    module = nn.Conv2d(2, 3, kernel, stride, padding)
    whole_numbers(module)
    source = image(2, 2, *extents)
    with torch.no_grad():
        assert torch.equal(Tiled([module], tile)(source), module(source))


@given(
    channels=st.sampled_from([(4, 1), (8, 2)]),
    extents=st.tuples(st.integers(1, 16), st.integers(1, 9)),
    tile=st.integers(1, 20),
)
@settings(max_examples=30, deadline=None)
def test_a_tiled_block_is_exactly_the_untiled_one(
    channels: tuple[int, int], extents: tuple[int, int], tile: int
) -> None:
    block = basic(4, *channels, in_place=False, shortcut=option_a, last="relu2")
    whole_numbers(block)
    for norm in (block.trunk[1], block.trunk[4]):
        norm.running_var.fill_(1.0 - norm.eps)  # so that normalising divides by exactly 1
    source = image(2, 4, *extents)
    with torch.no_grad():
        assert torch.equal(Tiled([block], tile)(source), block(source))


@pytest.mark.parametrize("form", ["tiled_layers", "tiled_blocks", "tiled_stages"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_maps_are_the_same_and_only_whole_layers_compute_nothing_twice(
    form: Form, layout: torch.memory_format
) -> None:
    """Scores average over the map, so that a wrong border could hide in them."""
    torch.manual_seed(0)
    network = cifar_resnet(8).eval().to(memory_format=layout)
    source = torch.randn(1, 3, 40, 24).contiguous(memory_format=layout)
    found, work = [], []
    for each in (network, tiled(network, form, 8)):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            found.append(each[:-3](source))
        work.append(counter.get_total_flops())
    wanted, maps = found
    assert torch.allclose(maps, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
    assert maps.is_contiguous(memory_format=layout)
    assert (work[1] > work[0]) == (form != "tiled_layers") and work[1] >= work[0]
