"""Capture: list the operators that a network calls, with the tensors they read and write.

The theory of work, traffic and memory is computed from this list.  A network runs on fake tensors
(device, shape and layout, but no elements) under a recorder that sees every operator.  Python code
holds fake tensors as long as it would hold real ones, so the recorder sees storages freed between
the same operators.  Nothing is computed or allocated.
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

from experiments.harness.timing import garbage_collection_off
from experiments.networks.capture import capture_layers
from experiments.networks.catalogue import CHANGES, INPUT_SHAPES, build_network
from experiments.theory.captures import (
    DEFAULT_POLICY,
    Build,
    Capture,
    CapturePolicy,
    Input,
    Optimizer,
)
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
from report.theory.conditions import Conditions, Layout, vector_channels
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
#: A forward pass may call twice as many operators as the pass at the probe's batch size, plus this.
_EXTRA_OPERATORS: Final = 1000
#: Networks whose layers appear in papers, but not their operators.
_LAYERS_ONLY: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: Network → image sizes (pixels per side) at which papers use it, besides the network's own size.
_FURTHER_SIZES: Final = {"ResNet-20": (224,), **dict.fromkeys(_LAYERS_ONLY, (64,))}


def capture(
    build: Build,
    inputs: Sequence[Input],
    *,
    train: bool = False,
    allocator: Options | None = None,
    policy: CapturePolicy = DEFAULT_POLICY,
    probe: Sequence[Input] = (),
) -> Capture:
    """Capture the operators of a call in evaluation mode without gradients, or of a training step.

    A training step has a forward pass, loss (see ``_loss``), backward pass and update.  The network
    first runs on the ``probe`` (the inputs at a small batch), unless it is empty, then twice on the
    inputs.  The first run allocates the optimiser's state; the second is captured.  A third forward
    pass must call the same operators.  With ``allocator`` options, the operators are those that a
    GPU runs, as far as this is known without a GPU.

    Raises ``MeasurementError`` if the network cannot be built, is quantised, lacks a module of
    ``policy.checkpoint``, needs the values of tensors, cannot run on these inputs, calls many more
    operators than on the probe, calls other operators in the third pass, or computes in other
    threads.  Also raises it for autocast on a GPU that is missing.
    """
    gpu = allocator is not None
    device = _fake_device(gpu, policy)
    module, compiled = _without_compile(build_module(build).train(train))
    _apply_checkpoints(module, policy.checkpoint)
    step = ReplayedStep(module, policy, gpu=gpu, trains=train)
    recorder, probe_recorder = _record_step(step, inputs, probe, device)
    recurrent: tuple[str, ...] = ()
    for name, member in module.named_modules():
        if isinstance(member, nn.RNNBase | nn.RNNCellBase):
            recurrent += (name or type(member).__name__,)
    theory = Theory(
        network=recorder.network(),
        conditions=Conditions(
            threads=torch.get_num_threads(),
            channels_per_block=vector_channels(torch.backends.cpu.get_cpu_capability()),
            has_tiles=torch.cpu._is_amx_tile_supported(),
            allocator=allocator,
        ),
        history=recorder.history,
        # Only a capture on a GPU shows which operators recurrent modules call there.
        modules_replaced_on_gpu=recurrent if device.type == "cpu" else (),
        compiled=compiled,
        classes={name: type(member).__name__ for member, name in module_names(module).items()},
    )
    return Capture(theory, recorder.flops, tuple(probe_recorder.operators))


def _record_step(
    step: "ReplayedStep", inputs: Sequence[Input], probe: Sequence[Input], device: torch.device
) -> tuple[Recorder, Recorder]:
    """Run a pass on ``probe``, then a step; return the recorders of the step and of the pass."""
    mode, module = FakeMode(), step.module
    recorder, probe_recorder, third_recorder = Recorder(step), Recorder(step), Recorder(step)
    try:
        own_tensors = (*module.parameters(), *module.buffers())
        if any(nn.parameter.is_lazy(tensor) for tensor in own_tensors):
            with torch.no_grad():  # a call on the module's own device gives lazy tensors a shape
                module(*(item.tensor(own_tensors[0].device) for item in inputs))
        make_fake(module, mode, device)
        meta = torch.device("meta")
        tensors = [FakeTensor(mode, item.tensor(meta), device) for item in inputs]
        probe_tensors = [FakeTensor(mode, item.tensor(meta), device) for item in probe]
        with (
            mode,
            torch.compiler.set_stance("force_eager"),
            garbage_collection_off(0),  # tensors are freed with their last reference
            _gpu_operators() if step.gpu and device.type == "cpu" else nullcontext(),
        ):
            if probe_tensors:
                step.record_forward(probe_tensors, probe_recorder)
                limit = 2 * len(probe_recorder.operators) + _EXTRA_OPERATORS
                recorder.forward_limit = step.policy.accumulate * limit
                recorder.batch = inputs[0].batch
            step.record(tensors, recorder)
            step.record_forward(tensors, third_recorder)
        if mode.unseen_operator:
            raise MeasurementError(
                f"The network calls {mode.unseen_operator} in a thread of its own, where no "
                "operator is seen; call it in the thread of the forward pass."
            )
        _refuse_changes(recorder.operators, third_recorder.operators)
    except MeasurementError:
        raise
    except Exception as error:
        place = f" after {recorder.operators[-1].name}" if recorder.operators else ""
        reason = _explain(error)
        raise MeasurementError(f"The network cannot be captured{place}: {reason}") from error
    return recorder, probe_recorder


def _refuse_changes(second: Sequence[Operator], third: Sequence[Operator]) -> None:
    """Raise ``MeasurementError`` if a third forward pass calls other operators than the second."""
    forward = [operator for operator in second if operator.phase == "forward"]
    # A step has several forward passes if it accumulates the gradients of several batches.
    passes = max(1, round(len(forward) / max(1, len(third))))
    for operator, repeated in zip_longest(forward, [*third] * passes):
        if not (operator and repeated and signature(operator) == signature(repeated)):
            before, now = (call.name if call else "nothing" for call in (operator, repeated))
            raise MeasurementError(
                f"The network calls different operators in each call ({now} in place of {before}), "
                "for example because its code is random or counts calls; make all calls equal."
            )


def _fake_device(gpu: bool, policy: CapturePolicy) -> torch.device:
    """Return the device of the fake tensors.

    Without CUDA, PyTorch has no backward pass on a fake GPU, so a fake CPU is used.  Raises
    ``MeasurementError`` for autocast in this case, since a CPU would call other operators.
    """
    has_gpu = gpu and torch.cuda.is_available()
    if gpu and not has_gpu and policy.autocast:
        raise MeasurementError(
            "autocast computes other operators on a GPU than on a processor; capture the network "
            "where PyTorch has a GPU, or set the type of all tensors (--dtype)."
        )
    return torch.device("cuda" if has_gpu else "cpu")


def _gpu_operators() -> AbstractContextManager[object]:
    """Replace functions for which a fake CPU, which represents a GPU, calls a CPU's operators."""

    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        """Call the fused operator, as a GPU does; return its output without its mask."""
        return torch.native_dropout(input, p, True)[0] if training and 0 < p < 1 else input

    def attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:  # fmt: skip
        """Call memory-efficient attention, which all GPUs have, and return its output."""
        # Where a GPU calls flash attention, as many bytes are kept for the backward pass.
        trains = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        call = torch.ops.aten._scaled_dot_product_efficient_attention
        return call(query, key, value, attn_mask, trains, dropout_p, is_causal, scale=scale)[0]

    functions = {"dropout": dropout, "scaled_dot_product_attention": attention}
    return patch.multiple(nn.functional, **functions)


def _apply_checkpoints(module: nn.Module, names: Sequence[str]) -> None:
    """Let the backward pass recompute activations of the modules ``names``."""
    members = dict(module.named_modules())
    for name in names:
        if name not in members or not name:
            names_of_children = ", ".join(child for child, _ in module.named_children())
            raise MeasurementError(f"No module {name!r}; the network has {names_of_children}.")
        member = members[name]
        member.forward = partial(  # type: ignore[method-assign]
            checkpoint, member.forward, use_reentrant=False, preserve_rng_state=False
        )


def _without_compile(module: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the module without ``torch.compile``, and the names of compiled modules.

    Raises ``MeasurementError`` for quantised modules, since their weights are not parameters.
    """
    # ``torch.compile`` wraps a module, which stays in ``_orig_mod``.
    compiled = ["the network"] if hasattr(module, "_orig_mod") else []
    module = getattr(module, "_orig_mod", module)
    for name, member in list(module.named_modules()):
        if type(member).__module__.startswith("torch.ao.nn.quantized"):
            title = name or "The network"
            raise MeasurementError(f"{title} is quantised; give the network before quantisation.")
        if member._compiled_call_impl is not None:
            member._compiled_call_impl = None
            compiled.append(name or "the network")
        for child_name, child in list(member.named_children()):
            if hasattr(child, "_orig_mod"):
                setattr(member, child_name, child._orig_mod)
                compiled.append(f"{name}.{child_name}".strip("."))
    return module, tuple(compiled)


def _explain(error: Exception) -> str:
    """Return the reason why a network cannot run on fake tensors, with advice if there is any."""
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


def build_module(build: Build) -> nn.Module:
    """Build the module on the meta device or, if that fails, in memory.

    Raises ``MeasurementError`` if both fail.
    """
    try:
        with torch.device("meta"):
            return build()
    except Exception:
        pass
    try:
        return build()
    except Exception as error:
        raise MeasurementError(f"The network cannot be built: {_explain(error)}") from error


@dataclass
class ReplayedStep:
    """A call of a module in evaluation mode or, if ``trains``, a training step; it runs repeatedly.

    ``gpu`` selects PyTorch's defaults on a GPU.  ``phase`` is the pass that runs now, or the
    update.  ``gradient`` is the gradient with which the backward pass begins if there is no loss.
    """

    module: nn.Module
    policy: CapturePolicy
    gpu: bool
    trains: bool = True
    optimizer: Any = None
    phase: Phase = "forward"
    gradient: torch.Tensor | None = None

    def record_forward(self, tensors: Sequence[torch.Tensor], recorder: Recorder) -> None:
        """Record a forward pass without a step."""
        recorder.begin(tensors)
        with recorder:
            self.forward(tensors)

    def record(self, tensors: Sequence[torch.Tensor], recorder: Recorder) -> None:
        """Run two steps and record the second; on a GPU, the recorder's history has the first."""
        recorder.begin(tensors, records=self.gpu)
        with recorder:
            self.prepare(tensors)
        recorder.restart(self.state())
        with recorder, recorder.tracking_modules():
            self.run(tensors)

    def prepare(self, tensors: Sequence[torch.Tensor]) -> None:
        """Create the optimiser, and run a first step, which allocates gradients and its state."""
        if self.trains and not self.policy.gradients_only:
            trained = [p for p in self.module.parameters() if p.requires_grad]
            method = self.policy.update_on(self.gpu)
            options = {} if method == "single" else {method: True}
            self.optimizer = _OPTIMIZERS[self.policy.optimizer](trained, **options)
        self.run(tensors)

    def state(self) -> Iterator[torch.Tensor]:
        """Yield the tensors that remain after a step: optimiser state and gradients.

        For a GPU, step counts that PyTorch keeps on the CPU are omitted.
        """
        for state in self.optimizer.state.values() if self.optimizer else ():
            for name, value in state.items():
                is_fused = self.policy.update_on(self.gpu) == "fused"
                is_kept_on_cpu = self.gpu and name == "step" and not is_fused
                if isinstance(value, torch.Tensor) and not is_kept_on_cpu:
                    yield value
        yield from (p.grad for p in self.module.parameters() if p.grad is not None)
        if self.gradient is not None:
            yield self.gradient

    def forward(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Call the module; return its result, or the loss if there is one."""
        cast: AbstractContextManager[object] = nullcontext()
        if self.policy.autocast is not None:
            dtype = getattr(torch, self.policy.autocast)
            cast = torch.autocast(tensors[0].device.type, dtype)
        with torch.set_grad_enabled(self.trains), cast:
            result = self.module(*tensors)
            return _loss(result) if self.trains and not self.policy.gradients_only else result

    def run(self, tensors: Sequence[torch.Tensor]) -> None:
        """Call the module or, if ``trains``, drop gradients, run both passes and update."""
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
            # The decorators of ``step`` are skipped; they serve profiling and PyTorch's compiler.
            inspect.unwrap(type(self.optimizer).step)(self.optimizer)

    def _differentiate(self, tensors: Sequence[torch.Tensor]) -> None:
        """Run both passes; all runs begin the backward pass with the same gradient (all ones)."""
        for tensor in tensors:
            tensor.grad = None
            tensor.requires_grad_(tensor.is_floating_point())
        result = self.forward(tensors)
        if self.gradient is None:
            self.gradient = torch.ones_like(result)
        self.phase = "backward"
        result.backward(self.gradient)


def _loss(result: object) -> torch.Tensor:
    """Return the cross entropy of a matrix of scores, else the sum of the means of all results.

    Raises ``MeasurementError`` if no result has floating-point numbers.
    """
    if isinstance(result, torch.Tensor) and result.dim() == 2:
        labels = torch.zeros(result.shape[0], dtype=torch.int64, device=result.device)
        return nn.functional.cross_entropy(result, labels)
    means = [tensor.mean() for tensor in tensors_in(result) if tensor.is_floating_point()]
    if not means:
        raise MeasurementError("The network returns no tensor of floats, so it cannot be trained.")
    return torch.stack(means).sum()


def write_networks() -> None:
    """Write captures of the papers' networks to the files that papers read."""
    layouts: tuple[Layout, ...] = get_args(Layout)
    unchanged_variants = []
    for layout in layouts:
        unchanged_variants += [Variant(layout, "float32"), Variant(layout, "bfloat16")]
    for name, (channels, own_size, _) in INPUT_SHAPES.items():
        for size in (own_size, *_FURTHER_SIZES.get(name, ())):
            with torch.device("meta"):
                inputs = torch.empty((1, channels, size, size))
                layers = capture_layers(build_network(name).eval(), inputs)
            variants = [] if name in _LAYERS_ONLY else list(unchanged_variants)
            if size == own_size:
                for layout, change in product(layouts, CHANGES.get(name, ())):
                    variants.append(Variant(layout, "float32", change))
            networks = {}
            for variant in variants:
                networks[variant.key] = _capture_scalable(name, size, variant)
            text = msgspec.json.encode(NetworkFile(layers, networks))
            capture_file(name, size).write_bytes(gzip.compress(text, mtime=0))


def _capture_scalable(name: str, image: int, variant: Variant) -> Network:
    """Capture a network at ``CAPTURED_BATCH`` images; papers scale this capture to other batches.

    Raises ``MeasurementError`` if the capture, scaled to 3 images, differs from one at 3 images.
    """
    captured = capture_variant(name, image, variant, CAPTURED_BATCH)
    if CapturedNetwork(captured).scale_network(3) != capture_variant(name, image, variant, 3):
        raise MeasurementError(f"{name}: its operators do not grow in proportion to the batch.")
    return captured


def capture_variant(name: str, image: int, variant: Variant, batch: int) -> Network:
    """Capture a call of a network on ``batch`` square images with ``image`` pixels per side.

    ``variant`` sets layout, precision and changed allocations.
    """
    (channels, *_), channels_last = INPUT_SHAPES[name], variant.layout == "channels_last"
    inputs = [Input((batch, channels, image, image), channels_last=channels_last)]
    policy = CapturePolicy(autocast=None if variant.precision == "float32" else variant.precision)
    build = with_layout(partial(build_network, name, variant.change), "float32", channels_last)
    return capture(build, inputs, policy=policy).theory.network
