"""Labelled images as one immutable value, which ones they are, and the digits of scikit-learn."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]

#: Every held-out part is drawn from this seed.
SEED: Final = 0
#: Of scikit-learn's digits one in so many is held out.
_HELD_OUT: Final = 5
#: They count the ink in blocks of 4 × 4 pixels: 0 to 16; here they have MNIST's size.
_BRIGHTEST: Final = 16
_SIZE: Final = 28


class Split(NamedTuple):
    """Images that serve one purpose, with their labels, both in 8 bits without a sign.

    ``pixels`` has the shape (images, height, width), 0 is black and 255 the brightest; ``labels``
    counts the classes from 0.
    """

    pixels: Bytes
    labels: Bytes


@dataclass(frozen=True, eq=False)
class Images:
    """A set of labelled images, split into what is trained on and what is tested on.

    ``name`` is a slug; ``source`` says where the images come from and what was done to them, and
    ``split`` how the two parts were made, both as clauses that fit into a sentence.
    """

    name: str
    source: str
    train: Split
    test: Split
    split: str

    @property
    def identity(self) -> bytes:
        """Which images these are, as JSON: counts, and the SHA-256 of all shapes and bytes."""
        digest = hashlib.sha256()
        for pixels, labels in (self.train, self.test):
            # Images of one channel, as they were when the first records were made.
            for array in (pixels[:, np.newaxis], labels):
                digest.update(f"{array.shape}".encode())
                digest.update(array.tobytes())
        content = {
            "name": self.name,
            "source": self.source,
            "split": self.split,
            "classes": list("0123456789"),
            "digest": digest.hexdigest(),
            "train": {"images": len(self.train.labels)},
            "test": {"images": len(self.test.labels)},
        }
        return json.dumps(content, sort_keys=True).encode() + b"\n"


def held_out(name: str, source: str, pixels: Bytes, labels: Bytes, count: int) -> Images:
    """The images, of which ``count`` are drawn for testing without regard to their labels.

    Both parts keep the order of the permutation.
    """
    total = len(labels)
    # RandomState and not default_rng: only its stream is promised to stay the same for ever.
    order = np.random.RandomState(SEED).permutation(total)
    test, train = order[:count], order[count:]
    said = f"{count:,} of {total:,} images, drawn at random (seed {SEED}), are held out for testing"
    return Images(
        name, source, Split(pixels[train], labels[train]), Split(pixels[test], labels[test]), said
    )


def digits() -> Images:
    """1,797 handwritten digits of 8 × 8 pixels, scaled to 28 × 28.

    They are the test part of UCI's Optical Recognition of Handwritten Digits, as
    ``sklearn.datasets.load_digits`` brings them along.  A fifth is held out at random.
    """
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch: Any = load_digits()
    labels = bunch.target.astype(np.uint8)
    source = (
        f"load_digits of scikit-learn: {len(labels):,} digits of 8×8 pixels, scaled to "
        f"{_SIZE}×{_SIZE} by bilinear interpolation between pixel centres"
    )
    pixels = bilinear(bunch.images.astype(np.int64), _SIZE, _BRIGHTEST)
    return held_out("digits", source, pixels, labels, len(labels) // _HELD_OUT)


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
