"""Run on a GPU what ``--fits`` predicts for it: ``python -m benchmarks.fits_cuda`` (some minutes).

The limit is that of PyTorch's allocator, so that eight processes share one GPU.  Writes
``data/inference_memory/limits-cuda.csv`` and, from that alone where there is no GPU,
``fits_cuda.md``.
"""

import csv
import gc
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

from benchmarks.fits import DATA, MODES, filled, held, prepared
from experiments.theory.captures import CapturePolicy
from report.studies.inference_memory.subject import ROOM_ON_GPU, SIDE
from report.theory.allocator import Options
from report.theory.network import PROBE, least, search

HERE: Final = Path(__file__).resolve()
TABLE: Final = DATA / "limits-cuda.csv"
COLUMNS: Final = ("network", "mode", "limit", "predicted", "reserved", "ran", "least", "peak")


def rows_of(name: str, mode: str) -> list[tuple[Any, ...]]:
    """A row for each limit: what was predicted, and the largest batch that ran with its peak."""
    torch.set_num_threads(1)
    step, channels, _, at = prepared(name, mode, CapturePolicy(update="foreach"), Options())
    shape, rows = (channels, SIDE, SIDE), []
    step.prepare((torch.randn(PROBE, *shape, device="cuda"),))
    gc.collect()
    libraries = torch.cuda.memory_allocated() - sum(map(Options().rounded, held(step)))

    def peak(batch: int, limit: int) -> int | None:
        """The bytes that a call allocated beyond what libraries keep; None where it failed."""
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((limit + libraries + 0.5) / total)
        try:
            step.run((torch.randn(batch, *shape, device="cuda"),))
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() - libraries
        except torch.OutOfMemoryError:
            return None
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)

    for room in ROOM_ON_GPU:
        limit = least(at(PROBE)) + room
        predicted = search(at, limit).largest
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
    rows = pd.read_csv(TABLE)
    rows["room"] = rows.groupby(["network", "mode"]).cumcount()
    rows["share"] = rows["ran"] / rows["predicted"]
    rows["beyond"] = rows["peak"] / rows["least"] - 1
    lines = [
        f"| {mode} | {ROOM_ON_GPU[room] / 1e9:.0f} | {len(own)} | {own['share'].min():.1%} "
        f"| {own['share'].median():.1%} | {own['share'].max():.1%} | {own['beyond'].max():.1%} |"
        for (mode, room), own in rows.groupby(["mode", "room"])
    ]
    filled(HERE, rows, shares="\n".join(lines))


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
