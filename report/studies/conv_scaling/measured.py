"""What one run measured of the layer, by batch size and pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from report.evidence import runs as any_study
from report.evidence.runs import labels
from report.instruments import gates
from report.missing import Missing
from report.quantity.expression import Quantity, absent, exact, named
from report.records.passes import Pass
from report.records.record import Factor, Sample
from report.records.store import Stored
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.subject import Layout


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

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """The batch sizes whose forward calls were timed."""
        return tuple(batch for batch in self.batches if not self.time(batch).missing)

    @property
    def names_policy(self) -> bool:
        """Whether times can be judged: on a CPU the record must name the C library's policy."""
        return self.on_gpu or bool(self.policies)

    def rounds(self, *, disturbed: bool) -> Quantity:
        """How many measurements of a case were watched in all processes, or disturbed."""
        runs = [alone.stored for alone in self.alone()]
        found = gates.disturbed(stored.record for stored in runs)
        if found is None:
            return absent("measurements", "1", f"not monitored on {self.label}")
        further = tuple(s.file for s in runs if s.file != self.file)
        return exact("measurements", "1", found[0 if disturbed else 1], self.file, further)

    def over(self, get: Callable[[int], Quantity]) -> dict[int, Quantity]:
        """A quantity at every batch size."""
        return {batch: get(batch) for batch in self.batches}

    def time(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Duration of a call (s)."""
        return self.series("time", self.factors(batch, pass_))

    def processes_of(self, batch: int, pass_: Pass = "forward") -> int:
        """How many processes timed a case."""
        found = self.by_process("time", self.factors(batch, pass_))
        return 0 if isinstance(found, Missing) else len(found)

    def faults(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Pages that a call maps anew."""
        return self.series("page_faults", self.factors(batch, pass_))

    def rate(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Achieved rate (FLOP/s): the theoretical work of a call over its time."""
        return theory.work(batch, pass_) / self.time(batch, pass_)

    def share(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """The achieved rate over the measured ceiling of the matrix product."""
        return self.rate(batch, pass_) / self.peak_rate("matrix_product")

    def retained(self, batch: int) -> Quantity:
        """Bytes that the forward call leaves allocated: after less before."""
        return self._grown("retained bytes", "allocated_after", "allocated_before", batch)

    def peak(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Most bytes allocated during the call beyond those allocated before it."""
        return self._grown("peak bytes", "allocated_peak", "allocated_before", batch, pass_)

    def _grown(
        self, name: str, quantity: str, since: str, batch: int, pass_: Pass = "forward"
    ) -> Quantity:
        factors = self.factors(batch, pass_)
        return named(name, self.repeated(quantity, factors) - self.repeated(since, factors))

    def raw(
        self, quantity: str, batch: int, pass_: Pass = "forward"
    ) -> tuple[Sample, ...] | Missing:
        """The raw samples of a quantity, or why there are none."""
        return self.samples(quantity, self.factors(batch, pass_))


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))
