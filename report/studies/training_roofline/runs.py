"""What one run measured of training steps, whole and layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.core.records.layers import Convolution, Layer
from report.core.records.record import Case, Factor
from report.evidence import runs as any_study
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity, absent, exact
from report.studies.training_roofline.subject import NETWORKS, Step, step_of
from report.theory.roofline import Load, Roof, training_loads

DEPTHWISE: Final = "depthwise"


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def _factors(self) -> dict[Step, dict[str, Factor]]:
        """The factors of each step as the record names them."""
        cases = (c for c in self.stored.record.cases if c.factors.get("subject") == "training")
        return {step: dict(case.factors) for case in cases if (step := step_of(case))}

    def _of(self, step: Step) -> dict[str, Factor]:
        return self._factors.get(step, {"subject": "training", **step._asdict()})

    def bytes(self, quantity: str, step: Step) -> Quantity:
        """A size that the allocator reported of a step (B), such as ``reserved_peak``."""
        return self.repeated(quantity, self._of(step))

    def gained(self, network: str) -> Quantity:
        """A step on small images in float32 over the same in bfloat16, in time."""
        steps = (Step(network, 64, 32, precision) for precision in ("float32", "bfloat16"))
        float32, bfloat16 = (self.series("time", self._of(step)) for step in steps)
        return float32 / bfloat16

    @cached_property
    def roof(self) -> Roof | Missing:
        """The measured roof in float32, to draw."""
        peak, bandwidth = (estimate(self.peak_rate(name)) for name in ("matrix_product", "copy"))
        if isinstance(peak, Missing):
            return peak
        return bandwidth if isinstance(bandwidth, Missing) else Roof(peak, bandwidth)

    @cached_property
    def caches(self) -> dict[str, float]:
        """The best rate (B/s) of copies that a cache holds, by its name; none of L1.

        Copies that L1 holds are so short that the calls bound them.
        """
        host, found, below = self.stored.record.environment.host, {}, 0
        copies = [c for c in self.stored.record.ceilings if c.operation == "copy" and c.samples]
        data = [c for c in (host.caches if host else ()) if c.kind != "instruction"]
        for cache in sorted(data, key=lambda cache: cache.level):
            inside = [c for c in copies if below < (c.working_set or 0) <= cache.size_bytes // 2]
            if inside and cache.level > 1:
                found[f"L{cache.level}"] = max(c.work / min(c.samples) for c in inside)
            below = cache.size_bytes
        return found

    @cached_property
    def profiles(self) -> dict[str, tuple[Timed, ...]]:
        """The layers of a float32 step that was timed layer by layer, by network."""
        found = {step.network: self._timed(case) for step, case in self._profiled.items()}
        return {network: found[network] for network in NETWORKS if found.get(network)}

    @cached_property
    def _profiled(self) -> dict[Step, Case]:
        """The float32 steps that were timed layer by layer."""
        return {
            step: case
            for case in self.stored.record.cases
            if case.factors.get("subject") == "profile" and case.status == "ok"
            if (step := step_of(case)) and step[3:] == ("float32", "contiguous")
        }

    def of_profiles(self, factor: str) -> Quantity:
        """The ``batch`` or ``image`` that all steps share which were timed layer by layer."""
        levels = {getattr(step, factor) for step in self._profiled}
        if len(levels) != 1:
            return absent(factor, "1", f"no one {factor} of all layers on {self.label}")
        return exact(factor, "1", levels.pop(), self.file)

    def _timed(self, case: Case) -> tuple[Timed, ...]:
        """Each layer with the median over processes of its medians; none if no process has all."""
        count, found = len(case.layers), []
        for _, pooled in self.in_each_run(case.factors):
            for each in pooled.rounds_under(self.policy):
                ways = (each.samples(f"layer_{way}_time") for way in ("forward", "backward"))
                sums = [float(f) + float(b) for f, b in zip(*ways, strict=False)]
                if sums and len(sums) == count * len(each.samples("time")):
                    found.append([median(sums[i::count]) for i in range(count)])
        times = map(median, zip(*found, strict=True))
        layers = zip(case.layers, training_loads(case.layers), times, strict=False)
        return tuple(Timed(kind_of(layer), *rest) for layer, *rest in layers) if found else ()

    def share(self, network: str, kind: str, *, of_memory: bool = False) -> Quantity:
        """The rate of a network's layers of a kind over the ceiling of arithmetic, or of memory."""
        name = f"median rate of {kind} layers of {network}"
        layers = [each for each in self.profiles.get(network, ()) if each.kind == kind]
        if not layers:
            return absent(name, "1", f"not timed on {self.label}")
        amount = sum(each.load.bytes if of_memory else each.load.flops for each in layers)
        unit, ceiling = ("B/s", "copy") if of_memory else ("FLOP/s", "matrix_product")
        rate = exact(name, unit, amount / sum(each.time for each in layers), self.file)
        return rate / self.peak_rate(ceiling)


class Timed(NamedTuple):
    """A layer of a step that was timed: its kind, work and least traffic, and time (s)."""

    kind: str
    load: Load
    time: float


def kind_of(layer: Layer) -> str:
    """What a layer with multiply-adds is: linear, depthwise, or the taps of a convolution."""
    if not isinstance(layer, Convolution):
        return "linear"
    if layer.groups > 1 and layer.groups == layer.input_shape[1]:
        return DEPTHWISE
    return " × ".join(map(str, layer.kernel))
