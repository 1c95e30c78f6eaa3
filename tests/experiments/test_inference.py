"""Inference: every way to run a network gives the same scores, and what cannot be run says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from experiments import inference_memory as study
from experiments import inference_sweeps as sweeps
from experiments.datasets import Images, Split, digits
from experiments.harness.measure import build, memory_of
from experiments.harness.outcomes import NotStartedError, UnavailableError
from experiments.harness.study import CaseFile, Factors, Session
from report.records.record import Series

STUDY = study.STUDY


@pytest.fixture
def session() -> Session:
    pytest.importorskip("torch")
    protocol = msgspec.structs.replace(
        STUDY.quick.protocol, minimum_samples=2, maximum_samples=2, warmup_calls=0
    )
    return Session("cpu", protocol)


pytestmark = pytest.mark.usefixtures("one_thread")


def measured(factors: Factors, session: Session) -> tuple[dict[str, Any], list[CaseFile]]:
    """The samples of a case by quantity, and its files."""
    found = list(memory_of(STUDY, factors, session))
    samples = {each.quantity: each.samples for each in found if isinstance(each, Series)}
    return samples, [each for each in found if isinstance(each, CaseFile)]


def output(factors: Factors) -> Any:
    return build(STUDY, factors, "cpu").call()


@pytest.mark.parametrize(
    ("network", "changes"),
    [
        ("ResNet-20", {"execution": "folded"}),
        ("ResNet-110", {"execution": "folded"}),
        ("AlexNet", {"execution": "folded"}),
        ("CIFAR", {"execution": "folded"}),
        ("ResNet-20", {"layout": "channels_last"}),
        ("LeNet-5", {"execution": "compiled"}),
        *(("ResNet-20", {"execution": form, "image": 64, "tile": 16}) for form in sweeps.TILED),
    ],
)
def test_every_way_to_run_a_network_gives_the_same_scores(
    network: str, changes: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    from experiments.networks import variants

    if "compiled" in changes.values() and not any(map(variants.shutil.which, variants.COMPILERS)):
        pytest.skip("no C++ compiler")
    image = {name: size for name, size in changes.items() if name == "image"}
    plain = output(sweeps.inference(network, 2, **image))
    found = output(sweeps.inference(network, 2, **changes))
    torch.testing.assert_close(found, plain, rtol=1e-3, atol=1e-3 * float(plain.abs().max()))


def test_folding_uses_the_running_statistics() -> None:
    """Statistics of a new network are 0 and 1, which would hide a wrong fold."""
    torch = pytest.importorskip("torch")
    from experiments.networks.cifar_resnet import cifar_resnet
    from experiments.networks.variants import folded

    torch.manual_seed(0)
    network = cifar_resnet(20).train()
    source = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        for _ in range(3):
            network(3 * source + 1)
        network.eval()
        wanted = network(source)
        made = folded(network)
        torch.testing.assert_close(made(source), wanted, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(network(source), wanted)
    kinds = {type(module) for module in made.modules()}
    assert torch.nn.BatchNorm2d not in kinds
    assert all(m.inplace for m in made.modules() if isinstance(m, torch.nn.ReLU))


def test_events_that_would_fill_megabytes_are_left_out_and_their_peak_is_not(
    session: Session,
) -> None:
    samples, _ = measured(
        sweeps.inference("ResNet-20", 1, execution="tiled_blocks", tile=16), session
    )
    assert "memory_events" not in samples
    assert len(set(samples["allocated_peak"])) == 1


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_without_kernels_16_bits_are_measured_on_one_image_only(
    session: Session, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    from experiments.networks import variants

    monkeypatch.setattr(variants, "has_kernels", lambda precision: False)
    scored: Factors = {"subject": "accuracy", "network": "ResNet-20", "dataset": "digits"}
    for refused in (
        sweeps.inference("LeNet-5", 2, precision=precision),
        {**scored, "precision": precision},
    ):
        with pytest.raises(UnavailableError, match=f"no {precision} kernels"):
            measured(refused, session)
    assert measured(sweeps.inference("LeNet-5", 1, precision=precision), session)[0]
    variants.refuse_emulated(precision, 2, "cuda", most=1)
    monkeypatch.setattr(variants, "has_kernels", lambda precision: True)
    variants.refuse_emulated(precision, 2, "cpu", most=1)


def test_a_case_that_cannot_fit_is_not_started(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "build", lambda *_: pytest.fail("it was started"))
    with pytest.raises(NotStartedError, match="Not started"):
        measured(sweeps.inference("VGG-16", 10**6), session)


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
        found, _ = measured(factors, session)
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

    def network() -> Any:
        torch.manual_seed(0)
        return lenet5(3)

    pixels = few_images.train.pixels.astype(np.float64)
    mean, deviation = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))
    inputs, labels = scores.prepared(few_images, "cpu")[0]
    scaled = (pixels - mean[:, None, None]) / deviation[:, None, None]
    assert np.allclose(inputs, scaled, atol=1e-5)
    module, losses = network(), []
    optimizer = torch.optim.Adadelta(module.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    torch.manual_seed(0)
    for _ in range(2):
        order = torch.randperm(130)
        for start in range(0, 130, 64):
            chosen = order[start : start + 64]
            optimizer.zero_grad()
            log = functional.log_softmax(module(inputs[chosen]), dim=1)
            loss = functional.nll_loss(log, labels[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    assert scores.train(network(), few_images, "cpu") == pytest.approx(losses, rel=1e-4)
