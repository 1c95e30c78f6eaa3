"""The memory of a training step against a timeline that others measured on a GPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("torch")

from experiments.harness.operators import Input, capture
from experiments.networks import catalogue
from report.instruments.memory_timeline import highest_bytes
from report.theory.allocator import DEFAULT
from report.theory.conditions import Conditions
from report.theory.network import Theory

MEASURED = Path(__file__).parent / "imported" / "memory_timeline.raw.gz"


def test_a_step_holds_what_theory_says() -> None:
    build = partial(catalogue.network, "ResNet-50", in_place=True)
    network = capture(build, [Input((32, 3, 224, 224))], train=True).network
    # Blocks are rounded up as the allocator of a GPU does.
    blocks = tuple(map(DEFAULT.rounded, network.storages))
    theory = Theory(msgspec.structs.replace(network, storages=blocks), Conditions())
    measured = highest_bytes(MEASURED.read_bytes(), MEASURED.name)
    predicted = max(moment.alive["activations"] for moment in theory.moments)
    assert 0 <= measured["activation"] - predicted <= 0.002 * measured["activation"]
    parameters = 4 * network.parameter_count
    statistics = sum(t.bytes for t in network.buffers.values() if t.dtype == "float32")
    assert measured["optimizer state"] == parameters
    assert measured["parameter"] == parameters + statistics
