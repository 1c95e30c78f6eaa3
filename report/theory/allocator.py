"""A model of PyTorch's caching allocator for CUDA: the bytes behind each request.

From the requests of a program in order, the model computes three sums: bytes requested by live
tensors, bytes allocated for these requests, and bytes reserved from the device (defined in
https://docs.pytorch.org/docs/stable/notes/cuda.html, memory management).  The model follows
``c10/cuda/CUDACachingAllocator.cpp``, which is the same in PyTorch 1.13 and 2.x.  Parentheses name
constants and functions of that C++ file:

- A request is rounded up to a multiple of 512 B (``kMinBlockSize``, ``round_size``), or to a
  fraction of a power of two (``roundup_power2_divisions``).
- Requests up to 1 MiB (``kSmallSize``) use the pool of small blocks, larger requests the pool of
  large blocks.  The pools share no memory (``get_pool``).
- The smallest sufficient free block of the pool is used; among equal blocks, the block at the
  lowest address (``get_free_block``, ``BlockComparatorSize``).  A block of ``max_split_size`` or
  more is oversize: it serves only requests of almost the block's size.
- Without a sufficient block a segment is reserved.  It has 2 MiB (``kSmallBuffer``) in the small
  pool.  In the large pool it has 20 MiB (``kLargeBuffer``) for requests below 10 MiB
  (``kMinLargeAlloc``), otherwise the request rounded up to 2 MiB (``kRoundLarge``).
- The remainder of a block becomes a free block if it has at least 512 B (small pool) or more than
  1 MiB (large pool).  Otherwise the whole block is allocated (``should_split``).
- A freed block is merged with free neighbours in its segment (``try_merge_blocks``).  Segments stay
  reserved.
- With ``expandable_segments`` a pool is one segment, which grows at the end by 2 MiB or 20 MiB
  (``try_allocate_expandable_block``).  The last block, which can grow, is used only if no other
  block is large enough.  A remainder of at least 512 B becomes a free block in both pools.

The model has one stream, no limit of memory, no graphs and no ``empty_cache``.  It assumes that
segments lie in the order of reservation, which matters only for free blocks of equal size.
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
#: The size of every block is a multiple of this many bytes (``kMinBlockSize``).
BLOCK_ROUNDING: Final = 512
#: Largest request (B) of the small pool, and largest remainder (B) with which a large block is
#: allocated whole (``kSmallSize``).
LARGEST_SMALL_REQUEST: Final = MIB
#: Size of a segment of the small pool (``kSmallBuffer``).
SMALL_SEGMENT: Final = 2 * MIB
#: Size of a segment for large requests below ``OWN_SEGMENT_SIZE`` (``kLargeBuffer``).
LARGE_SEGMENT: Final = 20 * MIB
#: Smallest request (B) that reserves a segment of the request's rounded size (``kMinLargeAlloc``).
OWN_SEGMENT_SIZE: Final = 10 * MIB
#: Granularity (B) of segments for requests of ``OWN_SEGMENT_SIZE`` or more (``kRoundLarge``).
SEGMENT_ROUNDING: Final = 2 * MIB
#: Bytes by which an oversize block may exceed a request (``max_non_split_rounding_size``).
OVERSIZE_MARGIN: Final = 20 * MIB

Pool: TypeAlias = Literal["small", "large"]
#: Names of the three sums of a ``Snapshot``.
Sum: TypeAlias = Literal["requested", "allocated", "reserved"]
SUMS: Final[tuple[Sum, ...]] = ("requested", "allocated", "reserved")


@dataclass(frozen=True)
class Options:
    """Settings that decide how the allocator of a process rounds, splits and reserves.

    - ``max_split``: blocks of at least this many bytes are oversize and are not split;
    - ``divisions``: number of rounding steps between two powers of two (1: steps of 512 B);
    - ``expandable``: each pool is one segment that grows.
    """

    max_split: int | None = None
    divisions: int = 1
    expandable: bool = False

    def round_size(self, size: int) -> int:
        """Round ``size`` > 0 bytes up to the size of a block (PyTorch: ``round_size``)."""
        step = BLOCK_ROUNDING
        if self.divisions > 1 and size > BLOCK_ROUNDING * self.divisions:
            step = (1 << size.bit_length() - 1) // self.divisions
        return -(-size // step) * step


#: Options of a process that sets none.
DEFAULT_OPTIONS: Final = Options()


@dataclass(frozen=True)
class Allocate:
    """Request for ``bytes`` of memory; ``id`` names the request until the memory is freed."""

    id: str
    bytes: int


@dataclass(frozen=True)
class Free:
    """Release of the memory of the request ``id``."""

    id: str


MemoryRequest: TypeAlias = Allocate | Free


@dataclass(frozen=True)
class AllocatorBlock:
    """Block of ``size`` bytes in a segment, allocated to the request ``owner``.

    ``requested``: bytes of that request.  A free block has no owner and 0 requested bytes.
    """

    size: int
    owner: str | None = None
    requested: int = 0


@dataclass(frozen=True)
class Segment:
    """Memory reserved by one ``cudaMalloc``, divided into blocks in the order of addresses."""

    pool: Pool
    blocks: tuple[AllocatorBlock, ...]

    @cached_property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(block.size for block in self.blocks)

    @cached_property
    def requested(self) -> int:
        """Bytes that the owners of the blocks requested."""
        return sum(block.requested for block in self.blocks)

    @cached_property
    def allocated(self) -> int:
        """Bytes of the allocated blocks."""
        return sum(block.size for block in self.blocks if block.owner is not None)

    @cached_property
    def largest_free(self) -> int:
        """Bytes of the largest free block, or 0 if no block is free."""
        return max((block.size for block in self.blocks if block.owner is None), default=0)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Owner of an allocated block → position of the block in ``blocks``."""
        return {b.owner: position for position, b in enumerate(self.blocks) if b.owner is not None}

    def with_blocks(self, first: int, end: int, *blocks: AllocatorBlock) -> "Segment":
        """Replace ``self.blocks[first:end]`` by ``blocks``, and merge free neighbours."""
        joined: list[AllocatorBlock] = []
        for block in (*self.blocks[:first], *blocks, *self.blocks[end:]):
            if joined and joined[-1].owner is None and block.owner is None:
                joined[-1] = AllocatorBlock(joined[-1].size + block.size)
            else:
                joined.append(block)
        return Segment(self.pool, tuple(joined))


@dataclass(frozen=True)
class Snapshot:
    """State of the allocator between two requests.

    The three sums are ``requested_bytes``, ``allocated_bytes`` and ``reserved_bytes``
    (``.all.current``) of ``torch.cuda.memory_stats``.  ``empty`` contains the ids of requests of
    0 B, which own no block.
    """

    segments: tuple[Segment, ...] = ()
    empty: frozenset[str] = frozenset()
    options: Options = DEFAULT_OPTIONS

    @property
    def requested(self) -> int:
        """Bytes that live tensors requested."""
        return sum(segment.requested for segment in self.segments)

    @property
    def allocated(self) -> int:
        """Bytes of the blocks allocated to live tensors."""
        return sum(segment.allocated for segment in self.segments)

    @property
    def reserved(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def with_segment(self, number: int, segment: Segment) -> "Snapshot":
        """Replace segment ``number`` (counted from 0), or append it if there is no such segment."""
        segments = (*self.segments[:number], segment, *self.segments[number + 1 :])
        return replace(self, segments=segments)

    def segment_number(self, owner: str) -> int | None:
        """Return the number of the segment with the block of ``owner``; None if there is none."""
        for number, segment in enumerate(self.segments):
            if owner in segment.positions:
                return number
        return None


#: Allocator of a process before the first request.
EMPTY_SNAPSHOT: Final = Snapshot()


def replay(
    requests: Iterable[MemoryRequest], start: Snapshot = EMPTY_SNAPSHOT
) -> tuple[Snapshot, ...]:
    """Return ``start`` and the state of the allocator after every request.

    Raises ``StudyError`` for an impossible request: a negative size, an id that is allocated twice,
    or the release of an id that is not allocated.
    """
    return tuple(accumulate(requests, apply_request, initial=start))


def apply_request(state: Snapshot, request: MemoryRequest) -> Snapshot:
    """Return the state after ``request``; raise ``StudyError`` as ``replay`` does."""
    number = state.segment_number(request.id)
    if isinstance(request, Free):
        if request.id in state.empty:
            return replace(state, empty=state.empty - {request.id})
        if number is None:
            raise _impossible(request.id, "it is freed while it is not allocated")
        segment = state.segments[number]
        position = segment.positions[request.id]
        freed = AllocatorBlock(segment.blocks[position].size)
        return state.with_segment(number, segment.with_blocks(position, position + 1, freed))
    if request.bytes < 0:
        raise _impossible(request.id, f"{request.bytes} B are requested")
    if request.id in state.empty or number is not None:
        raise _impossible(request.id, "it is allocated while it is already allocated")
    if request.bytes == 0:
        return replace(state, empty=state.empty | {request.id})
    size = state.options.round_size(request.bytes)
    fit = _best_fit(state, size)
    if fit is None:
        number, segment = _reserve(state, size)
        position = len(segment.blocks) - 1
    else:
        number, position = fit
        segment = state.segments[number]
    segment = _allocate_block(segment, position, size, request, state.options)
    return state.with_segment(number, segment)


def _best_fit(state: Snapshot, size: int) -> tuple[int, int] | None:
    """Find the smallest sufficient free block in the pool for ``size`` bytes.

    The last block of an expandable segment counts as larger than any other block.  Returns the
    number of the segment and the block's position in it, or None if no block is sufficient or
    ``max_split`` forbids the block.
    """
    fitting: list[tuple[bool, int, int, int]] = []
    for number, segment in enumerate(state.segments):
        if segment.pool != _pool(size) or segment.largest_free < size:
            continue
        last = len(segment.blocks) - 1
        for position, block in enumerate(segment.blocks):
            if block.owner is None and block.size >= size:
                grows = state.options.expandable and position == last
                fitting.append((grows, block.size, number, position))
    if not fitting:
        return None
    _, block_size, number, position = min(fitting)
    max_split = state.options.max_split
    if max_split is not None:
        too_large = max_split if size < max_split else size + OVERSIZE_MARGIN
        if block_size >= too_large:
            return None
    return number, position


def _reserve(state: Snapshot, size: int) -> tuple[int, Segment]:
    """Return number and content of a new or grown segment with ``size`` free bytes at its end."""
    pool = _pool(size)
    page = SMALL_SEGMENT if pool == "small" else LARGE_SEGMENT
    for number, segment in enumerate(state.segments):
        if state.options.expandable and segment.pool == pool:
            last, end = segment.blocks[-1], len(segment.blocks)
            missing = size - (last.size if last.owner is None else 0)
            return number, segment.with_blocks(end, end, AllocatorBlock(round_up(missing, page)))
    if state.options.expandable:
        reserved = round_up(size, page)
    elif pool == "large" and size >= OWN_SEGMENT_SIZE:
        reserved = round_up(size, SEGMENT_ROUNDING)
    else:
        reserved = page
    return len(state.segments), Segment(pool, (AllocatorBlock(reserved),))


def _allocate_block(
    segment: Segment, position: int, size: int, request: Allocate, options: Options
) -> Segment:
    """Allocate the free block at ``position``; split off the remainder if it is large enough."""
    block = segment.blocks[position]
    remainder = block.size - size
    if segment.pool == "small" or options.expandable:
        splits = remainder >= BLOCK_ROUNDING
    else:
        may_split = options.max_split is None or size < options.max_split
        splits = may_split and remainder > LARGEST_SMALL_REQUEST
    owned = AllocatorBlock(size if splits else block.size, request.id, request.bytes)
    free = [AllocatorBlock(remainder)] if splits else []
    return segment.with_blocks(position, position + 1, owned, *free)


def _pool(size: int) -> Pool:
    return "small" if size <= LARGEST_SMALL_REQUEST else "large"


def _impossible(owner: str, reason: str) -> StudyError:
    return StudyError(f"allocator request {owner}: {reason}; correct the sequence of requests.")


#: Modelled option → pattern of the modelled values.  ``max_split_size_mb`` must be at least
#: 20 (``kLargeBuffer``).  ``roundup_power2_divisions`` may only be one number for all sizes.
_POSSIBLE_VALUES: Final = {
    "max_split_size_mb": re.compile(r"[2-9]\d|[1-9]\d{2,}"),
    "roundup_power2_divisions": re.compile(r"1|2|4|8|16|32|64"),
    "expandable_segments": re.compile("True|False"),
    "garbage_collection_threshold": re.compile(r"0?\.\d*[1-9]\d*"),
    "backend": re.compile("native"),
}


def parse_options(text: str) -> Options:
    """Parse options such as ``max_split_size_mb:128,expandable_segments:True``.

    The names are those of ``c10/core/AllocatorConfig.h`` and ``c10/cuda/CUDAAllocatorConfig.h`` of
    PyTorch 2.13.  Garbage collection has no effect without a limit of memory
    (``set_per_process_memory_fraction``).

    Raises ``StudyError`` for an option that is not modelled, and for a value that is not modelled
    or that PyTorch rejects.
    """
    values: dict[str, str] = {}
    for part in filter(None, "".join(text.split()).split(",")):
        name, _, value = part.partition(":")
        if name not in _POSSIBLE_VALUES:
            known = ", ".join(_POSSIBLE_VALUES)
            raise StudyError(
                f"allocator option {name}: it is not modelled, unlike {known}; leave it out."
            )
        if _POSSIBLE_VALUES[name].fullmatch(value) is None:
            raise StudyError(
                f"allocator option {name}: {value!r} is not possible or not modelled; leave it out."
            )
        values[name] = value
    split = values.get("max_split_size_mb")
    return Options(
        max_split=None if split is None else int(split) * MIB,
        divisions=int(values.get("roundup_power2_divisions", 1)),
        expandable=values.get("expandable_segments") == "True",
    )
