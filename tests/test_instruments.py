"""Output files of measuring programs: ncu's tables of an H100, traces, and counters' logs.

ncu (Nsight Compute) counts instructions of a GPU, lackey (Valgrind) those of a CPU.
"""

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.core.errors import RecordError
from report.core.records.files import gzipped
from report.core.records.store import read_attachments, read_record
from report.instruments.counters import ncu
from report.instruments.counters.logs import CaseLogs, pack, unpack
from report.instruments.counters.ncu import case_range
from report.instruments.counters.ncu_metrics import metrics_for
from report.instruments.counters.ncu_output import explain_error, read_table, select_launches
from report.instruments.profiler import read_trace
from tests.factory import DATA

FILE = "conv_profiling/20261122T102731Z-nvidia-h100-80gb-hbm3-512a69aa.json"
STORED = read_record(DATA / FILE, DATA)
(CONTENT,) = read_attachments(STORED, ("ncu*",), DATA).values()
LOGS = unpack(CONTENT, ncu.TOOL, STORED.file)
#: Table of the first case: nine matrix products of known work, and two calls of the layer.
TABLE = LOGS[0].logs["table"]
FACTORS = STORED.record.cases[LOGS[0].case].factors
FIRST_CALL, SECOND_CALL = case_range(FACTORS, 0), case_range(FACTORS, 1)


def test_counts_of_a_record_follow_from_its_tables() -> None:
    assert len(LOGS) == 40, "one per case with counters"
    for case_logs in LOGS:
        series, missing = ncu.read_series(case_logs.logs, place="here")
        case = STORED.record.cases[case_logs.case]
        assert missing == {} and series.keys() == set(ncu.QUANTITIES)
        assert series == {name: case.samples(name) for name in series}, case.factors


RANGE_COLUMN = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"


def edited(range_name: str, metric: str, change: Callable[[int], object]) -> str:
    """Return ``TABLE`` with changed sums of a metric in a range; parts of both names suffice.

    A range is a call or a matrix product; it may have launched several kernels.
    """
    header, units, *launches = csv.reader(io.StringIO(TABLE))
    columns = [n for n, name in enumerate(header) if metric in name and name.endswith(".sum")]
    for launch in launches:
        if range_name in launch[header.index(RANGE_COLUMN)]:
            for column in columns:
                launch[column] = str(change(int(launch[column].replace(",", ""))))
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([header, units, *launches])
    return text.getvalue()


def miscounted(precision: str, factor: float, size: str = "") -> str:
    """Multiply the counts of products of this precision and size by a factor."""
    metric = "op_ffma_pred" if precision == "fp32" else f"_src_{precision}"
    range_name = f"precision={precision} size={size}"
    return edited(range_name, metric, lambda count: round(count * factor))


CORE, TENSOR = "ncu_cuda_core_flops", "ncu_tensor_core_flops"
FP32 = {f"ncu_fp32_{kind}" for kind in ("additions", "multiplications", "multiply_adds")}


@pytest.mark.parametrize(("table", "missing", "reason"), [
    (miscounted("bf16", 1.0003), set(), ""),
    (miscounted("bf16", 1.002), {TENSOR}, "1.002"),
    (miscounted("tf32", 0.997), {TENSOR}, "0.997"),
    (miscounted("fp32", 1.002), {CORE, *FP32}, "1.002"),
    # The smallest ratio of all sizes decides, since tiles are padded.
    (miscounted("bf16", 1.03, "4096x"), set(), ""),
    (edited(FIRST_CALL, FADD, lambda _: "n/a"), {CORE, "ncu_fp32_additions"}, "no number"),
], ids=range(6))  # fmt: skip
def test_counts_are_left_out_if_products_of_known_work_are_miscounted(
    table: str, missing: set[str], reason: str
) -> None:
    series, reasons = ncu.read_series(ncu.logs_of(table, (FIRST_CALL, SECOND_CALL)), "case 0")
    assert reasons.keys() == missing
    assert all(reason in text for text in reasons.values())
    assert series.keys() == set(ncu.QUANTITIES) - missing


def test_output_around_a_table_is_ignored() -> None:
    output = f"==PROF== Connected to process 1 (/usr/bin/python3)\nhello\n{TABLE}more\n"
    assert read_table(output) == read_table(TABLE)
    assert select_launches(output, lambda row: True) == TABLE


@pytest.mark.parametrize(("text", "message"), [
    ("==PROF== Connected to process 9\n", "printed no table"),
    ("\n".join(TABLE.splitlines()[:2]), "stops after its header"),
    (TABLE[:-12], "cut off"),
    (TABLE.rpartition(",")[0] + "\n", "cut off"),
    # Numbers in the formats of several languages.
    *((edited(FIRST_CALL, "lts__t_bytes.sum", lambda _, number=number: number), "LC_ALL=C")
      for number in ("1.5", "12,34", "1'000", "1\u202f000")),
    (TABLE.replace('"byte"', '"Mbyte"'), "--print-units base"),
    (TABLE.replace('"CC"', '"Metric Value"', 1), "--page raw"),
    (ncu.logs_of(TABLE, ("ridgepoint other",))["table"], "no launch of this case"),
    (TABLE.replace("op_fadd_", "op_none_"), "op_fadd_pred_on"),
], ids=range(12))  # fmt: skip
def test_a_damaged_table_is_refused_with_its_case(text: str, message: str) -> None:
    with pytest.raises(RecordError, match=f"^case 3: .*{message}.*\\.$"):
        ncu.read_series({"table": text}, "case 3")


def test_every_error_of_ncu_is_explained() -> None:
    for explanation, output in (
        ("run as root", "==ERROR== ERR_NVGPUCTRPERM - The user\n==WARNING== No kernels"),
        ("virtual machines", "==ERROR== Failed to initialize the profiler: LibraryNotLoaded"),
        ("newer driver", "==ERROR== Cuda driver is not compatible with Nsight Compute."),
        ("--list-chips", "==ERROR== Profiling is not supported on device 0. To find out supported"),
        ("dcgmi", "==ERROR== Profiling failed because a driver resource was unavailable."),
        ("without counters", "==ERROR== The application returned an error code (1)."),
        ("run on the GPU", "==WARNING== No kernels were profiled."),
        ("Failed to create nsight-lock", "==ERROR== Failed to create /home/somebody/nsight-lock."),
    ):
        text = explain_error(f"==PROF== Connected to process 7\n{output}\n")
        assert text and explanation in text and text.endswith(".") and "\n" not in text
    assert explain_error("==PROF== Disconnected") is None


#: Metrics of an H100 with a sum in the table.
SUMMED = frozenset(re.findall(r'"(\w+)\.sum"', TABLE))


def test_metrics_of_chips_count_every_flop_once() -> None:
    """Half-precision instructions (h) compute two numbers; wide tensor metrics include others."""
    included = (
        "op_hgmma_src_bf16_dst_fp32_sparsity_off", "op_hmma_src_fp16_dst_fp32", "op_hmma_src_fp16",
        "src_fp8_sparsity_on", "op_igmma_src_int8", "src_int8",
    )  # fmt: skip
    plan = metrics_for("9.0", SUMMED | {f"sm__ops_path_tensor_{name}" for name in included})
    core, tensor = {}, {}
    for precision, width in (("f", 1), ("d", 1), ("h", 2)):
        for operation, flops in (("add", 1), ("mul", 1), ("fma", 2)):
            metric = f"smsp__sass_thread_inst_executed_op_{precision}{operation}_pred_on.sum"
            core[metric] = flops * width
    for source in ("bf16_dst_fp32", "fp16", "fp64", "fp8", "tf32_dst_fp32"):
        tensor[f"sm__ops_path_tensor_src_{source}.sum"] = 1
    assert plan.factors[CORE] == core and plan.factors[TENSOR] == tensor
    assert plan.factors.keys() == set(ncu.QUANTITIES) - {"ncu_kernel_launches"}
    assert plan.missing == {}
    assert plan.metrics == tuple(sorted(set(plan.metrics)))
    without_tensor = {metric for metric in SUMMED if "tensor" not in metric}
    volta = metrics_for("7.0", frozenset({*without_tensor, "sm__inst_executed_pipe_tensor"}))
    assert volta.factors[TENSOR] == {"sm__inst_executed_pipe_tensor.sum": 512}


def timed_event(name: str, start: float, end: float, **fields: Any) -> dict[str, Any]:
    """Return an event between two moments in µs, by default of an operator on the host."""
    event = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1}
    return {**event, "ts": start, "dur": round(end - start, 3), **fields}


def memory_event(moment: float, size: int, device: int = 0) -> dict[str, Any]:
    """Return the event of an allocation of ``size`` B on the host (device 0) or a GPU (1)."""
    arguments = {"Bytes": size, "Device Type": device, "Device Id": -1, "Addr": 7}
    return {"ph": "i", "name": "[memory]", "ts": moment, "args": arguments}


#: A convolution with a workspace on a GPU, and a result on the host.
EVENTS = [
    {"ph": "M", "name": "process_name", "ts": 0.001, "args": {"name": "x"}},
    timed_event("step", 100.0, 200.0, cat="user_annotation"),
    timed_event("aten::conv2d", 101.0, 150.0),
    memory_event(105.5, 31392, device=1),
    memory_event(140.0, -31392, device=1),
    memory_event(103.5, 64),
    timed_event("implicit_gemm", 120.0, 170.25, cat="kernel"),
    timed_event("Memset", 110.5, 111.0, cat="gpu_memset"),
    {"ph": "X", "cat": "Trace", "name": "Profiler (0)", "pid": "Spans", "ts": 1.0, "dur": 500.0},
]


def trace_file(*events: dict[str, Any]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def without_field(index: int, field: str) -> bytes:
    """Return a trace of ``EVENTS`` in which the event at ``index`` lacks a field."""
    event = {name: value for name, value in EVENTS[index].items() if name != field}
    return trace_file(*EVENTS[:index], event, *EVENTS[index + 1 :])


def test_memory_and_kernels_are_read_in_order_of_time() -> None:
    trace = read_trace(trace_file(*EVENTS), "here", "measure again")
    assert trace.memory_changes == (31392, -31392) and trace.kernel_times == (50_250e-9,)


WHOLE_TRACE = trace_file(*EVENTS)


@pytest.mark.parametrize(("content", "message"), [
    (WHOLE_TRACE[:-30], "not valid JSON"),
    (gzipped(WHOLE_TRACE)[:-9], "cannot be unpacked"),
    (trace_file(*EVENTS[:1]), "expected operators or annotations of torch.profiler"),
    (without_field(2, "ts"), r"traceEvents\[2\].ts: this field is missing"),
    (without_field(2, "dur"), "expected a duration of at least 0, found None"),
    (without_field(3, "args"), r"traceEvents\[3\].args.Bytes: this field is missing"),
    (trace_file(timed_event("a", 2, 1)), "expected a duration of at least 0, found -1"),
    (trace_file(timed_event("a", 1e308, 1e308)), r"within ±9,\S+ µs, found ts 1E\+308 and dur 0.0"),
    (WHOLE_TRACE.replace(b'"traceEvents"', b'"traceEvents": [], "traceEvents"'), "vents twice"),
], ids=range(9))  # fmt: skip
def test_invalid_traces_are_refused_with_their_place(content: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=f"^here: .*{message}.*measure again.$"):
        read_trace(content, "here", "measure again")


@settings(max_examples=30)
@given(st.dictionaries(st.integers(0, 99), st.dictionaries(st.text(), st.text())))
def test_packed_logs_are_unpacked_in_order(logs: dict[int, dict[str, str]]) -> None:
    cases = [CaseLogs(case=index, logs=texts) for index, texts in logs.items()]
    content = pack("lackey", cases)
    assert unpack(content, "lackey", "here") == tuple(sorted(cases, key=lambda item: item.case))
    assert pack("lackey", reversed(cases)) == content, "equal logs give equal bytes"


def test_damaged_logs_are_refused() -> None:
    for content, message in (
        (b"", "not valid JSON"),
        (pack("lackey", ())[:-9], "cannot be unpacked"),
        (gzipped(b"{}"), "tool: .*missing"),
        (pack("ncu", ()), "tool: expected lackey, found ncu"),
    ):
        with pytest.raises(RecordError, match=f"^here: .*({message})"):
            unpack(content, "lackey", "here")
