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
- ``variant``: what is changed (see ``_layer``).

Of some cases the log of one call lies beside the record: oneDNN's primitives, with the instructions
that the processor has and with AVX2's.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from experiments.harness import primitives
from experiments.harness.measure import build, measure_memory, measure_time
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import Factor, Factors, Levels, Results, Session, Study, Subject
from experiments.harness.worker import can_fork

if TYPE_CHECKING:
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

#: Under lackey an image of the layer takes half a second, so that other batches are left out.
_COUNTED: Final = frozenset({1, 2, 8, *range(16, 257)})


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


def subject(factors: Factors) -> Subject:
    """The layer, the network or a variant, on random images."""
    import torch

    from experiments.networks import mnist

    module: nn.Module
    shape: tuple[int, ...]
    batch, name = int(factors["batch"]), str(factors.get("variant", factors["subject"]))
    if name == "network":
        module, shape = mnist.mnist_cnn().eval(), mnist.INPUT_SHAPE
    else:
        module, shape = _layer(name)
    return Subject(
        module,
        torch.randn(batch, *shape),
        mode=factors["pass"],  # type: ignore[arg-type]
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        name="conv2",
    )


def _layer(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """The layer or the variant of this name, and the shape of one input."""
    from torch import nn

    from experiments.networks import mnist

    shape = mnist.SECOND_CONVOLUTION_INPUT_SHAPE
    match name:
        case "no bias":
            return nn.Conv2d(32, 64, 3, 1, bias=False), shape
        case "padding 1":
            return nn.Conv2d(32, 64, 3, 1, padding=1), shape
        case "33 channels":
            return nn.Conv2d(32, 33, 3, 1), shape
        case "depthwise":
            return nn.Conv2d(32, 32, 3, 1, padding=1, groups=32), (32, 28, 28)
        case "linear 784-10":
            return nn.Linear(784, 10), (784,)
    return mnist.second_convolution(), shape


def memory(factors: Factors, session: Session) -> Results:
    """Memory of one case, and oneDNN's logs of some; without AVX-512 ``UnavailableError``."""
    if factors["subject"] == "avx2":
        _require_wider(session)
        return
    make = partial(build, STUDY, factors, session.device)
    if _is_logged(factors):
        yield from primitives.log_files(make, factors, session)
    yield from measure_memory(make, session)


def times(factors: Factors, session: Session) -> Results:
    """Times of one case in this process."""
    if factors["subject"] == "avx2":
        os.environ.update(primitives.AVX2)  # in a child that has not used oneDNN yet
    return measure_time(partial(build, STUDY, factors, session.device), session)


def _require_wider(session: Session) -> None:
    """Raise ``UnavailableError`` where AVX2 is no restriction, or cannot be made one."""
    import torch

    if not can_fork(session.device):
        raise UnavailableError("Instructions are chosen a process, and here cases share one.")
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        raise UnavailableError("This processor has no wider vectors than AVX2's.")


def _is_logged(factors: Factors) -> bool:
    if factors["subject"] not in {"layer", "variant"} or factors.get("variant") == "linear 784-10":
        return False
    return factors["batch"] == LOGGED_BATCHES[str(factors["layout"])]


def is_counted(factors: Factors, thorough: bool) -> bool:
    """Variants, and the layer at some batches."""
    if factors["subject"] == "layer":
        return factors["batch"] in _COUNTED
    return factors["subject"] == "variant"


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
    subject=subject,
    cases=cases,
    memory=memory,
    times=times,
    is_timed=lambda factors: factors["subject"] != "variant",
    is_counted=is_counted,
)

#: A GPU's counters only replay kernels, so that every case is counted there.
STUDY: Final = replace(
    _ON_CPU,
    on_gpu=replace(_ON_CPU, cases=cases_on_gpu, is_counted=lambda factors, thorough: True),
)
