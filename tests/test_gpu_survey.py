"""gpu_survey: rooflines by hand, pairs of published rates, and the program in the paper."""

from __future__ import annotations

import contextlib
import gzip
import io
import re
from functools import cache
from pathlib import Path

import pytest
from scipy.stats import spearmanr

from report.engine.pipeline import ROOT
from report.errors import RecordError
from report.evidence.published import Card, moved, seconds
from report.records import OPERATORS
from report.records.network_operators import (
    NetworkOperators,
    Operator,
    Read,
    read_operators,
    write_operators,
)
from report.studies.gpu_survey.study import Survey
from tests.degraded import committed
from tests.papers import value_of

FILE = ROOT / "data" / OPERATORS
CARD = Card("card", peak=1e12, bandwidth=1e10, cache=1e6)


@cache
def survey() -> Survey:
    return Survey(committed("gpu_survey"))


@pytest.mark.parametrize(
    ("name", "parameters", "macs"),
    [("resnet50", 25_557_032, 4_089_184_256), ("mobilenetv2_100", 3_504_872, 300_774_272)],
)
def test_operators_are_those_by_hand(name: str, parameters: int, macs: int) -> None:
    """At 224 pixels, by the shapes of their layers."""
    (network,) = (each for each in read_operators(FILE) if each.network == name)
    assert network.parameters == parameters
    assert sum(each.multiply_adds for each in network.operators) == macs


def test_the_rooflines_of_two_operators_by_hand() -> None:
    """A product of 2 GFLOP takes 2 ms, a sum of 30 MB takes 3 ms, which a compiler merges.

    Together they take 2 ms of arithmetic beside 3 ms of memory.
    """
    product = Operator("convolution", 10**9, 0, (Read(500, -1),), 500)
    added = Operator("add", 0, 0, (Read(5 * 10**6, -1), Read(5 * 10**6, -1)), 5 * 10**6)
    network = NetworkOperators(network="net", side=8, parameters=1, operators=(product, added))
    assert seconds(network, 1, CARD, "operators") == pytest.approx(5e-3)
    assert seconds(network, 1, CARD, "merged") == pytest.approx(2e-3)
    assert seconds(network, 1, CARD, "network") == pytest.approx(3e-3, rel=1e-3)


@pytest.mark.parametrize(("distance", "batch", "read"), [(5, 1, 0), (5, 2, 1), (-1, 1, 1)])
def test_what_fits_into_the_cache_is_not_read_again(distance: int, batch: int, read: int) -> None:
    operators = Operator("add", 0, 7, (Read(3, distance),), 2), Operator("cat", 0, 0, (), 1)
    network = NetworkOperators(network="net", side=8, parameters=1, operators=operators)
    assert [*moved(network, batch, cache=10)] == [2 * (7 + batch * (3 * read + 2)), 2 * batch]
    assert [*moved(network, batch)] == [2 * (7 + batch * 5), 2 * batch]


def test_the_rank_correlation_is_that_of_scipy() -> None:
    pair = survey().pairs["first"]
    predicted, gain = pair.predicted("operators").numbers, pair.gain.numbers
    expected = spearmanr([*predicted.values()], [gain[name] for name in predicted]).statistic
    assert value_of(pair.order(pair.predicted("operators"))) == pytest.approx(expected, abs=0.005)


def test_a_gain_by_hand() -> None:
    """RTX 3090 to 4090, ResNet-50 at a batch of 1,024: the rates of both tables."""
    before, after, _ = survey().pairs["first"].known["resnet50"]
    assert (before.batch, after.batch) == (1024, 1024)
    gain = survey().pairs["first"].gain.numbers["resnet50"]
    assert gain == after.rate / before.rate
    assert survey().pairs["first"].over(2.0).numbers["resnet50"] == pytest.approx(2.0 / gain)


def test_every_published_network_is_known_by_a_rule() -> None:
    tables = survey().tables.values()
    assert {row.network for table in tables for row in table.rows if row.cnn is None} == set()


def test_the_program_of_the_paper_runs() -> None:
    template = (ROOT / "templates" / "papers" / "gpu_survey.qmd.j2").read_text("utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", template, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(ROOT):
        exec(program, {})
    predicted = survey().pairs["first"].predicted("operators").numbers
    assert float(printed.getvalue()) == pytest.approx(predicted["resnet50"])


# -------------------------------------------------------------------------------------- the file


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    networks = read_operators(FILE)
    write_operators(tmp_path / OPERATORS, reversed(networks))
    assert (tmp_path / OPERATORS).read_bytes() == FILE.read_bytes()
    assert read_operators(tmp_path / "none") == ()


LINE = b'{"network":"a","side":8,"parameters":1,"operators":[["add",0,0,[[1,-1]],1]]}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(LINE)[:-9], "cannot be unpacked"),
        (gzip.compress(LINE.replace(b'"side":8', b'"side":0')), ">= 1"),
        (gzip.compress(LINE.replace(b'"side"', b'"size"')), "size"),
    ],
    ids=range(3),
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / OPERATORS).write_bytes(content)
    with pytest.raises(RecordError, match=said) as refused:
        read_operators(tmp_path / OPERATORS)
    assert OPERATORS in str(refused.value)
