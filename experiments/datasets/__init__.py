"""Labelled images to train on: real digits without a download, or MNIST from a folder.

``digits`` needs no file.  ``mnist`` reads a folder that the user has; nothing is downloaded.  Both
give one immutable value, ``Images``, and ``identity`` says in bytes which images they were, so that
a run can keep that beside its record.
"""

from functools import lru_cache
from pathlib import Path

from experiments.datasets.images import DataSetError, Images, Split, held_out, identity, resplit
from experiments.datasets.mnist_folder import mnist
from experiments.datasets.small_digits import digits

__all__ = [
    "DataSetError",
    "Images",
    "Split",
    "check",
    "digits",
    "handwritten",
    "held_out",
    "identity",
    "mnist",
    "resplit",
]


@lru_cache(maxsize=1)
def handwritten(folder: Path | None) -> Images:
    """MNIST from ``folder``, or without one the digits of scikit-learn, scaled to its size.

    Kept between cases: a whole MNIST takes seconds.
    """
    return digits() if folder is None else mnist(folder)


def check(folder: Path) -> None:
    """Look through the user's own images before anything is measured; raises ``DataSetError``."""
    handwritten(folder)
