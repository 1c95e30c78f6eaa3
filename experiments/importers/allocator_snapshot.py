"""Snapshots of CUDA's caching allocator (``torch.cuda.memory._dump_snapshot``).

The pickle is read without running anything (``report.instruments.allocator_snapshot``).  Where its
history begins with nothing allocated, the record holds every request, so that the model of the
allocator replays it as it replays our own.
"""

from __future__ import annotations

from typing import Final

import msgspec

from experiments.harness.cuda_memory import series_of
from experiments.importers.imported import Imported, Source, case, environment
from experiments.importers.network_conditions import conditions
from report.instruments.allocator_snapshot import Snapshot, read_snapshot

#: Where a pickle of protocol 2 or later begins.
_PICKLE: Final = b"\x80"


def detects(source: Source) -> bool:
    """Whether the content begins as a pickle does."""
    return source.content.startswith(_PICKLE)


def read(source: Source) -> Imported:
    """The requests of the one device that has a history.

    Raises ``RefusedError`` for none or several, and ``RecordError`` for a damaged or foreign file.
    """
    snapshot = read_snapshot(source.content, source.name)
    histories = [history for history in snapshot.histories if history]
    if len(histories) != 1:
        raise source.refused(f"{len(histories)} devices have a history; record one, of one device")
    if source.device is None:
        raise source.refused("it does not say the device; give it with --device")
    entries = tuple(msgspec.structs.asdict(entry) for entry in histories[0])
    measured = series_of(entries, 0, _is_whole(snapshot))
    told = {name: samples for name, samples in measured.items() if samples}
    if not told:
        raise source.refused("its history holds no request; record one with _record_memory_history")
    return Imported(
        instrument="PyTorch, memory snapshot",
        environment=environment("cuda", source.device),
        cases=(
            case(
                {"subject": "snapshot"},
                {
                    **told,
                    "allocated_after": [snapshot.allocated],
                    "reserved_after": [snapshot.reserved],
                },
            ),
        ),
        unstated="the snapshot does not say it",
        conditions=conditions(source),
    )


def _is_whole(snapshot: Snapshot) -> bool:
    """Whether the history made all that is allocated at its end, so that it began with nothing."""
    change = {"alloc": 1, "free_completed": -1}
    live = sum(
        change.get(entry.action, 0) * entry.size
        for history in snapshot.histories
        for entry in history
    )
    return snapshot.requested == live
