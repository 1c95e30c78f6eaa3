"""One record of the study: calls of the layer, and calls after memory was freed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from report.core.missing import Missing
from report.core.records.record import Level, Pass, Policy
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact, named, recorded
from report.quantity.intervals import Process
from report.quantity.operations import geometric_mean
from report.studies.conv_scaling import subject, theory
from report.theory import heap


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    def factors(self, batch: int, pass_: Pass = "forward") -> dict[str, Level]:
        """The factors of a case of the layer."""
        return {"subject": "layer", "batch": batch, "pass": pass_, "layout": "contiguous"}

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of the run in ascending order, also of cases that failed."""
        return tuple(map(int, self.levels("batch", subject="layer", layout="contiguous")))

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """The batch sizes whose forward calls were timed."""
        return tuple(batch for batch in self.batches if not self.time(batch).missing)

    @cached_property
    def powers(self) -> tuple[int, ...]:
        """The timed batch sizes that are powers of two, which every run has."""
        return tuple(batch for batch in self.timed if not batch & (batch - 1))

    def time(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", self.factors(batch, pass_))

    def throughput(self, batch: int) -> Quantity:
        """Images per second of forward calls."""
        return batch / self.time(batch)

    def throughput_ratio(self, batch: int, base: int) -> Quantity:
        """Divide the throughput at one batch size by that at another one."""
        return self.throughput(batch) / self.throughput(base)

    def best_batch(self) -> Quantity:
        """The power of two with the highest throughput, by medians."""
        rates = dict[int, float]()
        for batch in self.powers:
            rate = point(self.throughput(batch))
            if not isinstance(rate, Missing):
                rates[batch] = rate
        if not rates:
            return absent("best batch", "1", f"not timed on {self.label}")
        return exact("best batch", "1", max(rates, key=rates.__getitem__), self.file)

    def faults(self, batch: int) -> Quantity:
        """Pages that a forward call maps anew."""
        return self.series("page_faults", self.factors(batch))

    def processes(self, quantity: str, factors: CaseFactors) -> Sequence[Process]:
        """The processes that measured a quantity of a case; empty if none did."""
        processes = self.by_process(quantity, factors)
        return () if isinstance(processes, Missing) else processes

    # ------------------------------------------------------------------------- returned memory

    @property
    def compares(self) -> bool:
        """Tell if times were measured with memory kept and returned, and calls map pages."""
        return {"retained", "default"} <= {*self.policies} and bool(self.compared)

    @cached_property
    def compared(self) -> tuple[int, ...]:
        """Powers of two whose calls map pages, up to a size for which all processes had time."""
        compared, returned = [], self.under("default")
        for batch in self.powers:
            pages = point(returned.faults(batch))
            if not isinstance(pages, Missing) and pages > 0 and batch <= subject.LARGE_BATCH:
                compared.append(batch)
        return tuple(compared)

    def gain(self, policy: Policy = "default") -> Quantity:
        """Geometric mean of slowdowns under ``policy`` over the powers of two that map pages."""
        if not self.compares:
            return absent("slowdown", "1", f"layer not timed under two policies on {self.label}")
        other = self.under(policy)
        slowdowns = (other.time(batch) / self.time(batch) for batch in self.compared)
        return named("slowdown", geometric_mean(*slowdowns))

    def excess_pages(self, batch: int) -> Quantity:
        """Pages of the median call beyond those of its blocks.

        A process either has the copy of the weights among the blocks at the top of its heap or
        lower; its pages are left out.
        """
        rest = self.under("default").faults(batch) - theory.pages(batch)
        size = float(point(rest))  # type: ignore[arg-type]  # pages of these batches were counted
        weights = subject.WEIGHT_PAGES if size > subject.WEIGHT_PAGES / 2 else 0
        return exact("median pages − pages of the blocks", "1", size - weights, self.file)

    def trained(self, batch: int) -> Quantity:
        """Slowdown of a forward and backward call where freed memory is returned."""
        time = self.under("default").time(batch, "forward_backward")
        return named("slowdown", time / self.time(batch, "forward_backward"))

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


# ----------------------------------------------------------------------- calls under a setting


@dataclass(frozen=True)
class Calls:
    """Calls of a layer or network by default, or after memory was freed or a threshold set."""

    run: Run
    factors: CaseFactors

    @property
    def name(self) -> str:
        """The layer or the network."""
        return str(self.factors.get("network") or self.factors["layer"])

    @property
    def batch(self) -> int:
        """Images of a call."""
        return int(self.factors["batch"])

    @property
    def threshold(self) -> int:
        """The trimming threshold (B)."""
        return theory.trimming_threshold(self.factors)

    @property
    def start(self) -> int:
        """Predicted start: the first batch size at which a process may map pages."""
        return theory.mapping_start(self.name, self.threshold)

    @property
    def end(self) -> int:
        """Predicted end: the first batch size at which every process maps pages.

        After small blocks were freed the copy of the input lies at the top in each process.
        """
        small_blocks = "small_blocks" in self.factors
        return self.start if small_blocks else theory.mapping_end(self.name, self.threshold)

    @property
    def kind(self) -> str:
        """The subject of the case."""
        return str(self.factors["subject"])

    @property
    def freed(self) -> bool:
        """Tell if a tensor was freed before the calls."""
        return "freed" in self.factors

    @property
    def only_freed(self) -> bool:
        """Tell if no threshold was set and no small blocks were freed."""
        return not {"threshold", "small_blocks"} & {*self.factors}

    @property
    def mapping(self) -> list[bool]:
        """Whether the calls of each process map pages; empty if pages were not counted."""
        return [pages > subject.FEW_PAGES for pages in self.medians("page_faults")]

    @property
    def share(self) -> Quantity:
        """The share of the processes that map pages."""
        return self.run.mapping_share(self.factors, subject.FEW_PAGES)

    def missing_bytes(self, batch: int) -> int:
        """Bytes that the blocks of ``batch`` images and the reserve lack to reach the threshold."""
        return theory.missing_bytes(self.name, batch, self.threshold)

    def as_predicted(self) -> Iterator[Statement]:
        """State that no process maps pages below the start, some from there, all from the end on.

        Nothing is stated where less than a page is missing, since the heap grows in whole pages.
        """
        if self.missing_bytes(self.batch) >= heap.PAGE:
            yield self.share.exactly(0)
        elif self.batch >= self.end:
            yield self.share.exactly(1)
        elif self.batch >= self.start:
            yield self.share > 0

    def medians(self, quantity: str) -> list[float]:
        """The median of a quantity in each process; empty if it was not measured."""
        processes = self.run.under("default").processes(quantity, self.factors)
        return [process.median for process in processes]

    def series(self, quantity: str, policy: Policy = "default") -> Quantity:
        """A quantity of the calls."""
        return self.run.under(policy).series(quantity, self.factors)

    @property
    def by_default(self) -> "Calls":
        """The same calls without a freed tensor."""
        plain = {name: level for name, level in self.factors.items() if name != "freed"}
        return replace(self, factors=plain)

    def gain(self, policy: Policy | None = None) -> Quantity:
        """Divide the time by default by that after the freed tensor, or under a ``policy``."""
        time_kept = self.by_default.series("time", policy) if policy else self.series("time")
        return self.by_default.series("time") / time_kept


def calls_of(runs: Iterable[Run], kind: str) -> list[Calls]:
    """Return the calls of a ``kind`` of subject in the first run that has some."""
    for run in runs:
        cases = run.stored.record.cases
        calls = [Calls(run, case.factors) for case in cases if case.factors.get("subject") == kind]
        if calls:
            return calls
    return []
