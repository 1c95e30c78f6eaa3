"""What one run measured of training steps, whole and layer by layer."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from report.evidence import runs as any_study
from report.evidence.remembered import remembered
from report.evidence.runs import labels
from report.missing import Missing
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent, exact, measured
from report.quantity.operations import share_of_ceiling
from report.quantity.process import Process
from report.records.layers import Layer
from report.records.record import Case, Factor, Round
from report.records.store import Stored
from report.studies.training_roofline.subject import NETWORKS, Precision, Step, step_of
from report.theory.roofline import (
    Load,
    Roof,
    class_order,
    operator_class,
    total,
    training_loads,
)
from report.theory.work import flops, training_macs

#: Why a rate above its ceiling has no efficiency.
ABOVE: Final = (
    "faster than the measured ceiling: fewer operations ran than theory counts, or an error in one "
    "of the measurements"
)
#: A profiled step that takes more than this many times as long as an unprofiled one spends its time
#: on being profiled, so that the times of its layers are not those of the step.
SLOWED: Final = 1.2
#: A number a step, process by process.
Samples: TypeAlias = tuple[tuple[float, ...], ...]


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

    def smallest_image(self, network: str) -> int:
        """The pixels a side of the images over whose batches a network was trained."""
        return min((s.image for s in self._factors if s.network == network), default=0)

    def _of(self, step: Step) -> dict[str, Factor]:
        return self._factors.get(step, {"subject": "training", **step._asdict()})

    @remembered
    def time(self, step: Step) -> Quantity:
        """Duration of a step (s)."""
        return self.series("time", self._of(step))

    def images(self, step: Step) -> Quantity:
        """Images a second."""
        return exact(f"batch {step.batch}", "1", step.batch) / self.time(step)

    def bytes(self, quantity: str, step: Step) -> Quantity:
        """A size that the allocator reported of a step (B), such as ``reserved_peak``."""
        return self.repeated(quantity, self._of(step))

    def peak(self, precision: Precision = "float32") -> Quantity:
        """The measured ceiling of arithmetic (FLOP/s)."""
        return self.peak_rate("matrix_product", "", precision)

    @remembered
    def efficiency(self, step: Step) -> Quantity:
        """Achieved rate over the measured ceiling of arithmetic in the step's precision."""
        layers = self.layers(self._of(step))
        if isinstance(layers, Missing):
            return absent("work of a step", "1", layers.reason)
        work = exact("work of a step", "FLOP", flops(training_macs(layers)), self.file)
        return share_of_ceiling(work / self.time(step) / self.peak(step.precision), ABOVE)

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
            _profile(self, case, step)
            for case in self.stored.record.cases
            if case.factors.get("subject") == "profile" and case.status == "ok"
            if (step := step_of(case)) and step.precision == "float32"
        )
        made = {profile.step.network: profile for profile in found if profile}
        return {network: made[network] for network in NETWORKS if network in made}


class LayerTime(NamedTuple):
    """A layer in the profiled steps: work, least traffic, forward and backward time (s)."""

    layer: Layer
    load: Load
    seconds: Samples

    @property
    def time(self) -> float:
        """The median over the processes' medians (s)."""
        return statistics.median(map(statistics.median, self.seconds))


@dataclass(frozen=True)
class Profile:
    """A step that was timed layer by layer; ``whole`` are the times of the steps (s).

    ``processes`` name the file of each process, and whether something else ran meanwhile.
    """

    run: Run
    step: Step
    layers: tuple[LayerTime, ...]
    whole: Samples
    processes: tuple[tuple[str, bool], ...]

    def _series(self, name: str, unit: str, samples: Samples) -> Quantity:
        """A number of each profiled step, process by process."""
        found = [
            Process(file, f"profile of {self.step.network}, {place}", each, disturbed)
            for place, ((file, disturbed), each) in enumerate(
                zip(self.processes, samples, strict=True), 1
            )
        ]
        device = self.run.stored.record.environment.device
        files = tuple(dict.fromkeys(file for file, _ in self.processes))
        others = tuple(file for file in files if file != self.run.file)
        return measured(name, unit, found, self.run.file, device, others)

    def classes(self) -> tuple[str, ...]:
        """The operator classes of the layers, in order."""
        return tuple(sorted({operator_class(each.layer) for each in self.layers}, key=class_order))

    def of_class(self, name: str) -> list[LayerTime]:
        """The layers of a class."""
        return [each for each in self.layers if operator_class(each.layer) == name]

    @cached_property
    def slowed(self) -> Missing | None:
        """Why the times of the layers say nothing of the unprofiled step, if they do not."""
        slowdown = self._series("profiled step", "s", self.whole) / self.run.time(self.step)
        times = point(slowdown)
        if isinstance(times, Missing) or times <= SLOWED:
            return None
        return Missing(
            f"profiled, the step takes {times:.2f} times as long, so that the shares of its layers "
            "do not hold"
        )

    def share(self, layers: Sequence[LayerTime], name: str) -> Quantity:
        """The share of the layers' time in some of them."""
        if self.slowed:
            return absent(name, "1", self.slowed.reason)
        some, every = _sums(layers, self.whole), _sums(self.layers, self.whole)
        parts = tuple(
            tuple(a / b for a, b in zip(ones, others, strict=True))
            for ones, others in zip(some, every, strict=True)
        )
        return self._series(name, "1", parts)

    def seconds(self, layers: Sequence[LayerTime]) -> Quantity:
        """The time (s) of some layers in each profiled step."""
        if self.slowed:
            return absent("time of layers", "s", self.slowed.reason)
        return self._series("time of layers", "s", _sums(layers, self.whole))

    def of_arithmetic(self, layers: Sequence[LayerTime]) -> Quantity:
        """The rate of some layers together over the ceiling of arithmetic."""
        work = exact("work", "FLOP", total(each.load for each in layers).flops)
        return work / self.seconds(layers) / self.run.peak()

    def of_memory(self, layers: Sequence[LayerTime]) -> Quantity:
        """The least traffic of some layers a second over the memory ceiling."""
        moved = exact("least traffic", "B", total(each.load for each in layers).bytes)
        return moved / self.seconds(layers) / self.run.peak_rate("copy")


def _sums(layers: Sequence[LayerTime], whole: Samples) -> Samples:
    """The time (s) of some layers in each step, for the processes and steps of ``whole``."""
    return tuple(
        tuple(sum(each.seconds[process][step] for each in layers) for step in range(len(steps)))
        for process, steps in enumerate(whole)
    )


def _profile(run: Run, case: Case, step: Step) -> Profile | None:
    """A profile, unless a series lacks, or a clock stood still."""
    count = len(case.layers)
    found = list(_processes(run, case))
    sums = [_by_step(each, count) for _, each in found]
    whole = tuple(tuple(map(float, each.samples("time"))) for _, each in found)
    if not (sums and all(sums)) or min(map(min, whole)) <= 0:
        return None
    loads = training_loads(case.layers)
    timed = (
        LayerTime(layer, load, tuple(tuple(s[place] for s in steps) for steps in sums))
        for place, (layer, load) in enumerate(zip(case.layers, loads, strict=True))
    )
    # A time of 0 is shorter than the clock can tell.
    kept = tuple(each for each in timed if any(map(any, each.seconds)))
    of = tuple((file, isinstance(e, Round) and e.disturbance is not None) for file, e in found)
    return Profile(run, step, kept, whole, of)


def _processes(run: Run, case: Case) -> Iterator[tuple[str, Round | Case]]:
    """What each process profiled, in all pooled runs; an older record has one without a round."""
    for file, each in run.in_each_run(case.factors):
        if each.rounds:
            yield from ((file, r) for r in each.rounds_under(run.policy) if r.samples("time"))
        else:
            yield file, each


def _by_step(found: Round | Case, count: int) -> Samples:
    """The times (s) of all ``count`` layers in each step of a process; empty if some lack."""
    forward, backward = (found.samples(f"layer_{way}_time") for way in ("forward", "backward"))
    if not forward or not len(forward) == len(backward) == count * len(found.samples("time")):
        return ()
    sums = [float(f) + float(b) for f, b in zip(forward, backward, strict=True)]
    return tuple(tuple(sums[start : start + count]) for start in range(0, len(sums), count))


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first, under the memory policy that each is about."""
    made: Callable[[Stored, str], Run] = Run
    found = map(made, records, labels(records))
    return tuple(run.under(run.policies[0]) if run.policies else run for run in found)
