"""The program that ncu profiles: every case once more, each call in a range of its own.

ncu is started with ``--profile-from-start off``: it profiles kernels between ``cudaProfilerStart``
and ``cudaProfilerStop``, which hold for the whole process.  Around each such stretch stands an NVTX
start/end range, which holds for all threads too; a push/pop range would miss the backward pass,
whose kernels autograd launches from a thread of its own.  The notes say which ranges are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from experiments.harness import runtime
from experiments.harness.counters.plan import Job, Plan, counting_of
from experiments.harness.measure import release
from experiments.harness.memory import call_once
from experiments.harness.outcomes import outcome_of
from experiments.harness.study import Counting
from report.instruments.counters.ncu import Product, case_range, products
from report.records.record import Status


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of one range, a line of the notes."""

    range: str
    status: Status
    reason: str | None


@contextmanager
def profiled(name: str) -> Iterator[None]:
    """Let ncu profile every kernel launched inside, by whichever thread."""
    torch = runtime.import_torch()
    torch.cuda.synchronize()
    handle = torch.cuda.nvtx.range_start(name)
    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
        torch.cuda.nvtx.range_end(handle)


def ranges(job: Job) -> tuple[str, ...]:
    """The ranges of the profiled calls of a case; what is deterministic must be alike in all."""
    return tuple(case_range(job.factors, call) for call in range(job.calls))


def run_case(job: Job, counting: Counting, note: Callable[[Note], None]) -> None:
    """A warm-up call, then the profiled ones; what it raises becomes a note."""
    name = case_range(job.factors, 0)
    try:
        workload = counting.workload(job.factors, "cuda")
        call_once(workload)
        for name in ranges(job):
            workload.reset()
            with profiled(name):
                result = workload.call()
            del result
            note(Note(name, "ok", None))
    except Exception as error:
        note(Note(name, *outcome_of(error)))
    release("cuda")


def run_product(product: Product, note: Callable[[Note], None]) -> None:
    """One product of random matrices, after one outside the range."""
    try:
        multiply = _product(product)
        multiply()
        with profiled(product.range):
            multiply()
        note(Note(product.range, "ok", None))
    except Exception as error:
        note(Note(product.range, *outcome_of(error)))
    release("cuda")


def _product(product: Product) -> Callable[[], object]:
    torch = runtime.import_torch()
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    kind = kinds.get(product.precision, torch.float32)
    torch.manual_seed(0)
    left = torch.randn(product.rows, product.depth, device="cuda", dtype=kind)
    right = torch.randn(product.depth, product.columns, device="cuda", dtype=kind)

    def multiply() -> object:
        torch.backends.cuda.matmul.allow_tf32 = product.precision == "tf32"
        try:
            return torch.mm(left, right)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return multiply


def main(plan: Plan, notes: Path) -> None:
    """Profile the products, then the cases, one after the other; a line of ``notes`` a range."""
    torch = runtime.start_torch("cuda", plan.threads)
    counting = counting_of(plan)
    major, minor = torch.cuda.get_device_capability()
    with notes.open("ab", buffering=0) as stream:

        def note(entry: Note) -> None:
            stream.write(msgspec.json.encode(entry) + b"\n")

        for product in products(f"{major}.{minor}"):
            run_product(product, note)
        for job in plan.jobs:
            run_case(job, counting, note)
