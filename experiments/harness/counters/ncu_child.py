"""The program that ncu profiles: every case once more, each call in a range of its own.

``python -m experiments.harness.counters.ncu_child STUDY --cases FILE --notes FILE --threads N``

ncu is started with ``--profile-from-start off``: it profiles kernels between ``cudaProfilerStart``
and ``cudaProfilerStop``, which hold for the whole process.  Around each such stretch stands an NVTX
start/end range, which holds for all threads too; a push/pop range would miss the backward pass,
whose kernels autograd launches from a thread of its own.  The notes say which ranges are complete.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from experiments import registry
from experiments.harness import runtime
from experiments.harness.measure import release
from experiments.harness.memory import call_once
from experiments.harness.outcomes import outcome_of
from experiments.harness.study import Device, Factors
from experiments.harness.workload import Workload
from report.counters.ncu import Product, case_range, products
from report.errors import MeasurementError
from report.records import Status

#: Profiled calls of a case; what is deterministic must come out the same.
CALLS: Final = 2

#: Makes the workload of a case.
CaseBuild: TypeAlias = Callable[[Factors, Device], Workload]


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of one range, a line of the notes."""

    range: str
    status: Status
    reason: str | None


def builder(study: str) -> CaseBuild:
    """What makes the workloads of a study; raises ``MeasurementError`` if it is not counted."""
    counting = registry.load(study).counting
    if counting is None:
        raise MeasurementError(f"The study {study} does not say how its cases are counted.")
    return counting.workload


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


def run_case(factors: Factors, build: CaseBuild, note: Callable[[Note], None]) -> None:
    """A warm-up call, then ``CALLS`` profiled ones; what it raises becomes a note."""
    name = case_range(factors, 0)
    try:
        workload = build(factors, "cuda")
        call_once(workload)
        for call in range(CALLS):
            name = case_range(factors, call)
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Profile the products, then the cases, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m experiments.harness.counters.ncu_child")
    parser.add_argument("study")
    parser.add_argument("--cases", type=Path, required=True, help="JSON list of factors")
    parser.add_argument("--notes", type=Path, required=True, help="outcomes, a line a range")
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args(arguments)
    cases = msgspec.json.decode(options.cases.read_bytes(), type=list[Factors])
    torch = runtime.start_torch("cuda", options.threads)
    build = builder(options.study)
    major, minor = torch.cuda.get_device_capability()
    with options.notes.open("ab", buffering=0) as stream:

        def note(entry: Note) -> None:
            stream.write(msgspec.json.encode(entry) + b"\n")

        for product in products(f"{major}.{minor}"):
            run_product(product, note)
        for factors in cases:
            run_case(factors, build, note)


if __name__ == "__main__":
    main()
