"""Inference: every way to run a network gives the same scores, and real limits part batches."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from experiments import inference_memory as study
from experiments.datasets import Images, Split, digits
from experiments.harness.measure import build, memory_of
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import Factors, Session
from report.missing import Missing
from report.studies.inference_memory import theory
from report.studies.inference_memory.subject import Limit
from report.theory.conditions import Conditions, vector_block

STUDY = study.STUDY


@pytest.fixture
def session() -> Session:
    pytest.importorskip("torch")
    protocol = msgspec.structs.replace(
        STUDY.quick.protocol, minimum_samples=2, maximum_samples=2, warmup_calls=0
    )
    return Session("cpu", protocol)


pytestmark = pytest.mark.usefixtures("one_thread")


def measured(factors: Factors, session: Session) -> dict[str, Any]:
    """The samples of a case by quantity."""
    found = memory_of(STUDY, factors, session)
    return dict(each for each in found if isinstance(each, tuple))


@pytest.mark.parametrize(
    "changes",
    [{"layout": "channels_last"}, {"execution": study.TILED[0], "image": 64, "tile": 16}],
)
def test_every_way_to_run_a_network_gives_the_same_scores(changes: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    image = {name: size for name, size in changes.items() if name == "image"}
    plain, found = (
        build(STUDY, study.inference("ResNet-20", 2, **how), "cpu").call()
        for how in (image, changes)
    )
    torch.testing.assert_close(found, plain, rtol=1e-3, atol=1e-3 * float(plain.abs().max()))  # type: ignore[attr-defined]


def test_half_precision_without_kernels_is_unavailable(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.networks import variants

    monkeypatch.setattr(variants, "has_kernels", lambda precision: False)
    with pytest.raises(UnavailableError, match="no bfloat16 kernels"):
        measured(study.inference("LeNet-5", 2, precision="bfloat16"), session)
    variants.refuse_emulated("bfloat16", 2, "cuda", most=0)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limit needs glibc")
def test_a_real_limit_parts_the_batches_that_theory_parts() -> None:
    """In a process of its own, since the limit's preparation changes the C library's heap."""
    torch = pytest.importorskip("torch")
    from multiprocessing import get_context

    with get_context("spawn").Pool(1) as pool:
        tried, ran = pool.apply(_searched)
    last = dict(zip(tried, ran, strict=True))
    largest = max(batch for batch, ran in last.items() if ran)
    assert last[largest + 1] == 0
    conditions = Conditions(block=vector_block(torch.backends.cpu.get_cpu_capability()))
    fits = theory.fits_under(Limit("ResNet-20", 32, "contiguous", 16, 0, 0), conditions)
    assert not isinstance(fits, Missing) and fits.largest == largest


def _searched() -> tuple[Any, Any]:
    import torch

    from experiments.inference_limits import largest_batch

    torch.set_num_threads(1)
    case: Factors = {"subject": "limit", "network": "ResNet-20", "image": 32}
    found = largest_batch(study.subject({**case, "layout": "contiguous"}), 16 * 2**20)
    return found["batch_tried"], found["batch_ran"]


# ------------------------------------------------------------------------------ trained scores


@pytest.fixture
def few_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Images:
    """A hundred and thirty images to train on and ten to test on, two epochs."""
    pytest.importorskip("sklearn")
    from experiments import inference_scores as scores

    images = digits(size=32, channels=3)
    few = replace(
        images,
        train=Split(images.train.pixels[:130], images.train.labels[:130]),
        test=Split(images.test.pixels[:10], images.test.labels[:10]),
    )
    monkeypatch.setattr(scores, "images", lambda: few)
    monkeypatch.setattr(scores, "EPOCHS", 2)
    monkeypatch.setenv("RIDGEPOINT_SHARED", str(tmp_path))
    return few


def test_every_precision_scores_the_same_weights_image_by_image(
    session: Session, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from experiments import inference_scores as scores
    from experiments.networks import variants

    monkeypatch.setattr(variants, "has_kernels", lambda precision: True)

    for precision in ("float32", "bfloat16"):
        factors: Factors = {
            "subject": "accuracy",
            "network": "ResNet-20",
            "dataset": "digits",
            "precision": precision,
        }
        found = measured(factors, session)
        module = scores.trained("ResNet-20", "cpu")  # as another process has it
        inputs, labels = scores.prepared(few_images, "cpu")[1]
        with torch.no_grad():
            right = (module(inputs).argmax(1) == labels).long().tolist()
        assert len(found["image_loss"]) == len(found["image_correct"]) == 10
        assert precision != "float32" or list(found["image_correct"]) == right


def test_training_takes_the_steps_of_the_example(few_images: Images) -> None:
    """The example's own loop, with its functions, from the same weights and in the same order."""
    import torch
    from torch.nn import functional

    from experiments import inference_scores as scores
    from experiments.networks.chains import lenet5

    pixels = few_images.train.pixels.astype(np.float64)
    mean, deviation = (
        each[:, None, None] for each in (pixels.mean((0, 2, 3)), pixels.std((0, 2, 3)))
    )
    inputs, labels = scores.prepared(few_images, "cpu")[0]
    assert np.allclose(inputs, (pixels - mean) / deviation, atol=1e-5)
    torch.manual_seed(0)
    module = lenet5(3)
    start = {name: value.clone() for name, value in module.state_dict().items()}
    found = scores.train(module, few_images, "cpu")
    module.load_state_dict(start)
    optimizer = torch.optim.Adadelta(module.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    torch.manual_seed(0)
    for epoch in range(2):
        for step, chosen in enumerate(torch.randperm(130).split(64), 3 * epoch):
            optimizer.zero_grad()
            log = functional.log_softmax(module(inputs[chosen]), dim=1)
            loss = functional.nll_loss(log, labels[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            assert found[step] == pytest.approx(loss.item(), rel=1e-4)
        scheduler.step()
    assert len(found) == 6
