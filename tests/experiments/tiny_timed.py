"""The tiny study with bytes, measured once per case, and times, measured in several processes."""

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import psutil
from tiny_study import CRASHING, DISTURBED
from tiny_study import STUDY as PLAIN
from tiny_study import measure as log_case

from experiments.harness.study import Session
from experiments.machine import quiet
from report.core.records.record import Factors, SeriesByQuantity


def memory(factors: Factors, session: Session) -> SeriesByQuantity:
    """Write the case into the log, and return the size as bytes.

    The case of size 3 waits, after it has written the run's process number to the file TINY_HELD.
    If this file exists, the case does not wait.
    """
    log_case(factors, session)
    file = Path(os.environ.get("TINY_HELD", os.devnull))
    if factors["size"] == 3 and not file.exists():
        run_id = psutil.Process(os.getppid()).ppid()  # this process is a child of the worker
        file.with_suffix(".tmp").write_text(str(run_id))
        file.with_suffix(".tmp").rename(file)
        time.sleep(600)
    return {"allocated_peak": (int(factors["size"]),)}


def times(factors: Factors, session: Session) -> SeriesByQuantity:
    """Return the size as a time (ms), and two facts about the process as if they were losses.

    ``step_loss`` is the process number; ``train_loss`` is 1 if glibc keeps freed memory, else 0.
    """
    size = int(factors["size"])
    for library in ("OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "VECLIB_MAXIMUM"):
        assert os.environ[f"{library}_THREADS"] == str(session.threads)
    if size == CRASHING:
        os.kill(os.getpid(), signal.SIGKILL)
    cause = "a test" if size == DISTURBED else None
    quiet.describe_disturbance = lambda *readings: cause  # type: ignore[assignment]
    keeps_memory = float("mmap_threshold" in os.environ.get("GLIBC_TUNABLES", ""))
    process_id = float(os.getpid())
    return {"time": (size / 1000,), "step_loss": (process_id,), "train_loss": (keeps_memory,)}


FULL = msgspec.structs.replace(PLAIN.plan.full, processes={"retained": 2, "default": 1})
STUDY = replace(PLAIN, plan=replace(PLAIN.plan, memory=memory, times=times, full=FULL))
