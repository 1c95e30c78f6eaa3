"""The calls of the deepest network by batch size, as ``report.paper.policies`` looks at them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from report.paper.policies import compared
from report.quantity.expression import Quantity
from report.records.record import Policy
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call
from report.studies.inference_memory.sweeps import resnets, sweep


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
