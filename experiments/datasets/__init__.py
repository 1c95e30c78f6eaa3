"""Handwritten digits to train on: scikit-learn's without a download, or MNIST from a folder."""

from functools import lru_cache
from pathlib import Path

from experiments.datasets.images import Images, digits
from experiments.datasets.mnist_folder import DataSetError, mnist

__all__ = ["DataSetError", "Images", "handwritten"]


@lru_cache(maxsize=1)
def handwritten(folder: Path | None) -> Images:
    """MNIST from ``folder``, or without one the digits of scikit-learn, scaled to its size.

    Kept between cases: a whole MNIST takes seconds.  Raises ``DataSetError``.
    """
    return digits() if folder is None else mnist(folder)
