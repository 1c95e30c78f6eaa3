"""One record of the study: calls of the layer, and calls after a change of heap or threshold.

A call maps pages if glibc has returned freed memory to the system.  Each case is measured in
several processes.  With the policy ``default`` memory is returned, with ``retained`` it is kept.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from report.core.missing import Missing
from report.core.records.record import PASSES, Level, Pass, Policy
from report.evidence import executed
from report.evidence import runs as any_study
from report.quantity.evaluation import point_estimate
from report.quantity.expression import (
    Quantity,
    Statement,
    exact_number,
    missing_number,
    named,
    recorded_number,
)
from report.quantity.operations import geometric_mean
from report.studies.conv_scaling import subject, theory
from report.theory import heap
from report.theory.reconciliation import Reconciliation
from report.theory.terms import theory_macs
from report.theory.work import mnist_conv2


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    def factors(self, batch: int, pass_: Pass = "forward") -> dict[str, Level]:
        """Return the factors of a case of the layer."""
        return {"subject": "layer", "batch": batch, "pass": pass_, "layout": "contiguous"}

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of all cases of the layer, including failed cases, in ascending order."""
        return tuple(map(int, self.levels("batch", subject="layer", layout="contiguous")))

    @cached_property
    def timed_batches(self) -> tuple[int, ...]:
        """The batch sizes whose forward calls were timed."""
        return tuple(batch for batch in self.batches if not self.time(batch).missing)

    @cached_property
    def powers_of_two(self) -> tuple[int, ...]:
        """The timed batch sizes that are powers of two."""
        return tuple(batch for batch in self.timed_batches if not batch & (batch - 1))

    def time(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Return the duration of a call (s)."""
        return self.series("time", self.factors(batch, pass_))

    def throughput(self, batch: int) -> Quantity:
        """Return the images per second of forward calls."""
        return batch / self.time(batch)

    def throughput_ratio(self, batch: int, base: int) -> Quantity:
        """Divide the throughput at one batch size by the throughput at the batch size ``base``."""
        return self.throughput(batch) / self.throughput(base)

    def best_batch(self) -> Quantity:
        """Return the power of two with the highest median throughput."""
        if not self.powers_of_two:
            return missing_number("best batch", "1", f"not timed on {self.label}")
        rates = [float(point_estimate(self.throughput(batch))) for batch in self.powers_of_two]  # type: ignore[arg-type]
        best = self.powers_of_two[rates.index(max(rates))]
        return exact_number("best batch", "1", best, self.file)

    @cached_property
    def compared_batches(self) -> tuple[int, ...]:
        """Powers of two up to ``LARGE_BATCH`` whose calls map pages if memory is returned."""
        if not {"retained", "default"} <= {*self.policies}:
            return ()
        batches, returned = [], self.under_policy("default")
        for batch in self.powers_of_two:
            pages = point_estimate(returned.series("page_faults", self.factors(batch)))
            if not isinstance(pages, Missing) and pages > 0 and batch <= subject.LARGE_BATCH:
                batches.append(batch)
        return tuple(batches)

    def mean_slowdown(self, policy: Policy = "default") -> Quantity:
        """Return the geometric mean of times under ``policy`` divided by times with memory kept."""
        if not self.compared_batches:
            reason = f"layer not timed with memory kept on {self.label}"
            return missing_number("slowdown", "1", reason)
        slower = self.under_policy(policy)
        slowdowns = (slower.time(batch) / self.time(batch) for batch in self.compared_batches)
        return named("slowdown", geometric_mean(*slowdowns))

    def excess_pages(self, batch: int) -> Quantity:
        """Return mapped minus predicted pages; predict a copy of the weights if it fits better."""
        pages = self.under_policy("default").series("page_faults", self.factors(batch))
        predicted = theory.pages(batch)
        # ``batch`` is one of ``compared_batches``, so that its pages are not missing.
        excess = float(point_estimate(pages - predicted))  # type: ignore[arg-type]
        weights = subject.WEIGHT_PAGES if excess > subject.WEIGHT_PAGES / 2 else 0
        pages_text = f"{point_estimate(predicted + weights):,.0f} pages"
        copy_text = f"{'with' if weights else 'without'} copied weights"
        name = f"pages beyond prediction(batch {batch}: {pages_text} {copy_text})"
        return exact_number(name, "1", excess - weights, self.file)

    def slowdown(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Divide a call's time with freed memory returned by its time with memory kept."""
        returned = self.under_policy("default")
        return named("slowdown", returned.time(batch, pass_) / self.time(batch, pass_))

    def timed_processes(self) -> Quantity:
        """Count the processes that timed calls on one image with memory returned."""
        medians = Calls(self, self.factors(1)).medians("time")
        return exact_number("processes", "1", len(medians), self.file)

    def first_threshold(self) -> Quantity:
        """Return the trimming threshold (B) at the smallest batch size."""
        factors, traced = self.factors(self.timed_batches[0]), self.under_policy("traced")
        mapping_threshold = traced.deterministic_quantity("mmap_threshold", factors)
        return named("trimming threshold", 2 * mapping_threshold)

    def _first_reaching(self, image_bytes: Quantity) -> Quantity:
        """Return the first batch size whose bytes plus the reserve reach ``first_threshold``."""
        images = point_estimate((self.first_threshold() - theory.RESERVE) / image_bytes)
        batch = images if isinstance(images, Missing) else ceil(images)
        return recorded_number("first batch that reaches the threshold", "1", batch, self.file)

    def predicted_start(self) -> Quantity:
        """Predict the first batch size whose outputs and copy of the input reach the threshold."""
        return self._first_reaching(theory.freed_bytes(1))

    def predicted_end(self) -> Quantity:
        """Predict the first batch size whose two outputs alone reach the threshold."""
        return self._first_reaching(2 * theory.output_bytes(1))

    def predicted_top(self, fewer: int = 0) -> Quantity:
        """Predict the free bytes (B) of the heap after a call on (start − ``fewer``) images."""
        return (self.predicted_start() - fewer) * theory.freed_bytes(1) + theory.RESERVE

    def reconcile_executed_work(self) -> Iterator[Reconciliation]:
        """Reconcile theory with the multiply-adds of each pass that Valgrind's Lackey counted."""
        for pass_ in PASSES:
            cases = {batch: self.factors(batch, pass_) for batch in self.batches}
            for batch, count in executed.count_by_level(self, cases).items():
                forward = theory_macs(mnist_conv2(batch))
                # A backward pass computes two gradients, each with the work of the forward pass.
                amount = forward.amount * (1 if pass_ == "forward" else 3)
                id = f"executed-{self.key}-{pass_}-{batch}"
                title = f"Executed multiply-adds on {self.label} at batch {batch}"
                expected = replace(forward, amount=amount)
                yield executed.reconcile_executed(id, title, expected, *count)

    def reconcile_device_work(self) -> Iterator[Reconciliation]:
        """Reconcile the work of forward calls with the float32 counts of a GPU's CUDA cores."""
        for batch in self.batches:
            factors, layer = self.factors(batch), mnist_conv2(batch)
            id = f"device-work-{self.key}-{batch}"
            title = f"Operations of the CUDA cores on {self.label} at batch {batch}"
            work = executed.reconcile_gpu_work(self, factors, layer, id, title)
            if work is not None:
                yield work


class Calls:
    """The calls of a case, whose processes may first free tensors or blocks, or set a threshold."""

    def __init__(self, run: Run, factors: any_study.CaseFactors) -> None:
        self.run, self.factors = run, factors
        #: Name of the layer or network.
        self.name = str(factors.get("network") or factors.get("layer"))
        self.batch = int(factors["batch"])
        #: The trimming threshold (B).
        self.threshold = theory.trimming_threshold(factors)
        self.frees_tensor = "freed" in factors

    @property
    def predicted_start(self) -> int:
        """Predicted first batch size at which a process may map pages."""
        return theory.mapping_start(self.name, self.threshold)

    @property
    def predicted_end(self) -> int:
        """Predicted first batch size at which every process maps pages."""
        # Freed small blocks move the input's copy to the top in every process, so that all map
        # pages from the start on.  For a network, the prediction has no copy of an input.
        if "small_blocks" in self.factors or self.name == subject.LARGE_NETWORK:
            return self.predicted_start
        return theory.mapping_end(self.name, self.threshold)

    @property
    def maps_pages(self) -> list[bool]:
        """Whether the calls map pages, for each process; empty if pages were not counted."""
        return [pages > subject.FEW_PAGES for pages in self.medians("page_faults")]

    @property
    def mapping_share(self) -> Quantity:
        """The share of the processes whose calls map pages."""
        name = f"processes that map pages at {self.batch} images"
        if not (maps_pages := self.maps_pages):
            return missing_number(name, "1", "pages were not counted")
        return exact_number(name, "1", sum(maps_pages) / len(maps_pages), self.run.file)

    def missing_bytes(self, batch: int) -> int:
        """Return threshold minus reserve minus the blocks of ``batch`` images, in bytes."""
        return self.threshold - heap.RESERVE_BYTES - batch * theory.top_bytes_of_image(self.name)

    def as_predicted(self) -> Iterator[Statement]:
        """State how many processes map pages: none below the start, some from it, all from the end.

        States nothing below the start if less than a page is missing to the threshold.
        """
        if self.batch >= self.predicted_end:
            yield self.mapping_share.exactly(1)
        elif self.batch >= self.predicted_start:
            yield self.mapping_share > 0
        elif self.missing_bytes(self.batch) >= heap.PAGE_BYTES:
            yield self.mapping_share.exactly(0)

    def medians(self, quantity: str, policy: Policy = "default") -> list[float]:
        """Return the median of a quantity in each process; empty if it was not measured."""
        processes = self.run.under_policy(policy).by_process(quantity, self.factors)
        return [] if isinstance(processes, Missing) else [p.median for p in processes]

    def series(self, quantity: str, policy: Policy = "default") -> Quantity:
        """Return a quantity of the calls, from the samples of all processes."""
        return self.run.under_policy(policy).series(quantity, self.factors)

    @property
    def without_freed_tensor(self) -> "Calls":
        """The case with the same factors in which no tensor was freed."""
        factors = {name: level for name, level in self.factors.items() if name != "freed"}
        return Calls(self.run, factors)

    def gain(self, policy: Policy | None = None) -> Quantity:
        """Divide the time with memory returned by that under ``policy``, or with a freed tensor."""
        default = self.without_freed_tensor
        time_with_remedy = default.series("time", policy) if policy else self.series("time")
        return default.series("time") / time_with_remedy

    def keeps_memory(self) -> Iterator[Statement]:
        """State that after a tensor was freed the median call maps few pages and is faster."""
        yield self.series("page_faults") < subject.FEW_PAGES
        yield self.gain() > 1 + subject.MARGIN

    def excess_pages(self) -> list[float]:
        """Return mapped pages minus the pages that the heap's free top predicts, per process."""
        processes = zip(self.medians("free_top"), self.medians("page_faults"), strict=False)
        return [pages - theory.pages_of_top(top, self.threshold) for top, pages in processes]


def calls_of(runs: Iterable[Run], kind: str) -> list[Calls]:
    """Return the calls in all cases with the subject ``kind``, such as "cliff"."""
    calls = list[Calls]()
    for run in runs:
        cases = (case.factors for case in run.stored.record.cases)
        calls += [Calls(run, factors) for factors in cases if factors.get("subject") == kind]
    return calls


def gain_by_freed_tensor(calls: Iterable[Calls], first: int, last: int) -> Quantity:
    """Average the layer's gains by a freed tensor, from ``first`` to ``last`` images."""
    cases = [c for c in calls if c.name == "layer" and c.frees_tensor and first <= c.batch <= last]
    if not cases:
        return missing_number("gain", "1", "not timed after a tensor was freed")
    return named("gain", geometric_mean(*(case.gain() for case in cases)))
