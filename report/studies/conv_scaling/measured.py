"""What one run measured, case by case; a number that is not there is missing with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from report.errors import StudyError
from report.frames import Column, case_frame, sample_frame, select
from report.missing import Missing
from report.records import Ceiling, Sample
from report.statistics import (
    CONFIDENCE,
    Estimate,
    LinearFit,
    bonferroni,
    identical,
    linear_fit,
    median_interval,
    rate,
    rate_over,
)
from report.store import Stored
from report.studies.conv_scaling.subject import PASSES, Layout, Pass, operations

if TYPE_CHECKING:
    import pandas as pd

_STATUS_WORDS: Final = {
    "out_of_memory": "out of memory",
    "unavailable": "unavailable",
    "failed": "failed",
}

#: Both intervals of an efficiency hold together with the usual confidence.
_EACH: Final = bonferroni(CONFIDENCE, 2)

Found = TypeVar("Found")


@dataclass(frozen=True)
class Run:
    """One record of this study with its tidy frames."""

    stored: Stored
    label: str
    layout: Layout = "contiguous"

    @property
    def key(self) -> str:
        """The device's key, as in the record's file name."""
        return self.stored.record.environment.key

    @property
    def file(self) -> str:
        """The record's file, the source of everything below."""
        return self.stored.file

    @cached_property
    def _series(self) -> dict[tuple[int, str, str], tuple[Sample, ...]]:
        """The samples by batch size, pass and quantity."""
        frame = self._own(sample_frame((self.stored,)))
        if not len(frame):
            return {}
        groups = frame.groupby(["batch", "pass", str(Column.QUANTITY)], sort=False)
        found: dict[Any, tuple[Sample, ...]] = {
            key: tuple(rows.tolist()) for key, rows in groups[str(Column.VALUE)]
        }
        return found

    @cached_property
    def _cases(self) -> pd.DataFrame:
        return self._own(case_frame((self.stored,)))

    def _own(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of the layer in this run's layout."""
        frame = select(frame, subject="layer")
        return select(frame, layout=self.layout) if "layout" in frame.columns else frame

    def in_layout(self, layout: Layout) -> Run:
        """The same record seen in another layout of its tensors."""
        return replace(self, layout=layout)

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """The batch sizes of the run in ascending order, also of cases that failed."""
        if not len(self._cases):
            return ()
        return tuple(sorted({int(batch) for batch in self._cases["batch"]}))

    def raw(self, quantity: str, batch: int, pass_: Pass) -> tuple[Sample, ...] | Missing:
        """The raw samples of a quantity, or why there are none.

        What a case recorded before it failed is no measurement of it.
        """
        case = select(self._cases, **{"batch": batch, "pass": pass_})
        if not len(case):
            return Missing(f"not part of the run on {self.label}")
        status, reason = case.iloc[0][[Column.STATUS, Column.REASON]]
        if status != "ok":
            return Missing(f"{_STATUS_WORDS[status]} on {self.label}: {reason}")
        found = self._series.get((batch, pass_, quantity))
        if not found:
            return Missing(f"{quantity.replace('_', ' ')} was not recorded on {self.label}")
        if quantity == "time" and min(found) <= 0:
            return Missing(f"shorter than the clock can tell on {self.label}")
        return found

    def time(self, batch: int, pass_: Pass) -> Estimate | Missing:
        """Median duration of one call in seconds, with its interval."""
        found = self.raw("time", batch, pass_)
        return found if isinstance(found, Missing) else median_interval(found)

    def rate(self, batch: int, pass_: Pass) -> Estimate | Missing:
        """Achieved FLOP/s: the theoretical work of one call over its median duration."""
        found = self.raw("time", batch, pass_)
        return found if isinstance(found, Missing) else rate(operations(batch, pass_), found)

    def efficiency(self, batch: int, pass_: Pass) -> Estimate | Missing:
        """Achieved rate over the measured ceiling of the matrix product (a ratio)."""
        found, ceiling = self.raw("time", batch, pass_), self.ceiling("matrix_product", _EACH)
        if isinstance(found, Missing):
            return found
        if isinstance(ceiling, Missing):
            return ceiling
        return rate_over(rate(operations(batch, pass_), found, _EACH), ceiling)

    def constant(self, quantity: str, batch: int, pass_: Pass) -> int | Missing:
        """A quantity that must be the same in every repetition, such as allocated bytes."""
        found = self.raw(quantity, batch, pass_)
        if isinstance(found, Missing):
            return found
        value = identical(found)
        if value is None:
            return Missing(
                f"{quantity.replace('_', ' ')} differed between repetitions on {self.label}"
            )
        return int(value)

    def held(self, batch: int, pass_: Pass = "forward") -> int | Missing:
        """Bytes that the call left allocated: after minus before."""
        return self._beyond_start("allocated_after", batch, pass_)

    def peak(self, batch: int, pass_: Pass = "forward") -> int | Missing:
        """Most bytes allocated during the call beyond those allocated before it."""
        return self._beyond_start("allocated_peak", batch, pass_)

    def reserved(self, batch: int, pass_: Pass = "forward") -> int | Missing:
        """Bytes that the allocator took from the device during the call (CUDA only)."""
        after = self.constant("reserved_after", batch, pass_)
        before = self.constant("reserved_before", batch, pass_)
        return _difference(after, before)

    def _beyond_start(self, quantity: str, batch: int, pass_: Pass) -> int | Missing:
        return _difference(
            self.constant(quantity, batch, pass_), self.constant("allocated_before", batch, pass_)
        )

    def ceiling(self, operation: str, confidence: float = CONFIDENCE) -> Estimate | Missing:
        """The measured peak rate of an operation: the better of before and after the series."""
        moments = [self.ceiling_at(operation, at, confidence) for at in ("before", "after")]
        known = [moment for moment in moments if isinstance(moment, Estimate)]
        if not known:
            return Missing(f"no ceiling was measured on {self.label}")
        return max(known, key=lambda estimate: estimate.value)

    def ceiling_at(
        self, operation: str, moment: str, confidence: float = CONFIDENCE
    ) -> Estimate | Missing:
        """The rate of ``operation`` at one moment, in FLOP/s or B/s."""
        measured = self._ceilings(operation, moment)
        if not measured:
            return Missing(f"no ceiling was measured {moment} the series on {self.label}")
        rates = [rate(ceiling.work, ceiling.samples, confidence) for ceiling in measured]
        return max(rates, key=lambda estimate: estimate.value)

    def _ceilings(self, operation: str, moment: str) -> Sequence[Ceiling]:
        return [
            ceiling
            for ceiling in self.stored.record.ceilings
            if (ceiling.operation, ceiling.moment) == (operation, moment) and ceiling.samples
        ]

    def measured_batches(self, pass_: Pass) -> tuple[int, ...]:
        """The batch sizes whose calls were timed."""
        return tuple(b for b in self.batches if not isinstance(self.time(b, pass_), Missing))

    def sample_counts(self) -> tuple[int, ...]:
        """How many samples of time each timed case has."""
        found = (self.raw("time", batch, pass_) for batch in self.batches for pass_ in PASSES)
        return tuple(len(samples) for samples in found if not isinstance(samples, Missing))

    def image_bound(self, pass_: Pass) -> float | Missing:
        """Seconds that an image's theoretical work takes at the measured ceiling."""
        ceiling = self.ceiling("matrix_product")
        return ceiling if isinstance(ceiling, Missing) else operations(1, pass_) / ceiling.value

    def time_fit(self, pass_: Pass) -> LinearFit | Missing:
        """The line of the median time (s) over the batch size, of constant relative error."""
        batches = self.measured_batches(pass_)
        times = [known(self.time(batch, pass_)).value for batch in batches]
        return fitted(batches, times, relative=True, label=self.label)

    def held_fit(self) -> LinearFit | Missing:
        """The line of the bytes held after the forward call over the batch size."""
        return self._byte_fit({b: self.held(b) for b in self.batches})

    def peak_fit(self) -> LinearFit | Missing:
        """The line of the forward call's peak bytes over the batch size."""
        return self._byte_fit({b: self.peak(b) for b in self.batches})

    def _byte_fit(self, sizes: dict[int, int | Missing]) -> LinearFit | Missing:
        present = {b: size for b, size in sizes.items() if not isinstance(size, Missing)}
        return fitted(tuple(present), list(present.values()), relative=False, label=self.label)


def fitted(
    x: Sequence[float], y: Sequence[float], *, relative: bool, label: str
) -> LinearFit | Missing:
    """A linear fit, or why it is missing: it takes three batch sizes."""
    try:
        return linear_fit(x, y, relative=relative)
    except StudyError:
        return Missing(f"fewer than three batch sizes were measured on {label}")


def known(found: Found | Missing) -> Found:
    """``found``, where the caller has made sure that it is not missing."""
    if isinstance(found, Missing):
        raise StudyError(f"conv_scaling: a number that must be there is missing: {found.reason}.")
    return found


def _difference(after: int | Missing, before: int | Missing) -> int | Missing:
    if isinstance(after, Missing):
        return after
    return before if isinstance(before, Missing) else after - before


def runs(records: Sequence[Stored]) -> tuple[Run, ...]:
    """The runs of this study, newest first; labels are told apart by their key if need be."""
    labels = [item.record.environment.label for item in records]
    return tuple(
        Run(item, label if labels.count(label) == 1 else f"{label} ({item.record.environment.key})")
        for item, label in zip(records, labels, strict=True)
    )


def primary_run(all_runs: Sequence[Run]) -> Run | None:
    """The run that the prose speaks of: the newest whose forward calls were timed, else newest."""
    timed = (run for run in all_runs if run.measured_batches("forward"))
    return next(timed, all_runs[0] if all_runs else None)
