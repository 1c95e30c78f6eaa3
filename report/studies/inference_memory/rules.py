"""Rules that predict the largest batch, compared under limits of networks of timm and torchvision.

``benchmarks.fits``, ``benchmarks.fits_cuda`` and ``benchmarks.baselines`` write the tables: the
batch that ran under each limit; of each network the peaks of two small batches, and two estimates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from statistics import median
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from report.paper.findings import Inputs
from report.quantity.expression import Quantity, absent, exact

BatchRule: TypeAlias = Literal["tensors", "line", "sum", "estimator"]
CallMode: TypeAlias = Literal["inference", "training"]

#: Rule → its name in figures and tables.
RULES: Final[dict[BatchRule, str]] = {
    "line": "Line through 2 and 4 images",
    "estimator": "torch-kitsune",
    "tensors": "Tensors and workspaces",
    "sum": "torchinfo",
}
#: The numbers that the paper prints.
_PRINTED: Final = (
    "rule_limits", "rule_networks", "line_answers", "line_right", "line_over", "line_most",
    "sum_most", "estimator_answers", "estimator_over", "estimator_most", "tensors_right",
    "tensors_over",
)  # fmt: skip
#: Batches whose measured peaks fix the line.
_FEW, _MORE = 2, 4
#: Pixels a side of the images, bytes of the limits beyond the peak of two images, and the most
#: that oneDNN's descriptions of kernels take, as ``benchmarks.fits`` and ``fits_cuda`` set them.
SIDE: Final = 64
ROOM: Final = (8_000_000, 24_000_000, 72_000_000)
ROOM_ON_GPU: Final = (1_000_000_000, 4_000_000_000)
DESCRIPTIONS: Final = 34_000
_FOLDER: Final = "inference_memory"
CPU_TABLE: Final = "limits-cpu.csv"
GPU_TABLE: Final = "limits-cuda.csv"
BASELINES: Final = "baselines-avx512.csv"


class LimitOfNetwork(msgspec.Struct, frozen=True):
    """A limit (B), the batch that was predicted to fit, and the largest that ran."""

    network: str
    mode: CallMode
    limit: int
    predicted: int
    ran: int


class Baseline(msgspec.Struct, frozen=True):
    """Measured peaks of a network (B), and the fixed and growing bytes of two estimates."""

    network: str
    peak_of_2: int
    peak_of_4: int
    summed_fixed: int
    summed_per_image: int
    estimated_fixed: int | None = None
    estimated_per_image: int | None = None


class RuleOutcome(NamedTuple):
    """The largest batch by each rule that has one, and the batch that ran."""

    network: str
    ran: int
    predicted: dict[BatchRule, int]


def line(few: float, more: float, limit: int) -> int | None:
    """Return the batch at which the line through two peaks (B) meets a limit; None if it falls."""
    per_image = (more - few) / (_MORE - _FEW)
    return int(_FEW + (limit - few) // per_image) if per_image > 0 else None


class RuleComparison:
    """All rules under all limits of an inference, on a CPU; ours alone on a GPU."""

    def __init__(self, inputs: Inputs) -> None:
        rows: Sequence[LimitOfNetwork] = inputs.table(CPU_TABLE, LimitOfNetwork)
        self.rows = [row for row in rows if row.mode == "inference"]
        self.on_gpu: Sequence[LimitOfNetwork] = inputs.table(GPU_TABLE, LimitOfNetwork)
        own: Sequence[Baseline] = inputs.table(BASELINES, Baseline)
        self.baselines = {row.network: row for row in own}

    @cached_property
    def outcomes(self) -> list[RuleOutcome]:
        """Apply every rule to every limit of a network with baselines."""
        known = [row for row in self.rows if row.network in self.baselines]
        return [RuleOutcome(row.network, row.ran, self._predicted(row)) for row in known]

    def _predicted(self, row: LimitOfNetwork) -> dict[BatchRule, int]:
        """Predict the largest batch under a limit by every rule that has an answer."""
        own = self.baselines[row.network]
        predicted: dict[BatchRule, int | None] = {
            "tensors": row.predicted,
            "line": line(own.peak_of_2, own.peak_of_4, row.limit),
            "sum": (row.limit - own.summed_fixed) // own.summed_per_image,
        }
        if own.estimated_fixed is not None and own.estimated_per_image:
            predicted["estimator"] = (row.limit - own.estimated_fixed) // own.estimated_per_image
        return {rule: max(0, batch) for rule, batch in predicted.items() if batch is not None}

    def ratios(self, rule: BatchRule) -> list[float]:
        """Sort the batches that a rule predicts over those that ran."""
        known = [row for row in self.outcomes if rule in row.predicted]
        return sorted(row.predicted[rule] / row.ran for row in known)

    def numbers(self) -> dict[str, Quantity]:
        """Count for every rule the limits where it is right, and where its batch does not fit."""
        cpu = Counter(row.network for row in self.outcomes)
        gpu = Counter(row.network for row in self.on_gpu)
        counts: dict[str, float] = {"rule_limits": cpu.total(), "rule_networks": len(cpu)}
        for rule in RULES:
            ratios = self.ratios(rule)
            counts |= {
                f"{rule}_answers": len(ratios),
                f"{rule}_right": ratios.count(1),
                f"{rule}_over": sum(ratio > 1 for ratio in ratios),
                f"{rule}_most": max(ratios, default=0),
            }
        counts = {id: count for id, count in counts.items() if id in _PRINTED}
        numbers = {id: _number(id, count, CPU_TABLE, BASELINES) for id, count in counts.items()}
        numbers["gpu_limits"] = _number("limits", gpu.total(), GPU_TABLE)
        training = sum(row.mode == "training" for row in self.on_gpu)
        numbers["gpu_training"] = _number("limits of training", training, GPU_TABLE)
        numbers["gpu_limit_networks"] = _number("networks", len(gpu), GPU_TABLE)
        return numbers

    def shares(self) -> list[float]:
        """Sort the batches that ran on a GPU over the predicted ones."""
        return sorted(row.ran / row.predicted for row in self.on_gpu)

    def shares_on_gpu(self) -> dict[str, Quantity]:
        """Return the least and the median share of the predicted batch that ran on a GPU."""
        shares = self.shares() or [0.0]
        return {
            "gpu_limit_least": _number("least share of the prediction", shares[0], GPU_TABLE),
            "gpu_limit_median": _number("median share", median(shares), GPU_TABLE),
        }

    def by_network(self) -> dict[str, list[LimitOfNetwork]]:
        """Group the limits of a GPU by network."""
        groups: dict[str, list[LimitOfNetwork]] = {}
        for row in self.on_gpu:
            groups.setdefault(row.network.rpartition(":")[2], []).append(row)
        return groups


def _number(name: str, value: float, *tables: str) -> Quantity:
    """Return a number of tables; 0 stands for a table that is not in the data directory."""
    first, *others = (f"{_FOLDER}/{table}" for table in tables)
    if not value:
        return absent(name, "1", f"{first} is not in the data directory")
    return exact(name.replace("_", " "), "1", value, first, tuple(others))
