"""The memory of a training step against a timeline that others measured on a GPU."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("torch")

from experiments.harness.operators import Input, capture
from experiments.networks import catalogue
from report.theory.conditions import Conditions
from report.theory.network import Theory

MEASURED = (Path(__file__).parent / "imported" / "memory_timeline.raw.gz").read_bytes()
PARAMETER, OPTIMIZER, ACTIVATION = 0, 1, 4
#: The CUDA allocator of PyTorch rounds every block up to a multiple of this (B).
BLOCK = 512


@cache
def highest() -> Counter[int]:
    """The most bytes that are alive at a time, by category.

    Bytes are signed; a block that changes its category is taken from one and given to the other.
    """
    live: Counter[int] = Counter()
    peak: Counter[int] = Counter()
    for _, _, size, category in json.loads(gzip.decompress(MEASURED)):
        live[category] += size
        peak[category] = max(peak[category], live[category])
    return peak


@cache
def theory() -> Theory:
    """The same step by theory, in blocks of the CUDA allocator."""
    captured = capture(
        lambda: catalogue.network("ResNet-50", in_place=True),
        [Input((32, 3, 224, 224))],
        train=True,
    ).network
    blocks = tuple(-(-size // BLOCK) * BLOCK for size in captured.storages)
    return Theory(msgspec.structs.replace(captured, storages=blocks), Conditions())


def test_activations_of_a_step_are_those_of_theory_within_two_thousandths() -> None:
    predicted = max(moment.alive["activations"] for moment in theory().moments)
    measured = highest()[ACTIVATION]
    assert 0 <= measured - predicted <= 0.002 * measured


def test_parameters_and_momentum_are_those_of_theory_to_the_byte() -> None:
    import torch

    with torch.device("meta"):
        network = catalogue.network("ResNet-50")
    parameters = sum(p.nbytes for p in network.parameters())
    statistics = sum(b.nbytes for b in network.buffers() if b.is_floating_point())
    assert highest()[OPTIMIZER] == parameters
    assert highest()[PARAMETER] == parameters + statistics
