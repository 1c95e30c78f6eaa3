"""Nsight Compute's output, read: real layouts, real metric names, NVIDIA's own complaints.

The names of each chip are those that NVIDIA's metric database (libnvperf_host of CUDA 12.9) lists
for it, cut down to those that matter here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.instruments.counters import ncu_logs
from report.instruments.counters.ncu import (
    Calibration,
    Product,
    calibrations,
    case_range,
    distrust,
    executed_flops,
    operations,
    products,
    total_of,
)
from report.instruments.counters.ncu_metrics import MetricPlan, metric_names, metrics_for
from report.instruments.counters.ncu_output import (
    CountersUnavailable,
    KernelRow,
    complaint,
    part_of,
    read_table,
)

# ------------------------------------------------------------------------------------ real names

INSTRUCTIONS = tuple(f"{k}{op}" for k in "dfh" for op in ("add", "mul", "fma"))
CORES = [
    f"{s}__sass_thread_inst_executed_op_{i}_pred_on" for s in ("sm", "smsp") for i in INSTRUCTIONS
]
COMMON = [
    *CORES,
    "dram__bytes", "dram__throughput", "l1tex__t_bytes", "l1tex__throughput", "lts__t_bytes",
    "lts__throughput", "sm__cycles_active", "sm__inst_executed_pipe_tensor", "sm__throughput",
]  # fmt: skip
SPARSITY = ("", "_sparsity_off", "_sparsity_on")
AMPERE = [
    f"{s}__ops_path_tensor_src_{p}{sparsity}"
    for s in ("sm", "smsp")
    for p in ("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "int8", "tf32_dst_fp32")
    for sparsity in SPARSITY
]
HOPPER = [
    *(f"op_hgmma_src_{p}{x}" for p in ("bf16_dst_fp32", "fp16", "tf32_dst_fp32") for x in SPARSITY),
    *(
        f"op_hmma_src_{p}{x}"
        for p in ("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "tf32_dst_fp32")
        for x in SPARSITY
    ),
    *("op_hmma_src_fp16", "op_bgmma_src_int1", "op_igmma_src_int8", "src_int1", "src_int8"),
    *("src_bf16_dst_fp32", "src_fp16", "src_fp64", "src_tf32_dst_fp32"),
    *(f"src_fp8{x}" for x in SPARSITY),
]
GB100 = [
    *(f"op_{o}_src_{p}{x}" for o in ("hmma", "utchmma") for p in ("bf16_dst_fp32", "tf32_dst_fp32")
      for x in SPARSITY),
    *("src_bf16_dst_fp32", "src_bf16_dst_fp32_realtime", "src_fp16_dst_fp16", "src_fp16_dst_fp32"),
    *("src_fp4_dst_fp32", "src_fp4_fp6_fp8_dst_fp32", "src_fp64", "src_int8", "src_tf32_dst_fp32"),
]  # fmt: skip
TENSOR: dict[str, list[str]] = {
    "7.0 old": [],
    "7.0": ["sm__ops_path_tensor_src_fp16_dst_fp16", "sm__ops_path_tensor_src_fp16_dst_fp32"],
    "7.5": [
        "sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32",
        "sm__ops_path_tensor_src_fp16_dst_fp16",
        "sm__ops_path_tensor_src_int8",
    ],
    "7.5 GTX": [],
    "8.0": [*AMPERE, "sm__ops_path_tensor_src_fp64"],
    "8.6": [*AMPERE, "sm__ops_path_tensor_src_fp64"],
    "8.9": [*AMPERE, *(f"sm__ops_path_tensor_src_fp8{x}" for x in SPARSITY)],
    "8.0 old": [name for name in AMPERE if "sparsity" in name],
    "9.0": [f"sm__ops_path_tensor_{name}" for name in HOPPER],
    "10.0": [f"sm__ops_path_tensor_{name}" for name in GB100],
}
PATHS: dict[str, dict[str, int]] = {
    "7.0 old": {"sm__inst_executed_pipe_tensor": 512},
    "7.0": {
        "sm__ops_path_tensor_src_fp16_dst_fp16": 1,
        "sm__ops_path_tensor_src_fp16_dst_fp32": 1,
    },
    "7.5": {
        "sm__ops_path_tensor_src_fp16_bf16_tf32_dst_fp32": 1,
        "sm__ops_path_tensor_src_fp16_dst_fp16": 1,
    },
    "7.5 GTX": {},
    **{
        chip: {
            f"sm__ops_path_tensor_src_{p}": 1
            for p in ("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "fp64", "tf32_dst_fp32")
        }
        for chip in ("8.0", "8.6")
    },
    "8.9": {
        f"sm__ops_path_tensor_src_{p}": 1
        for p in ("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "fp8", "tf32_dst_fp32")
    },
    "8.0 old": {
        f"sm__ops_path_tensor_src_{p}_sparsity_{x}": 1
        for p in ("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "tf32_dst_fp32")
        for x in ("off", "on")
    },
    "9.0": {
        f"sm__ops_path_tensor_src_{p}": 1
        for p in ("bf16_dst_fp32", "fp16", "fp64", "fp8", "tf32_dst_fp32")
    },
    "10.0": {
        f"sm__ops_path_tensor_src_{p}": 1
        for p in (
            *("bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32", "fp4_dst_fp32"),
            *("fp4_fp6_fp8_dst_fp32", "fp64", "tf32_dst_fp32"),
        )
    },
}


def plan_of(chip: str) -> MetricPlan:
    plan = metrics_for(chip.split(maxsplit=1)[0], frozenset([*COMMON, *TENSOR[chip]]))
    assert isinstance(plan, MetricPlan)
    return plan


HOPPER_PLAN = plan_of("9.0")
FADD, FMUL, FFMA = (
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "fmul", "ffma")
)


@pytest.mark.parametrize("chip", TENSOR)
def test_every_architecture_counts_each_path_of_its_tensor_cores_once(chip: str) -> None:
    plan = plan_of(chip)
    found = {t.metric.removesuffix(".sum"): t.factor for t in plan.terms if t.unit == "tensor_core"}
    assert found == PATHS[chip]
    assert ("tensor_core" in plan.missing) == (not found)


@pytest.mark.parametrize("chip", TENSOR)
def test_every_architecture_weighs_the_instructions_of_its_cuda_cores(chip: str) -> None:
    terms = [t for t in plan_of(chip).terms if t.unit == "cuda_core"]
    weights = {t.metric.split("op_")[1].removesuffix("_pred_on.sum"): t.factor for t in terms}
    assert weights == {
        "fadd": 1,
        "fmul": 1,
        "ffma": 2,
        "dadd": 1,
        "dmul": 1,
        "dfma": 2,
        "hadd": 2,
        "hmul": 2,
        "hfma": 4,
    }
    assert all(t.metric.startswith("smsp__") for t in terms)


def test_what_is_asked_for() -> None:
    asked = HOPPER_PLAN.metrics
    assert asked == tuple(sorted(set(asked)))
    assert {"dram__bytes.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum"} <= set(asked)
    assert "dram__throughput.avg.pct_of_peak_sustained_elapsed" in asked
    assert "sm__cycles_active.avg" in asked
    assert HOPPER_PLAN.missing == {}


def test_names_of_either_scope_and_other_names_of_dram() -> None:
    names = {name for name in COMMON if not name.startswith("smsp__")} - {"dram__bytes"}
    plan = metrics_for("9.0", frozenset({*names, "dram__bytes_read", "dram__bytes_write"}))
    assert isinstance(plan, MetricPlan)
    assert "sm__sass_thread_inst_executed_op_ffma_pred_on.sum" in plan.metrics
    assert plan.bytes["dram"] == ("dram__bytes_read.sum", "dram__bytes_write.sum")


def test_the_pairs_of_blackwell_count_twice() -> None:
    pairs = [f"smsp__sass_thread_inst_executed_op_{i}2_pred_on" for i in ("fadd", "fmul", "ffma")]
    plan = metrics_for("10.0", frozenset([*COMMON, *pairs]))
    assert isinstance(plan, MetricPlan)
    assert {t.metric.split("op_")[1][:5]: t.factor for t in plan.terms if "2_pred" in t.metric} == {
        "fadd2": 2,
        "fmul2": 2,
        "ffma2": 4,
    }


def test_what_a_plan_cannot_have() -> None:
    old = metrics_for("6.1", frozenset(COMMON))
    assert isinstance(old, CountersUnavailable)
    assert old.kind == "device" and "6.1" in old.reason
    bare = metrics_for("9.0", frozenset({"dram__bytes"}))
    assert isinstance(bare, CountersUnavailable)
    assert bare.kind == "metric" and "op_fadd_pred_on" in bare.reason
    gaps = metrics_for("9.0", frozenset(CORES))
    assert isinstance(gaps, MetricPlan)
    assert {"dram", "l2", "l1", "tensor_core", "sm_percent", "active_cycles"} <= gaps.missing.keys()


LISTINGS = {
    "2023 table": """\
Device NVIDIA A100-PCIE-40GB (GA100)
---------------------- ----------- ----------- ---------------------------
Metric Name            Metric Type Metric Unit Metric Description
---------------------- ----------- ----------- ---------------------------
dram__bytes            Counter     byte        # of bytes accessed in DRAM
lts__t_sector_hit_rate Ratio                   proportion of L2 sector lookups that hit
""",
    "2019 list": """\
dram__bytes                 # of bytes accessed in DRAM
lts__t_sector_hit_rate      proportion of L2 sector lookups that hit
""",
    "csv": """\
"Metric name","Metric type","Metric unit","Metric description","NVIDIA B200"
"dram__bytes","Counter","byte","# of bytes accessed in DRAM","1"
"lts__t_sector_hit_rate","Ratio","","proportion of L2 sector lookups that hit","1"
""",
}


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_listings_of_several_versions(listing: str) -> None:
    assert metric_names(listing) == {"dram__bytes", "lts__t_sector_hit_rate"}


# -------------------------------------------------------------------------------- the raw page

COLUMNS = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
)
CONVOLUTION = (
    "void cudnn::detail::implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, 0>(int, int)"
)
ADD = 'void at::native::elementwise_kernel<128, 2, at::native::lambda "1">(int, T3)'
CASE = case_range({"batch": 1, "pass": "forward"}, 0)


def unit_of(metric: str) -> str:
    return "byte" if "bytes" in metric else "inst"


def table(
    launches: Sequence[tuple[str, str | None, Mapping[str, object]]],
    *,
    capability: str = "9.0",
    units: Mapping[str, str] | None = None,
) -> str:
    """The raw page of ``launches`` (kernel, range, values), every cell quoted as ncu does."""
    metrics = sorted({name for _, _, values in launches for name in values})
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*COLUMNS, *metrics])
    writer.writerow(
        [""] * len(COLUMNS) + [(units or {}).get(name, unit_of(name)) for name in metrics]
    )
    for number, (kernel, name, values) in enumerate(launches):
        cell = f'{number}  "<default domain>:{name}:none:none:none:none:none:none"' if name else ""
        place = ["1", "7", "(128, 1, 1)", "(5, 3, 2)", "0", capability]
        cells = [str(values.get(metric, "n/a")) for metric in metrics]
        writer.writerow(
            [str(number), "4242", "python3.11", "127.0.0.1", "", cell, kernel, *place, *cells]
        )
    return buffer.getvalue()


def rows_of(text: str) -> tuple[KernelRow, ...]:
    rows = read_table(text)
    assert not isinstance(rows, CountersUnavailable), rows
    return rows


def values(plan: MetricPlan = HOPPER_PLAN, **counts: object) -> dict[str, object]:
    """0 for every metric of ``plan`` but those whose name holds a key of ``counts``."""
    return {
        name: next((value for key, value in counts.items() if key in name), 0)
        for name in plan.metrics
    }


def test_rows_with_their_kernels_ranges_and_numbers() -> None:
    text = table(
        [
            (
                CONVOLUTION,
                CASE,
                {"dram__bytes.sum": "10,616,832", "sm__cycles_active.avg": "1,234.5"},
            ),
            (ADD, None, {"dram__bytes.sum": "0", "sm__cycles_active.avg": "n/a"}),
        ]
    )
    first, second = rows_of("==PROF== Connected to process 1 (/usr/bin/python3)\nhello\n" + text)
    assert (first.kernel, first.range, first.compute_capability) == (CONVOLUTION, CASE, "9.0")
    assert first.values == {"dram__bytes.sum": 10616832, "sm__cycles_active.avg": 1234.5}
    assert (second.kernel, second.range) == (ADD, None)
    assert second.values == {"dram__bytes.sum": 0, "sm__cycles_active.avg": None}


def test_words_about_the_device_and_the_launch_are_no_counters() -> None:
    told = {
        "device__attribute_confidential_computing_mode": "No-CC",  # as an H100 tells it
        "device__attribute_l2s_count": "96",
        "launch__cluster_scheduling_policy": "PolicySpread",
        "dram__bytes.sum": "1",
    }
    (row,) = rows_of(table([(ADD, CASE, told)]))
    assert row.values == {"dram__bytes.sum": 1}


def test_only_the_table_is_kept() -> None:
    text = table([(ADD, CASE, {"dram__bytes.sum": "1"})])
    noisy = f"==PROF== Connected to process 9 (/home/me/python)\n{text}==PROF== Disconnected\n"
    assert part_of(noisy, lambda row: True) == text


def test_cells_with_line_ends_and_quotes_that_are_not_doubled() -> None:
    text = table([(ADD, CASE, {"dram__bytes.sum": "1"})])
    plain = text.replace('""<', '"<').replace('none""', 'none"')
    assert plain != text and rows_of(plain) == rows_of(text)
    split = text.replace("none:none:none:none:none:none", "none:none\n  none")
    assert rows_of(split) == rows_of(text)


@pytest.mark.parametrize(
    ("large", "small", "ambiguous", "expected"),
    [
        ("1,234,567", "12.5", "9,876", (1234567, 12.5, 9876)),
        ("1.234.567", "12,5", "9.876", (1234567, 12.5, 9876)),
        ("1 234 567", "12,5", "9 876", (1234567, 12.5, 9876)),
        ("1\u202f234\u202f567", "0,125", "9\u202f876", (1234567, 0.125, 9876)),
        ("1'234'567", "12.5", "9'876", (1234567, 12.5, 9876)),
        ("12,34,567", "12.5", "9,876", (1234567, 12.5, 9876)),
        ("1234567", "12.50", "9876", (1234567, 12.5, 9876)),
        ("1,234,567.00", "12.5", "9,876.00", (1234567, 12.5, 9876)),
    ],
)
def test_numbers_of_every_locale(
    large: str, small: str, ambiguous: str, expected: tuple[float, ...]
) -> None:
    names = ("dram__bytes.sum", "sm__cycles_active.avg", "lts__t_bytes.sum")
    text = table([(ADD, CASE, dict(zip(names, (large, small, ambiguous), strict=True)))])
    assert tuple(rows_of(text)[0].values[name] for name in names) == expected


@given(
    st.lists(st.integers(0, 10**15), min_size=1, max_size=5),
    st.sampled_from([(",", "."), (".", ","), (" ", ","), ("\u202f", ",")]),
)
def test_any_integers_survive_any_locale(numbers: list[int], marks: tuple[str, str]) -> None:
    group, decimal = marks
    # A percentage stands in every table of ours, and tells the decimal mark.
    cells: dict[str, object] = {"sm__throughput.pct": f"12{decimal}34"}
    cells |= {f"lts__t_{n}.sum": f"{v:,}".replace(",", group) for n, v in enumerate(numbers)}
    found = rows_of(table([(ADD, CASE, cells)]))[0].values
    assert [found[f"lts__t_{n}.sum"] for n in range(len(numbers))] == numbers


def refused(text: str) -> CountersUnavailable:
    found = read_table(text)
    assert isinstance(found, CountersUnavailable)
    assert found.reason.endswith(".")
    return found


def test_tables_that_cannot_be_read_say_how() -> None:
    whole = table([(CONVOLUTION, CASE, {"dram__bytes.sum": "1,000"})])
    assert refused("").kind == "empty"
    assert refused("==PROF== Connected to process 9\n").kind == "empty"
    assert refused(whole.splitlines()[0]).kind == "truncated"
    assert refused("\n".join(whole.splitlines()[:2])).kind == "truncated"
    assert refused(whole[:-12]).kind == "truncated"
    assert "13 of 14" in refused(whole.replace(',"1,000"', "")).reason
    mixed = {"dram__bytes.sum": "1,234,567", "sm__cycles_active.avg": "12,5"}
    assert refused(table([(ADD, CASE, mixed)])).kind == "locale"
    word = refused(table([(ADD, CASE, {"dram__bytes.sum": "١٢٣ many"})]))
    assert word.kind == "locale" and "dram__bytes.sum" in word.reason
    scaled = table([(ADD, CASE, {"dram__bytes.sum": "1.2"})], units={"dram__bytes.sum": "Mbyte"})
    assert refused(scaled).kind == "units"


@given(st.integers(min_value=0))
def test_a_table_cut_anywhere_is_refused_or_lacks_only_rows(cut: int) -> None:
    launches = [(CONVOLUTION, CASE, {"dram__bytes.sum": "1,000"})] * 3
    whole = table(launches)
    rows = read_table(whole[: cut % len(whole)])
    if isinstance(rows, CountersUnavailable):
        assert rows.kind in ("empty", "truncated")
    else:
        assert {row.values["dram__bytes.sum"] for row in rows} == {1000}


# ------------------------------------------------------------------------------- complaints

COMPLAINTS = {
    "permission": (
        "==PROF== Connected to process 87374 (/usr/bin/python3.10)\n"
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
        "Performance Counters on the target device 0. For instructions on enabling permissions and "
        "to get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM\n"
        "==PROF== Disconnected from process 87374\n==WARNING== No kernels were profiled.\n"
    ),
    "library": "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n",
    "driver": (
        "==ERROR== Cuda driver is not compatible with Nsight Compute.\n"
        "==WARNING== Failed to load Nsight Compute CUDA modules.\n"
    ),
    "busy": (
        "==ERROR== An error was reported by the driver\n\n==ERROR== Profiling failed because a "
        "driver resource was unavailable. Ensure that no other tool (like DCGM) is concurrently "
        "collecting profiling data. See https://docs.nvidia.com/nsight-compute/ for more details.\n"
        '==ERROR== Failed to profile "risk_battle_kernel" in process 7508\n'
        "==ERROR== An error occurred while trying to profile.\n"
        "==WARNING== No kernels were profiled.\n"
    ),
    "device": (
        "==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer "
        "--list-chips option.\n"
    ),
    "metric": (
        "==ERROR== Failed to find metric regex:^flop_count_sp\\.(sum|min|max|avg|pct|ratio)$\n"
    ),
    "application": (
        "==PROF== Disconnected from process 55916\n"
        "==ERROR== The application returned an error code (1).\n"
        "==WARNING== No kernels were profiled.\n"
    ),
    "no_kernels": (
        "==PROF== Connected to process 664418 (/home/me/a.out)\n"
        "==PROF== Disconnected from process 664418\n==WARNING== No kernels were profiled.\n"
        "==WARNING== Profiling kernels launched by child processes requires the "
        "--target-processes all option.\n"
    ),
    "profiler": ("==ERROR== Unknown Error on device 0.\n==PROF== Disconnected from process 9137\n"),
}


@pytest.mark.parametrize("kind", COMPLAINTS)
def test_every_complaint_of_ncu_has_its_own_sentence(kind: str) -> None:
    found = complaint(COMPLAINTS[kind])
    assert found is not None
    assert found.kind == kind
    assert found.reason.endswith(".") and "\n" not in found.reason
    assert refused(COMPLAINTS[kind]).kind == "empty"


def test_complaints_are_distinct_and_silence_is_none() -> None:
    reasons = {found.reason for text in COMPLAINTS.values() if (found := complaint(text))}
    assert len(reasons) == len(COMPLAINTS)
    assert complaint("==PROF== Connected to process 1\n==PROF== Disconnected\n") is None


def test_an_unknown_complaint_is_told_without_paths() -> None:
    found = complaint("==ERROR== Failed to create /home/somebody/nsight-compute-lock.\n")
    assert found is not None
    assert found.reason == (
        "ncu says: Failed to create nsight-compute-lock; run it by hand to see more."
    )


# ------------------------------------------------------------------------------------- work


def test_cuda_core_work_of_the_reported_layer() -> None:
    """Conv2d(32,64,3,1) at batch 1: one addition and one multiplication an output element."""
    macs, outputs = 10_616_832, 36_864
    counts = values(op_ffma=f"{macs:,}", op_fadd=f"{outputs:,}", op_fmul=f"{outputs:,}")
    rows = rows_of(table([(CONVOLUTION, CASE, counts)]))
    work = executed_flops(rows, HOPPER_PLAN)
    assert work.total("cuda_core") == 2 * macs + 2 * outputs
    assert work.flops["cuda_core", "fp32"] == 2 * macs + 2 * outputs
    assert work.total("tensor_core") == 0
    assert operations(rows, HOPPER_PLAN, "add") == outputs
    assert operations(rows, HOPPER_PLAN, "multiply") == outputs
    assert operations(rows, HOPPER_PLAN, "multiply_add") == macs


def test_a_tf32_kernel_has_tensor_work_and_no_cuda_core_work() -> None:
    counts = values(src_tf32="21,233,664")
    (kernel,) = executed_flops(
        rows_of(table([("sm90_xmma_fprop_tf32", CASE, counts)])), HOPPER_PLAN
    ).kernels
    assert {k: v for k, v in kernel.flops.items() if v} == {("tensor_core", "tf32"): 21233664}


def test_volta_counts_512_flops_an_instruction() -> None:
    plan = plan_of("7.0 old")
    text = table([("volta_h884gemm", CASE, values(plan, pipe_tensor="1,000"))], capability="7.0")
    assert executed_flops(rows_of(text), plan).flops["tensor_core", "fp16"] == 512_000


def test_half_precision_is_packed_in_pairs() -> None:
    counts = values(op_hadd=1, op_hmul=10, op_hfma=100)
    work = executed_flops(rows_of(table([(ADD, CASE, counts)])), HOPPER_PLAN)
    assert work.flops["cuda_core", "fp16"] == 2 + 20 + 400


def test_kernels_with_their_launches() -> None:
    launches = [(CONVOLUTION, CASE, values(op_ffma=5)), (ADD, CASE, values(op_fadd=3))] * 2
    work = executed_flops(rows_of(table(launches)), HOPPER_PLAN)
    assert [(k.name, k.launches, k.flops["cuda_core", "fp32"]) for k in work.kernels] == [
        (CONVOLUTION, 2, 20),
        (ADD, 2, 6),
    ]
    assert work.total("cuda_core") == sum(k.flops["cuda_core", "fp32"] for k in work.kernels)


def test_a_value_that_is_missing_is_never_zero() -> None:
    rows = rows_of(table([(CONVOLUTION, CASE, {**values(op_ffma=5), FADD: "n/a"})]))
    work = executed_flops(rows, HOPPER_PLAN)
    assert ("cuda_core", "fp32") not in work.flops
    assert work.total("cuda_core") is None
    assert CONVOLUTION in work.missing["cuda_core", "fp32"]
    assert work.total("tensor_core") == 0
    assert operations(rows, HOPPER_PLAN, "add") is None
    assert total_of(rows, "no__such.sum") is None


def test_a_plan_without_tensor_metrics_has_no_tensor_work() -> None:
    plan = plan_of("7.5 GTX")
    rows = rows_of(table([(ADD, CASE, values(plan, op_fadd=1))], capability="7.5"))
    assert executed_flops(rows, plan).total("tensor_core") is None


def test_the_other_scope_is_accepted() -> None:
    counts = {name.replace("smsp__", "sm__"): 7 for name in HOPPER_PLAN.metrics}
    assert total_of(rows_of(table([(ADD, CASE, counts)])), FFMA) == 7


# ------------------------------------------------------------------------------ calibration


def calibrated(capability: str = "9.0", **ratios: float) -> tuple[KernelRow, ...]:
    """Rows of every product, counted with ``ratios`` of the true work by precision."""
    metrics = {"fp32": "op_ffma", "tf32": "src_tf32", "bf16": "src_bf16", "fp16": "dst_fp32"}
    launches = []
    for product in products(capability):
        # By the multiply-add on the CUDA cores, so half as many events as FLOPs.
        events = round(product.flops * ratios.get(product.precision, 1.0))
        events //= 2 if product.precision == "fp32" else 1
        counts = values(plan_of(capability), **{metrics[product.precision]: f"{events:,}"})
        launches.append((f"gemm_{product.precision}", product.range, counts))
    return rows_of(table(launches, capability=capability))


def distrusted(rows: Sequence[KernelRow], capability: str = "9.0") -> dict[str, str]:
    plan = plan_of(capability)
    found = distrust(calibrations(rows, plan, products(capability)))
    return {unit: outcome.reason for unit, outcome in found.items()}


def test_products_by_precision() -> None:
    assert {p.precision for p in products("9.0")} == {"fp32", "tf32", "bf16"}
    assert {p.precision for p in products("7.0")} == {"fp32", "fp16"}
    assert Product("fp32", 2, 3, 5).flops == 60


@pytest.mark.parametrize("ratio", [1.0, 1.0005, 0.9995])
def test_counters_within_a_thousandth_are_trusted(ratio: float) -> None:
    assert distrusted(calibrated(fp32=ratio, tf32=ratio, bf16=ratio)) == {}
    assert distrusted(calibrated("7.5", fp32=ratio, fp16=ratio), "7.5") == {}


@pytest.mark.parametrize("ratio", [1.002, 0.998])
def test_counters_off_by_more_are_not_trusted_with_the_figure(ratio: float) -> None:
    off = distrusted(calibrated(tf32=ratio))
    assert off.keys() == {"tensor_core"}
    assert "not trusted" in off["tensor_core"] and f"{ratio:.5f}" in off["tensor_core"]
    assert distrusted(calibrated(fp32=ratio)).keys() == {"cuda_core"}


def test_a_size_that_fills_up_tiles_does_not_count_against_the_other() -> None:
    tiled = [
        Calibration(Product("bf16", 4032, 4032, 4096), round(1.03 * 2 * 4032**2 * 4096)),
        Calibration(Product("bf16", 3840, 3840, 4096), 2 * 3840**2 * 4096),
    ]
    assert distrust(tiled) == {}
    assert distrust(tiled[:1]).keys() == {"tensor_core"}


def test_products_that_did_not_run_are_no_calibration() -> None:
    reasons = distrusted(calibrated()[:2])
    assert reasons.keys() == {"tensor_core"}
    assert "no number" in reasons["tensor_core"]
    assert distrusted(()).keys() == {"cuda_core", "tensor_core"}


# ------------------------------------------------------------------------------- what is kept

NEXT = case_range({"batch": 1, "pass": "forward"}, 1)
OTHER = case_range({"batch": 2, "pass": "forward"}, 0)


def calibrating(**off: float) -> list[tuple[str, str, dict[str, object]]]:
    """The launches of all products of Hopper, with a counter off by a factor."""
    units = {"fp32": ("op_ffma", 2), "tf32": ("src_tf32", 1), "bf16": ("src_bf16", 1)}
    return [
        (
            "gemm",
            product.range,
            values(**{units[p][0]: round(product.flops * off.get(p, 1)) // units[p][1]}),
        )
        for product in products("9.0")
        for p in (product.precision,)
    ]


def whole(*more: tuple[str, str, dict[str, object]], **off: float) -> str:
    """The table of a process that profiled the products, two calls of one case, and ``more``."""
    ones = values(op_ffma="10,616,832", op_fadd=36864)
    return table([*calibrating(**off), (CONVOLUTION, CASE, ones), (CONVOLUTION, NEXT, ones), *more])


def samples(logs: Mapping[str, str]) -> dict[str, tuple[float, ...]]:
    return {item.quantity: item.samples for item in ncu_logs.series_of(logs, "case 0")}


def test_a_case_is_cut_out_of_the_table_with_the_products() -> None:
    logs = ncu_logs.logs_of(whole((ADD, OTHER, values(op_fadd=7))), (CASE, NEXT))
    found = rows_of(logs["table"])
    assert {row.range for row in found} == {p.range for p in products("9.0")} | {CASE, NEXT}
    assert samples(logs) == {
        "ncu_cuda_core_flops": (2 * 10616832 + 36864,) * 2,
        "ncu_tensor_core_flops": (0, 0),
        "ncu_fp32_additions": (36864,) * 2,
        "ncu_fp32_multiplications": (0, 0),
        "ncu_fp32_multiply_adds": (10616832,) * 2,
        "ncu_dram_bytes": (0, 0),
        "ncu_l2_bytes": (0, 0),
        "ncu_l1_bytes": (0, 0),
        "ncu_kernel_launches": (1, 1),
    }
    assert ncu_logs.missing_of(logs, "case 0") == {}
    log = ncu_logs.read_log(logs, "case 0")
    assert [kernel.name for kernel in executed_flops(log.calls[0], log.plan).kernels] == [
        CONVOLUTION
    ]


def test_a_unit_that_is_not_trusted_is_left_out_with_the_figure() -> None:
    logs = ncu_logs.logs_of(whole(bf16=1.002), (CASE, NEXT))
    missing = ncu_logs.missing_of(logs, "case 0")
    assert missing.keys() == {"ncu_tensor_core_flops"}
    assert "not trusted" in missing["ncu_tensor_core_flops"]
    assert samples(logs).keys() == set(ncu_logs.QUANTITIES) - missing.keys()


def test_a_number_that_ncu_does_not_give_is_missing_with_a_reason() -> None:
    gap = {**values(), FADD: "n/a"}
    logs = ncu_logs.logs_of(whole((ADD, CASE, gap)), (CASE, NEXT))
    missing = ncu_logs.missing_of(logs, "case 0")
    assert missing.keys() == {"ncu_cuda_core_flops", "ncu_fp32_additions"}
    assert set(missing.values()) == {"ncu gave no number for it in at least one launch"}
    assert samples(logs)["ncu_kernel_launches"] == (2, 1)


@pytest.mark.parametrize(
    ("logs", "said"),
    [
        ({}, "there is no table of ncu"),
        ({"table": ""}, "printed no table"),
        ({"table": whole()[:-9]}, "cut off"),
        (ncu_logs.logs_of(whole(), (OTHER,)), "no launch of this case"),
        ({"table": table([(ADD, CASE, {"dram__bytes.sum": 1})])}, "op_fadd_pred_on"),
    ],
)
def test_a_damaged_table_is_refused_with_its_place(logs: Mapping[str, str], said: str) -> None:
    with pytest.raises(RecordError, match=f"^case 3: .*{said}"):
        ncu_logs.series_of(logs, "case 3")


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.integers() | st.booleans() | st.text(max_size=12) | st.floats(allow_nan=False),
        max_size=4,
    ),
    st.integers(0, 9),
)
def test_every_case_finds_its_rows(factors: dict[str, object], call: int) -> None:
    name = case_range(factors, call)
    assert rows_of(table([(ADD, name, {"dram__bytes.sum": 1})]))[0].range == name
