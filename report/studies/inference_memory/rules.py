"""Rules that predict the largest batch, compared under limits of networks of timm and torchvision.

``benchmarks.fits``, ``benchmarks.fits_cuda`` and ``benchmarks.baselines`` write the tables: the
batch that ran under each limit; of each network the peaks of some batches, and two estimates.
"""

from collections.abc import Sequence
from functools import cached_property
from statistics import median
from typing import Final, Literal, TypeAlias

import msgspec

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent, exact

BatchRule: TypeAlias = Literal["tensors", "doubled", "later", "line", "estimator", "sum"]
CallMode: TypeAlias = Literal["inference", "training"]

#: Rule → its name in figures and tables.
RULES: Final[dict[BatchRule, str]] = {
    "tensors": "Tensors and workspaces",
    "doubled": "Line, last doubling",
    "later": "Line, 8 and 16",
    "line": "Line, 2 and 4 images",
    "estimator": "torch-kitsune",
    "sum": "torchinfo",
}
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
    def steepens(self) -> bool:
        """Tell if memory per image is 1 % larger from 128 to 256 images than from 2 to 4."""
        early, late = self.peak_of_4 - self.peak_of_2, self.peak_of_256 - self.peak_of_128
        return late / 128 > 1.01 * early / 2

    def predicted(self, limit: int) -> dict[BatchRule, int]:
        """Predict the largest batch under a limit (B) by every rule that has an answer."""
        peaks = {2**n: getattr(self, f"peak_of_{2**n}") for n in range(1, 9)}
        predicted: dict[BatchRule, int | None] = {
            "line": line(peaks, 2, 4, limit),
            "later": line(peaks, 8, 16, limit),
            "doubled": doubled(peaks, limit),
            "sum": (limit - self.summed_fixed) // self.summed_per_image,
        }
        if self.estimated_fixed is not None and self.estimated_per_image:
            predicted["estimator"] = (limit - self.estimated_fixed) // self.estimated_per_image
        return {rule: max(0, batch) for rule, batch in predicted.items() if batch is not None}


def line(peaks: dict[int, int], smaller: int, larger: int, limit: int) -> int | None:
    """Return the batch at which the line through two peaks (B) meets a limit; None if it falls."""
    per_image = (peaks[larger] - peaks[smaller]) / (larger - smaller)
    return int(smaller + (limit - peaks[smaller]) // per_image) if per_image > 0 else None


def doubled(peaks: dict[int, int], limit: int) -> int | None:
    """Return the batch by the line through the last two batches that fit, if two fit."""
    fitting = [batch for batch, peak in peaks.items() if peak <= limit]
    return line(peaks, fitting[-2], fitting[-1], limit) if len(fitting) > 1 else None


class RuleComparison:
    """All rules under limits of an inference on a CPU; the count alone in training and on a GPU."""

    def __init__(self, inputs: Inputs) -> None:
        baselines: Sequence[Baseline] = inputs.table(BASELINES, Baseline)
        self._baselines = {row.network: row for row in baselines}
        self._on_cpu: Sequence[LimitOfNetwork] = inputs.table(CPU_TABLE, LimitOfNetwork)
        self._repeated: Sequence[LimitOfNetwork] = inputs.table(REPEATED_TABLE, LimitOfNetwork)
        self._on_gpu: Sequence[LimitOfNetwork] = inputs.table(GPU_TABLE, LimitOfNetwork)

    def _limits(self, mode: CallMode, of_studies: bool = False) -> list[LimitOfNetwork]:
        """Select the limits on the CPU, of the studies' networks or of all others."""
        rows = [row for row in self._on_cpu if row.mode == mode]
        return [row for row in rows if row.network.startswith(_OF_STUDIES) == of_studies]

    @cached_property
    def _predicted(self) -> list[tuple[LimitOfNetwork, dict[BatchRule, int]]]:
        """Apply every rule to every limit of an inference of a network with baselines."""
        predicted = []
        for row in self._limits("inference"):
            if baseline := self._baselines.get(row.network):
                predicted.append((row, {**baseline.predicted(row.limit), "tensors": row.predicted}))
        return predicted

    def answers(self, rule: BatchRule) -> list[tuple[str, int, int]]:
        """Return network, predicted batch and batch that ran wherever a rule has an answer."""
        return [
            (row.network, predicted[rule], row.ran)
            for row, predicted in self._predicted
            if rule in predicted
        ]

    def ratios(self, rule: BatchRule) -> list[float]:
        """Sort the batches that a rule predicts over those that ran."""
        return sorted(predicted / ran for _, predicted, ran in self.answers(rule))

    def numbers(self) -> dict[str, Quantity]:
        """Count for every rule the limits where it is right, and where its batch does not fit."""
        ours, training = self._limits("inference", of_studies=True), self._limits("training")
        limits = len(ours) + len(self._predicted)
        same = [row for row in self._repeated if row in self._on_cpu]
        by_line = self.answers("line")
        steeper = [(batch, ran) for net, batch, ran in by_line if self._baselines[net].steepens]
        counts: dict[str, float] = {
            "rule_limits": len(self._predicted),
            "rule_networks": len({row.network for row, _ in self._predicted}),
            "own_limits": len(ours),
            "own_right": sum(row.ran == row.predicted for row in ours),
            "training_limits": len(training),
            "training_met": sum(row.ran == row.predicted for row in training),
            "training_most": max((row.predicted / row.ran for row in training), default=0),
            "inference_limits": limits,
            "repeated_same": len(same),
            "unrepeated": limits - len(self._repeated),
            "line_doubled": len({net for net, batch, ran in by_line if batch > 2 * ran}),
            "steeper_over": sum(batch > ran for batch, ran in steeper),
            "steeper_right": sum(batch == ran for batch, ran in steeper),
        }
        for rule in RULES:
            ratios = self.ratios(rule)
            counts[f"{rule}_right"] = ratios.count(1)
            counts[f"{rule}_over"] = sum(ratio > 1 for ratio in ratios)
            counts[f"{rule}_most"] = max(ratios, default=0)
        tables = (CPU_TABLE, BASELINES, REPEATED_TABLE)
        return {id: _number(id, count, *tables) for id, count in counts.items()}

    def shares(self, *modes: CallMode) -> list[float]:
        """Sort the batches that ran on a GPU over the predicted ones."""
        return sorted(row.ran / row.predicted for row in self._on_gpu if row.mode in modes)

    def numbers_on_gpu(self) -> dict[str, Quantity]:
        """Count limits and networks on a GPU."""
        counts = {f"gpu_{mode}": len(self.shares(mode)) for mode in ("inference", "training")}
        counts["gpu_networks"] = len({row.network for row in self._on_gpu})
        return {id: _number(id, count, GPU_TABLE) for id, count in counts.items()}

    def shares_on_gpu(self) -> dict[str, Quantity]:
        """Return the least and the median share of the predicted batch that ran on a GPU."""
        numbers = {}
        for mode, id in (("inference", "gpu_share"), ("training", "gpu_training_share")):
            shares = self.shares(mode) or [0.0]  # type: ignore[arg-type]
            numbers[f"{id}_least"] = _number("least share", shares[0], GPU_TABLE)
            numbers[f"{id}_median"] = _number("median share", median(shares), GPU_TABLE)
        return numbers


def _number(name: str, value: float, *tables: str) -> Quantity:
    """Return a number of tables; 0 stands for a table that is not in the data directory."""
    first, *others = (f"{_FOLDER}/{table}" for table in tables)
    if not value:
        return absent(name, "1", f"{first} is not in the data directory")
    return exact(name.replace("_", " "), "1", value, first, tuple(others))
