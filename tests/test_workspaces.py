"""Workspaces of convolutions and other operators: typed peaks of AVX2, closed forms of AVX-512."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from report.records.layers import Convolution
from report.records.operations import Operator, Tensor
from report.theory.conditions import Conditions, Layout
from report.theory.convolution_workspaces import AVX2, PENDING
from report.theory.memory import input_bytes, output_bytes, parameter_bytes
from report.theory.workspaces import workspace
from tests.networks import Chain, mnist_conv2

LAYOUTS: tuple[Layout, ...] = ("contiguous", "channels_last")


def tensor(shape: tuple[int, ...], layout: Layout = "contiguous", dtype: str = "float32") -> Tensor:
    order = (1, 3, 2, 0) if layout == "channels_last" else tuple(reversed(range(len(shape))))
    strides, step = [0] * len(shape), 1
    for place in order:
        strides[place], step = step, step * shape[place]
    return Tensor(0, shape, tuple(strides), dtype)


def operator(name: str, reads: dict[str, Tensor], result: Tensor, **settings: Any) -> Operator:
    return Operator(
        name=f"{name}.default", module="", phase="forward", writes=(result,), settings=settings,
        reads={name: (each,) for name, each in reads.items()},
    )  # fmt: skip


def called(layer: Convolution, layout: Layout) -> Operator:
    """A convolution as PyTorch calls it."""
    weight = (layer.output_shape[1], layer.input_shape[1] // layer.groups, *layer.kernel)
    reads = {
        "input": tensor(layer.input_shape, layout, layer.dtype),
        "weight": tensor(weight, layout, layer.dtype),
    }
    if layer.bias:
        reads["bias"] = tensor(layer.output_shape[1:2], dtype=layer.dtype)
    return operator(
        "convolution", reads, tensor(layer.output_shape, layout, layer.dtype),
        stride=layer.stride, padding=layer.padding, dilation=layer.dilation, groups=layer.groups,
        transposed=layer.transposed,
    )  # fmt: skip


def taken(layer: Any, layout: Layout = "contiguous", **how: Any) -> dict[str, int] | None:
    """The terms of a workspace that are not 0; None where it is not all."""
    found = workspace(called(layer, layout), Conditions(**how))
    return {t.name: t.amount for t in found.terms if t.amount} if found.complete else None


#: Peaks (B) of one float32 convolution on an AMD EPYC 7xx3 with AVX2 (family 25, model 1), PyTorch
#: 2.13.0+cpu, one thread, by the allocator's events; and whether a rule gives all of it.  Input,
#: then output channels, kernel, stride and padding.
ON_AVX2: tuple[tuple[Layout, tuple[int, ...], tuple[int, ...], int, bool], ...] = (
    ("contiguous", (1, 3, 96, 96), (64, 11, 4, 2), 618_112, False),  # strides over its padding
    ("contiguous", (8, 3, 96, 96), (64, 11, 4, 2), 3_144_704, True),
    ("contiguous", (1, 16, 24, 24), (24, 11, 1, 5), 557_024, False),  # more padding than a row
    ("contiguous", (8, 48, 20, 20), (96, 13, 1, 6), 6_187_392, False),
    ("contiguous", (1, 64, 24, 24), (64, 11, 1, 0), 4_310_272, True),
    ("channels_last", (8, 64, 28, 28), (40, 3, 1, 1), 2_820_280, False),  # blocks of 8, or of 24
    ("channels_last", (1, 512, 7, 7), (512, 3, 1, 1), 19_380_248, False),
    ("channels_last", (1, 512, 7, 7), (96, 3, 1, 1), 3_666_712, True),
    ("channels_last", (8, 32, 28, 28), (12, 3, 1, 1), 1_144_392, True),
    ("channels_last", (2, 6, 36, 36), (16, 16, 4, 3), 281_568, False),  # 256 taps
    ("channels_last", (8, 3, 96, 96), (64, 11, 4, 2), 2_166_536, False),
)


@pytest.mark.parametrize(("layout", "shape", "geometry", "measured", "complete"), ON_AVX2)
def test_peaks_on_avx2_are_met_or_at_least(
    layout: Layout,
    shape: tuple[int, ...],
    geometry: tuple[int, ...],
    measured: int,
    complete: bool,
) -> None:
    (layer,) = Chain(*shape).conv(*geometry).layers
    found = workspace(called(layer, layout), Conditions(block=AVX2))  # type: ignore[arg-type]
    peak = parameter_bytes(layer) + input_bytes(layer) + output_bytes(layer) + found.amount
    assert found.complete == complete
    assert peak == measured if complete else peak <= measured


def test_the_layer_of_the_first_study_on_avx512() -> None:
    """32 channels in, 64 out, 3 × 3, on maps of 26 × 26; as its events were."""
    assert taken(mnist_conv2(64), threads=2) == {"Blocked output": 9_437_184}
    assert taken(mnist_conv2(64), "channels_last", threads=2) == {
        "Weight reorder": 73_728, "Workspace, batch descriptors": 12_336,
    }  # fmt: skip
    single = taken(mnist_conv2(1))
    assert single is not None and single[PENDING] == -147_456
    assert sum(single.values()) == 73_984 + 86_528 + 307_712 - (73_984 + 86_528 + 147_456)


def test_a_small_single_image_is_unfolded() -> None:
    (layer,) = Chain(1, 16, 32, 32).conv(16, 3, 1, 1, bias=False).layers
    assert taken(layer) == {"Unfolded input": 16 * 9 * 32 * 32 * 4}


def test_tensors_in_another_layout_are_copied() -> None:
    layer = mnist_conv2(64)
    mixed = called(layer, "channels_last")
    mixed.reads["input"] = called(layer, "contiguous").reads["input"]
    found = workspace(mixed, Conditions(threads=2))
    assert found.amount == 73_728 + 12_336 + input_bytes(layer)


def test_what_is_not_known_is_said() -> None:
    depthwise = Chain(2, 32, 8, 8).conv(32, 3, 1, 1, groups=32).layers[0]
    pointwise = Chain(2, 32, 8, 8).conv(32, 1).layers[0]
    double = msgspec.structs.replace(mnist_conv2(2), dtype="float64")
    wide = Chain(2, 16, 20, 20).conv(16, 11, 1, 5).layers[0]
    for layer in (depthwise, pointwise, double, wide):
        assert taken(layer) is None
    one_channel = Chain(2, 1, 8, 8).conv(32, 3).layers[0]
    blocks_of_any_size = Chain(2, 16, 8, 8).conv(96, 3).layers[0]
    for layer in (one_channel, blocks_of_any_size):
        assert taken(layer) is not None
        assert taken(layer, "channels_last") is None


def test_reduced_precision_takes_at_least_what_its_rule_gives() -> None:
    half = msgspec.structs.replace(mnist_conv2(64), dtype="bfloat16")
    found, tiled = (workspace(called(half, "contiguous"), Conditions(tiles=t)) for t in (0, 1))  # type: ignore[arg-type]
    assert (found.amount, found.complete) == (9_437_184 // 2, False)
    assert (tiled.amount, tiled.complete) == (0, False)
    maps, means = tensor((2, 8, 6, 6), dtype="bfloat16"), tensor((2, 8, 1, 1), dtype="bfloat16")
    mean = workspace(operator("mean", {"self": maps}, means, dim=(-1, -2)), Conditions())
    assert (mean.amount, mean.complete) == ((2 * 8 * 36 + 2 * 8) * 4, False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_norm_takes_a_factor_and_a_summand_a_channel(layout: Layout) -> None:
    maps = tensor((2, 8, 6, 6), layout)
    norm = operator("native_batch_norm", {"input": maps}, maps, training=False)
    assert workspace(norm, Conditions()).amount == 2 * 8 * 4
