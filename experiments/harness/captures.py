"""The operators of the networks that a run's cases called, for its record.

They are captured on tensors without memory after all is measured, each network at each batch and
in each layout once; torch is imported where there are any.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from experiments.harness.counting import Watcher
from experiments.harness.study import Device, NetworkCall, Study
from experiments.harness.text import period_text
from report.errors import MeasurementError, StudyError
from report.records.captures import Captures
from report.records.compaction import Ran, compact
from report.records.operations import Network
from report.records.record import Case

if TYPE_CHECKING:
    from torch import nn


class Kept(NamedTuple):
    """The cases with what they refer to, and why some refer to nothing, by a record's field."""

    cases: tuple[Case, ...]
    captures: Captures
    missing: dict[str, str]


def kept(study: Study, cases: Iterable[Case], device: Device, watcher: Watcher) -> Kept:
    """What the record keeps of the operators; what cannot be captured has its reason."""
    cases = tuple(cases)
    calls = [study.operations(case.factors) for case in cases]
    networks, reasons = _captured({_ran(call): call for call in calls if call}, device, watcher)
    try:
        captures, refs = compact(networks)
        if msgspec.json.decode(msgspec.json.encode(captures), type=Captures) != captures:
            raise StudyError("The operators cannot be written as JSON.")
    except (StudyError, msgspec.ValidationError) as error:
        return Kept(cases, Captures(), {"operations": str(error)})
    found = [call and refs.get(_ran(call)) for call in calls]
    return Kept(
        tuple(
            msgspec.structs.replace(case, operations=ref)
            for case, ref in zip(cases, found, strict=True)
        ),
        captures,
        {"operations": " ".join(reasons)} if reasons else {},
    )


def _ran(call: NetworkCall) -> Ran:
    return Ran(call.name, call.shape[0], call.layout)


def _captured(
    calls: dict[Ran, NetworkCall], device: Device, watcher: Watcher
) -> tuple[dict[Ran, Network], list[str]]:
    """The networks, and a sentence for each that could not be captured."""
    if calls:
        watcher.note(f"Capturing the operators of {len(calls)} calls of networks.")
    networks, reasons, began = dict[Ran, Network](), list[str](), time.monotonic()
    for number, (ran, call) in enumerate(calls.items(), 1):
        text = f"{ran.network}, batch {ran.batch}, {ran.layout}"
        try:
            networks[ran] = _network(call, device)
        except MeasurementError as error:
            reasons.append(f"{text}: {error}")
        left = (time.monotonic() - began) / number * (len(calls) - number)
        watcher.progressed(text, number / len(calls), period_text(left))
    return networks, reasons


def _network(call: NetworkCall, device: Device) -> Network:
    import torch

    from experiments.harness.operators import Input, capture

    def build() -> nn.Module:
        made = call.build()
        last = call.layout == "channels_last"
        return made.to(memory_format=torch.channels_last) if last else made

    given = Input(call.shape, channels_last=call.layout == "channels_last")
    captured = capture(
        build, [given], train=call.train, device=device, weight_decay=call.weight_decay
    )
    return captured.network
