"""The calls of networks whose inference is measured, in every layout, precision and execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from experiments.harness.study import SEED, Device, Factors
from experiments.harness.workload import Workload
from experiments.inference_scores import precisely
from report.records.layers import Layer

if TYPE_CHECKING:
    import torch
    from torch import nn


def layers(factors: Factors) -> tuple[Layer, ...]:
    """The layers of the network as it stands, not folded or tiled; found on the meta device."""
    import torch

    from experiments.harness.capture import layers_of

    with torch.device("meta"):
        if factors["subject"] == "matrix_product":
            side = int(factors["side"])
            product = torch.nn.Linear(side, side, bias=False)
            return layers_of(product, torch.empty(side, side), root="product")
        return layers_of(_network(factors).eval(), torch.empty(input_shape(factors)))


def _network(factors: Factors) -> nn.Sequential:
    from experiments.networks import catalogue

    return cast("nn.Sequential", catalogue.network(str(factors["network"])))


def input_shape(factors: Factors) -> tuple[int, int, int, int]:
    """``(N, C, H, W)``; of a training, one image."""
    from experiments.networks.catalogue import INPUT_SHAPES

    channels, height, width = INPUT_SHAPES[str(factors["network"])]
    height, width = (int(factors.get("image", extent)) for extent in (height, width))
    return int(factors.get("batch", 1)), channels, height, width


def build(factors: Factors, device: Device) -> Workload:
    """Network and input on ``device``, the same values every time."""
    import torch

    torch.manual_seed(SEED)
    with torch.device(device):
        if factors["subject"] == "matrix_product":
            return _product(factors)
        module = _executed(_network(factors).eval(), factors)
        source = torch.randn(input_shape(factors))
        if factors["layout"] == "channels_last":
            source = source.contiguous(memory_format=torch.channels_last)
    return _forward(module, source, str(factors["precision"]), device)


def _product(factors: Factors) -> Workload:
    import torch

    side, kind = int(factors["side"]), getattr(torch, str(factors["precision"]))
    left, right = torch.randn(side, side, dtype=kind), torch.randn(side, side, dtype=kind)
    return Workload(lambda: torch.mm(left, right), reset=lambda: None)


def _executed(network: nn.Sequential, factors: Factors) -> nn.Module:
    import torch

    from experiments.networks.variants import executed

    tile = factors.get("tile")
    module = executed(
        network,
        factors["execution"],  # type: ignore[arg-type]
        None if tile is None else int(tile),
    )
    if factors["layout"] == "channels_last":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return module


def _forward(module: nn.Module, source: torch.Tensor, precision: str, device: Device) -> Workload:
    import torch

    from experiments.harness.passes import forward

    if precision == "float32":
        return forward(module, source)

    def call() -> object:
        with torch.no_grad(), precisely(precision, device):
            return module(source)

    return Workload(call, reset=lambda: None)
