"""The study: values against closed forms, and what it says where something is missing or broken."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest

from figures.timeline import Timeline
from report.errors import RecordError, StudyError
from report.evidence.audit import Check
from report.evidence.reported import Unreported
from report.instruments.onednn import log_file
from report.paper.findings import Findings
from report.records.record import Case, Record
from report.studies.conv_profiling.measured import runs
from report.studies.conv_profiling.source import audit, legible
from report.studies.conv_profiling.subject import BASE, Dimensions
from report.studies.conv_profiling.tiled import tiled
from tests import factory, profiling
from tests.degraded import committed
from tests.factory import FLOPS_AN_IMAGE, OUTPUT_BYTES, PARAMETER_BYTES
from tests.networks import mnist_example
from tests.papers import assert_whole, found_in, reported, value

STUDY = "conv_profiling"
REPORTED = reported(STUDY)


def found(*records: Record, files: Mapping[str, bytes] = profiling.FILES) -> Findings:
    return found_in(STUDY, *records, files=files)


FULL = found(profiling.record())
EMPTY = found()


# ------------------------------------------------------------------------------ closed forms


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("macs", 10_616_832),
        ("flops", FLOPS_AN_IMAGE),
        ("parameters", 18_496),
        ("parameter_bytes", PARAMETER_BYTES),
        ("output_bytes", OUTPUT_BYTES),
        ("image_bytes", 221_440),
        ("batch_work", 64 * FLOPS_AN_IMAGE),
        ("source_workspace", 31_392 * 1024),
        ("source_allocated", 40_608 * 1024),
        ("source_self_size", -22_176 * 1024),
        ("source_kept", 64 * OUTPUT_BYTES),
        ("table_batch", 64),
        ("extra_parameters", 63 * PARAMETER_BYTES),
        ("estimate_once", 64 * OUTPUT_BYTES + PARAMETER_BYTES),
        ("residual_estimate", 0),
        ("residual_self", 0),
        ("partitions", 432),
        ("multiprocessors", 108),
        ("misread_tensor", pytest.approx(2 * 36_864 / (2 * 9 * 32 * 576))),
        ("bias_images", 80),
        ("bias_per_output", 1.25),
    ],
)
def test_numbers_that_need_no_run(id_: str, expected: float) -> None:
    assert value(EMPTY, id_) == expected
    assert value(FULL, id_) == expected


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("residual_executed", 0),
        ("residual_changed", 0),
        ("counted_smallest", 1),
        ("counted_largest", 64),
        ("changed_cases", 10),
        ("changed_explained", 10),
        ("changed_kinds", 5),
        ("held_batches", 4),
        ("peak_over_output", 2),
        ("own_kept", 9_437_184),
        ("own_allocated", 24_485_888),
        ("own_workspace", 15_048_704),
        ("network_parameters", 1_199_882),
        ("network_macs", 11_992_448),
        ("test_accuracy", 0.875),
        ("first_test_loss", 1.7),
        ("epochs", 3),
        ("steps", 6),
        ("test_images", 359),
        ("first_batch", 1),
        ("last_batch", 64),
        ("image_gain", pytest.approx(2e-4 / (6.5e-3 / 64))),
    ],
)
def test_numbers_of_a_run(id_: str, expected: float) -> None:
    assert value(FULL, id_) == expected


def test_every_dimension_is_explained_to_the_unit() -> None:
    told = [r for id_, r in FULL.reconciliations.items() if id_.startswith("executed-")]
    assert len(told) == 2 * len(profiling.BATCHES) + 2 * len(profiling.OTHERS)
    assert all(r.explained for r in told)
    columns = [column.name for column in FULL.tables["tbl-changed"].columns]
    assert columns[-1] == "Residual"
    assert "Not fused" not in columns, "no case has that term"


def test_a_count_that_no_term_explains_is_called_unexplained() -> None:
    cases = [*profiling.layer_cases()[:-1], profiling.layer_case(profiling.OTHERS[-1], 8, excess=7)]
    result = found(profiling.record(cases))
    assert value(result, "residual_changed") == 7
    assert result.tables["tbl-changed"].columns[-1].name == "Residual, unexplained"
    assert result.claims["counts-explained"].verdict == "refuted"
    text = assert_whole(STUDY, result)
    assert "the residual furthest from zero is" in text


# ------------------------------------------------------------------------------ the source


def checks() -> dict[tuple[str, str], Check]:
    return {(check.derived.place, check.formula): check for check in audit(REPORTED)}


def test_all_printed_numbers_follow_but_two() -> None:
    differing = [check for check in audit(REPORTED) if check.verdict == "differs"]
    assert [check.derived.number for check in differing] == [40.6, 14.08]
    assert differing[0].finding.endswith("a prefix of 1,024 written as one of 1,000")
    assert float(differing[1].recomputed) == pytest.approx(9.511168)


def test_the_summary_is_that_of_the_network() -> None:
    table = REPORTED.table("summary")
    ours = [x for x in mnist_example() if type(x).__name__ in ("Convolution", "Linear", "Dropout")]
    shapes = [tuple(json.loads(str(cell))[1:]) for cell in table.column("output_shape")]
    assert shapes == [x.output_shape[1:] for x in ours]
    other = REPORTED.table("summary_depth")
    pairs = zip(other.column("parameters"), table.column("parameters"), strict=True)
    assert all(isinstance(a, Unreported) or a == b for a, b in pairs)


def test_logs_are_as_long_as_they_say() -> None:
    images, losses = (REPORTED.table("channels_log").column(key) for key in ("images", "loss"))
    assert images == tuple(range(57_760, 59_841, 160))
    assert len(losses) == 14
    assert legible(REPORTED) == (2816.0, 42.67, None, 2_949_120.0)


def test_the_operator_table_closes_row_against_row() -> None:
    rows = {str(row[0]): row[1:] for row in REPORTED.table("operators").rows}
    empty, convolution = rows["aten::empty"], rows["aten::cudnn_convolution"]
    assert convolution[1] == empty[1] + convolution[2], "size increase"
    assert convolution[3] == empty[3] + convolution[4], "allocations"
    assert convolution[5] == empty[5] + convolution[6], "allocation size"
    for name in ("aten::conv2d", "aten::convolution", "aten::_convolution"):
        assert rows[name] == (1, convolution[1], 0, convolution[3], 0, convolution[5], 0)


@pytest.mark.parametrize(
    ("id_", "verdict"),
    [
        ("batch-in-product", "refuted"),
        ("table-of-one-image", "refuted"),
        ("parameters-per-image", "refuted"),
        ("temporary-storage", "supported"),
        ("recovery", "refuted"),
        ("counts-explained", "supported"),
        ("peaks-explained", "supported"),
        ("small-batches-slow-example-2t", "supported"),
    ],
)
def test_verdicts(id_: str, verdict: str) -> None:
    assert FULL.claims[id_].verdict == verdict


def test_a_count_is_explained_to_the_unit_or_not_at_all() -> None:
    def verdict(excess: int) -> str:
        case = profiling.layer_case(BASE, 8, excess=excess)
        return found(profiling.record([case])).claims["counts-explained"].verdict

    assert (verdict(-1), verdict(0), verdict(1)) == ("refuted", "supported", "refuted")


def test_the_sources_claims_about_a_gpu_are_not_judged_by_a_processor() -> None:
    names = {claim.name for claim in FULL.claims.values()}
    assert not names & {"saved-forward", "saved-backward", "small-batches", "tiles-explain"}


# ------------------------------------------------------------------- complete, empty, between


def test_the_reader_can_take_traces_and_operators_along() -> None:
    text = assert_whole(STUDY, FULL)
    names = [name for name in FULL.downloads if name.startswith("example-2t.layer-64")]
    assert names == [
        "example-2t.layer-64.trace.json.gz", "example-2t.layer-64.operators.csv",
    ]  # fmt: skip
    assert FULL.downloads[names[0]].content == profiling.FILES["trace.layer-64.json.gz"]
    csv = FULL.downloads[names[1]].content.decode()
    assert csv.startswith("Operator,Calls [1],Time [s],Self time [s],Size [B]")
    assert all(f"(files/{name})" in text for name in FULL.downloads)


def test_first_calls_alone_are_led_back_by_what_makes_the_kernel() -> None:
    cases = [
        profiling.layer_case(BASE, 1, lackey_multiply_adds_first=[10_616_832 + 500]),
        profiling.layer_case(
            BASE, 64, lackey_multiply_adds=(), lackey_multiply_adds_first=[64 * 10_616_832 + 500]
        ),
    ]
    result = found(profiling.record(cases))
    assert value(result, "residual_executed") == 0
    assert value(result, "counted_largest") == 64


def gpu_record() -> Record:
    counted = {
        "ncu_fp32_additions": [36_864 * 8],
        "ncu_fp32_multiplications": [0],
        "ncu_fp32_multiply_adds": [0],
        "ncu_tensor_core_flops": [8 * FLOPS_AN_IMAGE * 2],
        "lackey_multiply_adds": (),
    }
    cases = [
        profiling.layer_case(BASE, 8, **counted),
        profiling.layer_case(BASE, 64, lackey_multiply_adds=()),
        profiling.trace_case("layer"),
    ]
    machine = profiling.environment(key="example-gpu", gpu=factory.GPU)
    return profiling.record(cases, machine)


def test_a_gpu_has_its_own_work_kernels_and_device_time() -> None:
    files = {"trace.layer-64.json.gz": profiling.trace(gpu=True)}
    result = found(gpu_record(), files=files)
    assert_whole(STUDY, result)
    assert "tbl-own-kernels" in result.tables
    most = value(result, "gpu_forward_most")
    assert most == pytest.approx(2 + 36_864 / FLOPS_AN_IMAGE), "what the tensor cores execute"
    assert value(result, "own_kept") == 9_437_184, "bytes of the device, not of the host"
    assert result.claims["saved-forward-example-gpu"].verdict == "not comparable"
    assert result.claims["small-batches-example-gpu"].verdict == "not comparable"
    assert result.claims["forward-work-example-gpu"].verdict == "refuted"
    (panel,) = result.figures["fig-timeline-layer"].drawing.panels
    assert isinstance(panel, Timeline)
    assert panel.lanes[-1].name == "Device"


def test_every_kernel_of_the_h100_that_names_its_tile_is_explained() -> None:
    inputs = committed("conv_profiling")
    (gpu,) = (run for run in runs(inputs.records) if run.on_gpu)
    told = tiled(inputs, gpu)
    named = [r for r in told.values() if "0: no tile is named" not in r.terms[0].formula]
    assert len(named) >= 19 and {r.residual for r in named} == {0}
    # By hand: 576 positions, 40 channels and 180 taps in tiles of 32, 32 and 8.
    assert 576 * 64 * 184 - 576 * 40 * 180 in {r.terms[0].amount for r in named}


# ----------------------------------------------------------------------------- broken data


def test_another_layer_is_refused() -> None:
    case = msgspec.structs.replace(profiling.layer_case(BASE, 1), layers=(factory.layer(2),))
    with pytest.raises(StudyError, match="is not the layer that the factors name"):
        found(profiling.record([case]))


BROKEN = {
    "trace cut off": ("trace.layer-64.json.gz", profiling.trace()[:-9], "not a whole gzip file"),
    "no identity": ("images.json", b"{}", "this field is missing"),
    "no json": ("sample.json", b"squares", "not valid JSON"),
    "no images": (
        "sample.json", b'{"classes": ["0"], "shape": [1, 2, 2], "images": []}', "found none",
    ),
    "few pixels": (
        "sample.json",
        b'{"classes": ["0"], "shape": [1, 2, 2], "images": [{"label": 0, "pixels": "00"}]}',
        "images[0]: found 1 values",
    ),
    "no hexadecimal": (
        "sample.json",
        b'{"classes": ["0"], "shape": [1, 1, 1], "images": [{"label": 0, "pixels": "zz"}]}',
        "images[0]: found non-hexadecimal",
    ),
    "no class": (
        "sample.json",
        b'{"classes": ["0"], "shape": [1, 1, 1], "images": [{"label": 3, "pixels": "00"}]}',
        "images[0]: found",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_attachment_is_told_in_one_sentence(kind: str) -> None:
    name, content, words = BROKEN[kind]
    with pytest.raises(RecordError) as caught:
        found(profiling.record(), files={**profiling.FILES, name: content})
    message = str(caught.value)
    assert message.startswith("data/conv_profiling/")
    assert f"/{name}: " in message
    assert words in message
    assert message.endswith("restore the file with git, or run the experiment again.")
    assert "\n" not in message


# ------------------------------------------------------------------------- memory policies


PAGES = {1: 0, 8: 0, 64: 5_000}


def under_both_policies(batch: int) -> Case:
    """A case whose calls take 2 µs longer for each page that they map."""
    case = profiling.layer_case(BASE, batch)
    rounds = tuple(
        factory.round_(
            process,
            {
                "time": factory.scattered(1e-4 * batch + 2e-6 * pages + 1e-9 * process, 1e-4),
                "page_faults": [pages] * 15,
            },
            policy=policy,
        )
        for policy, pages in (("retained", 0), ("default", PAGES[batch]))
        for process in range(1, 7)
    )
    return msgspec.structs.replace(case, rounds=rounds)


def test_the_cost_of_mapped_pages_is_told_by_policy() -> None:
    result = found(profiling.record([under_both_policies(batch) for batch in PAGES]))
    text = assert_whole(STUDY, result)
    assert "fig-policies" in result.figures and "@fig-policies" in text
    assert value(result, "mapping_batch") == 64
    assert value(result, "policy_gain") == pytest.approx(1 + 0.01 / 6.4e-3, rel=1e-3)
    assert value(result, "policy_lost") == pytest.approx(0.01, rel=1e-3)
    assert result.claims["policy-pays-example-2t"].verdict == "supported"


CALL = (
    "onednn_verbose,v1,info,cpu,isa:{code}\n"
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:{code},forward_training,"
    "src:f32:a:blocked:aBcd{width}b::f0 wei:f32:ap:blocked:ABcd{width}b{width}a::f0 "
    "bia:f32:a:blocked:a::f0 dst:f32:ap:blocked:aBcd{width}b::f0,attr-scratchpad:user,"
    "alg:convolution_direct,mb8_ic33oc65_ih26oh24kh3sh1dh0ph0_iw26ow24kw3sw1dw0pw0,1.5\n"
)


def log(code: str, width: int) -> bytes:
    return CALL.format(code=code, width=width).encode()


def test_logs_tell_what_the_processor_itself_executes() -> None:
    uneven = Dimensions(33, 65, 3, 28)
    case = profiling.layer_case(uneven, 8)
    names = {kind: log_file(case.factors, kind) for kind in ("native", "avx2")}
    files = {
        names["native"]: log("avx512_core", 16),
        names["avx2"]: log("avx2", 8),
    }
    cases = [*profiling.layer_cases()[:4], case]
    result = found(profiling.record(cases, files=files), files=files)
    assert value(result, "uneven_native") == pytest.approx(48 * 80 / (33 * 65))
    assert value(result, "uneven_avx2") == pytest.approx(40 * 72 / (33 * 65))
    assert "A count holds for the instruction set" in assert_whole(STUDY, result)


def test_a_damaged_log_is_refused_with_its_file() -> None:
    case = profiling.layer_case(BASE, 8)
    files = {log_file(case.factors, kind): log("avx2", 8)[:-20] for kind in ("native", "avx2")}
    with pytest.raises(RecordError, match=r"onednn\..*\.native\.txt"):
        found(profiling.record([case], files=files), files=files)
