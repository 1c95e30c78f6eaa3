"""Measurements of one run of the layer, by batch size and by glibc's policy for freed memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.core.records.record import Level, Pass, Policy
from report.evidence import runs as any_study
from report.quantity.evaluation import ENOUGH_RUNS, point
from report.quantity.expression import Quantity, absent, exact, named
from report.quantity.intervals import Process
from report.quantity.operations import geometric_mean
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.subject import SHOWN_BATCH
from report.theory.conditions import Layout

#: The policies whose times are compared.
COMPARED: Final[tuple[Policy, ...]] = ("retained", "default")
#: A batch size whose blocks fit the last cache.
FEW_IMAGES: Final = 16


class Block(NamedTuple):
    """Block that a call allocates, or frees with negative bytes, and the change of glibc's heap."""

    bytes: int
    change: int


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study, seen in one layout of its tensors."""

    layout: Layout = "contiguous"
    #: The batch sizes over which slowdowns are taken, if another run is compared.
    shared: tuple[int, ...] | None = None

    def in_layout(self, layout: Layout) -> Run:
        """The same record seen in another layout of its tensors."""
        return replace(self, layout=layout)

    def factors(self, batch: int, pass_: Pass = "forward") -> dict[str, Level]:
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

    def time(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", self.factors(batch, pass_))

    def image_time(self, batch: int) -> Quantity:
        """Time of an image of a forward call (s)."""
        return self.time(batch) / batch

    def batch_gain(self, largest: int | None = None) -> Quantity:
        """Divide the time of a single image by the time per image of a large batch."""
        return self.time(1) / self.image_time(largest or self.doubled[-1])

    def slows(self) -> Quantity:
        """Divide an image's time at the batch shown by that at 16 images, with memory kept."""
        return self.image_time(SHOWN_BATCH) / self.image_time(FEW_IMAGES)

    def faults(self, batch: int) -> Quantity:
        """Pages that a forward call maps anew."""
        return self.series("page_faults", self.factors(batch))

    def share(self, batch: int, policy: Policy | None = None) -> Quantity:
        """Divide the achieved rate by the measured ceiling of arithmetic."""
        run = self.under(policy) if policy else self
        return theory.work(batch) / run.time(batch) / run.peak_rate("matrix_product")

    def trained_counts(self, choose: Callable[..., Quantity]) -> Quantity:
        """Extreme count of fused multiply-adds an output element, forward and backward."""
        counts = []
        for batch in self.batches:
            count = self.repeated("ncu_fp32_multiply_adds", self.factors(batch, "forward_backward"))
            if not count.missing:
                counts.append(count / (theory.OUTPUTS * batch))
        return choose(*counts) if counts else absent("multiply-adds", "1", "nothing was counted")

    def late_gain(self) -> Quantity:
        """Divide the time of an image at the smallest compared batch by that at the largest."""
        if not self.doubled:
            return absent("gain", "1", f"no call mapped pages on {self.label}")
        return self.image_time(self.doubled[0]) / self.image_time(self.doubled[-1])

    def chosen(self, name: str, number: int) -> Quantity:
        """A number that the study chose for all runs."""
        return exact(name, "1", number, self.file)

    # ------------------------------------------------------------------------- returned memory

    @property
    def compares(self) -> bool:
        """Tell if times were measured with memory kept and returned, and calls map pages."""
        return set(COMPARED) <= set(self.policies) and bool(self.doubled)

    @cached_property
    def mapping(self) -> tuple[int, ...]:
        """The batch sizes whose calls map pages where freed memory is returned."""
        pages = {batch: point(self.under("default").faults(batch)) for batch in self.timed}
        return tuple(b for b, n in pages.items() if not isinstance(n, Missing) and n > 0)

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """The timed batch sizes that are powers of two, which every run has."""
        return tuple(batch for batch in self.timed if not batch & (batch - 1))

    @cached_property
    def doubled(self) -> tuple[int, ...]:
        """Powers of two whose calls map pages where freed memory is returned.

        The largest ones, which fewer processes had time for, are left out of a full run: five
        processes bound a median at 94 % only.  A slow machine's quick run may have no more.
        """
        count = {batch: len(self.timing(batch)) for batch in self.powers if batch in self.mapping}
        enough = min(ENOUGH_RUNS, max(count.values(), default=0))
        own = tuple(batch for batch, n in count.items() if n >= enough)
        return own if self.shared is None else tuple(b for b in own if b in self.shared)

    def timing(self, batch: int) -> tuple[Process, ...]:
        """The processes that timed a forward call."""
        processes = self.by_process("time", self.factors(batch))
        return () if isinstance(processes, Missing) else processes

    def gain(self, policy: Policy = "default") -> Quantity:
        """Geometric mean of slowdowns under ``policy`` over the powers of two that map pages."""
        if not self.doubled:
            return absent("slowdown", "1", f"no call mapped pages on {self.label}")
        other = self.under(policy)
        slowdowns = (other.time(batch) / self.time(batch) for batch in self.doubled)
        return named("slowdown", geometric_mean(*slowdowns))

    def trained(self, batch: int) -> Quantity:
        """Slowdown of a forward and backward call where freed memory is returned."""
        time = self.under("default").time(batch, "forward_backward")
        return named("slowdown", time / self.time(batch, "forward_backward"))

    def lost(self, batch: int) -> Quantity:
        """Time that returning freed memory adds to a call (s)."""
        return self.under("default").time(batch) - self.time(batch)

    def page_price(self) -> Quantity:
        """The time of mapping one page, measured without the layer (s)."""
        return named("price of a page", 1 / self.peak_rate("page_mapping"))

    def priced(self, batch: int) -> Quantity:
        """The pages that a call maps where freed memory is returned, at their price (s)."""
        pages = self.under("default").faults(batch)
        return named("page mapping", pages / self.peak_rate("page_mapping"))

    def priced_share(self, batch: int) -> Quantity:
        """Share of ``lost`` that pages at their price explain."""
        return self.priced(batch) / self.lost(batch)

    def threshold(self, batch: int) -> Quantity:
        """Bytes that may be free at the top of the heap after calls of a batch size.

        Calls of one image raise no threshold, so that theirs is the one which the process had.
        """
        mapped = self.under("traced").repeated("mmap_threshold", self.factors(batch))
        return named("trimming threshold", 2 * mapped)

    def mapping_share(self, batch: int) -> Quantity:
        """The share of the processes whose calls map pages where freed memory is returned."""
        share = self.share_mapping(self.factors(batch))
        if isinstance(share, Missing):
            return absent("processes", "1", share.reason)
        return exact(f"processes that map pages at {batch} images", "1", share, self.file)

    def share_mapping(self, factors: Mapping[str, Level], few: int = 0) -> float | Missing:
        """The share of the processes whose calls map more than a ``few`` pages by default."""
        processes = self.under("default").by_process("page_faults", factors)
        if isinstance(processes, Missing):
            return processes
        return sum(process.median > few for process in processes) / len(processes)

    def blocks(self, batch: int) -> tuple[Block, ...]:
        """The large blocks of one call in order, and of freeing its result; none if not traced.

        They are of the first process in which a call gives back just what it takes.
        """
        traced, factors = self.under("traced"), self.factors(batch)
        sizes = traced.by_process("block_bytes", factors)
        changes = traced.by_process("block_changes", factors)
        if isinstance(sizes, Missing) or isinstance(changes, Missing):
            return ()
        calls = []
        for size, change in zip(sizes, changes, strict=True):
            blocks = zip(map(int, size.samples), map(int, change.samples), strict=True)
            calls.append(tuple(map(Block._make, blocks)))
        for call in calls:
            if sum(block.change for block in call) == 0:
                return call
        return calls[0]
