"""What conv_profiling studies: the second convolution of the MNIST example, and its dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from report.errors import StudyError
from report.evidence.case_checks import Levels, check_factors
from report.records.layers import Convolution
from report.records.passes import PASSES, Pass
from report.records.record import Case, Factor
from report.records.store import Stored
from report.text.format import NO_BREAK
from report.theory.shapes import square_convolution
from report.theory.work import Flops, Macs, flops, macs

#: The first convolution of the network, whose kernel is always this, leaves so many elements fewer.
_FIRST_KERNEL: Final = 3
_FACTORS: Final = frozenset({"subject", "channels", "kernel", "input", "batch", "pass", "layout"})
_REMEDY: Final = "run the experiment of this version again"


#: Subject → the factors that are looked up; those of the layer are checked with their levels.
_LOOKED_UP: Final[dict[str, dict[str, Levels]]] = {
    "layer": {"channels": str},
    "trace": {"scope": str, "batch": int},
    "training": {"dataset": str, "channels": str},
}


@dataclass(frozen=True, order=True)
class Dimensions:
    """The layer's channels in and out, its kernel, and the extent of the network's image."""

    inputs: int
    outputs: int
    kernel: int
    image: int

    @property
    def channels(self) -> str:
        """The channels as a record names them."""
        return f"{self.inputs}-{self.outputs}"

    @property
    def extent(self) -> int:
        """Height and width of the layer's input."""
        return self.image - _FIRST_KERNEL + 1

    @property
    def name(self) -> str:
        """The dimensions as a table prints them, on one line."""
        k, e = self.kernel, self.extent
        return f"{self.inputs}→{self.outputs}, {k}×{k}, {e}×{e}".replace(" ", NO_BREAK)

    @property
    def key(self) -> str:
        """The dimensions as part of an id."""
        return f"{self.channels}-k{self.kernel}-i{self.image}"

    def layer(self, batch: int) -> Convolution:
        """The convolution on a batch of so many images."""
        images = (batch, self.inputs, self.extent, self.extent)
        return square_convolution("conv2", images, self.outputs, self.kernel)

    def multiply_adds(self, batch: int, pass_: Pass = "forward") -> Macs:
        """Multiply-adds of one call; backward adds the weight's and the input's gradient."""
        layer = self.layer(batch)
        if pass_ == "forward":
            return macs(layer)
        return Macs(macs(layer) + macs(layer, "weight_gradient") + macs(layer, "input_gradient"))

    def operations(self, batch: int, pass_: Pass = "forward") -> Flops:
        """FLOPs of one call, two a multiply-add."""
        return flops(self.multiply_adds(batch, pass_))

    def factors(self, batch: int, pass_: Pass) -> dict[str, Factor]:
        """The case of the layer as a record names it."""
        return {
            "subject": "layer",
            "channels": self.channels,
            "kernel": self.kernel,
            "input": self.image,
            "batch": batch,
            "pass": pass_,
            "layout": "contiguous",
        }


#: The batch size that figures and traces show.
SHOWN_BATCH: Final = 64

#: The layer of the example itself.
BASE: Final = Dimensions(32, 64, 3, 28)


def dimensions_of(case: Case) -> Dimensions:
    """The dimensions that the factors of a layer's case name."""
    inputs, outputs = str(case.factors["channels"]).split("-")
    kernel, image = int(case.factors["kernel"]), int(case.factors["input"])
    return Dimensions(int(inputs), int(outputs), kernel, image)


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a layer's case is not one of this study, or another layer ran."""
    check_factors(stored, _LOOKED_UP)
    for index, case in enumerate(stored.record.cases):
        if case.factors.get("subject") == "layer":
            _check_case(case, f"data/{stored.file}: cases[{index}]")


def _check_case(case: Case, place: str) -> None:
    if set(case.factors) - {"precision"} != _FACTORS:  # which cases of TF32 name
        expected, found = ", ".join(sorted(_FACTORS)), ", ".join(sorted(case.factors))
        raise StudyError(f"{place}.factors: expected {expected}, found {found}; {_REMEDY}.")
    if case.factors["pass"] not in PASSES:
        raise _not_possible(case, place, "pass")
    for name in ("kernel", "input", "batch"):
        level = case.factors[name]
        if not isinstance(level, int) or isinstance(level, bool) or level < 1:
            raise _not_possible(case, place, name)
    try:
        batch, expected_layer = int(case.factors["batch"]), dimensions_of(case)
    except ValueError as error:
        raise _not_possible(case, place, "channels") from error
    for ran in case.layers:
        if _geometry(ran) != _geometry(expected_layer.layer(batch)):
            raise StudyError(
                f"{place}.layers: found {ran}, which is not the layer that the factors name; "
                f"{_REMEDY}."
            )


def _not_possible(case: Case, place: str, name: str) -> StudyError:
    found = case.factors[name]
    return StudyError(
        f"{place}.factors.{name}: found {found!r}, which this study has not; {_REMEDY}."
    )


def _geometry(layer: object) -> object:
    """A layer without its name, which a network is free to choose."""
    import msgspec

    return {**msgspec.to_builtins(layer), "name": None}
