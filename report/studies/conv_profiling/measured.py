"""What one run measured: the layer in its dimensions, the traces, the trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from report.evidence import runs as any_study
from report.evidence.executed import COUNTED, FIRST
from report.evidence.runs import labels
from report.missing import Missing
from report.quantity.expression import Quantity, absent, exact
from report.records.layers import Layer
from report.records.passes import Pass
from report.records.record import Factor, Sample
from report.records.store import Stored
from report.studies.conv_profiling.subject import BASE, Dimensions, dimensions_of


@dataclass(frozen=True)
class Training:
    """One training: the images it learned from, the channels of the two convolutions."""

    dataset: str
    channels: str

    @property
    def factors(self) -> dict[str, Factor]:
        """The case as a record names it."""
        return {"subject": "training", "dataset": self.dataset, "channels": self.channels}

    @property
    def name(self) -> str:
        """The channels as a reader writes them."""
        return f"{self.channels.replace('-', ' and ')} channels"


@dataclass(frozen=True)
class Run(any_study.Run):
    """One record of this study."""

    @cached_property
    def dimensions(self) -> tuple[Dimensions, ...]:
        """The layer's dimensions, those of the example first, then in the order of the record."""
        cases = self.stored.record.cases
        found = (dimensions_of(case) for case in cases if case.factors.get("subject") == "layer")
        return tuple(sorted(dict.fromkeys(found), key=lambda dimensions: dimensions != BASE))

    def batches(self, dimensions: Dimensions = BASE) -> tuple[int, ...]:
        """The batch sizes of a layer in ascending order, also of cases that failed."""
        where = {n: f for n, f in dimensions.factors(1, "forward").items() if n not in _CALL}
        return tuple(map(int, self.levels("batch", **where)))

    def raw(
        self, quantity: str, batch: int, pass_: Pass, dimensions: Dimensions = BASE
    ) -> tuple[Sample, ...] | Missing:
        """The raw samples of a quantity, or why there are none."""
        return self.samples(quantity, dimensions.factors(batch, pass_))

    @cached_property
    def timed(self) -> tuple[int, ...]:
        """The batch sizes whose forward calls of the example's layer were timed."""
        return tuple(batch for batch in self.batches() if not self.time(batch).missing)

    def time(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Duration of one call of the example's layer (s)."""
        return self.series("time", BASE.factors(batch, pass_))

    def processes_of(self, batch: int) -> int:
        """How many processes timed a forward call of the example's layer."""
        found = self.by_process("time", BASE.factors(batch, "forward"))
        return 0 if isinstance(found, Missing) else len(found)

    def faults(self, batch: int) -> Quantity:
        """Pages that a forward call of the example's layer maps anew."""
        return self.series("page_faults", BASE.factors(batch, "forward"))

    def rate(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """Achieved rate (FLOP/s): the theoretical work of a call over its time."""
        work = exact("work", "FLOP", BASE.operations(batch, pass_))
        return work / self.time(batch, pass_)

    def share(self, batch: int, pass_: Pass = "forward") -> Quantity:
        """The achieved rate over the measured ceiling of the matrix product."""
        return self.rate(batch, pass_) / self.peak_rate("matrix_product")

    def image_time(self, batch: int) -> Quantity:
        """Duration of a forward call of the example's layer over its images (s)."""
        return self.time(batch) / batch

    def held(self, batch: int) -> int | Missing:
        """Bytes that the forward call of the example's layer left allocated."""
        factors = BASE.factors(batch, "forward")
        return self.grown("allocated_after", factors, since="allocated_before")

    def peak(self, batch: int, dimensions: Dimensions = BASE) -> int | Missing:
        """Most bytes allocated during the forward call beyond those allocated before it."""
        factors = dimensions.factors(batch, "forward")
        return self.grown("allocated_peak", factors, since="allocated_before")

    @property
    def trainings(self) -> tuple[Training, ...]:
        """The trainings in the order of the record, also those that failed."""
        return tuple(
            Training(str(case.factors["dataset"]), str(case.factors["channels"]))
            for case in self.stored.record.cases
            if case.factors.get("subject") == "training"
        )

    def trained(self, training: Training) -> bool:
        """Whether a training ended well and left its losses."""
        return not isinstance(self.samples("test_loss", training.factors), Missing)

    @property
    def network(self) -> tuple[Layer, ...]:
        """The layers of the example's network for one image; none without a training of it."""
        for case in self.stored.record.cases:
            factors = case.factors
            if factors.get("subject") == "training" and factors.get("channels") == BASE.channels:
                return case.layers
        return ()


_CALL: Final = frozenset({"batch", "pass"})


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first."""
    return tuple(map(Run, records, labels(records)))


def primary_run(all_runs: Sequence[Run]) -> Run | None:
    """The run that the prose speaks of: the newest that counted executed work, else the newest.

    A CPU that the user named comes before them; of equals a CPU comes first, and few threads.
    """
    return min(
        all_runs,
        key=lambda run: (
            run.on_gpu or not run.named, not _counted(run), run.on_gpu, run.threads,
        ),
        default=None,
    )  # fmt: skip


def _counted(run: Run) -> bool:
    return any(case.samples(COUNTED) or case.samples(FIRST) for case in run.stored.record.cases)


def learning_run(all_runs: Sequence[Run], primary: Run | None) -> Run | None:
    """The run whose trainings are described: the primary one, or else the newest that trained."""
    wanted = (*((primary,) if primary else ()), *all_runs)
    return next((run for run in wanted if any(map(run.trained, run.trainings))), primary)


def image_gain(run: Run) -> Quantity:
    """Time of an image in the smallest timed batch over that in the largest."""
    if len(run.timed) < 2:
        return absent("gain", "1", f"fewer than two batches were timed on {run.label}")
    return run.image_time(run.timed[0]) / run.image_time(run.timed[-1])
