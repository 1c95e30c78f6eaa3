"""A model of PyTorch's caching allocator for CUDA: the bytes behind each request.

Given the requests of a program in order, the model says how many bytes are requested by live
tensors, how many the allocator hands out for them, and how many it has reserved from the device.
The rules are those of ``c10/cuda/CUDACachingAllocator.cpp``, each with the constant or the function
that holds it there; they are the same in PyTorch 2.x and 1.13.  What the sums mean is defined by
the note on memory management (https://docs.pytorch.org/docs/stable/notes/cuda.html):

- a request is rounded up to a multiple of 512 B (``kMinBlockSize``, ``round_size``), or to a
  division of a power of two (``Options``);
- up to 1 MiB (``kSmallSize``) it is served from the pool of small blocks, above from that of large
  ones; the pools share nothing (``get_pool``);
- the smallest free block of the pool that is large enough is taken, of equal ones that with the
  lowest address (``get_free_block``, ``BlockComparatorSize``); with ``max_split_size`` an oversize
  block serves only requests that it is not much larger than;
- if there is none, a segment is reserved: 2 MiB (``kSmallBuffer``) in the small pool, 20 MiB
  (``kLargeBuffer``) for less than 10 MiB (``kMinLargeAlloc``), from there the request rounded up
  to 2 MiB (``kRoundLarge``) (``get_allocation_size``);
- what is left of the block stays behind as a free block if it is at least 512 B in the small pool,
  or more than 1 MiB in the large one; otherwise the whole block is handed out, and counted as
  allocated (``should_split``, ``alloc_found_block``);
- a freed block joins the free blocks beside it in its segment (``try_merge_blocks``);
- a segment stays reserved;
- with ``expandable_segments`` a pool is one segment, which grows by 2 MiB or 20 MiB at its end
  (``try_allocate_expandable_block``); its last block, which can grow, is taken only where no other
  is large enough, and every block is split.

One stream, no limit of memory, no graphs, no ``empty_cache``.  Segments are taken to lie in the
order of their reservation; the driver may choose otherwise, which matters only where two free
blocks of one size compete.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Final, Literal, TypeAlias

from report.core.errors import StudyError
from report.theory.work import round_up

MIB: Final = 2**20
#: Every block is a multiple of this many bytes (``kMinBlockSize``).
ROUNDING: Final = 512
#: The largest request of the small pool (``kSmallSize``), and what a large block leaves unsplit.
SMALL_REQUEST: Final = MIB
#: A segment of the small pool (``kSmallBuffer``).
SMALL_SEGMENT: Final = 2 * MIB
#: A segment for large requests below ``OWN_SEGMENT`` (``kLargeBuffer``).
LARGE_SEGMENT: Final = 20 * MIB
#: Requests from here on reserve a segment of their own size (``kMinLargeAlloc``).
OWN_SEGMENT: Final = 10 * MIB
#: The granularity of such a segment (``kRoundLarge``).
SEGMENT_ROUNDING: Final = 2 * MIB
#: Bytes by which an oversize block may exceed its request (``max_non_split_rounding_size``).
OVERSIZE: Final = 20 * MIB

Pool: TypeAlias = Literal["small", "large"]
Sum: TypeAlias = Literal["requested", "allocated", "reserved"]
SUMS: Final[tuple[Sum, ...]] = ("requested", "allocated", "reserved")


@dataclass(frozen=True)
class Options:
    """Settings by which the allocator of a process rounds, splits and reserves.

    Blocks from ``max_split`` bytes on are not split.  ``divisions`` are those between two powers of
    two to which a request is rounded up; 1 rounds to 512 B alone.  With ``expandable`` segments
    each pool is one segment that grows.
    """

    max_split: int | None = None
    divisions: int = 1
    expandable: bool = False

    def rounded(self, size: int) -> int:
        """The bytes of the block that serves ``size`` > 0 bytes, before any remainder.

        ``round_size`` and ``roundup_power2_next_division``.
        """
        step = ROUNDING
        if self.divisions > 1 and size > ROUNDING * self.divisions:
            step = (1 << size.bit_length() - 1) // self.divisions
        return -(-size // step) * step


#: Options of a process that sets none.
DEFAULT: Final = Options()


@dataclass(frozen=True)
class Allocate:
    """A request for ``bytes``; ``id`` names it until it is freed."""

    id: str
    bytes: int


@dataclass(frozen=True)
class Free:
    """The end of the request ``id``."""

    id: str


MemoryRequest: TypeAlias = Allocate | Free


@dataclass(frozen=True)
class AllocatorBlock:
    """``size`` bytes of a segment; free where ``owner`` is None.

    ``requested`` are the bytes that its owner asked for, 0 if it is free.
    """

    size: int
    owner: str | None = None
    requested: int = 0


@dataclass(frozen=True)
class Segment:
    """Bytes reserved by one ``cudaMalloc``, tiled by blocks in the order of their addresses."""

    pool: Pool
    blocks: tuple[AllocatorBlock, ...]

    @cached_property
    def size(self) -> int:
        """All of its bytes."""
        return sum(block.size for block in self.blocks)

    @cached_property
    def requested(self) -> int:
        """The bytes that the owners of its blocks asked for."""
        return sum(block.requested for block in self.blocks)

    @cached_property
    def allocated(self) -> int:
        """The bytes of its blocks that are handed out."""
        return sum(block.size for block in self.blocks if block.owner is not None)

    @cached_property
    def largest_free(self) -> int:
        """The bytes of its largest free block; 0 if there is none."""
        return max((block.size for block in self.blocks if block.owner is None), default=0)

    @cached_property
    def places(self) -> dict[str, int]:
        """The position of each owner's block."""
        return {b.owner: position for position, b in enumerate(self.blocks) if b.owner is not None}

    def with_blocks(self, first: int, end: int, *blocks: AllocatorBlock) -> "Segment":
        """Replace the blocks from ``first`` to ``end`` by others, and join free neighbours."""
        joined: list[AllocatorBlock] = []
        for block in (*self.blocks[:first], *blocks, *self.blocks[end:]):
            if joined and joined[-1].owner is None and block.owner is None:
                joined[-1] = AllocatorBlock(joined[-1].size + block.size)
            else:
                joined.append(block)
        return Segment(self.pool, tuple(joined))


@dataclass(frozen=True)
class Snapshot:
    """The allocator after a request, in bytes, as ``torch.cuda.memory_stats`` counts them.

    ``requested_bytes``, ``allocated_bytes`` and ``reserved_bytes`` (``.all.current``) there are the
    three sums here.  A request of 0 B owns no block, so ``empty`` lists such owners.  ``options``
    are those of the process.
    """

    segments: tuple[Segment, ...] = ()
    empty: frozenset[str] = frozenset()
    options: Options = DEFAULT

    @property
    def requested(self) -> int:
        """Bytes that live tensors asked for."""
        return sum(segment.requested for segment in self.segments)

    @property
    def allocated(self) -> int:
        """Bytes of the blocks that are handed out."""
        return sum(segment.allocated for segment in self.segments)

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def with_segment(self, number: int, segment: Segment) -> "Snapshot":
        """Replace the segment at the position ``number``, or append the segment."""
        segments = (*self.segments[:number], segment, *self.segments[number + 1 :])
        return replace(self, segments=segments)

    def number_of(self, owner: str) -> int | None:
        """Return the position of the segment with the block of ``owner``, if any."""
        for number, segment in enumerate(self.segments):
            if owner in segment.places:
                return number
        return None


#: The allocator of a process that has not yet asked for anything.
NOTHING: Final = Snapshot()


def replay(requests: Iterable[MemoryRequest], start: Snapshot = NOTHING) -> tuple[Snapshot, ...]:
    """Return ``start`` and the states of the allocator after each of ``requests``.

    Raises ``StudyError`` for a request that no program can make: a negative size, an id that is
    allocated twice, the end of one that is not allocated.
    """
    return tuple(accumulate(requests, after, initial=start))


def after(state: Snapshot, request: MemoryRequest) -> Snapshot:
    """Return the state after ``request``; raises ``StudyError`` as ``replay`` does."""
    number = state.number_of(request.id)
    if isinstance(request, Free):
        if request.id in state.empty:
            return replace(state, empty=state.empty - {request.id})
        if number is None:
            raise _impossible(request.id, "it is freed while it is not allocated")
        segment = state.segments[number]
        place = segment.places[request.id]
        freed = AllocatorBlock(segment.blocks[place].size)
        return state.with_segment(number, segment.with_blocks(place, place + 1, freed))
    if request.bytes < 0:
        raise _impossible(request.id, f"{request.bytes} B are requested")
    if request.id in state.empty or number is not None:
        raise _impossible(request.id, "it is allocated while it is already allocated")
    if request.bytes == 0:
        return replace(state, empty=state.empty | {request.id})
    size = state.options.rounded(request.bytes)
    fit = _best_fit(state, size)
    if fit is None:
        number, segment = _reserved(state, size)
        place = len(segment.blocks) - 1
    else:
        number, place = fit
        segment = state.segments[number]
    return state.with_segment(number, _handed_out(segment, place, size, request, state.options))


def _best_fit(state: Snapshot, size: int) -> tuple[int, int] | None:
    """The smallest free block of at least ``size`` in the pool of ``size``: segment and position.

    The end of an expandable segment counts as larger than any other block.
    """
    fitting: list[tuple[bool, int, int, int]] = []
    for number, segment in enumerate(state.segments):
        if segment.pool != _pool(size) or segment.largest_free < size:
            continue
        last = len(segment.blocks) - 1
        for place, block in enumerate(segment.blocks):
            if block.owner is None and block.size >= size:
                grows = state.options.expandable and place == last
                fitting.append((grows, block.size, number, place))
    best = min(fitting, default=None)
    if best is None or not _may_serve(best[1], size, state.options.max_split):
        return None
    return best[2], best[3]


def _may_serve(block: int, size: int, limit: int | None) -> bool:
    """Return whether ``max_split_size`` lets a free block serve ``size`` bytes."""
    if limit is None:
        return True
    return block < limit if size < limit else block < size + OVERSIZE


def _reserved(state: Snapshot, size: int) -> tuple[int, Segment]:
    """Return a new or a grown segment, whose last block has ``size`` free bytes, and its number."""
    pool = _pool(size)
    page = SMALL_SEGMENT if pool == "small" else LARGE_SEGMENT
    for number, segment in enumerate(state.segments):
        if state.options.expandable and segment.pool == pool:
            last, end = segment.blocks[-1], len(segment.blocks)
            missing = size - (last.size if last.owner is None else 0)
            page_block = AllocatorBlock(round_up(missing, page))
            return number, segment.with_blocks(end, end, page_block)
    if state.options.expandable:
        reserved = round_up(size, page)
    elif pool == "large" and size >= OWN_SEGMENT:
        reserved = round_up(size, SEGMENT_ROUNDING)
    else:
        reserved = page
    return len(state.segments), Segment(pool, (AllocatorBlock(reserved),))


def _handed_out(
    segment: Segment, place: int, size: int, request: Allocate, options: Options
) -> Segment:
    """Return the segment with its free block at ``place`` allocated, and split where allowed."""
    block = segment.blocks[place]
    remainder = block.size - size
    if segment.pool == "small" or options.expandable:
        splits = remainder >= ROUNDING
    else:
        may_split = options.max_split is None or size < options.max_split
        splits = may_split and remainder > SMALL_REQUEST
    owned = AllocatorBlock(size if splits else block.size, request.id, request.bytes)
    free = [AllocatorBlock(remainder)] if splits else []
    return segment.with_blocks(place, place + 1, owned, *free)


def _pool(size: int) -> Pool:
    return "small" if size <= SMALL_REQUEST else "large"


def _impossible(owner: str, reason: str) -> StudyError:
    return StudyError(f"allocator request {owner}: {reason}; correct the sequence of requests.")


# ---------------------------------------------------------------------------------------- options

#: The options that are modelled with the values that PyTorch takes: splits from 20 MiB on
#: (``kLargeBuffer``), one number of divisions for all sizes, which is a power of two.
_VALUES: Final = {
    "max_split_size_mb": re.compile(r"[2-9]\d|[1-9]\d{2,}"),
    "roundup_power2_divisions": re.compile(r"1|2|4|8|16|32|64"),
    "expandable_segments": re.compile("True|False"),
    "garbage_collection_threshold": re.compile(r"0?\.\d*[1-9]\d*"),
    "backend": re.compile("native"),
}
#: Options that change no bytes on the device: page-locked memory, and locks.
_WITHOUT_EFFECT: Final = frozenset({
    "pinned_use_background_threads", "pinned_use_cuda_host_register", "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb", "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb",
    "release_lock_on_cudamalloc",
})  # fmt: skip


def options_of(text: str) -> Options:
    """Parse options such as ``max_split_size_mb:128,expandable_segments:True``.

    The names are those of ``c10/core/AllocatorConfig.h`` and ``c10/cuda/CUDAAllocatorConfig.h`` of
    PyTorch 2.13.  Garbage collection has no effect without a limit of memory
    (``set_per_process_memory_fraction``).

    Raises ``StudyError`` for an unmodelled option that could change the bytes of a request, and for
    a value that PyTorch would refuse.
    """
    values = {}
    for part in filter(None, "".join(text.split()).split(",")):
        name, _, value = part.partition(":")
        if name in _WITHOUT_EFFECT:
            continue
        if name not in _VALUES:
            known = ", ".join(_VALUES)
            raise StudyError(
                f"allocator option {name}: it is not modelled; possible are {known}: leave it out."
            )
        if _VALUES[name].fullmatch(value) is None:
            raise StudyError(
                f"allocator option {name}: {value!r} is not possible, or not modelled."
            )
        values[name] = value
    split = values.get("max_split_size_mb")
    return Options(
        max_split=None if split is None else int(split) * MIB,
        divisions=int(values.get("roundup_power2_divisions", 1)),
        expandable=values.get("expandable_segments") == "True",
    )
