"""Subject of conv_scaling: the layer, the factors of cases and their check, and constants."""

from typing import Final

from report.core.records.layers import Layer, Linear
from report.core.records.record import PASSES
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors, check_layers
from report.theory import heap
from report.theory.work import mnist_conv2, square_convolution

#: Subject of a case (explained in ``experiments.conv_scaling``) → required factors.
_REQUIRED_FACTORS: Final[dict[str, dict[str, AllowedLevels]]] = {
    "layer": {"batch": int, "pass": PASSES, "layout": ("contiguous", "channels_last")},
    "cliff": {"layer": str, "batch": int},
    "sweep": {"network": str, "batch": int},
    "cure": {"network": str, "mode": str, "batch": int},
    "top": {"layer": str, "batch": int},
}
#: Relative difference of times up to which claims see no effect, because runs of one machine differ
#: by as much.
MARGIN: Final = 0.1
#: A batch size at which the arrays of a call exceed the cache.
LARGE_BATCH: Final = 512
LARGEST_BATCH: Final = 1024
#: Smallest batch size for which the copy of the input lies at the top of the heap.
MANY_IMAGES: Final = 16
#: By default no process maps pages up to the first batch size, and all do from the second on.
LAST_WITHOUT_PAGES, FIRST_WITH_PAGES = 4, 8
#: Pages of the copy of the layer's weights.
WEIGHT_PAGES: Final = 18
#: Most pages that a call touches anew if no memory was returned: a forked child copies some pages.
FEW_PAGES: Final = heap.RESERVE_BYTES // heap.PAGE_BYTES
#: Elements of a tensor that a process frees before its calls, to raise the trimming threshold.
FREED_ELEMENTS: Final = 8_000_000
#: Trimming threshold (B) after this tensor was freed.
RAISED_THRESHOLD: Final = heap.threshold_after_freeing(FREED_ELEMENTS)
#: Smallest trimming threshold (B) that a case sets.
SMALLEST_SET_THRESHOLD: Final = 2 << 20
SMALL_NETWORK, LARGE_NETWORK = "MNIST CNN", "ResNet-18"
#: The paper's layer, on one image.
LAYER: Final = mnist_conv2(1)
#: Layers, on one image, whose cases set thresholds; "layer" is the name in other cases.
LAYERS: Final[dict[str, Layer]] = {
    "layer": LAYER,
    "3x3": LAYER,
    "1x1": square_convolution("1x1", (1, 32, 13, 13), channels=64, kernel=1),
    "5x5": square_convolution("5x5", (1, 16, 28, 28), channels=32, kernel=5),
    "linear": Linear(
        name="linear", input_shape=(1, 256), output_shape=(1, 1000), dtype="float32", bias=True
    ),
}
#: The first convolution of ResNet-18 on one image.
FIRST_OF_RESNET: Final = square_convolution("conv", (1, 3, 224, 224), 64, 7, stride=2, padding=3)


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for unknown factors, or a layer that contradicts the factors."""
    check_factors(stored, _REQUIRED_FACTORS, closed={"layer"})
    check_layers(stored, lambda factors: mnist_conv2(int(factors["batch"])), subject="layer")
