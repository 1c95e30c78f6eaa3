"""Measurements of one run: training steps on images in memory, and on loaded images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from report.core.missing import Missing
from report.core.records.record import Level
from report.evidence import runs as any_study
from report.evidence.runs import series_name
from report.quantity.expression import Quantity, missing_number
from report.studies.training_roofline import subject
from report.theory.conditions import Layout


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    def _factors(self, step: subject.Step) -> dict[str, Level]:
        """Return the recorded factors of a step, or factors that match no case."""
        for case in self.stored.record.cases:
            if case.factors.get("subject") == "training" and subject.step_of(case) == step:
                return dict(case.factors)
        return {"subject": "training", **step._asdict()}

    def peak_memory(
        self,
        size: str = "allocated",
        network: str = subject.RESNET50,
        batch: int = subject.SOURCE_BATCH,
        precision: subject.TrainingPrecision = "tfloat32",
        layout: Layout = "contiguous",
    ) -> Quantity:
        """Return a step's peak memory (B); ``size`` is ``allocated`` or ``reserved``."""
        step = subject.Step(network, subject.IMAGE_SIDE, batch, precision, layout)
        return self.deterministic_quantity(f"{size}_peak", self._factors(step))

    def loaded_step(self, network: str = "none", files: str = "none") -> Quantity:
        """Return the mean time (s) of a step; without ``files``, images are in memory.

        Without ``network``, a step only loads images, so that its time is the loader's.
        """
        return self._statistic_of_steps(network, files, fmean, "s", "mean step")

    def excess(self, network: str, files: str) -> Quantity:
        """Return (mean throughput of single steps ÷ throughput of all steps together) − 1."""
        name = "mean over total rate"
        return self._statistic_of_steps(network, files, mean_over_total, "1", name) - 1

    def _statistic_of_steps(
        self, network: str, files: str, statistic: Callable[..., float], unit: str, name: str
    ) -> Quantity:
        """Apply a statistic to the times (s) of the steps of each process."""
        size = {"image": subject.LOADED_SIDE, "batch": subject.LOADED_BATCH}
        case = {"network": network, "files": files}
        processes = self.by_process("time", {"subject": "loading", **case, **size})
        name = series_name(name, case)
        if isinstance(processes, Missing):
            return missing_number(name, unit, processes.reason)
        results = [replace(process, samples=(statistic(process.samples),)) for process in processes]
        return self.series_from(name, unit, results)


def mean_over_total(times: Sequence[float]) -> float:
    """Divide the mean throughput of steps of these times (s) by their total throughput."""
    return fmean(1 / time for time in times) * fmean(times)
