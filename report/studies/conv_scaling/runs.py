"""Measurements of one run of the layer, by batch size and by glibc's policy for freed memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from report.core.missing import Missing
from report.core.records.record import Level, Pass, Policy
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.quantity.evaluation import ENOUGH_RUNS, point
from report.quantity.expression import Quantity, absent, exact, named, recorded
from report.quantity.intervals import Process
from report.quantity.operations import geometric_mean
from report.studies.conv_scaling import theory


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study; ``shared`` are the batch sizes of slowdowns that runs compare."""

    shared: tuple[int, ...] | None = None

    def factors(self, batch: int, pass_: Pass = "forward") -> dict[str, Level]:
        """The factors of a case of the layer."""
        return {"subject": "layer", "batch": batch, "pass": pass_, "layout": "contiguous"}

    def cases_of(self, subject: str, **levels: Level) -> Iterator[CaseFactors]:
        """Yield the factors of the cases of a subject with these levels."""
        sought = {"subject": subject, **levels}
        for case in self.stored.record.cases:
            if sought.items() <= case.factors.items():
                yield case.factors

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of the run in ascending order, also of cases that failed."""
        return tuple(map(int, self.levels("batch", subject="layer", layout="contiguous")))

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

    def image_time_ratio(self, batch: int, base: int) -> Quantity:
        """Divide the time of an image at one batch size by that at another one."""
        return self.image_time(batch) / self.image_time(base)

    def batch_gain(self, largest: int | None = None) -> Quantity:
        """Divide the time of a single image by the time per image of a large batch."""
        return self.image_time_ratio(1, largest or self.compared[-1])

    def batch_at(self, sizes: str, place: int) -> Quantity:
        """Return one of the batch sizes ``mapping`` or ``compared``."""
        return exact(sizes, "1", getattr(self, sizes)[place], self.file)

    def faults(self, batch: int) -> Quantity:
        """Pages that a forward call maps anew."""
        return self.series("page_faults", self.factors(batch))

    # ------------------------------------------------------------------------- returned memory

    @property
    def compares(self) -> bool:
        """Tell if times were measured with memory kept and returned, and calls map pages."""
        return {"retained", "default"} <= {*self.policies} and bool(self.compared)

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
    def compared(self) -> tuple[int, ...]:
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
        return self.processes("time", self.factors(batch))

    def processes(self, quantity: str, factors: CaseFactors) -> tuple[Process, ...]:
        """The processes that measured a quantity of a case; empty if none did."""
        processes = self.by_process(quantity, factors)
        return () if isinstance(processes, Missing) else processes

    def gain(self, policy: Policy = "default") -> Quantity:
        """Geometric mean of slowdowns under ``policy`` over the powers of two that map pages."""
        if not self.compares:
            return absent("slowdown", "1", f"not timed under two memory policies on {self.label}")
        other = self.under(policy)
        slowdowns = (other.time(batch) / self.time(batch) for batch in self.compared)
        return named("slowdown", geometric_mean(*slowdowns))

    def trained(self, batch: int) -> Quantity:
        """Slowdown of a forward and backward call where freed memory is returned."""
        time = self.under("default").time(batch, "forward_backward")
        return named("slowdown", time / self.time(batch, "forward_backward"))

    def page_price(self) -> Quantity:
        """The time of mapping one page, measured without the layer (s)."""
        return named("price of a page", 1 / self.peak_rate("page_mapping"))

    def priced_share(self, batch: int) -> Quantity:
        """Share of the time added by returned memory that its pages at their price explain."""
        returned = self.under("default")
        priced = named("page mapping", returned.faults(batch) / self.peak_rate("page_mapping"))
        return priced / (returned.time(batch) - self.time(batch))

    def first_threshold(self) -> Quantity:
        """Bytes that may be free at the top of the heap when a process arrives at its first call.

        Calls of one image raise no threshold, so that theirs is the one which the process had.
        """
        mapped = self.under("traced").repeated("mmap_threshold", self.factors(self.timed[0]))
        return named("trimming threshold", 2 * mapped)

    def mapping_share(self, factors: CaseFactors, few: int = 0) -> Quantity:
        """The share of the processes whose calls map more than a ``few`` pages by default."""
        name = f"processes that map pages at {factors['batch']} images"
        processes = self.under("default").by_process("page_faults", factors)
        if isinstance(processes, Missing):
            return recorded(name, "1", processes, self.file)
        mapping = sum(process.median > few for process in processes)
        return exact(name, "1", mapping / len(processes), self.file)

    def _first_reaching(self, image_bytes: Quantity) -> Quantity:
        """The first batch size that, with the reserve, reaches the threshold of the first call."""
        images = point((self.first_threshold() - theory.RESERVE) / image_bytes)
        batch = images if isinstance(images, Missing) else ceil(images)
        return recorded("first batch that reaches the threshold", "1", batch, self.file)

    def start(self) -> Quantity:
        """The predicted start: outputs, copy and reserve reach the threshold."""
        return self._first_reaching(theory.freed_bytes(1))

    def end(self) -> Quantity:
        """The predicted end: outputs and reserve alone reach the threshold."""
        return self._first_reaching(2 * theory.output_bytes(1))
