"""Count multiply-adds on a CPU by lackey, a tool of valgrind that needs no hardware counters.

Lackey counts operations of valgrind's intermediate language.  Its table has a row for each type of
result, and a column each for loads, stores and arithmetic.  A fused multiply-add is one arithmetic
operation of type F32 per float32 lane, so the worker reads the arithmetic in the row F32.
Limits of this count (``lk_main.c`` and ``guest_amd64_toIR.c`` of valgrind 3.19):

- The count includes conversions to float32 and choices between two float32 values.  PyTorch
  converts two factors for every matrix product (``c10::Scalar::toFloat``), so that the count of a
  linear layer is too large by two.
- A vector addition or multiplication that is not fused has a result of type V128 or V256, as logic
  and shuffles have, and is not counted.  MKL multiplies some small matrices without fused
  instructions; their count is near 0.
- The first call of a case also generates its kernel: for a convolution in channels_last, oneDNN
  compares block sizes with float32 arithmetic.  Hence a second call is counted.

Importing torch takes a minute under valgrind.  So one process imports torch once and forks a child
with one thread for every case.  As many children run at a time as the machine has cores.
"""

import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

from experiments.harness.journal import Count
from experiments.harness.processes import run_cases
from experiments.harness.study import Experiment
from experiments.harness.worker import Task, WorkerRole
from experiments.machine import runtime

NAME: Final[WorkerRole] = "lackey"
MULTIPLY_ADDS: Final = "lackey_multiply_adds"
QUANTITIES: Final = (MULTIPLY_ADDS,)

_COMMAND: Final = ("valgrind", "--tool=lackey", "--basic-counts=no", "--detailed-counts=yes")
#: Time limit for counting (s); ``--counters all`` has no limit.
BUDGET_S: Final = 240.0
#: Time to start valgrind and import torch (s).
START_S: Final = 60.0
#: Multiply-adds per second of a core under lackey.
_MULTIPLY_ADDS_PER_S: Final = 2e7
#: Calls of each case: the first generates its kernel, the second is counted.
_CALLS: Final = 2
#: Time per case in addition to the calls (s).
_OVERHEAD_S: Final = 2.0


def unavailable() -> str | None:
    """Explain why this machine cannot count, with the remedy; None if it can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed; install it with: apt-get install valgrind"
    return None


def seconds(multiply_adds: int) -> float:
    """Predict by how much a case prolongs the counting (s), when every core counts a case."""
    one_core_s = _OVERHEAD_S + _CALLS * multiply_adds / _MULTIPLY_ADDS_PER_S
    return one_core_s / runtime.cores_available()


def count(study: Experiment, task: Task, limit_s: float) -> Generator[Count, None, None]:
    """Run ``task`` under lackey for at most ``limit_s``; yield each case's counts."""

    def wrapper(folder: Path) -> tuple[str, ...]:
        return (*_COMMAND, f"--log-file={folder}/%p.log")

    return run_cases(study, task, wrapper=wrapper, end=time.monotonic() + limit_s)
