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
  evaluation mode at batch 1 forward, which gives the geometry of all its layers; ``variant`` is the
  layer with one thing changed, or another layer, of which only memory and executed work are
  measured, not time.
- ``variant``: what is changed (see ``subject``).

Forward calls alone are timed, the layer's under all that glibc can do with freed memory: keep it,
return it by both of its thresholds or by one alone, and, to see which blocks go back, return it
under the eyes of a library that notes them.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import msgspec

from experiments.harness.study import FULL, Factor, Factors, Levels, Policies, Study, Subject

CHANNELS_LAST_BATCHES: Final = range(16, 257)
#: Powers of two, and those between 4 and 8, where glibc begins to return memory.
BATCHES: Final = tuple(sorted({*(2**n for n in range(11)), 5, 6, 7}))
#: The layer, and what is changed of it in each variant but the last, which is another layer.
_LAYER: Final[dict[str, Any]] = {"in_channels": 32, "out_channels": 64, "kernel_size": 3}
_CHANGES: Final[dict[str, dict[str, Any]]] = {
    "no bias": {"bias": False},
    "padding 1": {"padding": 1},
    "33 channels": {"out_channels": 33},
    "depthwise": {"out_channels": 32, "padding": 1, "groups": 32},
}
#: The matrix product behind the linear layer takes other kernels for larger batches.
_VARIED: Final = {**dict.fromkeys(_CHANGES, (1, 2, 8)), "linear 784-10": (1, 2, 8, 64)}

#: Under lackey an image of the layer takes half a second, so that other batches are left out.
_COUNTED: Final = frozenset({1, 2, 8, *range(16, 257)})


def cases(levels: Levels) -> tuple[Factors, ...]:
    """The layer in every pass, layout and batch that goes together, the network, the others."""
    batches = levels["batch"]
    network: Factors = {"subject": "network", "batch": 1, "pass": "forward"}
    every: list[Factors] = [
        {"subject": "layer", "batch": batch, "pass": direction, "layout": layout}
        for layout, direction, batch in product(levels["layout"], levels["pass"], batches)
        if layout == "contiguous" or (direction == "forward" and batch in CHANNELS_LAST_BATCHES)
    ]
    every.append(network)
    if "forward" in levels["pass"] and "contiguous" in levels["layout"]:
        alike: Factors = {"pass": "forward", "layout": "contiguous"}
        every += (
            {"subject": "variant", "variant": name, "batch": batch, **alike}
            for name, batch in product(levels["variant"], batches)
            if batch in _VARIED[str(name)]
        )
    return tuple(case for case in every if case["subject"] in levels["subject"])


def subject(factors: Factors) -> Subject:
    """The layer, the network or a variant, on random images."""
    import torch

    from experiments.networks.chains import mnist_cnn

    name = str(factors.get("variant", factors["subject"]))
    module: torch.nn.Module
    shape: tuple[int, ...]
    match name:
        case "network":
            module, shape = mnist_cnn().eval(), (1, 28, 28)
        case "linear 784-10":
            module, shape = torch.nn.Linear(784, 10), (784,)
        case _:
            module = torch.nn.Conv2d(**{**_LAYER, **_CHANGES.get(name, {})})
            shape = (32, 28, 28) if name == "depthwise" else (32, 26, 26)
    return Subject(
        module,
        torch.randn(int(factors["batch"]), *shape),
        mode=factors["pass"],  # type: ignore[arg-type]
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        name="conv2",
    )


def timed_under(factors: Factors) -> Policies:
    """Forward calls, but those of variants; of all policies the layer that lies by channels."""
    if factors["pass"] != "forward" or factors["subject"] == "variant":
        return "none"
    return "every" if factors.get("layout") == "contiguous" else "main"


def is_counted(factors: Factors) -> bool:
    """Variants, and the layer at some batches."""
    if factors["subject"] == "layer":
        return factors["batch"] in _COUNTED
    return factors["subject"] == "variant"


STUDY: Final = Study(
    name="conv_scaling",
    question="How do the time and the memory of one convolution scale with the batch size?",
    factors=(
        Factor("subject", levels=("layer", "network", "variant"), quick=("layer", "network")),
        Factor("batch", levels=BATCHES, quick=(1, 4, 16, 64), any_count=True),
        Factor("pass", levels=("forward", "forward_backward")),
        Factor("layout", levels=("contiguous", "channels_last")),
        Factor("variant", levels=tuple(_VARIED)),
    ),
    subject=subject,
    cases=cases,
    timed_under=timed_under,
    is_counted=is_counted,
    full=msgspec.structs.replace(
        FULL,
        processes={
            "retained": 8,
            "default": 8,
            "mmap_threshold": 6,
            "trim_threshold": 6,
            "thresholds": 6,
            "jemalloc": 2,
            "traced": 6,
        },
    ),
    # A GPU's counters only replay kernels, so that every case is counted there.
    on_gpu={"full": FULL, "is_counted": None},
)
