"""What theory counts of timm's networks is what PyTorch's own counter says."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from experiments.theory.survey import read_counts


def test_parameters_and_multiply_adds_are_exact_or_refused() -> None:
    networks = read_counts()
    assert len(networks) == 1_371
    assert [each.network for each in networks if not (each.refused or each.exact)] == []
