"""oneDNN's log of a call, made for real and read."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from experiments import conv_scaling
from experiments.harness.study import FULL, Factors, Session

LAYER: Factors = {"subject": "layer", "batch": 8, "pass": "forward", "layout": "contiguous"}


def test_the_log_of_a_call_names_its_primitives_and_instructions() -> None:
    import torch

    native, narrow = conv_scaling.files(LAYER, Session("cpu", FULL.protocol))
    assert native.name == "onednn.layer-forward-contiguous-8.native.txt"
    assert narrow.name == "onednn.layer-forward-contiguous-8.avx2.txt"
    for file in (native, narrow):
        lines = file.content.decode().splitlines()
        assert all(line.startswith("onednn_verbose,") for line in lines)
        called = [line for line in lines if ",primitive,exec," in line]
        assert sum(",convolution," in line for line in called) == 1
        assert "mb8_ic32oc64" in file.content.decode()
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        assert b"isa:Intel AVX2\n" in narrow.content


def test_only_what_is_compared_with_counts_is_logged() -> None:
    session = Session("cpu", FULL.protocol)
    for change in ({"batch": 16}, {"subject": "network"}, {"subject": "avx2"}):
        assert conv_scaling.files({**LAYER, **change}, session) == ()
    assert conv_scaling.files(LAYER, Session("cuda", FULL.protocol)) == ()
