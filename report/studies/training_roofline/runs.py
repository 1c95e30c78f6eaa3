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
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, absent, exact, measured
from report.quantity.process import Process
from report.records.layers import Layer
from report.records.record import Case, Factor, Round
from report.records.store import Stored
from report.studies.training_roofline.subject import IMAGE, NETWORKS, Precision, Step, step_of
from report.theory.roofline import (
    Load,
    Roof,
    class_order,
    operator_class,
    total,
    training_loads,
)

#: The layers that make no multiply-adds.
WITHOUT: Final = "without products"
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
            if (step := step_of(case)) and step[3:] == ("float32", "contiguous")
        )
        made = {profile.step.network: profile for profile in found if profile}
        return {network: made[network] for network in NETWORKS if network in made}

    def profile(self, network: str) -> Profile:
        """The profiled step of a network; one without processes where it was not profiled."""
        return self.profiles.get(network) or Profile(self, Step(network, IMAGE, 1), (), (), ())

    def of_roof(self, network: str) -> Quantity:
        """The least time of the profiled step, layer by layer, over its time."""
        profile, roof = self.profile(network), self.roof
        if isinstance(roof, Missing):
            return absent("roof", "1", roof.reason)
        peak, bandwidth = roof.peak.value, roof.bandwidth.value
        loads = (each.load for each in profile.layers)
        seconds = sum(max(e.flops / peak, e.bytes / bandwidth) for e in loads)
        return exact(f"least time of {network}", "s", seconds) / profile.time


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

    ``processes`` are the file and the number of each process, and whether it was disturbed.
    """

    run: Run
    step: Step
    layers: tuple[LayerTime, ...]
    whole: Samples
    processes: tuple[tuple[str, int, bool], ...]

    def series(self, name: str, unit: str, samples: Samples) -> Quantity:
        """A number of each profiled step, process by process; its name tells one from another."""
        found = [
            Process(file, str(number), each, disturbed)
            for (file, number, disturbed), each in zip(self.processes, samples, strict=True)
        ]
        device = self.run.stored.record.environment.device
        files = tuple(dict.fromkeys(file for file, *_ in self.processes))
        others = tuple(file for file in files if file != self.run.file)
        return measured(
            f"{name} of {self.step.network}", unit, found, self.run.file, device, others
        )

    @property
    def time(self) -> Quantity:
        """The time of a step (s)."""
        return self.series("profiled step", "s", self.whole)

    def part(self, kind: str) -> Part:
        """The layers of an operator class, or all those without products."""
        if kind == WITHOUT:
            found = [each for each in self.layers if not each.load.flops]
        else:
            found = [each for each in self.layers if operator_class(each.layer) == kind]
        return Part(self, kind, tuple(found))

    @property
    def parts(self) -> tuple[Part, ...]:
        """All of them, class by class."""
        kinds = sorted({operator_class(each.layer) for each in self.layers}, key=class_order)
        return tuple(map(self.part, kinds))


class Part(NamedTuple):
    """Some layers of a profiled step, under the ``name`` of what they have in common."""

    profile: Profile
    name: str
    layers: tuple[LayerTime, ...]

    @property
    def share(self) -> Quantity:
        """Their share of the layers' time."""
        whole = self.profile.whole
        some, every = _sums(self.layers, whole), _sums(self.profile.layers, whole)
        parts = tuple(
            tuple(a / b for a, b in zip(ones, others, strict=True))
            for ones, others in zip(some, every, strict=True)
        )
        return self.profile.series(f"share of time, {self.name}", "1", parts)

    @property
    def time(self) -> Quantity:
        """Their time in a step (s)."""
        samples = _sums(self.layers, self.profile.whole)
        return self.profile.series(f"time, {self.name}", "s", samples)

    @property
    def load(self) -> Load:
        """Their work and least traffic."""
        return total(each.load for each in self.layers)

    @property
    def of_arithmetic(self) -> Quantity:
        """Their rate over the ceiling of arithmetic."""
        return exact("work", "FLOP", self.load.flops) / self.time / self.profile.run.peak()

    @property
    def of_memory(self) -> Quantity:
        """Their least traffic a second over the memory ceiling."""
        moved = exact("least traffic", "B", self.load.bytes)
        return moved / self.time / self.profile.run.peak_rate("copy")


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
    who = tuple((file, *_named(each)) for file, each in found)
    return Profile(run, step, kept, whole, who)


def _named(found: Round | Case) -> tuple[int, bool]:
    """The number of a process, and whether something disturbed it."""
    if isinstance(found, Case):
        return 0, False
    return found.process, found.disturbance is not None


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
