"""Labelled images to train on: real digits without a download, MNIST and CIFAR-10 from a folder.

``digits`` needs no file.  ``mnist`` and ``cifar10`` read a folder that the user has; nothing is
downloaded.  All of them give one immutable value, ``Images``, and ``identity`` says in bytes which
images they were, so that a run can keep that beside its record.
"""

from experiments.datasets.cifar_folder import cifar10
from experiments.datasets.images import Images, Split, held_out, identity, resplit, sample
from experiments.datasets.mnist_folder import handwritten, mnist
from experiments.datasets.refusal import DataSetError
from experiments.datasets.small_digits import digits

__all__ = [
    "DataSetError",
    "Images",
    "Split",
    "cifar10",
    "digits",
    "handwritten",
    "held_out",
    "identity",
    "mnist",
    "resplit",
    "sample",
]
