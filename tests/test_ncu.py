"""Nsight Compute's output, read: real layouts, real metric names, NVIDIA's own complaints.

The names of each chip are those that NVIDIA's metric database (libnvperf_host of CUDA 12.9) lists
for it, cut down to those that matter here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.instruments.counters import ncu_logs
from report.instruments.counters.ncu import (
    case_range,
    operations,
    products,
    quantities,
    total_of,
)
from report.instruments.counters.ncu_metrics import MetricPlan, metrics_for
from report.instruments.counters.ncu_output import (
    CountersUnavailable,
    KernelRow,
    complaint,
    part_of,
    read_table,
)

TENSOR_CORE = "sm__ops_path_tensor_"
SPARSITY = ("", "_sparsity_off", "_sparsity_on")
#: FLOPs of one thread instruction on the CUDA cores.
WEIGHTS = {f"{k}{op}": n * (1 + (k == "h")) for k in "fdh"
           for op, n in (("add", 1), ("mul", 1), ("fma", 2))}  # fmt: skip
COMMON = [
    *(f"smsp__sass_thread_inst_executed_op_{name}_pred_on" for name in WEIGHTS),
    "dram__bytes", "l1tex__t_bytes", "lts__t_bytes", "lts__throughput",
    "sm__inst_executed_pipe_tensor",
]  # fmt: skip
#: Tensor metrics of Hopper, of which those that hold others count once each.
HOPPER = [
    *(f"op_hgmma_src_{p}{x}" for p in ("bf16_dst_fp32", "fp16", "tf32_dst_fp32") for x in SPARSITY),
    *("op_hmma_src_fp16", "op_hmma_src_fp16_dst_fp32", "op_igmma_src_int8", "src_int8"),
    *("src_bf16_dst_fp32", "src_fp16", "src_fp64", "src_tf32_dst_fp32"),
    *(f"src_fp8{x}" for x in SPARSITY),
]
PATHS = ("bf16_dst_fp32", "fp16", "fp64", "fp8", "tf32_dst_fp32")


def plan_of(capability: str, *tensor: str) -> MetricPlan:
    names = frozenset([*COMMON, *(f"{TENSOR_CORE}{name}" for name in tensor)])
    plan = metrics_for(capability, names)
    assert isinstance(plan, MetricPlan)
    return plan


HOPPER_PLAN, VOLTA_PLAN = plan_of("9.0", *HOPPER), plan_of("7.0")
FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"


@pytest.mark.parametrize(
    ("plan", "paths"),
    [
        (HOPPER_PLAN, {f"{TENSOR_CORE}src_{path}.sum": 1 for path in PATHS}),
        (VOLTA_PLAN, {"sm__inst_executed_pipe_tensor.sum": 512}),
    ],
)
def test_every_architecture_counts_each_path_once(plan: MetricPlan, paths: dict[str, int]) -> None:
    assert {t.metric: t.factor for t in plan.terms if t.unit == "tensor_core"} == paths
    cores = {t.metric: t.factor for t in plan.terms if t.unit == "cuda_core"}
    assert cores == {
        f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum": n for name, n in WEIGHTS.items()
    }
    assert set(plan.bytes) == {"dram", "l2", "l1"} and plan.missing == {}
    assert plan.metrics == tuple(sorted(set(plan.metrics)))


RANGES = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
COLUMNS = ("ID", "Process ID", RANGES, "Kernel Name", "Block Size", "CC", "Section Name")
CONVOLUTION = (
    "void cudnn::detail::implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, 0>(int, int)"
)
ADD = 'void at::native::elementwise_kernel<128, 2, at::native::lambda "1">(int, T3)'
CASE = case_range({"batch": 1, "pass": "forward"}, 0)


def unit_of(metric: str) -> str:
    return "byte" if "bytes" in metric else "inst"


def table(
    launches: Sequence[tuple[str, str | None, Mapping[str, object]]],
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
        cells = [str(values.get(metric, "n/a")) for metric in metrics]
        writer.writerow([str(number), "42", cell, kernel, "(128, 1, 1)", "9.0", "", *cells])
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
    words = {"device__attribute_confidential_computing_mode": "No-CC", "launch__policy": "Spread"}
    first = {"dram__bytes.sum": "10,616,832", "sm__cycles_active.avg": "1,234.5", **words}
    text = table([(CONVOLUTION, CASE, first), (ADD, None, {"dram__bytes.sum": "0"})])
    one, two = rows_of("==PROF== Connected to process 1 (/usr/bin/python3)\nhello\n" + text)
    assert (one.kernel, one.range, one.compute_capability) == (CONVOLUTION, CASE, "9.0")
    assert one.values == {"dram__bytes.sum": 10616832}
    assert (two.kernel, two.range) == (ADD, None)
    assert two.values == {"dram__bytes.sum": 0}
    assert part_of(f"noise\n{text}more\n", lambda row: True) == text


@given(st.integers(0, 10**15))
def test_any_count_is_read_and_other_locales_are_refused(number: int) -> None:
    def read(text: str) -> object:
        rows = read_table(table([(ADD, CASE, {"lts__t_bytes.sum": text})]))
        return rows.kind if isinstance(rows, CountersUnavailable) else rows[0].values[_BYTES]

    assert read(f"{number:,}") == read(str(number)) == number
    for group in (".", " ", "'", "\u202f"):
        assert read(f"{number + 1000:,}".replace(",", group)) == "number"


_BYTES = "lts__t_bytes.sum"
WHOLE = table([(CONVOLUTION, CASE, {"dram__bytes.sum": "1,000"})])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        ("==PROF== Connected to process 9\n", "empty"),
        ("\n".join(WHOLE.splitlines()[:2]), "truncated"),
        (WHOLE[:-12], "truncated"),
        (WHOLE.replace(',"1,000"', ""), "truncated"),
        (table([(ADD, CASE, {"dram__bytes.sum": "١٢٣"})]), "number"),
        (table([(ADD, CASE, {_BYTES: "1"})], {_BYTES: "Mbyte"}), "units"),
        (WHOLE.replace("CC", "Metric Value"), "page"),
        (WHOLE.replace("1,000", "1.5"), "number"),
        (WHOLE.replace("1,000", "12,34"), "number"),
    ],
)
def test_tables_that_cannot_be_read_say_how(text: str, kind: str) -> None:
    found = read_table(text)
    assert isinstance(found, CountersUnavailable)
    assert found.kind == kind and found.reason.endswith(".")


@given(st.integers(min_value=0))
def test_a_table_cut_anywhere_is_refused_or_lacks_only_rows(cut: int) -> None:
    launches = [(CONVOLUTION, CASE, {"dram__bytes.sum": "1,000"})] * 3
    whole = table(launches)
    rows = read_table(whole[: cut % len(whole)])
    if isinstance(rows, CountersUnavailable):
        assert rows.kind in ("empty", "truncated")
    else:
        assert {row.values["dram__bytes.sum"] for row in rows} == {1000}


COMPLAINTS = {
    "permission": "==ERROR== ERR_NVGPUCTRPERM - The user\n==WARNING== No kernels were profiled.",
    "library": "==ERROR== Failed to initialize the profiler: LibraryNotLoaded",
    "driver": "==ERROR== Cuda driver is not compatible with Nsight Compute.",
    "busy": "==ERROR== Profiling failed because a driver resource was unavailable.",
    "device": "==ERROR== Profiling is not supported on device 0. To find out supported",
    "metric": "==ERROR== Failed to find metric regex:^flop_count_sp",
    "application": "==ERROR== The application returned an error code (1).",
    "no_kernels": "==WARNING== No kernels were profiled.",
    "profiler": "==ERROR== Failed to create /home/somebody/nsight-lock.",
}


@pytest.mark.parametrize("kind", COMPLAINTS)
def test_every_complaint_of_ncu_has_its_own_sentence(kind: str) -> None:
    found = complaint(f"==PROF== Connected to process 7\n{COMPLAINTS[kind]}\n")
    assert found is not None and found.kind == kind
    assert found.reason.endswith(".") and "\n" not in found.reason and "/home" not in found.reason
    assert complaint("==PROF== Connected to process 1\n==PROF== Disconnected\n") is None


@pytest.mark.parametrize(
    ("plan", "counts", "cuda_core", "tensor_core"),
    [
        # Conv2d(32, 64, 3) at batch 1: one addition and one multiplication an output element.
        (
            HOPPER_PLAN,
            {"op_ffma": "10,616,832", "op_fadd": 36864, "op_fmul": 36864},
            21_307_392,
            0,
        ),
        (HOPPER_PLAN, {"src_tf32": "21,233,664"}, 0, 21_233_664),
        (HOPPER_PLAN, {"op_hadd": 1, "op_hmul": 10, "op_hfma": 100}, 2 + 20 + 400, 0),
        (VOLTA_PLAN, {"pipe_tensor": "1,000"}, 0, 512_000),
    ],
)
def test_work_of_a_kernel(
    plan: MetricPlan, counts: dict[str, object], cuda_core: int, tensor_core: int
) -> None:
    launches = [(CONVOLUTION, CASE, values(plan, **counts)), (ADD, CASE, values(plan, op_fadd=3))]
    work = quantities(rows_of(table(launches * 2)), plan)
    assert work["ncu_cuda_core_flops"] == 2 * (cuda_core + 3)
    assert work["ncu_tensor_core_flops"] == 2 * tensor_core
    assert work["ncu_kernel_launches"] == 4


def test_a_value_that_is_missing_is_never_zero() -> None:
    rows = rows_of(table([(CONVOLUTION, CASE, {**values(op_ffma=5), FADD: "n/a"})]))
    work = quantities(rows, HOPPER_PLAN)
    assert not work.keys() & {"ncu_cuda_core_flops", "ncu_fp32_additions"}
    assert work["ncu_fp32_multiply_adds"] == 5 and work["ncu_tensor_core_flops"] == 0
    assert operations(rows, HOPPER_PLAN, "add") is None
    assert total_of(rows, "no__such.sum") is None


NEXT = case_range({"batch": 1, "pass": "forward"}, 1)
OTHER = case_range({"batch": 2, "pass": "forward"}, 0)


def calibrating(tiles: float = 1, **off: float) -> list[tuple[str, str, dict[str, object]]]:
    """The launches of all products of Hopper, with a counter off by a factor.

    ``tiles`` is what the counters see of all sizes but one, whose tiles fit.
    """
    units = {"fp32": ("op_ffma", 2), "tf32": ("src_tf32", 1), "bf16": ("src_bf16", 1)}
    return [
        (
            "gemm",
            product.range,
            values(**{units[p][0]: round(product.flops * off.get(p, 1) * more) // units[p][1]}),
        )
        for product in products("9.0")
        for p, more in ((product.precision, 1 if product.rows == 4032 else tiles),)
    ]


def whole(*more: tuple[str, str, dict[str, object]], **off: float) -> str:
    """The table of a process that profiled the products, two calls of one case, and ``more``."""
    ones = values(op_ffma="10,616,832", op_fadd=36864)
    return table([*calibrating(**off), (CONVOLUTION, CASE, ones), (CONVOLUTION, NEXT, ones), *more])


CORE = {
    "ncu_cuda_core_flops", "ncu_fp32_additions", "ncu_fp32_multiplications",
    "ncu_fp32_multiply_adds",
}  # fmt: skip


@pytest.mark.parametrize(
    ("off", "more", "missing", "said"),
    [
        ({"bf16": 1.0005, "fp32": 0.9995}, (), set(), ""),
        ({"bf16": 1.002}, (), {"ncu_tensor_core_flops"}, "1.002"),
        ({"tf32": 0.998}, (), {"ncu_tensor_core_flops"}, "0.998"),
        ({"fp32": 1.002}, (), CORE, "1.002"),
        ({"tiles": 1.03}, (), set(), ""),
        (
            {},
            ((ADD, CASE, {**values(), FADD: "n/a"}),),
            {"ncu_cuda_core_flops", "ncu_fp32_additions"},
            "no number",
        ),
    ],
)
def test_what_is_not_trusted_or_not_given_is_left_out(
    off: dict[str, float], more: Any, missing: set[str], said: str
) -> None:
    logs = ncu_logs.logs_of(whole(*more, **off), (CASE, NEXT))
    series, found = ncu_logs.counted(logs, "case 0")
    assert found.keys() == missing
    assert all(said in reason for reason in found.values())
    assert series.keys() == set(ncu_logs.QUANTITIES) - missing


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
        ncu_logs.counted(logs, "case 3")
