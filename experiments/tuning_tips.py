"""Which CPU tuning tips of PyTorch survive?

A case is a tip of PyTorch's performance tuning guide on a network and a batch size.  As in
``experiments compare``, one process times two further processes: the network with the tip, and the
network without the tip.  The tip ``control`` changes nothing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from experiments.harness.study import (
    FULL,
    SEED,
    Experiment,
    Factor,
    Levels,
    Plan,
    Session,
    UnavailableError,
    all_combinations,
)
from report.core.records.layers import Layer
from report.core.records.record import FEWEST_PROCESSES, Factors, SeriesByQuantity

if TYPE_CHECKING:
    from torch import Tensor, nn

    Call: TypeAlias = Callable[[Tensor], Any]

#: Channels, height and width of an image by network.
IMAGES: Final = {"MNIST CNN": (1, 28, 28), "ResNet-20": (3, 32, 32), "MobileNetV2": (3, 64, 64)}
TIPS: Final = (
    "control", "exchanged", "no_grad", "inference_mode", "channels_last", "allocator", "threads",
    "fused", "compiled", "bfloat16", "set_to_none", "in_place", "preallocated", "workers",
    "flush_denormal",
)  # fmt: skip
#: Tips that are also measured with freed memory kept on both sides.
KEPT_TIPS: Final = (
    "control", "exchanged", "no_grad", "channels_last", "fused", "compiled", "bfloat16", "in_place",
)  # fmt: skip
#: Largest relative error of a correct result, in float32 and in bfloat16.
TOLERANCE, TOLERANCE_BFLOAT16 = 1e-3, 0.1
#: Mean and standard deviation for normalising images.
_MEAN, _DEVIATION = 0.1307, 0.3081
#: Images from which batch norms take statistics; parts in which a loader loads a batch.
_PREPARING_IMAGES, _PARTS = 16, 4
#: Numbers of glibc's thresholds (malloc.h) → largest accepted value.
_THRESHOLDS: Final = {-3: 32 * 2**20, -1: 2**31 - 1}


def network(name: str) -> nn.Module:
    """Build a network without active dropout, so that equal seeds produce equal results."""
    from torch import nn

    from experiments.networks import catalogue, chains

    module: nn.Module = chains.mnist_cnn() if name == "MNIST CNN" else catalogue.network(name)
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module


def images(name: str, batch: int, seed: int) -> Tensor:
    """Draw a batch of random images for a network."""
    import torch

    return torch.randn(batch, *IMAGES[name], generator=torch.Generator().manual_seed(seed))


def _prepared(name: str) -> nn.Module:
    """Build a network for inference, with batch norms' statistics from random images.

    New batch norms would not normalize, and the signal would vanish in deep networks.
    """
    import torch
    from torch import nn

    torch.manual_seed(SEED)
    module = network(name)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = 1.0
    with torch.no_grad():
        module(images(name, _PREPARING_IMAGES, SEED))
    return module.eval()


def call_of(tip: str, module: nn.Module, *, applied: bool) -> Call:
    """Return the call of a network with a tip, or (not ``applied``) the call without the tip."""
    import torch

    if applied:
        _change(tip, module)
    call = plain = _in_mode(torch.inference_mode, module)
    match tip, applied:
        case "no_grad", False:
            call = _in_mode(torch.enable_grad, module)
        case ("no_grad", True) | ("inference_mode", False):
            call = _in_mode(torch.no_grad, module)
        case "threads", False:
            torch.set_num_threads(1)
        case "set_to_none", _:
            call = _training(module, to_none=applied)
        case "workers", _:
            call = _loading(plain, workers=int(applied))
        case "preallocated", False:
            return lambda images: plain((images - _MEAN) / _DEVIATION)
        case "preallocated", True:
            buffer = torch.empty(0)  # the first call resizes the buffer
            return lambda images: plain(torch.sub(images, _MEAN, out=buffer).div_(_DEVIATION))
        case "channels_last", True:
            return lambda images: plain(images.contiguous(memory_format=torch.channels_last))
        case "bfloat16", True:
            return lambda images: plain(images.bfloat16()).float()
        case "compiled", True:
            os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
            call = _in_mode(torch.inference_mode, torch.compile(module))
    return call


def _change(tip: str, module: Any) -> None:
    """Apply a tip that changes the network or settings of the process."""
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
            for part in module.modules():
                if isinstance(part, torch.nn.ReLU | torch.nn.ReLU6):
                    part.inplace = True
        case "flush_denormal":
            torch.set_flush_denormal(True)


def _keep_freed_memory() -> None:
    for threshold, largest in _THRESHOLDS.items():
        ctypes.CDLL(None).mallopt(threshold, largest)


def _in_mode(mode: Callable[[], Any], module: Callable[..., Any]) -> Call:
    def call(images: Tensor) -> Any:
        with mode():
            return module(images)

    return call


def _fuse_batch_norms(module: nn.Module) -> None:
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    leaves = [named for named in module.named_modules() if not [*named[1].children()]]
    for (name, layer), (norm_name, norm) in pairwise(leaves):
        if isinstance(layer, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            module.set_submodule(name, fuse_conv_bn_eval(layer, norm))
            module.set_submodule(norm_name, nn.Identity())


def _training(module: nn.Module, *, to_none: bool) -> Call:
    """Return a training step with a rate of zero, so that the parameters do not change."""
    import torch

    optimiser = torch.optim.SGD(module.train().parameters(), lr=0.0)
    *_, last = module.parameters()

    def call(images: Tensor) -> Any:
        optimiser.zero_grad(set_to_none=to_none)
        outputs = module(images)
        labels = torch.arange(len(outputs)) % 10
        loss: Any = torch.nn.functional.cross_entropy(outputs, labels)
        loss.backward()
        optimiser.step()
        return loss, last.grad

    return call


def _loading(plain: Call, workers: int) -> Call:
    """Return a call that loads a batch in parts and computes on one thread, leaving a core free."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    loaders = list[Any]()

    def normalised(samples: list[tuple[Tensor]]) -> Tensor:
        return (torch.stack([image for (image,) in samples]) - _MEAN) / _DEVIATION

    def call(images: Any) -> Any:
        if not loaders:
            data = TensorDataset(images.clone().share_memory_())
            options: Any = {"num_workers": workers, "persistent_workers": workers > 0}
            size = len(images) // _PARTS
            loaders.append(DataLoader(data, size, collate_fn=normalised, **options))
        loaders[0].dataset.tensors[0].copy_(images)
        return torch.cat([plain(part) for part in loaders[0]])

    return call


def cases(levels: Levels) -> tuple[Factors, ...]:
    """Return the combinations in which the tip can change something.

    A network is compiled at one batch size only, since compiling takes long.
    """
    selected = []
    for case in all_combinations(levels):
        without_norms = case["tip"] == "fused" and case["network"] == "MNIST CNN"
        second_batch = case["tip"] == "compiled" and case["batch"] != levels["batch"][-1]
        only_returned = case["memory"] == "kept" and case["tip"] not in KEPT_TIPS
        if not (without_norms or second_batch or only_returned):
            selected.append(case)
    return tuple(selected)


def fill_cache(factors: Factors, session: Session) -> SeriesByQuantity:
    """Compile once before any timing, so that later processes read the code from the disk."""
    if factors["tip"] == "compiled":
        if shutil.which("g++") is None:
            raise UnavailableError("torch.compile needs a C++ compiler, but g++ is not installed")
        name = str(factors["network"])
        call = call_of("compiled", _prepared(name), applied=True)
        call(images(name, int(factors["batch"]), SEED))
    return {}


def times(factors: Factors, session: Session) -> SeriesByQuantity:
    """Time a network with and without the tip, in two separate processes."""
    from experiments.compare.pairs import measure_pair

    tip, name, batch = str(factors["tip"]), str(factors["network"]), int(factors["batch"])
    if tip in ("threads", "workers") and session.threads < 2:
        raise UnavailableError("this tip needs two processors")

    def load(function: str) -> Callable[..., Any]:
        """Return the function that draws images, or the network ``with`` or ``without`` the tip."""
        if function == "images":
            return lambda seed: images(name, batch, seed)
        if function not in ("without", "with"):
            raise LookupError(function)
        if factors["memory"] == "kept":
            _keep_freed_memory()
        call = call_of(tip, _prepared(name), applied=function == "with")
        call(images(name, batch, SEED))  # compiles, or starts workers
        return call

    sides = ("without", "with") if tip == "exchanged" else ("with", "without")
    names = dict(zip(("function", "against"), sides, strict=True))
    names |= {"reference": names["against"], "inputs": "images"}
    tolerance = TOLERANCE_BFLOAT16 if tip == "bfloat16" else TOLERANCE
    return measure_pair({**names, "tolerance": tolerance, "cold": False}, session, load)


def layers(factors: Factors) -> tuple[Layer, ...]:
    """Describe the layers of the network on the meta device, which allocates no memory."""
    import torch

    from experiments.networks.capture import capture_layers

    name, batch = str(factors["network"]), int(factors["batch"])
    with torch.device("meta"):
        module, source = network(name).eval(), torch.empty(batch, *IMAGES[name])
        if factors["tip"] == "bfloat16":
            module, source = module.bfloat16(), source.bfloat16()
        return capture_layers(module, source)


_FULL: Final = msgspec.structs.replace(
    FULL,
    warmup_calls=1,
    minimum_samples=3,
    maximum_samples=20,
    case_budget_s=0.25,
    timer="one call a sample: the judge's time.perf_counter_ns, from its message to the answer",
    processes={"default": 8},
    budget_s=960.0,
)
_QUICK: Final = msgspec.structs.replace(
    _FULL, plan="quick", case_budget_s=0.1, processes={"default": FEWEST_PROCESSES}, budget_s=120.0
)
STUDY = Experiment(
    subject=None,
    factors=(
        Factor("tip", levels=TIPS),
        Factor("network", levels=tuple(IMAGES), quick=("MNIST CNN",)),
        Factor("batch", levels=(4, 32), quick=(4,)),
        Factor("memory", levels=("returned", "kept")),
    ),
    cases=cases,
    name="tuning_tips",
    question="Which CPU tuning tips of PyTorch survive?",
    plan=Plan(
        full=_FULL,
        quick=_QUICK,
        is_counted=False,
        memory=fill_cache,
        times=times,
        layers=layers,
        imports=("torch", "experiments.compare.pairs"),
    ),
)
