"""The model of PyTorch's caching allocator, compared with values computed by hand.

The allocator reserves segments of GPU memory and divides them into blocks.  The owner of a block
is the tensor in the block; free blocks have no owner.
"""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from report.core.errors import StudyError
from report.theory import allocator
from report.theory.allocator import (
    MIB,
    Allocate,
    Free,
    MemoryRequest,
    Snapshot,
    parse_options,
    replay,
)


def run(*program: tuple[str, int], options: str = "") -> tuple[Snapshot, ...]:
    """Replay requests (owner, bytes), in which 0 B frees the owner's block.

    Return the states before the first request and after each request.
    """
    requests: list[MemoryRequest] = []
    for owner, size in program:
        requests.append(Allocate(owner, size) if size else Free(owner))
    return replay(requests, Snapshot(options=parse_options(options)))


FOUR_DIVISIONS = "roundup_power2_divisions:4"


@pytest.mark.parametrize(("options", "size", "block", "segment"), [
    ("", 1, 512, 2 * MIB),
    ("", 512, 512, 2 * MIB),
    ("", 513, 1024, 2 * MIB),
    ("", MIB, MIB, 2 * MIB),
    ("", MIB + 1, MIB + 512, 20 * MIB),
    ("", 10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
    # The size is rounded up to 512 B before the comparison with 10 MiB.
    ("", 10 * MIB - 511, 10 * MIB, 10 * MIB),
    ("", 10 * MIB, 10 * MIB, 10 * MIB),
    ("", 10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
    # Four divisions between 1,024 and 2,048 MiB: an example of PyTorch's notes on CUDA.
    (FOUR_DIVISIONS, 1200 * MIB, 1280 * MIB, 1280 * MIB),
    (FOUR_DIVISIONS, 1024 * MIB, 1024 * MIB, 1024 * MIB),
    (FOUR_DIVISIONS, 2048, 2048, 2 * MIB),
    (FOUR_DIVISIONS, 2100, 2560, 2 * MIB),
])  # fmt: skip
def test_sizes_of_blocks_and_segments(options: str, size: int, block: int, segment: int) -> None:
    """``size``: requested bytes; ``block`` and ``segment``: bytes that the allocator uses."""
    assert parse_options(options).round_size(size) == block
    assert run(("a", size), options=options)[-1].reserved == segment


#: Rule → requests (owner, MiB; 0 frees the block), and the owners of the final blocks of each
#: segment ("-" is a free block).  512 B, the smallest block, are 2**-11 MiB.
FINAL_BLOCKS = {
    "small and large blocks share no segment":
        ([("a", 5e-6), ("b", 2), ("c", 7e-4)], ["a c -", "b -"]),
    "a small block is split down to 512 B": ([("a", 1), ("b", 1 - 2**-11)], ["a b -"]),
    "a large block is not split if 1 MiB would be left": ([("a", 11)], ["a"]),
    "a large block is split if more would be left": ([("a", 11 - 2**-11)], ["a -"]),
    "the smallest free block that fits is used":
        ([("a", 30), ("b", 14), ("c", 22), ("a", 0), ("b", 0), ("c", 0), ("d", 20)],
         ["-", "-", "d -"]),
    "of equal free blocks, the first is used":
        ([("a", 12), ("b", 12), ("b", 0), ("a", 0), ("c", 12)], ["c", "-"]),
    "free neighbours join": ([("a", 4), ("b", 4), ("c", 4), ("a", 0), ("c", 0)], ["- b -"]),
    "three blocks join": ([("a", 4), ("b", 4), ("c", 4), ("a", 0), ("c", 0), ("b", 0)], ["-"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FINAL_BLOCKS)
def test_final_blocks_of_segments(name: str) -> None:
    program, expected = FINAL_BLOCKS[name]
    last = run(*((owner, int(size * MIB)) for owner, size in program))[-1]
    owners = [[block.owner or "-" for block in segment.blocks] for segment in last.segments]
    assert owners == [blocks.split() for blocks in expected]


#: Options → requests (owner, MiB; 0 frees the block), each with the allocated and the reserved MiB
#: after the request, computed by hand.  Large segments are multiples of 20 MiB if expandable.
ALLOCATED_AND_RESERVED = {
    "expandable_segments:True": [
        (("a", 3), 3, 20),  # 17 left
        (("b", 30), 33, 40),  # 13 more are missing: a second page
        (("c", 6), 39, 40),  # taken from the 7 free MiB at the end
        (("a", 0), 36, 40),
        (("d", 1.5), 37.5, 40),  # the hole is preferred to the end, which could grow
        (("e", 2), 39.5, 60),  # neither hole nor end is large enough: a third page
        (("f", 0.125), 39.625, 62),  # small blocks have segments of 2 MiB
    ],
    "max_split_size_mb:40": [
        (("a", 60), 60, 60),
        (("a", 0), 0, 60),
        (("b", 39), 40, 100),  # a request below the limit gets a new segment, of whole 2 MiB
        (("c", 40), 80, 140),  # the free block is 20 MiB larger, which is too much
        (("d", 41), 140, 140),  # a request above the limit uses the whole free block of 60 MiB
    ],
}


@pytest.mark.parametrize("options", ALLOCATED_AND_RESERVED)
def test_allocated_and_reserved_bytes_by_hand(options: str) -> None:
    rows = ALLOCATED_AND_RESERVED[options]
    program = [(owner, int(size * MIB)) for (owner, size), *_ in rows]
    states = run(*program, options=options)[1:]
    sizes = [(state.allocated / MIB, state.reserved / MIB) for state in states]
    assert sizes == [(allocated, reserved) for _, allocated, reserved in rows]


@pytest.mark.parametrize(("requests", "message"), [
    ([Allocate("a", -1)], "request a: -1 B are requested"),
    ([Allocate("a", 1), Allocate("a", 1)], "request a: it is allocated while"),
    ([Allocate("a", 0), Allocate("a", 1)], "request a: it is allocated while"),
    ([Free("a")], "request a: it is freed while it is not allocated"),
    ([Allocate("a", 1), Free("a"), Free("a")], "request a: it is freed while"),
])  # fmt: skip
def test_impossible_requests_are_refused(requests: list[MemoryRequest], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        replay(requests)


#: Requested bytes, many of them near the limits of small blocks (1 MiB) and of exact segments.
_SIZES = st.one_of(
    st.integers(0, 4096),
    st.integers(MIB - 2000, MIB + 2000),
    st.integers(10 * MIB - 2000, 10 * MIB + 2000),
    st.integers(1, 40 * MIB),
)
OPTIONS = (
    "",
    "max_split_size_mb:20",
    "roundup_power2_divisions:4",
    "expandable_segments:True,max_split_size_mb:21,roundup_power2_divisions:16",
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 25), _SIZES), max_size=25),
       st.sampled_from(OPTIONS))  # fmt: skip
def test_invariants_hold_after_every_request(steps: list[tuple[bool, int, int]], text: str) -> None:
    """Each step (is_free, index, size) frees the owner at ``index``, or allocates ``size`` B."""
    options = parse_options(text)
    requested, state = dict[str, int](), Snapshot(options=options)
    for number, (is_free, index, size) in enumerate(steps):
        if is_free and requested:
            owner = list(requested)[index % len(requested)]
            del requested[owner]
            state = allocator.apply_request(state, Free(owner))
        else:
            requested[str(number)] = size
            state = allocator.apply_request(state, Allocate(str(number), size))
        requested_by_owner = dict.fromkeys(state.empty, 0)
        for segment in state.segments:
            assert_valid(segment, options)
            for block in segment.blocks:
                if block.owner is not None:
                    requested_by_owner[block.owner] = block.requested
        assert requested_by_owner == requested
        assert state.requested == sum(requested.values()) <= state.allocated <= state.reserved
    freed = replay([Free(owner) for owner in requested], state)[-1]
    assert (freed.requested, freed.allocated, freed.reserved) == (0, 0, state.reserved)
    assert all(len(segment.blocks) == 1 for segment in freed.segments)


def assert_valid(segment: allocator.Segment, options: allocator.Options) -> None:
    """Assert the size of the segment and of its blocks, and that free blocks are not adjacent.

    Segments are multiples of a page, unless a request of 10 MiB or more has a segment of its own.
    """
    page = allocator.SMALL_SEGMENT if segment.pool == "small" else allocator.LARGE_SEGMENT
    is_own = segment.pool == "large" and not options.expandable and segment.size >= 10 * MIB
    assert is_own or segment.size % page == 0
    for block in segment.blocks:
        assert block.size > 0 and block.size % allocator.BLOCK_ROUNDING == 0
        assert block.requested <= block.size
        assert (block.owner is None) == (block.requested == 0)
    for before, after in pairwise(segment.blocks):
        assert before.owner is not None or after.owner is not None


@pytest.mark.parametrize(("text", "expected"), [
    ("", allocator.DEFAULT_OPTIONS),
    ("backend:native", allocator.DEFAULT_OPTIONS),
    ("garbage_collection_threshold:0.8", allocator.DEFAULT_OPTIONS),
    ("max_split_size_mb:64, expandable_segments:True",
     allocator.Options(max_split=64 * MIB, expandable=True)),
    ("roundup_power2_divisions:16", allocator.Options(divisions=16)),
    ("per_process_memory_fraction:0.5", "per_process_memory_fraction: it is not modelled"),
    ("large_segment_size_mb:40", "large_segment_size_mb: it is not modelled"),
    ("backend:cudaMallocAsync", "backend: 'cudaMallocAsync' is not possible"),
    ("max_split_size_mb", "'' is not possible"),
    # PyTorch refuses these options, too.
    ("max_split_size_mb:19", "'19' is not possible"),
    ("garbage_collection_threshold:1", "'1' is not possible"),
    ("expandable_segments:true", "'true' is not possible"),
    ("roundup_power2_divisions:3", "'3' is not possible"),
    ("roundup_power2_divisions:[3:4]", "'[3:4]' is not possible"),
])  # fmt: skip
def test_options_are_parsed_or_refused(text: str, expected: allocator.Options | str) -> None:
    """``expected``: the parsed options, or a part of the error message."""
    if isinstance(expected, allocator.Options):
        assert parse_options(text) == expected
        return
    with pytest.raises(StudyError, match=re.escape(expected)):
        parse_options(f"garbage_collection_threshold:0.5, {text}")
