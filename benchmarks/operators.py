"""Compute the bytes alive at the operators that can hold a network's peak: no network runs.

``python -m benchmarks.operators`` writes ``data/inference_memory/operators-avx2.csv``, or the table
of another vector extension, from the shapes of the networks of ``fits``.  The bytes of an operator
grow in a line with the batch, with and without its workspace.
"""

from itertools import product
from typing import Any, Final

from benchmarks.fits import CAPABILITY, DATA, prepared, write_table

TABLE: Final = DATA / f"operators-{CAPABILITY}.csv"
COLUMNS: Final = (
    "network", "operator", "tensors_fixed", "tensors_per_image", "fixed", "per_image",
)  # fmt: skip
#: An operator counts if it holds the peak at one of these batches.
BATCHES: Final = range(1, 2049)
#: Lines go through the bytes at these batches.
ENDS: Final = (512, 1024)


def rows_of(name: str) -> list[tuple[Any, ...]]:
    """List the operators that hold the peak at some batch, by the tensors or with workspaces."""
    _, _, _, at = prepared(name, "inference")
    rows = []
    for early, late in zip(*(at(batch).moments for batch in ENDS), strict=True):
        tensors = _line(*(sum(moment.alive.values()) for moment in (early, late)))
        rows.append((name, late.operator.name, *tensors, *_line(early.total, late.total)))
    holders = set[int]()
    for batch, first in product(BATCHES, (2, 4)):
        sizes = [row[first] + batch * row[first + 1] for row in rows]
        holders.add(sizes.index(max(sizes)))
    return [rows[number] for number in sorted(holders)]


def _line(early: int, late: int) -> tuple[int, int]:
    """Return the fixed bytes, and the bytes per image."""
    per_image = (late - early) // (ENDS[1] - ENDS[0])
    return late - per_image * ENDS[1], per_image


if __name__ == "__main__":
    write_table(TABLE, COLUMNS, rows_of)
