"""Labelled images to train on: real digits without a download, or MNIST from a folder.

``digits`` needs no file.  ``mnist`` reads a folder that the user has; nothing is downloaded.  Both
give one immutable value, ``Images``, and ``identity`` says in bytes which images they were, so that
a run can keep that beside its record.
"""

from experiments.datasets.images import Images, Split, held_out, identity, resplit, sample
from experiments.datasets.mnist_folder import handwritten, mnist
from experiments.datasets.refusal import DataSetError
from experiments.datasets.small_digits import digits

__all__ = [
    "DataSetError",
    "Images",
    "Split",
    "digits",
    "handwritten",
    "held_out",
    "identity",
    "mnist",
    "resplit",
    "sample",
]
