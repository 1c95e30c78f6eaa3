"""What a GPU executes: the published counters of AlexNet against numbers worked out by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.evidence.gpu_layers import CountedLayer, Forward, calls_of, forward_calls
from report.instruments.trace import CountedKernel, Trace, read_trace
from report.missing import Missing
from report.theory.architectures import alexnet_products
from report.theory.gpu_kernels import Kernels, counter_terms, frequency_points, padded_depth

IMPORTED = Path(__file__).parents[1] / "data" / "conv_profiling" / "imported"
BATCH = 128
OUTPUTS = BATCH * 64 * 55 * 55
#: By hand: the layers' multiply-adds, and what the counters saw of fused ones in the product.
MACS = {
    "conv1": BATCH * 64 * 363 * 3025, "conv2": BATCH * 192 * 729 * 1600,
    "conv3": BATCH * 384 * 169 * 1728, "conv4": BATCH * 256 * 169 * 3456,
    "conv5": BATCH * 256 * 169 * 2304, "fc1": BATCH * 9216 * 4096, "fc2": BATCH * 4096 * 4096,
    "fc3": BATCH * 4096 * 1000,
}  # fmt: skip
FUSED = {
    "conv1": BATCH * 64 * 368 * 3025,
    "conv2": 3 * 544 * BATCH * 64 * 192 + 2 * 544 * BATCH * 192,
    "conv3": 0, "conv4": 0, "conv5": 0,
    "fc1": BATCH * 9216 * 4096, "fc2": BATCH * 4096 * 4096,
    "fc3": BATCH * 1024 * (6 * 704 + 5),
}  # fmt: skip
#: Operations that no term explains: less of the transforms than the usual count, and one or two
#: additions an output of the kernels for tensor cores.
LEFT = {"conv2": -209_068_032, "conv4": 2 * BATCH * 256 * 169, "conv5": BATCH * 256 * 169}


@cache
def traces() -> tuple[Trace, Trace]:
    """The trace with counters, and the one with times."""
    found = [read_trace(p.read_bytes(), p.name) for p in sorted(IMPORTED.glob("*/*_trace.json.gz"))]
    counted, timed = sorted(found, key=lambda trace: not trace.counted)
    return counted, timed


@cache
def layers() -> dict[str, CountedLayer]:
    found = forward_calls(*traces(), alexnet_products(BATCH))
    assert isinstance(found, Forward)
    return {each.layer.name: each for each in found.layers}


def product(each: CountedLayer) -> CountedKernel:
    return max(each.counted, key=lambda kernel: ("gemm" in kernel.name, kernel.multiply_adds))


def test_the_traces_are_whole() -> None:
    counted, timed = traces()
    assert (len(counted.counted), len(counted.kernels)) == (77, 0)
    assert (len(timed.counted), sum(k.grid is not None for k in timed.kernels)) == (0, 79)
    assert {device.name for trace in traces() for device in trace.devices} == {
        "NVIDIA A100-PG509-200"
    }


@pytest.mark.parametrize("name", MACS)
def test_counts_are_those_worked_out_by_hand(name: str) -> None:
    each = layers()[name]
    assert product(each).multiply_adds == FUSED[name]
    told = each.reconciliation("x", "x")
    assert told.start.amount == 2 * MACS[name]
    assert told.residual == LEFT.get(name, 0)


def test_the_first_convolution_took_as_long_as_a_reader_finds() -> None:
    """Its product alone, in both calls (ns)."""
    own = [k for k in traces()[1].kernels if k.grid == (3025, 1, 1) and "scudnn" in k.name]
    assert sorted(kernel.end - kernel.start for kernel in own) == [1_034_000, 1_035_000]


def test_a_first_call_with_an_unnamed_kernel_counts_the_same() -> None:
    first, second = calls_of(traces()[0].counted, len(MACS))
    assert first.layers[0][0].name == "__missing__"
    assert first.layers[0][0].multiply_adds == second.layers[0][0].multiply_adds == FUSED["conv1"]
    assert first.layers[0][0].multiplications == OUTPUTS


def test_calls_without_all_layers_are_missing_and_not_guessed() -> None:
    counted, timed = traces()
    assert isinstance(forward_calls(timed, counted, alexnet_products(BATCH)), Missing)
    assert isinstance(forward_calls(counted, timed, alexnet_products(BATCH) * 3), Missing)


@given(st.integers(1, 10_000), st.integers(1, 8), st.integers(1, 4))
def test_padding_adds_less_than_a_step_a_part(inner: int, splits: int, slices: int) -> None:
    padded = padded_depth(inner, splits, slices)
    assert inner <= padded < inner + splits * (8 * slices + 1)
    assert padded % (8 * slices * splits) == 0


@given(st.integers(1, 64).map(lambda half: 2 * half))
def test_frequency_points_and_their_conjugates_fill_the_plane(extent: int) -> None:
    own = extent * 2 + (frequency_points(extent) - extent * 2) * 2
    assert own == extent**2


@pytest.mark.parametrize("names", [(), ("unknown_kernel",)])
def test_kernels_of_unknown_names_have_no_terms(names: tuple[str, ...]) -> None:
    for layer in alexnet_products(2):
        assert not any(term.amount for term in counter_terms(layer, Kernels(names)))
