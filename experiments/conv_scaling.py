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
  evaluation mode at batch 1 forward, which records the geometry of all its layers; ``variant`` is
  the layer with one change, or another layer, measured for memory and executed work, not time.
- ``variant``: the change (see ``subject``).

Only forward calls are timed, the layer's under every policy of glibc for freed memory: keep it,
return it by both thresholds or by one of them, and return it while a library records the blocks.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Final

import msgspec

from experiments.harness.study import (
    FULL,
    QUICK,
    Factor,
    Factors,
    Levels,
    Plan,
    Policies,
    Study,
    Subject,
)
from report.theory.shapes import mnist_conv2

CHANNELS_LAST_BATCHES: Final = range(16, 257)
#: Powers of two, and all batches between 4 and 8, where glibc begins to return memory.
BATCHES: Final = tuple(sorted({*(2**n for n in range(11)), 5, 6, 7}))
#: Variant → changed arguments of the layer; the last variant is another layer.
_CHANGES: Final[dict[str, dict[str, Any]]] = {
    "no bias": {"bias": False},
    "padding 1": {"padding": 1},
    "33 channels": {"out_channels": 33},
    "depthwise": {"out_channels": 32, "padding": 1, "groups": 32},
}
#: The matrix product behind the linear layer takes other kernels for larger batches.
_VARIED: Final = {**dict.fromkeys(_CHANGES, (1, 2, 8)), "linear 784-10": (1, 2, 8, 64)}

#: Batches that are counted: under lackey an image of the layer takes half a second.
_COUNTED: Final = frozenset({1, 2, 8, *range(16, 257)})


def cases(levels: Levels) -> tuple[Factors, ...]:
    """List the layer in all valid combinations, the network, and the variants."""
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
    """Build the layer, the network or a variant, on random images."""
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
            layer = mnist_conv2(1)
            _, channels, *extents = layer.input_shape
            changes = _CHANGES.get(name, {})
            arguments = {"out_channels": layer.output_shape[1], "kernel_size": layer.kernel}
            module = torch.nn.Conv2d(channels, **{**arguments, **changes})
            shape = (channels, 28, 28) if name == "depthwise" else (channels, *extents)
    return Subject(
        module,
        torch.randn(int(factors["batch"]), *shape),
        mode=factors["pass"],  # type: ignore[arg-type]
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        name="conv2",
    )


def timed_under(factors: Factors) -> Policies:
    """Select policies: all for the contiguous layer's forward calls, none for variants."""
    if factors["pass"] != "forward" or factors["subject"] == "variant":
        return "none"
    return "every" if factors.get("layout") == "contiguous" else "main"


def is_counted(factors: Factors) -> bool:
    """Select variants, and the layer at some batches."""
    if factors["subject"] == "layer":
        return factors["batch"] in _COUNTED
    return factors["subject"] == "variant"


_ON_CPU: Final = Study(
    subject=subject,
    factors=(
        Factor("subject", levels=("layer", "network", "variant"), quick=("layer", "network")),
        Factor("batch", levels=BATCHES, quick=(1, 4, 16, 64), any_count=True),
        Factor("pass", levels=("forward", "forward_backward")),
        Factor("layout", levels=("contiguous", "channels_last")),
        Factor("variant", levels=tuple(_VARIED)),
    ),
    cases=cases,
    name="conv_scaling",
    question="How do the time and the memory of one convolution scale with the batch size?",
    plan=Plan(
        quick_claims=("Returning freed memory slows a call by more than a tenth",),
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
        quick=msgspec.structs.replace(QUICK, processes={"retained": 6, "default": 6}),
        timed_under=timed_under,
        is_counted=is_counted,
    ),
)
# A GPU's counters only replay kernels, so that every case can be counted.
_PLAN_ON_GPU: Final = Plan(quick=_ON_CPU.plan.quick, timed_under=timed_under)
STUDY: Final = replace(_ON_CPU, on_gpu=replace(_ON_CPU, plan=_PLAN_ON_GPU))
