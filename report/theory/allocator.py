"""A model of PyTorch's caching allocator for CUDA: which requests take which bytes.

Given the requests of a program in order, the model says how many bytes are requested by live
tensors, how many the allocator hands out for them, and how many it has reserved from the device.
The rules are those of ``c10/cuda/CUDACachingAllocator.cpp``, each with the constant or the function
that holds it there; they are the same in PyTorch 2.x and 1.13.  What the sums mean is told by the
note on memory management (https://docs.pytorch.org/docs/stable/notes/cuda.html):

- a request is rounded up to a multiple of 512 B (``kMinBlockSize``, ``round_size``);
- up to 1 MiB (``kSmallSize``) it is served from the pool of small blocks, above from that of large
  ones; the pools share nothing (``get_pool``);
- the smallest free block of the pool that is large enough is taken, of equal ones that with the
  lowest address (``get_free_block``, ``BlockComparatorSize``);
- if there is none, a segment is reserved: 2 MiB (``kSmallBuffer``) in the small pool, 20 MiB
  (``kLargeBuffer``) for less than 10 MiB (``kMinLargeAlloc``), from there the request rounded up
  to 2 MiB (``kRoundLarge``) (``get_allocation_size``);
- what is left of the block stays behind as a free block if it is at least 512 B in the small pool,
  or more than 1 MiB in the large one; otherwise the whole block is handed out, and counted as
  allocated (``should_split``, ``alloc_found_block``);
- a freed block joins the free blocks beside it in its segment (``try_merge_blocks``);
- a segment stays reserved until ``empty_cache``, which returns those that are free as a whole
  (``release_blocks``).

One stream, ``expandable_segments`` off, no limit on splitting or memory, no graphs: the defaults.
Segments are taken to lie in the order of their reservation; the driver may choose otherwise, which
matters only where two free blocks of one size compete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal, TypeAlias

from report.errors import StudyError
from report.records.layers import Dropout, Flatten, Layer
from report.theory.memory import element_bytes, input_bytes, output_bytes
from report.theory.shapes import bias_count, weight_count

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

    @property
    def allocated(self) -> int:
        """The bytes of its blocks that are handed out."""
        return sum(block.size for block in self.blocks if block.owner is not None)


@dataclass(frozen=True)
class Snapshot:
    """The allocator after a request, in bytes, as ``torch.cuda.memory_stats`` counts them.

    ``requested_bytes``, ``allocated_bytes`` and ``reserved_bytes`` (``.all.current``) there are the
    three sums here; ``reservations`` counts the segments ever reserved.  A request of 0 B owns no
    block, so ``empty`` lists such owners.
    """

    segments: tuple[Segment, ...] = ()
    reservations: int = 0
    empty: frozenset[str] = frozenset()

    @property
    def requested(self) -> int:
        """Bytes that live tensors asked for."""
        return sum(block.requested for segment in self.segments for block in segment.blocks)

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


def rounded(size: int) -> int:
    """The bytes of the block that serves a request of ``size`` > 0 bytes, before any remainder."""
    return _up(size, ROUNDING)


def segment_size(size: int) -> int:
    """The bytes reserved for a request of ``size`` > 0 bytes that finds no free block."""
    if _pool(rounded(size)) == "small":
        return SMALL_SEGMENT
    return LARGE_SEGMENT if rounded(size) < OWN_SEGMENT else _up(rounded(size), SEGMENT_ROUNDING)


def replay(requests: Iterable[Request], start: Snapshot = NOTHING) -> Replay:
    """The states of the allocator after each of ``requests``, from ``start`` on.

    Raises ``StudyError`` for a request that no program can make: a negative size, an id that is
    allocated twice, the end of one that is not allocated.
    """
    first, *steps = accumulate(requests, after, initial=start)
    return Replay(first, tuple(steps))


def parameter_requests(layers: Iterable[Layer]) -> tuple[Allocate, ...]:
    """Weights and biases in the order in which ``Module.to`` moves them.

    Statistics of batch normalisation, which are not parameters, are left out.
    """
    return tuple(
        Allocate(f"{layer.name}.{part}", count * element_bytes(layer))
        for layer in layers
        for part, count in (("weight", weight_count(layer)), ("bias", bias_count(layer)))
        if count
    )


def activation_requests(layers: Sequence[Layer]) -> tuple[Allocate | Free, ...]:
    """The tensors of a forward pass in inference through a chain of ``layers``, eager PyTorch.

    Each output is allocated while its input is still there, and the input is freed afterwards,
    except that of the network, which the caller holds.  A flatten is a view and dropout does
    nothing in inference, so that neither allocates.  Workspaces are not tensors and not among them.
    """
    requests: list[Allocate | Free] = [Allocate("input", input_bytes(layers[0]))] if layers else []
    held = None
    for layer in layers:
        if isinstance(layer, Flatten | Dropout):
            continue
        requests.append(Allocate(layer.name, output_bytes(layer)))
        requests += [Free(held)] if held else []
        held = layer.name
    return tuple(requests)


def after(state: Snapshot, request: Request) -> Snapshot:
    """The state that ``request`` leaves; raises ``StudyError`` as ``replay`` does."""
    match request:
        case Allocate():
            return _allocated(state, request)
        case Free():
            return _freed(state, request.id)
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
    found = _best_fit(state.segments, rounded(request.bytes))
    if found is not None:
        return replace(state, segments=_handed_out(state.segments, found, request))
    size = segment_size(request.bytes)
    fresh = Segment(state.reservations, _pool(rounded(request.bytes)), size, (Block(0, size),))
    segments = (*state.segments, fresh)
    place = (len(segments) - 1, 0)
    return replace(
        state,
        segments=_handed_out(segments, place, request),
        reservations=state.reservations + 1,
    )


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


def _best_fit(segments: Sequence[Segment], size: int) -> tuple[int, int] | None:
    """Segment and block of the smallest free block of at least ``size`` in the pool of ``size``."""
    fitting = (
        (block.size, index, position)
        for index, segment in enumerate(segments)
        if segment.pool == _pool(size)
        for position, block in enumerate(segment.blocks)
        if block.owner is None and block.size >= size
    )
    best = min(fitting, default=None)
    return best and best[1:]


def _handed_out(
    segments: tuple[Segment, ...], place: tuple[int, int], request: Allocate
) -> tuple[Segment, ...]:
    """``segments`` with the free block at ``place`` given to ``request``, split where it may be."""
    index, position = place
    segment = segments[index]
    block = segment.blocks[position]
    left = block.size - rounded(request.bytes)
    splits = left >= ROUNDING if segment.pool == "small" else left > SMALL_REQUEST
    size = block.size - left if splits else block.size
    parts = [Block(block.offset, size, request.id, request.bytes)]
    if splits:
        parts.append(Block(block.offset + size, left))
    blocks = (*segment.blocks[:position], *parts, *segment.blocks[position + 1 :])
    return _with_blocks(segments, index, blocks)


def _with_blocks(
    segments: tuple[Segment, ...], index: int, blocks: tuple[Block, ...]
) -> tuple[Segment, ...]:
    return (*segments[:index], replace(segments[index], blocks=blocks), *segments[index + 1 :])


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
        for position, block in enumerate(segment.blocks):
            if block.owner == owner:
                return index, position
    return None


def _pool(size: int) -> Pool:
    return "small" if size <= SMALL_REQUEST else "large"


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _impossible(owner: str, found: str) -> StudyError:
    return StudyError(f"allocator request {owner}: {found}; correct the sequence of requests.")


def around(layers: Sequence[Layer], name: str) -> tuple[Snapshot, Snapshot]:
    """The allocator's states right before and after it gives the output of the layer ``name``.

    Raises ``StudyError`` if no layer of that name allocates one.
    """
    state = replay(parameter_requests(layers)).last
    for request in activation_requests(layers):
        following = after(state, request)
        if isinstance(request, Allocate) and request.id == name:
            return state, following
        state = following
    raise StudyError(f"layer {name}: no layer of that name allocates its output.")
