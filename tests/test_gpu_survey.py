"""gpu_survey: published rates by hand, and what distributions of gains decide."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from report.evidence.network_families import family_of
from report.evidence.published_gains import Roof
from report.evidence.published_rates import Row, once
from report.paper.findings import Findings
from report.quantity.distribution import Distribution
from report.quantity.evaluation import estimate
from report.statistics.estimates import Estimate
from report.studies import compute
from report.studies.gpu_survey.survey import survey_of
from tests.degraded import committed
from tests.papers import value

FOUND: Findings = compute("gpu_survey", committed("gpu_survey"))


@pytest.mark.parametrize(
    ("id", "printed"),
    [("resnet_before", 3025), ("resnet_after", 3021), ("resnet_larger", 1791)],
)
def test_rates_of_resnet_are_those_that_a_reader_finds(id: str, printed: int) -> None:
    assert round(value(FOUND, id)) == printed


def test_the_larger_image_explains_what_seemed_a_slower_card() -> None:
    assert round(value(FOUND, "resnet_less"), 2) == 0.41
    assert value(FOUND, "torch_210_gain") == pytest.approx(1, abs=0.05)


def test_shares_of_resnet_by_hand() -> None:
    """RTX 4090, PyTorch 2.9.1: 4,302.84 images/s, 4.11 GMACs, 11.11 M activations, batch 1,024."""
    bytes_ = 2 * (2 * 11.11e6 + 25.56e6 / 1024)
    row = Row("resnet50", "convolution", 224, 1024, 4302.84, 4.11e9, 11.11e6, 25.56e6)
    assert row.intensity() == pytest.approx(2 * 4.11e9 / bytes_)
    share = 2 * 4.11e9 * 4302.84 / min(165.2e12, 1008e9 * 2 * 4.11e9 / bytes_)
    assert Roof("RTX 4090", 165.2e12, 1008e9).share(row) == pytest.approx(share)
    rows = dict(zip(_column("Network"), _column("4090 eager"), strict=True))
    assert rows["ResNet-50"] == pytest.approx(share, abs=5e-4)


def _column(name: str) -> list[object]:
    table = FOUND.tables["tbl-named"]
    place = [column.name for column in table.columns].index(name)
    return [row[place] for row in table.rows]


@pytest.mark.parametrize(
    ("network", "family"),
    [
        ("resnet50", "convolution"),
        ("repvgg_b3", "convolution"),
        ("regnety_640", "convolution"),
        ("mobilenetv2_100", "depthwise"),
        ("convnext_tiny", "depthwise"),
        ("convmixer_1536_20", "depthwise"),
        ("repvit_m1", "depthwise"),
        ("mobilevit_s", "attention"),
        ("xcit_nano_12_p8_224", "attention"),
        ("mixer_b16_224", "mixer"),
        ("a_name_of_tomorrow", None),
    ],
)
def test_a_name_tells_the_family(network: str, family: str | None) -> None:
    assert family_of(network) == family


def test_every_published_network_has_a_family() -> None:
    tables = survey_of(committed("gpu_survey")).tables.values()
    assert {row.network for table in tables for row in table.rows if row.family is None} == set()


def test_each_network_counts_once_at_the_usual_size() -> None:
    rows = [Row("net", "convolution", image, 8, 1.0, 1e9, 1e6, 1e6) for image in (160, 288, 224)]
    assert [row.image for row in once(rows)] == [224]


def test_gains_that_point_either_way_decide_nothing() -> None:
    """A gain of random sign for each network leaves a median of one undecided."""
    gain = survey_of(committed("gpu_survey")).gain("instead")
    random = Random(5)
    swapped = {name: g ** random.choice((1, -1)) for name, g in gain.numbers.items()}
    found = estimate(replace(gain, numbers=swapped).median)
    assert isinstance(found, Estimate)
    assert found.low <= 1 <= found.high


def test_few_networks_are_no_distribution() -> None:
    few = Distribution("gain", dict.fromkeys("abc", 2.0), ("file",))
    assert few.median.missing and few.count.missing and few.quantile(5).missing
