"""The calls of the deepest network by batch size, as ``report.paper.policies`` looks at them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from report.missing import Missing
from report.paper.policies import compared, mapping_batches
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.records.record import Policy
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.sweeps import resnets, sweep

#: A ratio of times below this is remarked on where nothing explains it.
FASTER: Final = 0.9


@dataclass(frozen=True)
class Sweep:
    """The plain calls of a network by batch size."""

    run: Run
    network: str

    @property
    def label(self) -> str:
        """The device as a reader names it."""
        return self.run.label

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that were measured."""
        return self.run.policies

    @property
    def timed(self) -> tuple[int, ...]:
        """The batch sizes that were timed."""
        return tuple(call.batch for call in self.run.timed(sweep(self.run, self.network)))

    def under(self, policy: Policy) -> Sweep:
        """The same calls under another policy."""
        return replace(self, run=self.run.under(policy))

    def time(self, batch: int) -> Quantity:
        """Duration of a call (s)."""
        return self.run.time(self._call(batch))

    def faults(self, batch: int) -> Quantity:
        """Pages that a call maps anew."""
        return self.run.count("page_faults", self._call(batch))

    def _call(self, batch: int) -> Call:
        return next(call for call in sweep(self.run, self.network) if call.batch == batch)

    def peak_rate(self, operation: str) -> Quantity:
        """A measured ceiling."""
        return self.run.peak_rate(operation)


def deepest(run: Run | None) -> Sweep | None:
    """The deepest ResNet, where more than one policy was measured."""
    names = resnets(run) if run is not None else ()
    found = Sweep(run, names[-1]) if run is not None and names else None
    return found if compared(found) else None


def faster_returned(run: Run) -> list[int]:
    """The batch sizes that are faster with memory returned although they map no page then."""
    found = deepest(run)
    if found is None:
        return []
    ratios = {
        batch: point(found.under("default").time(batch) / found.under("retained").time(batch))
        for batch in found.timed
        if batch not in mapping_batches(found)
    }
    return [
        batch
        for batch, ratio in ratios.items()
        if not isinstance(ratio, Missing) and ratio < FASTER
    ]
