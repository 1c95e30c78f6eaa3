"""Larger images from small ones, to the same bytes on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.images import Bytes


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
