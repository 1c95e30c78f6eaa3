"""The work that every peer does: five documents with prose, numbers, two tables, four figures.

Each peer writes the same words and draws with the same code in its own syntax.  The data are made
up, so that nothing here can be taken for a result.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DOCUMENTS: Final = tuple(f"paper-{number}" for number in range(1, 6))
FIGURES: Final = ("lines", "bars", "dots", "histogram")
TABLES: Final = ("times", "memory")
NUMBERS: Final = (
    "largest", "samples", "first", "last", "slope", "ratio", "rate", "peak", "growth",
)  # fmt: skip

#: Which document an edit of data or prose touches, and which figure shows the edited value.
EDITED_DATA: Final = "paper-1"
EDITED_PROSE: Final = "paper-2"
EDITED_FIGURE: Final = "bars"
#: One word of every document's prose, and what stands in its place after each edit.
WORDS: Final = (
    "plainly", "openly", "fully", "briefly", "closely", "exactly", "neatly", "simply", "wholly",
)  # fmt: skip

_BATCHES: Final = tuple(2**power for power in range(10))
_REPEATS: Final = 15
_SHARED: Final = Path(__file__).parent / "shared"


@dataclass(frozen=True)
class Syntax:
    """How a peer writes what is not prose; each function takes what its name says it takes."""

    opening: Callable[[str, str], str]  # document and its title
    number: Callable[[str], str]
    figure: Callable[[str, str], str]  # document and figure
    table: Callable[[str, str], str]  # document and table
    #: The sign before a heading, where the title is one too.
    heading: str = "#"


_SECTIONS: Final = (
    (
        "Question",
        (
            "We ask how the time of one layer grows with the batch size up to {largest} images, "
            "and what it takes in memory. The answer is given {word} from {samples} samples, each "
            "of which is one call after a warm-up. The samples are kept as they were taken, and no "
            "mean stands in for them.",
            "A layer that is twice as wide does four times the work, so that sizes have to be "
            "named whenever times are compared. All times below are medians, because a few calls "
            "are always disturbed by other work on the machine.",
        ),
        (),
    ),
    (
        "Time",
        (
            "At one image the forward pass takes {first} ms, and at the largest batch {last} ms. A "
            "straight line through the medians rises by {slope} µs for each image. The table lists "
            "both passes; the figure draws them on logarithmic axes, where a straight line of "
            "slope one means that the time is proportional to the batch.",
            "The backward pass takes {ratio} times as long as the forward pass in the geometric "
            "mean over all sizes. Theory expects twice the work, one product for the weights and "
            "one for the input, and the difference is what the smaller products cost.",
        ),
        ("times", "lines", "dots"),
    ),
    (
        "Memory",
        (
            "The peak at the largest batch is {peak} B, which is {growth} times the peak at one "
            "image. Parameters do not grow with the batch, so that the growth stays below the "
            "ratio of the sizes. The bars show every size.",
        ),
        ("memory", "bars"),
    ),
    (
        "What follows",
        (
            "At the largest batch the layer handles {rate} images a second. Larger batches pay as "
            "long as the time grows more slowly than the batch, and the scatter of the samples "
            "says how far two sizes can be told apart at all.",
            "The distribution of the samples at the largest batch has a tail to the right, as "
            "times on a shared machine have. Medians are little moved by it.",
        ),
        ("histogram",),
    ),
)


def title(document: str) -> str:
    """The title of a document."""
    return f"How one layer grows, {document.replace('-', ' ')}"


def text(document: str, syntax: Syntax) -> str:
    """The whole document in the syntax of a peer."""
    numbers = {name: syntax.number(name) for name in NUMBERS}
    blocks = [syntax.opening(document, title(document))]
    for heading, paragraphs, shown in _SECTIONS:
        blocks.append(f"{syntax.heading} {heading}")
        blocks.extend(paragraph.format(word=WORDS[0], **numbers) for paragraph in paragraphs)
        for name in shown:
            write = syntax.table if name in TABLES else syntax.figure
            blocks.append(write(document, name))
    return "\n\n".join(blocks) + "\n"


def shown_figures() -> tuple[str, ...]:
    """The figures in the order in which a document shows them."""
    return tuple(name for *_, shown in _SECTIONS for name in shown if name in FIGURES)


def data(document: str) -> dict[str, Any]:
    """Made-up samples in seconds and peaks in bytes, the same in every call."""
    number = DOCUMENTS.index(document) + 1
    draw = random.Random(number)

    def samples(centre: float) -> list[float]:
        return [centre * draw.lognormvariate(0, 0.03) for _ in range(_REPEATS)]

    forward = [2e-4 + 1e-5 * number * batch for batch in _BATCHES]
    return {
        "batch": list(_BATCHES),
        "forward_s": [samples(centre) for centre in forward],
        "backward_s": [samples(2.1 * centre) for centre in forward],
        "peak_bytes": [73_984 * number + 147_456 * batch for batch in _BATCHES],
    }


def data_text(content: Mapping[str, Any]) -> str:
    """The data as they stand in their file."""
    return json.dumps(content, indent=1) + "\n"


def shared(name: str) -> str:
    """A module that is the same in every project."""
    return (_SHARED / name).read_text("utf-8")
