"""What timm's own tables say of its networks, and by which convention theory comes to the same."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from report.records.network_counts import Counts

#: Figures are published with two digits: GMACs, and millions of outputs and of parameters.
_GIGA: Final = 1e9
_MILLION: Final = 1e6
_ROUNDED: Final = 0.00501

SAME: Final = "the same"
OTHERS: Final = "with normalisation, pooling and interpolation"
NO_ATTENTION: Final = "without fused attention"
NEITHER: Final = "without fused attention, with normalisation, pooling and interpolation"
SCORES: Final = "with the scores of attention"
OTHER_SIZE: Final = "published for other image sizes only"
OTHER_VERSION: Final = "published for another number of parameters"
UNEXPLAINED: Final = "unexplained"
UNPUBLISHED: Final = "not published"


class Published(NamedTuple):
    """A row of timm's tables: pixels a side, GMACs, millions of outputs and of parameters."""

    side: int
    multiply_adds: float
    outputs: float
    parameters: float


class Compared(NamedTuple):
    """A network beside what is published of it, with the kind of each difference."""

    counts: Counts
    published: Published | None
    multiply_adds: str
    outputs: str


def read_published(paths: Iterable[Path]) -> dict[str, tuple[Published, ...]]:
    """The rows of timm's tables by network; weights have a suffix there, which is left out."""
    found: dict[str, dict[Published, None]] = {}
    for path in paths:
        with path.open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream):
                if not row.get("infer_gmacs") or not row.get("infer_macts"):
                    continue
                each = Published(
                    int(row["infer_img_size"]),
                    float(row["infer_gmacs"]),
                    float(row["infer_macts"]),
                    float(row["param_count"]),
                )
                found.setdefault(row["model"].partition(".")[0], {})[each] = None
    return {name: tuple(rows) for name, rows in found.items()}


def compared(counts: Counts, published: Mapping[str, Sequence[Published]]) -> Compared:
    """A network beside its row at the same image size; of several, one that is explained."""
    rows = published.get(counts.network, ())
    at_size = [row for row in rows if row.side == counts.side]
    if counts.refused or not at_size:
        why = OTHER_SIZE if rows else UNPUBLISHED
        return Compared(counts, None, why, why)
    found = [Compared(counts, row, *_kinds(counts, row)) for row in at_size]
    return min(found, key=lambda each: (each.multiply_adds, each.outputs).count(UNEXPLAINED))


def _kinds(counts: Counts, row: Published) -> tuple[str, str]:
    if not _met(counts.parameters, row.parameters, _MILLION):
        return OTHER_VERSION, OTHER_VERSION
    attention, others = counts.attention_multiply_adds, counts.other_operations
    work = {
        SAME: counts.multiply_adds,
        OTHERS: counts.multiply_adds + others,
        NO_ATTENTION: counts.multiply_adds - attention,
        NEITHER: counts.multiply_adds - attention + others,
    }
    made = counts.outputs + counts.attention_outputs
    outputs = {SAME: made, NO_ATTENTION: counts.outputs, SCORES: made + counts.attention_scores}
    return _first(work, row.multiply_adds, _GIGA), _first(outputs, row.outputs, _MILLION)


def _first(candidates: Mapping[str, int], published: float, unit: float) -> str:
    met = (kind for kind, number in candidates.items() if _met(number, published, unit))
    return next(met, UNEXPLAINED)


def _met(number: int, published: float, unit: float) -> bool:
    """Whether a number is what was published, within its rounding."""
    return abs(number / unit - published) <= _ROUNDED


def residual(each: Compared) -> float:
    """How far published multiply-adds are from theory's with all that fvcore counts, as a ratio."""
    assert each.published is not None
    ours = each.counts.multiply_adds + each.counts.other_operations
    return each.published.multiply_adds * _GIGA / ours - 1
