"""Start of the cliff of several layers after glibc's threshold was set or raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.core.missing import Missing
from report.core.records.layers import Convolution, Layer, at_batch
from report.core.records.record import Level
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.conv_scaling.runs import Run
from report.theory import heap
from report.theory.work import output_bytes

#: Layer in a record → its name for readers.
_NAMES: Final[Mapping[str, str]] = {
    "3x3": "3 × 3",
    "1x1": "1 × 1",
    "5x5": "5 × 5",
    "linear": "Linear",
}
#: A call that maps fewer pages returns no memory: a child that was forked copies some.
FEW: Final = heap.RESERVE // heap.PAGE
#: Alignment of PyTorch's tensors (B).
ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Start:
    """Start of the cliff of a layer under one setting.

    ``image`` is the layer on one image.  ``predicted`` is in images, not rounded, by the trimming
    threshold (B).  ``mapping`` is the share of the processes whose calls map pages, by batch size
    in ascending order.
    """

    layer: str
    image: Layer
    predicted: float
    mapping: Mapping[int, float]
    file: str

    @property
    def expected(self) -> int:
        """Smallest whole batch size that should map pages."""
        return floor(self.predicted) + 1

    @property
    def first(self) -> int | None:
        """Smallest measured batch size at which any process maps pages; None if none does."""
        return next((batch for batch, share in self.mapping.items() if share > 0), None)

    @property
    def before(self) -> int:
        """Largest measured batch size below ``first``, or of all."""
        below = [batch for batch in self.mapping if self.first is None or batch < self.first]
        return max(below, default=0)

    def early(self) -> Quantity:
        """Images by which pages are mapped before the predicted batch size."""
        if self.first is None:
            return absent("images", "1", "no process mapped pages")
        return exact("expected − observed start", "1", self.expected - self.first, self.file)


def starts(runs: Sequence[Run], subject: str) -> tuple[Start, ...]:
    """Return the starts of the first run with cases of ``subject``, by layer and threshold."""
    for run in runs:
        shares: dict[tuple[str, int], dict[int, float]] = {}
        images: dict[str, Layer] = {}
        for case in run.stored.record.cases:
            share = run.share_mapping(case.factors, FEW)
            if case.factors.get("subject") != subject or isinstance(share, Missing):
                continue
            layer, batch = str(case.factors["layer"]), int(case.factors["batch"])
            shares.setdefault((layer, _trimming(case.factors)), {})[batch] = share
            images[layer] = at_batch(case.layers, 1)[0]
        measured = []
        for (layer, trimming), by_batch in sorted(shares.items()):
            predicted, ordered = (
                heap.start_of_cliff(images[layer], trimming),
                sorted(by_batch.items()),
            )
            measured.append(Start(layer, images[layer], predicted, dict(ordered), run.file))
        if measured:
            return tuple(measured)
    return ()


def _trimming(factors: Mapping[str, Level]) -> int:
    """Trimming threshold of a case (B)."""
    if "freed" in factors:
        return heap.raised_trimming(int(factors["freed"]))
    return int(factors["threshold"]) * 2**20


def convolutions(moved: Sequence[Start]) -> list[Start]:
    """Select the starts of convolutions."""
    return [start for start in moved if isinstance(start.image, Convolution)]


def values(moved: tuple[Start, ...], edges: tuple[Start, ...]) -> dict[str, Quantity]:
    """Return the numbers of the text."""
    names = ("starts", "to_the_image", "start_least", "start_most", "aligned")
    own = convolutions(moved)
    if not own:
        return dict.fromkeys(names, absent("starts", "1", "no run moved the start of the cliff"))
    expected = [start.expected for start in own]
    exactly = sum(start.first == start.expected for start in own)
    aligned = sum(1 for _ in without_pages((*moved, *edges)))
    numbers = (len(own), exactly, min(expected), max(expected), aligned)
    counts: dict[str, Quantity] = {}
    for name, number in zip(names, numbers, strict=True):
        counts[name] = exact(name.replace("_", " "), "1", number, own[0].file)
    return counts


def within_an_image(moved: Sequence[Start]) -> Iterator[Statement]:
    """State that each convolution begins at the predicted image or one before."""
    for start in convolutions(moved):
        yield (2 * start.early()).near(1, within=1)


def below(moved: Sequence[Start]) -> Iterator[Statement]:
    """State that no process maps pages at measured batch sizes more than an image below."""
    for start in moved:
        for batch, share in start.mapping.items():
            if batch < start.expected - 1:
                yield _processes(batch, share, start.file).exactly(0)


def without_pages(moved: Sequence[Start]) -> Iterator[Statement]:
    """State that no process of a linear layer maps pages at outputs of whole multiples of 64 B.

    Outputs that glibc maps by themselves are left out.
    """
    for start in moved:
        image_bytes = output_bytes(start.image)
        if isinstance(start.image, Convolution):
            continue
        for batch, share in start.mapping.items():
            aligned = batch * image_bytes % ALIGNMENT == 0
            if aligned and batch * image_bytes <= heap.LARGEST_MAPPING:
                yield _processes(batch, share, start.file).exactly(0)


def _processes(batch: int, share: float, file: str) -> Quantity:
    return exact(f"processes that map pages at {batch} images", "1", share, file)


def diagonal(moved: tuple[Start, ...]) -> Iterator[Scaling]:
    """Draw the observed starts over the predicted ones; a bar ends at the next smaller batch."""
    drawn = []
    for number, (layer, name) in enumerate(_NAMES.items()):
        seen = [start for start in moved if start.layer == layer and start.first is not None]
        if seen:
            firsts = tuple((start.first or 0) / start.expected for start in seen)
            befores = tuple(start.before / start.expected for start in seen)
            predicted = tuple(float(start.expected) for start in seen)
            drawn.append(
                Points(name, predicted, firsts, befores, firsts, number, hollow=layer == "linear")
            )
    if drawn:
        expected = [x for points in drawn for x in points.x]
        line = Curve("Predicted", (min(expected), max(expected)), (1.0, 1.0))
        axes = ("Predicted start (images)", "Observed ÷ predicted start")
        ticks = (10.0, 100.0, 1_000.0, 10_000.0)
        yield Scaling(*axes, tuple(drawn), (line,), x_ticks=ticks, y_scale="linear")
