"""A model of PyTorch's caching allocator for CUDA: which requests take which bytes.

Given the requests of a program in order, the model says how many bytes are requested by live
tensors, how many the allocator hands out for them, and how many it has reserved from the device.
The rules are those of ``c10/cuda/CUDACachingAllocator.cpp``, each with the constant or the function
that holds it there; they are the same in PyTorch 2.x and 1.13.  What the sums mean is defined by
the note on memory management (https://docs.pytorch.org/docs/stable/notes/cuda.html):

- a request is rounded up to a multiple of 512 B (``kMinBlockSize``, ``round_size``), or to a
  division of a power of two (``theory.allocator_options``);
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
- a segment stays reserved until ``empty_cache``, which returns those that are free as a whole
  (``release_blocks``);
- with ``expandable_segments`` a pool is one segment, which grows by 2 MiB or 20 MiB at its end
  (``try_allocate_expandable_block``); its last block, which can grow, is taken only where no other
  is large enough, and every block is split.

One stream, no limit of memory, no graphs; ``empty_cache`` with expandable segments is not modelled.
Segments are taken to lie in the order of their reservation; the driver may choose otherwise, which
matters only where two free blocks of one size compete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Final, Literal, TypeAlias

from report.errors import StudyError
from report.theory.allocator_options import DEFAULT, MIB, ROUNDING, Options

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

#: What an oversize block may have more than its request (``max_non_split_rounding_size``).
OVERSIZE: Final = 20 * MIB

Pool: TypeAlias = Literal["small", "large"]


@dataclass(frozen=True)
class Allocate:
    """A request for ``bytes``; ``id`` names it until it is freed."""

    id: str
    bytes: int


@dataclass(frozen=True)
class Free:
    """The end of the request ``id``."""

    id: str


@dataclass(frozen=True)
class EmptyCache:
    """``torch.cuda.empty_cache()``."""


Request: TypeAlias = Allocate | Free | EmptyCache


@dataclass(frozen=True)
class Block:
    """``size`` bytes of a segment from ``offset`` on; free where ``owner`` is None.

    ``requested`` are the bytes that its owner asked for, 0 if it is free.
    """

    offset: int
    size: int
    owner: str | None = None
    requested: int = 0


@dataclass(frozen=True)
class Segment:
    """What one ``cudaMalloc`` reserved, tiled by blocks; ``number`` counts reservations from 0."""

    number: int
    pool: Pool
    size: int
    blocks: tuple[Block, ...]

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


@dataclass(frozen=True)
class Snapshot:
    """The allocator after a request, in bytes, as ``torch.cuda.memory_stats`` counts them.

    ``requested_bytes``, ``allocated_bytes`` and ``reserved_bytes`` (``.all.current``) there are the
    three sums here; ``reservations`` counts the segments ever reserved.  A request of 0 B owns no
    block, so ``empty`` lists such owners.  ``options`` are those of the process.
    """

    segments: tuple[Segment, ...] = ()
    reservations: int = 0
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


#: The allocator of a process that has not yet asked for anything.
NOTHING: Final = Snapshot()


@dataclass(frozen=True)
class Replay:
    """The states after each request from ``start`` on, and the peaks over all of them."""

    start: Snapshot
    steps: tuple[Snapshot, ...]

    @property
    def last(self) -> Snapshot:
        """The state after the last request."""
        return self.steps[-1] if self.steps else self.start

    @property
    def requested_peak(self) -> int:
        """Most bytes that live tensors asked for at any time."""
        return max(state.requested for state in (self.start, *self.steps))

    @property
    def allocated_peak(self) -> int:
        """Most bytes handed out at any time."""
        return max(state.allocated for state in (self.start, *self.steps))

    @property
    def reserved_peak(self) -> int:
        """Most bytes reserved at any time."""
        return max(state.reserved for state in (self.start, *self.steps))


def segment_size(size: int) -> int:
    """The bytes reserved for a rounded request of ``size`` > 0 bytes that finds no free block."""
    if _pool(size) == "small":
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < OWN_SEGMENT else _up(size, SEGMENT_ROUNDING)


def replay(requests: Iterable[Request], start: Snapshot = NOTHING) -> Replay:
    """The states of the allocator after each of ``requests``, from ``start`` on.

    Raises ``StudyError`` for a request that no program can make: a negative size, an id that is
    allocated twice, the end of one that is not allocated.
    """
    first, *steps = accumulate(requests, after, initial=start)
    return Replay(first, tuple(steps))


def after(state: Snapshot, request: Request) -> Snapshot:
    """The state that ``request`` leaves; raises ``StudyError`` as ``replay`` does."""
    match request:
        case Allocate():
            return _allocated(state, request)
        case Free():
            return _freed(state, request.id)
        case EmptyCache() if state.options.expandable:
            raise StudyError(
                "allocator: empty_cache with expandable_segments is not modelled; leave one out."
            )
        case EmptyCache():
            kept = tuple(segment for segment in state.segments if segment.allocated)
            return replace(state, segments=kept)


def _allocated(state: Snapshot, request: Allocate) -> Snapshot:
    if request.bytes < 0:
        raise _impossible(request.id, f"{request.bytes} B are requested")
    if request.id in state.empty or _place(state.segments, request.id) is not None:
        raise _impossible(request.id, "it is allocated while it is already allocated")
    if request.bytes == 0:
        return replace(state, empty=state.empty | {request.id})
    size = state.options.rounded(request.bytes)
    place = _best_fit(state.segments, size, state.options)
    if place is None:
        state, place = _reserved(state, size)
    return replace(state, segments=_handed_out(state, place, size, request))


def _reserved(state: Snapshot, size: int) -> tuple[Snapshot, tuple[int, int]]:
    """The state with a free block for ``size`` bytes, and the place of that block."""
    pool = _pool(size)
    if state.options.expandable:
        for index, segment in enumerate(state.segments):
            if segment.pool == pool:
                segments = _with_blocks(state.segments, index, _grown(segment, size))
                return replace(state, segments=segments), (index, len(segments[index].blocks) - 1)
    bytes_ = _up(size, _page(pool)) if state.options.expandable else segment_size(size)
    fresh = Segment(state.reservations, pool, bytes_, (Block(0, bytes_),))
    segments = (*state.segments, fresh)
    count = state.reservations + 1
    return replace(state, segments=segments, reservations=count), (len(segments) - 1, 0)


def _grown(segment: Segment, size: int) -> tuple[Block, ...]:
    """The blocks of an expandable segment with pages at its end for ``size`` bytes."""
    last = segment.blocks[-1]
    missing = size - (last.size if last.owner is None else 0)
    return _merged((*segment.blocks, Block(segment.size, _up(missing, _page(segment.pool)))))


def _page(pool: Pool) -> int:
    """What an expandable segment grows by."""
    return SMALL_SEGMENT if pool == "small" else LARGE_SEGMENT


def _freed(state: Snapshot, owner: str) -> Snapshot:
    if owner in state.empty:
        return replace(state, empty=state.empty - {owner})
    place = _place(state.segments, owner)
    if place is None:
        raise _impossible(owner, "it is freed while it is not allocated")
    index, position = place
    blocks = state.segments[index].blocks
    block = blocks[position]
    freed = (*blocks[:position], Block(block.offset, block.size), *blocks[position + 1 :])
    return replace(state, segments=_with_blocks(state.segments, index, _merged(freed)))


def _best_fit(segments: Sequence[Segment], size: int, options: Options) -> tuple[int, int] | None:
    """Segment and block of the smallest free block of at least ``size`` in the pool of ``size``.

    The end of an expandable segment counts as larger than any other block.
    """
    fitting = (
        (options.expandable and position == len(segment.blocks) - 1, block.size, index, position)
        for index, segment in enumerate(segments)
        if segment.pool == _pool(size) and segment.largest_free >= size
        for position, block in enumerate(segment.blocks)
        if block.owner is None and block.size >= size
    )
    best = min(fitting, default=None)
    if best is None or not _may_serve(best[1], size, options):
        return None
    return best[2:]


def _may_serve(block: int, size: int, options: Options) -> bool:
    """Whether a free block is not too large for ``size`` bytes by ``max_split_size``."""
    limit = options.max_split
    if limit is None:
        return True
    return block < limit if size < limit else block < size + OVERSIZE


def _handed_out(
    state: Snapshot, place: tuple[int, int], size: int, request: Allocate
) -> tuple[Segment, ...]:
    """The segments with the free block at ``place`` given to ``request``, split where it may be."""
    index, position = place
    segment = state.segments[index]
    block = segment.blocks[position]
    if not _splits(segment.pool, size, block.size - size, state.options):
        size = block.size
    parts = [Block(block.offset, size, request.id, request.bytes)]
    if size < block.size:
        parts.append(Block(block.offset + size, block.size - size))
    blocks = (*segment.blocks[:position], *parts, *segment.blocks[position + 1 :])
    return _with_blocks(state.segments, index, blocks)


def _splits(pool: Pool, size: int, left: int, options: Options) -> bool:
    """Whether ``left`` bytes beside a request become a block of their own."""
    if pool == "small" or options.expandable:
        return left >= ROUNDING
    return left > SMALL_REQUEST and (options.max_split is None or size < options.max_split)


def _with_blocks(
    segments: tuple[Segment, ...], index: int, blocks: tuple[Block, ...]
) -> tuple[Segment, ...]:
    end = blocks[-1].offset + blocks[-1].size
    changed = replace(segments[index], size=end, blocks=blocks)
    return (*segments[:index], changed, *segments[index + 1 :])


def _merged(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """``blocks`` with free neighbours joined."""
    merged: list[Block] = []
    for block in blocks:
        if merged and merged[-1].owner is None and block.owner is None:
            merged[-1] = Block(merged[-1].offset, merged[-1].size + block.size)
        else:
            merged.append(block)
    return tuple(merged)


def _place(segments: Sequence[Segment], owner: str) -> tuple[int, int] | None:
    """Segment and block that ``owner`` holds."""
    for index, segment in enumerate(segments):
        if owner in segment.places:
            return index, segment.places[owner]
    return None


def _pool(size: int) -> Pool:
    return "small" if size <= SMALL_REQUEST else "large"


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _impossible(owner: str, found: str) -> StudyError:
    return StudyError(f"allocator request {owner}: {found}; correct the sequence of requests.")
