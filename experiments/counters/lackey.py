"""Multiply-adds of a processor by valgrind's lackey, which needs no hardware counters.

It counts operations of valgrind's intermediate language by the type of their result; a fused
multiply-add of 4 or 8 float32 lanes is lowered to one operation a lane, and a scalar one to one,
with a result of type F32, which is what is read.  Facts of that language that decide what the
figure is (``lk_main.c`` and ``guest_amd64_toIR.c`` of valgrind 3.19):

- Loads, stores and moves between registers stand in other columns; a conversion to float32 and a
  choice between two float32 values stand in this one.  PyTorch converts two factors for every
  matrix product (``c10::Scalar::toFloat``), so that a linear layer counts two more.
- A separate vector addition or multiplication has a result of type V128 or V256, as logic and
  shuffles have, so that it cannot be told from them and is not counted.  MKL multiplies some small
  matrices so, and then next to nothing is counted.
- The first call of a case also makes its kernel: for a convolution in channels_last oneDNN weighs
  block sizes with float32 figures.  Hence a second call is counted.

Importing torch takes a minute under it, so that one process serves all cases, on one thread and as
many at once as there are cores.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from typing import Final

from experiments.harness.journal import Count
from experiments.harness.processes import measured
from experiments.harness.study import Study
from experiments.harness.worker import Role, Task

NAME: Final[Role] = "lackey"
QUANTITIES: Final = ("lackey_multiply_adds",)

_COMMAND: Final = ("valgrind", "--tool=lackey", "--basic-counts=no", "--detailed-counts=yes")
#: A call is a thousand times slower under lackey: 64 images of conv_scaling's layer forward, 16
#: with their gradients, so that a full plan stays within minutes.
LARGEST: Final = 700e6


def unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; None where it can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed; install it with: apt-get install valgrind"
    return None


def count(study: Study, task: Task) -> Generator[Count, None, None]:
    """Run ``task`` under lackey, which writes a log for each process."""
    return measured(
        study, task, lambda said: None, lambda folder: (*_COMMAND, f"--log-file={folder}/%p.log")
    )
