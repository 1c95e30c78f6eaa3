"""Which layers a case of the study of training consists of, and which operators it runs."""

from __future__ import annotations

from functools import partial

from experiments.harness.study import Factors, NetworkCall
from experiments.training_cases import PLAIN
from report.records.layers import DType, Layer, Linear


def layers(factors: Factors) -> tuple[Layer, ...]:
    """The layers of a case, found on the meta device: no memory is needed, whatever the batch."""
    match factors["subject"]:
        case "sensor":
            return ()
        case "matrix_product":
            return (_product_layer(factors),)
    import torch

    from experiments.harness.capture import layers_of
    from experiments.networks.catalogue import network

    batch, size = int(factors["batch"]), int(factors["image"])
    with torch.device("meta"):
        module = network(str(factors["network"])).eval()
        return layers_of(module, torch.empty(batch, 3, size, size))


def operations(factors: Factors) -> NetworkCall | None:
    """The step whose operators a case runs as they stand, in float32 and in one piece."""
    way = {name: factors.get(name, level) for name, level in PLAIN.items() if name != "layout"}
    if factors["subject"] not in {"training", "profile"} or not way.items() <= PLAIN.items():
        return None
    from experiments.harness.training_step import WEIGHT_DECAY
    from experiments.networks.catalogue import network

    size = int(factors["image"])
    return NetworkCall(
        name=f"{factors['network']}, {size} pixels, training step",
        build=partial(network, str(factors["network"]), in_place=True),
        shape=(int(factors["batch"]), 3, size, size),
        layout=factors["layout"],  # type: ignore[arg-type]
        train=True,
        weight_decay=WEIGHT_DECAY,
    )


def _product_layer(factors: Factors) -> Linear:
    shape = (int(factors["side"]),) * 2
    dtype: DType = "bfloat16" if factors["precision"] == "bfloat16" else "tfloat32"
    return Linear(name="product", input_shape=shape, output_shape=shape, dtype=dtype, bias=False)
