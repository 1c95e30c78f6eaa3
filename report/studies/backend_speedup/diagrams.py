"""The diagrams of backend_speedup: the network block by block."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from figures.canvas import Drawing
from figures.diagram import Arrow, Box, Diagram
from report.studies.backend_speedup.subject import (
    CLASSES,
    HIDDEN,
    PIXELS,
)

#: Colours by meaning: what is computed without parameters, what is given, what is learnt.
_ARITHMETIC: Final = 2
_DATA: Final = 5
_LEARNT: Final = 4


def perceptron() -> Drawing:
    """The source's network, block by block, with the way back below."""
    return Drawing((_perceptron(),), wide=True, height=1.6)


def _perceptron() -> Diagram:
    y, height = 3.4, 2.2
    boxes = (
        Box(0.2, y, 3.0, height, f"$X$\n{PIXELS} × m", _DATA),
        Box(4.4, y, 4.2, height, f"$W^{{[1]}} X + b^{{[1]}}$\nstep 1   {HIDDEN} × m", _LEARNT),
        Box(9.8, y, 2.8, height, "ReLU\nstep 2", _ARITHMETIC),
        Box(
            13.8,
            y,
            4.4,
            height,
            f"$W^{{[2]}} A^{{[1]}} + b^{{[2]}}$\nstep 3   {CLASSES} × m",
            _LEARNT,
        ),
        Box(19.4, y, 2.8, height, "softmax\nstep 4", _ARITHMETIC),
        Box(23.4, y, 3.4, height, f"$A^{{[2]}}$\n{CLASSES} × m", _DATA),
    )
    back = (
        Box(4.4, 0.3, 4.2, 1.7, "$dW^{[1]}, db^{[1]}$\nsteps 9, 10"),
        Box(9.8, 0.3, 2.8, 1.7, "$dZ^{[1]}$\nstep 8"),
        Box(13.8, 0.3, 4.4, 1.7, "$(W^{[2]})^T dZ^{[2]}$\n$dW^{[2]}, db^{[2]}$  6, 7"),
        Box(19.4, 0.3, 2.8, 1.7, "$dZ^{[2]}$\nstep 5"),
        Box(23.4, 0.3, 3.4, 1.7, f"$Y$, one-hot\n{CLASSES} × m", _DATA),
    )
    forward = tuple(Arrow(a.right, b.left) for a, b in pairwise(boxes))
    backward = tuple(Arrow(b.left, a.right, broken=True) for a, b in pairwise(back))
    down = Arrow((25.1, y), (21.5, 2.0), broken=True)
    return Diagram(27.0, 5.8, (*boxes, *back), (*forward, *backward, down))
