"""Raw memory timelines of PyTorch's profiler: bytes by category over a training step.

Beside the record lies what theory needs for a prediction: when the operators of the named network
make and free their storages, captured here since papers are built without PyTorch.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from experiments.importers.imported import Imported, Source, case, environment
from experiments.importers.network_conditions import conditions
from report.instruments.memory_timeline import CATEGORIES, read_timeline
from report.records.lifetimes import Lifetimes
from report.records.record import Factor

LIFETIMES: Final = "lifetimes.json.gz"
_BEGIN: Final = re.compile(rb"\s*\[\s*\[\s*-?\d+\s*,\s*\d+\s*,\s*-?\d+\s*,\s*\d+\s*\]")
_CHANNELS: Final = 3


def detects(source: Source) -> bool:
    """Whether the content begins with a list of four whole numbers."""
    return _BEGIN.match(source.content) is not None


def read(source: Source) -> Imported:
    """The most bytes of each category; raises ``RefusedError``, and ``RecordError`` if damaged."""
    found = read_timeline(source.content, source.name)
    if source.device is None:
        raise source.refused("it does not say the device; give it with --device")
    told = conditions(source)
    attachments, missing = _captured(told)
    return Imported(
        instrument="PyTorch profiler, export_memory_timeline",
        environment=environment("cuda", source.device),
        cases=tuple(
            case({"subject": "timeline", "category": name}, {"allocated_peak": [highest]})
            for name, highest in found.highest.items()
            if name in CATEGORIES
        ),
        unstated="the timeline does not say it",
        conditions=told,
        missing={"repetitions": "steps follow each other in one process", **missing},
        attachments=attachments,
    )


def _captured(
    told: Mapping[str, Factor],
) -> tuple[dict[str, tuple[bytes, str]], dict[str, str]]:
    """The lifetimes of the named network's storages, or why there are none."""
    from experiments.harness.operators import Input, capture
    from experiments.networks import catalogue

    name, batch, image = str(told["network"]), int(told["batch"]), told.get("image")
    if name not in catalogue.INPUT_SHAPES or told["direction"] != "training":
        return {}, {LIFETIMES: f"no study trains a network {name}"}
    sides = catalogue.INPUT_SHAPES[name][1:] if image is None else (int(image), int(image))
    shape = (batch, _CHANNELS, *sides)
    network = capture(lambda: catalogue.network(name, in_place=True), [Input(shape)], train=True)
    content = msgspec.json.encode(Lifetimes.of(network.network))
    meaning = f"lifetimes of the storages of a training step of {name}, captured by ridgepoint"
    return {LIFETIMES: (gzip.compress(content, mtime=0), meaning)}, {}
