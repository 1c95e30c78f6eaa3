"""The theory of any network: ``python -m experiments theory``, or ``theory_of`` from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from report.theory.network import Theory


def theory_of(
    build: Callable[[], nn.Module],
    *shapes: tuple[int, ...],
    dtype: str = "float32",
    train: bool = False,
) -> Theory:
    """What theory says of a network called on tensors of these ``shapes``, the batch first.

    ``build`` makes the module; it is called where parameters take no memory.  ``train`` asks for a
    whole training step.  Raises ``MeasurementError`` for a network that cannot be captured.
    """
    from experiments.harness.operators import Input
    from experiments.theory.checked import checked

    return checked(build, [Input(shape, dtype) for shape in shapes], train=train)
