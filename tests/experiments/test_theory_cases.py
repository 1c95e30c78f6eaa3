"""Theory of networks: cases that other tools count wrong, and the largest batch that fits.

Theory is computed from a capture, the list of operators that a call runs on tensors without memory.
"""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import tree_map_only

from experiments.theory import theory_of
from experiments.theory.checked import _possible_flops, capture_theory
from experiments.theory.operator_recorder import FakeMode, tensors_in
from experiments.theory.operators import CapturePolicy, Input, ReplayedStep, capture
from report.core.errors import MeasurementError
from report.theory.network import Theory
from tests.experiments.functions import First, Function

aten = torch.ops.aten
attention, put = functional.scaled_dot_product_attention, aten.index_put_


class Cache(nn.Module):
    """Cache of keys with 4,096 rows; a call writes one row."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 4096, 64))

    def forward(self, keys: Any, row: Any) -> Any:
        return self.cache.index_copy_(1, row, keys)


def theory_of_call(function: Callable[..., Any] | nn.Module, *inputs: Any) -> Theory:
    """Capture a function or module; inputs are shapes (float32) or pairs of shape and type."""
    sources = []
    for source in inputs:
        has_type = isinstance(source[-1], str)
        sources.append(Input(*source) if has_type else Input(source))
    module = function if isinstance(function, nn.Module) else Function(function)
    return capture_theory(lambda: module, sources)


def flexible(x: Any) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(x, x, x)


#: Bytes of an EmbeddingBag with 8 bags: 160 indices and rows of 256 B; 8 offsets, written and read;
#: per bag a sum and two numbers; and one number per row.
BAG_BYTES = 160 * (8 + 256) + 2 * 8 * 8 + 8 * (256 + 16) + 160 * 8
#: Function, inputs, and bytes that its operators read and write: float32 has 4 B, int64 8 B.
TRAFFIC: list[tuple[Any, tuple[Any, ...], int]] = [
    (lambda x: torch.mul(*x.chunk(2, 1)), ((2, 8, 4, 4),), 1_536),
    (lambda x: attention(*x.unbind(0)), ((3, 2, 4, 16, 8),), 16_896),
    (lambda x: torch.cat([x[..., ::2, j::2] for j in (0, 1)], 1), ((2, 3, 8, 8),), 1_536),
    (lambda x: x + x.t(), ((8, 8),), 512),
    (lambda x: x[1:] - x[:-1], ((9, 5),), 4 * (45 + 40)),
    (lambda x: x[:, 1:] - x[:, :-1], ((9, 5),), 4 * (45 + 36)),
    (lambda x: x.unfold(1, 3, 1).amax(-1), ((4, 10),), 4 * (40 + 32)),
    (lambda x: x[:, :1].expand(4, 9) + x, ((4, 9),), 4 * 2 * 36),
    (Cache(), ((1, 1, 64), ((1,), "int64")), 520),
    (nn.Embedding(2, 768), (((1, 128), "int64"),), 400_384),
    (nn.EmbeddingBag(1000, 64), (((8, 20), "int64"),), BAG_BYTES),
    (nn.EmbeddingBag(1000, 64).requires_grad_(False), (((8, 20), "int64"),), BAG_BYTES),
    (lambda x, i: x.take(i), ((1000, 64), ((20,), "int64")), 20 * (8 + 4 + 4)),
    (lambda x, i: x[i], ((1000, 64), ((20,), "int64")), 20 * (8 + 2 * 256)),
    (lambda x, i: x.index_select(0, i), ((1000, 64), ((20,), "int64")), 20 * (8 + 2 * 256)),
    (lambda x, i: x.gather(0, i), ((1000, 64), ((8, 20), "int64")), 160 * (8 + 4 + 4)),
    (lambda x, i: x.index_add_(0, i, x[:2]), ((100, 4), ((2,), "int64")), 16 + 32 + 64),
    (lambda x, i: put(x, [i], x[0, 0]), ((100, 4), ((2,), "int64")), 16 + 4 + 2 * 16),
    (lambda x, i: put(x, [None, i], x[0, 0]), ((100, 4), ((2,), "int64")), 16 + 4 + 100 * 8),
    (lambda x, i: x.scatter_(0, i, 1.0), ((100, 4), ((2, 4), "int64")), 64 + 32),
]


@pytest.mark.parametrize(("function", "inputs", "expected"), TRAFFIC)
def test_every_byte_is_counted_once(function: Any, inputs: tuple[Any, ...], expected: int) -> None:
    assert theory_of_call(function, *inputs).bytes == expected


ATTENTION = First(nn.MultiheadAttention(12, 3, batch_first=True), inputs=3)
#: Multiply-adds: four projections; scores and values.
ATTENTION_MACS = 2 * 7 * 4 * 144 + 2 * 2 * 49 * 12
LSTM = First(nn.LSTM(5, 6, batch_first=True))
#: Multiply-adds of four gates with weights of the input and of the hidden state.
LSTM_MACS = 2 * 4 * 4 * 6 * (5 + 6)
MULTIPLY_ADDS: list[tuple[Any, tuple[Any, ...], int, int]] = [
    # Function, inputs, all multiply-adds, and multiply-adds without padding or masks.
    (lambda q: attention(q, q, q, is_causal=True), ((2, 3, 16, 8),), 24_576, 24_576 * 136 // 256),
    (nn.Conv2d(1, 1, 3, padding=1, bias=False), ((1, 1, 8, 8),), 576, 22 * 22),
    (nn.Conv1d(2, 2, 3, padding=1, groups=2), ((1, 2, 5),), 30, 2 * 13),
    (nn.ConvTranspose2d(1, 1, 3, 2, padding=1), ((1, 1, 4, 4),), 144, 10 * 10),
    (ATTENTION, ((2, 7, 12),), ATTENTION_MACS, ATTENTION_MACS),
    (LSTM, ((2, 4, 5),), LSTM_MACS, LSTM_MACS),
    (flexible, ((1, 2, 128, 16),), 2 * 128 * 128 * 32, 2 * 128 * 128 * 32),
    (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), ((2, 4),), 24, 24),
    (nn.LazyConv2d(4, 3), ((2, 3, 8, 8),), 2 * 36 * 4 * 27, 2 * 36 * 4 * 27),
]


@pytest.mark.parametrize(("function", "inputs", "full", "effective"), MULTIPLY_ADDS)
def test_multiply_adds(function: Any, inputs: tuple[Any, ...], full: int, effective: int) -> None:
    theory = theory_of_call(function, *inputs)
    assert (theory.multiply_adds, theory.effective_multiply_adds) == (full, effective)


def test_a_compiled_module_is_captured() -> None:
    """The module is compiled only here, since importing PyTorch's compiler takes a second."""
    assert theory_of_call(torch.compile(nn.Linear(4, 3)), (2, 4)).multiply_adds == 24


def with_padding_mask() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1)
    mask = torch.zeros(2, 4, dtype=torch.bool)
    return nn.Sequential(encoder, Function(lambda x: encoder(x, src_key_padding_mask=mask)))


class Alternating(nn.Module):
    """Alternates between two operators from call to call."""

    calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x.relu() if self.calls % 2 else x.sigmoid()


def multiply_in_thread(x: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.mm, x, x.t()).result()


#: Function, inputs, and words of the refusal, most of which are advice.
REFUSED: list[tuple[Any, tuple[Any, ...], str]] = [
    (nn.Linear(8, 4, dtype=torch.complex64), (((16, 8), "complex64"),), "complex"),
    (nn.Conv1d(8, 4, 1, dtype=torch.complex64), (((1, 8, 16), "complex64"),), "complex"),
    (torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 3))), ((2, 4),), "quantis"),
    (lambda x: x[x > 0].sum(), ((2, 4),), "torch.where"),
    (lambda x: x.sum().item(), ((2, 4),), ".item()"),
    (Alternating(), ((2, 4),), "relu.default in place of sigmoid.default"),
    (multiply_in_thread, ((2, 4),), "mm.default in a thread of its own"),
    (with_padding_mask(), ((2, 4, 8),), "enable_nested_tensor=False"),
]


@pytest.mark.parametrize(("function", "inputs", "words"), REFUSED)
def test_unsupported_operators_are_refused_with_advice(
    function: Any, inputs: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(MeasurementError, match=re.escape(words)):
        theory_of_call(function, *inputs)


def tied_layers() -> nn.Module:
    layer = nn.Linear(10, 10)
    return nn.Sequential(nn.Sequential(layer), nn.Sequential(layer))


def perceptron() -> nn.Module:
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(100, 10))
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 100), nn.ReLU(), normed)


#: Module → multiply-adds and parameters.  A layer computes a result, the weight's gradient, and the
#: input's gradient if another layer computed the input, so tied layers have 3 + 2 products.
TIED_WORK = {"0.0, 1.0": (5 * 100_000, 110)}
#: The weight norm of the last layer has two parameters, and the layer itself only a bias.
NORM = "3.parametrizations.weight.0"
PERCEPTRON_WORK = {"1": (2 * 76_800, 19_300), "3": (3 * 4_000, 10), NORM: (0, 1_010)}


@pytest.mark.parametrize(("build", "shape", "expected"), [
    (tied_layers, (10, 100, 10), TIED_WORK), (perceptron, (4, 3, 8, 8), PERCEPTRON_WORK),
])  # fmt: skip
@pytest.mark.parametrize("update", ["single", "foreach", "fused"])
def test_work_of_modules_includes_their_gradients(
    build: Any, shape: tuple[int, ...], expected: dict[str, tuple[int, int]], update: str
) -> None:
    theory = theory_of(build, shape, train=True, update=update)
    modules = {row.name: row for row in theory.by_module}
    optimizer = modules.pop("(the optimiser)")
    work = {name: (row.multiply_adds, row.parameters) for name, row in modules.items()}
    assert {name: numbers for name, numbers in work.items() if any(numbers)} == expected
    assert sum(row.parameters for row in theory.by_kind) == theory.parameters
    updates = [operator for operator in theory.network.operators if operator.phase == "update"]
    assert optimizer.calls == len(updates)


def test_grouped_gradients_match_both_counts_of_torch() -> None:
    theory = theory_of(lambda: nn.Conv2d(8, 8, 3, groups=8), (2, 8, 9, 9), train=True)
    names = [operator.base_name for operator in theory.network.operators]
    backward = names.index("convolution_backward")  # only the weights' gradient; images have none
    operator, work = theory.network.operators[backward], theory.work[backward]
    assert work is not None and names.count("convolution_backward") == 1
    # Versions of torch count a group's FLOPs once, or as if the layer had no groups.
    for torchs_count in (work.flops, 8 * work.flops):
        assert work.flops in _possible_flops(operator, torchs_count)


@pytest.mark.parametrize("build", [
    lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True),
])  # fmt: skip
def test_a_peak_on_a_gpu_is_computed_without_a_gpu(build: Callable[[], nn.Module]) -> None:
    """A GPU computes dropout in one operator, a CPU in several."""
    theory = theory_of(build, (2, 4, 8), train=True, device="cuda")
    assert theory.peak is not None and not theory.names_replaced_on_gpu
    names = {operator.base_name for operator in theory.network.operators}
    assert "native_dropout" in names and "bernoulli_" not in names


WIDTH, DEPTH = 64, 8
#: Bytes of the parameters of ``deep``.
WEIGHTS = 4 * DEPTH * (WIDTH * WIDTH + WIDTH)


def deep() -> nn.Module:
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(DEPTH)]
    return nn.Sequential(*blocks)


class Doubling(nn.Module):
    """Layer that repeats batches below 100, so that work is not proportional to the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return self.layer(torch.cat((x, x)) if x.shape[0] < 100 else x)


def peak_bytes(theory: Theory) -> int:
    assert theory.peak is not None
    return theory.peak.total


@pytest.mark.parametrize("build", [deep, Doubling])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_largest_batch_equals_trial_captures(
    build: Callable[[], nn.Module], train: bool, device: str
) -> None:
    theory = theory_of(build, (3, WIDTH), train=train, device=device)
    assert theory.captured is not None
    # Batch → peak (B) of a capture with this batch.
    sizes = {batch: peak_bytes(theory.captured(batch, None)) for batch in range(1, 6)}
    # Workspaces of backward passes and of cuBLAS are unknown.
    verdict = "undecided" if train or device == "cuda" else "fits"
    for limit in (sizes[1] - 1, sizes[1], sizes[4] + 1):
        # On a GPU, batches may have equal sizes, since blocks are multiples of 512 B.
        largest = max((batch for batch, size in sizes.items() if size <= limit), default=0)
        fits = theory.fits(limit)
        assert fits.largest == largest
        for batch, predicted in fits.bracket.items():
            assert peak_bytes(predicted) == sizes[batch]
            assert fits.verdict(batch) == (verdict if batch <= largest else "does not fit")


def recurrence(x: Any) -> Any:
    """Loop over the first extent, as code of recurrent networks does."""
    state = torch.zeros_like(x[0])
    for step in x:
        state = torch.tanh(state + step)
    return state


@pytest.mark.parametrize("shape", [(5, "N", 8), ("N", 5, 8)])
@pytest.mark.parametrize("build", [partial(nn.LSTM, 8, 8), partial(Function, recurrence)])
def test_the_batch_is_the_extent_marked_n(
    build: Callable[[], nn.Module], shape: tuple[int | str, ...]
) -> None:
    """Networks that loop over their first extent are refused if this extent is the batch."""
    theory = theory_of(build, shape)
    if shape[0] == "N":
        with pytest.raises(MeasurementError, match="128,N,512"):
            theory.fits("1MB")
        return
    fits = theory.fits("1MB")
    assert theory.captured is not None
    for batch, predicted in fits.bracket.items():
        assert peak_bytes(predicted) == peak_bytes(theory.captured(batch, None))


#: Bytes of the step counters: 4 B for each weight and bias.
STEP_COUNTS = 4 * 2 * DEPTH
#: Optimizer → bytes of its state, without gradients.
STATE = {
    "sgd": 0,
    "momentum": WEIGHTS,
    "adam": 2 * WEIGHTS + STEP_COUNTS,
    "adamw": 2 * WEIGHTS + STEP_COUNTS,
    # A row and a column per weight, and a vector per bias.
    "adafactor": 4 * DEPTH * (2 * WIDTH + WIDTH) + STEP_COUNTS,
}


@pytest.mark.parametrize("optimizer", STATE)
@pytest.mark.parametrize("update", ["single", "foreach", "fused"])
def test_state_bytes_of_optimizers(optimizer: Any, update: Any) -> None:
    if (optimizer, update) == ("adafactor", "fused"):
        return
    policy = CapturePolicy(optimizer=optimizer, update=update)
    network = capture(deep, [Input((4, WIDTH))], train=True, policy=policy).theory.network
    state_bytes = sum(network.storages[tensor.storage] for tensor in network.state)
    assert state_bytes == WEIGHTS + STATE[optimizer]
    step = ReplayedStep(deep().train(), policy, gpu=False)
    step.prepare((torch.randn(4, WIDTH),))
    assert state_bytes == sum(tensor.untyped_storage().nbytes() for tensor in step.state())


def activations(**options: Any) -> int:
    """Return the peak of activations and gradients of a training step of 4,096 samples (B)."""

    def build() -> nn.Module:
        return nn.Sequential(deep(), deep())

    theory = theory_of(build, (4096, WIDTH), train=True, **options)
    return max(m.alive["activations"] + m.alive["gradients"] for m in theory.moments)


def test_options_of_training_change_live_bytes() -> None:
    plain = activations()
    assert activations(checkpoint=["0", "1"]) < 0.7 * plain
    # In the second pass, the gradients of the first remain, and at most 8 B more per sample.
    assert plain <= activations(accumulate=2) <= plain + 2 * WEIGHTS + 4096 * 8
    assert activations(autocast="bfloat16") < plain
    single = theory_of(deep, (1, WIDTH), train=True, optimizer="adam", update="single")
    foreach = theory_of(deep, (1, WIDTH), train=True, optimizer="adam", update="foreach")
    # With lists of tensors (foreach), the square roots of all second moments are alive together.
    assert peak_bytes(foreach) > peak_bytes(single) + WEIGHTS / 2


CPU = torch.device("cpu")


def call_on_fake_tensors(operator: Any, args: Any) -> Any:
    """Call an operator on tensors of the same shapes, types and strides, which have no memory."""
    mode = FakeMode()
    fake = tree_map_only(torch.Tensor, lambda tensor: mode.like(tensor, CPU), args)
    with mode:
        return operator(*fake)


def layouts(result: Any) -> list[object]:
    """Return shape, strides and type of all tensors of a result."""
    return [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors_in(result)]


zeros, image = torch.zeros, torch.zeros(1, 3, 8, 8)
#: Operator and arguments of types that its kernel refuses.
REFUSED_TYPES = {
    "product of two types": (aten.mm.default, zeros(2, 3), zeros(3, 4).double()),
    "bias of another type": (aten.addmm.default, zeros(4).double(), zeros(2, 3), zeros(3, 4)),
    "linear of ints": (aten.addmm.default, zeros(4), zeros(2, 3).long(), zeros(3, 4)),
    "convolution of ints": (
        aten.convolution.default, image.long(), zeros(6, 3, 3, 3), None, [1, 1], [0, 0], [1, 1],
        False, [0, 0], 1,
    ),
    "normalised ints": (
        aten.native_batch_norm.default, image.long(), *[zeros(3)] * 4, True, 0.1, 1e-5,
    ),
    "softmax of ints": (aten._log_softmax.default, zeros(2, 3).long(), 1, False),
    "relu of bool": (aten.relu_.default, zeros(4).bool()),
    "relu of complex": (aten.relu_.default, zeros(4, dtype=torch.complex64)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_TYPES)
def test_fake_tensors_refuse_the_types_that_kernels_refuse(name: str) -> None:
    operator, *args = REFUSED_TYPES[name]
    refused = (RuntimeError, IndexError, ValueError)
    with pytest.raises(refused):
        operator(*args)
    with pytest.raises(refused):
        call_on_fake_tensors(operator, args)


SOURCES = {
    "permuted": zeros(5, 8, 2, 5).permute(2, 1, 0, 3),
    "sequence": zeros(2, 5, 8).transpose(1, 2),
    "transposed": zeros(8, 4).t(),
    "last": zeros(2, 8, 5, 5).to(memory_format=torch.channels_last),
    "slice": zeros(2, 8, 5, 5)[:, :4],
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_layouts_of_batch_norm_equal_the_kernel(source: Any) -> None:
    ones = torch.ones(source.shape[1])
    for training in (True, False):
        args = (source, ones, ones, ones, ones, training, 0.1, 1e-5)
        norm = aten.native_batch_norm.default
        assert layouts(call_on_fake_tensors(norm, args)) == layouts(norm(*args))
