# ruff: noqa: E501
"""oneDNN's verbose log, as oneDNN 3.12 printed it on a processor with AVX-512."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.instruments.onednn import Primitive, multiply_adds, parse_log

LOG = """\
onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa71049cd69a3df32adcccb623b12cd7baa22)
onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:1
onednn_verbose,v1,info,cpu,isa:Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_time
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:blk,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:aBcd16b::f0,attr-scratchpad:user,,8x32x26x26,0.180176
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32:a:blocked:aBcd16b::f0 wei:f32:ap:blocked:ABcd16b16a::f0 bia:f32:a:blocked:a::f0 dst:f32:ap:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,mb8_ic32oc33_ih26oh24kh3sh1dh0ph0_iw26ow24kw3sw1dw0pw0,1.54907
onednn_verbose,v1,primitive,exec,cpu,convolution,jit_dw:avx512_core,forward_training,src:f32:a:blocked:aBcd16b::f0 wei:f32:a:blocked:Abcde16a::f0 bia:undef::undef::: dst:f32:a:blocked:aBcd16b::f0,attr-scratchpad:user,alg:convolution_direct,g40mb8_ic40oc40_ih28oh28kh3sh1dh0ph1_iw28ow28kw3sw1dw0pw1,0.13623
"""


def test_a_real_log_names_instructions_and_primitives() -> None:
    log = parse_log(LOG, "here")
    assert log.instructions == "Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions"
    assert [each.kind for each in log.primitives] == ["reorder", "convolution", "convolution"]
    plain, depthwise = log.convolutions
    assert plain.implementation == "jit:avx512_core"
    assert plain.layouts["wei"] == "ABcd16b16a"
    assert multiply_adds(plain) == 8 * 24 * 24 * 9 * 32 * 48, "33 channels fill three blocks of 16"
    assert multiply_adds(depthwise) == 8 * 28 * 28 * 9 * 48, "40 groups fill three blocks of 16"


@given(
    channels=st.tuples(st.integers(1, 70), st.integers(1, 70)),
    width=st.sampled_from((1, 8, 16)),
    batch=st.integers(1, 9),
)
def test_filling_up_adds_less_than_a_block_a_side(
    channels: tuple[int, int], width: int, batch: int
) -> None:
    inputs, outputs = channels
    layout = "abcd" if width == 1 else f"ABcd{width}b{width}a"
    problem = f"mb{batch}_ic{inputs}oc{outputs}_ih5oh3kh3sh1dh0ph0_iw5ow3kw3sw1dw0pw0"
    found = multiply_adds(Primitive("convolution", "jit", {"wei": layout}, problem))
    theory = batch * inputs * outputs * 9 * 9
    most = batch * (inputs + width - 1) * (outputs + width - 1) * 9 * 9
    assert theory <= found <= most
    assert found % (width * width) == 0
    if inputs % width == outputs % width == 0:
        assert found == theory


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[:-40], "cut off|fields"),
        (lambda text: text.replace("v1,", "", 1), "line 1: expected onednn_verbose,v1"),
        (lambda text: text.replace("isa", "ISA"), "names no instructions"),
        (lambda text: text.replace("wei:f32:ap:blocked:ABcd16b16a::f0", "wei"), "is no tensor"),
        (lambda text: "", "names no instructions"),
    ],
)
def test_a_damaged_log_is_refused_in_one_sentence(damage: object, told: str) -> None:
    assert callable(damage)
    with pytest.raises(RecordError, match=told) as caught:
        parse_log(damage(LOG), "here")
    assert "\n" not in str(caught.value)
