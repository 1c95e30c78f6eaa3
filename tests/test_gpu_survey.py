"""gpu_survey: bytes and rooflines by hand, pairs of published rates, the paper's program.

The study compares published tables of image rates of networks; each table has a setting, that is,
a GPU, a version of PyTorch, a precision and a compiler.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import pytest
import torch
from pytest import approx
from torch import nn

from benchmarks.timm_networks import mixed_precision_bytes
from report.commands.check import read_pins
from report.core.errors import RecordError
from report.core.records import OPERATORS
from report.core.records import network_operators as operators
from report.core.records.files import gzipped
from report.core.records.store import StoredImport
from report.engine.steps import ROOT
from report.paper.findings import Inputs
from report.studies.gpu_survey import subject
from report.studies.gpu_survey.results import Survey
from report.studies.gpu_survey.study import _RESULT_HEADINGS, CAUSES
from report.studies.gpu_survey.theory import BETWEEN_CONVOLUTIONS
from tests import papers
from tests.degraded import committed_inputs
from tests.test_documents import run_python, template_of

OPERATORS_FILE = ROOT / "data" / OPERATORS
STUDY = "gpu_survey"


@cache
def survey() -> Survey:
    """Return the results of the committed tables."""
    return Survey(committed_inputs(STUDY))


class _Float16GroupNorm(nn.GroupNorm):
    """A group normalization that stays in float16, as timm's switch makes it."""

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", enabled=False):
            weight, bias = self.weight.half(), self.bias.half()
            return nn.functional.group_norm(source, self.num_groups, weight, bias)


def test_normalizations_between_convolutions_move_the_bytes_that_the_table_counts() -> None:
    """The sums of the table's columns hold for a feature map of 64 x 32 x 32 under autocast."""

    def moved_bytes(*between: nn.Module) -> int:
        first, second = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 8, 1)
        return mixed_precision_bytes(lambda: nn.Sequential(first, *between, second), (3, 32, 32))

    sums = map(sum, zip(*BETWEEN_CONVOLUTIONS.values(), strict=True))
    norms = nn.BatchNorm2d(64), _Float16GroupNorm(8, 64), nn.GroupNorm(8, 64)
    only_convolutions = moved_bytes()
    for norm, bytes_per_element in zip(norms, sums, strict=True):
        added = moved_bytes(norm, nn.ReLU(inplace=True)) - only_convolutions
        assert added / (64 * 32 * 32) == approx(bytes_per_element, rel=0.01)


def test_attention_on_a_part_of_an_image_moves_its_operands_and_its_result() -> None:
    """The part has 4 · 8 · 7 = 224 elements, of 4 B in float32 and of 2 B in float16."""

    class Attention(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            part = images[..., 1:].contiguous()
            return nn.functional.scaled_dot_product_attention(part, part, part)

    copy, three_casts, three_reads_and_a_write = 4 + 4, 3 * (4 + 2), 4 * 2
    bytes_per_element = copy + three_casts + three_reads_and_a_write
    assert mixed_precision_bytes(Attention, (4, 8, 8)) == 224 * bytes_per_element


def test_the_name_of_every_published_network_tells_whether_it_is_a_cnn() -> None:
    for table in survey().tables.values():
        for name in table.rows["network"]:
            assert subject.is_cnn(name) is not None, name


def test_the_table_of_causes_marks_contradictions_of_published_rates() -> None:
    """The last row of the table has the observations; each other row has a cause's predictions."""
    *causes, observed = (dict(zip(_RESULT_HEADINGS, row[1:], strict=True)) for row in CAUSES)
    assert observed == {
        "Group": "lose", "PRO": "gain", "Price": "float32", "BiT": "lose", "Twins": "equal",
        "Slope": "near 0",
    }  # fmt: skip
    for predictions in causes:
        for heading, prediction in predictions.items():
            is_marked = prediction.endswith("×")
            assert is_marked == (prediction.removesuffix(" ×") not in (observed[heading], "any"))


def scaled(rates: Mapping[str, float], networks: Mapping[str, float] = {}) -> Inputs:
    """Return published tables with scaled rates.

    ``rates`` maps the last words of a setting (GPU, version of PyTorch, compiler) to a factor.
    ``networks`` maps some networks to further factors in these settings.
    """
    inputs, imported = committed_inputs(STUDY), list[StoredImport]()
    for stored in inputs.imported:
        machine, compiler = stored.record.environment, stored.record.conditions["compiler"]
        setting = f"{machine.model} {machine.framework} {compiler}"
        factors = [factor for words, factor in rates.items() if setting.endswith(words)]
        cases = []
        for case in stored.record.cases if factors else ():
            factor = factors[0] * networks.get(str(case.factors["network"]), 1)
            rate = tuple(factor * sample for sample in case.samples("image_rate"))
            series = {**case.series, "image_rate": rate} if rate else case.series
            cases.append(msgspec.structs.replace(case, series=series))
        scaled_cases = tuple(cases) or stored.record.cases
        record = msgspec.structs.replace(stored.record, cases=scaled_cases)
        imported.append(replace(stored, record=record))
    return replace(inputs, imported=tuple(imported))


#: The last words of settings; "Edition" ends the name of the RTX PRO 6000.
EAGER_4090, EAGER_5090 = "4090 PyTorch 2.9.1 none", "5090 PyTorch 2.9.1 none"
EAGER_PRO, COMPILED_PRO = "Edition PyTorch 2.9.1 none", "Edition PyTorch 2.9.1 dynamo"
REFUTED = "refuted"


def test_other_rates_refute_each_claim() -> None:
    gains_by_layout = survey().comparisons["layout_on_4090"].networks["gain"].to_dict()
    papers.assert_other_verdicts(
        STUDY,
        # All networks gain twelve times as much from an RTX 4090 to an RTX 5090.
        (REFUTED, scaled({EAGER_5090: 1.2, EAGER_4090: 0.1}),
         "group-normalization-slows", "price-is-of-float32", "layout-spares-bit",
         "twins-show-the-switch"),
        # Networks gain two or three times as much as the bytes and the data sheets predict.
        (REFUTED, scaled({EAGER_5090: 3, EAGER_PRO: 2, COMPILED_PRO: 2}),
         "float32-predicts", "other-normalizations-agree", "operators-err-least"),
        # The newer GPU computes in channels-last order.
        (REFUTED, scaled({EAGER_5090: 1}, gains_by_layout), "gains-ignore-the-layout"),
        # A network gains more than the three backbones predict.
        (REFUTED, scaled({EAGER_5090: 1}, {"resnetv2_152x4_bit": 1.3}),
         "calibrated-float32-predicts-others"),
    )  # fmt: skip


def test_the_program_of_the_paper_prints_a_prediction(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    run_python(template_of(STUDY))
    pinned = read_pins(STUDY, ROOT / "data")
    assert pinned
    expected = [pinned.values[f"example_{name}"]["number"] for name in ("predicted", "grouped")]
    printed = capsys.readouterr().out.split()
    assert printed[::2] == ["predicted", "published"]
    assert [float(number) for number in printed[1::2]] == approx(expected, rel=1e-8)


def test_written_operators_are_sorted_and_a_missing_file_has_none(tmp_path: Path) -> None:
    networks = operators.read_operators(OPERATORS_FILE)
    operators.write_operators(tmp_path / OPERATORS, reversed(networks))
    assert (tmp_path / OPERATORS).read_bytes() == OPERATORS_FILE.read_bytes()
    assert operators.read_operators(tmp_path / "missing") == ()


OPERATORS_LINE = b'{"network":"a","side":8,"parameters":1,"operators":[["add",0,0,1,1]]}\n'


@pytest.mark.parametrize(("content", "message"), [
    (gzipped(OPERATORS_LINE)[:-9], "cannot be unpacked"),
    (gzipped(OPERATORS_LINE.replace(b":8", b":0")), ">= 1"),
    (gzipped(OPERATORS_LINE.replace(b"side", b"size")), "size"),
    (gzipped(2 * OPERATORS_LINE), "found a at 8 pixels twice"),
])  # fmt: skip
def test_the_error_of_a_damaged_file_is_one_sentence(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / OPERATORS).write_bytes(content)
    with pytest.raises(RecordError, match=f"{OPERATORS}.*{message}"):
        operators.read_operators(tmp_path / OPERATORS)
