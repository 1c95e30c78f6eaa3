"""Halos against brute force, position by position, and against closed forms."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import StudyError
from report.records.layers import Convolution, Layer, PaddedShortcut, Pooling
from report.theory.dataflow import sources
from report.theory.shapes import Axis
from report.theory.tiling import Span, Tiling, cut, input_extent, input_span, tiled
from report.theory.work import forward_macs, macs
from tests.blocks import named, plain_block
from tests.networks import Chain, lenet5


def test_pieces_cover_the_extent_once() -> None:
    assert cut(10, 4) == (Span(0, 4), Span(4, 8), Span(8, 10))
    assert cut(8, 4) == (Span(0, 4), Span(4, 8))
    assert cut(8, None) == cut(8, 8) == cut(8, 100) == (Span(0, 8),)
    with pytest.raises(StudyError, match="at least one position"):
        cut(8, 0)


@pytest.mark.parametrize(("stride", "dilation", "expected"), [(1, 1, 10), (2, 1, 17), (1, 2, 12)])
def test_inputs_of_a_tile_of_eight(stride: int, dilation: int, expected: int) -> None:
    assert input_extent(Axis(100, 3, stride, 1, dilation), 8) == expected


def test_the_border_is_not_read() -> None:
    axis = Axis(size=16, kernel=3, stride=1, padding=1, dilation=1)
    assert input_span(axis, Span(0, 8)) == Span(0, 9)
    assert input_span(axis, Span(8, 16)) == Span(7, 16)
    assert input_span(axis, Span(4, 8)) == Span(3, 9)
    assert input_span(Axis(2, 1, 1, 3, 1), Span(0, 1)) == Span(0, 1)  # nothing but padding


def test_a_layer_computes_each_output_once() -> None:
    (layer,) = Chain(2, 16, 32, 32).conv(16, 3, 1, 1).layers
    found = tiled([layer], 8)
    assert found == Tiling(macs=macs(layer), macs_untiled=macs(layer))


def test_a_patch_through_two_layers_computes_the_halo_of_the_second() -> None:
    layers = Chain(1, 4, 16, 16).conv(4, 3, 1, 1).act().conv(4, 3, 1, 1).layers
    found = tiled(layers, 8)
    one = macs(layers[0])
    assert found.macs == one + one * 18 * 18 // 256
    assert found.macs_untiled == 2 * one


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(StudyError, match=r"layer layer6: it cannot be computed in spatial tiles"):
        tiled(lenet5(1), 8)
    with pytest.raises(StudyError, match="there are no layers to tile"):
        tiled([], 8)


# ---------------------------------------------------------------------------------- properties


@st.composite
def stacks(draw: st.DrawFn) -> list[Layer]:
    """Convolutions and poolings one after another, with strides no larger than kernels."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *[draw(st.integers(8, 14))] * 2)
    net = Chain(*shape)
    for _ in range(draw(st.integers(1, 3))):
        kernel = draw(st.integers(1, 3))
        stride = draw(st.integers(1, kernel))
        if min(net.shape[2:]) < 2 * kernel:
            break
        if draw(st.booleans()):
            net.conv(draw(st.integers(1, 3)), kernel, stride, draw(st.integers(0, kernel // 2)))
        else:
            net.pool("max", kernel, stride, draw(st.integers(0, kernel // 2)))
        net.act()
    return net.layers or Chain(*shape).conv(1, 3).layers


@st.composite
def blocks(draw: st.DrawFn) -> list[Layer]:
    extent = draw(st.integers(5, 12))
    shape = (1, 2, extent, extent)
    first = plain_block(shape, "a", draw(st.sampled_from((0, 4))))
    return first + plain_block(first[-1].output_shape, "b")


layer_lists = st.one_of(stacks(), blocks())


@given(layer_lists, st.integers(1, 20))
def test_a_tile_as_large_as_the_map_costs_nothing(layers: list[Layer], more: int) -> None:
    whole = max(layers[-1].output_shape[2:])
    assert tiled(layers, whole + more - 1) == tiled(layers, None)
    found = tiled(layers, None)
    assert found.macs == found.macs_untiled


@given(layer_lists, st.integers(1, 15))
def test_tiles_only_add(layers: list[Layer], tile: int) -> None:
    found, whole = tiled(layers, tile), tiled(layers, None)
    assert found.macs >= found.macs_untiled
    assert found.macs_untiled == whole.macs <= forward_macs(layers)


@given(layer_lists, st.integers(1, 5), st.integers(2, 3))
def test_tiles_cut_further_cost_no_less(layers: list[Layer], tile: int, factor: int) -> None:
    fine, coarse = tiled(layers, tile), tiled(layers, tile * factor)
    assert fine.macs >= coarse.macs


@given(layer_lists, st.integers(1, 6))
def test_work_is_that_of_every_single_position(layers: list[Layer], tile: int) -> None:
    needed = [positions(layers, rows, columns) for rows, columns in squares(layers[-1], tile)]
    computed = sum(
        len(patch[number]) * (macs(layer) // (layer.output_shape[2] * layer.output_shape[3]))
        for patch in needed
        for number, layer in enumerate(layers)
    )
    found = tiled(layers, tile)
    assert found.macs == computed


def squares(layer: Layer, tile: int) -> list[tuple[range, range]]:
    height, width = layer.output_shape[2:]
    return [
        (range(y, min(y + tile, height)), range(x, min(x + tile, width)))
        for y, x in product(range(0, height, tile), range(0, width, tile))
    ]


def positions(layers: list[Layer], rows: range, columns: range) -> dict[int, set[tuple[int, int]]]:
    """The positions that a tile needs of every layer's output, found one by one."""
    needed: dict[int, set[tuple[int, int]]] = {len(layers) - 1: set(product(rows, columns))}
    for number in reversed(range(len(layers))):
        layer = layers[number]
        seen = {place for y, x in needed[number] for place in looked_at(layer, y, x)}
        for source in sources(layers)[number]:
            needed[source] = needed.get(source, set()) | seen
    return needed


def looked_at(layer: Layer, y: int, x: int) -> set[tuple[int, int]]:
    height, width = layer.input_shape[2:]
    if isinstance(layer, PaddedShortcut):
        return {(y * layer.stride[0], x * layer.stride[1])}
    if not isinstance(layer, Convolution | Pooling):
        return {(y, x)}
    top, left = (
        place * step - border
        for place, step, border in zip((y, x), layer.stride, layer.padding, strict=True)
    )
    window = product(range(top, top + layer.kernel[0]), range(left, left + layer.kernel[1]))
    return {(a, b) for a, b in window if 0 <= a < height and 0 <= b < width}


def test_names_in_a_slice_of_a_network_are_kept() -> None:
    """A stage cut out of a network is tiled as it is, whatever ran before it."""
    stem = named(Chain(1, 3, 16, 16).conv(4, 3, 1, 1).layers, "stem")
    stage = plain_block((1, 4, 16, 16), "a") + plain_block((1, 4, 16, 16), "b")
    assert tiled(stage, 8).macs < tiled(stem + stage, 8).macs
