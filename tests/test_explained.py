"""The reconciliations of conv_scaling on made-up runs: explained, unexplained and not counted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from report.paper.findings import Findings
from report.paper.tables import to_latex, to_markdown
from report.records.filed import parse
from report.records.layers import Convolution
from report.records.record import Case, Series
from report.text.format import NO_BREAK
from tests import factory
from tests.papers import found_in

ROOT = Path(__file__).parents[1]
MACS_AN_IMAGE = 10_616_832


def counted(case: Case, macs: int) -> Case:
    """A case with a count of executed multiply-adds beside what it has."""
    count = Series(quantity="lackey_multiply_adds", unit="MAC", samples=(macs,))
    return msgspec.structs.replace(case, series=(*case.series, count))


def variant(name: str, layer: Convolution, macs: int, batch: int = 1) -> Case:
    factors = {
        "subject": "variant",
        "variant": name,
        "batch": batch,
        "pass": "forward",
        "layout": "contiguous",
    }
    case = msgspec.structs.replace(factory.case(batch, layers=(layer,)), factors=factors)
    return counted(case, macs)


def of(*cases: Case) -> Findings:
    return found_in("conv_scaling", factory.record([*factory.layer_cases((1, 2, 4)), *cases]))


def test_the_count_of_the_layer_is_set_beside_theory() -> None:
    base = factory.layer_cases((1, 2, 4))
    cases = [
        counted(case, MACS_AN_IMAGE * int(case.factors["batch"]))
        if case.factors["pass"] == "forward"
        else case
        for case in base
    ]
    result = found_in("conv_scaling", factory.record(cases))
    rows = result.tables["tbl-executed"].rows
    assert [row[1:] for row in rows] == [
        (batch, MACS_AN_IMAGE * batch, 0, MACS_AN_IMAGE * batch, 0) for batch in (1, 2, 4)
    ]
    assert result.values["residual_executed"].number == 0


def test_a_count_beside_theory_is_printed_as_it_is() -> None:
    first, *rest = factory.layer_cases((1, 2, 4))
    result = found_in("conv_scaling", factory.record([counted(first, MACS_AN_IMAGE + 7), *rest]))
    assert result.values["residual_executed"].number == 7
    assert result.tables["tbl-executed"].rows[0][-1] == 7


def test_the_first_call_alone_also_makes_the_kernel() -> None:
    """Its size is taken from a case where both calls were counted, never from the residual."""
    first, second, *rest = factory.layer_cases((1, 2, 4))
    making = 5_295
    early = Series(
        quantity="lackey_multiply_adds_first", unit="MAC", samples=(MACS_AN_IMAGE + making,)
    )
    both = counted(msgspec.structs.replace(first, series=(*first.series, early)), MACS_AN_IMAGE)
    alone = msgspec.structs.replace(early, samples=(2 * MACS_AN_IMAGE + making,))
    only_first = msgspec.structs.replace(second, series=(*second.series, alone))
    result = found_in("conv_scaling", factory.record([both, only_first, *rest]))
    assert [row[3] for row in result.tables["tbl-executed"].rows] == [0, making]
    assert result.values["residual_executed"].number == 0


def test_channels_are_padded_to_the_vector() -> None:
    """33 output channels run as 40; a layer that does not is called unexplained."""
    layer = msgspec.structs.replace(factory.layer(1), output_shape=(1, 33, 24, 24))
    theory = 33 * 24 * 24 * 32 * 9
    good = of(variant("33 channels", layer, theory // 33 * 40))
    assert good.claims["variants-explained"].verdict == "supported"
    assert good.values["residual_variants"].number == 0
    bad = of(variant("33 channels", layer, theory))
    assert bad.claims["variants-explained"].verdict == "refuted"
    assert bad.values["residual_variants"].number == -(theory // 33 * 7)
    assert bad.values["variants_explained"].number == 0
    table = bad.tables["tbl-variants"]
    assert table.columns[-1].name == "Residual, unexplained"
    assert "33 channels, batch 1" in to_markdown(table).replace(NO_BREAK, " ")
    assert "unexplained" in to_latex(table)


def test_every_variant_of_a_run_on_one_thread_is_explained() -> None:
    """A committed record; its linear layer is the subject of another study."""
    path = ROOT / "data" / "conv_scaling" / "20261121T055231Z-amd-epyc-1t-83de62e2.json"
    result = found_in("conv_scaling", parse(path.read_bytes(), path.name))
    assert result.values["variants_counted"].number == 12
    assert result.values["variants_explained"].number == 12
    assert result.values["residual_variants"].number == 0


def test_padding_is_not_executed() -> None:
    layer = msgspec.structs.replace(factory.layer(1), padding=(1, 1), output_shape=(1, 64, 26, 26))
    taps = 3 * 26 - 2
    assert (
        of(variant("padding 1", layer, taps * taps * 64 * 32)).claims["variants-explained"].verdict
        == "supported"
    )


@pytest.mark.parametrize("id_", ["residual_executed", "residual_variants", "layout_gain"])
def test_what_was_not_counted_has_a_reason(id_: str) -> None:
    result = of()
    assert "tbl-executed" not in result.tables
    assert "tbl-variants" not in result.tables
    assert result.values[id_].as_json()["number"] is None
    assert result.values[id_].as_json()["reason"]
