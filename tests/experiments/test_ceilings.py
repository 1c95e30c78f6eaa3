"""The machine's ceilings come from a process of their own."""

from __future__ import annotations

import pytest

from experiments.harness import ceilings
from experiments.harness.ceilings import Sizes
from report.errors import MeasurementError


def test_all_ceilings_from_a_new_process() -> None:
    torch = pytest.importorskip("torch")
    *products, copy = ceilings.measure_isolated("cpu", 1, "small", "before")
    sizes = ceilings.SIZES["cpu", "small"]
    side = f"{sizes.side}x{sizes.side}x{sizes.side}"
    libraries = [side, f"{side} by oneDNN"] if torch.backends.mkldnn.is_available() else [side]
    assert [product.size for product in products] == libraries
    for product in products:
        assert (product.operation, product.work_unit) == ("matrix_product", "FLOP")
        assert product.work == 2 * sizes.side**3
    assert (copy.operation, copy.work_unit) == ("copy", "B")
    assert copy.work == 2 * 4 * sizes.elements
    for ceiling in (*products, copy):
        assert ceiling.moment == "before"
        assert len(ceiling.samples) == sizes.runs
        assert all(sample > 0 for sample in ceiling.samples)


def test_none_asked_for_none_measured() -> None:
    assert ceilings.measure_isolated("cpu", 1, "none", "after") == ()


def test_a_process_that_fails_is_one_sentence() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(MeasurementError, match=r"not be measured: .*no CUDA device") as caught:
        ceilings.measure_isolated("cuda", 1, "small", "before")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sizes", ceilings.SIZES.values())
def test_a_copy_is_larger_than_a_cache_and_a_product_is_bound_by_arithmetic(sizes: Sizes) -> None:
    assert 2 * 4 * sizes.elements >= 128 * 2**20
    assert 2 * sizes.side**3 / (3 * 4 * sizes.side**2) > 100  # FLOP/B, above any device's ridge
