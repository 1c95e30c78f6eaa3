"""A record of every study that is small enough to be read a thousand times."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from report.records.filed import parse
from report.records.record import Record
from report.studies.training_roofline.subject import Step
from tests import factory, test_backend_speedup, test_conv_profiling
from tests import test_inference_memory as inference
from tests import test_training_roofline as training


def _conv_scaling() -> Record:
    """Cases of every subject of a real run."""
    (path, *_) = sorted((factory.ROOT / "data" / "conv_scaling").glob("*-1t-*.zip"))
    document = json.loads(factory.text_of(path))
    by_subject: dict[str, list[Any]] = {}
    for case in document["cases"]:
        by_subject.setdefault(case["factors"]["subject"], []).append(case)
        for samples in case.get("series", {}).values():
            del samples[8:]
    cases = [case for found in by_subject.values() for case in found[:: len(found) // 8 + 1]]
    changed = {**document, "cases": cases, "attachments": []}
    return parse(json.dumps(changed).encode(), path.name)


def _inference() -> Record:
    hows = ({}, {"layout": "channels_last"}, {"precision": "bfloat16"}, {"precision": "float16"})
    calls = [inference.call("LeNet-5", 8, **how) for how in hows]
    tiled = {"network": "ResNet-20", "image": 224, "batch": 8}
    calls += [
        inference.call("LeNet-5", 64),
        inference.call(**tiled),
        inference.call(**tiled, execution="tiled_blocks", tile=16),
    ]
    machine = factory.environment()
    cases = [inference.case(call, machine) for call in calls]
    return inference.record([*cases, inference.limit("ResNet-20", 16)])


def _training() -> Record:
    steps = [Step("ResNet-18", 64, 2), Step("ResNet-18", 64, 8)]
    steps.append(steps[0]._replace(precision="bfloat16"))
    cases = [training.case(step) for step in steps]
    return training.record([training.profile(steps[0]), *cases])


_MADE: Mapping[str, Callable[[], Record]] = {
    "conv_scaling": _conv_scaling,
    "conv_profiling": test_conv_profiling.record,
    "inference_memory": _inference,
    "training_roofline": _training,
    "backend_speedup": test_backend_speedup.on_cpu,
}


@cache
def small(study: str) -> Record:
    """The record of ``study``."""
    return _MADE[study]()


#: The studies that have one.
SMALL = tuple(_MADE)
