"""The program that runs under ``perf stat``: one case, with the counters on for one warm call."""

from __future__ import annotations

import os

from experiments.harness import runtime
from experiments.harness.counters.plan import Plan, counting_of


def main(plan: Plan, control: int, answers: int) -> None:
    """Call the only job of ``plan`` once, warm, between perf's ``enable`` and ``disable``."""
    runtime.start_torch("cpu", threads=1)
    counting = counting_of(plan)
    (job,) = plan.jobs
    workload = counting.workload(job.factors, "cpu")
    workload.reset()
    workload.call()
    workload.reset()
    _tell("enable", control, answers)
    result = workload.call()
    _tell("disable", control, answers)
    del result


def _tell(word: str, control: int, answers: int) -> None:
    """Give perf a command and wait until it has obeyed."""
    os.write(control, f"{word}\n".encode())
    os.read(answers, 16)
