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
SHOWN_BATCH: Final = 64
#: Batches with TF32 on: a GPU computed the small ones on CUDA cores, the large on tensor cores.
SMALL_BATCHES, LARGE_BATCHES = (1, 8), (SHOWN_BATCH, 512)
#: Cases of the layer: shapes of which the rules were derived, held-out and changed shapes.
SUBJECTS: Final = ("layer", "held_out", "changed")
#: Calls whose times are compared, with AVX2 at most or with all of a processor's instructions.
TIMED: Final = "timed"

#: Kernel of the network's first convolution, which cuts the map by this less one.
_FIRST_KERNEL: Final = 3
_CHANNELS: Final = re.compile(r"[1-9]\d{0,4}-[1-9]\d{0,4}")
_LAYER: Final[dict[str, AllowedLevels]] = {
    "channels": str,
    "kernel": int,
    "input": int,
    "batch": int,
    "pass": PASSES,
    "layout": ("contiguous",),
}
#: Subject of a case → its required factors; ``trace`` and ``training`` are in older records only.
_FACTORS_BY_SUBJECT: Final[dict[str, dict[str, AllowedLevels]]] = {
    **dict.fromkeys(SUBJECTS, _LAYER),
    TIMED: {**_LAYER, "instructions": str},
    "trace": {"scope": str, "batch": int},
    "training": {},
}


@dataclass(frozen=True, order=True)
class Dimensions:
    """The layer's channels in and out, its kernel, and the extent of the network's image."""

    inputs: int
    outputs: int
    kernel: int
    image: int

    @property
    def extent(self) -> int:
        """Height and width of the layer's input."""
        return self.image - _FIRST_KERNEL + 1

    @property
    def channels(self) -> str:
        """Input and output channels as a figure prints them."""
        return f"{self.inputs}→{self.outputs}"

    @property
    def name(self) -> str:
        """The dimensions as a table prints them, on one line."""
        k, e = self.kernel, self.extent
        return f"{self.channels}, {k}×{k}, {e}×{e}".replace(" ", NO_BREAK)

    @property
    def key(self) -> str:
        """The dimensions as part of an id."""
        return f"{self.inputs}-{self.outputs}-k{self.kernel}-i{self.image}"

    def layer(self, batch: int) -> Convolution:
        """The convolution on ``batch`` images."""
        images = (batch, self.inputs, self.extent, self.extent)
        return square_convolution("conv2", images, self.outputs, self.kernel)

    def multiply_adds(self, batch: int) -> Macs:
        """Multiply-adds of a forward call."""
        return macs(self.layer(batch))

    def factors(self, batch: int, subject: str = "layer") -> dict[str, Level]:
        """The case of a forward call as a record names it."""
        return {
            "subject": subject,
            "channels": f"{self.inputs}-{self.outputs}",
            "kernel": self.kernel,
            "input": self.image,
            "batch": batch,
            "pass": "forward",
            "layout": "contiguous",
        }


#: The layer of the example itself.
BASE: Final = Dimensions(32, 64, 3, 28)
#: Batch of the calls that sentences name and that are timed, and one that is shown term by term.
FEW_IMAGES: Final = 8
PADDED: Final = Dimensions(33, 65, 3, 28)
#: Kernel and image of the shape whose channels are changed, with those channels when timed.
_SMALL: Final = 3, 21
INPUTS: Final = (8, 9, 16)
OUTPUTS: Final = (16, 17, 19, 24, 25)
#: The example's layer with one channel more on both sides, and in full blocks of 8 and of 16.
FULL_EIGHT, FULL_SIXTEEN = Dimensions(40, 72, 3, 28), Dimensions(48, 80, 3, 28)
WIDENED: Final = (BASE, PADDED, FULL_EIGHT, FULL_SIXTEEN)
#: Instructions of timed calls: AVX2 at most, or all of the processor's.
INSTRUCTIONS: Final = ("AVX2", "native")


def small(inputs: int, outputs: int) -> Dimensions:
    """The shape whose channels are changed, with these channels."""
    return Dimensions(inputs, outputs, *_SMALL)


#: The shapes with changed channels that are timed.
CHANNELS: Final = tuple(small(inputs, n) for inputs in INPUTS for n in OUTPUTS)


def dimensions_of(factors: Mapping[str, Level]) -> Dimensions:
    """The dimensions that the factors of a layer's case name."""
    inputs, outputs = str(factors["channels"]).split("-")
    return Dimensions(int(inputs), int(outputs), int(factors["kernel"]), int(factors["input"]))


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a layer's case is not one of this study, or another layer ran."""
    check_factors(
        stored, _FACTORS_BY_SUBJECT, optional={"precision": str}, closed=(*SUBJECTS, TIMED)
    )
    for index, case in enumerate(stored.record.cases):
        channels = str(case.factors.get("channels", "1-1"))
        if not _CHANNELS.fullmatch(channels):
            place = f"data/{stored.file}: cases[{index}].factors.channels"
            raise StudyError(f"{place}: found {channels!r}, not as in 9-19; run it again.")
    for subject in (*SUBJECTS, TIMED):
        check_layers(stored, _layer_of, subject)


def _layer_of(factors: Mapping[str, Level]) -> Convolution:
    return dimensions_of(factors).layer(int(factors["batch"]))
