"""Run on a GPU what ``--fits`` predicts for it: ``python -m benchmarks.fits_cuda`` (some minutes).

The limit is that of PyTorch's allocator, so that eight processes share one GPU.  Writes
``benchmarks/fits_cuda.csv`` and, from that alone where there is no GPU, ``fits_cuda.md``.
"""

from __future__ import annotations

import csv
import gc
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, Final

import torch

from benchmarks.fits import MODES, SIDE
from experiments.harness.operators import Input, Policy, Step
from experiments.theory.checked import checked
from experiments.theory.networks import network
from report.theory.allocator import Options
from report.theory.fits import BATCH, PROBE, least, scaling, searched
from report.theory.networks import Captured

HERE: Final = Path(__file__).resolve()
TABLE: Final = HERE.with_suffix(".csv")
COLUMNS: Final = ("network", "mode", "limit", "predicted", "reserved", "ran", "least", "peak")
#: Beyond the peak of two images (B): a first step without a limit leaves segments of less than so.
ROOM: Final = (1_000_000_000, 4_000_000_000)


def rows_of(name: str, mode: str) -> list[tuple[Any, ...]]:
    """A row for each limit: what was predicted, and the largest batch that ran with its peak."""
    torch.set_num_threads(1)
    named, train, policy = network(name), mode == "training", Policy(update="foreach")
    shape, rows = (named.image[0], SIDE, SIDE), []
    whole = checked(
        named.build, [Input((BATCH, *shape))],
        train=train, allocator=Options(), policy=policy, probe=PROBE,
    )  # fmt: skip
    at = scaling(Captured(whole.network), whole)
    step = Step(named.build().train(train).cuda(), policy, gpu=True, trains=train)
    phases: Any = SimpleNamespace(phase="", writes=True)
    step.prepare((torch.randn(PROBE, *shape, device="cuda"),), phases)
    gc.collect()
    kept = (*step.module.parameters(), *step.module.buffers(), *step.state())
    sizes = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept if t.is_cuda
    }
    del kept
    libraries = torch.cuda.memory_allocated() - sum(map(Options().rounded, sizes.values()))

    def peak(batch: int, limit: int) -> int | None:
        """The bytes that a call allocated beyond what libraries keep; None where it failed."""
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((limit + libraries + 0.5) / total)
        try:
            step.run((torch.randn(batch, *shape, device="cuda"),), phases)
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() - libraries
        except torch.OutOfMemoryError:
            return None
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)

    for room in ROOM:
        limit = least(at(PROBE)) + room
        predicted = searched(at, limit).largest
        # One image is no batch to some networks in training, and two had room before any limit.
        found = {batch: peak(batch, limit) for batch in (PROBE, predicted, predicted + 1)}
        ran = max(batch for batch in found if found[batch] is not None)
        failed = predicted
        while failed - ran > 1:
            middle = (ran + failed) // 2
            found[middle] = peak(middle, limit)
            ran, failed = (middle, failed) if found[middle] is not None else (ran, middle)
        reserved = (at(predicted).cuda or {})["reserved"]
        rows.append((name, mode, limit, predicted, reserved, ran, least(at(ran)), found[ran]))
    return rows


def write_page() -> None:
    """``benchmarks/fits_cuda.md``."""
    with TABLE.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    lines = []
    for mode, room in product(MODES, range(len(ROOM))):
        own = [row for row in rows if row["mode"] == mode][room :: len(ROOM)]
        shares = [int(row["ran"]) / int(row["predicted"]) for row in own]
        beyond = [int(row["peak"]) / int(row["least"]) - 1 for row in own]
        lines.append(
            f"| {mode} | {ROOM[room] / 1e9:.0f} | {len(own)} | {min(shares):.1%} "
            f"| {median(shares):.1%} | {max(shares):.1%} | {max(beyond):.1%} |"
        )
    text = HERE.with_suffix(".md.in").read_text(encoding="utf-8").format(
        side=SIDE, shares="\n".join(lines), networks=len({row["network"] for row in rows}),
        limits=len(rows), above=sum(int(row["ran"]) > int(row["predicted"]) for row in rows),
    )  # fmt: skip
    HERE.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if torch.cuda.is_available():
        names = (HERE.parent / "fits.txt").read_text(encoding="utf-8").split()
        with get_context("spawn").Pool(8) as pool, TABLE.open("w", encoding="utf-8") as stream:
            table = csv.writer(stream, lineterminator="\n")
            table.writerow(COLUMNS)
            for task in [pool.apply_async(rows_of, each) for each in product(names, MODES)]:
                table.writerows(task.get())
                stream.flush()
    write_page()
