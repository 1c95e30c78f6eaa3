"""The images that were learned from: which they are, and a sample of them drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from figures.canvas import Drawing
from figures.image_grid import Image, ImageGrid
from report.errors import RecordError
from report.evidence.runs import Run
from report.paper.findings import Figure, Inputs
from report.records import strict

_REMEDY = "restore the file with git, or run the experiment again"
_COLUMNS = 10
#: Height of the drawing in inches for a row of images.
_ROW_INCHES = 0.95


class _Part(msgspec.Struct, frozen=True):
    images: int


class _Identity(msgspec.Struct, frozen=True):
    name: str
    source: str
    split: str
    classes: tuple[str, ...]
    train: _Part
    test: _Part


class _Entry(msgspec.Struct, frozen=True):
    label: int
    pixels: str


class _Sample(msgspec.Struct, frozen=True):
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    images: tuple[_Entry, ...]


@dataclass(frozen=True)
class DataSet:
    """Which images they are, in clauses that fit into a sentence, and how many there are."""

    name: str
    source: str
    split: str
    classes: int
    train: int
    test: int


def data_set(inputs: Inputs, run: Run) -> DataSet | None:
    """What the run learned from, None if it trained nothing; raises ``RecordError``."""
    content = _files(inputs, run).get("images.json")
    if content is None:
        return None
    decoder = msgspec.json.Decoder(_Identity)
    found = strict.parse_json(content, decoder.decode, _place(run, "images.json"), _REMEDY)
    classes = len(found.classes)
    return DataSet(
        found.name, found.source, found.split, classes, found.train.images, found.test.images
    )


def sample(inputs: Inputs, run: Run) -> Figure | None:
    """Some of the images, None if there is no sample; raises ``RecordError`` for a broken one."""
    content = _files(inputs, run).get("sample.json")
    if content is None:
        return None
    place = _place(run, "sample.json")
    decoder = msgspec.json.Decoder(_Sample)
    found = strict.parse_json(content, decoder.decode, place, _REMEDY)
    images = tuple(_image(found, index, place) for index in range(len(found.images)))
    if not images:
        raise RecordError(f"{place}: images: expected at least one, found none; {_REMEDY}.")
    _, height, width = found.shape
    rows = -(-len(images) // _COLUMNS)
    return Figure(
        "fig-sample",
        f"A sample of the {len(found.classes)} classes: test images of {height} × {width} pixels, "
        "each with its label.",
        f"{len(images)} small images of handwritten signs: "
        f"{', '.join(dict.fromkeys(image.label for image in images))}.",
        Drawing(
            (ImageGrid(_by_column(images), height, width, _COLUMNS),),
            wide=True,
            height=rows * _ROW_INCHES,
        ),
        (run.file,),
    )


def _image(found: _Sample, index: int, place: str) -> Image:
    entry, (channels, height, width) = found.images[index], found.shape
    try:
        pixels = bytes.fromhex(entry.pixels)
        label = found.classes[entry.label]
    except (ValueError, IndexError) as error:
        raise _bad(place, index, str(error)) from error
    if len(pixels) != channels * height * width:
        raise _bad(place, index, f"{len(pixels)} values for the shape {found.shape}")
    return Image(pixels[: height * width], label)


def _bad(place: str, index: int, what: str) -> RecordError:
    return RecordError(f"{place}: images[{index}]: found {what.rstrip('.')}; {_REMEDY}.")


def _by_column(images: tuple[Image, ...]) -> tuple[Image, ...]:
    """Row by row, so that images that follow each other with one label stand in one column."""
    rows = len(images) // _COLUMNS
    if rows * _COLUMNS != len(images):
        return images
    return tuple(image for row in range(rows) for image in images[row::rows])


def _files(inputs: Inputs, run: Run) -> Mapping[str, bytes]:
    return inputs.attachments.get(run.file, {})


def _place(run: Run, name: str) -> str:
    return f"data/{run.file.removesuffix('.json')}/{name}"
