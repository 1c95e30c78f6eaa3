"""Results of conv_scaling: reconciled counts, and page mapping by default and under settings."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from report.core.missing import Missing
from report.core.records.record import PASSES, Policy
from report.core.text.format import NO_BREAK
from report.evidence import executed as evidence
from report.evidence.runs import CaseFactors
from report.paper.study import Content
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.conv_scaling import subject, theory
from report.studies.conv_scaling.runs import Run
from report.studies.conv_scaling.subject import FEW_PAGES, MARGIN
from report.theory.reconciliation import Reconciliation
from report.theory.terms import theory_macs
from report.theory.work import mnist_conv2

# ------------------------------------------------------------------------------------- counts


def executed(run: Run) -> Iterator[Reconciliation]:
    """Reconcile theory with the multiply-adds that lackey counted, forward and with gradients."""
    for pass_ in PASSES:
        cases = {batch: run.factors(batch, pass_) for batch in run.batches}
        for batch, count in evidence.counts(run, cases).items():
            amount = subject.macs_of(batch, pass_)
            yield evidence.executed(
                f"executed-{run.key}-{pass_}-{batch}",
                f"Executed multiply-adds on {run.label} at batch {batch}",
                replace(theory_macs(mnist_conv2(batch)), amount=amount),
                *count,
            )


def device_work(run: Run) -> Iterator[Reconciliation]:
    """Reconcile forward calls with the float32 counts of a GPU's CUDA cores."""
    for batch in run.batches:
        reconciled = evidence.device_work(
            run,
            run.factors(batch),
            mnist_conv2(batch),
            subject.macs_of(batch),
            f"device-work-{run.key}-{batch}",
            f"Operations of the CUDA cores on {run.label} at batch {batch}",
        )
        if reconciled is not None:
            yield reconciled


def without_residual(items: Iterable[Reconciliation], source: str) -> Iterator[Statement]:
    """State for each reconciliation that its terms give what was counted, to the unit."""
    for item in items:
        if not isinstance(item.measured, Missing):
            rest = exact("residual", item.unit, item.measured.amount - item.end, source)
            yield rest.exactly(0)


# ------------------------------------------------------------------------------- default calls


def cliff_predicted(run: Run) -> Iterator[Statement]:
    """State that no process maps pages below the predicted start, and most do from its end on."""
    low, high = point(run.start()), point(run.end())
    if isinstance(low, Missing) or isinstance(high, Missing):
        yield run.start() > 0
        return
    for batch in run.timed:
        share = run.mapping_share(run.factors(batch))
        if batch < low:
            yield share.exactly(0)
        if batch >= high:
            yield share > 0.5


def pages_follow(run: Run) -> Iterator[Statement]:
    """State for each batch size from 16 on that the median call maps the pages of its blocks.

    A process either has the copy of the weights among the blocks at the top of its heap or lower.
    """
    for batch in run.compared:
        if batch < subject.MANY_IMAGES:
            continue
        rest = run.under("default").faults(batch) - theory.pages(batch)
        size = float(point(rest))  # type: ignore[arg-type]  # pages of these batches were counted
        weights = subject.WEIGHT_PAGES if size > subject.WEIGHT_PAGES / 2 else 0
        excess = exact("median pages − pages of the blocks", "1", size - weights, run.file)
        yield excess.near(0, within=1)


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
        return subject.trimming_threshold(self.factors)

    @property
    def start(self) -> int:
        """Predicted start: the first batch size at which a process may map pages."""
        return theory.mapping_start(self.name, self.threshold)

    @property
    def share(self) -> Quantity:
        """The share of the processes that map pages."""
        return self.run.mapping_share(self.factors, FEW_PAGES)

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

    def held(self) -> Quantity:
        """Memory that the process holds between calls, less that by default (B)."""
        return self.series("resident_before") - self.by_default.series("resident_before")

    def pages_text(self) -> Content:
        """Print the smallest and the largest median of the pages of a process."""
        pages = sorted(self.medians("page_faults"))
        if not pages:
            return Missing("no pages were counted")
        ends = dict.fromkeys((f"{pages[0]:,.0f}", f"{pages[-1]:,.0f}"))
        return " to ".join(ends).replace(" ", NO_BREAK)

    def row(self) -> Mapping[str, Content]:
        """The row of a table of networks."""
        return {
            "Network": self.name,
            "Mode": str(self.factors["mode"]),
            "Pages before": self.by_default.pages_text(),
            "Pages after": self.pages_text(),
            "Tensor freed": self.gain(),
            "Memory kept": self.gain("retained"),
            "jemalloc": self.gain("jemalloc"),
        }


def calls_of(runs: Iterable[Run], kind: str) -> list[Calls]:
    """Return the calls of a ``kind`` of subject in the first run that has some."""
    for run in runs:
        if calls := [Calls(run, factors) for factors in run.cases_of(kind)]:
            return calls
    return []


def _count(name: str, number: float, calls: Sequence[Calls]) -> Quantity:
    return exact(name, "1", number, calls[0].run.file)


# ------------------------------------------------------------------------------ set thresholds


def observed_starts(calls: Iterable[Calls], least: float = 0) -> dict[tuple[str, int], int]:
    """Return the smallest batch at which any, or at least this share, of the processes map.

    By layer and predicted start.
    """
    starts: dict[tuple[str, int], int] = {}
    for one in sorted(calls, key=attrgetter("batch")):
        share = point(one.share)
        if not isinstance(share, Missing) and share and share >= least:
            starts.setdefault((one.name, one.start), one.batch)
    return starts


def number_of_starts(calls: Sequence[Calls]) -> Quantity:
    """Count the starts that were observed."""
    return _count("starts", len(observed_starts(calls)), calls)


def exact_starts(calls: Sequence[Calls], least: float) -> Quantity:
    """Count the starts that are as predicted, if at least this share of the processes must map."""
    number = sum(batch == start for (_, start), batch in observed_starts(calls, least).items())
    return _count("starts as predicted", number, calls)


def extreme_start(calls: Sequence[Calls], choose: Callable[[Iterable[int]], int]) -> Quantity:
    """Return the smallest or largest predicted start."""
    return _count("predicted start", choose([one.start for one in calls]), calls)


def start_predicted(calls: Sequence[Calls]) -> Iterator[Statement]:
    """State that each convolution begins at the predicted image or one before."""
    for (_, start), batch in observed_starts(calls).items():
        yield (2 * _count("expected − observed", start - batch, calls)).near(1, within=1)


def between_predictions(calls: Sequence[Calls]) -> Iterator[Statement]:
    """State that no process maps more than an image below the start, and all from the end on."""
    for one in calls:
        if one.batch < one.start - 1:
            yield one.share.exactly(0)
        elif one.batch >= theory.mapping_end(one.name, one.threshold):
            yield one.share.exactly(1)


# ---------------------------------------------------------------------------- single processes


def excess_pages(calls: Iterable[Calls]) -> list[float]:
    """Pages of each process beyond those that the free top of its heap announces."""
    excess = []
    for one in calls:
        for top, pages in zip(one.medians("free_top"), one.medians("page_faults"), strict=False):
            excess.append(pages - theory.pages_of_top(top, one.threshold))
    return excess


def number_of_processes(calls: Sequence[Calls]) -> Quantity:
    """Count the batch sizes and settings, each in each process."""
    return _count("calls", len(excess_pages(calls)), calls)


def pages_announced(calls: Sequence[Calls]) -> Iterator[Statement]:
    """State that each process maps, to within a page, what the top of its heap announces."""
    for pages in excess_pages(calls):
        yield _count("pages − announced pages", pages, calls).near(0, within=1)


def small_blocks_join(calls: Sequence[Calls]) -> Iterator[Statement]:
    """State that after small blocks were freed every process maps from the start on, none below."""
    for one in calls:
        if "small_blocks" in one.factors:
            yield one.share.exactly(int(one.batch >= one.start))


def least_slowdown(calls: Sequence[Calls]) -> Quantity:
    """Divide the least time of a process that maps pages by the longest of one that does not.

    The smallest of such ratios at the batch sizes and thresholds at which there are both.
    """
    times: dict[tuple[int, int], dict[bool, list[float]]] = {}
    for one in calls:
        by_kind = times.setdefault((one.threshold, one.batch), {})
        for pages, time in zip(one.medians("page_faults"), one.medians("time"), strict=False):
            by_kind.setdefault(pages > FEW_PAGES, []).append(time)
    ratios = [min(both[True]) / max(both[False]) for both in times.values() if len(both) == 2]
    if not ratios:
        return absent("slowdown", "1", "no batch size has processes of both kinds")
    return _count("slowdown", min(ratios), calls)


# ------------------------------------------------------------------------------ a freed tensor


def layer_keeps_memory(calls: Sequence[Calls]) -> Iterator[Statement]:
    """State where the layer maps pages with and without the tensor, and that its calls gain."""
    for one in calls:
        if one.name != "layer":
            continue
        if "freed" not in one.factors:
            if one.batch > subject.LAST_BY_DEFAULT:
                yield one.share.exactly(1)
        elif one.batch < one.start:
            yield one.share.exactly(0)
            if one.batch > subject.LAST_BY_DEFAULT:
                yield one.gain() > 1 + MARGIN
        elif one.batch >= theory.mapping_end(one.name, one.threshold):
            yield one.share.exactly(1)


def memory_held(calls: Sequence[Calls]) -> Quantity:
    """Memory that the freed tensor makes the layer hold, at the largest batch without pages (B)."""
    layer = [one for one in calls if one.name == "layer" and "freed" in one.factors]
    without_pages = [one for one in layer if one.batch < one.start]
    if not without_pages:
        return absent("memory", "B", "the layer was not measured after a freed tensor")
    return max(without_pages, key=attrgetter("batch")).held()


def network_predicted(calls: Sequence[Calls]) -> Iterator[Statement]:
    """State that ResNet-18 maps pages from the predicted batch on, after tensors were freed."""
    for one in calls:
        if one.name == subject.LARGE_NETWORK:
            yield one.share.exactly(int("freed" not in one.factors or one.batch >= one.start))


def small_network_gains(network: Calls) -> Iterator[Statement]:
    """State that a network maps no pages after the tensor was freed, and gains."""
    yield network.series("page_faults") < FEW_PAGES
    yield network.gain() > 1 + MARGIN


def large_network_does_not(network: Calls) -> Iterator[Statement]:
    """State that a network gains from usual remedies, but not from a freed tensor."""
    yield network.series("page_faults") > FEW_PAGES
    yield network.gain().near(1, within=MARGIN)
    for policy in subject.KEEPING:
        yield network.gain(policy) > 1 + MARGIN
