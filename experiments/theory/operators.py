"""Capture the operators of any network on tensors without memory; imports torch.

A network runs on fake tensors (device, shape and layout, but no elements) under a recorder that
sees every operator.  The same Python code holds real and fake tensors, so that the recorder sees
the same storages freed between two operators as in a real call.  Nothing is computed or allocated.
"""

import gzip
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product, zip_longest
from typing import Any, Final, get_args
from unittest.mock import patch

import msgspec
import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.utils.checkpoint import checkpoint

from experiments.harness.timing import collector_off
from experiments.networks.capture import capture_layers
from experiments.networks.catalogue import CHANGES, INPUT_SHAPES, changed, network
from experiments.theory.captures import DEFAULT, Build, Capture, CapturePolicy, Input, Optimizer
from experiments.theory.networks import with_layout
from experiments.theory.operator_recorder import (
    FakeMode,
    Recorder,
    make_fake,
    module_names,
    tensors_in,
)
from report.core.errors import MeasurementError, shorten, words_of
from report.core.records.operations import Network, Operator, Phase
from report.theory.allocator import Options
from report.theory.conditions import Conditions, Layout, vector_block
from report.theory.network import Theory
from report.theory.networks import (
    CAPTURED_BATCH,
    CapturedNetwork,
    NetworkFile,
    Variant,
    capture_file,
    signature,
)

_OPTIMIZERS: Final[dict[Optimizer, Callable[..., torch.optim.Optimizer]]] = {
    "sgd": partial(torch.optim.SGD, lr=0.1),
    "momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adafactor": torch.optim.Adafactor,
}
#: Networks whose layers papers use, but not their operators.
_WITHOUT_OPERATORS: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: Network → captured image sizes besides the network's own size.
_MORE_IMAGES: Final = {"ResNet-20": (224,), **dict.fromkeys(_WITHOUT_OPERATORS, (64,))}
#: A forward pass may call twice as many operators as the probe, plus this number.
_LEEWAY: Final = 1000


def capture(
    build: Build,
    inputs: Sequence[Input],
    *,
    train: bool = False,
    allocator: Options | None = None,
    policy: CapturePolicy = DEFAULT,
    probe: Sequence[Input] = (),
) -> Capture:
    """Capture the operators of a call in evaluation mode without gradients, or of a training step.

    A training step has a forward pass, loss, backward pass and update.  The loss is the cross
    entropy if the result is a matrix of scores, else the sum of the means of all results.  The
    network runs on the ``probe`` (the inputs at a small batch), then twice on the inputs.  The
    second run is captured; the first allocates the optimiser's state.  A third forward pass must
    call the same operators.  With ``allocator`` options the operators are those of a GPU, as far as
    known without a GPU.

    Raises ``MeasurementError`` if the network needs the values of tensors, cannot run on these
    inputs, calls many more operators than on the probe, calls other operators in the third pass,
    or computes in other threads.
    """
    gpu = allocator is not None
    device = _device(gpu, policy)
    module, compiled = _eager(build_module(build).train(train))
    _checkpoint(module, policy.checkpoint)
    step = ReplayedStep(module, policy, gpu, train)
    recorder, probe_recorder = _record(step, inputs, probe, device)
    theory = Theory(
        network=recorder.network(),
        conditions=_conditions(allocator),
        history=recorder.history,
        other_on_gpu=() if device.type == "cuda" else _recurrent(module),
        compiled=compiled,
        classes={name: type(part).__name__ for part, name in module_names(module).items()},
    )
    return Capture(theory, recorder.flops, tuple(probe_recorder.operators))


def _record(
    step: "ReplayedStep", inputs: Sequence[Input], probe: Sequence[Input], device: torch.device
) -> tuple[Recorder, Recorder]:
    """Run a step on fake tensors; return the recorders of the step and of the probe."""
    mode = FakeMode()
    recorder, probe_recorder, third = Recorder(step), Recorder(step), Recorder(step)
    try:
        _materialise(step.module, inputs)
        make_fake(step.module, mode, device)
        meta = torch.device("meta")
        tensors = [FakeTensor(mode, source.tensor(meta), device) for source in inputs]
        probe_tensors = [FakeTensor(mode, source.tensor(meta), device) for source in probe]
        with (
            mode,
            torch.compiler.set_stance("force_eager"),
            collector_off(0),  # tensors are freed with their last reference
            _use_gpu_operators(step.gpu, device),
        ):
            if probe_tensors:
                step.probe(probe_tensors, probe_recorder)
                limit = 2 * len(probe_recorder.operators) + _LEEWAY
                recorder.forward_limit = step.policy.accumulate * limit
                recorder.batch = inputs[0].batch
            step.record(tensors, recorder)
            step.probe(tensors, third)
        _refuse_unseen(mode, recorder.operators, third.operators)
    except MeasurementError:
        raise
    except Exception as error:
        at = f" after {recorder.operators[-1].name}" if recorder.operators else ""
        raise MeasurementError(f"The network cannot be captured{at}: {_reason(error)}") from error
    return recorder, probe_recorder


def _conditions(allocator: Options | None) -> Conditions:
    """Return the conditions under which PyTorch runs on this CPU or a GPU with ``allocator``."""
    return Conditions(
        threads=torch.get_num_threads(),
        block=vector_block(torch.backends.cpu.get_cpu_capability()),
        tiles=torch.cpu._is_amx_tile_supported(),
        allocator=allocator,
    )


def _refuse_unseen(mode: FakeMode, second: Sequence[Operator], third: Sequence[Operator]) -> None:
    """Raise ``MeasurementError`` if operators ran in other threads or change between calls."""
    if mode.unseen:
        raise MeasurementError(
            f"The network calls {mode.unseen} in a thread of its own, where no operator is seen; "
            "call it in the thread of the forward pass."
        )
    forward = [operator for operator in second if operator.phase == "forward"]
    passes = max(1, round(len(forward) / max(1, len(third))))
    for operator, repeated in zip_longest(forward, [*third] * passes):
        if not (operator and repeated and signature(operator) == signature(repeated)):
            before, now = (call.name if call else "nothing" for call in (operator, repeated))
            raise MeasurementError(
                f"The network calls different operators in each call ({now} in place of {before}), "
                "for example because its code is random or counts calls; make all calls equal."
            )


def _device(gpu: bool, policy: CapturePolicy) -> torch.device:
    """Return the device of the fake tensors.

    Without CUDA, PyTorch has no backward pass on a fake GPU; a CPU stands in.  Raises
    ``MeasurementError`` if the CPU would run other operators.
    """
    has_gpu = gpu and torch.cuda.is_available()
    if gpu and not has_gpu and policy.autocast:
        raise MeasurementError(
            "autocast computes other operators in 16 bits on a GPU than on a processor; capture "
            "the network where PyTorch has a GPU, or set the type of all tensors (--dtype)."
        )
    return torch.device("cuda" if has_gpu else "cpu")


def _use_gpu_operators(gpu: bool, device: torch.device) -> AbstractContextManager[object]:
    """Call a GPU's operators on CPU tensors, for functions that have other operators on a CPU."""
    if not gpu or device.type == "cuda":
        return nullcontext()
    gpu_functions = {"dropout": _dropout, "scaled_dot_product_attention": _attention}
    return patch.multiple(nn.functional, **gpu_functions)


def _dropout(
    source: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    return torch.native_dropout(source, p, True)[0] if training and 0 < p < 1 else source


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Call memory-efficient attention, which all GPUs have; flash attention saves as many bytes."""
    trained = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    call = torch.ops.aten._scaled_dot_product_efficient_attention
    attended, *_ = call(query, key, value, attn_mask, trained, dropout_p, is_causal, scale=scale)
    return attended  # type: ignore[no-any-return]


def _checkpoint(module: nn.Module, names: Sequence[str]) -> None:
    """Let the backward pass recompute the activations of the modules ``names``."""
    parts = dict(module.named_modules())
    for name in names:
        if name not in parts or not name:
            names_of_children = ", ".join(child for child, _ in module.named_children())
            raise MeasurementError(
                f"The network has no module {name!r}; it consists of {names_of_children}."
            )
        part = parts[name]
        part.forward = partial(  # type: ignore[method-assign]
            checkpoint, part.forward, use_reentrant=False, preserve_rng_state=False
        )


def _eager(module: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the module without ``torch.compile``, and the names of compiled modules.

    Raises ``MeasurementError`` for quantised modules, since their weights are not parameters.
    """
    compiled = ["the network"] if hasattr(module, "_orig_mod") else []
    module = getattr(module, "_orig_mod", module)
    for name, part in list(module.named_modules()):
        if type(part).__module__.startswith("torch.ao.nn.quantized"):
            raise MeasurementError(
                f"{name or 'The network'} is quantised, so that no operator shows its weights; "
                "give the network before it is quantised."
            )
        if part._compiled_call_impl is not None:
            part._compiled_call_impl = None
            compiled.append(name or "the network")
        for child, inner in list(part.named_children()):
            if hasattr(inner, "_orig_mod"):
                setattr(part, child, inner._orig_mod)
                compiled.append(f"{name}.{child}".strip("."))
    return module, tuple(compiled)


def _materialise(module: nn.Module, inputs: Sequence[Input]) -> None:
    """Initialise lazy modules by a first call on the meta device."""
    tensors = (*module.parameters(), *module.buffers())
    if any(nn.parameter.is_lazy(tensor) for tensor in tensors):
        with torch.no_grad():
            module(*(source.tensor(tensors[0].device) for source in inputs))


def _recurrent(module: nn.Module) -> tuple[str, ...]:
    kinds = (nn.RNNBase, nn.RNNCellBase)
    parts = module.named_modules()
    return tuple(name or type(part).__name__ for name, part in parts if isinstance(part, kinds))


def _reason(error: Exception) -> str:
    if isinstance(error, DataDependentOutputException):
        return "it asks for the value of a tensor; leave out .item() and conditions on values."
    if isinstance(error, DynamicOutputShapeException):
        return (
            f"the shape of {error.func} depends on values; give it a fixed shape, for example by "
            "torch.where in place of a mask, or padded sequences in place of packed sequences."
        )
    words = words_of(error)
    if "overflow" in words.casefold():
        return "the size of a tensor exceeds 64 bits; give a smaller batch or image."
    if "NestedTensor" in words:
        return "it creates a nested tensor; give nn.TransformerEncoder enable_nested_tensor=False."
    return shorten(" ".join(words.removeprefix(f"{type(error).__name__}: ").split()), 200)


# ------------------------------------------------------------------------------------ the module


def build_module(build: Build) -> nn.Module:
    """Build the module on the meta device, or in memory if its code needs values.

    Raises ``MeasurementError`` if ``build`` fails.
    """
    try:
        with torch.device("meta"):
            return build()
    except Exception:
        pass
    try:
        return build()
    except Exception as error:
        raise MeasurementError(f"The network cannot be built: {_reason(error)}") from error


# ----------------------------------------------------------------------------------------- calls


@dataclass
class ReplayedStep:
    """Call in evaluation mode, or training step if ``trains``, repeated to capture the second."""

    module: nn.Module
    policy: CapturePolicy
    gpu: bool
    trains: bool = True
    optimizer: Any = None
    phase: Phase = "forward"
    gradient: torch.Tensor | None = None

    def probe(self, tensors: Sequence[torch.Tensor], recorder: Recorder) -> None:
        """Record a forward pass."""
        recorder.begin(tensors)
        with recorder:
            self.forward(tensors)

    def record(self, tensors: Sequence[torch.Tensor], recorder: Recorder) -> None:
        """Run the first step, into the recorder's history on a GPU; then record the second step."""
        recorder.begin(tensors, records=self.gpu)
        with recorder:
            self.prepare(tensors)
        recorder.restart(self.state())
        with recorder, recorder.tracking_modules():
            self.run(tensors)

    def prepare(self, tensors: Sequence[torch.Tensor]) -> None:
        """Run a first step, which allocates gradients, optimiser state and a GPU's cache."""
        if self.trains and not self.policy.gradients_only:
            trained = [p for p in self.module.parameters() if p.requires_grad]
            method = self.policy.updating(self.gpu)
            option = {} if method == "single" else {method: True}
            self.optimizer = _OPTIMIZERS[self.policy.optimizer](trained, **option)
        self.run(tensors)

    def state(self) -> Iterator[torch.Tensor]:
        """Yield optimiser state and gradients on the device; step counts may be on the CPU."""
        for state in self.optimizer.state.values() if self.optimizer else ():
            for name, value in state.items():
                on_cpu = self.gpu and name == "step" and self.policy.updating(self.gpu) != "fused"
                if isinstance(value, torch.Tensor) and not on_cpu:
                    yield value
        yield from (p.grad for p in self.module.parameters() if p.grad is not None)
        if self.gradient is not None:
            yield self.gradient

    def forward(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return the result of a call, or the loss of a training step."""
        cast: AbstractContextManager[object] = nullcontext()
        if self.policy.autocast is not None:
            dtype = getattr(torch, self.policy.autocast)
            cast = torch.autocast(tensors[0].device.type, dtype)
        with torch.set_grad_enabled(self.trains), cast:
            result = self.module(*tensors)
            return _loss(result) if self.trains and not self.policy.gradients_only else result

    def run(self, tensors: Sequence[torch.Tensor]) -> None:
        """Call the module; or drop gradients, run forward and backward pass, and update."""
        self.phase = "forward"
        if not self.trains:
            self.forward(tensors)
            return
        self.module.zero_grad()
        if self.policy.gradients_only:
            self._differentiate(tensors)
            return
        for _ in range(self.policy.accumulate):
            self.phase = "forward"
            loss = self.forward(tensors)
            self.phase = "backward"
            loss.backward()
        self.phase = "update"
        with torch.no_grad():
            # Without the decorators of ``step``, which serve profiling and PyTorch's compiler.
            inspect.unwrap(type(self.optimizer).step)(self.optimizer)

    def _differentiate(self, tensors: Sequence[torch.Tensor]) -> None:
        """Run forward, then backward from a gradient of ones, which is kept for the next call."""
        for tensor in tensors:
            tensor.grad = None
            tensor.requires_grad_(tensor.is_floating_point())
        result = self.forward(tensors)
        if self.gradient is None:
            self.gradient = torch.ones_like(result)
        self.phase = "backward"
        result.backward(self.gradient)


def _loss(result: object) -> torch.Tensor:
    """Return a scalar loss, from which the backward pass begins."""
    if isinstance(result, torch.Tensor) and result.dim() == 2:
        labels = torch.zeros(result.shape[0], dtype=torch.int64, device=result.device)
        return nn.functional.cross_entropy(result, labels)
    parts = [tensor.mean() for tensor in tensors_in(result) if tensor.is_floating_point()]
    if not parts:
        raise MeasurementError("The network returns no tensor of floats, so it cannot be trained.")
    return torch.stack(parts).sum()


# ---------------------------------------------------------------------------- networks of papers


def write_networks() -> None:
    """Capture every network of the papers, and write a file per network and image size."""
    layouts: tuple[Layout, ...] = get_args(Layout)
    unchanged = []  # variants of the unmodified network
    for layout in layouts:
        unchanged += [Variant(layout, "float32"), Variant(layout, "bfloat16")]
    for name, (channels, extent, _) in INPUT_SHAPES.items():
        for size in (extent, *_MORE_IMAGES.get(name, ())):
            with torch.device("meta"):
                inputs = torch.empty((1, channels, size, size))
                layers = capture_layers(network(name).eval(), inputs)
            variants = [] if name in _WITHOUT_OPERATORS else list(unchanged)
            if size == extent:
                for layout, change in product(layouts, CHANGES.get(name, ())):
                    variants.append(Variant(layout, "float32", change))
            networks = {}
            for variant in variants:
                networks[variant.key] = _capture_scalable(name, size, variant)
            text = msgspec.json.encode(NetworkFile(layers, networks))
            capture_file(name, size).write_bytes(gzip.compress(text, mtime=0))


def _capture_scalable(name: str, image: int, variant: Variant) -> Network:
    """Capture a network at ``CAPTURED_BATCH`` images; papers scale this capture to other batches.

    Raises ``MeasurementError`` if the operators do not grow in proportion to the batch.
    """
    captured = at_batch(name, image, variant, CAPTURED_BATCH)
    if CapturedNetwork(captured).at(3) != at_batch(name, image, variant, 3):
        raise MeasurementError(f"{name}: its operators do not grow in proportion to the batch.")
    return captured


def at_batch(name: str, image: int, variant: Variant, batch: int) -> Network:
    """Capture an inference of ``batch`` images by a variant of a network."""
    channels, channels_last = INPUT_SHAPES[name][0], variant.layout == "channels_last"
    source = Input((batch, channels, image, image), channels_last=channels_last)
    policy = CapturePolicy(autocast=None if variant.precision == "float32" else variant.precision)
    build = with_layout(partial(changed, name, variant.change), "float32", channels_last)
    return capture(build, [source], policy=policy).theory.network
