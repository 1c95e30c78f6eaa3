"""training_roofline: published training rates under a roof, by hand from rows of timm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from report.paper.findings import Inputs
from report.studies.training_roofline import training_rates
from report.studies.training_roofline.training_rates import Trained, trained
from tests.degraded import committed

STUDY = "training_roofline"
TRAINING_TABLES = 2


@pytest.fixture(scope="module")
def rates() -> Trained:
    found = trained(committed(STUDY))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("layout", "network", "rate", "gmacs", "activations", "parameters"),
    [
        ("contiguous", "resnet50", 826.06, 4.11, 11.11, 25.56),
        ("last", "resnet50", 1218.01, 4.11, 11.11, 25.56),
        ("last", "resnet18", 3481.78, 1.82, 2.48, 11.69),
        ("last", "mobilenetv2_100", 2313.10, 0.31, 6.68, 3.50),
    ],
)
def test_shares_are_those_of_the_published_rows(
    rates: Trained, layout: str, network: str, rate: float,
    gmacs: float, activations: float, parameters: float,
) -> None:  # fmt: skip
    """Batches of 512, half precision, 71 TFLOP/s and 936 GB/s on the data sheet."""
    arithmetic = 3 * 2 * gmacs * 1e9 * rate / 71e12
    bandwidth = 3 * 2 * (2 * activations + parameters / 512) * 1e6 * rate / 936e9
    assert rates.arithmetic(layout).numbers[network] == pytest.approx(arithmetic)
    assert rates.bandwidth(layout).numbers[network] == pytest.approx(bandwidth)
    assert rates.share(layout).numbers[network] == pytest.approx(max(arithmetic, bandwidth))


def test_no_cnn_is_above_the_roof(rates: Trained) -> None:
    numbers = [share for layout in rates.tables for share in rates.share(layout).numbers.values()]
    assert min(numbers) > 0 and max(numbers) < 1


def test_counts_are_taken_at_the_image_extent_of_the_training(rates: Trained) -> None:
    known = {(row.network, row.image): 3 * row.printed.multiply_adds for row in rates.counts.rows}
    rows = [row for table in rates.tables.values() for row in table.rows]
    assert rows and all(row.counts.multiply_adds == known[row.network, row.image] for row in rows)


def without(index: int) -> Inputs:
    """The inputs without one of the tables of timm."""
    inputs = committed(STUDY)
    tables = [s for s in inputs.imported if s.record.origin.format == "timm_csv"]
    left = tuple(s for s in inputs.imported if s is not tables[index])
    return replace(inputs, imported=left)


@pytest.mark.parametrize("index", range(TRAINING_TABLES + 1))
def test_without_one_of_the_tables_nothing_is_said(index: int) -> None:
    found = trained(without(index))
    assert found is None
    assert not training_rates.facts(found)["trained"]
    parts = (training_rates.values, training_rates.claims, training_rates.figures)
    assert [list(part(found)) for part in parts] == [[], [], []]
