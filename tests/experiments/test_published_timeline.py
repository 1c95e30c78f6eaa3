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
from report.theory.network import Theory
from report.theory.workspaces import Conditions

MEASURED = Path(__file__).parents[1] / "published" / "resnet50-memory-timeline.raw.gz"
PARAMETER, ACTIVATION, GRADIENT = 0, 4, 5
THERE, CREATED, DESTROYED = 1, 2, 4
#: The CUDA allocator of PyTorch rounds every block up to a multiple of this (B).
BLOCK = 512


@cache
def highest() -> Counter[int]:
    """The most bytes that are alive at a time, by category."""
    live: Counter[int] = Counter()
    peak: Counter[int] = Counter()
    for _, action, size, category in json.loads(gzip.decompress(MEASURED.read_bytes())):
        live[category] += size * {THERE: 1, CREATED: 1, DESTROYED: -1}.get(action, 0)
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


def test_gradients_are_as_large_as_parameters() -> None:
    predicted = max(moment.alive["gradients"] for moment in theory().moments)
    assert highest()[GRADIENT] == pytest.approx(predicted, rel=0.02)
    assert highest()[PARAMETER] == pytest.approx(predicted, rel=0.02)
