"""Counting as the last step of a run: by a tool that is played, by valgrind, and by a played ncu.

A stand-in for ncu on the PATH runs the real worker with a stand-in for torch, which writes down
which NVTX ranges were open while the profiler was on; the stand-in for ncu turns each such stretch
into one launch of its table.  So the command line, the worker, the ranges, what is said and the
reading of the table are the true ones.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import counted_study
import msgspec
import psutil
import pytest
import tiny_study

from experiments import registry
from experiments.harness import counting, machine, ncu
from experiments.harness.journal import Count, Finish, Header, Journal, Message, read_journal
from experiments.harness.study import CounterChoice, Session, Study, Subject
from experiments.harness.worker import Task
from report.errors import MeasurementError
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import unpack
from report.instruments.counters.ncu import products
from report.instruments.counters.ncu_metrics import MetricPlan, metrics_for
from report.records.quantities import QUANTITIES
from report.records.record import Case, Gpu
from tests.experiments.conftest import FOLDER, Notes, make_environment, make_header


def journal_to_count(path: Path, header: Header, other: Mapping[int, str]) -> Path:
    """A journal of a run of which only the counting is left.

    Each case has one time of 0.5 s but those of ``other``, which ended with that status.
    """
    with Journal(path, msgspec.structs.replace(header, counters="auto")) as writing:
        for index, factors in enumerate(header.factors):
            status = other.get(index, "ok")
            outcome = Case(
                factors=factors,
                status=status,  # type: ignore[arg-type]
                reason=None if status == "ok" else "It did not go well.",
                layers=(),
                series={"time": (0.5,)} if status == "ok" else {},
            )
            writing.append(Finish(case=index, outcome=outcome))
    return path


def counted_run(
    study: Study, path: Path, notes: Notes, counters: CounterChoice
) -> tuple[tuple[Case, ...], dict[str, str], dict[str, bytes]]:
    """Count what the run of the journal ``path`` has not counted yet.

    Its cases, the reasons for what is missing, and the files beside the record.
    """
    journal = read_journal(path)
    journal.header = msgspec.structs.replace(journal.header, counters=counters)
    with journal:
        session = Session(journal.header.environment.device, journal.header.protocol)
        reason = counting.count(study, session, journal, notes)
    alone = [journal.finished[index] for index in sorted(journal.finished)]
    cases, missing = counting.added(study, journal, alone, reason)
    return cases, missing, {file.name: file.content for file in counting.files(journal)}


# ----------------------------------------------------------------------------------------- the step

FUSED = counted_study.STUDY
NAME = "lackey_multiply_adds"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.STUDIES, "counted", "counted_study")


class Played:
    """A tool that counts a hundred for each size up to 5, and can be made to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refusal: str | None = None
        self.raising: dict[int, BaseException] = {}
        self.asked: list[list[int]] = []
        tool = replace(
            counting.LACKEY,
            unavailable=lambda: self.refusal,
            calls=lambda work: int(work <= 5),
            count=self.count,
        )
        monkeypatch.setitem(counting.TOOLS, "cpu", tool)

    def count(self, study: Study, task: Task) -> Generator[Message, None, None]:
        self.asked.append([case for case, _ in task.cases])
        for case, factors in task.cases:
            if case in self.raising:
                raise self.raising.pop(case)
            if factors["size"] == 4:
                yield Count(case=case, missing={NAME: "no luck"})
                continue
            samples = (100 * int(factors["size"]),)
            yield Count(case=case, series={NAME: samples})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


@pytest.fixture
def run(tmp_path: Path, notes: Notes) -> Callable[..., tuple[dict[int, float], dict[str, str]]]:
    """Counts what is left of a run of sizes 1 to 6, of which size 2 failed."""
    path = journal_to_count(tmp_path / ".run.journal.jsonl", make_header(FUSED), {1: "failed"})

    def go(counters: CounterChoice = "auto") -> tuple[dict[int, float], dict[str, str]]:
        cases, missing, _ = counted_run(FUSED, path, notes, counters)
        assert cases[0].samples("time") == (0.5,)
        return {n: c.samples(NAME)[0] for n, c in enumerate(cases) if c.samples(NAME)}, missing

    return go


def test_cases_that_ended_well_are_counted_longest_first_and_once(
    run: Callable[..., tuple[dict[int, float], dict[str, str]]], played: Played
) -> None:
    played.raising = {2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run()
    counted = {0: 100, 2: 300, 4: 500}, {f"cases[3].{NAME}": "no luck"}
    assert run() == counted
    assert run() == counted
    # Size 6 takes too long, size 2 failed; then what the interruption left, then nothing.
    assert played.asked == [[4, 3, 2, 0], [2, 0]]


def test_a_tool_that_is_not_there_is_the_reason(
    run: Callable[..., tuple[dict[int, float], dict[str, str]]], played: Played
) -> None:
    played.refusal = "valgrind is not installed; install it with: apt-get install valgrind"
    assert run() == ({}, {NAME: played.refusal})


# --------------------------------------------------------------------------------------- lackey


SIZES = (10, 1000, 0, -1, -9)


def test_lackey_counts_every_multiply_add_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    if (reason := counting.lackey_unavailable()) is not None:
        pytest.skip(reason)
    if "fma" not in machine.cpuinfo().get("flags", "").split():
        pytest.skip("this processor has no fused multiply-add")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(FOLDER / "stand_in"), str(FOLDER))))
    task = Task(
        role="lackey",
        module="counted_study",
        session=Session("cpu", FUSED.full),
        forks=True,
        cases=tuple((case, {"size": size}) for case, size in enumerate(SIZES)),
        at_once=2,
        counted=(NAME,),
    )
    counts = [m for m in counting.count_with_lackey(FUSED, task) if isinstance(m, Count)]
    found = {count.case: count for count in counts}
    assert [found[case].series[NAME] for case in (0, 1, 2)] == [(10,), (1000,), (0,)]
    assert found[3].missing == {NAME: "ValueError: no such size in file.py"}
    assert "killed" in found[4].missing[NAME]
    assert len(counts) == len(SIZES)


# ------------------------------------------------------------------------------------------ ncu

OPERATIONS = [f"{kind}{op}" for kind in "dfh" for op in ("add", "mul", "fma")]
NAMES = [
    *(f"smsp__sass_thread_inst_executed_op_{op}_pred_on" for op in OPERATIONS),
    *(f"sm__ops_path_tensor_src_{p}" for p in ("bf16_dst_fp32", "fp16", "tf32_dst_fp32")),
    *("dram__bytes", "lts__t_bytes", "l1tex__t_bytes", "sm__cycles_active"),
    *(f"{level}__throughput" for level in ("dram", "lts", "l1tex", "sm")),
]
TASK = Task(
    role="ncu",
    module="tiny_gpu",
    session=Session("cuda", tiny_study.STUDY.full),
    cases=tuple((case, {"size": case + 1}) for case in range(3)),
    counted=ncu_logs.QUANTITIES,
    calls=(2, 2, 2),
    compute_capability="9.0",
)

#: Enough of torch for the child; what it launches is written down, with the range around it.
TORCH = """
import os, types
from pathlib import Path

float32, bfloat16, float16 = "float32", "bfloat16", "float16"
state = {"on": False, "range": None}

import contextlib
def device(name): return contextlib.nullcontext()
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
from experiments.harness.study import Subject
from report.records.layers import Flatten

class OutOfMemoryError(RuntimeError): pass

def subject(factors):
    if str(factors["size"]) == os.environ.get("NO_MEMORY"):
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0")
    if str(factors["size"]) == os.environ.get("CRASHING"):
        raise SystemExit(3)
    return Subject(None, None, mode=lambda: torch.launch(factors["size"]))

STUDY = dataclasses.replace(tiny_study.STUDY, name="tiny", subject=subject,
                            is_counted=lambda factors: factors["size"] < 4)
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
if said := os.environ.get("SAYS"):
    log.write_text(said)
    sys.exit(1)
Path(os.environ["LAUNCHES"]).write_text("")
print("==PROF== Connected to process 4242 (/somewhere/python)", flush=True)
if pid := os.environ.get("PID"):
    Path(pid).write_text(str(os.getpid()))
code = subprocess.run(words[program:]).returncode
time.sleep(float(os.environ.get("LINGER", "0")))
metrics = options["--metrics"].split(",")
fields = ["ID", "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
          "Kernel Name", "CC", *metrics]
launches = [line.split("\\t") for line in Path(os.environ["LAUNCHES"]).read_text().splitlines()]
off = json.loads(os.environ.get("OFF", "{{}}"))
with log.open("w") as stream:
    stream.write("==PROF== Profiling - 1: 0%....50%....100% - 9 passes\\n")
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\\n")
    units = ["byte" if "bytes" in metric else "inst" for metric in metrics]
    writer.writerows([fields, ["", "", "", "", *units]])
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
def stand_ins(tmp_path: Path, asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ncu and a torch that are played."""
    modules, programs = tmp_path / "modules", tmp_path / "bin"
    (modules / "torch").mkdir(parents=True)
    (modules / "torch" / "__init__.py").write_text(TORCH)
    (modules / "tiny_gpu.py").write_text(STUDY)
    programs.mkdir()
    (programs / "ncu").write_text(NCU.format(python=sys.executable))
    (programs / "ncu").chmod(0o755)
    here = Path(__file__).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (modules, here))))
    monkeypatch.setenv("LISTING", "\n".join(f"{name}   Counter  inst  # of" for name in NAMES))
    monkeypatch.setenv("LAUNCHES", str(tmp_path / "launches"))
    monkeypatch.setenv("ASKED", str(asked))


def test_an_interruption_ends_all_processes(
    stand_ins: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pid"
    monkeypatch.setenv("LINGER", "60")
    monkeypatch.setenv("PID", str(file))

    def once_it_runs(*_: object) -> None:
        if file.exists() and file.read_text():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, once_it_runs)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    with pytest.raises(KeyboardInterrupt), closing(ncu.count(COUNTED, TASK)) as counts:
        next(counts)
    signal.signal(signal.SIGALRM, before)
    psutil.Process().children()  # waits for those that have ended
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(file.read_text())).wait(5)


@pytest.mark.parametrize("broken", [False, True])
def test_no_ncu_or_one_that_cannot_be_started_is_an_outcome(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (str(tmp_path / "*" / "ncu"),))
    if broken:
        (tmp_path / "ncu").write_text("#!/no/such/interpreter\n")
        (tmp_path / "ncu").chmod(0o755)
    reason = ncu.unavailable()
    assert broken if reason is None else "conda install" in reason
    with pytest.raises(MeasurementError, match="cannot be started" if broken else "not installed"):
        list(ncu.count(COUNTED, TASK))


NOTHING: Any = None
COUNTED = replace(
    tiny_study.STUDY,
    subject=lambda factors: Subject(NOTHING, NOTHING, mode=lambda: pytest.fail("made here")),
    is_counted=lambda factors: int(factors["size"]) < 4,
)


@pytest.fixture
def journal(tmp_path: Path, stand_ins: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on a GPU of sizes 1 to 6 that has only to be counted; size 2 ran out of memory."""
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_gpu")
    gpu = Gpu(model="NVIDIA H200", memory_bytes=2**37, compute_capability="9.0", driver="570.1",
              cuda="12.8", cudnn="90100")  # fmt: skip
    header = make_header(COUNTED, environment=make_environment(device="cuda", gpu=gpu))
    return journal_to_count(tmp_path / ".run.journal.jsonl", header, {1: "out_of_memory"})


def test_a_run_on_a_gpu_is_counted_with_ncu(journal: Path, notes: Notes, asked: Path) -> None:
    cases, missing, files = counted_run(COUNTED, journal, notes, "auto")
    for case in cases:
        size = int(case.factors["size"])
        wanted = {
            "ncu_cuda_core_flops": (4000 * size,) * 2,
            "ncu_tensor_core_flops": (0,) * 2,
            **dict.fromkeys(CORE[1:], (1000 * size,) * 2),
            **dict.fromkeys(("ncu_dram_bytes", "ncu_l2_bytes", "ncu_l1_bytes"), (64, 64)),
            "ncu_kernel_launches": (1, 1),
        }
        for quantity, samples in wanted.items():
            assert case.samples(quantity) == (samples if size in (1, 3) else ())
            assert QUANTITIES[quantity].admits(case.samples(quantity))
    assert missing == {}
    ((name, content),) = files.items()
    for item in unpack(content, "ncu", name):
        series, _ = ncu_logs.counted(item.logs, name)
        assert series.items() <= cases[item.case].series.items()
        assert all(product.range in item.logs["table"] for product in products("9.0"))
    assert [text for text, _ in notes.ended] == ["size=1: 4,000 FLOP", "size=3: 12,000 FLOP"]
    (query, _), (words, locale) = map(json.loads, asked.read_text().splitlines())
    assert (query, locale) == (["--query-metrics"], "C")
    said = " ".join(words)
    for option in ("--target-processes all", "--replay-mode kernel", "--profile-from-start off",
                   "--clock-control none", "--page raw", "--print-units base", "--nvtx", "--csv",
                   "--log-file", "experiments.harness.worker"):  # fmt: skip
        assert option in said
    plan = metrics_for("9.0", frozenset(NAMES))
    assert isinstance(plan, MetricPlan)
    assert words[words.index("--metrics") + 1] == ",".join(plan.metrics)


CORE = ("ncu_cuda_core_flops", "ncu_fp32_additions", "ncu_fp32_multiplications",
        "ncu_fp32_multiply_adds")  # fmt: skip
ALL = ncu_logs.QUANTITIES


@pytest.mark.parametrize(
    ("environment", "counted", "missing", "said"),
    [
        ({}, [], ALL, "--counters none"),
        ({"SAYS": "==ERROR== ERR_NVGPUCTRPERM"}, [], ALL, "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"NO_NVTX": "1"}, [], ALL, "NVTX"),
        ({"LISTING": "==ERROR== No supported GPUs found."}, [], ALL, "does not support this GPU"),
        ({"LISTING": ""}, [], ALL, "lists no metric"),
        ({"OFF": '{"fp32": 1.02}'}, [0, 2], CORE, "1.02000"),
        ({"NO_MEMORY": "3"}, [0], [f"cases[2].{name}" for name in ALL], "2.00 GiB more"),
        # The others go on in another process.
        ({"CRASHING": "1"}, [2], [f"cases[0].{name}" for name in ALL], "failed under ncu"),
    ],
)
def test_why_something_is_not_counted_is_told_for_every_quantity(
    journal: Path,
    notes: Notes,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    counted: list[int],
    missing: Sequence[str],
    said: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    cases, reasons, _ = counted_run(COUNTED, journal, notes, "auto" if environment else "none")
    assert reasons.keys() == set(missing)
    assert all(said in reason for reason in reasons.values())
    counts = {n: case.series.keys() - {"time"} for n, case in enumerate(cases)}
    assert [n for n, found in counts.items() if found] == counted
    assert not any(set(missing) & set(found) for found in counts.values())
