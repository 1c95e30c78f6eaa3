"""Copies, sums of products and triads over working sets from a cache's size to memory's.

Bandwidth depends on where the data lie: what fits in a cache moves several times as fast as what
must come from memory, and a layer inside the last cache would seem faster than a roof of memory.
Hence each operation runs over arrays of many sizes, touched again and again.  The *working set* is
all that one call touches, over all its arrays and all its threads; PyTorch gives each thread an
equal part of every array.  Bytes are those that a program names: written lines that a cache reads
first are not counted, so that a copy from memory moves up to half as much again.

- ``copy``: ``a = b`` by ``copy_``, 8 B an element;
- ``read``: nothing is written.  On a CPU by ``torch.dot`` of two arrays, which was faster than
  ``torch.sum`` (21 against 18 GB/s from memory, 117 against 70 GB/s over 1 MiB: Intel with AMX, two
  threads, PyTorch 2.13), on a GPU by ``torch.sum``;
- ``triad``: ``a = b + s·c`` by ``torch.add``, 12 B an element (McCalpin's STREAM).

- ``copy`` inside the caches of a CPU by ``numpy.copyto`` too: one call copies a block again and
  again, each thread a block of its own, so that the cost of calling does not matter.

A call costs PyTorch 1 to 3 µs.  Where that is more than a twentieth of the call's time nothing is
measured, since the rate would be that of calling: so a first cache is too small to be shown by any
library that is called once a pass, and a second one on some machines; the repeated copy, which is
the C library's, stands there alone.  The start of a parallel region (a few µs with several threads,
many ms where other programs keep a core busy) is not in that cost, so that PyTorch's rates of small
working sets are too low, by far on a busy machine.  Stores that pass
the caches by are not among the instruments: PyTorch has no switch for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from experiments.harness import host, runtime
from experiments.harness.instruments import Instrument
from experiments.harness.study import CeilingSize, Device
from report.instruments.gates import BEYOND_CACHES
from report.records.caches import capacities, last_capacity
from report.records.record import Cache, Peak

_FLOAT_BYTES: Final = 4
_SMALLEST: Final = 16 * 2**10
_LARGEST: Final = 2**30
#: Where the system does not tell of its caches: as large as the last one of most processors.
_LAST_CACHE: Final = 32 * 2**20
#: A GPU's cache (50 MB on the largest) is far smaller than these; its kernels start too slowly for
#: smaller ones.
_ON_GPU: Final[dict[CeilingSize, tuple[int, ...]]] = {
    "large": (2**29, 2**30, 2**31),
    "small": (2**29,),
}
#: What a thread moves by one call that copies a block again and again (B): some ms.
_MOVED: Final = 2**28
#: The arrays of an operation, each of which is read or written once.
ARRAYS: Final[dict[Peak, int]] = {"copy": 2, "read": 2, "triad": 3}


def instruments(
    torch: Any, device: Device, threads: int, size: CeilingSize
) -> Iterator[Instrument]:
    """Every operation over every working set of a plan; sample each before taking the next."""
    if device == "cuda":
        found, cached = _ON_GPU[size], 0
    else:
        caches, cores = host.caches(), runtime.cores_available()
        found = working_sets(caches, threads, cores, _free_bytes() // 4, size)
        cached = last_capacity(caches, threads) or 0
    for wanted in found:
        for operation in ARRAYS:
            yield _instrument(torch, device, operation, wanted)
        if wanted <= cached:
            yield _repeated(threads, wanted)


def working_sets(
    found: tuple[Cache, ...], threads: int, cores: int, room: int, size: CeilingSize
) -> tuple[int, ...]:
    """The working sets of a plan (B), ascending, at most 1 GiB and what there is ``room`` for.

    The large plan doubles from 16 KiB up to eight times the last cache of all ``cores``; the small
    one has half of each cache that ``threads`` have, and four times the last cache of all.
    """
    last = last_capacity(found, cores) or _LAST_CACHE
    most = min(8 * last, _LARGEST, room)
    if size == "large":
        steps = range(max(1, (most // _SMALLEST).bit_length()))
        return tuple(_SMALLEST << step for step in steps)
    halves = [capacity // 2 for capacity in capacities(found, threads).values()]
    return tuple(sorted({min(each, most) for each in (*halves, BEYOND_CACHES * last)}))


def _free_bytes() -> int:
    import psutil  # type: ignore[import-untyped]

    return int(psutil.virtual_memory().available)


def _instrument(torch: Any, device: Device, operation: Peak, wanted: int) -> Instrument:
    each = _FLOAT_BYTES * ARRAYS[operation]
    elements = -(-wanted // each)
    name, call = _call(torch, device, operation, elements)
    return Instrument(
        operation=operation,
        name=name,
        dtype="float32",
        size=f"{elements} elements",
        work=each * elements,
        unit="B",
        call=call,
        working_set=each * elements,
        empty=_call(torch, device, operation, 1)[1] if device == "cpu" else None,
    )


def _repeated(threads: int, wanted: int) -> Instrument:
    """Copies between two blocks a thread, all of them together a working set, many in one call."""
    block = wanted // (2 * threads)
    copies = -(-_MOVED // (2 * block))
    return Instrument(
        operation="copy",
        name="numpy.copyto",
        dtype="float32",
        size=f"{block // _FLOAT_BYTES} elements a thread",
        work=2 * block * threads * copies,
        unit="B",
        call=_copies(threads, block, copies),
        working_set=2 * block * threads,
        empty=_copies(threads, block, 1),
    )


def _copies(threads: int, block: int, copies: int) -> Callable[[], object]:
    """Every thread copies its block (B) so many times, which NumPy takes for elements of an array.

    The elements of both arrays lie in one place, by a stride of 0.
    """
    import numpy as np

    item = np.dtype((np.void, block))

    def again(values: Any) -> Any:
        return np.lib.stride_tricks.as_strided(values.view(item), (copies,), (0,))

    arrays = [
        tuple(again(np.ones(block, np.uint8)) for _ in ("to", "from")) for _ in range(threads)
    ]
    if threads == 1:
        return partial(np.copyto, *arrays[0])
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(lambda each: np.copyto(*each), arrays))


def _call(torch: Any, device: Device, operation: Peak, elements: int) -> tuple[str, Any]:
    """The name of a function and its call; the arrays are written, so that they have pages."""
    first, second = torch.ones(elements), torch.ones(elements)
    if operation == "copy":
        return "torch.copy_", lambda: first.copy_(second)
    if operation == "triad":
        third = torch.ones(elements)
        return "torch.add", lambda: torch.add(second, third, alpha=3.0, out=first)
    if device == "cpu":
        return "torch.dot", lambda: torch.dot(first, second)
    whole = torch.ones(2 * elements)
    return "torch.sum", whole.sum
