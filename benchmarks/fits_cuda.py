"""Test ``theory --fits`` on a GPU: ``python -m benchmarks.fits_cuda``.

``theory --fits`` predicts the largest batch that fits into a limit of memory; here the batches run.
PyTorch's allocator enforces the limit, far below the GPU's memory, so that eight processes can
share one GPU.  Takes some minutes.  Writes the table ``data/inference_memory/limits-cuda.csv`` and
the page ``fits_cuda.md``; without a GPU, only the page, from the table.
"""

import csv
import gc
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import pandas as pd
import torch

from benchmarks.fits import DATA, MODES, fill_page, prepare, state_bytes
from experiments.theory.captures import CapturePolicy
from report.studies.inference_memory.subject import IMAGE_SIDE, ROOM_ON_GPU
from report.theory.allocator import Options
from report.theory.network import PROBE_BATCH, least_bytes

HERE: Final = Path(__file__).resolve()
TABLE: Final = DATA / "limits-cuda.csv"
COLUMNS: Final = (
    "network",
    "mode",  # inference or training
    "limit",  # of memory (B)
    "predicted",  # largest batch that fits, by the theory
    "reserved",  # bytes that the allocator reserves for the predicted batch, by our model of it
    "ran",  # largest batch that ran
    "least",  # predicted peak memory of this batch (B), a lower bound
    "peak",  # measured peak memory of this batch (B)
)


def rows_of(name: str, mode: str) -> list[tuple[Any, ...]]:
    """Return a row of ``COLUMNS`` per limit, for the network ``name`` and a mode."""
    torch.set_num_threads(1)
    policy, allocator = CapturePolicy(update="foreach"), Options()
    step, channels, theory, theory_at = prepare(name, mode, policy, allocator)
    shape, rows = (channels, IMAGE_SIDE, IMAGE_SIDE), []
    step.prepare((torch.randn(PROBE_BATCH, *shape, device="cuda"),))
    gc.collect()
    # Memory (B) that libraries such as cuBLAS keep.
    library_bytes = torch.cuda.memory_allocated() - sum(
        map(allocator.round_size, state_bytes(step))
    )

    def peak(batch: int, limit: int) -> int | None:
        """Return the peak (B) of a call without the libraries' memory, or None if it failed."""
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        total = torch.cuda.get_device_properties(0).total_memory
        # The half byte keeps PyTorch from rounding the product of fraction and total down.
        torch.cuda.set_per_process_memory_fraction((limit + library_bytes + 0.5) / total)
        try:
            step.run((torch.randn(batch, *shape, device="cuda"),))
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated() - library_bytes
        except torch.OutOfMemoryError:
            return None
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)

    for free_bytes in ROOM_ON_GPU:  # beyond the peak of the smallest batch
        limit = least_bytes(theory_at(PROBE_BATCH)) + free_bytes
        predicted = theory.fits(limit).largest
        # Some networks cannot train on one image; ``PROBE_BATCH`` images fit into every limit.
        peaks = {batch: peak(batch, limit) for batch in (PROBE_BATCH, predicted, predicted + 1)}
        largest_run = max(batch for batch in peaks if peaks[batch] is not None)
        smallest_failed = predicted
        while smallest_failed - largest_run > 1:  # bisect, unless the predicted batch ran
            middle = (largest_run + smallest_failed) // 2
            peaks[middle] = peak(middle, limit)
            if peaks[middle] is None:
                smallest_failed = middle
            else:
                largest_run = middle
        reserved = (theory_at(predicted).cuda or {}).get("reserved")
        peaks_of_run = least_bytes(theory_at(largest_run)), peaks[largest_run]
        rows.append((name, mode, limit, predicted, reserved, largest_run, *peaks_of_run))
    return rows


def write_page() -> None:
    """Write ``fits_cuda.md``, whose table compares batches and peaks by mode and limit."""
    rows = pd.read_csv(TABLE)
    rows["limit_index"] = rows.groupby(["network", "mode"]).cumcount()
    rows["share"] = rows["ran"] / rows["predicted"]
    rows["excess"] = rows["peak"] / rows["least"] - 1
    lines = []
    for (mode, index), group in rows.groupby(["mode", "limit_index"]):
        share = group["share"]
        lines.append(
            f"| {mode} | {ROOM_ON_GPU[index] / 1e9:.0f} | {len(group)} | {share.min():.1%} "
            f"| {share.median():.1%} | {share.max():.1%} | {group['excess'].max():.1%} |"
        )
    reserved_above = (rows["reserved"] > rows["limit"]).sum()
    fill_page(HERE, rows, shares="\n".join(lines), reserved=str(reserved_above))


if __name__ == "__main__":
    if torch.cuda.is_available():
        names = (HERE.parent / "fits.txt").read_text(encoding="utf-8").split()
        with get_context("spawn").Pool(8) as pool, TABLE.open("w", encoding="utf-8") as stream:
            table = csv.writer(stream, lineterminator="\n")
            table.writerow(COLUMNS)
            for result in [pool.apply_async(rows_of, case) for case in product(names, MODES)]:
                table.writerows(result.get())
                stream.flush()
    write_page()
