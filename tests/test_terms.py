"""Terms against brute force, published counts and the events of real calls."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.errors import StudyError
from report.records.layers import Convolution
from report.theory.allocator import Allocate, EmptyCache, Snapshot, replay
from report.theory.reconciliation import Reconciliation, Term
from report.theory.terms import (
    Tile,
    allocator_rounding,
    bias_workspace,
    blocked_output,
    descriptor_workspace,
    padded_channels,
    segment_granularity,
    skipped_padding,
    theory_macs,
    theory_output,
    tile_padding,
    weight_reorder,
)
from tests.networks import convolution

BATCHES = (16, 32, 64, 128, 256)


# ------------------------------------------------------------------------------------------ work

#: Table III of the first source study: operations counted on a V100.
COUNTED = {
    16: 340_918_272,
    32: 681_836_544,
    64: 1_363_673_088,
    128: 2_727_346_176,
    256: 5_454_692_352,
}


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
    positions = itertools.product(*(range(e) for e in layer.output_shape[2:]))
    taps = 0
    for place in positions:
        for tap in itertools.product(*map(range, layer.kernel)):
            at = [
                p * s - pad + t * d
                for p, s, pad, t, d in zip(
                    place, layer.stride, layer.padding, tap, layer.dilation, strict=True
                )
            ]
            taps += all(0 <= a < e for a, e in zip(at, layer.input_shape[2:], strict=True))
    return layer.input_shape[0] * taps * channels * layer.input_shape[1]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 2),
    st.tuples(st.integers(1, 4), st.integers(1, 20)),
    st.integers(3, 7),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from([4, 8, 16]),
)
def test_padding_terms_lead_from_theory_to_what_is_executed(
    batch: int,
    channels: tuple[int, int],
    extent: int,
    kernel: int,
    stride: int,
    padding: int,
    width: int,
) -> None:
    layer = convolution(
        (batch, channels[0], extent, extent),
        channels[1],
        (kernel, kernel),
        stride=(stride, stride),
        padding=(padding, padding),
    )
    terms = (theory_macs(layer), skipped_padding(layer, ""), padded_channels(layer, width, ""))
    assert sum(t.amount for t in terms) == executed(layer, width)


@pytest.mark.parametrize(
    ("layer", "ratio"),
    [
        # Executed over theoretical multiply-adds as counted on a CPU by valgrind's lackey.
        (convolution((1, 32, 26, 26), 64, (3, 3)), 1.0),
        (convolution((1, 32, 26, 26), 64, (3, 3), padding=(1, 1)), 0.9494),
        (convolution((1, 32, 28, 28), 32, (3, 3), padding=(1, 1), groups=32), 0.9530),
        (convolution((1, 32, 26, 26), 33, (3, 3)), 1.2121),
    ],
)
def test_executed_work_that_was_counted(layer: Convolution, ratio: float) -> None:
    terms = (theory_macs(layer), skipped_padding(layer, ""), padded_channels(layer, 8, ""))
    assert sum(t.amount for t in terms) / terms[0].amount == pytest.approx(ratio, abs=5e-4)


# ------------------------------------------------------------------------------------- CPU memory


@given(st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.sampled_from([8, 16]))
def test_blocks_hold_the_channels_and_less_than_a_block_more(
    batch: int, channels_in: int, channels_out: int, block: int
) -> None:
    layer = convolution((batch, channels_in, 6, 6), channels_out, (3, 3))
    plain = theory_output(layer).amount
    copy = blocked_output(layer, block, "").amount
    assert plain <= copy < plain + block * plain // channels_out
    assert copy % (block * 4) == 0
    whole = channels_out % block == 0
    assert (copy == plain) == whole == (bias_workspace(layer, block, "").amount == 0)
    both = weight_reorder(layer, block, "", in_block=block).amount
    assert both >= weight_reorder(layer, block, "").amount >= 9 * channels_in * channels_out * 4


@pytest.mark.parametrize(
    ("kernel", "threads", "size"),
    # Read from the memory events of PyTorch 2.13 with oneDNN 3.12 on AVX2.
    [(3, 1, 8216), (3, 2, 12_336), (5, 1, 8216), (11, 1, 12_296), (11, 2, 20_496)],
)
def test_room_for_batch_descriptors(kernel: int, threads: int, size: int) -> None:
    layer = convolution((4, 32, 26, 26), 64, (kernel, kernel))
    assert descriptor_workspace(layer, threads, "").amount == size


# ------------------------------------------------------------------------------------ CUDA memory


def reserved(before: Snapshot, after: Snapshot, measured: int) -> Reconciliation:
    start = Term("Requested", after.requested - before.requested, "", "")
    terms = (allocator_rounding(before, after, ""), *segment_granularity(before, after, ""))
    return Reconciliation("r", "reserved", "B", start, terms, Term("Reserved", measured, "", ""))


_SIZES = st.lists(st.integers(0, 30 * 2**20), max_size=8)


@settings(max_examples=60, deadline=None)
@given(_SIZES, _SIZES)
def test_rounding_and_segments_lead_from_requested_to_reserved(
    first: list[int], second: list[int]
) -> None:
    before = replay([Allocate(f"a{i}", size) for i, size in enumerate(first)]).last
    after = replay([Allocate(f"b{i}", size) for i, size in enumerate(second)], before).last
    this = reserved(before, after, after.reserved - before.reserved)
    assert this.residual == 0
    rounding, served, granularity = (t.amount for t in this.terms)
    assert rounding >= 0 >= served
    assert granularity >= 0


def test_segments_given_back_cannot_be_reconciled() -> None:
    before = replay([Allocate("a", 0), Allocate("b", 5)]).last
    after = Snapshot()
    with pytest.raises(StudyError, match="a segment was given back"):
        segment_granularity(before, after, "")
    assert replay([EmptyCache()], before).last == before
