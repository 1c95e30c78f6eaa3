"""Workspaces (temporary storage) of operators, compared with peaks and closed forms.

A prediction is complete if the rules cover everything that the library allocates.
"""

from typing import Any

import msgspec
import pytest

from report.core.records.layers import Convolution
from report.core.records.operations import Operator, Tensor
from report.studies.conv_profiling.subject import Dimensions
from report.theory.conditions import Conditions, Layout
from report.theory.convolution_workspaces import AVX2_BLOCK
from report.theory.terms import executed_terms
from report.theory.work import input_bytes, mnist_conv2, output_bytes, parameter_bytes
from report.theory.workspaces import workspace
from tests import networks
from tests.networks import Chain, operator


def tensor(shape: tuple[int, ...], layout: Layout = "contiguous", dtype: str = "float32") -> Tensor:
    return networks.tensor(0, *shape, dtype=dtype, last=layout == "channels_last")


def call_of(layer: Convolution, layout: Layout) -> Operator:
    """Return the call of PyTorch's convolution for a layer, with all tensors in one layout."""
    weight = (layer.output_shape[1], layer.input_shape[1] // layer.groups, *layer.kernel)
    reads = {
        "input": tensor(layer.input_shape, layout, layer.dtype),
        "weight": tensor(weight, layout, layer.dtype),
    }
    if layer.bias:
        reads["bias"] = tensor(layer.output_shape[1:2], dtype=layer.dtype)
    names = ("stride", "padding", "dilation", "groups", "transposed")
    settings = {name: getattr(layer, name) for name in names}
    result = tensor(layer.output_shape, layout, layer.dtype)
    return operator("convolution", reads, result, settings=settings)


# Layout, input shape, and (output channels, kernel, stride, padding) of a float32 convolution; the
# measured peak (B); and True if the rules predict the peak exactly.  The peaks are from the
# allocator's events on an AMD EPYC 7xx3 with AVX2 (family 25, model 1), PyTorch 2.13.0+cpu, one
# thread.
@pytest.mark.parametrize(("layout", "shape", "geometry", "measured", "exact"), [
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
])  # fmt: skip
def test_predicted_peaks_on_avx2(
    layout: Layout, shape: tuple[int, ...], geometry: tuple[int, ...], measured: int, exact: bool
) -> None:
    """Inexact predictions are lower bounds."""
    layer = Chain(*shape).conv(*geometry).only
    predicted = workspace(call_of(layer, layout), Conditions(channels_per_block=AVX2_BLOCK))
    peak = parameter_bytes(layer) + input_bytes(layer) + output_bytes(layer) + predicted.amount
    assert predicted.complete == exact
    assert peak == measured if exact else peak <= measured


def test_an_input_in_another_layout_than_the_weights_is_copied() -> None:
    layer = mnist_conv2(64)
    mixed = call_of(layer, "channels_last")
    mixed.reads["input"] = call_of(layer, "contiguous").reads["input"]
    predicted = workspace(mixed, Conditions(threads=2))
    # Without the copy: the reordered weights and a scratchpad, as the table below has it.
    assert predicted.amount == 73_728 + 12_336 + input_bytes(layer)


CONTIGUOUS, LAST = "contiguous", "channels_last"
#: Channels in blocks of 16 (AVX-512) or 8 (AVX2) on one thread, and blocks of 16 on two threads.
BY_16, BY_8, TWO_THREADS = Conditions(), Conditions(channels_per_block=8), Conditions(threads=2)


# Conditions, layer, layout, and the workspace (B); None if no rule covers the call.
@pytest.mark.parametrize(("conditions", "layer", "layout", "amount"), [
    # The layer of conv_scaling, from its recorded events.
    (TWO_THREADS, mnist_conv2(64), CONTIGUOUS, 9_437_184),
    (TWO_THREADS, mnist_conv2(64), LAST, 73_728 + 12_336),
    (BY_16, mnist_conv2(1), CONTIGUOUS, 307_712 - 147_456),
    # A small single image is unfolded.
    (BY_16, Chain(1, 16, 32, 32).conv(16, 3, 1, 1, bias=False).only, CONTIGUOUS, 147_456 * 4),
    # No rule covers groups, kernels of one element, float64 and large padding.
    (BY_16, Chain(2, 32, 8, 8).conv(32, 3, 1, 1, groups=32).only, CONTIGUOUS, None),
    (BY_16, Chain(2, 32, 8, 8).conv(32, 1).only, CONTIGUOUS, None),
    (BY_16, msgspec.structs.replace(mnist_conv2(2), dtype="float64"), CONTIGUOUS, None),
    (BY_16, Chain(2, 16, 20, 20).conv(16, 11, 1, 5).only, CONTIGUOUS, None),
    # A single channel, and channels in blocks of 16, 32 or 48.
    (BY_16, Chain(2, 1, 8, 8).conv(32, 3).only, CONTIGUOUS, 2 * 32 * 36 * 4),
    (BY_16, Chain(2, 1, 8, 8).conv(32, 3).only, LAST, None),
    (BY_16, Chain(2, 16, 8, 8).conv(96, 3).only, LAST, None),
    # The kernel computes three positions of a row at once; more padding selects another kernel.
    (BY_16, Chain(2, 16, 9, 9).conv(16, 12, 1, 2).only, CONTIGUOUS, 2 * 16 * (81 + 144 * 8) * 4),
    (BY_16, Chain(2, 16, 9, 9).conv(16, 14, 1, 3).only, CONTIGUOUS, None),
    # Large maps use at most two vectors of output channels, others at most four; 32 channels are
    # padded to three vectors.
    (BY_8, Chain(2, 16, 152, 152).conv(32, 3).only, LAST, 32 * 144 * 4 + 8216),
    (BY_8, Chain(2, 16, 152, 151).conv(32, 3).only, LAST, None),
    (BY_8, Chain(2, 16, 152, 152).conv(16, 3).only, LAST, 9 * 256 * 4 + 8216),
    (BY_8, Chain(2, 16, 20, 20).conv(16, 3, groups=2).only, LAST, 8 * 144 * 4 + 8216),
    # Weights of depthwise kernels are stored in blocks of eight channels.
    (BY_8, Chain(2, 12, 9, 9).conv(12, 3, 1, 1, groups=12).only, LAST, 9 * 16 * 4),
    # With stride 2, each thread copies the elements that a kernel of one element reads.
    (BY_8, Chain(2, 8, 8, 8).conv(8, 1, 2, bias=False).only, CONTIGUOUS,
     2 * 8 * 64 * 4 + 64 * 4 + (8 * 16 * 4 + 128)),
    (BY_8, Chain(16, 8, 8, 8).conv(8, 1).only, CONTIGUOUS, 16 * 8 * 64 * 4 + 64 * 4),
    (BY_8, Chain(1, 8, 8, 8).conv(8, 1).only, CONTIGUOUS, 0),
    (BY_8, Chain(1, 20, 32, 32).conv(8, 3).only, CONTIGUOUS, 20 * 9 * 900 * 4),
    (BY_8, Chain(1, 20, 32, 33).conv(8, 3).only, CONTIGUOUS,
     24 * 32 * 33 * 4 + 8 * 24 * 9 * 4),
])  # fmt: skip
def test_workspaces_of_convolutions(
    conditions: Conditions, layer: Convolution, layout: Layout, amount: int | None
) -> None:
    predicted = workspace(call_of(layer, layout), conditions)
    assert (predicted.amount if predicted.complete else None) == amount


def test_workspaces_in_reduced_precision_are_lower_bounds() -> None:
    """CPUs with matrix tiles use another library kernel."""
    half = call_of(msgspec.structs.replace(mnist_conv2(64), dtype="bfloat16"), "contiguous")
    for tiles, amount in ((False, 9_437_184 // 2), (True, 0)):
        predicted = workspace(half, Conditions(has_tiles=tiles))
        assert (predicted.amount, predicted.complete) == (amount, False)


MAPS, TRANSPOSED = tensor((2, 8, 6, 6)), Tensor(0, (60, 60), (1, 60), "float32")
HALF = tensor((2, 8, 6, 6), dtype="bfloat16")


# Operator, arguments, result and settings, and the workspace on one thread (B); None if no rule
# covers the call.  ``test_predicted_peaks`` measures further operators.
@pytest.mark.parametrize(("name", "reads", "result", "settings", "amount"), [
    ("native_batch_norm", {"input": MAPS}, MAPS, {"training": False}, 2 * 8 * 4),
    ("native_batch_norm", {"input": MAPS, "running_mean": MAPS}, MAPS, {"training": True}, None),
    ("mean", {"self": MAPS}, tensor(()), {}, None),
    ("clone", {"self": TRANSPOSED}, tensor((60, 60)), {}, 60 * 60 * 4),
    ("clone", {"self": Tensor(0, (60, 59), (1, 60), "float32")}, tensor((60, 59)), {}, 0),
    ("add", {"self": MAPS}, MAPS, {}, 12),
    ("add_", {"self": MAPS}, MAPS, {}, None),
    ("pow", {"self": MAPS}, MAPS, {}, None),
    ("roll", {"self": MAPS}, MAPS, {"dims": (1, 2, 3)}, None),
    ("native_group_norm", {"input": tensor((2, 8, 6, 6), "channels_last")}, MAPS, {}, None),
    ("avg_pool2d", {"self": tensor((2, 8, 6, 6), "channels_last")}, MAPS, {}, 0),
    ("mm", {"self": Tensor(0, (9, 5), (10, 2), "float32"), "mat2": tensor((5, 4))},
     tensor((9, 4)), {}, 9 * 5 * 4),
    # With 400 products per matrix or more, one matrix is copied; no rule covers smaller matrices.
    ("bmm", {"self": Tensor(0, (3, 10, 10), (200, 20, 2), "float32"), "mat2": tensor((3, 10, 4))},
     tensor((3, 10, 4)), {}, 10 * 10 * 4),
    ("bmm", {"self": Tensor(0, (3, 10, 10), (200, 20, 2), "float32"), "mat2": tensor((3, 10, 3))},
     tensor((3, 10, 3)), {}, None),
    ("_fft_r2c", {"self": MAPS}, MAPS, {}, None),
    ("relu", {"self": HALF}, HALF, {}, None),
    *[
        ("_scaled_dot_product_flash_attention_for_cpu",
         dict.fromkeys(("query", "key", "value"), tensor((1, 2, length, 16))), MAPS, {},
         rows * (min(length, 512) + 2 + 16) * 4)
        for length, rows in ((20, 20), (191, 32), (192, 64), (767, 64), (768, 256))
    ],
])  # fmt: skip
def test_workspaces_of_operators(
    name: str, reads: dict[str, Tensor], result: Tensor, settings: Any, amount: int | None
) -> None:
    predicted = workspace(operator(name, reads, result, settings=settings), Conditions())
    assert (predicted.amount if predicted.complete else None) == amount


def test_means_in_reduced_precision_copy_input_and_result_to_float32() -> None:
    result, dims = tensor((2, 8), dtype="bfloat16"), {"dim": (-1, -2)}
    mean = operator("mean", {"self": HALF}, result, settings=dims)
    predicted = workspace(mean, Conditions())
    assert (predicted.amount, predicted.complete) == ((2 * 8 * 36 + 2 * 8) * 4, False)


def test_terms_of_mkl_are_not_used_for_openblas() -> None:
    """Terms are multiply-adds that a library adds to the theory of a layer."""
    layer = Dimensions(16, 32, 3, 28).layer(1)
    amounts = {t.name: t.amount for t in executed_terms(layer, "OpenBLAS")}
    assert amounts.pop("Factors converted") == 1
    assert set(amounts.values()) == {0}
