"""Measurements of one run: training steps, whole, layer by layer and on loaded images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, median
from typing import Final, NamedTuple

from report.core.missing import Missing
from report.core.records.layers import Convolution, Layer
from report.core.records.record import Case, Level
from report.evidence import runs as any_study
from report.evidence.runs import described
from report.quantity.evaluation import estimate, to_digits
from report.quantity.expression import Quantity, absent, exact
from report.studies.training_roofline import theory
from report.studies.training_roofline.theory import (
    HEAVY,
    IMAGE,
    NETWORKS,
    Step,
    TrainingPrecision,
    step_of,
)
from report.theory.roofline import Load, Roof, training_loads

DEPTHWISE: Final = "depthwise"


class Timed(NamedTuple):
    """A layer of a step that was timed: its kind, work and least traffic, and time (s)."""

    kind: str
    load: Load
    time: float


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def _factors(self) -> dict[Step, dict[str, Level]]:
        """The factors of each step as the record names them."""
        cases = (c for c in self.stored.record.cases if c.factors.get("subject") == "training")
        return {step: dict(case.factors) for case in cases if (step := step_of(case))}

    def _of(self, step: Step) -> dict[str, Level]:
        return self._factors.get(step, {"subject": "training", **step._asdict()})

    def peak(
        self,
        size: str = "allocated",
        network: str = HEAVY,
        batch: int = theory.SOURCE_BATCH,
        precision: TrainingPrecision = "tfloat32",
    ) -> Quantity:
        """Peak (B) of a training step, by ``size`` ``allocated`` or ``reserved``."""
        return self.repeated(f"{size}_peak", self._of(Step(network, IMAGE, batch, precision)))

    @property
    def model(self) -> str:
        """The model of the GPU without its maker, as data sheets name it; empty for a CPU."""
        gpu = self.stored.record.environment.gpu
        return gpu.model.removeprefix("NVIDIA ") if gpu else ""

    def step(
        self,
        network: str,
        batch: int = theory.SOURCE_BATCH,
        precision: TrainingPrecision = "float32",
        quantity: str = "time",
    ) -> Quantity:
        """A quantity of a training step, its time (s) by default."""
        return self.series(quantity, self._of(Step(network, IMAGE, batch, precision)))

    def narrow_gain(self, network: str, precision: TrainingPrecision) -> Quantity:
        """Divide the time of a step in ``precision`` by that in bfloat16."""
        narrow = self.step(network, precision="bfloat16")
        return to_digits(self.step(network, precision=precision) / narrow, 3)

    # ------------------------------------------------------------------------ loaded images

    def loaded_step(
        self,
        network: str = "none",
        files: str = "none",
        statistic: Callable[[Sequence[float]], float] = fmean,
        unit: str = "s",
    ) -> Quantity:
        """Average the time (s) of steps on images of ``files`` or in memory, or of the loader.

        Another ``statistic`` of a process's steps, in ``unit``, replaces their mean.
        """
        factors: dict[str, Level] = {"network": network, "files": files}
        factors |= {"image": theory.LOADED_IMAGE, "batch": theory.LOADED_BATCH}
        processes = self.by_process("time", {"subject": "loading", **factors})
        name = described("mean step" if unit == "s" else "mean over total rate", factors)
        if isinstance(processes, Missing):
            return absent(name, unit, processes.reason)
        single = [replace(p, samples=(statistic(p.samples),)) for p in processes]
        return self.of_processes(name, unit, single)

    def overstated(self, network: str, files: str) -> Quantity:
        """Divide the mean of the throughputs of steps by their total throughput, less 1."""
        return self.loaded_step(network, files, statistic=mean_over_total, unit="1") - 1

    def bunched(self, network: str, files: str) -> tuple[Quantity, Quantity]:
        """Predict the mean time (s) of a step on loaded images and its overstatement."""
        return theory.bunched(self.loaded_step(files=files), self.loaded_step(network))

    # -------------------------------------------------------------------------------- layers

    @cached_property
    def roof(self) -> Roof | Missing:
        """The measured roof in float32, to draw."""
        peak, bandwidth = (estimate(self.peak_rate(name)) for name in ("matrix_product", "copy"))
        if isinstance(peak, Missing):
            return peak
        return bandwidth if isinstance(bandwidth, Missing) else Roof(peak, bandwidth)

    @cached_property
    def profiles(self) -> dict[str, tuple[Timed, ...]]:
        """Layers of float32 steps that were timed layer by layer, by network."""
        layers = {}
        for case in self.stored.record.cases:
            if case.factors.get("subject") == "profile" and case.status == "ok":
                step = step_of(case)
                if step and step[3:] == ("float32", "contiguous"):
                    layers[step.network] = self._timed(case)
        return {network: layers[network] for network in NETWORKS if layers.get(network)}

    def _timed(self, case: Case) -> tuple[Timed, ...]:
        """Time layers by the median over processes of their medians; none without whole data."""
        count, by_process = len(case.layers), []
        for _, pooled in self.in_each_run(case.factors):
            for process in pooled.rounds_under(self.policy):
                times = (process.samples(f"layer_{d}_time") for d in ("forward", "backward"))
                sums = [float(f) + float(b) for f, b in zip(*times, strict=False)]
                if sums and len(sums) == count * len(process.samples("time")):
                    by_process.append([median(sums[i::count]) for i in range(count)])
        if not by_process:
            return ()
        medians = map(median, zip(*by_process, strict=True))
        layers = zip(case.layers, training_loads(case.layers), medians, strict=False)
        return tuple(Timed(kind_of(layer), *rest) for layer, *rest in layers)

    def share(self, network: str, kind: str, *, of_memory: bool = False) -> Quantity:
        """Divide the rate of a network's layers of one kind by the arithmetic or memory ceiling."""
        name = f"median rate of {kind} layers of {network}"
        layers = [layer for layer in self.profiles.get(network, ()) if layer.kind == kind]
        if not layers:
            return absent(name, "1", f"not timed on {self.label}")
        amount = sum(layer.load.bytes if of_memory else layer.load.flops for layer in layers)
        unit, ceiling = ("B/s", "copy") if of_memory else ("FLOP/s", "matrix_product")
        rate = exact(name, unit, amount / sum(layer.time for layer in layers), self.file)
        return rate / self.peak_rate(ceiling)


def mean_over_total(times: Sequence[float]) -> float:
    """Divide the mean throughput of steps of these durations by their total throughput."""
    return fmean(1 / time for time in times) * fmean(times)


def kind_of(layer: Layer) -> str:
    """Name the kind of a layer with multiply-adds: linear, depthwise, or its kernel's size."""
    if not isinstance(layer, Convolution):
        return "linear"
    if layer.groups > 1 and layer.groups == layer.input_shape[1]:
        return DEPTHWISE
    return " × ".join(map(str, layer.kernel))
