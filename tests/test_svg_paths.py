"""Paths of figures get shorter and stay where they are."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.drawing.svg import shorten

#: A grid of quarters, which rounding keeps, so that lines are often level or upright.
COORDINATE = st.integers(-8, 8).map(lambda n: n / 4)
POINT = st.tuples(COORDINATE, COORDINATE)


def _path(points: list[tuple[float, float]]) -> str:
    lines = [f"{'L' if index else 'M'} {x} {y} \n" for index, (x, y) in enumerate(points)]
    return f'<path d="{"".join(lines)}" style="fill: none"/>'


def _points(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) ([^\s\"]+)", svg)]


def _length(points: list[tuple[float, float]]) -> float:
    return sum(abs(c - a) + abs(d - b) for (a, b), (c, d) in pairwise(points))


@given(st.lists(POINT, min_size=1, max_size=12))
def test_a_shorter_path_covers_the_same_way(points: list[tuple[float, float]]) -> None:
    shorter = shorten(_path(points))
    kept = iter(points)
    assert all(point in kept for point in _points(shorter))
    assert _points(shorter)[-1] == points[-1]
    assert _length(_points(shorter)) == pytest.approx(_length(points))
    assert shorten(shorter) == shorter


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("M 1.234567 2 \nL 3.999999 -0.001 \nz\n", "M 1.23 2 L 4 0 z"),
        ("M 0 0 \nL 1 0 \nL 2 0 \nL 1 0 \n", "M 0 0 L 2 0 L 1 0"),
        ("M 1 1 \nL 1 1 \n", "M 1 1 L 1 1"),
        ("M 0 0 \nC 0 1.005001 1 1 1 0 \nL 2 0 \n", "M 0 0 C 0 1.01 1 1 1 0 L 2 0"),
    ],
)
def test_paths(written: str, expected: str) -> None:
    assert shorten(f'<path d="{written}"/>') == f'<path d="{expected}"/>'
