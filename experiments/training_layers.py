"""Which layers a case of the study of training consists of."""

from __future__ import annotations

from experiments.harness.study import Factors
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


def _product_layer(factors: Factors) -> Linear:
    shape = (int(factors["side"]),) * 2
    dtype: DType = "bfloat16" if factors["precision"] == "bfloat16" else "tfloat32"
    return Linear(name="product", input_shape=shape, output_shape=shape, dtype=dtype, bias=False)
