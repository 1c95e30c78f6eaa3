"""conv_profiling on one made-up record whose counts and bytes are closed forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from report.errors import RecordError, StudyError
from report.instruments.onednn import log_file
from report.paper.findings import Findings
from report.records.record import Record
from report.studies.conv_profiling.measured import runs
from report.studies.conv_profiling.source import audit
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.studies.conv_profiling.tiled import tiled
from tests import factory, profiling
from tests.degraded import committed
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES, PARAMETER_BYTES
from tests.papers import assert_whole, found_in, reported, value

STUDY = "conv_profiling"
REPORTED = reported(STUDY)


def found(*records: Record, files: Mapping[str, bytes] = profiling.FILES) -> Findings:
    return found_in(STUDY, *records, files=files)


#: The source's memory, its kernels and theory: numbers that need no run.
OF_SOURCE: Mapping[str, float] = {
    "macs": 10_616_832, "flops": FLOPS_AN_IMAGE, "parameters": 18_496,
    "parameter_bytes": PARAMETER_BYTES, "output_bytes": OUTPUT_BYTES, "image_bytes": 221_440,
    "batch_work": 64 * FLOPS_AN_IMAGE, "source_workspace": 31_392 * 1024,
    "source_allocated": 40_608 * 1024, "source_self_size": -22_176 * 1024,
    "source_kept": 64 * OUTPUT_BYTES, "table_batch": 64, "extra_parameters": 63 * PARAMETER_BYTES,
    "residual_estimate": 0, "residual_self": 0, "partitions": 432, "multiprocessors": 108,
    "misread_tensor": 2 * 36_864 / (2 * 9 * 32 * 576), "bias_images": 80, "bias_per_output": 1.25,
}  # fmt: skip
OF_RUN: Mapping[str, float] = {
    "residual_executed": 0, "residual_changed": 0, "residual_changed_peak": 0,
    "counted_smallest": 1, "counted_largest": 64, "changed_cases": 10, "changed_explained": 10,
    "changed_kinds": 5, "ratio_lowest": 1, "worst_in": 33, "worst_out_padded": 72,
    "ratio_highest": 40 * 72 / (33 * 65), "held_batches": 4, "peak_over_output": 2,
    "own_kept": 9_437_184, "own_allocated": 24_485_888, "own_workspace": 15_048_704,
    "traced_time": 279e-6,
}  # fmt: skip
FULL = found(profiling.record())


@pytest.mark.parametrize("id_", [*OF_SOURCE, *OF_RUN])
def test_values_are_those_of_closed_forms(id_: str) -> None:
    assert value(FULL, id_) == pytest.approx({**OF_SOURCE, **OF_RUN}[id_], rel=1e-9)


def test_the_source_needs_no_run() -> None:
    without = found()
    assert {id_: value(without, id_) for id_ in OF_SOURCE} == pytest.approx(OF_SOURCE)


VERDICTS: Mapping[str, str] = {
    "batch-in-product": "refuted", "table-of-one-image": "refuted",
    "parameters-per-image": "refuted", "temporary-storage": "supported", "recovery": "refuted",
    "counts-explained": "supported", "peaks-explained": "supported",
}  # fmt: skip


def test_verdicts_and_no_judgement_of_a_gpu_by_a_processor() -> None:
    assert {claim.name or claim.id: claim.verdict for claim in FULL.claims.values()} == VERDICTS


def test_every_count_is_explained_to_the_unit() -> None:
    counts = [r for id_, r in FULL.reconciliations.items() if id_.startswith("executed-")]
    assert len(counts) == 2 * len(profiling.BATCHES) + 2 * len(profiling.OTHERS)
    assert all(r.explained for r in counts)


@pytest.mark.parametrize("excess", [-1, 7])
def test_a_count_that_no_term_explains_is_called_unexplained(excess: int) -> None:
    odd = profiling.layer_case(profiling.OTHERS[-1], 8, excess=excess)
    result = found(profiling.record([*profiling.layer_cases()[:-1], odd]))
    assert value(result, "residual_changed") == excess
    assert result.tables["tbl-changed"].columns[-1].name == "Residual, unexplained"
    assert result.claims["counts-explained"].verdict == "refuted"
    assert_whole(STUDY, result)


def test_first_calls_alone_are_explained_by_what_makes_the_kernel() -> None:
    cases = [
        profiling.layer_case(BASE, 1, lackey_multiply_adds_first=[10_616_832 + 500]),
        profiling.layer_case(
            BASE, 64, lackey_multiply_adds=(), lackey_multiply_adds_first=[64 * 10_616_832 + 500]
        ),
    ]
    result = found(profiling.record(cases))
    assert value(result, "residual_executed") == 0
    assert value(result, "counted_largest") == 64


# ------------------------------------------------------------------------------ the source


def test_all_printed_numbers_follow_but_two() -> None:
    differing = [check for check in audit(REPORTED) if check.verdict == "differs"]
    assert [check.derived.number for check in differing] == [40.6, 14.08]
    assert differing[0].finding.endswith("a prefix of 1,024 written as one of 1,000")
    assert float(differing[1].recomputed) == pytest.approx(9.511168)


# ----------------------------------------------------------------------- traces, a GPU, logs


def test_the_reader_can_take_traces_and_operators_along() -> None:
    text = assert_whole(STUDY, FULL)
    trace, operators = (f"example-2t.layer-64.{end}" for end in ("trace.json.gz", "operators.csv"))
    assert FULL.downloads[trace].content == profiling.FILES["trace.layer-64.json.gz"]
    csv = FULL.downloads[operators].content.decode()
    assert csv.startswith("Operator,Calls [1],Time [s],Self time [s],Size [B]")
    assert all(f"(files/{name})" in text for name in FULL.downloads)


def test_a_gpu_executes_what_its_counters_and_its_tensor_cores_say() -> None:
    counted: dict[str, Any] = {
        "ncu_fp32_additions": [36_864 * 8],
        "ncu_fp32_multiplications": [0],
        "ncu_fp32_multiply_adds": [0],
        "ncu_tensor_core_flops": [8 * FLOPS_AN_IMAGE * 2],
        "lackey_multiply_adds": (),
    }
    cases = [profiling.layer_case(BASE, 8, **counted), profiling.trace_case("layer")]
    machine = profiling.environment(key="example-gpu", gpu=factory.GPU)
    files = {"trace.layer-64.json.gz": profiling.trace(gpu=True)}
    result = found(profiling.record(cases, machine), files=files)
    assert_whole(STUDY, result)
    assert value(result, "gpu_forward_most") == pytest.approx(2 + 36_864 / FLOPS_AN_IMAGE)
    assert value(result, "own_kept") == 9_437_184, "bytes of the device, not of the host"
    verdicts = {c.name: c.verdict for c in result.claims.values() if c.name}
    assert verdicts["saved-forward"] == verdicts["small-batches"] == "not comparable"
    assert verdicts["forward-work"] == "refuted"


def test_every_kernel_of_the_h100_that_names_its_tile_is_explained() -> None:
    inputs = committed(STUDY)
    (gpu,) = (run for run in runs(inputs.records) if run.on_gpu)
    named = [r for r in tiled(inputs, gpu).values() if "no tile" not in r.terms[0].formula]
    assert len(named) >= 19 and {r.residual for r in named} == {0}
    # By hand: 576 positions, 40 channels and 180 taps in tiles of 32, 32 and 8.
    assert 576 * 64 * 184 - 576 * 40 * 180 in {r.terms[0].amount for r in named}


LOG = (
    "onednn_verbose,v1,info,cpu,isa:{code}\n"
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:{code},forward_training,"
    "src:f32:a:blocked:aBcd{width}b::f0 wei:f32:ap:blocked:ABcd{width}b{width}a::f0 "
    "bia:f32:a:blocked:a::f0 dst:f32:ap:blocked:aBcd{width}b::f0,attr-scratchpad:user,"
    "alg:convolution_direct,mb8_ic33oc65_ih26oh24kh3sh1dh0ph0_iw26ow24kw3sw1dw0pw0,1.5\n"
)


def with_logs(cut: int | None = None) -> Findings:
    case = profiling.layer_case(Dimensions(33, 65, 3, 28), 8)
    files = {
        log_file(case.factors, kind): LOG.format(code=code, width=width).encode()[:cut]
        for kind, code, width in (("native", "avx512_core", 16), ("avx2", "avx2", 8))
    }
    cases = [*profiling.layer_cases()[:4], case]
    return found(profiling.record(cases, files=files), files=files)


def test_logs_say_what_the_processor_itself_executes() -> None:
    result = with_logs()
    assert value(result, "uneven_native") == pytest.approx(48 * 80 / (33 * 65))
    assert value(result, "uneven_avx2") == pytest.approx(40 * 72 / (33 * 65))
    assert_whole(STUDY, result)


def test_a_damaged_log_or_trace_is_refused_with_its_file() -> None:
    with pytest.raises(RecordError, match=r"onednn\..*\.native\.txt"):
        with_logs(cut=-20)
    broken = {"trace.layer-64.json.gz": profiling.trace()[:-9]}
    with pytest.raises(RecordError, match=r"/trace\.layer-64\.json\.gz: .*not a whole gzip file"):
        found(profiling.record(files=broken), files=broken)


def test_another_layer_is_refused() -> None:
    case = msgspec.structs.replace(profiling.layer_case(BASE, 1), layers=(factory.layer(2),))
    with pytest.raises(StudyError, match="is not the layer that the factors name"):
        found(profiling.record([case]))
