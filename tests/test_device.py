"""A GPU's run led back to theory, on a made-up record: its counters, its kernels, its bytes."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from report.evidence.allocator_replay import replayed
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import CaseLogs, pack
from report.instruments.counters.ncu import case_range, products
from report.missing import Missing
from report.paper.findings import Findings
from report.paper.kernels import ATTACHMENT, Kernel, kernels_of
from report.records.record import Case, Record
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.study import findings
from report.theory.reconciliation import Reconciliation
from tests import factory, papers
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES, PARAMETER_BYTES
from tests.papers import inputs_of

STUDY = "conv_scaling"
OUTPUTS = OUTPUT_BYTES // 4
INPUT_BYTES = 4 * 32 * 26 * 26
WORKSPACE = 5_000
WEIGHTS, BIAS = PARAMETER_BYTES - 256, 256
BATCHES = (1, 16, 64, 256)


def counted(batch: int, passes: int = 1, **off: int) -> dict[str, list[int]]:
    """Counters that add to theory one addition and one multiplication an output element."""
    work = FLOPS_AN_IMAGE * batch * passes // 2 + off.get("padding", 0)
    adds, multiplies = OUTPUTS * batch + off.get("additions", 0), OUTPUTS * batch
    tensor = off.get("tensor", 0)
    work -= tensor // 2
    return {
        "ncu_fp32_additions": [adds] * 2,
        "ncu_fp32_multiplications": [multiplies] * 2,
        "ncu_fp32_multiply_adds": [work] * 2,
        "ncu_cuda_core_flops": [adds + multiplies + 2 * work] * 2,
        "ncu_tensor_core_flops": [tensor] * 2,
    }


def history(batch: int) -> dict[str, list[int]]:
    """Weights, bias and input, a warm-up call and a call, each with a workspace and a result."""
    result, held = batch * OUTPUT_BYTES, (WEIGHTS, BIAS, batch * INPUT_BYTES)
    call = (WORKSPACE, result, -WORKSPACE)
    return {
        "memory_events": list(call),
        "memory_events_before": [*held, *call, -result],
        "memory_owners": [0, 1, 2, 3, 4, 3, 4, 5, 6, 5],
    }


def statistics(batch: int) -> dict[str, list[int]]:
    """What the rules say of that history (B), from the model that ``test_allocator`` tests."""
    call = replayed(factory.case(batch, memory=history(batch)))
    assert not isinstance(call, Missing)
    return {
        f"{of}_{moment}": [call.predicted(of, moment)] * 3  # type: ignore[arg-type]
        for of in ("requested", "allocated", "reserved")
        for moment in ("before", "after", "peak")
    }


def gpu_case(batch: int, **change: Any) -> Case:
    found: dict[str, Any] = {**history(batch), **statistics(batch), **counted(batch), **change}
    return factory.case(batch, time=factory.scattered(1e-5 * batch), memory=found)


def gpu_record(*cases: Case) -> Record:
    return factory.record(
        cases or [gpu_case(batch) for batch in BATCHES],
        factory.environment("example-100", factory.GPU),
    )


def of(*cases: Case) -> Findings:
    return findings(inputs_of(STUDY, gpu_record(*cases), factory.record()))


def device_work(result: Findings) -> list[Reconciliation]:
    found = result.reconciliations
    return [each for id_, each in found.items() if id_.startswith("device-work")]


def number(result: Findings, id_: str) -> Any:
    return result.values[id_].number


def test_counters_of_a_gpu_are_led_back_to_theory() -> None:
    result = of()
    papers.assert_whole(STUDY, result)
    for batch, found in zip(BATCHES, device_work(result), strict=True):
        assert found.start.amount == FLOPS_AN_IMAGE * batch
        assert [term.amount for term in found.terms] == [OUTPUTS * batch, OUTPUTS * batch, 0, 0]
        assert found.explained
    (sixteen,) = (row for row in result.tables["tbl-work"].rows if row[0] == 16)
    assert sixteen[-2:] == (FLOPS_AN_IMAGE * 16 // 2, 2 * OUTPUTS * 16)
    assert number(result, "residual_device_work") == 0


def test_a_term_of_single_operations_needs_its_own_counter() -> None:
    """One addition too many: the bias is not taken for it, and nothing hides the difference."""
    result = of(gpu_case(64, **counted(64, additions=1)))
    assert number(result, "residual_device_work") == OUTPUTS * 64 + 1
    (found,) = device_work(result)
    bias = found.terms[0]
    assert (bias.amount, bias.evidence) == (0, "0: not equal to the counted additions")


def test_a_bias_in_a_kernel_of_its_own_is_one_multiply_add_an_output() -> None:
    """As an H100 does it: 10,653,696 multiply-adds an image, 36,864 more than theory."""
    result = of(gpu_case(64, **counted(64, padding=OUTPUTS * 64)))
    assert number(result, "residual_device_work") == 0
    (found,) = device_work(result)
    assert {term.name: term.amount for term in found.terms}["Bias in its own kernel"] == (
        2 * OUTPUTS * 64
    )
    assert result.claims["device-work-explained"].verdict == "supported"


def without_bias(batch: int, additions: int) -> Case:
    """The layer without its bias; ``additions`` beyond one an output."""
    counters = counted(batch, additions=additions)
    factors = {"subject": "variant", "variant": "no bias", "layout": "contiguous"}
    case = gpu_case(batch, **counters)
    return msgspec.structs.replace(case, factors={**case.factors, **factors})


@pytest.mark.parametrize(("additions", "verdict"), [(0, "supported"), (1, "refuted")])
def test_the_epilogue_is_what_is_left_without_a_bias(additions: int, verdict: str) -> None:
    result = of(gpu_case(1), without_bias(1, 0), without_bias(8, additions))
    assert result.claims["epilogue"].verdict == verdict


def test_a_backward_pass_that_executes_less_than_theory_is_told() -> None:
    case = gpu_case(8, **counted(8, passes=3, padding=-OUTPUTS))
    both = msgspec.structs.replace(case, factors={**case.factors, "pass": "forward_backward"})
    result = of(gpu_case(8), both)
    theory = 3 * 8 * FLOPS_AN_IMAGE // 2
    backward = 2 * theory // 3
    (row,) = result.tables["tbl-device-backward"].rows
    assert row[1] == pytest.approx((theory - OUTPUTS) / theory)
    assert row[2] == pytest.approx((backward - OUTPUTS) / backward)
    assert number(result, "backward_least") == round((backward - OUTPUTS) / backward, 2)
    assert result.claims["backward-saves"].verdict == "supported"
    assert of(gpu_case(8)).claims["backward-saves"].verdict == "not measured"


def test_half_precision_moves_are_no_work() -> None:
    result = of(gpu_case(64, ncu_cuda_core_flops=[10**12] * 2))
    assert number(result, "residual_device_work") == 0


def test_work_of_tensor_cores_is_missing_from_the_counters() -> None:
    whole = FLOPS_AN_IMAGE * 64
    result = of(gpu_case(64, **counted(64, tensor=whole)))
    (found,) = device_work(result)
    assert found.terms[-1].amount == -whole
    assert number(result, "residual_device_work") == 0
    silent = of(gpu_case(64, **{**counted(64, tensor=whole), "ncu_tensor_core_flops": ()}))
    assert number(silent, "residual_device_work") == -whole


def test_what_a_kernel_pads_is_unexplained() -> None:
    result = of(gpu_case(64, **counted(64, padding=500)))
    assert number(result, "residual_device_work") == 1000
    assert not device_work(result)[0].explained


def test_bytes_are_explained_to_the_last_one() -> None:
    result = of()
    assert number(result, "residual_replay") == 0
    assert number(result, "replays") == 9 * len(BATCHES)
    assert not any(id_.startswith("replay-") for id_ in result.reconciliations)


def test_a_block_that_is_not_split_is_rounding() -> None:
    """By hand: 110 outputs of 147,456 B have a segment of 8 · 2 MiB; 557,056 B are left of it,
    less than 1 MiB, so that they stay with the block."""
    case = gpu_case(110)
    after, before = (case.samples(f"allocated_{moment}")[0] for moment in ("after", "before"))
    assert after - before == 8 * 2**21
    assert number(of(case), "residual_replay") == 0


def test_statistics_that_the_model_does_not_foresee_are_printed() -> None:
    odd = statistics(64)
    result = of(gpu_case(64, reserved_after=[n + 2**21 for n in odd["reserved_after"]]))
    assert number(result, "residual_replay") == 2**21
    (id_,) = (id_ for id_ in result.reconciliations if id_.startswith("replay-"))
    assert id_ == "replay-example-100-0-reserved-after"
    papers.assert_whole(STUDY, result)


def test_a_record_without_counters_and_history_says_so() -> None:
    bare = factory.case(64, time=factory.scattered(1e-3), memory=factory.memory(1, 2))
    result = of(bare)
    assert not any(id_.startswith("tbl-device") for id_ in result.tables)
    for id_ in ("device_work", "replay"):
        assert isinstance(number(result, f"residual_{id_}"), Missing)
    text = papers.assert_whole(STUDY, result)
    assert "every forward call is accounted for" not in text
    assert "replays its" not in text


def test_without_a_gpu_nothing_is_said_of_one() -> None:
    result = findings(inputs_of(STUDY, factory.record()))
    assert result.facts["gpu"] == ""
    for found in (result.values, result.tables, result.reconciliations):
        assert not any("device" in id_ or "replay" in id_ for id_ in found)
    assert "On a GPU" not in papers.assert_whole(STUDY, result)


# ----------------------------------------------------------------------------------- kernels

GEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1::Params)"
ADD = "void at::native::elementwise_kernel<128, 2, at::native::{lambda(int) (1)}>(int, T3)"
METRICS = {
    **{f"smsp__sass_thread_inst_executed_op_{k}{op}_pred_on.sum": 0
       for k in "dfh" for op in ("add", "mul", "fma")},
    "sm__ops_path_tensor_src_tf32_dst_fp32.sum": 0,
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum": 0,
}  # fmt: skip


def launch(kernel: str, range_: str, **counts: int) -> list[object]:
    values = {
        name: next((n for key, n in counts.items() if key in name), zero)
        for name, zero in METRICS.items()
    }
    cell = f'7  "<default domain>:{range_}:none:none:none:none:none:none"'
    return [kernel, cell, "9.0", *values.values()]


def kept_table(factors: dict[str, Any], **off: float) -> str:
    """What ncu prints of two calls of a case, after the products that calibrate it."""
    keys = {"fp32": ("op_ffma", 2), "tf32": ("src_tf32", 1), "bf16": ("src_bf16", 1)}
    rows = [
        launch("gemm", p.range, **{key: round(p.flops * off.get(p.precision, 1)) // half})
        for p in products("9.0")
        for key, half in (keys[p.precision],)
    ]
    for call in (0, 1):
        name = case_range(factors, call)
        rows.append(launch(GEMM, name, op_ffma=FLOPS_AN_IMAGE * 32, op_fmul=OUTPUTS * 64))
        rows.append(launch(ADD, name, op_fadd=OUTPUTS * 32))
        rows.append(launch(ADD, name, op_fadd=OUTPUTS * 32))
    header = ["Kernel Name", "Id:Domain:Start/Stop_Range:Msg", "CC", *METRICS]
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([header, [""] * len(header), *rows])
    return buffer.getvalue()


def kernels(content: bytes) -> tuple[Kernel, ...]:
    """The kernels of batch 64 by a file beside a GPU's record."""
    inputs = inputs_of(STUDY, gpu_record())
    run = Run(inputs.records[0], "GPU")
    beside = replace(inputs, attachments={run.file: {ATTACHMENT: content}})
    return kernels_of(beside, run, run.factors(64, "forward"))


def printed(**off: float) -> bytes:
    """What ncu printed of batch 64."""
    record = gpu_record()
    index = BATCHES.index(64)
    factors = record.cases[index].factors
    ranges = [case_range(factors, call) for call in (0, 1)]
    logs = ncu_logs.logs_of(kept_table(factors, **off), ranges)
    return pack(ncu_logs.TOOL, [CaseLogs(case=index, logs=logs)])


def test_the_kernels_of_a_call_are_listed_with_their_counts() -> None:
    listed = [(k.work.launches, k.additions, k.multiplications) for k in kernels(printed())]
    assert listed == [(1, 0, OUTPUTS * 64), (2, OUTPUTS * 64, 0)]
    assert [k.multiply_adds for k in kernels(printed())] == [FLOPS_AN_IMAGE * 32, 0]


def test_no_kernels_are_listed_of_other_cases_or_with_counters_that_are_not_trusted() -> None:
    assert kernels(printed(fp32=1.01)) == kernels(pack(ncu_logs.TOOL, [])) == ()
