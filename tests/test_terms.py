"""Terms against brute force, published counts and the events of real calls."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.records.layers import Convolution
from report.theory.allocator import Allocate, replay
from report.theory.reconciliation import Term
from report.theory.terms import (
    Tile,
    allocator_rounding,
    as_flops,
    bias_kernel,
    for_each_output,
    padded_channels,
    segment_granularity,
    skipped_padding,
    theory_macs,
    theory_output,
    tile_epilogue,
    tile_padding,
)
from tests.networks import Chain, convolution


@pytest.mark.parametrize(
    ("term", "amount"),
    [
        # 2 images, 3 channels in, 4 out, 3 × 3, on maps of 5 × 5 that become 3 × 3.
        (theory_macs(convolution((2, 3, 5, 5), 4, (3, 3))), 2 * 9 * 4 * 27),
        (as_flops(theory_macs(convolution((2, 3, 5, 5), 4, (3, 3)))), 2 * 2 * 9 * 4 * 27),
        (as_flops(theory_macs(Chain(2, 5).linear(3).layers[0])), 2 * 30),
        (for_each_output("scaling", convolution((2, 3, 5, 5), 4, (3, 3))), 72),
        (for_each_output("additions", convolution((2, 3, 5, 5), 4, (3, 3))), 72),
        (bias_kernel(convolution((2, 3, 5, 5), 4, (3, 3)), ""), 144),
        (bias_kernel(convolution((2, 3, 5, 5), 4, (3, 3), bias=False), ""), 0),
        (theory_output(convolution((2, 3, 5, 5), 4, (3, 3))), 288),
        # 18 positions, 4 channels and 27 taps on tiles of 16, 8 and 32; two groups of 2 and 27.
        (tile_padding(convolution((2, 3, 5, 5), 4, (3, 3)), (16, 8, 32), ""), 32 * 8 * 32 - 1944),
        (tile_epilogue(convolution((2, 3, 5, 5), 4, (3, 3)), (16, 8, 32), ""), 2 * 32 * 8),
        (tile_epilogue(convolution((2, 6, 5, 5), 4, (3, 3), groups=2), (9, 2, 1), ""), 2 * 72),
        (tile_padding(convolution((2, 6, 5, 5), 4, (3, 3), groups=2), (9, 2, 28), ""), 2 * 36),
        # A group's channels are filled up by themselves, those of depthwise ones together.
        (padded_channels(convolution((1, 4, 3, 3), 6, (3, 3), groups=2), 8, ""), 5 * 18 * 6 // 3),
        (padded_channels(convolution((1, 6, 3, 3), 6, (3, 3), groups=6), 8, ""), 2 * 9),
    ],
)
def test_amounts(term: Term, amount: int) -> None:
    assert term.amount == amount


@given(st.integers(1, 40), st.integers(1, 300), st.tuples(*[st.integers(1, 256)] * 3))
def test_tiles_are_filled_up_and_never_more(batch: int, channels: int, tile: Tile) -> None:
    layer = convolution((batch, 3, 9, 9), channels, (3, 3))
    sides = (batch * 49, channels, 27)
    added = tile_padding(layer, tile, "").amount
    assert 0 <= added < math.prod(s + t for s, t in zip(sides, tile, strict=True))
    assert (added == 0) == all(s % t == 0 for s, t in zip(sides, tile, strict=True))
    assert (added + math.prod(sides)) % math.prod(tile) == 0


def executed(layer: Convolution, width: int) -> int:
    """Multiply-adds that touch data, by walking over everything; channels filled up to vectors."""
    channels = math.ceil(layer.output_shape[1] / width) * width
    (stride, _), (padding, _) = layer.stride, layer.padding
    reached = [
        place * stride - padding + tap
        for place in range(layer.output_shape[2])
        for tap in range(layer.kernel[0])
    ]
    inside = sum(0 <= each < layer.input_shape[2] for each in reached)
    return layer.input_shape[0] * inside**2 * channels * layer.input_shape[1]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_padding_terms_lead_from_theory_to_what_is_executed(data: st.DataObject) -> None:
    batch, inputs, outputs, extent, kernel, stride, padding = (
        data.draw(st.integers(low, high))
        for low, high in ((1, 2), (1, 4), (1, 20), (3, 7), (1, 3), (1, 2), (0, 2))
    )
    width = data.draw(st.sampled_from([4, 8, 16]))
    window = {"stride": (stride, stride), "padding": (padding, padding)}
    layer = convolution((batch, inputs, extent, extent), outputs, (kernel, kernel), **window)  # type: ignore[arg-type]
    terms = (theory_macs(layer), skipped_padding(layer, ""), padded_channels(layer, width, ""))
    assert sum(t.amount for t in terms) == executed(layer, width)


_SIZES = st.lists(st.integers(0, 30 * 2**20), max_size=8)


@settings(max_examples=60, deadline=None)
@given(_SIZES, _SIZES)
def test_rounding_and_segments_lead_from_requested_to_reserved(
    first: list[int], second: list[int]
) -> None:
    before = replay([Allocate(f"a{i}", size) for i, size in enumerate(first)])[-1]
    after = replay([Allocate(f"b{i}", size) for i, size in enumerate(second)], before)[-1]
    terms = (allocator_rounding(before, after, ""), *segment_granularity(before, after, ""))
    rounding, served, granularity = (term.amount for term in terms)
    assert sum(second) + rounding + served + granularity == after.reserved - before.reserved
    assert rounding >= 0 >= served and granularity >= 0
