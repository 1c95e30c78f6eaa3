"""Inference: every way to run a network gives the same scores, and real limits part batches."""

from __future__ import annotations

import platform
from typing import Any

import msgspec
import pytest

from experiments import inference_memory as study
from experiments.harness import measure
from experiments.harness.measure import build
from experiments.harness.study import Factors, Session, UnavailableError
from report.missing import Missing
from report.studies.inference_memory import theory
from report.studies.inference_memory.subject import Limit
from report.theory.conditions import Conditions, vector_block

STUDY = study.STUDY


@pytest.fixture
def session() -> Session:
    pytest.importorskip("torch")
    protocol = msgspec.structs.replace(
        STUDY.quick, minimum_samples=2, maximum_samples=2, warmup_calls=0
    )
    return Session("cpu", protocol)


pytestmark = pytest.mark.usefixtures("one_thread")


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
    monkeypatch.setattr(measure, "has_kernels", lambda precision: False)
    with pytest.raises(UnavailableError, match="no bfloat16 kernels"):
        study.memory(study.inference("LeNet-5", 2, precision="bfloat16"), session)
    measure.refuse_emulated("bfloat16", 2, "cuda", most=0)


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
    fits = theory.fits(Limit("ResNet-20", 32, "contiguous", 16, 0, 0), conditions)
    assert not isinstance(fits, Missing) and fits.largest == largest


def _searched() -> tuple[Any, Any]:
    import torch

    from experiments.inference_limits import largest_batch

    torch.set_num_threads(1)
    case: Factors = {"subject": "limit", "network": "ResNet-20", "image": 32}
    found = largest_batch(study.subject({**case, "layout": "contiguous"}), 16 * 2**20)
    return found["batch_tried"], found["batch_ran"]
