"""What oneDNN executes beside what was counted: conv_scaling on made-up logs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from report.errors import RecordError
from report.evidence.primitives import logged
from report.paper.findings import Findings
from report.records.record import Record
from report.studies.conv_scaling.measured import Run
from tests import factory
from tests.papers import found_in, inputs_of, manuscript, value
from tests.test_conv_scaling import BATCHES, STUDY, with_network

CALL = (
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:{code},forward_training,"
    "src:f32:a:blocked:aBcd{width}b::f0 wei:f32:ap:blocked:ABcd{width}b{width}a::f0 "
    "bia:f32:a:blocked:a::f0 dst:f32:ap:blocked:aBcd{width}b::f0,attr-scratchpad:user,"
    "alg:convolution_direct,mb8_ic32oc{channels}_ih26oh24kh3sh1dh0ph0_iw26ow24kw3sw1dw0pw0,1.5\n"
)
ISA = "onednn_verbose,v1,info,cpu,isa:{name}\n"
MACS = 8 * 24 * 24 * 9 * 32


def log(code: str, width: int, channels: int) -> bytes:
    return (ISA + CALL).format(name=code, code=code, width=width, channels=channels).encode()


def record() -> Record:
    channels = msgspec.structs.replace(factory.layer(8), output_shape=(8, 33, 24, 24))
    uneven = factory.case(8, memory={"lackey_multiply_adds": [MACS * 40]}, layers=(channels,))
    factors = {**uneven.factors, "subject": "variant", "variant": "33 channels"}
    narrow = factory.case(
        64, time=factory.scattered(0.026), subject="avx2", layers=(factory.layer(64),)
    )
    cases = with_network(factory.layer_cases((*BATCHES, 8)))
    return factory.record([*cases, msgspec.structs.replace(uneven, factors=factors), narrow])


def logs() -> dict[str, bytes]:
    found = {}
    for kind, code, width in (("native", "avx512_core", 16), ("avx2", "avx2", 8)):
        for name, channels in (("layer-forward", 64), ("variant-33-channels-forward", 33)):
            found[f"onednn.{name}-contiguous-8.{kind}.txt"] = log(code, width, channels)
    return found


def found(attachments: dict[str, bytes]) -> Findings:
    return found_in(STUDY, record(), files=attachments)


def test_blocks_are_set_beside_counts() -> None:
    result = found(logs())
    rows = [row[0] for row in result.tables["tbl-primitives"].rows]
    assert rows == ["the layer", "33 channels"]
    assert value(result, "uneven_native") == pytest.approx(48 / 33)
    assert value(result, "uneven_avx2") == pytest.approx(40 / 33)
    assert value(result, "uneven_counted") == pytest.approx(40 / 33)
    assert "code for AVX2 executes" in manuscript(STUDY, result)


def test_without_logs_nothing_is_said_of_code() -> None:
    for attachments in ({}, dict(list(logs().items())[:1])):
        result = found(attachments)
        assert "tbl-primitives" not in result.tables
        assert "code for AVX2 executes" not in manuscript(STUDY, result)


def test_a_damaged_log_is_refused_with_its_file() -> None:
    changed: dict[str, Any] = {name: content[:-20] for name, content in logs().items()}
    with pytest.raises(RecordError, match=r"onednn\.layer-forward-contiguous-8\.native\.txt"):
        found(changed)


def test_several_codes_of_one_call_are_all_named() -> None:
    given = inputs_of(STUDY, record())
    both = log("avx512_core", 16, 64) + CALL.format(code="avx2", width=8, channels=64).encode()
    files = {**logs(), "onednn.layer-forward-contiguous-8.native.txt": both}
    (layer, _) = logged({given.records[0].file: files}, Run(given.records[0], "example"))
    assert layer.code("native") == "jit:avx512_core, jit:avx2"
