"""What the survey of timm's networks found, recomputed where that needs no timm."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("torch")

from experiments.networks import catalogue
from experiments.theory.survey.peaks import Peak, predicted, read_peaks
from experiments.theory.survey.published import (
    NO_ATTENTION,
    OTHER_SIZE,
    OTHERS,
    SAME,
    SCORES,
    UNEXPLAINED,
    Published,
    compared,
)
from report.records.network_counts import Counts, read_counts, write_counts

DOCS = Path(__file__).parents[2] / "docs"
PEAKS = read_peaks(DOCS / "networks-of-timm-peaks.json")


@pytest.mark.parametrize(
    "peak",
    [peak for peak in PEAKS.peaks if peak.network.startswith("study:")],
    ids=lambda peak: f"{peak.network}, {peak.layout}",
)
def test_predictions_hold_for_what_was_measured(peak: Peak) -> None:
    build = partial(catalogue.network, peak.network.removeprefix("study:"))
    found = predicted(build, peak.shape, peak.layout, PEAKS.conditions)
    assert found.peak is not None
    if found.complete:
        assert found.peak.total == peak.measured
    else:
        assert found.peak.total <= peak.measured


def test_no_measured_peak_was_predicted_wrongly() -> None:
    assert {peak.outcome for peak in PEAKS.peaks} == {"equal", "at least"}


def test_every_network_that_was_captured_is_exact(tmp_path: Path) -> None:
    found = read_counts(DOCS.parent / "data" / "networks-of-timm.csv")
    assert all(each.exact for each in found if not each.refused)
    again = tmp_path / "again.csv"
    write_counts(again, found)
    assert read_counts(again) == found


KNOWN = Counts(
    network="a", family="b", image="3x64x64", parameters=10_000_000, multiply_adds=2_000_000_000,
    attention_multiply_adds=300_000_000, other_operations=50_000_000, outputs=5_000_000,
    attention_outputs=1_000_000, attention_scores=2_000_000,
)  # fmt: skip


@pytest.mark.parametrize(
    ("row", "kinds"),
    [
        (Published(64, 2.0, 6.0, 10.0), (SAME, SAME)),
        (Published(64, 2.05, 8.0, 10.0), (OTHERS, SCORES)),
        (Published(64, 1.7, 5.0, 10.0), (NO_ATTENTION, NO_ATTENTION)),
        (Published(64, 2.2, 5.5, 10.0), (UNEXPLAINED, UNEXPLAINED)),
        (Published(96, 2.0, 6.0, 10.0), (OTHER_SIZE, OTHER_SIZE)),
    ],
)
def test_a_difference_is_told_by_its_kind(row: Published, kinds: tuple[str, str]) -> None:
    found = compared(KNOWN, {"a": (row,)})
    assert (found.multiply_adds, found.outputs) == kinds
