"""oneDNN's log of a call, made for real and read."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from experiments.harness.journal import Keep
from experiments.harness.processes import working
from experiments.harness.study import FULL, Factors, Session
from experiments.harness.worker import Task, can_fork

LAYER: Factors = {"subject": "layer", "batch": 8, "pass": "forward"}


@pytest.mark.skipif(not can_fork("cpu"), reason="oneDNN is asked in a child")
def test_the_log_of_a_call_names_its_primitives_and_instructions() -> None:
    import torch

    task = Task(
        role="memory",
        session=Session("cpu", FULL.protocol),
        module="experiments.conv_profiling",
        forks=True,
        cases=tuple(enumerate((LAYER, {**LAYER, "batch": 1}))),
    )
    with working(task) as running:
        native, narrow = (each for each in running.messages() if isinstance(each, Keep))
    assert {native.case, narrow.case} == {0}, "only what is compared with counts is logged"
    assert native.name == "onednn.layer-forward-8.native.txt"
    assert narrow.name == "onednn.layer-forward-8.avx2.txt"
    for file in (native, narrow):
        lines = file.content.decode().splitlines()
        assert all(line.startswith("onednn_verbose,") for line in lines)
        called = [line for line in lines if ",primitive,exec," in line]
        assert sum(",convolution," in line for line in called) == 1
        assert "mb8_ic32oc64" in file.content.decode()
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        assert b"isa:Intel AVX2\n" in narrow.content
