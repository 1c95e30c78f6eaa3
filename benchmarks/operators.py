"""Compute the live bytes at operators where a network's memory can peak, without running networks.

``python -m benchmarks.operators`` writes ``data/inference_memory/operators-avx2.csv``, or the table
of another vector extension, from the shapes of the networks of ``fits``.  With and without its
workspace, the bytes of an operator are linear in the batch.
"""

from itertools import product
from typing import Any, Final

from benchmarks.fits import CAPABILITY, DATA, prepare, write_table

TABLE: Final = DATA / f"operators-{CAPABILITY}.csv"
COLUMNS: Final = (
    "network", "operator", "tensors_fixed", "tensors_per_image", "fixed", "per_image",
)  # fmt: skip
#: Batches at which peaks are searched.
BATCHES: Final = range(1, 2049)
#: Two batches from which the lines are computed.
LINE_BATCHES: Final = (512, 1024)


def rows_of(name: str) -> list[tuple[Any, ...]]:
    """List the operators where memory peaks at some batch, without or with workspaces."""
    _, _, _, theory_at = prepare(name, "inference")
    rows = []
    for early, late in zip(*(theory_at(batch).moments for batch in LINE_BATCHES), strict=True):
        tensors = _line(*(sum(moment.alive.values()) for moment in (early, late)))
        rows.append((name, late.operator.name, *tensors, *_line(early.total, late.total)))
    peaking = set[int]()
    for batch, column in product(BATCHES, (2, 4)):
        sizes = [row[column] + batch * row[column + 1] for row in rows]
        peaking.add(sizes.index(max(sizes)))
    return [rows[number] for number in sorted(peaking)]


def _line(early: int, late: int) -> tuple[int, int]:
    """Return the fixed bytes and the bytes per image, from the bytes at both ``ENDS``."""
    per_image = (late - early) // (LINE_BATCHES[1] - LINE_BATCHES[0])
    return late - per_image * LINE_BATCHES[1], per_image


if __name__ == "__main__":
    write_table(TABLE, COLUMNS, rows_of)
