"""Steps watched layer by layer: where time goes, and which ceiling each layer is near."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

from report.missing import Missing
from report.quantity.evaluation import estimate, point, to_digits
from report.quantity.expression import Quantity, Sampled, absent, exact, measured
from report.quantity.operations import spanning
from report.quantity.process import Process
from report.records.layers import Layer
from report.records.record import Case, Round
from report.studies.training_roofline.declared import fixed
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.subject import ELEMENTS, NETWORKS, Step, step_of
from report.theory.roofline import (
    Load,
    Roof,
    class_order,
    in_type,
    operator_class,
    total,
    training_loads,
)

#: Nearer than this share to a ceiling a layer is called limited by it.
NEAR: Final = 0.5
#: That and other thresholds, to see how much hangs on it.
THRESHOLDS: Final = (0.3, NEAR, 0.7)
#: A step that takes more than this many times as long when it is watched spends its time on being
#: watched, so that the times of its layers are not those of the step.
DISTURBED: Final = 1.2
#: A number a step, process by process.
Samples: TypeAlias = tuple[tuple[float, ...], ...]
Side: TypeAlias = Literal["arithmetic", "traffic", "neither"]
_NEAR_NAMES: Final[dict[Side, str]] = {
    "arithmetic": "share of time near the ceiling of arithmetic",
    "traffic": "share of time near the memory ceiling",
    "neither": "share of time near neither ceiling",
}


@dataclass(frozen=True)
class LayerTime:
    """One layer in the watched steps: work, least traffic, forward and backward time in s.

    ``processes`` are the times in each of the steps, in order, process by process.
    """

    layer: Layer
    processes: tuple[tuple[float, ...], ...]
    load: Load

    @cached_property
    def time(self) -> float:
        """The median over the processes' medians (s)."""
        return statistics.median(map(statistics.median, self.processes))

    @property
    def kind(self) -> str:
        """The operator class."""
        return operator_class(self.layer)

    @property
    def rate(self) -> float:
        """FLOP/s over forward and backward."""
        return self.load.flops / self.time

    def shares(self, roof: Roof, seconds: float) -> tuple[float, float]:
        """Work over the peak, and least traffic over the bandwidth, in a time of the layer (s)."""
        return (
            self.load.flops / seconds / roof.peak.value,
            self.load.bytes / seconds / roof.bandwidth.value,
        )

    def side(self, roof: Roof, seconds: float, least: float = NEAR) -> Side:
        """Which ceiling the layer reaches ``least`` of in such a time (s); neither, if none."""
        arithmetic, traffic = self.shares(roof, seconds) if seconds else (0.0, 0.0)
        if max(arithmetic, traffic) < least:
            return "neither"
        return "arithmetic" if arithmetic > traffic else "traffic"


@dataclass(frozen=True)
class Profile:
    """A step that was watched layer by layer on one device.

    ``whole`` are the times of the steps in s and ``faults`` the page faults in them, process by
    process; ``files`` are the runs of the processes, and ``disturbances`` say of each process
    whether something else ran meanwhile.
    """

    run: Run
    step: Step
    layers: tuple[LayerTime, ...]
    whole: Samples
    faults: Samples
    files: tuple[str, ...]
    disturbances: tuple[bool, ...]

    @property
    def roof(self) -> Roof | Missing:
        """The measured roof in the step's precision."""
        return self.run.roof(self.step.precision)

    @property
    def slower_roof(self) -> Roof | Missing:
        """The same with the worse of both copies."""
        roof, copy = self.roof, estimate(self.run.slower_copy())
        if isinstance(roof, Missing):
            return roof
        return copy if isinstance(copy, Missing) else replace(roof, bandwidth=copy)

    def watched(self, name: str, unit: str, samples: Samples) -> Quantity:
        """A number of each watched step, process by process, as a series."""
        run, who = self.run, f"watched {self.step.network}"
        by_process = zip(self.files, samples, self.disturbances, strict=True)
        processes = [
            Process(file, f"{who}, {number}", found, disturbed)
            for number, (file, found, disturbed) in enumerate(by_process, 1)
        ]
        device, further = run.stored.record.environment.device, dict.fromkeys(self.files)
        others = tuple(file for file in further if file != run.file)
        return measured(name, unit, processes, run.file, device, others)

    def share(self, of: Callable[[LayerTime], bool], name: str) -> Quantity:
        """The share of the layers' time in some of them: a number of each watched step.

        Absent where watching slowed the step too much.
        """
        if self.disturbed is not None:
            return absent(name, "1", self.disturbed.reason)
        chosen = [item for item in self.layers if of(item)]
        return self.watched(name, "1", _quotients(_step_sums(chosen, self.whole), self._inside))

    @property
    def inside(self) -> Quantity:
        """The share of the watched step that its layers account for."""
        parts = _quotients(self._inside, self.whole)
        return self.watched("share of the step in layers", "1", parts)

    @cached_property
    def _inside(self) -> Samples:
        return _step_sums(self.layers, self.whole)

    def side_share(self, side: Side, least: float = NEAR) -> Quantity:
        """The share of the layers' time in layers that reach ``least`` of one ceiling, or of none.

        Each step decides anew on which side a layer lies: by the time that it took in that step.
        """
        return self._side_share(side, self.roof, _NEAR_NAMES[side], least)

    def possible_shares(self, side: Side) -> Quantity:
        """The share under both copies, for a verdict: which of them is the ceiling is not known."""
        share, name = self.side_share(side), _NEAR_NAMES[side]
        return spanning(share, self._side_share(side, self.slower_roof, f"{name}, slower copy"))

    def _side_share(
        self, side: Side, roof: Roof | Missing, name: str, least: float = NEAR
    ) -> Quantity:
        if isinstance(roof, Missing):
            return absent(name, "1", roof.reason)
        if self.disturbed is not None:
            return absent(name, "1", self.disturbed.reason)
        near = tuple(
            tuple(
                sum(
                    seconds
                    for item in self.layers
                    if item.side(roof, seconds := item.processes[process][step], least) == side
                )
                for step in range(len(steps))
            )
            for process, steps in enumerate(self.whole)
        )
        return self.watched(name, "1", _quotients(near, self._inside))

    def below_ridge(self) -> Quantity:
        """The share of the layers' time in layers that theory puts below the ridge point."""
        roof, name = self.roof, "share of time below the ridge"
        if isinstance(roof, Missing):
            return absent(name, "1", roof.reason)
        ridge = roof.ridge.value
        return self.share(lambda item: item.load.intensity < ridge, name)

    @property
    def seconds(self) -> Quantity:
        """The time (s) of a watched step."""
        return self.watched("time of a watched step", "s", self.whole)

    def slowdown(self) -> Quantity:
        """The watched step over the same step unwatched."""
        # A profile's step has the default execution and optimiser.
        return self.seconds / self.run.time(self.step)

    @cached_property
    def disturbed(self) -> Missing | None:
        """Why the times of the layers say nothing of the unwatched step, if they do not."""
        times = point(self.slowdown())
        if isinstance(times, Missing) or times <= DISTURBED:
            return None
        return Missing(
            f"watched, the step takes {times:.2f} times as long as unwatched, so that the shares "
            "of its layers do not hold"
        )

    def layer_seconds(self, items: Sequence[LayerTime]) -> Quantity:
        """The time (s) of some layers in each watched step."""
        if self.disturbed is not None:
            return absent("time of layers", "s", self.disturbed.reason)
        return self.watched("time", "s", _step_sums(items, self.whole))

    def rate(self, items: Sequence[LayerTime]) -> Quantity:
        """FLOP/s of some layers together, by the work of theory."""
        work = total(item.load for item in items).flops
        return exact("work", "FLOP", work) / self.layer_seconds(items)

    def arithmetic_share(self, items: Sequence[LayerTime]) -> Quantity:
        """The rate of some layers together over the measured peak."""
        return self.rate(items) / self.run.peak(self.step.precision)

    def bandwidth_share(self, items: Sequence[LayerTime]) -> Quantity:
        """The least traffic of some layers over their time, as a share of the measured copy."""
        traffic = total(item.load for item in items).bytes
        rate = exact("least traffic", "B", traffic) / self.layer_seconds(items)
        return rate / self.run.copy()

    def above_peak(self) -> tuple[LayerTime, ...]:
        """The layers whose rate, by the work of theory, is above the measured peak."""
        roof = self.roof
        if isinstance(roof, Missing) or self.disturbed is not None:
            return ()
        return tuple(item for item in self.layers if item.rate > roof.peak.high)

    def above_memory(self) -> tuple[LayerTime, ...]:
        """The layers above memory's slope and below the flat roof, which a cache must have fed.

        They are those that a roof of memory alone would show to be faster than is possible.
        """
        roof = self.roof
        if isinstance(roof, Missing) or self.disturbed is not None:
            return ()
        slope = roof.bandwidth.high
        over = (i for i in self.layers if i.load.flops and i.rate > i.load.intensity * slope)
        return tuple(item for item in over if item.rate <= roof.peak.high)

    def above_caches(self) -> tuple[LayerTime, ...]:
        """Those of them above the slope of every cache that was measured too."""
        fastest = max((each.high for each in self.run.cache_roofs().values()), default=0.0)
        return tuple(i for i in self.above_memory() if i.rate > i.load.intensity * fastest)

    def by_class(self) -> dict[str, tuple[LayerTime, ...]]:
        """The layers by operator class, in the order of the classes."""
        kinds = sorted({item.kind for item in self.layers}, key=class_order)
        return {k: tuple(item for item in self.layers if item.kind == k) for k in kinds}

    def convolutions(self) -> Quantity:
        """The share of the layers' time in convolutions of every kind."""
        name = "share of time in convolutions"
        return self.share(lambda item: item.kind.endswith("convolution"), name)


def _step_sums(layers: Iterable[LayerTime], whole: Samples) -> Samples:
    """The time of some layers in each step, in s, for the processes and steps of ``whole``."""
    found = [item.processes for item in layers]
    return tuple(
        tuple(sum(times[process][step] for times in found) for step in range(len(steps)))
        for process, steps in enumerate(whole)
    )


def _quotients(above: Samples, below: Samples) -> Samples:
    """Step by step."""
    return tuple(
        tuple(a / b for a, b in zip(ones, others, strict=True))
        for ones, others in zip(above, below, strict=True)
    )


def profiles(run: Run) -> tuple[Profile, ...]:
    """All watched steps of a run: by network, float32 before other precisions."""
    found = [made for case in run.profiles if (made := _profile(run, case)) is not None]
    return tuple(
        sorted(found, key=lambda p: (NETWORKS.index(p.step.network), p.step.precision != "float32"))
    )


def main_profiles(run: Run) -> tuple[Profile, ...]:
    """The watched steps in float32, one a network."""
    return tuple(p for p in profiles(run) if p.step.precision == "float32")


def _profile(run: Run, case: Case) -> Profile | None:
    step, count = step_of(case), len(case.layers)
    processes = list(_processes(run, case))
    files, found = (tuple(each) for each in zip(*processes, strict=True)) if processes else ((), ())
    sums = [_by_step(each, count) for each in found]
    whole = tuple(tuple(each.samples("time")) for each in found)
    # Times of 0 are shorter than the clock can tell.
    if not (sums and all(sums)) or min(map(min, whole)) <= 0:
        return None
    loads = training_loads(in_type(case.layers, ELEMENTS[step.precision]))
    timed = tuple(
        LayerTime(layer, times, load)
        for layer, times, load in zip(case.layers, _by_layer(sums, count), loads, strict=True)
        if any(statistics.median(one) > 0 for one in times)
    )
    disturbed = tuple(isinstance(r, Round) and r.disturbance is not None for r in found)
    faults = tuple(tuple(each.samples("page_faults")) for each in found)
    return Profile(run, step, timed, whole, faults, files, disturbed)


def _processes(run: Run, case: Case) -> Iterator[tuple[str, Round | Case]]:
    """What each process watched, in the run and in those pooled with it, by the file of its run.

    An older record has the series of one process without a round.
    """
    for file, each in run.in_each_run(case.factors):
        if each.rounds:
            yield from ((file, r) for r in each.rounds_under(run.policy) if r.samples("time"))
        else:
            yield file, each


def _by_step(found: Round | Case, count: int) -> Samples:
    """The times (s) of all ``count`` layers in each step of a process; empty if some lack."""
    forward, backward = found.samples("layer_forward_time"), found.samples("layer_backward_time")
    if not forward or not len(forward) == len(backward) == count * len(found.samples("time")):
        return ()
    sums = [f + b for f, b in zip(forward, backward, strict=True)]
    return tuple(tuple(sums[start : start + count]) for start in range(0, len(sums), count))


def _by_layer(processes: Sequence[Samples], count: int) -> tuple[Samples, ...]:
    """The times of each layer, process by process."""
    return tuple(
        tuple(tuple(step[number] for step in steps) for steps in processes)
        for number in range(count)
    )


def end_of_share(
    profile: Profile, side: Side, choose: Callable[..., float], least: float = NEAR
) -> Quantity:
    """The smallest or the largest share of a side over all profiled steps, to two digits."""
    share = profile.side_share(side, least)
    if not isinstance(share, Sampled):
        return share
    samples = [sample for process in share.processes for sample in process.samples]
    name = f"{choose.__name__} of {share.symbol} over the steps"
    return to_digits(fixed(name, choose(samples), "1", *share.sources), 2)
