"""Subject of conv_scaling: one convolution at a batch size."""

from __future__ import annotations

from typing import Final

from report.core.records.layers import Convolution
from report.core.records.record import PASSES, Pass
from report.core.records.store import Stored
from report.evidence.case_checks import AllowedLevels, check_factors, check_ran
from report.theory.conditions import Layout
from report.theory.work import Macs, macs, mnist_conv2

LAYOUTS: Final[tuple[Layout, ...]] = ("contiguous", "channels_last")
#: The batch size whose call the prose describes.
SHOWN_BATCH: Final = 64

#: Subject of a case → its required factors.  ``cliff``: batches around a sudden slowdown; ``cure``:
#: networks after one large tensor was freed; ``avx2``: in older records only.
_FACTORS_BY_SUBJECT: Final[dict[str, dict[str, AllowedLevels]]] = {
    "layer": {"batch": int, "pass": PASSES, "layout": LAYOUTS},
    "network": {},
    "avx2": {},
    "variant": {"variant": str, "batch": int},
    "cliff": {"layer": str, "batch": int},
    "edge": {"layer": str, "batch": int},
    "sweep": {"network": str, "batch": int},
    "cure": {"network": str, "mode": str, "batch": int},
}


def subject(batch: int) -> Convolution:
    """The second convolution of the PyTorch MNIST example on a batch of ``batch`` images."""
    return mnist_conv2(batch)


def multiply_adds(batch: int, pass_: Pass = "forward") -> Macs:
    """Multiply-adds of one call; the backward pass adds two gradients of equal work."""
    return Macs(macs(subject(batch)) * (1 if pass_ == "forward" else 3))


def check_subject(stored: Stored) -> None:
    """Raise ``StudyError`` if a case does not belong to this study or ran a different layer."""
    check_factors(stored, _FACTORS_BY_SUBJECT, closed={"layer"})
    check_ran(stored, lambda factors: subject(int(factors["batch"])), subject="layer")
