"""Subject of backend_speedup: an iteration of a small network at one of many sizes.

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

#: Library calls: products, biases, ReLU, softmax, gradients, update.
ALL_CALLS: Final = 5 + 2 + 1 + 5 + 10 + 8
#: Library calls with PyTorch's own softmax, ReLU gradient and update.
MERGED_CALLS: Final = 17
#: Other numbers of library calls: merged, with fewer divisions, with calls added on one element.
OTHER_CALLS: Final = (MERGED_CALLS, 27, 62, 341)

#: Single changes of NumPy's baseline on a CPU, as records name them.
NONE: Final = "none"
THREAD: Final = "second thread"
RETURNED: Final = "returned memory"
DOUBLE: Final = "double precision"
FUSED: Final = "fused ReLU"
CHANGES: Final = (THREAD, RETURNED, DOUBLE, FUSED)

#: Names of the libraries in print.
NAMES: Final = {"numpy": "NumPy", "torch": "PyTorch", "torch_cuda": "PyTorch CUDA", "cupy": "CuPy"}
#: Libraries that compute on a GPU.
ON_GPU: Final = {"cupy": "CuPy", "torch_cuda": "PyTorch"}


class Size(NamedTuple):
    """Size of an iteration: neurons of the hidden layer, and images."""

    hidden: int
    images: int

    def __str__(self) -> str:
        return f"hidden {self.hidden}, samples {self.images}"

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the five matrix products; the images need no gradient."""
        h, m = self.hidden, self.images
        return m * (2 * PIXELS * h + 3 * h * CLASSES)


#: The source's network with 60,000 images, as in MNIST, with fewer, and with a single image.
SOURCE, FEWER, ONE_IMAGE = Size(HIDDEN, 60_000), Size(HIDDEN, 16_000), Size(HIDDEN, 1)
#: Training images of scikit-learn's digits.
SHARED_IMAGES: Final = 1_438
#: The smallest size of the earlier session, and a wide network of about the source's work.
SHARED, WIDE = Size(HIDDEN, SHARED_IMAGES), Size(512, SHARED_IMAGES)
#: Networks whose effects of changes are predicted.
NETWORKS: Final = {"narrow": SOURCE, "wide": WIDE}
#: The most work at which CuPy's time hardly grows, chosen after the run.
FLAT: Final = Size(2_048, SHARED_IMAGES)
#: The least work, and the two sizes with more work than ``FLAT``.
SMALL, LARGE, WIDEST = Size(10, 1_000), Size(128, 60_000), Size(2_048, 16_000)

_NEEDED: Final[dict[str, AllowedLevels]] = {
    "dtype": ("float32", "float64"),
    "samples": int,
    "dataset": str,
    "backend": str,
}
#: Optional factors, some of older records; the study uses their perceptrons only.
_OPTIONAL: Final[dict[str, AllowedLevels]] = {
    "hidden": int,
    "network": ("perceptron", "convnet"),
    "execution": ("eager", "compiled", "inductor"),
    "change": str,
    "calls": int,
}
_SUBJECTS: Final = ("training", "scaling", "change", "calls")


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case trained a perceptron of another size than its factors say."""
    check_factors(stored, dict.fromkeys(_SUBJECTS, _NEEDED), _OPTIONAL)
    for index, case in enumerate(stored.record.cases):
        factors = case.factors
        if not case.layers or factors.get("network", "perceptron") != "perceptron":
            continue
        size = Size(int(factors.get("hidden", HIDDEN)), int(factors.get("samples", 0)))
        ran = training_macs(case.layers)
        if ran != size.multiply_adds:
            raise StudyError(
                f"data/{stored.file}: cases[{index}].layers: an iteration has {ran:,} "
                f"multiply-adds, expected {size.multiply_adds:,}; run the experiment of this "
                "version again."
            )
