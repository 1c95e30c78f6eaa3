"""ncu driven as a subprocess: a stand-in on the PATH runs the real child with a stand-in torch.

The stand-in torch writes down which NVTX ranges were open while the profiler was on; the stand-in
ncu turns each such stretch into one launch of its table.  So the command line, the child, the
ranges, the notes and the reading of the table are the true ones.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.harness.counters import ncu
from experiments.harness.counters.ncu_child import CALLS, Note
from experiments.harness.counters.ncu_result import (
    ATTACHMENT,
    CounterOutcome,
    Output,
    evaluate,
    without,
)
from report.counters.ncu import case_range, executed_flops, products, quantities, read_attachment
from report.counters.ncu_metrics import MetricPlan, metrics_for
from report.counters.ncu_output import CountersUnavailable
from report.quantities import QUANTITIES

OPERATIONS = [f"{kind}{op}" for kind in "dfh" for op in ("add", "mul", "fma")]
NAMES = [
    *(f"smsp__sass_thread_inst_executed_op_{op}_pred_on" for op in OPERATIONS),
    *(f"sm__ops_path_tensor_src_{p}" for p in ("bf16_dst_fp32", "fp16", "tf32_dst_fp32")),
    *("dram__bytes", "lts__t_bytes", "l1tex__t_bytes", "sm__cycles_active"),
    *(f"{level}__throughput" for level in ("dram", "lts", "l1tex", "sm")),
]
CASES = [{"size": 1}, {"size": 2}, {"size": 3}]

#: Enough of torch for the child; what it launches is written down, with the range around it.
TORCH = """
import os, types
from pathlib import Path
from experiments import registry

registry.STUDIES["tiny"] = "tiny_gpu"
float32, bfloat16, float16 = "float32", "bfloat16", "float16"
state = {"on": False, "range": None}

def set_num_threads(n): pass
def set_num_interop_threads(n): pass
def manual_seed(n): pass
def randn(*shape, device, dtype): return shape
def mm(left, right): launch(backends.cuda.matmul.allow_tf32)

def launch(work):
    if state["on"]:
        with Path(os.environ["LAUNCHES"]).open("a") as stream:
            stream.write(f"{state['range']}\\t{work}\\n")

def start(): state["on"] = True
def stop(): state["on"] = False
def range_start(name): state["range"] = name; return 7
def range_end(handle): assert handle == 7 and not state["on"]; state["range"] = None

backends = types.SimpleNamespace(
    cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=None)),
    cudnn=types.SimpleNamespace(allow_tf32=None, benchmark=None))
cuda = types.SimpleNamespace(
    is_available=lambda: True, synchronize=lambda: None, empty_cache=lambda: None,
    get_device_capability=lambda: (9, 0),
    nvtx=types.SimpleNamespace(range_start=range_start, range_end=range_end),
    profiler=types.SimpleNamespace(start=start, stop=stop))
"""

STUDY = """
import dataclasses
import os
import tiny_study
import torch
from experiments.harness.study import Counting
from experiments.harness.workload import Workload

class OutOfMemoryError(RuntimeError): pass

def build(factors, device):
    assert device == "cuda"
    if str(factors["size"]) == os.environ.get("NO_MEMORY"):
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0")
    if str(factors["size"]) == os.environ.get("DEADLY"):
        raise SystemExit(3)
    return Workload(lambda: torch.launch(factors["size"]), lambda: None)

COUNTING = Counting(build, lambda factors: 1, lambda factors, all_: 1, {"size": 1})
STUDY = dataclasses.replace(tiny_study.STUDY, counting=COUNTING)
"""

#: Checks what it is asked, runs the program, and prints a table as ncu does.
NCU = """#!{python}
import csv, json, os, subprocess, sys, time
from pathlib import Path

words = sys.argv[1:]
Path(os.environ["ASKED"]).open("a").write(json.dumps([words, os.environ["LC_ALL"]]) + "\\n")
if words == ["--query-metrics"]:
    print(os.environ["LISTING"])
    sys.exit(0)
program = words.index(sys.executable)
options = dict(zip(words, words[1:], strict=False))
log = Path(options["--log-file"])
time.sleep(float(os.environ.get("SLOW", "0")))
if said := os.environ.get("SAYS"):
    log.write_text(said)
    sys.exit(1)
print("==PROF== Connected to process 4242 (/somewhere/python)")
code = subprocess.run(words[program:]).returncode
metrics = options["--metrics"].split(",")
fields = ["ID", "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
          "Kernel Name", "CC", *metrics]
launches = [line.split("\\t") for line in Path(os.environ["LAUNCHES"]).read_text().splitlines()]
off = json.loads(os.environ.get("OFF", "{{}}"))
with log.open("w") as stream:
    stream.write("==PROF== Profiling - 1: 0%....50%....100% - 9 passes\\n")
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\\n")
    writer.writerows([fields, ["", "", "", "", *["inst"] * len(metrics)]])
    for number, (name, work) in enumerate(launches):
        counts = dict.fromkeys(metrics, 0)
        if "product" in name:
            _, _, precision, size = name.split()
            precision = precision.partition("=")[2]
            m, n, k = map(int, size.partition("=")[2].split("x"))
            assert work == str(precision == "tf32")
            key = "op_ffma" if precision == "fp32" else f"src_{{precision}}"
            flops = round(2 * m * n * k * off.get(precision, 1)) // (1 + (precision == "fp32"))
            counts |= {{metric: flops for metric in metrics if key in metric}}
        else:
            counts |= {{metric: 1000 * int(work) for metric in metrics if "op_f" in metric}}
            counts |= {{metric: 64 for metric in metrics if "bytes" in metric}}
        cell = f'{{number}}  "<default domain>:{{name}}:none:none:none:none:none:none"'
        cell = "" if os.environ.get("NO_NVTX") else cell
        values = [f"{{counts[metric]:,}}" for metric in metrics]
        writer.writerow([number, cell, "void gemm<(int)128, float>(T1, T2)", "9.0", *values])
if code:
    print(f"==ERROR== The application returned an error code ({{code}}).")
sys.exit(code)
"""


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    return tmp_path / "asked.jsonl"


@pytest.fixture
def counted(
    tmp_path: Path, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CounterOutcome]:
    """Count with the stand-ins; keyword arguments in capitals are environment variables."""
    modules, programs = tmp_path / "modules", tmp_path / "bin"
    (modules / "torch").mkdir(parents=True)
    (modules / "torch" / "__init__.py").write_text(TORCH)
    (modules / "tiny_gpu.py").write_text(STUDY)
    programs.mkdir()
    (programs / "ncu").write_text(NCU.format(python=sys.executable))
    (programs / "ncu").chmod(0o755)
    (tmp_path / "launches").touch()
    here = Path(__file__).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (modules, here))))
    monkeypatch.setenv("LISTING", "\n".join(f"{name}   Counter  inst  # of" for name in NAMES))
    monkeypatch.setenv("LAUNCHES", str(tmp_path / "launches"))
    monkeypatch.setenv("ASKED", str(asked))

    def go(limit_s: float = 60, **environment: str) -> CounterOutcome:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return ncu.count("tiny", CASES, compute_capability="9.0", threads=1, limit_s=limit_s)

    return go


def samples(outcome: CounterOutcome, case: int) -> dict[str, tuple[int | float, ...]]:
    found = outcome.cases[case]
    assert found.reason is None
    for series in found.series:
        quantity = QUANTITIES[series.quantity]
        assert series.unit == quantity.unit and quantity.admits(series.samples)
    return {series.quantity: series.samples for series in found.series}


def reasons(outcome: CounterOutcome) -> set[str | None]:
    assert not any(case.series for case in outcome.cases)
    return {case.reason for case in outcome.cases}


def test_every_case_is_counted(counted: Callable[..., CounterOutcome]) -> None:
    outcome = counted()
    assert outcome.missing == {}
    for number, factors in enumerate(CASES):
        each = 1000 * factors["size"]
        assert samples(outcome, number) == {
            "ncu_cuda_core_flops": (4 * each,) * CALLS,
            "ncu_tensor_core_flops": (0,) * CALLS,
            "ncu_fp32_additions": (each,) * CALLS,
            "ncu_fp32_multiplications": (each,) * CALLS,
            "ncu_fp32_multiply_adds": (each,) * CALLS,
            "ncu_dram_bytes": (64,) * CALLS,
            "ncu_l2_bytes": (64,) * CALLS,
            "ncu_l1_bytes": (64,) * CALLS,
            "ncu_kernel_launches": (1,) * CALLS,
        }


def test_the_kept_table_holds_the_kernels_of_every_case(
    counted: Callable[..., CounterOutcome],
) -> None:
    outcome = counted()
    assert outcome.attachments.keys() == {ATTACHMENT}
    found = read_attachment(outcome.attachments[ATTACHMENT])
    assert not isinstance(found, CountersUnavailable)
    rows, plan = found
    own = [row for row in rows if row.range == case_range(CASES[1], 0)]
    work = executed_flops(own, plan)
    assert work.total("cuda_core") == 8000
    again = quantities(own, plan)
    assert {name: (count,) * CALLS for name, count in again.items()} == samples(outcome, 1)
    assert [(kernel.name, kernel.launches) for kernel in work.kernels] == [
        ("void gemm<(int)128, float>(T1, T2)", 1)
    ]


def test_the_command_line(counted: Callable[..., CounterOutcome], asked: Path) -> None:
    counted()
    (query, _), (words, locale) = map(json.loads, asked.read_text().splitlines())
    assert query == ["--query-metrics"]
    assert locale == "C"
    program = words.index(sys.executable)
    options, child = words[:program], words[program:]
    for option, value in {
        "--target-processes": "all",
        "--replay-mode": "kernel",
        "--profile-from-start": "off",
        "--clock-control": "none",
        "--cache-control": "all",
        "--page": "raw",
        "--print-units": "base",
    }.items():
        assert options[options.index(option) + 1] == value
    assert {"--nvtx", "--csv", "--log-file"} <= set(options)
    plan = metrics_for("9.0", frozenset(NAMES))
    assert isinstance(plan, MetricPlan)
    assert options[options.index("--metrics") + 1] == ",".join(plan.metrics)
    assert child[1:4] == ["-m", "experiments.harness.counters.ncu_child", "tiny"]
    assert not Path(child[child.index("--cases") + 1]).exists()


def test_counters_a_little_off_are_used(counted: Callable[..., CounterOutcome]) -> None:
    outcome = counted(OFF='{"fp32": 1.0005, "tf32": 0.9995, "bf16": 1.0005}')
    assert outcome.missing == {}


def test_counters_that_fail_their_calibration_are_left_out_with_the_figure(
    counted: Callable[..., CounterOutcome],
) -> None:
    outcome = counted(OFF='{"bf16": 1.002}')
    assert outcome.missing.keys() == {"ncu_tensor_core_flops"}
    assert "not trusted" in outcome.missing["ncu_tensor_core_flops"]
    assert "1.00200" in outcome.missing["ncu_tensor_core_flops"]
    assert "ncu_tensor_core_flops" not in samples(outcome, 0)
    assert samples(outcome, 0)["ncu_cuda_core_flops"] == (4000, 4000)
    core = counted(OFF='{"fp32": 0.998}')
    assert {"ncu_cuda_core_flops", "ncu_fp32_multiply_adds"} <= core.missing.keys()
    assert samples(core, 0).keys().isdisjoint(core.missing)
    assert core.attachments


def test_a_case_without_memory_is_its_own_outcome(
    counted: Callable[..., CounterOutcome],
) -> None:
    outcome = counted(NO_MEMORY="2")
    assert [case.reason for case in outcome.cases] == [
        None,
        "Memory ran out when 2.00 GiB more were asked for.",
        None,
    ]


def test_cases_after_the_end_of_the_program_have_a_reason(
    counted: Callable[..., CounterOutcome],
) -> None:
    outcome = counted(DEADLY="2")
    assert outcome.cases[0].reason is None
    for case in outcome.cases[1:]:
        assert case.reason is not None and "failed under ncu" in case.reason
    assert outcome.attachments


def test_ncu_is_stopped_when_it_takes_too_long(counted: Callable[..., CounterOutcome]) -> None:
    (reason,) = reasons(counted(limit_s=0.5, SLOW="60"))
    assert reason is not None and "within 0.5 s" in reason


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
            "Performance Counters on the target device 0.",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "LibraryNotLoaded"),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "NVIDIA driver"),
        ("==WARNING== No kernels were profiled.", "saw no kernel"),
        ("==PROF== Connected to process 1", "printed no table"),
        ('"ID","Kernel Name"\n', "stops after its header"),
    ],
)
def test_what_ncu_complains_of_is_the_reason(
    counted: Callable[..., CounterOutcome], says: str, expected: str
) -> None:
    outcome = counted(SAYS=says)
    (reason,) = reasons(outcome)
    assert reason is not None and expected in reason
    assert set(outcome.missing.values()) == {reason}
    assert outcome.attachments == {}


def test_rows_without_ranges_belong_to_no_case(counted: Callable[..., CounterOutcome]) -> None:
    (reason,) = reasons(counted(NO_NVTX="1"))
    assert reason is not None and "NVTX" in reason


def test_an_ncu_that_lists_nothing(counted: Callable[..., CounterOutcome]) -> None:
    (reason,) = reasons(counted(LISTING="==ERROR== No supported GPUs found."))
    assert reason is not None and "does not support this GPU" in reason
    (reason,) = reasons(counted(LISTING=""))
    assert reason is not None and "lists no metric" in reason


def test_no_ncu_is_an_outcome(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (str(tmp_path / "*" / "ncu"),))
    outcome = ncu.count("tiny", CASES, compute_capability="9.0", threads=1)
    assert outcome == without(CASES, ncu.NOT_INSTALLED)
    assert len(outcome.cases) == 3 and outcome.missing.keys() <= QUANTITIES.keys()


def test_an_ncu_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "ncu"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (reason,) = reasons(ncu.count("tiny", CASES, compute_capability="9.0", threads=1))
    assert reason is not None and "cannot be started" in reason


def test_the_newest_ncu_of_the_usual_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for version in ("2024.3.2", "2025.1.0", "2025.10.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (str(tmp_path / "*" / "ncu"),))
    assert ncu.find_ncu() == str(tmp_path / "2025.10.0" / "ncu")


def test_an_old_gpu_is_an_outcome(counted: Callable[..., CounterOutcome], asked: Path) -> None:
    outcome = ncu.count("tiny", CASES, compute_capability="6.1", threads=1)
    (reason,) = reasons(outcome)
    assert reason is not None and "7.0 (Volta)" in reason
    assert len(asked.read_text().splitlines()) == 1


def test_a_case_without_kernels_is_missing_not_zero() -> None:
    plan = metrics_for("9.0", frozenset(NAMES))
    assert isinstance(plan, MetricPlan)
    columns = ["X_Range:Msg", "Kernel Name", "CC", *plan.metrics]
    cells = [products("9.0")[0].range, "gemm", "9.0", *["0"] * len(plan.metrics)]
    table = [columns, [""] * len(columns), cells]
    log = "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in table)
    notes = tuple(Note(case_range(CASES[0], call), "ok", None) for call in range(CALLS))
    outcome = evaluate(Output(log, "", notes), plan, "9.0", CASES[:1])
    assert outcome.cases[0].series == ()
    assert outcome.cases[0].reason == "No kernel ran on the GPU during this case."
    assert "0.00000 of 2MNK" in outcome.missing["ncu_cuda_core_flops"]
