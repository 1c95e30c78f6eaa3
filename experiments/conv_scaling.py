"""How one convolution scales with the batch size.

The layer is the second convolution of PyTorch's MNIST example, ``Conv2d(32, 64, 3, 1)`` on
``(batch, 32, 26, 26)`` in float32, contiguous (NCHW), with random weights and inputs from a fixed
seed.  Factors:

- ``batch``: images a call.
- ``pass``: ``forward`` is one call under ``torch.no_grad()`` (not ``inference_mode``);
  ``forward_backward`` is one call with gradients on and ``output.backward(gradient)`` with a fixed
  random gradient, the input requiring its gradient too, as it does inside the network; gradients
  are dropped before each call, so that none is accumulated.
- ``subject``: ``layer`` for the cases above; ``network`` is one case, the whole network in
  evaluation mode at batch 1 forward, which gives the geometry of all its layers.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from experiments.harness.measure import measure
from experiments.harness.study import SEED, Factor, Factors, Levels, Session, Study
from experiments.harness.workload import Workload
from report.layers import Layer
from report.records import Series

if TYPE_CHECKING:
    import torch
    from torch import nn


def cases(levels: Levels) -> tuple[Factors, ...]:
    """Every pass at every batch for the layer, then the network once."""
    layer: list[Factors] = [
        {"subject": "layer", "batch": batch, "pass": direction}
        for direction, batch in product(levels["pass"], levels["batch"])
        if "layer" in levels["subject"]
    ]
    network: Factors = {"subject": "network", "batch": 1, "pass": "forward"}
    return (*layer, network) if "network" in levels["subject"] else tuple(layer)


def layers(factors: Factors) -> tuple[Layer, ...]:
    """The layers of a case, found on the meta device: no memory is needed, whatever the batch."""
    import torch

    from experiments.harness.capture import layers_of

    with torch.device("meta"):
        module, shape = _subject(factors)
        return layers_of(module, torch.empty(shape), root="conv2")


def measure_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Times and memory of one case; raises what torch raises."""
    return measure(lambda: build(factors, session.device), session)


def build(factors: Factors, device: str) -> Workload:
    """Module and input on ``device``, the same values every time."""
    import torch

    torch.manual_seed(SEED)
    with torch.device(device):
        module, shape = _subject(factors)
        if factors["pass"] == "forward":
            return _forward(module, torch.randn(shape))
        return _forward_backward(module, torch.randn(shape, requires_grad=True))


def _subject(factors: Factors) -> tuple[nn.Module, tuple[int, ...]]:
    """The module and the shape of its input."""
    from experiments.networks import mnist

    batch = int(factors["batch"])
    if factors["subject"] == "network":
        return mnist.mnist_cnn().eval(), (batch, *mnist.INPUT_SHAPE)
    return mnist.second_convolution(), (batch, *mnist.SECOND_CONVOLUTION_INPUT_SHAPE)


def _forward(module: nn.Module, source: torch.Tensor) -> Workload:
    import torch

    def call() -> object:
        with torch.no_grad():
            return module(source)

    return Workload(call, reset=lambda: None)


def _forward_backward(module: nn.Module, source: torch.Tensor) -> Workload:
    import torch

    from experiments.networks import mnist

    gradient = torch.randn(source.shape[0], *mnist.SECOND_CONVOLUTION_OUTPUT_SHAPE)

    def call() -> object:
        output = module(source)
        output.backward(gradient)
        return output

    def reset() -> None:
        module.zero_grad(set_to_none=True)
        source.grad = None

    return Workload(call, reset)


def effort(factors: Factors) -> float:
    """Small batches last about equally long, large ones in proportion to their size."""
    direction = 3.0 if factors["pass"] == "forward_backward" else 1.0
    return direction * max(64.0, float(factors["batch"]))


STUDY = Study(
    name="conv_scaling",
    question="How do the time and the memory of one convolution scale with the batch size?",
    factors=(
        Factor("subject", levels=("layer", "network"), quick=("layer", "network")),
        Factor(
            "batch",
            levels=tuple(2**n for n in range(11)),
            quick=(1, 4, 16, 64),
            any_count=True,
        ),
        Factor(
            "pass", levels=("forward", "forward_backward"), quick=("forward", "forward_backward")
        ),
    ),
    measures=(
        "first_call_time",
        "time",
        "cpu_time",
        "page_faults",
        "memory_events",
        "allocated",
        "resident",
    ),
    cases=cases,
    layers=layers,
    measure=measure_case,
    effort=effort,
)
