"""Captured networks: the committed ones anew, and every request that an H100's allocator saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

from experiments.harness.operators import Input
from experiments.networks import catalogue
from experiments.theory.capturing import at_batch
from experiments.theory.checked import checked
from report.records.record import Case
from report.records.store import read_record
from report.theory.allocator import DEFAULT, Allocate
from report.theory.network import Theory
from report.theory.networks import Captured, Way, captured
from report.theory.timeline import requests
from report.theory.workspaces import TAKES_NOTHING_ON_GPU

DATA = Path(__file__).parents[2] / "data"
INFERENCE = "inference_memory/20261122T103140Z-nvidia-h100-80gb-hbm3-a086b081.zip"
TRAINING = "training_roofline/20261122T103542Z-nvidia-h100-80gb-hbm3-893e6327.zip"
#: What cuBLAS holds from its first product on, by the record's history (B).
CUBLAS = 33_554_432 + 1_048_576


@cache
def cases(file: str) -> tuple[Case, ...]:
    return read_record(DATA / file, DATA).record.cases


def case(file: str, **factors: object) -> Case:
    factors |= {"layout": "contiguous", "precision": "float32"}
    (found,) = (c for c in cases(file) if factors.items() <= c.factors.items())
    return found


def of_inference(network: str, batch: int) -> Theory:
    shape = (batch, *catalogue.INPUT_SHAPES[network])
    return checked(partial(catalogue.network, network), [Input(shape)], allocator=DEFAULT)


@cache
def of_training(batch: int) -> Theory:
    build = partial(catalogue.network, "ResNet-50", in_place=True)
    return checked(build, [Input((batch, 3, 224, 224))], train=True, allocator=DEFAULT)


def tensors(found: Theory) -> Iterator[tuple[str, int]]:
    """Each tensor that a call allocates: the operator's name and the bytes; labels are inputs."""
    for operator in found.network.operators:
        for request in requests(operator, found.network):
            if isinstance(request, Allocate) and request.bytes and operator.base != "zeros":
                yield operator.base, request.bytes


def others(found: Theory, events: Sequence[float]) -> list[tuple[str, int]]:
    """The requests that are none of theory's tensors, each with the operator that ran.

    Theory's tensors must all be there, in order; an operator asks for its results first.
    """
    expected, extra, running = list(tensors(found)), [], "start"
    for size in (int(event) for event in events if event > 0):
        if expected and expected[0][1] == size:
            running, _ = expected.pop(0)
        else:
            extra.append((running if expected else "update", size))
    assert not expected, "requests of theory that the allocator never saw"
    return extra


@pytest.mark.parametrize(
    ("network", "batch"),
    [
        *(("LeNet-5", batch) for batch in (1, 64, 1024)),
        *(("AlexNet", batch) for batch in (1, 8, 64, 128)),
        *(("VGG-16", batch) for batch in (8, 640)),
        *(("ResNet-20", batch) for batch in (1, 128, 256, 1024)),
    ],
)
def test_inference_asks_for_the_tensors_of_theory_and_workspaces_of_cudnn(
    network: str, batch: int
) -> None:
    image = catalogue.INPUT_SHAPES[network][1]
    measured = case(INFERENCE, network=network, batch=batch, image=image, execution="eager")
    theory = of_inference(network, batch)
    extra = others(theory, measured.samples("memory_events"))
    assert {operator for operator, _ in extra} <= {"convolution"}
    assert theory.cuda is not None and theory.peak is not None
    assert theory.peak.total <= theory.cuda["allocated"]
    (requested, *_), (allocated, *_) = map(measured.samples, ("requested_peak", "allocated_peak"))
    if not extra:
        assert requested == theory.cuda["requested"] + CUBLAS
        assert allocated == theory.cuda["allocated"] + CUBLAS
    assert not theory.complete and theory.peak.total < allocated


@pytest.mark.parametrize("batch", [32, 128])
def test_training_asks_for_the_tensors_of_theory_in_their_order(batch: int) -> None:
    measured = case(TRAINING, batch=batch, subject="training")
    theory = of_training(batch)
    extra = others(theory, measured.samples("memory_events"))
    # The measured update adds the decay of weights to all gradients at once; theory's has none.
    parameters = sorted(t.bytes for t in theory.network.parameters.values())
    assert sorted(size for running, size in extra if running == "update")[-161:] == parameters
    assert {r for r, _ in extra} <= {"convolution", "convolution_backward", "update"}
    (allocated, *_) = measured.samples("allocated_peak")
    assert theory.peak is not None
    assert 0.9 * allocated < theory.peak.total < allocated


def test_what_takes_nothing_was_seen_in_these_calls() -> None:
    calls = [*(of_inference(name, 1) for name in ("LeNet-5", "AlexNet", "ResNet-20"))]
    calls.append(of_training(32))
    seen = {operator.base for call in calls for operator in call.network.operators}
    assert seen >= TAKES_NOTHING_ON_GPU


# ------------------------------------------------------------------------- committed captures


@pytest.mark.parametrize(
    ("name", "image", "way"),
    [
        ("LeNet-5", 32, Way("channels_last")),
        ("ResNet-20", 32, Way("contiguous", "bfloat16")),
        ("ResNet-20", 32, Way("contiguous", "float16")),
        ("AlexNet", 224, Way("channels_last", "bfloat16")),
    ],
)
def test_a_network_is_captured_again_at_another_batch(name: str, image: int, way: Way) -> None:
    kept = captured(name, image, way)
    assert isinstance(kept, Captured)
    assert kept.at(5) == at_batch(name, image, way, 5)
