"""Subject of conv_profiling: the second convolution of the MNIST example, in several shapes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from report.core.errors import StudyError
from report.core.records.layers import Convolution
from report.core.records.record import PASSES, Level
from report.core.records.store import Stored
from report.core.text.format import NO_BREAK
from report.evidence.case_checks import AllowedLevels, check_factors, check_layers
from report.theory.work import Macs, macs, square_convolution

#: The batch size of the source's table.
SOURCE_BATCH: Final = 64
#: Batch sizes that a GPU with TF32 on computed on CUDA cores (the small ones) or on tensor cores.
SMALL_BATCHES, LARGE_BATCHES = (1, 8), (SOURCE_BATCH, 512)
#: Subjects of cases whose work is counted.  Counts of ``layer`` led to the rules (formulas) for
#: executed work, ``held_out`` tests the rules, and ``changed`` varies a held-out shape's channels.
SUBJECTS: Final = ("layer", "held_out", "changed")
#: Subject of cases whose times are compared, with each of ``INSTRUCTIONS``.
TIMED: Final = "timed"

#: Kernel of the network's first convolution, which has stride 1 and no padding.
_FIRST_KERNEL: Final = 3
_CHANNELS: Final = re.compile(r"[1-9]\d{0,4}-[1-9]\d{0,4}")
_LAYER_FACTORS: Final[dict[str, AllowedLevels]] = {
    "channels": str, "kernel": int, "input": int, "batch": int, "pass": PASSES,
    "layout": ("contiguous",),
}  # fmt: skip
#: Subject of a case → required factors; ``trace`` and ``training`` are in older records only.
_REQUIRED_FACTORS: Final[dict[str, dict[str, AllowedLevels]]] = {
    **dict.fromkeys(SUBJECTS, _LAYER_FACTORS),
    TIMED: {**_LAYER_FACTORS, "instructions": str},
    "trace": {"scope": str, "batch": int},
    "training": {},
}


@dataclass(frozen=True, order=True)
class Dimensions:
    """Channels and kernel side of the layer, and the side (pixels) of the network's image."""

    inputs: int
    outputs: int
    kernel: int
    image: int

    @property
    def extent(self) -> int:
        """Side of the layer's input, which the network's first convolution computes."""
        return self.image - _FIRST_KERNEL + 1

    @property
    def channels(self) -> str:
        """Input and output channels as a figure prints them."""
        return f"{self.inputs}→{self.outputs}"

    @property
    def name(self) -> str:
        """The dimensions as a table prints them, on one line."""
        kernel, extent = self.kernel, self.extent
        return f"{self.channels}, {kernel}×{kernel}, {extent}×{extent}".replace(" ", NO_BREAK)

    @property
    def key(self) -> str:
        """The dimensions as part of an id."""
        return f"{self.inputs}-{self.outputs}-k{self.kernel}-i{self.image}"

    def layer(self, batch: int) -> Convolution:
        """Return the convolution on ``batch`` images."""
        images = (batch, self.inputs, self.extent, self.extent)
        return square_convolution("conv2", images, self.outputs, self.kernel)

    def multiply_adds(self, batch: int) -> Macs:
        """Return the multiply-adds of a forward call by the usual formula."""
        return macs(self.layer(batch))

    def factors(self, batch: int, subject: str = "layer") -> dict[str, Level]:
        """Return the factors of a forward call in records."""
        names = {"subject": subject, "channels": f"{self.inputs}-{self.outputs}"}
        sizes = {"kernel": self.kernel, "input": self.image, "batch": batch}
        return {**names, **sizes, "pass": "forward", "layout": "contiguous"}


#: The second convolution of PyTorch's MNIST example.
EXAMPLE_SHAPE: Final = Dimensions(32, 64, 3, 28)
#: Batch size of timed calls, and of calls that the paper's text names.
TIMED_BATCH: Final = 8
#: ``EXAMPLE_SHAPE`` with one more input and one more output channel.
WIDENED_SHAPE: Final = Dimensions(33, 65, 3, 28)
#: ``WIDENED_SHAPE`` with its channels rounded up to whole blocks of 8, and of 16.
FULL_BLOCKS_OF_8, FULL_BLOCKS_OF_16 = Dimensions(40, 72, 3, 28), Dimensions(48, 80, 3, 28)
EXAMPLE_SHAPES: Final = (EXAMPLE_SHAPE, WIDENED_SHAPE, FULL_BLOCKS_OF_8, FULL_BLOCKS_OF_16)
#: Channels of the small shapes that are timed.
INPUTS: Final = (8, 9, 16)
OUTPUTS: Final = (16, 17, 19, 24, 25)
#: Instructions of timed calls: none newer than AVX2, or all instructions of the processor.
INSTRUCTIONS: Final = ("AVX2", "native")


def small_shape(inputs: int, outputs: int) -> Dimensions:
    """Return a shape with these channels on an image smaller than the example's."""
    return Dimensions(inputs, outputs, kernel=3, image=21)


#: The small shapes that are timed.
SMALL_SHAPES: Final = tuple(
    small_shape(inputs, outputs) for inputs in INPUTS for outputs in OUTPUTS
)


def dimensions_of(factors: Mapping[str, Level]) -> Dimensions:
    """Return the dimensions in the factors of a layer's case."""
    inputs, outputs = str(factors["channels"]).split("-")
    return Dimensions(int(inputs), int(outputs), int(factors["kernel"]), int(factors["input"]))


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` for unknown or malformed factors, or layers that contradict them."""
    check_factors(stored, _REQUIRED_FACTORS, optional={"precision": str}, closed=(*SUBJECTS, TIMED))
    for index, case in enumerate(stored.record.cases):
        channels = str(case.factors.get("channels", "1-1"))
        if not _CHANNELS.fullmatch(channels):
            place = f"data/{stored.file}: cases[{index}].factors.channels"
            raise StudyError(f"{place}: found {channels!r}, not as in 9-19; measure it again.")
    for subject in (*SUBJECTS, TIMED):
        check_layers(stored, _layer_of, subject)


def _layer_of(factors: Mapping[str, Level]) -> Convolution:
    return dimensions_of(factors).layer(int(factors["batch"]))
