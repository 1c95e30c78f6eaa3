"""Nsight Compute's output, read: real layouts, real metric names, NVIDIA's own complaints.

The names of each chip are those that NVIDIA's metric database (libnvperf_host of CUDA 12.9) lists
for it, cut down to those that matter here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from report.errors import RecordError
from report.instruments.counters import ncu_logs
from report.instruments.counters.ncu import case_range, products, quantities
from report.instruments.counters.ncu_metrics import MetricPlan, metrics_for
from report.instruments.counters.ncu_output import (
    CountersUnavailable,
    KernelRow,
    complaint,
    part_of,
    read_table,
)

TENSOR_CORE, INSTRUCTION = "sm__ops_path_tensor_", "smsp__sass_thread_inst_executed_op_"
#: FLOPs of one thread instruction on the CUDA cores.
WEIGHTS = {
    f"{INSTRUCTION}{kind}{operation}_pred_on": count * (2 if kind == "h" else 1)
    for kind in "fdh"
    for operation, count in (("add", 1), ("mul", 1), ("fma", 2))
}
COMMON = (
    *WEIGHTS, "dram__bytes", "l1tex__t_bytes", "lts__t_bytes", "lts__throughput",
    "sm__inst_executed_pipe_tensor",
)  # fmt: skip
#: Tensor metrics of Hopper, of which those that hold others count once each.
HOPPER = [
    *(f"op_hgmma_src_{path}{sparsity}" for path in ("bf16_dst_fp32", "fp16", "tf32_dst_fp32")
      for sparsity in ("", "_sparsity_off", "_sparsity_on")),
    *("op_hmma_src_fp16", "op_hmma_src_fp16_dst_fp32", "op_igmma_src_int8", "src_int8"),
    *("src_bf16_dst_fp32", "src_fp16", "src_fp64", "src_tf32_dst_fp32"),
    *("src_fp8", "src_fp8_sparsity_off", "src_fp8_sparsity_on"),
]  # fmt: skip
PATHS = ("bf16_dst_fp32", "fp16", "fp64", "fp8", "tf32_dst_fp32")


def plan_of(capability: str, *tensor: str) -> MetricPlan:
    names = frozenset([*COMMON, *(f"{TENSOR_CORE}{name}" for name in tensor)])
    plan = metrics_for(capability, names)
    assert isinstance(plan, MetricPlan)
    return plan


HOPPER_PLAN, VOLTA_PLAN = plan_of("9.0", *HOPPER), plan_of("7.0")


@pytest.mark.parametrize(
    ("plan", "paths"),
    [
        (HOPPER_PLAN, {f"{TENSOR_CORE}src_{path}.sum": 1 for path in PATHS}),
        (VOLTA_PLAN, {"sm__inst_executed_pipe_tensor.sum": 512}),
    ],
)
def test_every_architecture_counts_each_path_once(plan: MetricPlan, paths: dict[str, int]) -> None:
    factors = {t.metric: t.factor for t in plan.terms}
    assert factors == paths | {f"{name}.sum": count for name, count in WEIGHTS.items()}
    assert {t.metric for t in plan.terms if t.unit == "tensor_core"} == paths.keys()
    assert set(plan.bytes) == {"dram", "l2", "l1"} and plan.missing == {}
    assert plan.metrics == tuple(sorted(set(plan.metrics)))


# -------------------------------------------------------------------------------------- the table


class Launch(NamedTuple):
    kernel: str
    range: str
    values: Mapping[str, object]


CONVOLUTION = (
    "void cudnn::detail::implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, 0>(int, int)"
)
ADD = 'void at::native::elementwise_kernel<128, 2, at::native::lambda "1">(int, T3)'
CASE, NEXT, OTHER = (
    case_range({"batch": batch, "pass": "forward"}, call)
    for batch, call in ((1, 0), (1, 1), (2, 0))
)
DRAM = "dram__bytes.sum"


def table(*launches: Launch, unit: str = "byte") -> str:
    """The raw page of ``launches``, every cell quoted as ncu does."""
    metrics = sorted({name for launch in launches for name in launch.values})
    columns = ("ID", "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
               "Kernel Name", "CC", "Section Name")  # fmt: skip
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*columns, *metrics])
    writer.writerow([*[""] * 5, *(unit if "bytes" in name else "inst" for name in metrics)])
    for number, (kernel, name, values) in enumerate(launches):
        mark = f'{number}  "<default domain>:{name}:none:none:none:none:none:none"' if name else ""
        counts = [str(values.get(metric, "n/a")) for metric in metrics]
        writer.writerow([str(number), mark, kernel, "9.0", "", *counts])
    return buffer.getvalue()


def rows_of(text: str) -> tuple[KernelRow, ...]:
    rows = read_table(text)
    assert not isinstance(rows, CountersUnavailable), rows
    return rows


def test_rows_with_their_kernels_ranges_and_numbers() -> None:
    words = {"device__attribute_confidential_computing_mode": "No-CC", "launch__policy": "Spread"}
    first = {DRAM: "10,616,832", "sm__cycles_active.avg": "1,234.5", **words}
    text = table(Launch(CONVOLUTION, CASE, first), Launch(ADD, "", {DRAM: "106168320"}))
    assert rows_of("==PROF== Connected to process 1 (/usr/bin/python3)\nhello\n" + text) == (
        KernelRow(CONVOLUTION, CASE, "9.0", {DRAM: 10_616_832}),
        KernelRow(ADD, None, "9.0", {DRAM: 106_168_320}),
    )
    assert part_of(f"noise\n{text}more\n", lambda row: True) == text


THOUSAND = Launch(CONVOLUTION, CASE, {DRAM: "1,000"})
WHOLE = table(THOUSAND)
OTHER_LOCALES = ("1.5", "12,34", "1.000", "1 000", "1'000", "1\u202f000", "١٢٣")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "printed no table"),
        ("==PROF== Connected to process 9\n", "printed no table"),
        ("\n".join(WHOLE.splitlines()[:2]), "stops after its header"),
        (WHOLE[:-12], "cut off"),
        (WHOLE.replace(',"1,000"', ""), "cut off"),
        *((WHOLE.replace("1,000", text), "LC_ALL=C") for text in OTHER_LOCALES),
        (table(THOUSAND, unit="Mbyte"), "--print-units base"),
        (WHOLE.replace("CC", "Metric Value"), "--page raw"),
    ],
)
def test_tables_that_cannot_be_read_say_how(text: str, words: str) -> None:
    found = read_table(text)
    assert isinstance(found, CountersUnavailable)
    assert words in found.reason and found.reason.endswith(".")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "permission",
            "==ERROR== ERR_NVGPUCTRPERM - The user\n==WARNING== No kernels were profiled.",
        ),
        ("library", "==ERROR== Failed to initialize the profiler: LibraryNotLoaded"),
        ("driver", "==ERROR== Cuda driver is not compatible with Nsight Compute."),
        ("busy", "==ERROR== Profiling failed because a driver resource was unavailable."),
        ("device", "==ERROR== Profiling is not supported on device 0. To find out supported"),
        ("metric", "==ERROR== Failed to find metric regex:^flop_count_sp"),
        ("application", "==ERROR== The application returned an error code (1)."),
        ("no_kernels", "==WARNING== No kernels were profiled."),
        ("profiler", "==ERROR== Failed to create /home/somebody/nsight-lock."),
        (None, "==PROF== Disconnected"),
    ],
)
def test_every_complaint_of_ncu_has_its_own_sentence(kind: str | None, said: str) -> None:
    found = complaint(f"==PROF== Connected to process 7\n{said}\n")
    assert (found and found.kind) == kind
    if found:
        assert found.reason.endswith(".") and "\n" not in found.reason
        assert "/home" not in found.reason


# --------------------------------------------------------------------------------- what it counts


def counts(plan: MetricPlan = HOPPER_PLAN, **given: object) -> dict[str, object]:
    """0 for every metric of ``plan`` but those whose name holds a key of ``given``."""
    return {
        name: next((count for key, count in given.items() if key in name), 0)
        for name in plan.metrics
    }


@pytest.mark.parametrize(
    ("plan", "given", "cuda_core", "tensor_core"),
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
        # A value that is missing is never zero.
        (HOPPER_PLAN, {"op_ffma": 5, "op_fadd": "n/a"}, None, 0),
    ],
)
def test_work_of_a_kernel(
    plan: MetricPlan, given: dict[str, object], cuda_core: int | None, tensor_core: int
) -> None:
    more = Launch(ADD, CASE, counts(plan, op_fadd=3))
    work = quantities(
        rows_of(table(*[Launch(CONVOLUTION, CASE, counts(plan, **given)), more] * 2)), plan
    )
    assert work.get("ncu_cuda_core_flops") == (None if cuda_core is None else 2 * (cuda_core + 3))
    assert ("ncu_fp32_additions" in work) == (cuda_core is not None)
    assert work["ncu_tensor_core_flops"] == 2 * tensor_core
    assert work["ncu_kernel_launches"] == 4


def whole(*more: Launch, tiles: float = 1, **off: float) -> str:
    """The table of a process that profiled all products, two calls of one case, and ``more``.

    Counters of a precision are ``off`` by a factor; ``tiles`` is what they see of all sizes of the
    products but one, whose tiles fit.
    """
    units = {"fp32": ("op_ffma", 2), "tf32": ("src_tf32", 1), "bf16": ("src_bf16", 1)}
    launches = []
    for product in products("9.0"):
        metric, flops = units[product.precision]
        seen = off.get(product.precision, 1) * (1 if product.rows == 4032 else tiles)
        count = round(product.flops * seen) // flops
        launches.append(Launch("gemm", product.range, counts(**{metric: count})))
    ones = counts(op_ffma="10,616,832", op_fadd=36864)
    return table(*launches, *(Launch(CONVOLUTION, call, ones) for call in (CASE, NEXT)), *more)


CORE = {
    "ncu_cuda_core_flops", "ncu_fp32_additions", "ncu_fp32_multiplications",
    "ncu_fp32_multiply_adds",
}  # fmt: skip
SILENT = Launch(ADD, CASE, counts(op_fadd="n/a"))


@pytest.mark.parametrize(
    ("text", "missing", "said"),
    [
        (whole(bf16=1.0005, fp32=0.9995), set(), ""),
        (whole(bf16=1.002), {"ncu_tensor_core_flops"}, "1.002"),
        (whole(tf32=0.998), {"ncu_tensor_core_flops"}, "0.998"),
        (whole(fp32=1.002), CORE, "1.002"),
        (whole(tiles=1.03), set(), ""),
        (whole(SILENT), {"ncu_cuda_core_flops", "ncu_fp32_additions"}, "no number"),
    ],
    ids=range(6),
)
def test_what_is_not_trusted_or_not_given_is_left_out(
    text: str, missing: set[str], said: str
) -> None:
    series, found = ncu_logs.counted(ncu_logs.logs_of(text, (CASE, NEXT)), "case 0")
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
        ({"table": WHOLE}, "op_fadd_pred_on"),
    ],
    ids=range(5),
)
def test_a_damaged_table_is_refused_with_its_place(logs: dict[str, str], said: str) -> None:
    with pytest.raises(RecordError, match=f"^case 3: .*{said}"):
        ncu_logs.counted(logs, "case 3")
