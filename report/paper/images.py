"""The images that were learned from."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from report.evidence.runs import Run
from report.paper.findings import Inputs
from report.records import strict

_REMEDY = "restore the file with git, or run the experiment again"


class _Part(msgspec.Struct, frozen=True):
    images: int


class _Identity(msgspec.Struct, frozen=True):
    name: str
    source: str
    split: str
    classes: tuple[str, ...]
    train: _Part
    test: _Part


@dataclass(frozen=True)
class DataSet:
    """Which images they are, in clauses that fit into a sentence, and how many there are."""

    name: str
    source: str
    split: str
    train: int
    test: int


def data_set(inputs: Inputs, run: Run) -> DataSet | None:
    """What the run learned from, None if it trained nothing; raises ``RecordError``."""
    content = inputs.attachments.get(run.file, {}).get("images.json")
    if content is None:
        return None
    decoder = msgspec.json.Decoder(_Identity)
    place = f"data/{run.file}/images.json"
    found = strict.parse_json(content, decoder.decode, place, _REMEDY)
    return DataSet(found.name, found.source, found.split, found.train.images, found.test.images)
