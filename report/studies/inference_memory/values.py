"""The numbers of inference_memory's prose."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.values import Value, declare
from report.quantity.expression import absent
from report.statistics.estimates import CONFIDENCE
from report.studies.inference_memory import policies
from report.studies.inference_memory.batches import ENOUGH
from report.studies.inference_memory.choices import reported_speedups
from report.studies.inference_memory.faults import NEAR, THRESHOLD
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory import FROM_BATCH, TOLERANCE
from report.studies.inference_memory.processor import COARSE
from report.studies.inference_memory.run_values import RUN_VALUES, Getter
from report.studies.inference_memory.setting_values import SETTING_VALUES, best_mean
from report.text.format import Style

NO_RECORD: Final = Missing("no run of this experiment is in the data directory")

#: What the prose says of the source: id, name.
_REPORTED: Final = (
    ("amc_batch", "Batch of AMP with AMC"),
    ("best_up_to", "Batch up to which the source's time drops"),
    ("middle_low", "First batch of the source's middle range"),
    ("middle_high", "Last batch of the source's middle range"),
    ("large_low", "First of the source's very large batches"),
    ("large_high", "Last of the source's very large batches"),
    ("tile_smallest", "The source's smallest tile"),
    ("tile_largest", "The source's largest tile"),
    ("tile_image", "Side of the source's tiled image"),
    ("tile_batch", "Batch of the source's tiling"),
    ("cifar_side", "Side of a CIFAR-10 image as printed"),
)


def all_values(inputs: Inputs, run: Run | None) -> tuple[Value, ...]:
    """Every number of the prose; those of a run are missing without one."""
    return (*_chosen(), *_reported(inputs), *_of_run(inputs, run))


def _chosen() -> tuple[Value, ...]:
    """Rules of this paper."""
    return (
        Value(
            "confidence", "Confidence of the intervals", CONFIDENCE, "1", "chosen", (), "percent"
        ),
        Value("enough", "Share of the best rate at a knee", ENOUGH, "1", "chosen", (), "percent"),
        Value(
            "enough_rest",
            "What is left to gain beyond a knee",
            round(1 - ENOUGH, 12),
            "1",
            "1 − share of the best rate at a knee",
            (),
            "percent",
        ),
        Value("tolerance", "Rule of agreement", TOLERANCE, "1", "chosen", (), "percent"),
        Value(
            "threshold",
            "Blocks that are given back to the system",
            THRESHOLD // 2**20,
            "MiB",
            "largest threshold of the C library",
            (),
            "exact",
        ),
        Value("near", "Rule of agreement of page faults", NEAR, "1", "chosen", (), "percent"),
        Value("coarse", "Largest step of a clock that tells", COARSE, "1", "chosen", (), "percent"),
        Value("from_batch", "First batch of that rule", FROM_BATCH, "1", "chosen", (), "exact"),
    )


def _reported(inputs: Inputs) -> tuple[Value, ...]:
    origin = (inputs.reported_file,)
    found = {id_: inputs.reported.value(id_) for id_, _ in _REPORTED}
    low, high = (inputs.reported.value(f"amc_saving_{end}") for end in ("low", "high"))
    speedups = reported_speedups(inputs)
    return (
        *(
            Value(
                f"reported_{id_}", name, found[id_].number, "1", found[id_].place, origin, "exact"
            )
            for id_, name in _REPORTED
        ),
        Value("saving_low", low.name, low.number, "%", low.place, origin),
        Value("saving_high", high.name, high.number, "%", high.place, origin),
        Value(
            "speedup_lenet", "Published, LeNet", speedups["LeNet-5"], "1", "Section IV-E", origin
        ),
        Value(
            "speedup_larger",
            "Published, AlexNet",
            int(speedups["AlexNet"]),
            "1",
            "Section IV-E",
            origin,
        ),
    )


def _of_run(inputs: Inputs, run: Run | None) -> Iterator[Value]:
    getters: dict[str, Getter] = {
        **RUN_VALUES,
        **SETTING_VALUES,
        **policies.VALUES,
        "best_mean": partial(best_mean, inputs),
    }
    for id_, get in getters.items():
        quantity = absent(id_, "1", NO_RECORD.reason) if run is None else get(run)
        yield declare(id_, quantity, _STYLES.get(id_))


_PERCENT: Final = (
    "best_share", "residual_share", "deep_contiguous", "deep_channels_last", "half_saved_first",
    "half_grown_first", "half_saved_last", "accuracy", "accuracy_change", "both_saved_least",
    "both_saved_most", "needed_saved_least", "needed_saved_most", "off_first", "off_last",
)  # fmt: skip
_STYLES: Final[dict[str, Style]] = {
    **dict.fromkeys(_PERCENT, "percent"),
    **dict.fromkeys(("knee_least", "knee_most"), "whole"),
    **dict.fromkeys(("deep_peak", "shallow_peak"), "measured"),
    "residual_peak": "exact",
}
