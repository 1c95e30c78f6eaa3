"""Counters of NVIDIA GPUs: Nsight Compute over all cases of a run, in one process of its own.

Times are never taken from it.  Kernel replay is used, since it keeps every kernel with its name
(range replay gives one result a range): each kernel runs once for every group of counters, with
its memory restored and the caches flushed in between, so that bytes from DRAM are those of a cold
cache.  The clocks are left alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness.counters.ncu_child import Note
from experiments.harness.counters.ncu_result import CounterOutcome, Output, evaluate, without
from experiments.harness.study import Factors
from report.counters.ncu_metrics import MetricPlan, metric_names, metrics_for
from report.counters.ncu_output import CountersUnavailable, complaint

#: Where installers put ncu without telling the PATH.
PLACES: Final = (
    "/usr/local/cuda/bin/ncu",
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda-*/bin/ncu",
)
NOT_INSTALLED: Final = CountersUnavailable(
    "not_installed",
    "ncu is not installed here; install Nsight Compute with the CUDA toolkit or with conda install "
    "-c nvidia nsight-compute, and put ncu on the PATH.",
)
_QUERY_LIMIT_S: Final = 120
_ROOT: Final = Path(__file__).parents[3]


def count(
    study: str,
    cases: Sequence[Factors],
    *,
    compute_capability: str,
    threads: int,
    limit_s: float = 3600,
) -> CounterOutcome:
    """What the counters say of each of ``cases``, in order; never raises for want of counters.

    ``compute_capability`` is the GPU's (``"9.0"``); after ``limit_s`` ncu is stopped.
    """
    program = find_ncu()
    if program is None:
        return without(cases, NOT_INSTALLED)
    plan = plan_for(program, compute_capability)
    if isinstance(plan, CountersUnavailable):
        return without(cases, plan)
    with tempfile.TemporaryDirectory(prefix="ridgepoint-ncu-") as folder:
        output = _profile(program, plan, study, cases, Path(folder), threads, limit_s)
    if isinstance(output, CountersUnavailable):
        return without(cases, output)
    return evaluate(output, plan, compute_capability, cases)


def find_ncu() -> str | None:
    """The path of ncu: the one on the PATH, else the newest in NVIDIA's usual places."""
    if found := shutil.which("ncu"):
        return found
    for place in PLACES:
        versions = sorted(Path("/").glob(place[1:]), key=_version)
        if versions:
            return os.fspath(versions[-1])
    return None


def _version(path: Path) -> tuple[int, ...]:
    return tuple(
        int(number) for part in path.parts for number in part.split(".") if number.isdigit()
    )


def plan_for(program: str, compute_capability: str) -> MetricPlan | CountersUnavailable:
    """The metrics to ask for, among those that ``ncu --query-metrics`` lists."""
    try:
        done = subprocess.run(
            [program, "--query-metrics"],
            capture_output=True,
            text=True,
            errors="replace",
            env=_environment(),
            timeout=_QUERY_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _too_long("list its metrics", _QUERY_LIMIT_S)
    except OSError as error:
        return _not_startable(error)
    names = metric_names(done.stdout)
    if not names:
        said = complaint(done.stdout + done.stderr)
        return said or CountersUnavailable(
            "empty", "ncu --query-metrics lists no metric; run it by hand to see why."
        )
    return metrics_for(compute_capability, names)


def command(
    program: str, plan: MetricPlan, study: str, folder: Path, threads: int
) -> tuple[str, ...]:
    """The command line; all files of it lie in ``folder``."""
    return (
        program,
        *("--target-processes", "all"),
        *("--replay-mode", "kernel"),
        *("--profile-from-start", "off"),
        *("--clock-control", "none"),
        *("--cache-control", "all"),
        "--nvtx",
        *("--metrics", ",".join(plan.metrics)),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--log-file", os.fspath(folder / "ncu.csv")),
        *(sys.executable, "-m", "experiments.harness.counters.ncu_child", study),
        *("--cases", os.fspath(folder / "cases.json")),
        *("--notes", os.fspath(folder / "notes.jsonl")),
        *("--threads", str(threads)),
    )


def _profile(
    program: str,
    plan: MetricPlan,
    study: str,
    cases: Sequence[Factors],
    folder: Path,
    threads: int,
    limit_s: float,
) -> Output | CountersUnavailable:
    (folder / "cases.json").write_bytes(msgspec.json.encode(list(cases)))
    try:
        said = _run(command(program, plan, study, folder, threads), limit_s)
    except subprocess.TimeoutExpired:
        return _too_long("profile all cases", limit_s)
    except OSError as error:
        return _not_startable(error)
    return Output(_read(folder / "ncu.csv"), said, _notes(_read(folder / "notes.jsonl")))


def _run(words: Sequence[str], limit_s: float) -> str:
    """What the command prints; it and all it started end with this call."""
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=_ROOT,
        env=_environment(),
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=limit_s)[0]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def _environment() -> dict[str, str]:
    """Ours, with numbers printed as everywhere."""
    return {**os.environ, "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "1"}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _notes(text: str) -> tuple[Note, ...]:
    """The complete lines of the child's notes."""
    decoder = msgspec.json.Decoder(Note)
    return tuple(decoder.decode(line) for line in text.splitlines() if line.endswith("}"))


def _too_long(what: str, limit_s: float) -> CountersUnavailable:
    return CountersUnavailable(
        "time",
        f"ncu did not {what} within {limit_s:g} s; measure fewer cases, or without counters.",
    )


def _not_startable(error: OSError) -> CountersUnavailable:
    return CountersUnavailable(
        "not_installed", f"ncu cannot be started ({error.strerror}); reinstall Nsight Compute."
    )
