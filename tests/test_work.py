"""Work, traffic, terms, rooflines and reconciliations: published figures, closed forms, torch."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.core.errors import StudyError
from report.core.records import layers as kinds
from report.core.records.layers import BatchNorm, Convolution, Layer, PaddedShortcut
from report.theory import terms, work
from report.theory.networks import layers_of
from report.theory.reconciliation import Reconciliation, Term
from report.theory.roofline import Load, load, total_load, update_load
from tests.networks import Chain, convolution


def test_a_training_step_is_three_forward_passes_less_one_product_of_the_first_layer() -> None:
    """The first layer with parameters needs no gradient of its input."""
    layers = layers_of("ResNet-50", 224)
    assert round(work.flops(work.training_macs(layers)) / 1e9, 3) == 24.299
    assert work.training_macs(layers) == 3 * work.forward_macs(layers) - work.macs(layers[0])
    assert work.flops(work.training_macs(layers_of("MobileNetV2", 224))) == 1_782_969_600
    beginning_with_norm = Chain(1, 3, 8, 8).then(BatchNorm, affine=True).conv(4, 3).layers
    assert work.training_macs(beginning_with_norm) == 3 * work.forward_macs(beginning_with_norm)


def with_fields(layer: Layer, **changes: object) -> Layer:
    return msgspec.structs.replace(layer, **changes)


TRANSPOSED = convolution((1, 2, 4, 4), 2, (3, 3), stride=(2, 2), transposed=True)


@pytest.mark.parametrize(("layer", "fault"), [
    (with_fields(work.mnist_conv2(1), output_shape=(1, 64, 26, 26)), "(1, 64, 24, 24)"),
    (with_fields(work.mnist_conv2(1), output_shape=(1, 64, 24)), "four axes"),
    (with_fields(work.mnist_conv2(1), input_shape=(32, 26, 26)), "four axes"),
    (with_fields(work.mnist_conv2(1), output_shape=(2, 64, 24, 24)), "(1, 64, 24, 24)"),
    (with_fields(work.mnist_conv2(1), groups=3), "groups do not divide"),
    (with_fields(work.mnist_conv2(1), groups=64), "groups do not divide"),
    (with_fields(work.mnist_conv2(1), kernel=(27, 3)), "does not fit"),
    (with_fields(TRANSPOSED, output_shape=(1, 2, 11, 9)), "(1, 2, 9, 9)"),
    (with_fields(TRANSPOSED, output_shape=(1, 2, 8, 9)), "(1, 2, 9, 9)"),
    (with_fields(Chain(2, 8).linear(4).only, output_shape=(3, 4)), "(2, 4)"),
    (with_fields(Chain(2, 8).act().only, output_shape=(2, 9)), "(2, 8)"),
    (with_fields(Chain(2, 3, 4, 4).flatten().only, output_shape=(2, 47)), "(2, 48)"),
    (with_fields(Chain(2, 3, 4, 4).pool("max", 2).only, kernel=(5, 5)), "does not fit"),
])  # fmt: skip
def test_layers_with_contradicting_shapes_are_refused(layer: Layer, fault: str) -> None:
    with pytest.raises(StudyError) as caught:
        work.check_shapes(layer)
    message = str(caught.value)
    assert layer.name in message and fault in message
    assert message.endswith("run the experiment again.")


#: A shortcut that copies every second row and column of two maps, and appends two maps of zeros.
SHORTCUT = PaddedShortcut(
    input_shape=(1, 2, 4, 6), output_shape=(1, 4, 2, 3), dtype="float32", stride=(2, 2)
)
NORM = Chain(1, 2, 4, 6).then(BatchNorm, affine=True).only


# Bytes of the forward pass and of both gradients; (1, 2, 4, 6) and (1, 48) are 48 elements, 192 B.
@pytest.mark.parametrize(("layer", "forward", "weight_gradient", "input_gradient"), [
    (Chain(1, 2, 4, 6).act().only, 2 * 192, 0, 3 * 192),
    (Chain(1, 2, 4, 6).then(kinds.Addition).only, 3 * 192, 0, 0),
    (NORM, 2 * 192 + 16, 2 * 192 + 16, 3 * 192 + 8),
    (Chain(1, 2, 4, 6).pool("max", 2).only, 192 + 48, 0, 2 * 192 + 48),
    (Chain(1, 2, 4, 6).pool("average", 2).only, 192 + 48, 0, 192 + 48),
    (SHORTCUT, 48 + 96, 0, 48 + 192),
    (Chain(1, 48).then(kinds.Softmax, log=False).only, 2 * 192, 0, 3 * 192),
    (Chain(1, 48).then(kinds.Dropout, probability=0.5).only, 2 * 192, 0, 2 * 192 + 48),
    (Chain(2, 3).linear(5).only, 24 + 80 + 40, 24 + 80 + 40, 24 + 60 + 40),
    (with_fields(Chain(2, 3).linear(5).only, dtype="bfloat16"), 72, 72, 62),
    (with_fields(Chain(2, 3).linear(5).only, dtype="float64"), 288, 288, 248),
    (Chain(2, 3, 4, 4).flatten().only, 0, 0, 0),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_compulsory_traffic(
    layer: Layer, forward: int, weight_gradient: int, input_gradient: int
) -> None:
    assert work.compulsory_traffic(layer) == forward
    assert work.compulsory_traffic(layer, "weight_gradient") == weight_gradient
    assert work.compulsory_traffic(layer, "input_gradient") == input_gradient


@st.composite
def convolutions(draw: st.DrawFn, transposed: bool = False) -> Convolution:
    """Draw a convolution whose kernel fits into its padded input."""
    pair = lambda low, high: st.tuples(*[st.integers(low, high)] * 2)  # noqa: E731
    kernel, stride, dilation = draw(pair(1, 4)), draw(pair(1, 3)), draw(pair(1, 2))
    padding, groups, size = draw(pair(0, 2)), draw(st.integers(1, 3)), []
    for extent, gap, margin in zip(kernel, dilation, padding, strict=True):
        smallest = max(1, gap * (extent - 1) + 1 - 2 * margin)
        size.append(smallest + draw(st.integers(0, 5)))
    batch, c_in, c_out = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    window = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shape, bias = (batch, groups * c_in, *size), draw(st.booleans())
    layer = convolution(shape, groups * c_out, kernel, **window, bias=bias)
    if not transposed:
        return layer
    # A transposed convolution maps the output shape back to the input shape.
    shapes = {"input_shape": layer.output_shape, "output_shape": layer.input_shape}
    return with_fields(layer, **shapes, transposed=True)


@settings(max_examples=60, deadline=None)
@given(st.one_of(convolutions(), convolutions(transposed=True)))
def test_shapes_parameters_and_taps_equal_torch(layer: Convolution) -> None:
    torch = pytest.importorskip("torch")
    options = {"dilation": layer.dilation, "groups": layer.groups, "bias": layer.bias}
    module_type = torch.nn.Conv2d
    if layer.transposed:
        module_type = torch.nn.ConvTranspose2d
        extents = zip(layer.output_shape[2:], work.output_shape(layer)[2:], strict=True)
        options["output_padding"] = tuple(extent - smallest for extent, smallest in extents)
    channels = (layer.input_shape[1], layer.output_shape[1])
    window = (layer.kernel, layer.stride, layer.padding)
    module = module_type(*channels, *window, **options, device="meta")
    shape = tuple(module(torch.empty(layer.input_shape, device="meta")).shape)
    assert shape == layer.output_shape
    assert layer.transposed or shape == work.output_shape(layer)
    assert sum(p.numel() for p in module.parameters()) == work.parameter_count(layer)


@settings(max_examples=60, deadline=None)
@given(convolutions())
def test_products_without_padding_equal_a_sum_by_torch(layer: Convolution) -> None:
    """The sum of a convolution of ones with ones is the number of products."""
    torch = pytest.importorskip("torch")
    channels = (layer.output_shape[1], layer.input_shape[1] // layer.groups)
    geometry = (layer.stride, layer.padding, layer.dilation, layer.groups)
    ones = torch.ones(layer.input_shape, dtype=torch.float64)
    weights = torch.ones((*channels, *layer.kernel), dtype=torch.float64)
    assert int(torch.conv2d(ones, weights, None, *geometry).sum()) == work.valid_tap_macs(layer)


#: 2 images, 3 input and 4 output channels, a kernel of 3 × 3, and maps of 5 × 5.
PLAIN = convolution((2, 3, 5, 5), 4, (3, 3))


@pytest.mark.parametrize(("term", "amount"), [
    (terms.theory_macs(PLAIN), 2 * 9 * 4 * 27),
    (terms.as_flops(terms.theory_macs(PLAIN)), 2 * 2 * 9 * 4 * 27),
    (terms.as_flops(terms.theory_macs(Chain(2, 5).linear(3).only)), 2 * 30),
    (terms.for_each_output("scaling", PLAIN), 72),
    (terms.for_each_output("additions", PLAIN), 72),
    (terms.bias_kernel(PLAIN, ""), 144),
    (terms.bias_kernel(convolution((2, 3, 5, 5), 4, (3, 3), bias=False), ""), 0),
    # 18 positions, 4 channels and 27 taps in tiles of 16, 8 and 32; then two groups of channels.
    (terms.tile_padding(PLAIN, (16, 8, 32), ""), 32 * 8 * 32 - 1944),
    (terms.tile_epilogue(PLAIN, (16, 8, 32), ""), 2 * 32 * 8),
    (terms.tile_epilogue(convolution((2, 6, 5, 5), 4, (3, 3), groups=2), (9, 2, 1), ""), 2 * 72),
    (terms.tile_padding(convolution((2, 6, 5, 5), 4, (3, 3), groups=2), (9, 2, 28), ""), 2 * 36),
    # Channels are padded per group, or together in depthwise convolutions.
    (terms.padded_channels(convolution((1, 4, 3, 3), 6, (3, 3), groups=2), 8, ""), 5 * 18 * 6 // 3),
    (terms.padded_channels(convolution((1, 6, 3, 3), 6, (3, 3), groups=6), 8, ""), 2 * 9),
])  # fmt: skip
def test_amounts_of_terms(term: Term, amount: int) -> None:
    assert term.amount == amount


#: A linear layer from 5 to 10 features and an activation, on 2 rows of float32, and the bytes that
#: the linear layer moves: input, parameters and output.
SMALL = Chain(2, 5).linear(10).act().layers
FORWARD = 4 * (10 + 60 + 20)


@pytest.mark.parametrize(("one_load", "flop", "moved_bytes"), [
    (load(SMALL[0]), 200, FORWARD),
    (load(SMALL[1]), 0, 4 * 40),
    (load(SMALL[0], ("forward", "weight_gradient")), 400, 2 * FORWARD),
    # The update reads and writes five times the 240 B of 60 parameters.
    (update_load(SMALL), 0, 5 * 240),
    # The input gradient of an activation reads the saved input and the output gradient.
    (load(SMALL[1], work.PASSES), 0, 4 * 40 + 4 * 60),
    (total_load([Load(1, 2), Load(3, 5)]), 4, 7),
])  # fmt: skip
def test_work_and_traffic(one_load: Load, flop: int, moved_bytes: int) -> None:
    assert (one_load.flops, one_load.bytes) == (flop, moved_bytes)
    assert one_load.intensity == flop / moved_bytes


def test_the_first_layer_with_parameters_needs_no_input_gradient() -> None:
    layers = Chain(2, 3, 8, 8).act().conv(4, 3, 1, 1).act().flatten().linear(2).layers
    gradients = [passes[-1] == "input_gradient" for passes in work.training_passes(layers)]
    assert gradients == [False, False, True, True, True]
    assert all(passes[0] == "forward" for passes in work.training_passes(layers))


def term(name: str, amount: int) -> Term:
    return Term(name, amount, f"formula of {name}", f"evidence of {name}")


def reconciliation(start: int, amounts: list[int], measured: int) -> Reconciliation:
    """Return an explanation of a measured number as a sum of theory and further terms."""
    further = tuple(term(f"Term {number}", amount) for number, amount in enumerate(amounts))
    counted = term("Counted", measured)
    return Reconciliation("example", "an example", "FLOP", term("Theory", start), further, counted)


@given(st.integers(), st.lists(st.integers(), max_size=6), st.integers())
def test_terms_and_residual_add_up(start: int, amounts: list[int], measured: int) -> None:
    plain = reconciliation(start, amounts, measured)
    assert plain.end + plain.residual == measured
    assert plain.explained == (start + sum(amounts) == measured)
    # A new term reduces the residual by the term's amount; names must differ.
    extended = replace(plain, terms=(*plain.terms, term("another", 7)))
    assert extended.residual == plain.residual - 7
    with pytest.raises(StudyError, match="two terms have the name 'Theory'"):
        replace(plain, terms=(term("Theory", 1),))
