"""Subject of backend_speedup: a training iteration of a small network, in many sizes.

Letters: d pixels of an image, h neurons of the hidden layer, k classes, m images.
"""

from typing import Final, NamedTuple

from report.core.errors import StudyError
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors
from report.theory.work import training_macs

PIXELS: Final = 28**2
CLASSES: Final = 10
#: Neurons of the hidden layer in the source.
HIDDEN: Final = 10

#: Library calls of an iteration: products, biases, ReLU, softmax, gradients, update.
ALL_CALLS: Final = 5 + 2 + 1 + 5 + 10 + 8
#: Library calls if PyTorch computes softmax, ReLU's gradient and the update in one call each.
MERGED_CALLS: Final = 17
#: Numbers of calls that are compared with ``ALL_CALLS``: merged calls, 4 divisions less, and twice
#: and 11 times all calls, where each extra call adds two arrays of one element.
OTHER_CALLS: Final = (MERGED_CALLS, ALL_CALLS - 4, 2 * ALL_CALLS, 11 * ALL_CALLS)

#: Levels of the factor ``change`` in records: NumPy's baseline on a CPU, and single changes to it.
UNCHANGED: Final = "none"
THREAD: Final = "second thread"
RETURNED: Final = "returned memory"
DOUBLE: Final = "double precision"
FUSED: Final = "fused ReLU"
CHANGES: Final = (THREAD, RETURNED, DOUBLE, FUSED)

#: Names of the libraries in print.
LIBRARIES: Final = {
    "numpy": "NumPy", "torch": "PyTorch", "torch_cuda": "PyTorch CUDA", "cupy": "CuPy",
}  # fmt: skip
#: Libraries that compute on a GPU.
GPU_LIBRARIES: Final = {"cupy": "CuPy", "torch_cuda": "PyTorch"}


class Size(NamedTuple):
    """Size of an iteration: numbers of hidden neurons and of images."""

    hidden: int
    images: int

    def __str__(self) -> str:
        return f"hidden {self.hidden}, samples {self.images}"

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of an iteration's five matrix products; the images need no gradient."""
        h, m = self.hidden, self.images
        return m * (2 * PIXELS * h + 3 * h * CLASSES)


#: The source's network with 60,000 images (as in MNIST), with fewer, and with a single image.
SOURCE, FEWER = Size(HIDDEN, images=60_000), Size(HIDDEN, images=16_000)
SMALL, ONE_IMAGE = Size(HIDDEN, images=1_000), Size(HIDDEN, images=1)
#: Training images of scikit-learn's digits.
DIGITS_IMAGES: Final = 1_438
#: The source's network with these images: the smallest size of the earlier session.
DIGITS_SIZE: Final = Size(HIDDEN, DIGITS_IMAGES)
#: A wide network of about the source's work.
WIDE: Final = Size(hidden=512, images=DIGITS_IMAGES)
#: The most work at which CuPy's time hardly grows, chosen after the run.
LARGEST_FLAT: Final = Size(hidden=2_048, images=DIGITS_IMAGES)
#: The two sizes with more work than ``LARGEST_FLAT``.
LARGE, WIDEST = Size(hidden=128, images=60_000), Size(hidden=2_048, images=16_000)
#: Networks for which the effects of changes are predicted.
NETWORKS: Final = {"narrow": SOURCE, "wide": WIDE}

_REQUIRED_FACTORS: Final[dict[str, AllowedLevels]] = {
    "dtype": ("float32", "float64"), "samples": int, "dataset": str, "backend": str,
}  # fmt: skip
#: Factors that cases may lack.  ``network`` and ``execution`` are in older records, of which the
#: study uses only the perceptrons.
_OPTIONAL_FACTORS: Final[dict[str, AllowedLevels]] = {
    "hidden": int,
    "network": ("perceptron", "convnet"),
    "execution": ("eager", "compiled", "inductor"),
    "change": str,
    "calls": int,
}


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for unknown factors, or multiply-adds that the factors do not give."""
    subjects = ("training", "scaling", "change", "calls")
    check_factors(stored, dict.fromkeys(subjects, _REQUIRED_FACTORS), _OPTIONAL_FACTORS)
    for index, case in enumerate(stored.record.cases):
        factors = case.factors
        if not case.layers or factors.get("network", "perceptron") != "perceptron":
            continue
        size = Size(int(factors.get("hidden", HIDDEN)), int(factors.get("samples", 0)))
        multiply_adds = training_macs(case.layers)
        if multiply_adds != size.multiply_adds:
            raise StudyError(
                f"data/{stored.file}: cases[{index}].layers: an iteration has {multiply_adds:,} "
                f"multiply-adds, expected {size.multiply_adds:,}; run the experiment of this "
                "version again."
            )
