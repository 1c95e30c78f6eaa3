"""What one run measured of training steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from report.evidence import runs as any_study
from report.evidence.runs import labels
from report.quantity.expression import Quantity
from report.records.record import Factor
from report.records.store import Stored
from report.studies.training_roofline.subject import Step, step_of


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def _factors(self) -> dict[Step, dict[str, Factor]]:
        """The factors of each step as the record names them."""
        cases = (c for c in self.stored.record.cases if c.factors.get("subject") == "training")
        return {step: dict(case.factors) for case in cases if (step := step_of(case))}

    def batches(self, network: str, image: int) -> tuple[int, ...]:
        """The batch sizes at which a network was trained in float32, in ascending order."""
        found = {s.batch for s in self._factors if s == Step(network, image, s.batch)}
        return tuple(sorted(found))

    def _of(self, step: Step) -> dict[str, Factor]:
        return self._factors.get(step, {"subject": "training", **step._asdict()})

    def bytes(self, quantity: str, step: Step) -> Quantity:
        """A size that the allocator reported of a step (B), such as ``reserved_peak``."""
        return self.repeated(quantity, self._of(step))


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first, under the memory policy that each is about."""
    made: Callable[[Stored, str], Run] = Run
    found = map(made, records, labels(records))
    return tuple(run.under(run.policies[0]) if run.policies else run for run in found)
