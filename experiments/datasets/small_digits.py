"""The real digits that come with scikit-learn, scaled to another size."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.images import Bytes, Images, held_out

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
    return Images("digits", train, test, _source(len(small), size, channels), split)


def _source(count: int, size: int, channels: int) -> str:
    repeated = "" if channels == 1 else f", repeated in {channels} channels"
    return (
        f"load_digits of scikit-learn: {count:,} digits of 8×8 pixels, scaled to {size}×{size} "
        f"by bilinear interpolation between pixel centres{repeated}"
    )


def bilinear(images: NDArray[np.integer], size: int, brightest: int) -> Bytes:
    """``(N, n, n)`` with values from 0 to ``brightest`` as ``(N, size, size)``, 0 to 255.

    Bilinear interpolation between the centres of pixels, the edge pixels continued outwards, as
    ``torch.nn.functional.interpolate(mode="bilinear", align_corners=False)`` does.  All of it is
    done in whole numbers and rounded once (half upwards), so that nothing depends on how a machine
    rounds.
    """
    weights = _weights(images.shape[-1], size)
    sums = weights @ images.astype(np.int64) @ weights.T
    whole = (2 * size) ** 2 * brightest
    scaled: Bytes = ((2 * 255 * sums + whole) // (2 * whole)).astype(np.uint8)
    return scaled


def _weights(old: int, new: int) -> NDArray[np.int64]:
    """How much each old pixel gives to each new one along an axis, ``(new, old)``.

    The weights of a new pixel add up to ``2 * new``.
    """
    # The centre of new pixel i lies at (i + 1/2) * old / new - 1/2 = doubled / (2 * new).
    doubled = np.clip((2 * np.arange(new) + 1) * old - new, 0, 2 * new * (old - 1))
    left, share = np.divmod(doubled, 2 * new)
    weights = np.zeros((new, old), dtype=np.int64)
    rows = np.arange(new)
    weights[rows, left] += 2 * new - share
    weights[rows, np.minimum(left + 1, old - 1)] += share
    return weights
