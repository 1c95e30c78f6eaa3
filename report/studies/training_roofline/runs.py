"""Measurements of one run: training steps, whole and on loaded images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from report.core.missing import Missing
from report.core.records.record import Level
from report.evidence import runs as any_study
from report.evidence.runs import described
from report.quantity.expression import Quantity, absent
from report.studies.training_roofline import subject
from report.theory.conditions import Layout


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    def _of(self, step: subject.Step) -> dict[str, Level]:
        """Return the factors of a step as the record names them."""
        for case in self.stored.record.cases:
            if case.factors.get("subject") == "training" and subject.step_of(case) == step:
                return dict(case.factors)
        return {"subject": "training", **step._asdict()}

    def peak(
        self,
        size: str = "allocated",
        network: str = subject.HEAVY,
        batch: int = subject.SOURCE_BATCH,
        precision: subject.TrainingPrecision = "tfloat32",
        layout: Layout = "contiguous",
    ) -> Quantity:
        """Peak (B) of a training step, by ``size`` ``allocated`` or ``reserved``."""
        step = subject.Step(network, subject.IMAGE, batch, precision, layout)
        return self.repeated(f"{size}_peak", self._of(step))

    def step(self, network: str, batch: int) -> Quantity:
        """Time (s) of a training step in float32."""
        return self.series("time", self._of(subject.Step(network, subject.IMAGE, batch)))

    def loaded_step(
        self,
        network: str = "none",
        files: str = "none",
        statistic: Callable[[Sequence[float]], float] = fmean,
        unit: str = "s",
        name: str = "mean step",
    ) -> Quantity:
        """Average the time (s) of steps on images of ``files`` or in memory, or of the loader.

        Another ``statistic`` of a process's steps, ``name`` in ``unit``, replaces their mean.
        """
        size = {"image": subject.LOADED_IMAGE, "batch": subject.LOADED_BATCH}
        factors = {"subject": "loading", "network": network, "files": files}
        processes = self.by_process("time", {**factors, **size})
        name = described(name, {"network": network, "files": files})
        if isinstance(processes, Missing):
            return absent(name, unit, processes.reason)
        single = [replace(p, samples=(statistic(p.samples),)) for p in processes]
        return self.of_processes(name, unit, single)

    def overstated(self, network: str, files: str) -> Quantity:
        """Divide the mean of the throughputs of steps by their total throughput, less 1."""
        name = "mean over total rate"
        return self.loaded_step(network, files, mean_over_total, unit="1", name=name) - 1

    def ready_step(self, network: str, files: str = "none") -> Quantity:
        """Time (s) of a step whose batch is ready, also behind a slower loader."""
        return self.loaded_step(network, files, median_ready, name="median step, batch ready")

    def slowing(self, network: str, files: str) -> Quantity:
        """Return by which share these steps are longer than on images in memory."""
        return self.ready_step(network, files) / self.ready_step(network) - 1


def mean_over_total(times: Sequence[float]) -> float:
    """Divide the mean throughput of steps of these durations by their total throughput."""
    return fmean(1 / time for time in times) * fmean(times)


def median_ready(times: Sequence[float]) -> float:
    """Return the median of steps without the first of every four, which waits for all workers."""
    return median(time for place, time in enumerate(times) if place % subject.WORKERS)
