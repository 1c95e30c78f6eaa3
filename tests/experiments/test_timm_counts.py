"""What theory counts of timm's networks is what PyTorch's own counter says."""

from __future__ import annotations

from experiments.theory.counts import COUNTS, read_counts
from tests.factory import ROOT


def test_parameters_and_multiply_adds_are_exact_or_refused() -> None:
    networks = read_counts(ROOT / "data" / COUNTS)
    assert len(networks) == 1_371
    assert [each.network for each in networks if not (each.refused or each.exact)] == []
