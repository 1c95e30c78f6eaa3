"""A snapshot of CUDA's caching allocator read back, without running anything that it names.

``torch.cuda.memory._dump_snapshot`` pickles mappings, lists, texts and numbers alone
(``torch/csrc/cuda/memory_snapshot.cpp``).  A pickle may name any function and call it; here every
name is refused, so that nothing can be called at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.unpacking import UnpackingError, unpickled

_REMEDY: Final = "give a file that torch.cuda.memory._dump_snapshot wrote"
#: More entries than a history has, all devices together: one list may stand for many.
_MOST_ENTRIES: Final = 2**22

Bytes = Annotated[int, msgspec.Meta(ge=0)]


class Entry(msgspec.Struct, frozen=True):
    """One entry of the history; ``addr`` tells blocks apart, ``size`` (B) is what was asked for."""

    action: str
    size: Bytes
    addr: int = 0
    stream: int = 0


class Segment(msgspec.Struct, frozen=True):
    """What one reservation holds (B); older versions of PyTorch do not say what was asked for."""

    total_size: Bytes
    allocated_size: Bytes
    requested_size: Bytes | None = None


class _File(msgspec.Struct, frozen=True):
    segments: tuple[Segment, ...]
    device_traces: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Snapshot:
    """The segments at the end, and each device's history up to there, oldest entry first."""

    segments: tuple[Segment, ...]
    histories: tuple[tuple[Entry, ...], ...]

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return sum(segment.total_size for segment in self.segments)

    @property
    def requested(self) -> int | None:
        """Bytes that were asked for in these blocks; None where a segment does not say it."""
        sizes = [segment.requested_size for segment in self.segments]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def allocated(self) -> int:
        """Bytes of all blocks that are handed out."""
        return sum(segment.allocated_size for segment in self.segments)


def read_snapshot(content: bytes, place: str) -> Snapshot:
    """The snapshot in the bytes of its file; ``place`` names it in messages.

    Raises ``RecordError`` for what is no pickle, is cut off, names anything that would have to be
    imported, or holds no snapshot.
    """
    found = _plain(content, place)
    try:
        file = msgspec.convert(found, _File)
    except msgspec.ValidationError as error:
        raise strict.refusal(error, found, place, _REMEDY) from error
    return Snapshot(file.segments, file.device_traces)


def _plain(content: bytes, place: str) -> Mapping[str, Any]:
    try:
        found = unpickled(content)
    except UnpackingError as error:
        raise RecordError(f"{place}: {error}; {_REMEDY}.") from error
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise RecordError(f"{place}: the top level: expected an object; {_REMEDY}.")
    histories = found.get("device_traces")
    known = histories if isinstance(histories, list) else []
    if sum(len(each) for each in known if isinstance(each, list)) > _MOST_ENTRIES:
        raise RecordError(
            f"{place}: device_traces: found more than {_MOST_ENTRIES:,} entries; {_REMEDY}."
        )
    return found
