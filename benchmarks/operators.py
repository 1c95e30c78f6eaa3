"""Compute the live bytes at the operators where a network's memory can peak, from theory.

``python -m benchmarks.operators`` writes ``data/inference_memory/operators-avx2.csv``, or the table
of another vector extension, for the networks of ``benchmarks.fits``.  The live bytes during an
operator are linear in the batch, both with the operator's workspace and without it.
"""

from itertools import product
from typing import Any, Final

from benchmarks.fits import CAPABILITY, DATA, line_through, prepare, write_table

TABLE: Final = DATA / f"operators-{CAPABILITY}.csv"
COLUMNS: Final = (
    "network", "operator", "tensors_fixed", "tensors_per_image", "fixed", "per_image",
)  # fmt: skip
#: Batches at which peaks are searched.
BATCHES: Final = range(1, 2049)
#: Two batches from which the lines are computed.
BATCH_PAIR: Final = (512, 1024)


def rows_of(name: str) -> list[tuple[Any, ...]]:
    """List the operators where memory peaks at some batch, without or with workspaces.

    A row has the columns ``COLUMNS``: the live bytes are ``fixed + batch * per_image``, and
    without workspaces ``tensors_fixed + batch * tensors_per_image``.
    """
    _, _, _, theory_at = prepare(name, "inference")
    rows = []
    smaller, larger = (theory_at(batch).moments for batch in BATCH_PAIR)
    for small, large in zip(smaller, larger, strict=True):
        alive = sum(small.alive.values()), sum(large.alive.values())
        totals = small.total, large.total
        lines = *line_through(BATCH_PAIR, alive), *line_through(BATCH_PAIR, totals)
        rows.append((name, large.operator.name, *lines))
    peak_rows = set[int]()
    for batch, column in product(BATCHES, (2, 4)):  # columns of the fixed bytes
        sizes = [row[column] + batch * row[column + 1] for row in rows]
        peak_rows.add(sizes.index(max(sizes)))
    return [rows[number] for number in sorted(peak_rows)]


if __name__ == "__main__":
    write_table(TABLE, COLUMNS, rows_of)
