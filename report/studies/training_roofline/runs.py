"""Measurements of one run: training steps, whole and on loaded images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from report.core.missing import Missing
from report.core.records.record import Level
from report.evidence import runs as any_study
from report.evidence.runs import series_name
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
        return self.fixed_quantity(f"{size}_peak", self._of(step))

    def loaded_step(self, network: str = "none", files: str = "none") -> Quantity:
        """Average the time (s) of steps on images of ``files`` or in memory, or of the loader."""
        return self._of_steps(network, files, fmean, "s", "mean step")

    def overstated(self, network: str, files: str) -> Quantity:
        """Divide the mean of the throughputs of steps by their total throughput, less 1."""
        return self._of_steps(network, files, mean_over_total, "1", "mean over total rate") - 1

    def _of_steps(
        self, network: str, files: str, of: Callable[[Sequence[float]], float], unit: str, name: str
    ) -> Quantity:
        """Compute the statistic ``of`` the steps of each process, ``name`` in ``unit``."""
        size = {"image": subject.LOADED_IMAGE, "batch": subject.LOADED_BATCH}
        case = {"network": network, "files": files}
        processes = self.by_process("time", {"subject": "loading", **case, **size})
        name = series_name(name, case)
        if isinstance(processes, Missing):
            return absent(name, unit, processes.reason)
        single = [replace(p, samples=(of(p.samples),)) for p in processes]
        return self.series_from(name, unit, single)


def mean_over_total(times: Sequence[float]) -> float:
    """Divide the mean throughput of steps of these durations by their total throughput."""
    return fmean(1 / time for time in times) * fmean(times)
