"""The events of PyTorch's CPU allocator, as the profiler recorded them, read by their names.

Recorded with PyTorch 2.13 and oneDNN 3.12 on a processor with AVX2; each is the second call.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.evidence import events as evidence
from report.evidence.events import UNEXPLAINED, Explanation, NamedEvent
from report.missing import Missing
from report.records.layers import Convolution
from report.theory.reconciliation import Term
from tests.networks import convolution, mnist_conv2

BIAS, DESCRIPTORS = "Workspace, padded bias", "Workspace, batch descriptors"
INPUT, WEIGHTS = "Input reorder", "Weight reorder"
BLOCKED, OUTPUT = "Blocked output", "Output"
NCHW = [INPUT, WEIGHTS, BLOCKED, OUTPUT]
CHANNELS_LAST = [OUTPUT, DESCRIPTORS, WEIGHTS]


def explain_events(
    layer: Convolution, events: list[int], *, block: int, threads: int, peak: int | None = None
) -> Explanation:
    """The events beside ``peak``, or beside their own highest sum."""
    measured = Term("Peak", max(accumulate(events), default=0) if peak is None else peak, "", "")
    return evidence.explain_events(layer, events, block=block, threads=threads, measured=measured)


def unexplained(found: Explanation) -> list[NamedEvent]:
    return [event for event in found.events if event.name == UNEXPLAINED]


def nchw(batch: int) -> list[int]:
    """The layer of the first study in the plain layout, at any batch size from 1 to 1,024."""
    image, result = 86_528 * batch, 147_456 * batch
    return [image, 73_728, result, -73_728, -image, result, -result]


def channels_last(batch: int, threads: int) -> list[int]:
    workspace = {1: 8216, 2: 12_336}[threads]
    return [147_456 * batch, workspace, 73_728, -73_728, -workspace]


RECORDED: list[tuple[tuple[int, int, int, int], int, int, dict[str, Any], int, list[int], Any]] = [
    ((64, 32, 26, 26), 64, 3, {"bias": False}, 2, nchw(64), NCHW),
    ((64, 32, 26, 26), 64, 3, {}, 1, channels_last(64, 1), CHANNELS_LAST),
    ((1, 32, 26, 26), 64, 3, {"bias": False}, 2, channels_last(1, 2), CHANNELS_LAST),
    # Padding 1.
    ((64, 32, 26, 26), 64, 3, {"padding": (1, 1)}, 1,
     [5_537_792, 73_728, 11_075_584, -73_728, -5_537_792, 11_075_584, -11_075_584], NCHW),
    # 33 channels are filled up to 40 in blocks of 8, to 48 in the channels-last weights; 31 to 32.
    ((2, 31, 26, 26), 33, 3, {}, 2,
     [288, 173_056, 46_080, 184_320, -46_080, -173_056, -288, 152_064, -184_320], [BIAS, *NCHW]),
    ((4, 31, 26, 26), 33, 3, {}, 1, [304_128, 8216, 53_568, -53_568, -8216], CHANNELS_LAST),
    # Few input channels stay as they are.
    ((4, 7, 26, 26), 9, 3, {}, 1, [192, 4032, 147_456, -4032, -192, 82_944, -147_456],
     [BIAS, WEIGHTS, BLOCKED, OUTPUT]),
    ((2, 3, 64, 64), 64, 7, {"stride": (2, 2), "padding": (3, 3)}, 1,
     [37_632, 524_288, -37_632, 524_288, -524_288], [WEIGHTS, BLOCKED, OUTPUT]),
    # Depthwise: input and output are of one size, and all copies are named by their order.
    ((2, 32, 28, 28), 32, 3, {"padding": (1, 1), "groups": 32}, 1,
     [200_704, 1152, 200_704, -1152, -200_704, 200_704, -200_704], NCHW),
    # A kernel of 11 × 11 needs a second page of descriptors.
    ((4, 32, 26, 26), 64, 11, {}, 2, [262_144, 20_496, 1_115_136, -1_115_136, -20_496],
     CHANNELS_LAST),
    ((2, 32, 28, 28), 64, 1, {}, 1, [401_408], [OUTPUT]),
    # More input than output: the peak comes before the plain output exists.
    ((4, 32, 26, 26), 8, 3, {}, 1, [346_112, 9216, 73_728, -9216, -346_112, 73_728, -73_728], NCHW),
]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "channels", "kernel", "more", "threads", "events", "expected"), RECORDED
)
def test_every_recorded_event_has_a_name(
    shape: tuple[int, int, int, int],
    channels: int,
    kernel: int,
    more: dict[str, Any],
    threads: int,
    events: list[int],
    expected: list[str],
) -> None:
    layer = convolution(shape, channels, (kernel, kernel), **more)
    found = explain_events(layer, events, block=8, threads=threads)
    assert [e.name for e in found.events if e.change > 0] == expected
    assert not unexplained(found)
    assert found.peak.explained


def test_what_matches_no_shape_is_unexplained_and_stays_in_the_residual() -> None:
    events = [147_456, 5000, 73_728, -73_728, -5000]
    found = explain_events(mnist_conv2(1), events, block=8, threads=1)
    assert [(e.number, e.change) for e in unexplained(found)] == [(2, 5000), (5, -5000)]
    assert found.peak.residual == 5000
    assert found.peak.residual_name == "Residual, unexplained"
    assert [t.name for t in found.peak.terms] == [WEIGHTS, "Output not yet allocated"]


@pytest.mark.parametrize(
    ("events", "measured", "residual"),
    [
        ([147_456, -999], None, 0),  # a block from before the call may be freed in it
        ([147_456, 147_456], None, 147_456),  # a second block of a known size has no name
        (nchw(1), 300_000, 300_000 - 307_712),  # input, weights and blocked output, no output yet
    ],
)
def test_what_the_names_leave_open_is_the_residual(
    events: list[int], measured: int | None, residual: int
) -> None:
    found = explain_events(mnist_conv2(1), events, block=8, threads=2, peak=measured)
    assert found.peak.residual == residual


@given(st.lists(st.integers(-10, 10).filter(bool).map(lambda n: n * 73_728), max_size=12))
def test_any_list_of_events_is_read_and_the_arithmetic_holds(events: list[int]) -> None:
    found = explain_events(mnist_conv2(1), events, block=8, threads=1)
    assert [e.change for e in found.events] == events
    assert [e.live for e in found.events] == list(accumulate(events))
    unnamed = not any(e.name == OUTPUT for e in found.events)
    if events and not isinstance(found.peak.residual, Missing):
        assert found.peak.end + found.peak.residual == max(accumulate(events))
        if not unnamed and not unexplained(found):
            assert found.peak.explained
