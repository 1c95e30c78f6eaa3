"""The memory of a training step on a GPU by category, as others measured it and as predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from report.evidence.remembered import known
from report.instruments.memory_timeline import MemoryTimeline, read_timeline
from report.paper.claims import judge
from report.paper.findings import Claim, Inputs
from report.paper.values import Value, declare
from report.quantity.expression import Quantity, exact
from report.quantity.verdicts import Statement, all_of, equals, exactly
from report.records import strict
from report.records.imported import StoredImport
from report.records.lifetimes import Lifetimes
from report.records.operations import Network
from report.records.unpacking import unpacked
from report.text.escape import markdown
from report.text.format import Style
from report.theory.allocator_options import ROUNDING
from report.theory.conditions import Conditions
from report.theory.networks import Way, captured
from report.theory.timeline import timeline
from report.theory.training_memory import categories

_TIMELINE: Final = ".raw.gz"
_LIFETIMES: Final = "lifetimes.json.gz"
_REMEDY: Final = "restore the file with git, or import the timeline again"
#: How numbers are printed that are not printed in full.
_STYLES: Final[dict[str, Style]] = {"excess": "measured", "excess_share": "percent"}
#: How far the activations may be from theory: blocks that the allocator hands out whole.
_WITHIN: Final = 0.002
_decoder = msgspec.json.Decoder(Lifetimes)


@dataclass(frozen=True)
class Published:
    """A timeline of several steps, and the most bytes of activations by theory."""

    stored: StoredImport
    timeline: MemoryTimeline
    predicted: int

    @property
    def measured_activations(self) -> Quantity:
        """The most bytes of activations at any moment."""
        most = self.timeline.highest["activation"]
        return exact("most activations, measured", "B", most, self.stored.file)

    @property
    def predicted_activations(self) -> Quantity:
        """The same by theory."""
        return exact("most activations, predicted", "B", self.predicted)


def published(inputs: Inputs) -> Published | None:
    """The first imported timeline with lifetimes beside it; None without one."""
    for stored in inputs.imported:
        files = inputs.attachments.get(stored.file, {})
        found = next((name for name in files if name.endswith(_TIMELINE)), None)
        if found is None or _LIFETIMES not in files:
            continue
        place = f"data/{stored.file}"
        lifetimes = read_lifetimes(files[_LIFETIMES], f"{place}/{_LIFETIMES}")
        return Published(
            stored,
            read_timeline(files[found], f"{place}/{found}"),
            predicted_activations(lifetimes.network),
        )
    return None


def predicted_activations(network: Network) -> int:
    """The most bytes of activations in a step, in blocks of the CUDA allocator."""
    blocks = tuple(-(-size // ROUNDING) * ROUNDING for size in network.storages)
    moments = timeline(msgspec.structs.replace(network, storages=blocks), Conditions())
    return max(moment.alive["activations"] for moment in moments)


@lru_cache(maxsize=2)
def read_lifetimes(content: bytes, place: str) -> Lifetimes:
    """Lifetimes from the bytes of their file, gzipped JSON; raises ``RecordError``."""
    return strict.parse_json(unpacked(content, place, _REMEDY), _decoder.decode, place, _REMEDY)


def values(found: Published | None) -> Iterator[Value]:
    """What the paragraph prints; nothing without a timeline."""
    if found is None:
        return
    excess = found.measured_activations - found.predicted_activations
    batch = int(found.stored.record.conditions["batch"])
    numbers = {
        "excess": excess,
        "excess_share": excess / found.measured_activations,
        "batch": exact("batch", "1", batch, found.stored.file),
    }
    for id_, quantity in numbers.items():
        yield declare(f"timeline_{id_}", quantity, _STYLES.get(id_))


def claims(found: Published | None) -> Iterator[Claim]:
    """What the timeline decides; nothing without one."""
    if found is None:
        return
    ratio = found.measured_activations / found.predicted_activations
    yield judge("activations-predicted", Statement(ratio, equals(1, within=_WITHIN)))
    yield judge(
        "parameters-predicted", all_of(*(Statement(q, exactly(0)) for q in _differences(found)))
    )


def _differences(found: Published) -> Iterator[Quantity]:
    """Parameters with running statistics, and momentum, less what shapes say."""
    conditions, file = found.stored.record.conditions, found.stored.file
    network = known(captured(str(conditions["network"]), int(conditions["image"]), Way("training")))
    theory = categories(network, int(conditions["batch"]), on_host=False)
    highest = found.timeline.highest
    counts = sum(each.bytes for each in network.network.buffers.values() if not each.shape)
    statistics = theory.parameters + theory.statistics - counts
    for name, size in (("parameter", statistics), ("optimizer state", theory.momentum)):
        yield exact(f"most {name}", "B", highest[name], file) - exact("theory", "B", size)


def facts(found: Published | None) -> dict[str, Any]:
    """Words of the paragraph; nothing without a timeline."""
    network = found.stored.record.conditions["network"] if found else ""
    return {"timeline": {"network": markdown(str(network))} if found else {}}
