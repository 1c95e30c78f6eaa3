"""The real digits that come with scikit-learn, scaled to another size."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from experiments.datasets.images import Images, held_out
from experiments.datasets.scaling import bilinear

DIGITS: Final = tuple("0123456789")

#: ``load_digits`` counts the ink in blocks of 4×4 pixels: 0 to 16.
_BRIGHTEST: Final = 16


def digits(size: int = 28, channels: int = 1) -> Images:
    """1,797 handwritten digits of 8×8 pixels, scaled to ``(channels, size, size)``.

    They are the test part of UCI's Optical Recognition of Handwritten Digits, as
    ``sklearn.datasets.load_digits`` brings them along.  A fifth is held out at random.  More than
    one channel repeats the same grey values.
    """
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch: Any = load_digits()
    small = bunch.images.astype(np.int64)
    pixels = np.repeat(bilinear(small, size, _BRIGHTEST)[:, np.newaxis], channels, axis=1)
    train, test, split = held_out(pixels, bunch.target.astype(np.uint8))
    return Images("digits", train, test, DIGITS, _source(len(small), size, channels), split)


def _source(count: int, size: int, channels: int) -> str:
    repeated = "" if channels == 1 else f", repeated in {channels} channels"
    return (
        f"load_digits of scikit-learn: {count:,} digits of 8×8 pixels, scaled to {size}×{size} "
        f"by bilinear interpolation between pixel centres{repeated}"
    )
