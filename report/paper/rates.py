"""The table of times, rates and shares of the ceiling, for every study of one layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from report.paper.declared import Field, table
from report.paper.tables import Table
from report.quantity.expression import Quantity
from report.records.passes import PASSES, SHORT_NAMES, Pass


class Rated(Protocol):
    """What one run measured of a layer, by batch size and pass."""

    @property
    def key(self) -> str:
        """The device's key."""

    @property
    def file(self) -> str:
        """The record's file."""

    def time(self, batch: int, pass_: Pass = ...) -> Quantity:
        """Duration of a call (s)."""

    def rate(self, batch: int, pass_: Pass = ...) -> Quantity:
        """Achieved rate (FLOP/s)."""

    def share(self, batch: int, pass_: Pass = ...) -> Quantity:
        """The achieved rate over the measured ceiling."""


def time_table(run: Rated, batches: Sequence[int], *, shares: bool = True) -> Table:
    """A row a batch size, with both passes side by side; ``shares`` are those of the ceiling."""

    def of(pass_: Pass) -> Iterator[Field[int]]:
        short = SHORT_NAMES[pass_]
        yield Field(f"{short} time", "s", lambda b: run.time(b, pass_), "ms")
        yield Field(f"{short} rate", "FLOP/s", lambda b: run.rate(b, pass_), "GFLOP/s")
        if shares:
            yield Field(f"{short} share", "1", lambda b: run.share(b, pass_), "%")

    batch: Field[int] = Field("Batch", "1", lambda size: size)
    fields = [batch, *(field for pass_ in PASSES for field in of(pass_))]
    return table(f"tbl-time-{run.key}", batches, fields, sources=(run.file,), wide=True)
