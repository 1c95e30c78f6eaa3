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

#: Library calls of an iteration, summed over products, biases, ReLU, softmax, gradients, update.
ALL_CALLS: Final = 5 + 2 + 1 + 5 + 10 + 8
#: Library calls if PyTorch computes softmax, ReLU's gradient and each update in one call, and
#: divides the learning rate by the number of images instead of dividing four gradients.
MERGED_CALLS: Final = 17
#: Numbers of calls that are compared with ``ALL_CALLS``: merged calls, calls without the four
#: divisions, and twice and 11 times all calls.  Each extra call adds two arrays of one element.
OTHER_CALLS: Final = (MERGED_CALLS, ALL_CALLS - 4, 2 * ALL_CALLS, 11 * ALL_CALLS)

#: Levels of the factor ``change`` in records: NumPy's baseline on a CPU, and single changes to it.
UNCHANGED: Final = "none"
SECOND_THREAD: Final = "second thread"
MEMORY_RETURNED: Final = "returned memory"
DOUBLE_PRECISION: Final = "double precision"
FUSED_RELU: Final = "fused ReLU"
CHANGES: Final = (SECOND_THREAD, MEMORY_RETURNED, DOUBLE_PRECISION, FUSED_RELU)

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
        """Multiply-adds of an iteration's five matrix products."""
        h, m = self.hidden, self.images
        return m * (2 * PIXELS * h + 3 * h * CLASSES)


#: The source's network with 60,000 images (as in MNIST), with fewer images, and with one image.
SOURCE_SIZE, MIDDLE_SIZE = Size(HIDDEN, images=60_000), Size(HIDDEN, images=16_000)
SMALL_SIZE, ONE_IMAGE = Size(HIDDEN, images=1_000), Size(HIDDEN, images=1)
#: Training images of scikit-learn's digits.
DIGITS_IMAGES: Final = 1_438
#: The source's network with these images: the smallest size of the earlier session.
DIGITS_SIZE: Final = Size(HIDDEN, DIGITS_IMAGES)
#: A network with more hidden neurons on fewer images, of about the work of ``SOURCE_SIZE``.
WIDE_SIZE: Final = Size(hidden=512, images=DIGITS_IMAGES)
#: The size with the most work up to which CuPy's time hardly grows; chosen after the run.
LARGEST_FLAT_SIZE: Final = Size(hidden=2_048, images=DIGITS_IMAGES)
#: The two sizes with more work than ``LARGEST_FLAT_SIZE``.
LARGE_SIZE, WIDEST_SIZE = Size(hidden=128, images=60_000), Size(hidden=2_048, images=16_000)
#: Networks for which the effects of changes are predicted.
NETWORKS: Final = {"narrow": SOURCE_SIZE, "wide": WIDE_SIZE}

_REQUIRED_FACTORS: Final[dict[str, AllowedLevels]] = {
    "dtype": ("float32", "float64"), "samples": int, "dataset": str, "backend": str,
}  # fmt: skip
#: Factors that cases may lack.  ``network`` and ``execution`` occur in older records, from which
#: the study uses only the perceptrons.
_OPTIONAL_FACTORS: Final[dict[str, AllowedLevels]] = {
    "hidden": int,
    "network": ("perceptron", "convnet"),
    "execution": ("eager", "compiled", "inductor"),
    "change": str,
    "calls": int,
}


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for unknown factors, or if multiply-adds contradict the factors."""
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
