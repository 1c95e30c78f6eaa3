"""Peak memory from shapes: by hand, by a simulated allocator, and against torch's own events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import StudyError
from report.missing import Missing
from report.paper.reconciliations import series_table
from report.records.layers import Convolution, Layer
from report.theory.avx2_kernels import BLOCK
from report.theory.liveness import (
    CALLERS,
    INPUT,
    INPUT_CAST,
    LATER,
    PARAMETERS,
    PENDING,
    READ,
    STATISTICS,
    WEIGHT_CASTS,
    WRITTEN,
    Held,
    held,
    peak,
    peaks,
    reconciled_peak,
)
from report.theory.memory import output_bytes, parameter_bytes
from report.theory.reconciliation import Term
from report.theory.workspaces import (
    WORKSPACES,
    Conditions,
    Layout,
    moments,
    unknown_workspace,
    vector_block,
)
from tests.blocks import named, plain_block
from tests.networks import Chain, alexnet, lenet5, mnist_conv2, mnist_example

LAYOUTS: tuple[Layout, ...] = ("contiguous", "channels_last")


def amounts(at: Held) -> dict[str, int]:
    return {term.name: term.amount for term in at.terms if term.amount}


# --------------------------------------------------------------------------------- by hand


def test_the_layer_of_the_first_study_in_the_plain_layout() -> None:
    at = peak([mnist_conv2(64)], Conditions(threads=2))
    assert amounts(at) == {
        PARAMETERS: 73_984,
        INPUT: 5_537_792,
        WRITTEN: 9_437_184,
        "Blocked output": 9_437_184,
    }
    assert at.total - 73_984 - 5_537_792 == 2 * 9_437_184
    assert at.needed == at.total - 9_437_184


def test_a_single_image_is_unfolded_or_peaks_before_its_output() -> None:
    """26 · 26 · 32 elements are more than those that PyTorch computes itself."""
    at = peak([mnist_conv2(1)], Conditions())
    assert amounts(at)[PENDING] == -147_456
    assert at.total == 73_984 + 86_528 + 307_712
    small = Chain(1, 16, 32, 32).conv(16, 3, 1, 1, bias=False).layers
    (only,) = moments(small[0], Conditions())
    assert [(t.name, t.amount) for t in only.terms] == [("Unfolded input", 16 * 9 * 32 * 32 * 4)]


def test_the_layer_of_the_first_study_with_channels_last() -> None:
    at = peak([mnist_conv2(64)], Conditions("channels_last", threads=2))
    output = 9_437_184
    assert amounts(at) == {
        PARAMETERS: 73_984,
        INPUT: 5_537_792,
        WRITTEN: output,
        "Weight reorder": 73_728,
        "Workspace, batch descriptors": 12_336,
    }


def test_a_block_holds_its_input_for_the_sum_and_then_for_its_caller() -> None:
    stem = named(Chain(2, 3, 8, 8).conv(16, 3, 1, 1).layers, "stem")
    found = held(stem + plain_block((2, 16, 8, 8), "a"), Conditions("channels_last"))
    parts = {at.layer: amounts(at) for at in found}
    tensor = 2 * 16 * 8 * 8 * 4
    assert parts["a.conv1"][READ] == parts["a.conv1"][WRITTEN] == tensor
    assert LATER not in parts["a.conv1"]  # what it reads is what the sum will read
    assert parts["a.relu1"][LATER] == parts["a.conv2"][LATER] == tensor
    assert parts["a.add"][READ] == 2 * tensor
    assert (parts["a.relu2"][READ], parts["a.relu2"][CALLERS]) == (tensor, tensor)
    assert LATER not in parts["a.relu2"]


def test_what_a_maximum_and_a_batch_norm_take() -> None:
    pool, norm = Chain(2, 8, 6, 6).pool("max", 2).layers, Chain(2, 8, 6, 6).norm().layers
    assert amounts(peak(pool, Conditions()))["Pooling indices"] == 2 * 8 * 9 * 8
    at = amounts(peak(norm, Conditions()))
    assert (at["Scale and shift"], at[STATISTICS]) == (2 * 8 * 4, 2 * 8 * 4 + 8)


def test_in_place_saves_the_second_map() -> None:
    layers = Chain(2, 16, 8, 8).act().act().layers
    plain, reused = (peak(layers, Conditions(in_place=flag)) for flag in (False, True))
    assert plain.total == 3 * 2 * 16 * 64 * 4
    assert reused.total == 2 * 16 * 64 * 4
    tanh = Chain(2, 16, 8, 8).act("tanh").layers  # has no such form in torch
    assert peak(tanh, Conditions(in_place=True)) == peak(tanh, Conditions())


def test_a_flatten_is_a_view_unless_elements_change_their_order() -> None:
    layers = Chain(2, 16, 4, 4).act().flatten().layers
    size = 2 * 16 * 16 * 4
    plain, copied = (held(layers, Conditions(layout))[1] for layout in LAYOUTS)
    assert (plain.amount(WRITTEN), copied.amount(WRITTEN)) == (0, size)
    single = Chain(2, 16, 1, 1).act().flatten().layers
    assert held(single, Conditions("channels_last"))[1].amount(WRITTEN) == 0


def test_dropout_does_nothing_in_inference() -> None:
    layers = Chain(2, 16).act().dropout(0.5).linear(4).layers
    assert [at.amount(WRITTEN) for at in held(layers, Conditions())] == [128, 0, 32]
    assert [at.amount(READ) for at in held(layers, Conditions())] == [0, 128, 128]


def test_autocast_keeps_casts_of_all_parameters_so_far() -> None:
    layers = lenet5(3, 8)
    found = {at.layer: at for at in held(layers, Conditions(autocast="bfloat16"))}
    first, last = found["conv"], found[layers[-1].name]
    assert held(layers, Conditions(autocast="bfloat16"))[0].amount(INPUT_CAST) == 8 * 3 * 1024 * 2
    assert last.amount(WEIGHT_CASTS) == 62_006 * 2
    assert first.amount(PARAMETERS) == last.amount(PARAMETERS) == 62_006 * 4
    assert first.amount(INPUT) == 8 * 3 * 1024 * 4
    assert all(at.amount(WEIGHT_CASTS) == 0 for at in held(layers, Conditions()))


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


@pytest.mark.parametrize(("layout", "shape", "convolution", "measured", "complete"), ON_AVX2)
def test_peaks_on_avx2_are_met_or_at_least(
    layout: Layout,
    shape: tuple[int, ...],
    convolution: tuple[int, ...],
    measured: int,
    complete: bool,
) -> None:
    at = peak(Chain(*shape).conv(*convolution).layers, Conditions(layout, block=BLOCK))
    assert at.complete == complete
    assert at.total == measured if complete else at.total <= measured


def test_bfloat16_on_avx2_is_unfolded_by_pytorch() -> None:
    """Measured as ``ON_AVX2`` is: 13.5 MB unfolded beside 1.6 MB of output."""
    layers = Chain(8, 64, 27, 27).conv(192, 5).layers
    for layout in LAYOUTS:
        at = peak(layers, Conditions(layout, block=BLOCK, autocast="bfloat16"))
        assert (at.total, at.complete) == (19_251_328, True)


def test_what_is_not_known_is_said() -> None:
    depthwise = Chain(2, 32, 8, 8).conv(32, 3, 1, 1, groups=32).layers[0]
    pointwise = Chain(2, 32, 8, 8).conv(32, 1).layers[0]
    one_channel = lenet5(1, 8)[0]
    double = msgspec.structs.replace(mnist_conv2(2), dtype="float64")
    for layer in (depthwise, pointwise, double):
        assert unknown_workspace(layer, Conditions())
        assert not peak([layer], Conditions()).complete
    assert unknown_workspace(one_channel, Conditions("channels_last"))
    assert not unknown_workspace(one_channel, Conditions())
    linear = lenet5(1)[-1]
    assert unknown_workspace(linear, Conditions(autocast="bfloat16"))
    assert not unknown_workspace(linear, Conditions())
    plain = mnist_conv2(2)
    half = msgspec.structs.replace(plain, dtype="bfloat16")
    assert unknown_workspace(half, Conditions(autocast="bfloat16", tiles=True))
    assert not unknown_workspace(half, Conditions(autocast="bfloat16"))
    assert not unknown_workspace(plain, Conditions(tiles=True))
    with pytest.raises(StudyError, match="no part of its memory is called 'Blocked'"):
        peak([pointwise], Conditions()).amount("Blocked")


def test_nothing_has_no_peak() -> None:
    for function in (peak, peaks):
        with pytest.raises(StudyError, match="without layers"):
            function([], Conditions())
    assert held([], Conditions()) == ()


def test_the_parts_of_a_peak_are_a_reconciliation() -> None:
    at = peak(mnist_example(64), Conditions(threads=2))
    measured = Term("Allocated peak", at.total, "highest sum of events", "events")
    found = reconciled_peak("peak", "peak memory", at, measured)
    assert found.explained
    assert found.start.name == PARAMETERS
    missing = reconciled_peak("none", "peak memory", at, Missing("not measured"))
    assert missing.residual == Missing("not measured")
    both = {batch: reconciled_peak("p", "p", peak(mnist_example(batch), Conditions()), measured)
            for batch in (8, 64)}  # fmt: skip
    assert len(series_table(both, "tbl-peaks", "Peaks.").rows) == 2  # all have the same terms


# ------------------------------------------------------------------------------- properties

conditions = st.builds(
    Conditions,
    layout=st.sampled_from(LAYOUTS),
    threads=st.integers(1, 4),
    block=st.sampled_from((8, 16)),
    in_place=st.booleans(),
    autocast=st.sampled_from((None, "bfloat16")),
)


@st.composite
def networks(draw: st.DrawFn) -> list[Layer]:
    """A stem, residual blocks and a pooling, of any small extents."""
    batch, extent = draw(st.integers(1, 4)), draw(st.integers(4, 9))
    channels = draw(st.integers(1, 20))
    net = Chain(batch, 3, extent, extent).conv(channels, 3, 1, 1).norm().act()
    layers = named(net.layers, "conv", "bn", "relu")
    shape = net.shape
    for number in range(draw(st.integers(0, 3))):
        wider = draw(st.sampled_from((0, 2 * shape[1])))
        layers += plain_block(shape, f"block{number}", wider)
        shape = layers[-1].output_shape
    tail = Chain(*shape).pool("max", 2).flatten().linear(10).layers
    return layers + named(tail, "pool", "flatten", "fc")


@given(networks(), conditions)
def test_every_layer_holds_at_least_what_is_needed(
    layers: list[Layer], conditions: Conditions
) -> None:
    found = held(layers, conditions)
    assert [at.layer for at in found] == [layer.name for layer in layers]
    for at, layer in zip(found, layers, strict=True):
        written, read = at.amount(WRITTEN), at.amount(READ)
        assert at.needed <= at.total or at.amount(PENDING) < 0
        assert at.total == sum(term.amount for term in at.terms)
        assert {term.name for term in at.terms} >= {*WORKSPACES, READ, CALLERS}
        assert written in (0, output_bytes(layer) // (2 if conditions.autocast else 1))
        assert min(read, written, at.amount(LATER), at.amount(CALLERS)) >= 0
    top = peak(layers, conditions)
    assert top.total == max(at.total for at in found)
    assert peaks(layers, conditions)[1].needed <= max(top.total, top.needed)


@given(networks(), conditions, st.integers(2, 5))
def test_tensors_are_proportional_to_the_batch(
    layers: list[Layer], conditions: Conditions, factor: int
) -> None:
    larger = [with_batch(layer, factor) for layer in layers]
    for small, large in zip(held(layers, conditions), held(larger, conditions), strict=True):
        for name in (INPUT, READ, WRITTEN, LATER, CALLERS, INPUT_CAST):
            assert large.amount(name) == factor * small.amount(name)
        for name in (PARAMETERS, STATISTICS, WEIGHT_CASTS):
            assert large.amount(name) == small.amount(name)


def with_batch(layer: Layer, factor: int) -> Layer:
    n, *inner = layer.input_shape
    _, *outer = layer.output_shape
    return msgspec.structs.replace(
        layer, input_shape=(factor * n, *inner), output_shape=(factor * n, *outer)
    )


@given(networks(), st.sampled_from(LAYOUTS))
def test_a_simulated_interpreter_holds_as_much(layers: list[Layer], layout: Layout) -> None:
    """References are counted as Python does: variables, arguments of calls, results."""
    found = held(layers, Conditions(layout))
    own = (READ, WRITTEN, LATER, CALLERS)
    assert [sum(at.amount(name) for name in own) for at in found] == simulated(layers, layout)


def simulated(layers: list[Layer], layout: Layout) -> list[int]:
    """Bytes of activations at the end of each layer's call, the network's input left out."""
    alive: list[int] = []
    current: tuple[str, int] = ("input", 0)  # storage and its bytes
    argument: dict[str, tuple[str, int]] = {}
    side: tuple[str, int] | None = None
    for layer in layers:
        block = layer.name.rpartition(".")[0]
        if block and block not in argument:
            argument = {block: current}  # the call of the block before has returned
        if not block:
            argument = {}
        reads = [current]
        if layer.name.endswith(".shortcut"):
            reads = [argument[block], current]  # the other way's result is a variable
        if layer.name.endswith(".add"):
            reads = [current, side or argument[block]]
        view = layer.name == "flatten" and not (
            layout == "channels_last" and layer.input_shape[1] > 1
            and layer.input_shape[2] * layer.input_shape[3] > 1
        )  # fmt: skip
        result = reads[0] if view else (layer.name, output_bytes(layer))
        references = {*reads, result, *argument.values()}
        alive.append(sum(size for name, size in references if name != "input"))
        if layer.name.endswith(".shortcut"):
            side = result
            continue
        side = None if layer.name.endswith(".add") else side
        current = result
    return alive


@given(st.integers(1, 200), conditions)
def test_one_layer_is_explained_as_its_events_were(batch: int, conditions: Conditions) -> None:
    """The same terms as the explanation of events uses; a layer alone holds nothing else."""
    layer = mnist_conv2(batch)
    at = peak([layer], conditions)
    on_avx2, last = conditions.block == BLOCK, conditions.layout == "channels_last"
    unfolded = on_avx2 and conditions.autocast is not None
    assert at.complete == (not on_avx2 or unfolded or not last)
    assert at.amount(PARAMETERS) == parameter_bytes(layer)
    for name in (READ, LATER, CALLERS):
        assert at.amount(name) == 0
    blocked = at.amount("Blocked output")
    assert (blocked == 0) == (last or unfolded)


# --------------------------------------------------------------------------- torch as oracle


def measured(name: str, batch: int, layout: Layout, in_place: bool, autocast: bool) -> Any:
    """torch's memory events of one forward pass, the building of the network before it."""
    import torch

    from experiments.harness.memory import profiled
    from experiments.harness.workload import Workload
    from experiments.networks.catalogue import INPUT_SHAPES, network

    def build() -> Workload:
        module, image = network(name, in_place=in_place), torch.zeros(batch, *INPUT_SHAPES[name])
        module.eval()
        if layout == "channels_last":
            module = module.to(memory_format=torch.channels_last)
            image = image.contiguous(memory_format=torch.channels_last)

        def call() -> object:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                return module(image)

        return Workload(call, reset=lambda: None)

    return profiled(build)


def captured(name: str, batch: int) -> tuple[Layer, ...]:
    import torch

    from experiments.harness.capture import layers_of
    from experiments.networks.catalogue import INPUT_SHAPES, network

    with torch.device("meta"):
        return layers_of(network(name).eval(), torch.empty(batch, *INPUT_SHAPES[name]))


SMALL = [
    ("LeNet-5", 8, False, False),
    ("LeNet-5 RGB", 16, False, False),
    ("CIFAR", 8, True, False),
    ("ResNet-20", 8, False, False),
    ("ResNet-20", 1, False, False),
    ("ResNet-20", 8, True, True),
    ("ResNet-56", 8, True, False),
    ("AlexNet", 8, False, False),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "batch", "in_place", "autocast"), SMALL)
def test_the_peak_is_what_torch_allocates(
    name: str, batch: int, in_place: bool, autocast: bool, layout: Layout
) -> None:
    torch = pytest.importorskip("torch")
    capability = torch.backends.cpu.get_cpu_capability()
    if capability not in ("AVX512", "AVX2"):
        pytest.skip(f"what oneDNN allocates is known for AVX2 and AVX-512, not for {capability}")
    block = vector_block(capability)
    if autocast and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this CPU has no bfloat16 convolutions")
    conditions = Conditions(
        layout,
        torch.get_num_threads(),
        block,
        in_place,
        "bfloat16" if autocast else None,
        torch.cpu._is_amx_tile_supported(),
    )
    found = measured(name, batch, layout, in_place, autocast)
    at = peak(captured(name, batch), conditions)
    assert sum(at.amount(part) for part in (PARAMETERS, STATISTICS, INPUT)) == found.before
    assert at.total == found.peak if at.complete else at.total <= found.peak
    # On AVX2 the sizes of caches decide about some kernels; bfloat16 in tiles is not known.
    assert at.complete or block == BLOCK or (autocast and conditions.tiles)


def test_convolutions_are_known_in_all_networks_of_the_study() -> None:
    pytest.importorskip("torch")
    for name in ("LeNet-5 RGB", "AlexNet", "ZFNet", "VGG-16", "ResNet-110"):
        layers = captured(name, 8)
        for layout in LAYOUTS:
            known = (not unknown_workspace(layer, Conditions(layout)) for layer in layers)
            assert all(known)
        assert any(isinstance(layer, Convolution) for layer in layers)


def test_the_lists_of_other_tests_give_the_same_peaks() -> None:
    pytest.importorskip("torch")
    for layout in LAYOUTS:
        ours, theirs = (peak(x, Conditions(layout)) for x in (captured("AlexNet", 4), alexnet(4)))
        assert ours.total == theirs.total
