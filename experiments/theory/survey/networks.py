"""Each network of timm at its published image size: what theory counts, or why it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from experiments.harness.operators import Captured
from report.errors import MeasurementError
from report.records.network_counts import Counts
from report.records.operations import Operator
from report.theory.network import Theory
from report.theory.operators import Load

_PRODUCTS: Final = frozenset({"convolution", "matrix product"})


def names() -> list[str]:
    """Every network that timm can build."""
    from experiments.theory.networks import import_timm

    return list(import_timm().list_models())


def family(name: str) -> str:
    """The module of timm that a network is written in."""
    from experiments.theory.networks import import_timm

    return str(import_timm().model_entrypoint(name).__module__).rpartition(".")[2]


def counts(name: str) -> Counts:
    """One network on one image of its published size."""
    from torch.utils.flop_counter import FlopCounterMode

    from experiments.harness.operators import Input, built, capture
    from experiments.theory.checked import of_capture
    from experiments.theory.networks import network

    named = network(f"timm:{name}")
    known = {"network": name, "family": family(name), "image": "x".join(map(str, named.image))}
    counter = FlopCounterMode(display=False)
    try:
        module = built(named.build)
        own = sum(parameter.numel() for parameter in module.parameters())
        module.requires_grad_(False)  # the counter's hooks fail on views of what could be trained
        with counter:
            captured = capture(lambda: module, [Input((1, *named.image))])
        found = of_capture(captured)
        if found.refused:
            raise MeasurementError(f"unknown operators: {', '.join(found.refused)}")
    except MeasurementError as error:
        return Counts(**known, refused=str(error))
    return Counts(
        **known,
        own_parameters=own,
        torch_multiply_adds=counter.get_total_flops() // 2,
        **_counted(captured, found),
    )


@dataclass(frozen=True)
class _Known:
    """An operator with its load, and whether torch's counter knows it."""

    operator: Operator
    load: Load
    counted: bool


def _counted(captured: Captured, found: Theory) -> dict[str, int | str]:
    """The counts of a network whose operators are all known."""
    operators = [
        _Known(operator, load, number in captured.flops)
        for number, (operator, load) in enumerate(
            zip(captured.network.operators, found.loads, strict=True)
        )
        if load is not None
    ]
    unseen = [each for each in operators if each.load.multiply_adds and not each.counted]
    products = [each.operator for each in operators if each.load.kind in _PRODUCTS]
    attention = [each for each in operators if each.load.kind == "attention"]
    return {
        "parameters": found.parameters,
        "multiply_adds": sum(each.load.multiply_adds for each in operators),
        "uncounted_multiply_adds": sum(each.load.multiply_adds for each in unseen),
        "uncounted": " ".join(sorted({each.operator.base for each in unseen})),
        "bytes": sum(each.load.bytes for each in operators),
        "outputs": sum(operator.writes[0].elements for operator in products),
        "attention_multiply_adds": sum(each.load.multiply_adds for each in attention),
        "attention_outputs": sum(each.operator.writes[0].elements for each in attention),
        "attention_scores": sum(_scores(each.operator) for each in attention),
        "other_operations": sum(_other_operations(each.operator) for each in operators),
    }


def _scores(operator: Operator) -> int:
    """One for each query and key."""
    query, key = operator.tensor("query"), operator.tensor("key")
    if query is None or key is None:
        return 0
    return prod(query.shape[:-1]) * key.shape[-2]


def _other_operations(operator: Operator) -> int:
    """What fvcore 0.1.5 counts of an operator that has no products (``_DEFAULT_SUPPORTED_OPS``).

    Estimates of its own: an element of a batch normalisation by stored statistics is 2, of other
    normalisations 5, one less without scale and shift; one that is pooled 1, an interpolated 4.
    """
    affine = operator.tensor("weight") is not None
    match operator.base:
        case "native_batch_norm" if not operator.settings.get("training"):
            each = 1 + affine
        case "native_batch_norm" | "native_layer_norm" | "native_group_norm":
            each = 4 + affine
        case "upsample_nearest2d" | "upsample_bilinear2d":
            return operator.writes[0].elements * (1 if "nearest" in operator.base else 4)
        case "mean" if operator.settings.get("dim") == (-1, -2):
            each = 1
        case "_adaptive_avg_pool2d":
            each = 1
        case _:
            return 0
    source = operator.tensor("input") or operator.tensor("self")
    return each * source.elements if source is not None else 0
