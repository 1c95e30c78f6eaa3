"""Subject of conv_scaling: the cases of its records, their check, and constants of the paper."""

from typing import Final

from report.core.records.layers import Layer, Linear
from report.core.records.record import PASSES
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors, check_layers
from report.theory import heap
from report.theory.work import mnist_conv2, square_convolution

#: Subject of a case (see ``experiments.conv_scaling``) → its required factors.
_FACTORS_BY_SUBJECT: Final[dict[str, dict[str, AllowedLevels]]] = {
    "layer": {"batch": int, "pass": PASSES, "layout": ("contiguous", "channels_last")},
    "cliff": {"layer": str, "batch": int},
    "sweep": {"network": str, "batch": int},
    "cure": {"network": str, "mode": str, "batch": int},
    "top": {"layer": str, "batch": int},
}
#: Times that differ by less than this share are no finding: runs of a machine differ by as much.
MARGIN: Final = 0.1
#: A batch size whose call no longer fits the cache, and the largest one of a GPU.
LARGE_BATCH: Final = 512
LARGEST_BATCH: Final = 1024
#: Images of a call from which on the copy of the input lies at the top of the heap.
MANY_IMAGES: Final = 16
#: Images up to which no process maps pages if no tensor was freed, and from which all do.
LAST_BY_DEFAULT, ALL_BY_DEFAULT = 4, 8
#: Pages of the copy of the weights.
WEIGHT_PAGES: Final = 18
#: A call that maps no more pages returns no memory: a forked child copies some.
FEW_PAGES: Final = heap.RESERVE // heap.PAGE
#: Elements of the freed tensor; trimming thresholds (B): after it was freed, and the least set.
FREED: Final = 8_000_000
TRIMMING: Final = heap.threshold_after_freeing(FREED)
LEAST_THRESHOLD: Final = 2 << 20
SMALL_NETWORK: Final = "MNIST CNN"
LARGE_NETWORK: Final = "ResNet-18"
#: Layers whose thresholds were set, on one image.
IMAGE: Final = mnist_conv2(1)
LAYERS: Final[dict[str, Layer]] = {
    "layer": IMAGE,
    "3x3": IMAGE,
    "1x1": square_convolution("1x1", (1, 32, 13, 13), channels=64, kernel=1),
    "5x5": square_convolution("5x5", (1, 16, 28, 28), channels=32, kernel=5),
    "linear": Linear(
        name="linear", input_shape=(1, 256), output_shape=(1, 1000), dtype="float32", bias=True
    ),
}
#: The first convolution of ResNet-18 on one image.
FIRST_OF_RESNET: Final = square_convolution("conv", (1, 3, 224, 224), 64, 7, stride=2, padding=3)


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case does not belong to this study or ran a different layer."""
    check_factors(stored, _FACTORS_BY_SUBJECT, closed={"layer"})
    check_layers(stored, lambda factors: mnist_conv2(int(factors["batch"])), subject="layer")
