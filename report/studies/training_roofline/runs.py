"""What one run measured of training steps, whole and layer by layer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from report.evidence import runs as any_study
from report.evidence.runs import labels
from report.missing import Missing
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, exact, measured
from report.quantity.process import Process
from report.records.record import Case, Factor, Round
from report.records.store import Stored
from report.studies.training_roofline.subject import NETWORKS, Precision, Step, step_of
from report.theory.roofline import Load, Roof, operator_class, training_loads


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

    def peak(self, precision: Precision = "float32") -> Quantity:
        """The measured ceiling of arithmetic (FLOP/s)."""
        return self.peak_rate("matrix_product", "", precision)

    @cached_property
    def roof(self) -> Roof | Missing:
        """The measured roof in float32, to draw."""
        peak, bandwidth = estimate(self.peak()), estimate(self.peak_rate("copy"))
        if isinstance(peak, Missing):
            return peak
        return bandwidth if isinstance(bandwidth, Missing) else Roof(peak, bandwidth)

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """The steps in float32 that were timed layer by layer, by network."""
        found = (
            (step, case)
            for case in self.stored.record.cases
            if case.factors.get("subject") == "profile" and case.status == "ok"
            if (step := step_of(case)) and step[3:] == ("float32", "contiguous")
        )
        made = {step.network: Profile(self, step, case) for step, case in found}
        return {n: made[n] for n in NETWORKS if n in made and made[n].processes}


class Profiled(NamedTuple):
    """What one process profiled: the times (s) of each layer in each step."""

    file: str
    number: int
    disturbed: bool
    layers: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Profile:
    """A step that was timed layer by layer, forward and backward."""

    run: Run
    step: Step
    case: Case

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Work and least traffic of each layer."""
        return training_loads(self.case.layers)

    @cached_property
    def processes(self) -> tuple[Profiled, ...]:
        """What each process of all pooled runs measured, unless a series lacks."""
        found = (
            _profiled(file, each, len(self.case.layers))
            for file, pooled in self.run.in_each_run(self.case.factors)
            for each in pooled.rounds_under(self.run.policy)
        )
        return tuple(filter(None, found))

    def layer_time(self, place: int) -> float:
        """The median over processes of a layer's medians (s)."""
        medians = (statistics.median(s[place] for s in p.layers) for p in self.processes)
        return statistics.median(medians)

    def of_memory(self, kind: str) -> Quantity:
        """The least traffic a second of the layers of an operator class over the ceiling."""
        run, layers = self.run, self.case.layers
        places = [i for i, layer in enumerate(layers) if operator_class(layer) == kind]
        found = []
        for p in self.processes:
            times = tuple(sum(step[i] for i in places) for step in p.layers)
            found.append(Process(p.file, str(p.number), times, p.disturbed))
        others = dict.fromkeys(p.file for p in self.processes if p.file != run.file)
        name, device = f"time, {kind}s of {self.step.network}", run.stored.record.environment.device
        time = measured(name, "s", found, run.file, device, tuple(others))
        moved = exact("least traffic", "B", sum(self.loads[i].bytes for i in places))
        return moved / time / run.peak_rate("copy")


def _profiled(file: str, found: Round, count: int) -> Profiled | None:
    """What a process measured of ``count`` layers; None where a series lacks, or is of no use."""
    steps = len(found.samples("time"))
    forward, backward = (found.samples(f"layer_{way}_time") for way in ("forward", "backward"))
    if not steps or not len(forward) == len(backward) == count * steps:
        return None
    sums = [float(f) + float(b) for f, b in zip(forward, backward, strict=True)]
    layers = [sums[start : start + count] for start in range(0, len(sums), count)]
    return Profiled(file, found.process, found.disturbance is not None, layers)


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first, under the memory policy that each is about."""
    made: Callable[[Stored, str], Run] = Run
    found = map(made, records, labels(records))
    return tuple(run.under(run.policies[0]) if run.policies else run for run in found)
