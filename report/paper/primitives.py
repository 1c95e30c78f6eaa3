"""The table of oneDNN's code: what it executes in its blocks beside what was counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from report.evidence.primitives import Logged
from report.instruments.onednn import AVX2, NATIVE
from report.paper.declared import Field, table
from report.paper.tables import Table


def primitives_table(
    found: Sequence[Logged], what: Field[Logged], *, of_passes: bool = True
) -> Table:
    """A row a logged case, named by ``what``; all ratios are over the multiply-adds of theory."""
    passes: list[Field[Logged]] = [Field("Pass", "", _pass)] if of_passes else []
    return table(
        "tbl-primitives",
        found,
        [
            what,
            *passes,
            Field("Code", "", _code(NATIVE)),
            Field("In its blocks", "1", lambda row: row.executed(NATIVE)),
            Field("Code, AVX2", "", _code(AVX2)),
            Field("In its blocks, AVX2", "1", lambda row: row.executed(AVX2)),
            Field("Counted", "1", Logged.counted),
        ],
        wide=True,
    )


def _pass(row: Logged) -> str:
    return str(row.case.factors["pass"]).replace("_", " and ")


def _code(kind: str) -> Callable[[Logged], str]:
    return lambda row: row.code(kind) or "not oneDNN"
