"""Rules that predict the largest batch, compared under limits of networks of timm and torchvision.

``benchmarks.fits``, ``benchmarks.fits_cuda`` and ``benchmarks.baselines`` write the tables: the
batch that ran under each limit; of each network the peaks of some batches, and two estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent, exact

BatchRule: TypeAlias = Literal["tensors", "line", "later", "doubled", "sum", "estimator"]
CallMode: TypeAlias = Literal["inference", "training"]

#: Rule → its name in figures and tables.
RULES: Final[dict[BatchRule, str]] = {
    "line": "Line, 2 and 4 images",
    "later": "Line, 8 and 16",
    "doubled": "Line, last doubling",
    "estimator": "torch-kitsune",
    "tensors": "Tensors and workspaces",
    "sum": "torchinfo",
}
#: The numbers of rules that the paper prints.
_PRINTED: Final = (
    "line_right", "line_over", "line_most", "later_right", "later_over", "later_most",
    "doubled_right", "doubled_over", "doubled_most", "estimator_over", "estimator_most",
    "sum_most", "tensors_right", "tensors_over",
)  # fmt: skip
#: Networks of the studies; the rules of workspaces were derived on two of them.
_OF_STUDIES: Final = "study:"
#: Pixels a side of the images, bytes of the limits beyond the peak of two images, and the most
#: that oneDNN's descriptions of kernels take, as ``benchmarks.fits`` and ``fits_cuda`` set them.
SIDE: Final = 64
ROOM: Final = (8_000_000, 24_000_000, 72_000_000)
ROOM_ON_GPU: Final = (1_000_000_000, 4_000_000_000)
DESCRIPTIONS: Final = 34_000
_FOLDER: Final = "inference_memory"
#: Limits on a machine that was not recorded, and repeated on one that each row names.
CPU_TABLE: Final = "limits-cpu.csv"
REPEATED_TABLE: Final = "limits-avx2.csv"
GPU_TABLE: Final = "limits-cuda.csv"
BASELINES: Final = "baselines-avx2.csv"


class LimitOfNetwork(msgspec.Struct, frozen=True):
    """A limit (B), the batch that was predicted to fit, and the largest that ran."""

    network: str
    mode: CallMode
    limit: int
    predicted: int
    ran: int


class Baseline(msgspec.Struct, frozen=True):
    """Measured peaks of a network by batch (B), and fixed and growing bytes of two estimates."""

    network: str
    peak_of_2: int
    peak_of_4: int
    peak_of_8: int
    peak_of_16: int
    peak_of_32: int
    peak_of_64: int
    peak_of_128: int
    peak_of_256: int
    summed_fixed: int
    summed_per_image: int
    estimated_fixed: int | None = None
    estimated_per_image: int | None = None

    @property
    def peaks(self) -> dict[int, int]:
        """Peaks (B) by batch, in ascending order."""
        return {2**n: getattr(self, f"peak_of_{2**n}") for n in range(1, 9)}


class RuleOutcome(NamedTuple):
    """The largest batch by each rule that has one, and the batch that ran."""

    network: str
    ran: int
    predicted: dict[BatchRule, int]


def line(peaks: dict[int, int], few: int, more: int, limit: int) -> int | None:
    """Return the batch at which the line through two peaks (B) meets a limit; None if it falls."""
    per_image = (peaks[more] - peaks[few]) / (more - few)
    return int(few + (limit - peaks[few]) // per_image) if per_image > 0 else None


def doubled(peaks: dict[int, int], limit: int) -> int | None:
    """Return the batch by the line through the last two batches that fit, if two fit."""
    fitting = [batch for batch, peak in peaks.items() if peak <= limit]
    return line(peaks, fitting[-2], fitting[-1], limit) if len(fitting) > 1 else None


class RuleComparison:
    """All rules under limits of an inference on a CPU; the count alone in training and on a GPU."""

    def __init__(self, inputs: Inputs) -> None:
        rows: Sequence[LimitOfNetwork] = inputs.table(CPU_TABLE, LimitOfNetwork)
        own: Sequence[Baseline] = inputs.table(BASELINES, Baseline)
        self.baselines = {row.network: row for row in own}
        self.own = [row for row in rows if row.network.startswith(_OF_STUDIES)]
        self.rows = [row for row in rows if row not in self.own]
        self.repeated: Sequence[LimitOfNetwork] = inputs.table(REPEATED_TABLE, LimitOfNetwork)
        self.on_gpu: Sequence[LimitOfNetwork] = inputs.table(GPU_TABLE, LimitOfNetwork)

    @cached_property
    def outcomes(self) -> list[RuleOutcome]:
        """Apply every rule to every limit of an inference of a network with baselines."""
        outcomes = []
        for row in self.rows:
            if row.mode == "inference" and row.network in self.baselines:
                outcomes.append(RuleOutcome(row.network, row.ran, self._predicted(row)))
        return outcomes

    def _predicted(self, row: LimitOfNetwork) -> dict[BatchRule, int]:
        """Predict the largest batch under a limit by every rule that has an answer."""
        own = self.baselines[row.network]
        predicted: dict[BatchRule, int | None] = {
            "tensors": row.predicted,
            "line": line(own.peaks, 2, 4, row.limit),
            "later": line(own.peaks, 8, 16, row.limit),
            "doubled": doubled(own.peaks, row.limit),
            "sum": (row.limit - own.summed_fixed) // own.summed_per_image,
        }
        if own.estimated_fixed is not None and own.estimated_per_image:
            predicted["estimator"] = (row.limit - own.estimated_fixed) // own.estimated_per_image
        return {rule: max(0, batch) for rule, batch in predicted.items() if batch is not None}

    def answers(self, rule: BatchRule) -> list[tuple[str, int, int]]:
        """Return network, predicted batch and batch that ran wherever a rule has an answer."""
        known = [row for row in self.outcomes if rule in row.predicted]
        return [(row.network, row.predicted[rule], row.ran) for row in known]

    def ratios(self, rule: BatchRule) -> list[float]:
        """Sort the batches that a rule predicts over those that ran."""
        return sorted(predicted / ran for _, predicted, ran in self.answers(rule))

    def numbers(self) -> dict[str, Quantity]:
        """Count for every rule the limits where it is right, and where its batch does not fit."""
        own = [row for row in self.own if row.mode == "inference"]
        training = [row for row in self.rows if row.mode == "training"]
        most = max((row.predicted / row.ran for row in training), default=0)
        same = [row for row in self.repeated if row in (*self.rows, *self.own)]
        numbers = {
            "rule_limits": _number("limits", len(self.outcomes), CPU_TABLE),
            "rule_networks": _number("networks", len(_networks(self.outcomes)), CPU_TABLE),
            "own_limits": _number("limits of our networks", len(own), CPU_TABLE),
            "own_right": _number("limits met", _met(own), CPU_TABLE),
            "training_limits": _number("limits of training", len(training), CPU_TABLE),
            "training_met": _number("limits met", _met(training), CPU_TABLE),
            "training_most": _number("predicted over run", most, CPU_TABLE),
            "repeated_limits": _number("limits", len(self.repeated), REPEATED_TABLE),
            "repeated_same": _number("same outcomes", len(same), REPEATED_TABLE, CPU_TABLE),
            "gpu_networks": _number("networks", len(_networks(self.on_gpu)), GPU_TABLE),
        }
        for rule in RULES:
            ratios = self.ratios(rule)
            for name, count in (
                ("right", ratios.count(1)),
                ("over", sum(ratio > 1 for ratio in ratios)),
                ("most", max(ratios, default=0)),
            ):
                if (id := f"{rule}_{name}") in _PRINTED:
                    numbers[id] = _number(id, count, CPU_TABLE, BASELINES)
        for mode in ("inference", "training"):
            on_gpu = [row for row in self.on_gpu if row.mode == mode]
            numbers[f"gpu_{mode}"] = _number(f"limits of {mode}", len(on_gpu), GPU_TABLE)
        return numbers

    def shares(self, mode: CallMode) -> list[float]:
        """Sort the batches that ran on a GPU over the predicted ones."""
        return sorted(row.ran / row.predicted for row in self.on_gpu if row.mode == mode)

    def shares_on_gpu(self) -> dict[str, Quantity]:
        """Return the least and the median share of the predicted batch that ran on a GPU."""
        numbers = {}
        for mode, id in (("inference", "gpu_share"), ("training", "gpu_training_share")):
            shares = self.shares(mode) or [0.0]  # type: ignore[arg-type]
            numbers[f"{id}_least"] = _number("least share", shares[0], GPU_TABLE)
            numbers[f"{id}_median"] = _number("median share", median(shares), GPU_TABLE)
        return numbers


def _networks(rows: Iterable[RuleOutcome | LimitOfNetwork]) -> set[str]:
    return {row.network for row in rows}


def _met(rows: Iterable[LimitOfNetwork]) -> int:
    """Count the limits under which the largest batch that ran is the predicted one."""
    return sum(row.ran == row.predicted for row in rows)


def _number(name: str, value: float, *tables: str) -> Quantity:
    """Return a number of tables; 0 stands for a table that is not in the data directory."""
    first, *others = (f"{_FOLDER}/{table}" for table in tables)
    if not value:
        return absent(name, "1", f"{first} is not in the data directory")
    return exact(name.replace("_", " "), "1", value, first, tuple(others))
