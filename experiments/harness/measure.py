"""What most studies measure of a case: its times in each process, its bytes in one."""

from __future__ import annotations

import gc

from experiments.harness import cuda_memory, memory, timing
from experiments.harness.memory import REPEATS
from experiments.harness.study import Session
from experiments.harness.workload import Build
from report.records.record import Series


def measure_time(build: Build, session: Session) -> tuple[Series, ...]:
    """Durations alone, with their raw samples; nothing is left of the workload."""
    workload = build()
    times = timing.first_and_repeated(workload, session.protocol, session.device)
    del workload  # its tensors must not stand beside those that the memory is measured with
    gc.collect()
    return times


def measure_memory(build: Build, session: Session, repeats: int = REPEATS) -> tuple[Series, ...]:
    """Bytes alone, with their raw samples."""
    if session.device == "cpu":
        return memory.measure_cpu(build, repeats)
    return cuda_memory.measure(build, repeats)


def release(device: str) -> None:
    """Free what a case that failed may still hold."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
