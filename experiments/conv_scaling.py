"""How one convolution scales with the batch size.

The layer is the second convolution of PyTorch's MNIST example, ``Conv2d(32, 64, 3, 1)`` on
``(batch, 32, 26, 26)`` in float32, with random weights and inputs from a fixed seed.  Factors:

- ``batch``: images a call.
- ``pass``: ``forward`` is one call under ``torch.no_grad()`` (not ``inference_mode``);
  ``forward_backward`` is one call with gradients on and ``output.backward(gradient)`` with a fixed
  random gradient, the input requiring its gradient too, as it does inside the network; gradients
  are dropped before each call, so that none is accumulated.
- ``layout``: how the input, the weights and so the output lie in memory, ``contiguous`` (NCHW) or
  ``channels_last`` (NHWC), the latter forward only, from batch 16 to 256.
- ``subject``: ``layer`` for the cases above; ``network`` is one case, the whole network in
  evaluation mode at batch 1 forward, which gives the geometry of all its layers; ``avx2`` is the
  layer computed without wider vectors than AVX2's, those of the processor that lackey plays, of
  which only time is measured; ``variant`` is the layer with one thing changed, or another layer, of
  which only memory and executed work are measured, not time.
- ``variant``: what is changed (see ``_variant``).

Of some cases the log of one call lies beside the record: oneDNN's primitives, with the instructions
that the processor has and with AVX2's.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

from experiments.harness import passes, primitives, quantity_groups
from experiments.harness.measure import measure_memory, measure_time
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import (
    SEED,
    CaseFile,
    Counting,
    Device,
    Factor,
    Factors,
    Levels,
    Session,
    Study,
)
from experiments.harness.worker import can_fork
from experiments.harness.workload import Workload
from report.records.layers import Layer
from report.records.record import Series

if TYPE_CHECKING:
    import torch
    from torch import nn

CHANNELS_LAST_BATCHES: Final = range(16, 257)
#: Batches at which the layer is timed with AVX2 alone.
AVX2_BATCHES: Final = (1, 8, 64, 256)
#: The batch at which oneDNN's primitives are logged; those for channels_last begin later.
LOGGED_BATCHES: Final = {"contiguous": 8, "channels_last": 64}
#: The matrix product behind a linear layer takes other kernels for larger batches.
VARIANT_BATCHES: Final = {
    "no bias": (1, 2, 8),
    "padding 1": (1, 2, 8),
    "33 channels": (1, 2, 8),
    "depthwise": (1, 2, 8),
    "linear 784-10": (1, 2, 8, 64),
}

#: Multiply-adds of one image, about, by what is run; they only tell how long counting takes.
_IMAGE: Final = {"layer": 10_616_832, "depthwise": 215_168, "linear 784-10": 12_544}
#: Under lackey an image of the layer takes half a second.  What is counted of it, up to which batch
#: it is called twice, and up to which at all, unless all is asked for.  On a GPU every case is
#: counted, since its counters only replay kernels.
_COUNTED: Final = frozenset({1, 2, 8, *range(16, 257)})
_TWICE_UP_TO: Final = 16
_ONCE_UP_TO: Final = {"contiguous": 64, "channels_last": 32}


def cases(levels: Levels) -> tuple[Factors, ...]:
    """The layer in every pass, layout and batch that goes together, the network, the others."""
    found: list[Factors] = []
    if "layer" in levels["subject"]:
        found += _layer_cases(levels)
    if "network" in levels["subject"]:
        found.append({"subject": "network", "batch": 1, "pass": "forward"})
    if "avx2" in levels["subject"] and "contiguous" in levels["layout"]:
        found += [
            {"subject": "avx2", "batch": batch, "pass": direction, "layout": "contiguous"}
            for direction, batch in product(levels["pass"], levels["batch"])
            if batch in AVX2_BATCHES
        ]
    if "variant" in levels["subject"]:
        found += _variant_cases(levels)
    return tuple(found)


def cases_on_gpu(levels: Levels) -> tuple[Factors, ...]:
    """All but those that choose a processor's instructions."""
    return tuple(case for case in cases(levels) if case["subject"] != "avx2")


def _layer_cases(levels: Levels) -> list[Factors]:
    return [
        {"subject": "layer", "batch": batch, "pass": direction, "layout": layout}
        for layout, direction, batch in product(levels["layout"], levels["pass"], levels["batch"])
        if layout == "contiguous" or (direction == "forward" and batch in CHANNELS_LAST_BATCHES)
    ]


def _variant_cases(levels: Levels) -> list[Factors]:
    return [
        {
            "subject": "variant",
            "variant": name,
            "batch": batch,
            "pass": "forward",
            "layout": "contiguous",
        }
        for name, batch in product(levels["variant"], levels["batch"])
        if batch in VARIANT_BATCHES[str(name)]
        and "forward" in levels["pass"]
        and "contiguous" in levels["layout"]
    ]


def layers(factors: Factors) -> tuple[Layer, ...]:
    """The layers of a case, found on the meta device: no memory is needed, whatever the batch."""
    import torch

    from experiments.harness.capture import layers_of

    with torch.device("meta"):
        module, shape = _subject(factors)
        return layers_of(module, torch.empty(shape), root="conv2")


def measure_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Memory of one case; raises what torch raises, and ``UnavailableError`` without AVX-512."""
    if factors["subject"] == "avx2":
        _require_wider(session)
        return ()
    return measure_memory(lambda: build(factors, session.device), session)


def time_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Times of one case in this process; raises what torch raises."""
    if factors["subject"] == "avx2":
        os.environ.update(primitives.AVX2)  # in a child that has not used oneDNN yet
    return measure_time(lambda: build(factors, session.device), session)


def _require_wider(session: Session) -> None:
    """Raise ``UnavailableError`` where AVX2 is no restriction, or cannot be made one."""
    import torch

    if not can_fork(session.device):
        raise UnavailableError("Instructions are chosen a process, and here cases share one.")
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        raise UnavailableError("This processor has no wider vectors than AVX2's.")


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """What oneDNN tells of a call, with all instructions and with AVX2's alone."""
    if session.device != "cpu" or not _is_logged(factors):
        return ()
    return primitives.log_files(log_case, factors, session)


def _is_logged(factors: Factors) -> bool:
    if factors["subject"] not in {"layer", "variant"} or factors.get("variant") == "linear 784-10":
        return False
    return factors["batch"] == LOGGED_BATCHES[str(factors["layout"])]


def log_case(factors: Factors, session: Session) -> bytes:
    """oneDNN's lines on one call in this process, which has ``primitives.VERBOSE``."""
    return primitives.log_of(session, lambda: build(factors, session.device))


def build(factors: Factors, device: Device) -> Workload:
    """Module and input on ``device``, the same values every time."""
    import torch

    from experiments.networks import mnist

    torch.manual_seed(SEED)
    with torch.device(device):
        module, shape = _subject(factors)
        if factors["pass"] == "forward":
            return passes.forward(*_laid_out(module, torch.randn(shape), factors))
        source = torch.randn(shape, requires_grad=True)
        gradient = torch.randn(shape[0], *mnist.SECOND_CONVOLUTION_OUTPUT_SHAPE)
        return passes.forward_backward(module, source, gradient)


def _laid_out(
    module: nn.Module, source: torch.Tensor, factors: Factors
) -> tuple[nn.Module, torch.Tensor]:
    """The same values in the layout of the case; the network's cases name none."""
    import torch

    if factors.get("layout") != "channels_last":
        return module, source
    layout = torch.channels_last
    return module.to(memory_format=layout), source.contiguous(memory_format=layout)  # type: ignore[call-overload]


def _subject(factors: Factors) -> tuple[nn.Module, tuple[int, ...]]:
    """The module and the shape of its input."""
    from experiments.networks import mnist

    batch = int(factors["batch"])
    if factors["subject"] == "variant":
        module, shape = _variant(str(factors["variant"]))
        return module, (batch, *shape)
    if factors["subject"] == "network":
        return mnist.mnist_cnn().eval(), (batch, *mnist.INPUT_SHAPE)
    return mnist.second_convolution(), (batch, *mnist.SECOND_CONVOLUTION_INPUT_SHAPE)


def _variant(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """The module that a variant names, and the shape of one input."""
    from torch import nn

    from experiments.networks.mnist import SECOND_CONVOLUTION_INPUT_SHAPE as SHAPE

    match name:
        case "no bias":
            return nn.Conv2d(32, 64, 3, 1, bias=False), SHAPE
        case "padding 1":
            return nn.Conv2d(32, 64, 3, 1, padding=1), SHAPE
        case "33 channels":
            return nn.Conv2d(32, 33, 3, 1), SHAPE
        case "depthwise":
            return nn.Conv2d(32, 32, 3, 1, padding=1, groups=32), (32, 28, 28)
        case "linear 784-10":
            return nn.Linear(784, 10), (784,)
    raise ValueError(f"there is no variant {name!r}")


def effort(factors: Factors) -> float:
    """Small batches last about equally long, large ones in proportion to their size."""
    if factors["subject"] in {"variant", "avx2"}:
        return 2.0
    direction = 3.0 if factors["pass"] == "forward_backward" else 1.0
    return direction * max(64.0, float(factors["batch"]))


def multiply_adds(factors: Factors) -> int:
    """Those expected of one call, about."""
    image = _IMAGE.get(str(factors.get("variant")), _IMAGE["layer"])
    return image * (3 if factors["pass"] == "forward_backward" else 1) * int(factors["batch"])


def calls(factors: Factors, thorough: bool) -> int:
    """How often a case is called while its multiply-adds are counted: small ones twice.

    Without ``thorough`` the largest are called once or left out, so that a full plan stays within
    minutes.
    """
    batch = int(factors["batch"])
    if factors["subject"] == "variant":
        return 2
    backward = factors["pass"] == "forward_backward"
    if (
        factors["subject"] in {"network", "avx2"}
        or batch not in _COUNTED
        or (backward and batch > 8)
    ):
        return 0
    if thorough or batch <= _TWICE_UP_TO:
        return 2
    return 1 if batch <= _ONCE_UP_TO[str(factors["layout"])] else 0


_ON_CPU: Final = Study(
    name="conv_scaling",
    question="How do the time and the memory of one convolution scale with the batch size?",
    factors=(
        Factor(
            "subject", levels=("layer", "network", "avx2", "variant"), quick=("layer", "network")
        ),
        Factor(
            "batch",
            levels=tuple(2**n for n in range(11)),
            quick=(1, 4, 16, 64),
            any_count=True,
        ),
        Factor(
            "pass", levels=("forward", "forward_backward"), quick=("forward", "forward_backward")
        ),
        Factor(
            "layout",
            levels=("contiguous", "channels_last"),
            quick=("contiguous", "channels_last"),
        ),
        Factor("variant", levels=tuple(VARIANT_BATCHES), quick=tuple(VARIANT_BATCHES)),
    ),
    measures=(
        *quantity_groups.TIME,
        *quantity_groups.MEMORY,
        *quantity_groups.COUNTED_WORK,
    ),
    cases=cases,
    layers=layers,
    measure=measure_case,
    timed=time_case,
    is_timed=lambda factors: factors["subject"] != "variant",
    effort=effort,
    files=files,
    counting=Counting(
        workload=build,
        multiply_adds=multiply_adds,
        calls=calls,
        warm_up={
            "subject": "layer",
            "batch": 1,
            "pass": "forward_backward",
            "layout": "contiguous",
        },
    ),
)

STUDY: Final = replace(_ON_CPU, on_gpu=replace(_ON_CPU, cases=cases_on_gpu))
