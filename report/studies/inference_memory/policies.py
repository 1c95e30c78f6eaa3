"""What the C library's memory policy does to the calls of one network over the batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from report.paper.findings import Figure
from report.paper.plots import every_other
from report.paper.policies import by_policy, compared, gain, lost, mapping_time
from report.quantity.expression import Quantity, absent, exact
from report.records.record import Policy
from report.studies.inference_memory.batches import resnets, sweep
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import Call


@dataclass(frozen=True)
class Sweep:
    """The plain calls of a network by batch size, as ``report.paper.policies`` looks at them."""

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
        return tuple(self._calls)

    @property
    def _calls(self) -> dict[int, Call]:
        return {call.batch: call for call in self.run.timed(sweep(self.run, self.network))}

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


def figures(run: Run) -> Iterator[Figure]:
    """Time and page faults of the deepest ResNet over the batch size, by policy."""
    found = deepest(run)
    if found is not None:
        drawing = by_policy(found, every_other(found.timed), "ms")
        yield Figure("fig-policies", "", "", drawing, (run.file,))


def _of_deepest(get: Callable[[Sweep], Quantity]) -> Callable[[Run], Quantity]:
    def value(run: Run) -> Quantity:
        found = deepest(run)
        nothing = absent("memory policy", "1", f"one memory policy was measured on {run.label}")
        return nothing if found is None else get(found)

    return value


#: The numbers of the prose.
VALUES: Final[dict[str, Callable[[Run], Quantity]]] = {
    "policy_gain": _of_deepest(gain),
    "policy_batch": _of_deepest(
        lambda found: exact("largest timed batch", "1", found.timed[-1], found.run.file)
    ),
    "policy_lost": _of_deepest(lambda found: lost(found, found.timed[-1])),
    "mapping_time": _of_deepest(
        lambda found: mapping_time(found.under("default"), found.timed[-1])
    ),
}
