"""What conv_scaling studies: one convolution, and what theory says of it at a batch size."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from report.errors import StudyError
from report.evidence.case_checks import Levels, check_factors
from report.records.layers import Convolution
from report.records.passes import PASSES, Pass
from report.records.record import Case
from report.records.store import Stored
from report.theory.work import Macs, macs

#: How the elements of the tensors lie in memory: channel by channel, or pixel by pixel.
Layout: TypeAlias = Literal["contiguous", "channels_last"]

LAYOUTS: Final[tuple[Layout, ...]] = ("contiguous", "channels_last")
LAYOUT_NAMES: Final[dict[Layout, str]] = {
    "contiguous": "NCHW",
    "channels_last": "NHWC",
}

#: What tells the cases of a run apart.
_FACTORS: Final = frozenset({"batch", "layout", "pass", "subject"})


#: Subject → the factors that are looked up; those of the layer are checked with their levels.
_LOOKED_UP: Final[dict[str, dict[str, Levels]]] = {
    "layer": {},
    "network": {},
    "variant": {"variant": str, "batch": int},
}


def subject(batch: int) -> Convolution:
    """The second convolution of the PyTorch MNIST example on a batch of ``batch`` images."""
    return Convolution(
        name="conv2",
        input_shape=(batch, 32, 26, 26),
        output_shape=(batch, 64, 24, 24),
        dtype="float32",
        kernel=(3, 3),
        stride=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        bias=True,
        transposed=False,
    )


def multiply_adds(batch: int, pass_: Pass = "forward") -> Macs:
    """Multiply-adds of one call; backward adds the weight's and the input's gradient."""
    layer = subject(batch)
    forward = macs(layer)
    if pass_ == "forward":
        return forward
    return Macs(forward + macs(layer, "weight_gradient") + macs(layer, "input_gradient"))


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case is not one of this study, or another layer ran in it."""
    check_factors(stored, _LOOKED_UP)
    for index, case in enumerate(stored.record.cases):
        if case.factors.get("subject") != "layer":
            continue
        batch = _checked_batch(case, f"data/{stored.file}: cases[{index}]")
        for ran in case.layers:
            if _geometry(ran) != _geometry(subject(batch)):
                raise StudyError(
                    f"data/{stored.file}: cases[{index}].layers: found {ran}, which is not the "
                    "layer that this study is about; run the experiment of this version again."
                )


def _checked_batch(case: Case, place: str) -> int:
    """The batch size of a case whose factors are those of this study."""
    batch, remedy = case.factors.get("batch"), "run the experiment of this version again"
    if set(case.factors) != _FACTORS:
        found = ", ".join(sorted(case.factors))
        raise StudyError(
            f"{place}.factors: expected {', '.join(sorted(_FACTORS))}, found {found}; {remedy}."
        )
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise StudyError(
            f"{place}.factors.batch: expected a batch size, found {batch!r}; {remedy}."
        )
    for factor, levels in (("pass", PASSES), ("layout", LAYOUTS)):
        if case.factors[factor] not in levels:
            raise StudyError(
                f"{place}.factors.{factor}: expected {' or '.join(levels)}, found "
                f"{case.factors[factor]!r}; {remedy}."
            )
    return batch


def _geometry(layer: object) -> object:
    """A layer without its name, which a network is free to choose."""
    import msgspec

    return {**msgspec.to_builtins(layer), "name": None}
