"""The value that every data set gives, its split, its identity, and the digits without a file."""

from __future__ import annotations

import json
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn")
from experiments.datasets import handwritten
from experiments.datasets.images import bilinear, held_out


def test_the_digits_are_the_same_bytes_everywhere() -> None:
    """Nothing in them depends on how a machine rounds or on the version of NumPy."""
    found = json.loads(handwritten(None).identity)
    digest = "6d88521e7f44b639579811aaba317eddfdcb408406281639778baebfc71d714e"
    assert (found["digest"], found["train"], found["test"]) == (
        digest, {"images": 1438}, {"images": 359},
    )  # fmt: skip


@settings(deadline=None, max_examples=30)
@given(old=st.integers(1, 9), new=st.integers(1, 40), data=st.data())
def test_scaling_rounds_the_exact_value_once(old: int, new: int, data: st.DataObject) -> None:
    """Against the interpolation written with fractions, one pixel at a time."""
    image = np.array(
        data.draw(st.lists(st.integers(0, 16), min_size=old * old, max_size=old * old))
    ).reshape(1, old, old)

    def at(values: Any, index: int) -> Any:
        place: Any = min(
            max((Fraction(2 * index + 1, 2) * old / new) - Fraction(1, 2), Fraction(0)), old - 1
        )
        left = floor(place)
        share = place - left
        return values(left) * (1 - share) + values(min(left + 1, old - 1)) * share

    got = bilinear(image, new, 16)
    for row in range(new):
        for column in range(new):
            exact = at(lambda y, c=column: at(lambda x, y=y: Fraction(int(image[0, y, x])), c), row)
            assert got[0, row, column] == floor(exact * 255 / 16 + Fraction(1, 2))


@settings(deadline=None)
@given(total=st.integers(2, 50), data=st.data())
def test_nothing_is_lost_or_doubled_by_holding_out(total: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, total - 1))
    pixels = np.arange(total, dtype=np.uint8).reshape(-1, 1, 1)
    found = held_out("name", "source", pixels, pixels.reshape(-1), count)
    assert len(found.test.labels) == count
    for part in (found.train, found.test):
        assert np.array_equal(part.pixels.reshape(-1), part.labels)
    assert sorted([*found.train.labels, *found.test.labels]) == list(range(total))
    assert found.split.startswith(f"{count} of {total}")
