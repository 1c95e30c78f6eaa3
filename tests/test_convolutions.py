"""What a convolution executes and takes on a CPU, against counts and against predictions."""

from __future__ import annotations

from typing import Any

import pytest

from report.studies.conv_profiling.subject import Dimensions
from report.theory.conditions import Conditions
from report.theory.convolution_workspaces import convolution_workspace
from report.theory.terms import LIBRARY, executed_terms
from report.theory.work import macs, output_bytes

BUILD = f"PyTorch built with:\n  - Intel(R) oneAPI {LIBRARY}-Product Build"

#: Multiply-adds that valgrind's lackey counted of one warm forward call in PyTorch 2.13.0 (one
#: thread, AVX2 kernels): (channels in and out, kernel, image), batch, count.
COUNTED = [
    ((32, 64, 3, 28), 1, 10_616_832),
    ((32, 64, 3, 28), 8, 84_934_656),
    ((32, 64, 3, 16), 1, 2_654_209),
    ((32, 64, 3, 20), 1, 4_718_593),
    ((32, 64, 3, 32), 8, 115_605_504),
    ((32, 64, 1, 28), 1, 1_392_641),
    ((32, 64, 1, 28), 8, 11_141_128),
    ((32, 64, 5, 28), 1, 24_780_800),
    ((20, 40, 3, 28), 1, 4_147_201),
    ((20, 40, 3, 28), 8, 39_813_120),
    ((16, 32, 3, 28), 1, 2_488_321),
    ((16, 32, 3, 28), 8, 21_233_664),
    ((8, 24, 3, 28), 1, 995_329),
    ((33, 65, 3, 28), 1, 14_929_920),
    ((33, 65, 3, 28), 8, 119_439_360),
    ((64, 128, 3, 28), 8, 339_738_624),
]


#: Predictions of the shapes that experiments/conv_profiling.py holds out, worked out apart from the
#: code before any of them ran: multiply-adds, and bytes at the peak, on vectors of eight.
PREDICTED = [
    ((9, 19, 3, 21), 1, 431_569, 115_600),
    ((9, 19, 3, 21), 8, 7_990_272, 420_832),
    ((17, 41, 3, 28), 1, 3_613_249, 446_976),
    ((17, 41, 3, 28), 8, 47_775_744, 1_640_448),
    ((13, 32, 2, 22), 1, 574_081, 121_296),
    ((13, 32, 2, 22), 8, 5_914_624, 739_328),
    ((40, 70, 3, 18), 1, 5_040_001, 337_120),
    ((40, 70, 3, 18), 8, 40_642_560, 890_624),
    ((50, 28, 3, 24), 1, 6_451_200, 224_384),
    ((50, 28, 3, 24), 8, 51_609_600, 1_341_696),
    ((12, 26, 1, 27), 1, 182_017, 65_000),
    ((12, 26, 1, 27), 8, 1_456_136, 520_000),
    ((31, 50, 5, 25), 1, 16_172_800, 328_128),
    ((31, 50, 5, 25), 8, 129_382_400, 1_368_160),
]
#: Bytes that torch's profiler showed at the peak of a call: vector, (shape), batch, peak.
PEAKS = [
    (8, (16, 32, 3, 28), 1, 405_504),
    (8, (32, 64, 1, 28), 1, 173_056),
    (16, (32, 64, 3, 28), 1, 307_712),
    (16, (32, 64, 3, 28), 8, 2_359_296),
    (16, (33, 65, 3, 28), 1, 452_800),
    (16, (33, 65, 3, 28), 8, 2_672_640),
    (16, (8, 24, 3, 28), 8, 1_032_192),
]


@pytest.mark.parametrize(
    ("dimensions", "batch", "count"), [*COUNTED, *(each[:3] for each in PREDICTED)]
)
def test_terms_lead_to_the_count(dimensions: Any, batch: int, count: int) -> None:
    layer = Dimensions(*dimensions).layer(batch)
    terms = executed_terms(layer, 1, BUILD, 8)
    assert macs(layer) + sum(term.amount for term in terms) == count


@pytest.mark.parametrize(
    ("width", "dimensions", "batch", "peak"), [*PEAKS, *((8, d, b, p) for d, b, _, p in PREDICTED)]
)
def test_terms_lead_to_the_peak(width: int, dimensions: Any, batch: int, peak: int) -> None:
    layer = Dimensions(*dimensions).layer(batch)
    taken = convolution_workspace(layer, False, Conditions(threads=1, block=width))
    assert output_bytes(layer) + sum(term.amount for term in taken.terms) == peak


def test_terms_are_always_the_same() -> None:
    shapes = {
        tuple(t.name for t in executed_terms(Dimensions(*d).layer(b), 1, BUILD, 8))
        for d, b, _ in COUNTED
    }
    assert len(shapes) == 1


def test_the_rule_of_a_library_is_not_used_for_another() -> None:
    layer = Dimensions(16, 32, 3, 28).layer(1)
    amounts = {t.name: t.amount for t in executed_terms(layer, 1, "OpenBLAS", 8)}
    assert amounts.pop("Factors converted") == 1
    assert set(amounts.values()) == {0}
