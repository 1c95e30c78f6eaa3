"""gpu_survey: published rates by hand, and what distributions of gains decide."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from report.engine.computing import compute
from report.evidence.published_rates import Row, Setting, Work, family_of, once
from report.evidence.published_survey import Roof
from report.missing import Missing
from report.paper.findings import Findings
from report.quantity.distribution import Distribution
from report.quantity.evaluation import estimate
from report.statistics.estimates import Estimate
from report.studies.gpu_survey.settings import MIDDLE, eager
from report.studies.gpu_survey.study import survey_of
from tests.degraded import committed
from tests.papers import value

FOUND: Findings = compute("gpu_survey", committed("gpu_survey"))


#: One image of 224 pixels: by hand from its layers, and as timm's tables print it.
RESNET = Work(4_089_184_256, 11_114_984, 25_557_032)
PRINTED = Work(4.11e9, 11.11e6, 25.56e6)


@cache
def resnet(setting: Setting) -> Row:
    """The row of ResNet-50 at its usual size."""
    rows = survey_of(committed("gpu_survey")).tables[setting].rows
    (row,) = (row for row in rows if row.key == ("resnet50", 224, 1024))
    return row


def test_shares_of_resnet_by_hand() -> None:
    """RTX 4090, PyTorch 2.9.1: 4,302.84 images/s at a batch of 1,024."""
    row = resnet(eager(MIDDLE))
    assert (row.rate, row.printed) == (4302.84, PRINTED)
    assert row.captured is not None and row.captured.moved is not None
    assert replace(row.captured, moved=None) == RESNET
    fused = 2 * (2 * 11_114_984 + 25_557_032 / 1024)
    assert row.intensity() == pytest.approx(2 * 4_089_184_256 / fused)
    share = 2 * 4_089_184_256 * 4302.84 / min(165.2e12, 1008e9 * 2 * 4_089_184_256 / fused)
    assert Roof("RTX 4090", 165.2e12, 1008e9).share(row) == pytest.approx(share)


def test_eager_traffic_of_resnet_by_hand() -> None:
    """Every map is written by its convolution, and read and written by what follows.

    Its 53 convolutions put out 11,113,984 elements, which as many normalisations read and write, 49
    activations too, and the rest are inputs of convolutions, sums, pooling and the classifier.
    """
    row = resnet(eager(MIDDLE))
    assert row.captured is not None and row.captured.moved is not None
    maps = 11_113_984
    assert 3 * maps < 6 * maps < row.captured.moved < 8 * maps
    assert row.intensity(fused=False) < row.intensity()


def test_published_counts_stand_in_where_theory_has_another_network() -> None:
    row = resnet(eager(MIDDLE))
    other = replace(row, captured=None)
    assert other.counts == PRINTED and other.counted
    assert other.intensity(fused=False) == 0
    assert not replace(other, printed=Work(0, 0, 0)).counted
    (merged,) = (
        row
        for row in survey_of(committed("gpu_survey")).tables[eager(MIDDLE)].rows
        if row.network == "repvgg_b3" and row.image == 224
    )
    assert merged.captured is None


def test_without_the_file_of_counts_published_ones_are_used() -> None:
    inputs = replace(committed("gpu_survey"), networks=())
    found = compute("gpu_survey", inputs)
    fused, usual = (
        estimate(survey_of(each).share(eager(MIDDLE), fused=True).median)
        for each in (inputs, committed("gpu_survey"))
    )
    assert isinstance(fused, Estimate) and isinstance(usual, Estimate)
    assert fused.value == pytest.approx(usual.value, rel=0.02)
    assert isinstance(found.values["middle_share"].number, Missing)
    assert found.claims["memory-side"].verdict == "not measured"
    assert found.claims["compiler-beats-card"].verdict == "supported"


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
    rows = [Row("net", "convolution", image, 8, 1.0, PRINTED) for image in (160, 288, 224)]
    assert [row.image for row in once(rows)] == [224]


def test_networks_with_other_parameters_are_no_pair() -> None:
    """RTX 4090: repvgg_b3 had 123.09 M parameters with PyTorch 2.4, merged 110.96 M with 2.9."""
    gain = survey_of(committed("gpu_survey")).gain("torch_291")
    assert "repvgg_b3" not in gain.numbers and "resnet50" in gain.numbers
    assert gain.cut(95) < 1.05


def test_what_data_sheets_let_expect_by_hand() -> None:
    """936 to 1008 and 1792 GB/s, 71 to 165.2 and 209.5 TFLOP/s."""
    factors = [value(FOUND, f"card_{card}_{what}") for card, what in _FACTORS]
    assert factors == pytest.approx([1008 / 936, 165.2 / 71, 1792 / 1008, 209.5 / 165.2])
    for claim in ("bandwidth-predicts", "peak-predicts", "compiled-gain-less"):
        assert FOUND.claims[claim].verdict == "refuted"
    for low, id, high in (("bandwidth", "card_4090", "peak"), ("peak", "card_5090", "bandwidth")):
        gain = value(FOUND, f"{id}_gain")
        assert value(FOUND, f"{id}_{low}") < gain < value(FOUND, f"{id}_{high}")


_FACTORS = [(card, what) for card in (4090, 5090) for what in ("bandwidth", "peak")]


def test_a_share_of_networks_has_an_interval_and_a_single_one_three_digits() -> None:
    gain = Distribution("gain", {str(n): 0.9 + n / 3000 for n in range(400)}, ("file",))
    faster = estimate(gain.share("that gain", lambda each: each > 1))
    assert isinstance(faster, Estimate)
    assert (faster.value, faster.n) == (99 / 400, 400) and faster.low < 0.2475 < faster.high
    table = FOUND.tables["tbl-comparisons"]
    shown = {
        name: cell
        for name, *_, cell in ([*map(table.cell_text, row, table.columns)] for row in table.rows)
    }
    assert shown["Compile, RTX 5090, v2.9"] == "2.83"


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
