"""Measurements of one run of the layer, by batch size and by glibc's policy for freed memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from figures.panels import Bars, BarSeries, Points, Scaling
from report.core.missing import Missing
from report.core.records.record import PASSES, Level, Pass, Policy
from report.evidence import executed as evidence
from report.evidence import runs as any_study
from report.evidence.runs import CaseFactors
from report.paper.plots import points
from report.quantity.evaluation import ENOUGH_RUNS, point
from report.quantity.expression import Quantity, Statement, absent, exact, named, recorded
from report.quantity.intervals import Process
from report.quantity.operations import geometric_mean
from report.studies.conv_scaling import theory
from report.theory import heap
from report.theory.reconciliation import Reconciliation
from report.theory.terms import theory_macs
from report.theory.work import mnist_conv2

#: Name and number of the colour of a line → a quantity by batch size.
Lines: TypeAlias = Mapping[tuple[str, int], Mapping[int, Quantity]]
#: Share of the processes beyond which most map pages.
MOST: Final = 0.5
#: Images of a call from which on the copy of the input lies at the top of the heap.
MANY_IMAGES: Final = 16
#: Blocks that a traced call of oneDNN allocates and frees.
_EVENTS: Final = 8


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

    def batch_gain(self, largest: int | None = None) -> Quantity:
        """Divide the time of a single image by the time per image of a large batch."""
        return self.time(1) / self.image_time(largest or self.compared[-1])

    def batch_cost(self, largest: int) -> Quantity:
        """Divide the time of a call of a large batch by that of a single image."""
        return self.time(largest) / self.time(1)

    def batch_at(self, sizes: str, place: int) -> Quantity:
        """Return one of the batch sizes ``mapping`` or ``compared``."""
        return exact(sizes, "1", getattr(self, sizes)[place], self.file)

    def faults(self, batch: int) -> Quantity:
        """Pages that a forward call maps anew."""
        return self.series("page_faults", self.factors(batch))

    def peak_share(self, batch: int, policy: Policy = "retained") -> Quantity:
        """Divide the achieved rate by the measured ceiling of arithmetic."""
        time = self.under(policy).time(batch)
        return theory.forward_work(batch) / time / self.peak_rate("matrix_product")

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
        processes = self.by_process("time", self.factors(batch))
        return () if isinstance(processes, Missing) else processes

    def gain(self, policy: Policy = "default") -> Quantity:
        """Geometric mean of slowdowns under ``policy`` over the powers of two that map pages."""
        if not self.compared:
            return absent("slowdown", "1", f"no call mapped pages on {self.label}")
        other = self.under(policy)
        slowdowns = (other.time(batch) / self.time(batch) for batch in self.compared)
        return named("slowdown", geometric_mean(*slowdowns))

    def trained(self, batch: int) -> Quantity:
        """Slowdown of a forward and backward call where freed memory is returned."""
        time = self.under("default").time(batch, "forward_backward")
        return named("slowdown", time / self.time(batch, "forward_backward"))

    def training_starts_alike(self, margin: float) -> Iterator[Statement]:
        """State that training maps pages from the batch of forward calls on, and slows less."""
        last, first = theory.LAST_BY_DEFAULT, theory.ALL_BY_DEFAULT
        for pass_ in PASSES:
            yield self.mapping_share(self.factors(last, pass_)).exactly(0)
            yield self.mapping_share(self.factors(first, pass_)).exactly(1)
        forward = self.under("default").time(first) / self.time(first)
        yield self.trained(first) > 1 + margin
        yield forward / self.trained(first) > 1

    def page_price(self) -> Quantity:
        """The time of mapping one page, measured without the layer (s)."""
        return named("price of a page", 1 / self.peak_rate("page_mapping"))

    def priced_share(self, batch: int) -> Quantity:
        """Share of the time added by returned memory that its pages at their price explain."""
        returned = self.under("default")
        priced = named("page mapping", returned.faults(batch) / self.peak_rate("page_mapping"))
        return priced / (returned.time(batch) - self.time(batch))

    def extreme_priced_share(self, choose: Callable[..., Quantity]) -> Quantity:
        """Smallest or largest median of ``priced_share`` over the compared batch sizes."""
        name, medians = "pages ÷ added time", list[Quantity]()
        for share in map(point, map(self.priced_share, self.compared)):
            if not isinstance(share, Missing):
                medians.append(exact(name, "1", share, self.file))
        return choose(*medians or [absent(name, "1", "no two memory policies were measured")])

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


def executed(run: Run) -> Iterator[Reconciliation]:
    """Reconcile theory with the multiply-adds that lackey counted, forward and with gradients."""
    for pass_ in PASSES:
        cases = {batch: run.factors(batch, pass_) for batch in run.batches}
        for batch, count in evidence.counts(run, cases).items():
            amount = theory.macs_of(batch, pass_)
            yield evidence.executed(
                f"executed-{run.key}-{pass_}-{batch}",
                f"Executed multiply-adds on {run.label} at batch {batch}",
                replace(theory_macs(mnist_conv2(batch)), amount=amount),
                *count,
            )


def device_work(run: Run) -> Iterator[Reconciliation]:
    """Reconcile forward calls with the counts of a GPU's CUDA cores."""
    for batch in run.batches:
        reconciled = evidence.device_work(
            run,
            run.factors(batch),
            mnist_conv2(batch),
            theory.macs_of(batch),
            f"device-work-{run.key}-{batch}",
            f"Operations of the CUDA cores on {run.label} at batch {batch}",
        )
        if reconciled is not None:
            yield reconciled


def without_residual(
    reconciliations: Iterable[Reconciliation], source: str = ""
) -> Iterator[Statement]:
    """State for each reconciliation that its terms give what was counted, to the unit."""
    for item in reconciliations:
        if not isinstance(item.measured, Missing):
            rest = exact("residual", item.unit, item.measured.amount - item.end, source)
            yield rest.exactly(0)


# ---------------------------------------------------------------------- where mapping begins


def largest_without_pages(run: Run) -> Quantity:
    """The largest batch size at which no process maps pages, below those at which any does."""
    largest = run.timed[0]
    for batch in run.timed:
        if point(run.mapping_share(run.factors(batch))) != 0:
            break
        largest = batch
    return exact("no process maps pages", "1", largest, run.file)


def first_mapping_batch(run: Run) -> Quantity:
    """The batch size from which outputs, copy and reserve exceed the threshold at the start."""
    arrived = run.first_threshold() - theory.RESERVE
    return named("images", arrived / theory.freed_bytes(1))


def all_mapping_batch(run: Run) -> Quantity:
    """The batch size from which outputs and reserve alone exceed the threshold at the start."""
    arrived = run.first_threshold() - theory.RESERVE
    return named("images", arrived / (2 * theory.output_bytes(1)))


def starts_as_predicted(run: Run) -> Iterator[Statement]:
    """State that no process maps pages below the predicted start, and most do above its end."""
    low, high = point(first_mapping_batch(run)), point(all_mapping_batch(run))
    if isinstance(low, Missing) or isinstance(high, Missing):
        yield first_mapping_batch(run) > 0
        return
    for batch in run.timed:
        share = run.mapping_share(run.factors(batch))
        if batch < low:
            yield share.exactly(0)
        if batch > high:
            yield share > MOST


def pages_as_predicted(run: Run) -> Iterator[Statement]:
    """State for each batch size from 16 on that most calls map the pages of their blocks.

    A process either has the copy of the weights among the blocks at the top of its heap or lower.
    """
    for batch in run.compared:
        if batch < MANY_IMAGES:
            continue
        rest = run.under("default").faults(batch) - theory.pages(batch)
        size = float(point(rest))  # type: ignore[arg-type]  # pages of these batches were counted
        weights = theory.WEIGHT_PAGES if size > theory.WEIGHT_PAGES / 2 else 0
        excess = exact("median pages − pages of the blocks", "1", size - weights, run.file)
        yield excess.near(0, within=1)


def heap_states(run: Run) -> Iterator[Bars]:
    """Draw the heap after the steps of a traced call, from its lowest address to its top (MB)."""
    factors = run.factors(theory.SHOWN_BATCH)
    blocks = run.under("traced").by_process("block_bytes", factors)
    if isinstance(blocks, Missing) or len(blocks[0].samples) != _EVENTS:
        return
    copied, in_blocks, output = (blocks[0].samples[event] / 1e6 for event in (0, 2, 5))
    reserve = heap.RESERVE / 1e6
    # Step → bytes that are free below a block in use, in use, and free at the top.
    steps = {
        "Input copied": (0.0, copied, reserve),
        "Output computed": (0.0, copied + in_blocks, reserve),
        "Copies freed": (copied, in_blocks, reserve),
        "Output copied": (copied, in_blocks + output, reserve),
        "Blocks freed": (copied + in_blocks, output, reserve),
        "Output dropped": (0.0, 0.0, copied + in_blocks + output + reserve),
        "Top returned": (0.0, 0.0, reserve),
    }
    names = {"Free below": 2, "In use": 0, "Free at the top": 1}
    columns = zip(names.items(), zip(*steps.values(), strict=True), strict=True)
    series = tuple(BarSeries(name, column, colour) for (name, colour), column in columns)
    yield Bars(tuple(steps), series, "Address above the start of the heap (MB)")


def panel(label: str, unit: str, lines: Lines, ticks: tuple[float, ...]) -> Scaling:
    """Draw lines over the batch size, by name and number of their colour."""
    drawn: tuple[Points, ...] = ()
    for (name, colour), over in lines.items():
        drawn += points(name, over, unit, series=colour, joined=True)
    look = {"y_scale": "linear", "y_from_zero": True, "direct": True}
    axes = ("Batch size (images)", label)
    return Scaling(*axes, drawn, x_ticks=ticks, **look)  # type: ignore[arg-type]
