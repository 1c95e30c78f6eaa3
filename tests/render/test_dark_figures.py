"""Figures in the dark: what the style sheet's filter makes of their colours."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from figures.drawing import style
from report.render.pandoc import TEMPLATES


def weighted(weights: tuple[float, ...], parts: tuple[float, ...]) -> float:
    return sum(weight * part for weight, part in zip(weights, parts, strict=True))


def turned(colour: str) -> tuple[float, ...]:
    """What the style sheet's filter makes of a colour in the dark, by the matrices of the W3C's
    Filter Effects, https://www.w3.org/TR/filter-effects-1/: red, green, blue from 0 to 1."""
    css = (TEMPLATES / "html" / "assets" / "style.css").read_text("utf-8")
    turn = r"--turned: invert\((.*?)\) hue-rotate\(180deg\) saturate\((.*?)\);"
    invert, saturate = map(float, re.findall(turn, css)[0])
    given = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    rgb = tuple(invert + (1 - 2 * invert) * part for part in given)
    for amount in (-1.0, saturate):  # half a turn of the hue is a saturation of -1
        grey = weighted((0.213, 0.715, 0.072), rgb)
        rgb = tuple(min(1, max(0, grey + amount * (part - grey))) for part in rgb)
    return rgb


def luminance(rgb: tuple[float, ...]) -> float:
    """As WCAG 2.2 defines it."""
    linear = tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    return weighted((0.2126, 0.7152, 0.0722), linear)


def contrast(colour: str) -> float:
    """Of a colour and the white of the print, both turned over."""
    return (luminance(turned(colour)) + 0.05) / (luminance(turned("#ffffff")) + 0.05)


def test_the_ground_of_a_figure_is_that_of_its_card() -> None:
    assert [round(255 * part) for part in turned("#ffffff")] == [0x1C] * 3


@pytest.mark.parametrize(
    ("colours", "least"),
    [((style.INK,), 7), ((style.THEORY, style.MUTED), 4.5), (style.SERIES_COLOURS, 3)],
)
def test_text_and_series_keep_the_contrast_that_wcag_asks(
    colours: tuple[str, ...], least: float
) -> None:
    assert min(map(contrast, colours)) >= least


def test_series_are_told_apart() -> None:
    pairs = itertools.combinations(map(turned, style.SERIES_COLOURS), 2)
    assert min(math.dist(*pair) for pair in pairs) > 0.2
