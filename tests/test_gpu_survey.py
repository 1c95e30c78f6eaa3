"""gpu_survey: rooflines by hand, pairs of published rates, and the program in the paper."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import pytest
from scipy.stats import spearmanr

from report.engine.pipeline import ROOT
from report.errors import RecordError
from report.records import OPERATORS
from report.records.network_operators import (
    NetworkOperators,
    Operator,
    Read,
    read_operators,
    write_operators,
)
from report.studies.gpu_survey.study import Survey
from report.studies.gpu_survey.subject import is_cnn
from report.studies.gpu_survey.theory import Card, Networks
from tests.degraded import committed
from tests.papers import value_of
from tests.test_documents import blocks, paper

FILE = ROOT / "data" / OPERATORS
CARD = Card("card", peak=1e12, bandwidth=1e10, cache=1e6)


@cache
def survey() -> Survey:
    return Survey(committed("gpu_survey"))


def test_the_rooflines_of_two_operators_by_hand() -> None:
    """A product of 2 GFLOP takes 2 ms, a sum of 30 MB takes 3 ms, which a compiler merges.

    Together they take 2 ms of arithmetic beside 3 ms of memory.
    """
    product = Operator("convolution", 10**9, 0, (Read(500, -1),), 500)
    added = Operator("add", 0, 0, (Read(5 * 10**6, -1), Read(5 * 10**6, -1)), 5 * 10**6)
    network = NetworkOperators(network="net", side=8, parameters=1, operators=(product, added))
    seconds = Networks([network]).seconds
    assert [*seconds([1], CARD, "operators")] == [pytest.approx(5e-3)]
    assert [*seconds([1], CARD, "merged")] == [pytest.approx(2e-3)]
    assert [*seconds([1], CARD, "network")] == [pytest.approx(3e-3, rel=1e-3)]


@pytest.mark.parametrize(("distance", "batch", "read"), [(5, 1, 0), (5, 2, 1), (-1, 1, 1)])
def test_what_fits_into_the_cache_is_not_read_again(distance: int, batch: int, read: int) -> None:
    operators = Operator("add", 0, 7, (Read(3, distance),), 2), Operator("cat", 0, 0, (), 1)
    network = NetworkOperators(network="net", side=8, parameters=1, operators=operators)
    card = Card("card", peak=1, bandwidth=1, cache=10)
    moved = [
        Networks([network]).limits([batch], card, cached=cached)[1] for cached in (True, False)
    ]
    assert [*moved[0]] == [2 * (7 + batch * (3 * read + 2)), 2 * batch]
    assert [*moved[1]] == [2 * (7 + batch * 5), 2 * batch]


def test_gains_are_ratios_of_published_rates_and_ranked_as_scipy_does() -> None:
    """RTX 3090 to 4090; ResNet-50 at a batch of 1,024 by the rates of both tables."""
    pair = survey().pairs["first"]
    row, gain, predicted = (
        pair.known.loc["resnet50"],
        pair.gain.numbers,
        pair.predicted("operators"),
    )
    assert (row["image"], row["batch"]) == (224, 1024)
    assert gain["resnet50"] == row["rate_after"] / row["rate_before"]
    expected = spearmanr(predicted.numbers, gain[predicted.numbers.index]).statistic
    assert value_of(pair.order(predicted)) == pytest.approx(expected, abs=0.005)
    names = {name for table in survey().tables.values() for name in table.rows["network"]}
    assert [name for name in names if is_cnn(name) is None] == [], "no rule says what they are"


def test_the_program_of_the_paper_prints_a_prediction(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = blocks(paper("gpu_survey"), "python")
    monkeypatch.chdir(ROOT)
    exec(program, {})
    predicted = survey().pairs["first"].predicted("operators").numbers
    assert float(capsys.readouterr().out) == pytest.approx(predicted["resnet50"])


def test_operators_are_those_by_hand_and_are_written_as_they_are_read(tmp_path: Path) -> None:
    """ResNet-50 and MobileNetV2 at 224 pixels, by the shapes of their layers."""
    networks = read_operators(FILE)
    found = {n.network: (n.parameters, sum(o.multiply_adds for o in n.operators)) for n in networks}
    assert found["resnet50"] == (25_557_032, 4_089_184_256)
    assert found["mobilenetv2_100"] == (3_504_872, 300_774_272)
    write_operators(tmp_path / OPERATORS, reversed(networks))
    assert (tmp_path / OPERATORS).read_bytes() == FILE.read_bytes()
    assert read_operators(tmp_path / "none") == ()


LINE = b'{"network":"a","side":8,"parameters":1,"operators":[["add",0,0,[[1,-1]],1]]}\n'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"]]}", b"", "cannot be unpacked"),
        (b":8", b":0", ">= 1"),
        (b"side", b"size", "size"),
        (LINE, 2 * LINE, "found a at 8 pixels twice"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    content = gzip.compress(LINE.replace(old, new))
    (tmp_path / OPERATORS).write_bytes(content if new else content[:-9])
    with pytest.raises(RecordError, match=f"{OPERATORS}.*{said}"):
        read_operators(tmp_path / OPERATORS)
