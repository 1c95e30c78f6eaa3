"""What one run measured of the layer, by batch size and pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from report.evidence import runs as any_study
from report.evidence.runs import fitted, known, labels
from report.missing import Missing
from report.records.passes import PASSES, Pass
from report.records.record import Factor, Sample
from report.records.store import Stored
from report.statistics.estimates import CONFIDENCE, Estimate, LinearFit, bonferroni, rate, rate_over
from report.studies.conv_scaling.subject import Layout, operations

#: Both intervals of an efficiency hold together with the usual confidence.
_EACH: Final = bonferroni(CONFIDENCE, 2)


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study, seen in one layout of its tensors."""

    layout: Layout = "contiguous"

    def in_layout(self, layout: Layout) -> Run:
        """The same record seen in another layout of its tensors."""
        return replace(self, layout=layout)

    def factors(self, batch: int, pass_: Pass) -> dict[str, Factor]:
        """The factors of a case of the layer."""
        return {"subject": "layer", "batch": batch, "pass": pass_, "layout": self.layout}

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of the run in ascending order, also of cases that failed."""
        return tuple(map(int, self.levels("batch", subject="layer", layout=self.layout)))

    def raw(self, quantity: str, batch: int, pass_: Pass) -> tuple[Sample, ...] | Missing:
        """The raw samples of a quantity, or why there are none."""
        return self.samples(quantity, self.factors(batch, pass_))

    def time(self, batch: int, pass_: Pass) -> Estimate | Missing:
        """Median duration of one call in seconds, with its interval."""
        return self.median("time", self.factors(batch, pass_))

    def rate(self, batch: int, pass_: Pass) -> Estimate | Missing:
        """Achieved FLOP/s: the theoretical work of one call over its median duration."""
        found = self.raw("time", batch, pass_)
        return found if isinstance(found, Missing) else rate(operations(batch, pass_), found)

    def efficiency(self, batch: int, pass_: Pass) -> Estimate | Missing:
        """Achieved rate over the measured ceiling of the matrix product (a ratio)."""
        found, ceiling = self.raw("time", batch, pass_), self.ceiling("matrix_product", _EACH)
        if isinstance(found, Missing):
            return found
        if isinstance(ceiling, Missing):
            return ceiling
        return rate_over(rate(operations(batch, pass_), found, _EACH), ceiling)

    def constant(self, quantity: str, batch: int, pass_: Pass) -> int | Missing:
        """A quantity that must be the same in every repetition, such as allocated bytes."""
        return self.fixed(quantity, self.factors(batch, pass_))

    def held(self, batch: int, pass_: Pass = "forward") -> int | Missing:
        """Bytes that the call left allocated: after minus before."""
        factors = self.factors(batch, pass_)
        return self.grown("allocated_after", factors, since="allocated_before")

    def peak(self, batch: int, pass_: Pass = "forward") -> int | Missing:
        """Most bytes allocated during the call beyond those allocated before it."""
        factors = self.factors(batch, pass_)
        return self.grown("allocated_peak", factors, since="allocated_before")

    def reserved(self, batch: int, pass_: Pass = "forward") -> int | Missing:
        """Bytes that the allocator took from the device during the call (CUDA only)."""
        factors = self.factors(batch, pass_)
        return self.grown("reserved_after", factors, since="reserved_before")

    def measured_batches(self, pass_: Pass) -> tuple[int, ...]:
        """The batch sizes whose calls were timed."""
        return tuple(b for b in self.batches if not isinstance(self.time(b, pass_), Missing))

    def sample_counts(self) -> tuple[int, ...]:
        """How many samples of time each timed case has."""
        found = (self.raw("time", batch, pass_) for batch in self.batches for pass_ in PASSES)
        return tuple(len(samples) for samples in found if not isinstance(samples, Missing))

    def image_bound(self, pass_: Pass) -> float | Missing:
        """Seconds that an image's theoretical work takes at the measured ceiling."""
        ceiling = self.ceiling("matrix_product")
        return ceiling if isinstance(ceiling, Missing) else operations(1, pass_) / ceiling.value

    def time_fit(self, pass_: Pass) -> LinearFit | Missing:
        """The line of the median time (s) over the batch size, of constant relative error."""
        batches = self.measured_batches(pass_)
        times = [known(self.time(batch, pass_)).value for batch in batches]
        return fitted(batches, times, relative=True, label=self.label)

    def held_fit(self) -> LinearFit | Missing:
        """The line of the bytes held after the forward call over the batch size."""
        return self._byte_fit({b: self.held(b) for b in self.batches})

    def peak_fit(self) -> LinearFit | Missing:
        """The line of the forward call's peak bytes over the batch size."""
        return self._byte_fit({b: self.peak(b) for b in self.batches})

    def _byte_fit(self, sizes: dict[int, int | Missing]) -> LinearFit | Missing:
        present = {b: size for b, size in sizes.items() if not isinstance(size, Missing)}
        return fitted(tuple(present), list(present.values()), relative=False, label=self.label)


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))


def primary_run(all_runs: Sequence[Run]) -> Run | None:
    """The run that the prose speaks of: the newest on a CPU whose forward calls were timed.

    Without one it is the newest timed run on a GPU, or else the newest of all.
    """
    timed = [run for run in all_runs if run.measured_batches("forward")]
    on_cpu = [run for run in timed if not run.on_gpu]
    return next(iter((*on_cpu, *timed, *all_runs)), None)
