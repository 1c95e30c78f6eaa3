"""The machine's ceilings: arithmetic, bandwidth and the mapping of pages, in a fresh process.

A process that has measured a series gives lower ceilings than a new one (its allocator and thread
pools are used), hence the process of their own.  It has the environment variables of the memory
policy under which the series is measured.  A large plan takes about 20 s, a small one 4 s.

**Arithmetic.**  A ceiling must not lie below what a network reaches.  On a CPU PyTorch computes
matrix products by one library (MKL on x86) and convolutions by another (oneDNN), which may use
wider vectors: on an AMD processor with AVX-512 the first reached half the rate of the second, and a
3 × 3 convolution of 256 channels more than oneDNN's own product; on an Intel processor with AMX
MKL's product was faster than both.  All are measured, and the best one is the ceiling.  On a GPU
cuDNN may choose an algorithm with fewer multiplications than theory counts, so that the rate by the
work of theory may lie above the device's peak.

**Bandwidth.** What fits in a cache moves several times as fast as what must come from memory, so
that each operation runs over a *working set* that fills half of each cache and one far beyond them:
all that one call touches, over all its arrays and threads, again and again.  Bytes are those that a
program names: written lines that a cache reads first are not counted.  ``copy`` is ``a = b``;
``read`` writes nothing, on a CPU by ``torch.dot``, which was faster than ``torch.sum``; ``triad``
is ``a = b + s·c`` (McCalpin's STREAM).  In small caches calling PyTorch (1 to 3 µs) is too much of
a call's time; there stands ``numpy.copyto``, one call of which copies a block again and again, each
thread a block of its own.

**Pages.**  A sample maps 64 MiB of private memory, without huge pages, and touches one byte of each
page, as an allocator does that gave its memory back to the system.
"""

from __future__ import annotations

import mmap
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

from experiments.harness import timing
from experiments.harness.journal import Ceilings
from experiments.harness.study import SEED, CeilingSize, Device
from experiments.harness.timing import Duration, Workload
from experiments.machine import processor as machine
from experiments.machine import runtime
from report.instruments.gates import BEYOND_CACHES
from report.records.record import (
    Cache,
    Ceiling,
    Moment,
    Peak,
    WorkUnit,
    capacities,
    last_capacity,
)

#: Samples of each ceiling, whose best is what papers call the ceiling; and of the price of a page.
RUNS: Final[dict[CeilingSize, int]] = {"large": 12, "small": 8}
_PAGE_RUNS: Final = 20
_WARMUP: Final = 2

#: Sides of the square matrices.  Their products make more than 80 FLOP/B, above any CPU's ridge.
SIDES: Final[dict[tuple[Device, CeilingSize], tuple[int, ...]]] = {
    ("cpu", "large"): (512, 1024, 2048),
    ("cpu", "small"): (1024,),
    ("cuda", "large"): (4096, 8192),
    ("cuda", "small"): (4096,),
}
#: The convolution: images (a GPU needs more until all its units have work), channels, sides.
_IMAGES: Final[dict[Device, int]] = {"cpu": 8, "cuda": 256}
_CHANNELS, _SIDE, _KERNEL = 256, 28, 3
#: Vector extensions that multiply bfloat16 by themselves; others are slower than float32.
_BFLOAT16: Final = frozenset({"avx512_bf16", "amx_bf16"})
#: The generation of NVIDIA's devices (Ampere) from which on there are bfloat16 and TF32.
_AMPERE: Final = (8, 0)

_FLOAT_BYTES: Final = 4
#: Where the system does not tell of its caches: as large as the last one of most processors.
_LAST_CACHE: Final = 32 * 2**20
#: On a GPU, whose cache is far smaller.
_ON_GPU: Final = 2**30
#: Working sets from here on last far longer than calling PyTorch (B).
_WORTH_CALLING: Final = 4 * 2**20
#: What a thread moves by one call that copies a block again and again (B): some ms.
_MOVED: Final = 2**28

_PAGED: Final = 64 * 2**20
#: Faults beyond those of the pages: tables, and what Python itself touches.
_MORE_FAULTS: Final = 1.02


class Program(NamedTuple):
    """What is sampled, and what the ceiling says of it."""

    call: Callable[[], object]
    operation: Peak
    instrument: str
    size: str
    work: int
    dtype: str = "float32"
    work_unit: WorkUnit = "FLOP"
    working_set: int | None = None

    def durations(self, device: Device, runs: int) -> list[Duration]:
        """Samples of a call each, after a warm-up."""
        workload, clock = Workload(self.call), timing.CLOCKS[device]
        return [clock(workload) for _ in range(_WARMUP + runs)][_WARMUP:]

    def ceiling(self, moment: Moment, durations: Sequence[Duration]) -> Ceiling:
        """The ceiling that samples show."""
        facts = {name: value for name, value in self._asdict().items() if name != "call"}
        return Ceiling(moment=moment, samples=tuple(each.wall for each in durations), **facts)


def measure(device: Device, threads: int, size: CeilingSize, moment: Moment) -> Ceilings:
    """All ceilings, in this process; raises what torch raises.

    The price of a page is that of the host, which a run on a GPU does not ask for.
    """
    torch = runtime.start_torch(device, threads)
    torch.manual_seed(SEED)
    found, reason = [], None
    with torch.device(device), torch.no_grad(), timing.collector_off():
        arithmetic = _arithmetic(torch, device, SIDES[device, size])
        # Each is sampled before the arrays of the next are made.
        for program in chain(arithmetic, _bandwidth(torch, device, threads)):
            found.append(program.ceiling(moment, program.durations(device, RUNS[size])))
        if device == "cpu":
            durations = _PAGE_MAPPING.durations(device, _PAGE_RUNS)
            reason = page_problem([each.page_faults or 0 for each in durations])
            if reason is None:
                found.append(_PAGE_MAPPING.ceiling(moment, durations))
    return Ceilings(ceilings=tuple(found), reason=reason)


# ----------------------------------------------------------------------------------- arithmetic


def _arithmetic(torch: Any, device: Device, sides: tuple[int, ...]) -> Iterator[Program]:
    """Products and a convolution in each type that the device multiplies by itself."""
    for dtype in _dtypes(torch, device):
        fast, kind = dtype == "tfloat32", getattr(torch, dtype.replace("tfloat", "float"))
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = fast
        for side in sides:
            for name, call in _products(torch, kind, device, side):
                size = f"{side}x{side}x{side}"
                yield Program(call, "matrix_product", name, size, 2 * side**3, dtype)
        yield _convolution(torch, device, dtype, kind)


def _dtypes(torch: Any, device: Device) -> tuple[str, ...]:
    """float32, and what the device multiplies by units of its own; TF32 last."""
    if device == "cuda":
        newer = torch.cuda.get_device_capability() >= _AMPERE
        return ("float32", "bfloat16", "tfloat32") if newer else ("float32",)
    native = _BFLOAT16 & set(machine.cpu().vector_extensions)
    return ("float32", "bfloat16") if native else ("float32",)


def _products(
    torch: Any, kind: Any, device: Device, side: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Programs that multiply square matrices, by name."""
    left, right = torch.randn(side, side).to(kind), torch.randn(side, side).to(kind)
    out = torch.empty(side, side, dtype=kind)
    yield "torch.mm", lambda: torch.mm(left, right, out=out)
    if device == "cpu" and torch.backends.mkldnn.is_available():
        from torch.utils import mkldnn

        linear = mkldnn.to_mkldnn(torch.nn.Linear(side, side, bias=False), kind)
        blocked = left.float().to_mkldnn(kind)
        yield "oneDNN product", lambda: linear(blocked)


def _convolution(torch: Any, device: Device, dtype: str, kind: Any) -> Program:
    """Images channels last, the layout that both oneDNN and cuDNN take without reordering them."""
    batch, channels, last = _IMAGES[device], _CHANNELS, torch.channels_last
    layer = torch.nn.Conv2d(channels, channels, _KERNEL, bias=False).to(kind)
    layer = layer.to(memory_format=last)
    images = torch.randn(batch, channels, _SIDE, _SIDE).to(kind).to(memory_format=last)
    size = f"{batch}x{channels}x{_SIDE}x{_SIDE}, {_KERNEL}x{_KERNEL} to {channels} channels"
    work = 2 * batch * (channels * _KERNEL * (_SIDE - _KERNEL + 1)) ** 2  # without padding
    return Program(lambda: layer(images), "convolution", "torch.nn.Conv2d", size, work, dtype)


# ------------------------------------------------------------------------------------ bandwidth


def _bandwidth(torch: Any, device: Device, threads: int) -> Iterator[Program]:
    """All ways to move bytes over all working sets."""
    sets: tuple[int, ...] = (_ON_GPU,)
    cached = 0
    if device == "cpu":
        import psutil  # type: ignore[import-untyped]

        caches, room = machine.caches(), int(psutil.virtual_memory().available) // 4
        sets = working_sets(caches, threads, runtime.cores_available(), room)
        cached = last_capacity(caches, threads) or 0
    for wanted in sets:
        if wanted >= _WORTH_CALLING:
            yield from _moving(torch, device, wanted)
        if wanted <= cached:
            yield from _copying(threads, wanted)


def working_sets(caches: tuple[Cache, ...], threads: int, cores: int, room: int) -> tuple[int, ...]:
    """Half of each cache that ``threads`` have, and what no cache of all ``cores`` holds (B).

    Ascending, and no more than there is ``room`` for.
    """
    halves = [capacity // 2 for capacity in capacities(caches, threads).values()]
    beyond = BEYOND_CACHES * (last_capacity(caches, cores) or _LAST_CACHE)
    return tuple(sorted({min(each, room) for each in (*halves, beyond)}))


def _moving(torch: Any, device: Device, wanted: int) -> Iterator[Program]:
    """Functions of PyTorch; the arrays are written before, so that they have pages."""

    def arrays(count: int) -> list[Any]:
        return [torch.ones(-(-wanted // (_FLOAT_BYTES * count))) for _ in range(count)]

    def moves(call: Callable[[], object], name: Peak, instrument: str, *moved: Any) -> Program:
        size, work = f"{len(moved[0])} elements", _FLOAT_BYTES * sum(map(len, moved))
        return Program(call, name, instrument, size, work, work_unit="B", working_set=work)

    a, b = arrays(2)
    yield moves(lambda: a.copy_(b), "copy", "torch.copy_", a, b)
    if device == "cpu":
        yield moves(lambda: torch.dot(a, b), "read", "torch.dot", a, b)
    else:
        yield moves(torch.ones(2 * len(a)).sum, "read", "torch.sum", a, b)
    to, one, other = arrays(3)
    triad = partial(torch.add, one, other, alpha=3.0, out=to)
    yield moves(triad, "triad", "torch.add", to, one, other)


def _copying(threads: int, wanted: int) -> Iterator[Program]:
    """Copies between two blocks a thread, all of them together a working set, many in one call.

    NumPy takes a block for one element, of which an array has many in one place, by a stride of 0.
    """
    import numpy as np

    block = wanted // (2 * threads)
    copies = -(-_MOVED // (2 * block))

    def again(values: Any) -> Any:
        item = values.view(np.dtype((np.void, block)))
        return np.lib.stride_tricks.as_strided(item, (copies,), (0,))

    arrays = [
        tuple(again(np.ones(block, np.uint8)) for _ in ("to", "from")) for _ in range(threads)
    ]
    with ThreadPoolExecutor(threads) as pool:
        every = partial(pool.map, lambda each: np.copyto(*each), arrays)
        call = partial(np.copyto, *arrays[0]) if threads == 1 else lambda: list(every())
        size, moved = f"{block // _FLOAT_BYTES} elements a thread", 2 * block * threads
        yield Program(
            call, "copy", "numpy.copyto", size, moved * copies, work_unit="B", working_set=moved
        )


# ---------------------------------------------------------------------------------------- pages

_PAGES: Final = _PAGED // mmap.PAGESIZE


def _touched() -> Any:
    """New private memory, one byte of each page of it written."""
    import numpy

    memory = mmap.mmap(-1, _PAGED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    numpy.frombuffer(memory, dtype=numpy.uint8)[:: mmap.PAGESIZE] = 1
    return memory


def page_problem(faults: Sequence[int]) -> str | None:
    """Why samples are no price of a page; None where about as many faults as pages happened."""
    typical = statistics.median(faults)
    if _PAGES <= typical <= _MORE_FAULTS * _PAGES:
        return None
    return f"page mapping: {_PAGES} pages were touched, but {typical:g} page faults happened"


#: 64 MiB page by page, on one thread, as most faults of a framework happen.
_PAGE_MAPPING: Final = Program(
    _touched,
    "page_mapping",
    "mmap",
    f"{_PAGES} pages of {mmap.PAGESIZE} B",
    _PAGES,
    dtype="uint8",
    work_unit="1",
    working_set=_PAGED,
)
