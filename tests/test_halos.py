"""Halos of tiles against brute force, position by position, and against closed forms."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from report.records.layers import Convolution, Layer
from report.studies.inference_memory.theory import patched
from report.theory.work import forward_macs, macs
from tests.networks import Chain


def test_a_layer_computes_each_output_once() -> None:
    layers = Chain(2, 16, 32, 32).conv(16, 3, 1, 1).layers
    assert patched(layers, 8) == patched(layers, None) == forward_macs(layers)


def test_a_patch_through_two_layers_computes_the_halo_of_the_second() -> None:
    layers = Chain(1, 4, 16, 16).conv(4, 3, 1, 1).act().conv(4, 3, 1, 1).layers
    assert patched(layers, 8) == macs(layers[0]) * (1 + 18 * 18 / 256)


@st.composite
def stacks(draw: st.DrawFn) -> list[Layer]:
    """Convolutions one after another, with strides no larger than kernels."""
    net = Chain(draw(st.integers(1, 2)), draw(st.integers(1, 3)), *[draw(st.integers(8, 14))] * 2)
    for _ in range(draw(st.integers(1, 3))):
        kernel = draw(st.integers(1, 3))
        if min(net.shape[2:]) < 2 * kernel and net.layers:
            break
        stride, border = draw(st.integers(1, kernel)), draw(st.integers(0, kernel // 2))
        net.conv(draw(st.integers(1, 3)), kernel, stride, border).act()
    return net.layers


@given(stacks(), st.integers(1, 6), st.integers(1, 3))
def test_work_is_that_of_every_single_position(layers: list[Layer], tile: int, larger: int) -> None:
    height, width = layers[-1].output_shape[2:]
    computed = 0
    for y, x in product(range(0, height, tile), range(0, width, tile)):
        rows, columns = range(y, min(y + tile, height)), range(x, min(x + tile, width))
        needed = set(product(rows, columns))
        for layer in reversed([each for each in layers if isinstance(each, Convolution)]):
            positions = layer.output_shape[2] * layer.output_shape[3]
            computed += len(needed) * macs(layer) // positions
            needed = {place for each in needed for place in looked_at(layer, *each)}
    assert patched(layers, tile) == computed
    assert computed >= patched(layers, tile * larger) >= patched(layers, None)
    assert patched(layers, None) == patched(layers, max(height, width)) <= forward_macs(layers)


def looked_at(layer: Convolution, y: int, x: int) -> set[tuple[int, int]]:
    top, left = (
        place * step - border
        for place, step, border in zip((y, x), layer.stride, layer.padding, strict=True)
    )
    window = product(range(top, top + layer.kernel[0]), range(left, left + layer.kernel[1]))
    height, width = layer.input_shape[2:]
    return {(a, b) for a, b in window if 0 <= a < height and 0 <= b < width}
