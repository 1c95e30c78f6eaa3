"""Which CPU tuning tips of PyTorch survive?

A case applies a tip of PyTorch's performance tuning guide to a network at a batch size.  The
measuring process starts two processes, one with the tip and one without, and times their calls
alternately, as ``python -m experiments compare`` does.  Two tips are checks that change nothing:
``control``, and ``exchanged``, where the two processes swap their roles.  The factor ``memory``
says whether freed memory is ``returned`` to the system or ``kept``, in both processes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from experiments.harness import study
from report.core.records.layers import Layer
from report.core.records.record import FEWEST_PROCESSES, Factors, SeriesByQuantity

if TYPE_CHECKING:
    from torch import Tensor, nn

    Call: TypeAlias = Callable[[Tensor], Any]

#: Network → channels, height and width of an image.
IMAGES: Final = {"MNIST CNN": (1, 28, 28), "ResNet-20": (3, 32, 32), "MobileNetV2": (3, 64, 64)}
#: Names of the tips in records, each with what the tip changes.
TIPS: Final = (
    "control",  # nothing
    "exchanged",  # nothing, with the two processes in swapped roles
    "no_grad",  # no gradients, compared with recorded gradients
    "inference_mode",  # torch.inference_mode, compared with no_grad
    "channels_last",  # memory layout of images and weights
    "allocator",  # glibc keeps freed memory
    "threads",  # all threads, compared with one
    "fused",  # batch norms become part of the convolutions before them
    "compiled",  # torch.compile
    "bfloat16",  # type of images and weights
    "set_to_none",  # a training step deletes old gradients, compared with setting them to zero
    "in_place",  # ReLUs overwrite their inputs
    "preallocated",  # images are normalised into one buffer, compared with new tensors
    "workers",  # images are loaded by another process, compared with the same process
    "flush_denormal",  # denormal numbers become zero
)
#: Tips that are also measured with freed memory kept in both processes.
KEPT_TIPS: Final = (
    "control", "exchanged", "no_grad", "channels_last", "fused", "compiled", "bfloat16", "in_place",
)  # fmt: skip
#: Largest relative errors of a correct result, in float32 and in bfloat16.
TOLERANCE, TOLERANCE_BFLOAT16 = 1e-3, 0.1
#: Mean and standard deviation for normalising images, from PyTorch's MNIST example.
_MEAN, _DEVIATION = 0.1307, 0.3081
#: Number of random images from which batch norms compute their statistics.
_STATISTICS_IMAGES: Final = 16
#: Number of parts in which a data loader loads a batch.
_LOADED_PARTS: Final = 4
#: Number of mallopt(3)'s parameter for the mapping and for the trimming threshold → largest
#: accepted value (B).
_THRESHOLDS: Final = {-3: 32 * 2**20, -1: 2**31 - 1}


def build_network(name: str) -> nn.Module:
    """Build a network without active dropout, so that equal seeds produce equal results."""
    from torch import nn

    from experiments.networks import catalogue, chains

    module: nn.Module = chains.mnist_cnn() if name == "MNIST CNN" else catalogue.build_network(name)
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return module


def draw_images(name: str, batch: int, seed: int) -> Tensor:
    """Draw a batch of random images for a network."""
    import torch

    return torch.randn(batch, *IMAGES[name], generator=torch.Generator().manual_seed(seed))


def _build_for_inference(name: str) -> nn.Module:
    """Build a network in evaluation mode, with batch norms' statistics from random images.

    With their initial statistics, batch norms would not normalize, so that activations would vanish
    in deep networks.
    """
    import torch
    from torch import nn

    torch.manual_seed(study.SEED)
    module = build_network(name)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0  # statistics come from the last batch only
    with torch.no_grad():
        module(draw_images(name, _STATISTICS_IMAGES, study.SEED))
    return module.eval()


def call_of(tip: str, module: nn.Module, *, applied: bool) -> Call:
    """Return a call of a network with the tip if ``applied``, else the call without the tip.

    If ``applied``, this process and ``module`` are changed too, as the tip says.
    """
    import torch

    if applied:
        _change_process(tip, module)
    call = inference = _in_mode(torch.inference_mode, module)
    match tip, applied:
        case "no_grad", False:
            call = _in_mode(torch.enable_grad, module)
        case ("no_grad", True) | ("inference_mode", False):
            call = _in_mode(torch.no_grad, module)
        case "threads", False:
            torch.set_num_threads(1)
        case "set_to_none", _:
            call = _training_step(module, to_none=applied)
        case "workers", _:
            call = _call_with_loader(inference, workers=int(applied))
        case "preallocated", False:
            return lambda images: inference((images - _MEAN) / _DEVIATION)
        case "preallocated", True:
            buffer = torch.empty(0)  # the first call resizes the buffer
            return lambda images: inference(torch.sub(images, _MEAN, out=buffer).div_(_DEVIATION))
        case "channels_last", True:
            return lambda images: inference(images.contiguous(memory_format=torch.channels_last))
        case "bfloat16", True:
            return lambda images: inference(images.bfloat16()).float()
        case "compiled", True:
            os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
            call = _in_mode(torch.inference_mode, torch.compile(module))
    return call


def _change_process(tip: str, module: Any) -> None:
    """Apply a tip that changes the network or settings of the process; ignore other tips."""
    import torch

    match tip:
        case "channels_last":
            module.to(memory_format=torch.channels_last)
        case "allocator":
            _keep_freed_memory()
        case "fused":
            _fuse_batch_norms(module)
        case "bfloat16":
            module.bfloat16()
        case "in_place":
            for layer in module.modules():
                if isinstance(layer, torch.nn.ReLU | torch.nn.ReLU6):
                    layer.inplace = True
        case "flush_denormal":
            torch.set_flush_denormal(True)


def _keep_freed_memory() -> None:
    """Let glibc keep freed memory in this process."""
    for parameter, largest_value in _THRESHOLDS.items():
        ctypes.CDLL(None).mallopt(parameter, largest_value)


def _in_mode(mode: Callable[[], Any], module: Callable[..., Any]) -> Call:
    """Return a call of ``module`` under a mode such as ``torch.no_grad``."""

    def call(images: Tensor) -> Any:
        with mode():
            return module(images)

    return call


def _fuse_batch_norms(module: nn.Module) -> None:
    """Fuse each batch norm into the convolution directly before it."""
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    layers = [(name, child) for name, child in module.named_modules() if not [*child.children()]]
    for (name, layer), (next_name, next_layer) in pairwise(layers):
        if isinstance(layer, nn.Conv2d) and isinstance(next_layer, nn.BatchNorm2d):
            module.set_submodule(name, fuse_conv_bn_eval(layer, next_layer))
            module.set_submodule(next_name, nn.Identity())


def _training_step(module: nn.Module, *, to_none: bool) -> Call:
    """Return a training step with a learning rate of zero, so that the parameters do not change.

    The step begins by deleting the gradients if ``to_none``, else by setting them to zero.
    """
    import torch

    optimiser = torch.optim.SGD(module.train().parameters(), lr=0.0)
    *_, last_parameter = module.parameters()

    def call(images: Tensor) -> Any:
        optimiser.zero_grad(set_to_none=to_none)
        outputs = module(images)
        labels = torch.arange(len(outputs)) % 10
        loss: Any = torch.nn.functional.cross_entropy(outputs, labels)
        loss.backward()
        optimiser.step()
        return loss, last_parameter.grad

    return call


def _call_with_loader(inference: Call, workers: int) -> Call:
    """Return a call that loads a batch in parts, and calls ``inference`` on each part.

    This process computes on one thread, so that a core is free for a worker process.
    """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    loaders = list[Any]()  # at most one, created in the first call

    def normalise(samples: list[tuple[Tensor]]) -> Tensor:
        return (torch.stack([image for (image,) in samples]) - _MEAN) / _DEVIATION

    def call(images: Any) -> Any:
        if not loaders:
            data = TensorDataset(images.clone().share_memory_())
            options: Any = {"num_workers": workers, "persistent_workers": workers > 0}
            size = len(images) // _LOADED_PARTS
            loaders.append(DataLoader(data, size, collate_fn=normalise, **options))
        loaders[0].dataset.tensors[0].copy_(images)  # in memory that the worker shares
        return torch.cat([inference(part) for part in loaders[0]])

    return call


def cases(levels: study.Levels) -> tuple[Factors, ...]:
    """Return the combinations that are measured.

    The MNIST CNN has no batch norms to fuse.  Networks are compiled only at the last batch size,
    because compiling takes long.  Only ``KEPT_TIPS`` are measured with memory kept.
    """
    selected = []
    for case in study.all_combinations(levels):
        has_no_norms = case["tip"] == "fused" and case["network"] == "MNIST CNN"
        is_second_compilation = case["tip"] == "compiled" and case["batch"] != levels["batch"][-1]
        needs_returned = case["memory"] == "kept" and case["tip"] not in KEPT_TIPS
        if not (has_no_norms or is_second_compilation or needs_returned):
            selected.append(case)
    return tuple(selected)


def fill_cache(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Compile before any timing, so that later processes read compiled code from the disk.

    Raises ``UnavailableError`` for the tip ``compiled`` without g++.
    """
    if factors["tip"] == "compiled":
        if shutil.which("g++") is None:
            raise study.UnavailableError(
                "torch.compile needs a C++ compiler, but g++ is not installed"
            )
        name = str(factors["network"])
        call = call_of("compiled", _build_for_inference(name), applied=True)
        call(draw_images(name, int(factors["batch"]), study.SEED))
    return {}


def times(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time a network with and without the tip, in two separate processes.

    Raises ``UnavailableError`` if the tip needs a second processor.
    """
    from experiments.compare.pairs import measure_pair

    tip, name, batch = str(factors["tip"]), str(factors["network"]), int(factors["batch"])
    if tip in ("threads", "workers") and session.threads < 2:
        raise study.UnavailableError("this tip needs two processors")

    def load(function: str) -> Callable[..., Any]:
        """Return the function that draws ``images``, or a call ``with`` or ``without`` the tip."""
        if function == "images":
            return lambda seed: draw_images(name, batch, seed)
        if function not in ("without", "with"):
            raise LookupError(function)
        if factors["memory"] == "kept":
            _keep_freed_memory()
        call = call_of(tip, _build_for_inference(name), applied=function == "with")
        call(draw_images(name, batch, study.SEED))  # compiles, or starts workers
        return call

    compared, baseline = ("without", "with") if tip == "exchanged" else ("with", "without")
    names = {"function": compared, "against": baseline, "reference": baseline, "inputs": "images"}
    tolerance = TOLERANCE_BFLOAT16 if tip == "bfloat16" else TOLERANCE
    return measure_pair({**names, "tolerance": tolerance, "cold": False}, session, load)


def layers(factors: Factors) -> tuple[Layer, ...]:
    """Describe the layers of the network on the meta device, which allocates no memory."""
    import torch

    from experiments.networks.capture import capture_layers

    name, batch = str(factors["network"]), int(factors["batch"])
    with torch.device("meta"):
        module, images = build_network(name).eval(), torch.empty(batch, *IMAGES[name])
        if factors["tip"] == "bfloat16":
            module, images = module.bfloat16(), images.bfloat16()
        return capture_layers(module, images)


_FULL: Final = msgspec.structs.replace(
    study.FULL,
    warmup_calls=1,
    minimum_samples=3,
    maximum_samples=20,
    case_budget_s=0.25,
    # Records contain this text.  The judge is the process that measures two other processes.
    timer="one call a sample: the judge's time.perf_counter_ns, from its message to the answer",
    processes={"default": 8},
    budget_s=960.0,
)
_QUICK: Final = msgspec.structs.replace(
    _FULL, plan="quick", case_budget_s=0.1, processes={"default": FEWEST_PROCESSES}, budget_s=120.0
)
STUDY = study.Experiment(
    subject=None,
    factors=(
        study.Factor("tip", levels=TIPS),
        study.Factor("network", levels=tuple(IMAGES), quick=("MNIST CNN",)),
        study.Factor("batch", levels=(4, 32), quick=(4,)),
        study.Factor("memory", levels=("returned", "kept")),
    ),
    cases=cases,
    name="tuning_tips",
    question="Which CPU tuning tips of PyTorch survive?",
    plan=study.Plan(
        full=_FULL,
        quick=_QUICK,
        counts_work=False,
        memory=fill_cache,
        times=times,
        layers=layers,
        imports=("torch", "experiments.compare.pairs"),
    ),
)
