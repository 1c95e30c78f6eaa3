"""What one run measured of the layer, by batch size, and by what glibc does with freed memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.core.records.record import Factor, Pass, Policy
from report.evidence import runs as any_study
from report.quantity.evaluation import ENOUGH_RUNS, point
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.intervals import Process
from report.quantity.operations import geometric_mean
from report.studies.conv_scaling import theory
from report.theory.conditions import Layout

#: The policies whose times are compared.
COMPARED: Final[tuple[Policy, ...]] = ("retained", "default")


class Block(NamedTuple):
    """A block that a call takes (or frees, with negative bytes), and what glibc then holds more."""

    bytes: int
    change: int


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study, seen in one layout of its tensors."""

    layout: Layout = "contiguous"

    def in_layout(self, layout: Layout) -> Run:
        """The same record seen in another layout of its tensors."""
        return replace(self, layout=layout)

    def factors(self, batch: int, pass_: Pass = "forward") -> dict[str, Factor]:
        """The factors of a case of the layer."""
        return {"subject": "layer", "batch": batch, "pass": pass_, "layout": self.layout}

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of the run in ascending order, also of cases that failed."""
        return tuple(map(int, self.levels("batch", subject="layer", layout=self.layout)))

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """The batch sizes whose forward calls were timed."""
        return tuple(batch for batch in self.batches if not self.time(batch).missing)

    def time(self, batch: int) -> Quantity:
        """Duration of a forward call (s)."""
        return self.series("time", self.factors(batch))

    def faults(self, batch: int) -> Quantity:
        """Pages that a forward call maps anew."""
        return self.series("page_faults", self.factors(batch))

    def share(self, batch: int) -> Quantity:
        """The achieved rate over the measured ceiling of arithmetic."""
        return theory.work(batch) / self.time(batch) / self.peak_rate("matrix_product")

    def retained(self, batch: int) -> Quantity:
        """Bytes that the forward call leaves allocated: after less before."""
        after, before = (
            self.repeated(f"allocated_{when}", self.factors(batch)) for when in ("after", "before")
        )
        return named("retained bytes", after - before)

    # ------------------------------------------------------------------------- returned memory

    @property
    def compares(self) -> bool:
        """Whether times were measured with memory kept and returned, and calls map pages."""
        return set(COMPARED) <= set(self.policies) and bool(self.doubled)

    @cached_property
    def mapping(self) -> tuple[int, ...]:
        """The batch sizes whose calls map pages where freed memory is returned."""
        found = {batch: point(self.under("default").faults(batch)) for batch in self.timed}
        return tuple(b for b, n in found.items() if not isinstance(n, Missing) and n > 0)

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """The timed batch sizes that are powers of two, which every run has."""
        return tuple(batch for batch in self.timed if not batch & (batch - 1))

    @cached_property
    def doubled(self) -> tuple[int, ...]:
        """Those of them whose calls map pages where freed memory is returned.

        The largest ones, which fewer processes had time for, are left out of a full run: five
        processes bound a median at 94 % only.
        """
        count = {batch: len(self._timing(batch)) for batch in self.powers}
        enough = min(ENOUGH_RUNS, max(count.values(), default=0))
        return tuple(b for b, n in count.items() if b in self.mapping and n >= enough)

    def _timing(self, batch: int) -> tuple[Process, ...]:
        """The processes that timed a forward call."""
        found = self.by_process("time", self.factors(batch))
        return () if isinstance(found, Missing) else found

    def slowdown(self, batch: int) -> Quantity:
        """How many times as long a call takes where freed memory is returned."""
        return self.under("default").time(batch) / self.time(batch)

    def gain(self, policy: Policy = "default") -> Quantity:
        """The same under ``policy``: the geometric mean over the powers of two that map pages."""
        if not self.doubled:
            return absent("slowdown", "1", f"no call mapped pages on {self.label}")
        other = self.under(policy)
        return named(
            "slowdown", geometric_mean(*(other.time(b) / self.time(b) for b in self.doubled))
        )

    def lost(self, batch: int) -> Quantity:
        """How much longer a call takes where freed memory is returned (s)."""
        return self.under("default").time(batch) - self.time(batch)

    def page_price(self) -> Quantity:
        """The time of mapping one page, measured without the layer (s)."""
        return named("price of a page", 1 / self.peak_rate("page_mapping"))

    def priced(self, batch: int) -> Quantity:
        """The pages that a call maps where freed memory is returned, at their price (s)."""
        pages = self.under("default").faults(batch)
        return named("page mapping", pages / self.peak_rate("page_mapping"))

    def returning(self, batch: int, *, result: bool = False) -> Quantity:
        """The time in which freed memory goes back, inside a call or with its result (s)."""
        quantity = "result_return_time" if result else "return_time"
        return self.under("traced").series(quantity, self.factors(batch))

    def explained(self, batch: int) -> Quantity:
        """What pages and unmapping explain of ``lost`` (share)."""
        return (self.priced(batch) + self.returning(batch)) / self.lost(batch)

    def threshold(self, batch: int) -> Quantity:
        """How much may be free at the top of the heap (B) after calls of a batch size.

        Calls of one image raise no threshold, so that theirs is the one which the process had.
        """
        mapped = self.under("traced").repeated("mmap_threshold", self.factors(batch))
        return named("trimming threshold", 2 * mapped)

    def returned(self, batch: int) -> tuple[int, ...]:
        """The bytes that went back with the result of a call, in each traced process."""
        found = self.under("traced").by_process("block_changes", self.factors(batch))
        if isinstance(found, Missing):
            return ()
        return tuple(int(-each.samples[-1]) for each in found if each.samples[-1] < 0)

    def mapping_share(self, batch: int) -> Quantity:
        """The share of the processes whose calls map pages where freed memory is returned."""
        found = self.under("default").by_process("page_faults", self.factors(batch))
        if isinstance(found, Missing):
            return absent("processes", "1", found.reason)
        share = sum(each.median > 0 for each in found) / len(found)
        return exact(f"processes that map pages at {batch} images", "1", share, self.file)

    def blocks(self, batch: int) -> tuple[Block, ...]:
        """The large blocks of one call in order, and of freeing its result; none if not traced.

        They are of the first process in which a call gives back just what it takes.
        """
        sizes, changes = (
            self.under("traced").by_process(name, self.factors(batch))
            for name in ("block_bytes", "block_changes")
        )
        if isinstance(sizes, Missing) or isinstance(changes, Missing):
            return ()
        calls = [
            tuple(Block(int(size), int(change)) for size, change in zip(*both, strict=True))
            for both in zip(
                (each.samples for each in sizes), (each.samples for each in changes), strict=True
            )
        ]
        return next((call for call in calls if not sum(b.change for b in call)), calls[0])
