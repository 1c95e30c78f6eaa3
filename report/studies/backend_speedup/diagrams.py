"""The diagrams of backend_speedup: two designs of a processor, and both networks block by block."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from figures.canvas import Drawing
from figures.diagram import Arrow, Box, Diagram
from report.paper.findings import Figure
from report.studies.backend_speedup.subject import (
    CHANNELS,
    CLASSES,
    EXTENT,
    FEATURES,
    HIDDEN,
    KERNEL,
    MAP,
    PIXELS,
    POOLED,
)

#: Colours by meaning: arithmetic, control, caches, memory outside the chip.
_ARITHMETIC: Final = 2
_CONTROL: Final = 4
_CACHE: Final = 5
_MEMORY: Final = 3
#: Of a network: what is given, what is computed, what is learnt.
_DATA: Final = 5
_LEARNT: Final = 4

_CORES, _GPU_ROWS, _GPU_COLUMNS = 4, 8, 14


def designs() -> Figure:
    """A processor for few fast threads beside one for many slow ones."""
    return Figure(
        "fig-designs",
        "Two designs of a processor. A CPU spends its area on few cores with large control units "
        "and caches, a GPU on many arithmetic units that share small ones. The boxes show the "
        "kinds of parts, not their true numbers or areas; drawn after the textbooks named in the "
        "text.",
        f"Left, a CPU: {_CORES} cores, each with an arithmetic and a control unit, above a large "
        f"cache and memory. Right, a GPU: {_GPU_ROWS} rows of {_GPU_COLUMNS} small arithmetic "
        "units, each row with a narrow strip of control and cache, above a cache and memory.",
        Drawing((_cpu(), _gpu()), wide=True, height=2.6),
    )


def _cpu() -> Diagram:
    cores = [
        box
        for index in range(_CORES)
        for box in _core(0.5 + 4.85 * (index % 2), 5.2 + 2.4 * (index // 2))
    ]
    return Diagram(
        10.6,
        10.2,
        (
            *cores,
            Box(0.5, 2.4, 9.35, 2.4, "Cache", _CACHE),
            Box(0.5, 0.4, 9.35, 1.4, "Memory (DRAM)", _MEMORY),
        ),
        title="CPU: short waits for few threads",
    )


def _core(x: float, y: float) -> tuple[Box, Box]:
    return (
        Box(x, y, 2.2, 2.0, "Control", _CONTROL),
        Box(x + 2.3, y, 2.2, 2.0, "Arithmetic", _ARITHMETIC),
    )


def _gpu() -> Diagram:
    rows = [box for row in range(_GPU_ROWS) for box in _gpu_row(3.6 + 0.75 * row)]
    return Diagram(
        10.6,
        10.2,
        (
            *rows,
            Box(0.5, 2.4, 9.35, 0.9, "Cache", _CACHE),
            Box(0.5, 0.4, 9.35, 1.4, "Memory (DRAM)", _MEMORY),
        ),
        title="GPU: much work at once for many threads",
    )


def _gpu_row(y: float) -> tuple[Box, ...]:
    width = 8.65 / _GPU_COLUMNS
    units = tuple(
        Box(1.2 + width * column, y, 0.85 * width, 0.6, "", _ARITHMETIC)
        for column in range(_GPU_COLUMNS)
    )
    return (Box(0.5, y + 0.3, 0.55, 0.3, "", _CONTROL), Box(0.5, y, 0.55, 0.3, "", _CACHE), *units)


# ------------------------------------------------------------------------------------ networks


def perceptron() -> Figure:
    """The source's network, block by block, with the way back below."""
    return Figure(
        "fig-perceptron",
        "The network of the source, a perceptron with one hidden layer, on m images at once. "
        "Solid arrows are the forward pass, broken ones the backward pass; the numbers in brackets "
        "are those of the equations. There is no convolution in it.",
        f"Blocks from left to right: X with {PIXELS} rows, a layer of {HIDDEN} neurons, ReLU, a "
        f"layer of {CLASSES} neurons, softmax, and the probabilities. Broken arrows lead back from "
        "the error of the output to the gradients of both layers.",
        Drawing((_perceptron(),), wide=True, height=1.9),
    )


def _perceptron() -> Diagram:
    y, height = 3.4, 2.2
    boxes = (
        Box(0.2, y, 3.0, height, f"$X$\n{PIXELS} × m", _DATA),
        Box(4.4, y, 4.2, height, f"$W^{{[1]}} X + b^{{[1]}}$\n(1)   {HIDDEN} × m", _LEARNT),
        Box(9.8, y, 2.8, height, "ReLU\n(2)", _ARITHMETIC),
        Box(
            13.8, y, 4.4, height, f"$W^{{[2]}} A^{{[1]}} + b^{{[2]}}$\n(3)   {CLASSES} × m", _LEARNT
        ),
        Box(19.4, y, 2.8, height, "softmax\n(4)", _ARITHMETIC),
        Box(23.4, y, 3.4, height, f"$A^{{[2]}}$\n{CLASSES} × m", _DATA),
    )
    back = (
        Box(4.4, 0.3, 4.2, 1.7, "$dW^{[1]}, db^{[1]}$\n(9), (10)"),
        Box(9.8, 0.3, 2.8, 1.7, "$dZ^{[1]}$\n(8)"),
        Box(13.8, 0.3, 4.4, 1.7, "$(W^{[2]})^T dZ^{[2]}$\n$dW^{[2]}, db^{[2]}$ (6), (7)"),
        Box(19.4, 0.3, 2.8, 1.7, "$dZ^{[2]}$\n(5)"),
        Box(23.4, 0.3, 3.4, 1.7, f"$Y$, one-hot\n{CLASSES} × m", _DATA),
    )
    forward = tuple(Arrow(a.right, b.left) for a, b in pairwise(boxes))
    backward = tuple(Arrow(b.left, a.right, broken=True) for a, b in pairwise(back))
    down = Arrow((25.1, y), (21.5, 2.0), broken=True)
    return Diagram(27.0, 5.8, (*boxes, *back), (*forward, *backward, down))


def convnet() -> Figure:
    """The convolution network, block by block, its convolution as a product over windows."""
    return Figure(
        "fig-convnet",
        "The second network, which has a convolution. The windows of each image become the columns "
        "of a matrix, so that the convolution is a matrix product like the others; m is the number "
        "of images.",
        f"Blocks from left to right: images of {EXTENT} by {EXTENT} pixels; windows of {KERNEL} by "
        f"{KERNEL} as columns; product with {CHANNELS} kernels; ReLU; maximum of windows of 2 by "
        f"2; product with {CLASSES} rows of {FEATURES} weights; softmax.",
        Drawing((_convnet(),), wide=True, height=1.3),
    )


def _convnet() -> Diagram:
    y, height = 0.6, 2.6
    texts = (
        (3.2, f"Images\n{EXTENT} × {EXTENT} × m", _DATA),
        (4.0, f"Windows\n{KERNEL**2} × {MAP}² m", None),
        (4.8, f"$W^{{[1]}}$ columns $+ b^{{[1]}}$\n{CHANNELS} × {MAP}² m", _LEARNT),
        (2.2, "ReLU", _ARITHMETIC),
        (4.0, f"Maximum of 2 × 2\n{CHANNELS} × {POOLED} × {POOLED} × m", _ARITHMETIC),
        (4.6, f"$W^{{[2]}} A^{{[1]}} + b^{{[2]}}$\n{CLASSES} × m", _LEARNT),
        (2.2, "softmax", _ARITHMETIC),
    )
    boxes, x = [], 0.2
    for width, text, series in texts:
        boxes.append(Box(x, y, width, height, text, series))
        x += width + 0.75
    arrows = tuple(Arrow(a.right, b.left) for a, b in pairwise(boxes))
    return Diagram(x - 0.5, 3.8, tuple(boxes), arrows)


def all_diagrams() -> tuple[Figure, ...]:
    """Every diagram of the paper."""
    return designs(), perceptron(), convnet()
