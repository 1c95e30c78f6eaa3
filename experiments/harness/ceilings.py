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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, NamedTuple

from experiments.harness import machine, runtime, timing
from experiments.harness.journal import Ceilings
from experiments.harness.study import SEED, CeilingSize, Device
from experiments.harness.timing import Clock, Duration, Workload
from report.errors import MeasurementError
from report.instruments.gates import BEYOND_CACHES
from report.records.caches import capacities, last_capacity
from report.records.record import Cache, Ceiling, Moment, Peak, WorkUnit

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
#: The arrays of an operation, each of which is read or written once.
_ARRAYS: Final[dict[Peak, int]] = {"copy": 2, "read": 2, "triad": 3}

_PAGED: Final = 64 * 2**20
#: Faults beyond those of the pages: tables, and what Python itself touches.
_MORE_FAULTS: Final = 1.02


def measure(device: Device, threads: int, size: CeilingSize, moment: Moment) -> Ceilings:
    """All ceilings, in this process; raises what torch raises.

    The price of a page is that of the host, which a run on a GPU does not ask for.
    """
    torch = runtime.start_torch(device, threads)
    torch.manual_seed(SEED)
    clock = timing.clock_of(device)
    with torch.device(device), torch.no_grad(), timing.collector_off():
        ceilings = tuple(
            _sampled(instrument, RUNS[size], moment, clock)
            for instrument in _instruments(torch, device, threads, size)
        )
        if device == "cuda":
            return Ceilings(ceilings=ceilings)
        try:
            return Ceilings(ceilings=(*ceilings, _page_mapping(moment)))
        except MeasurementError as error:
            return Ceilings(ceilings=ceilings, reason=str(error))


# ---------------------------------------------------------------------------------- instruments


class Instrument(NamedTuple):
    """A program that does ``work`` in ``unit`` by one ``call``, which can be made again and again.

    ``working_set`` is all that a call touches (B).
    """

    operation: Peak
    name: str
    dtype: str
    size: str
    work: int
    unit: WorkUnit
    call: Callable[[], object]
    working_set: int | None = None


def _sampled(instrument: Instrument, runs: int, moment: Moment, clock: Clock) -> Ceiling:
    durations = _durations(instrument.call, runs, clock)
    return Ceiling(
        operation=instrument.operation,
        moment=moment,
        dtype=instrument.dtype,
        size=instrument.size,
        work=instrument.work,
        work_unit=instrument.unit,
        samples=tuple(each.wall for each in durations),
        instrument=instrument.name,
        working_set=instrument.working_set,
    )


def _durations(call: Callable[[], object], runs: int, clock: Clock) -> list[Duration]:
    """Samples of a call each, after a warm-up."""
    workload = Workload(call)
    return [clock(workload) for _ in range(_WARMUP + runs)][_WARMUP:]


def _instruments(
    torch: Any, device: Device, threads: int, size: CeilingSize
) -> Iterator[Instrument]:
    """All of a plan; each is to be sampled before the next is taken."""
    for dtype in _dtypes(torch, device):
        fast, kind = dtype == "tfloat32", getattr(torch, dtype.replace("tfloat", "float"))
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = fast
        for side in SIDES[device, size]:
            yield from _products(torch, kind, dtype, device, side)
        yield _convolution(torch, kind, dtype, device)
    if device == "cuda":
        sets, cached = (_ON_GPU,), 0
    else:
        caches = machine.caches()
        sets = working_sets(caches, threads, runtime.cores_available(), _free_bytes() // 4)
        cached = last_capacity(caches, threads) or 0
    for wanted in sets:
        if wanted >= _WORTH_CALLING:
            yield from (_moving(torch, device, operation, wanted) for operation in _ARRAYS)
        if wanted <= cached:
            yield _copying(threads, wanted)


# ----------------------------------------------------------------------------------- arithmetic


def _dtypes(torch: Any, device: Device) -> tuple[str, ...]:
    """float32, and what the device multiplies by units of its own; TF32 last."""
    if device == "cuda":
        newer = torch.cuda.get_device_capability() >= _AMPERE
        return ("float32", "bfloat16", "tfloat32") if newer else ("float32",)
    native = _BFLOAT16 & set(machine.cpu().vector_extensions)
    return ("float32", "bfloat16") if native else ("float32",)


def _products(torch: Any, kind: Any, dtype: str, device: Device, side: int) -> Iterator[Instrument]:
    left, right = torch.randn(side, side).to(kind), torch.randn(side, side).to(kind)
    out = torch.empty(side, side, dtype=kind)
    product = partial(
        Instrument,
        "matrix_product",
        dtype=dtype,
        size=f"{side}x{side}x{side}",
        work=2 * side**3,
        unit="FLOP",
    )
    yield product(name="torch.mm", call=lambda: torch.mm(left, right, out=out))
    if device == "cpu" and torch.backends.mkldnn.is_available():
        from torch.utils import mkldnn

        linear = mkldnn.to_mkldnn(torch.nn.Linear(side, side, bias=False), kind)
        blocked = left.float().to_mkldnn(kind)
        yield product(name="oneDNN product", call=lambda: linear(blocked))


def _convolution(torch: Any, kind: Any, dtype: str, device: Device) -> Instrument:
    """Images channels last, the layout that both oneDNN and cuDNN take without reordering them."""
    batch, channels, last = _IMAGES[device], _CHANNELS, torch.channels_last
    layer = torch.nn.Conv2d(channels, channels, _KERNEL, bias=False).to(kind)
    layer = layer.to(memory_format=last)
    images = torch.randn(batch, channels, _SIDE, _SIDE).to(kind).to(memory_format=last)
    taps = channels**2 * _KERNEL**2
    return Instrument(
        operation="convolution",
        name="torch.nn.Conv2d",
        dtype=dtype,
        size=f"{batch}x{channels}x{_SIDE}x{_SIDE}, {_KERNEL}x{_KERNEL} to {channels} channels",
        work=2 * batch * taps * (_SIDE - _KERNEL + 1) ** 2,  # without padding
        unit="FLOP",
        call=lambda: layer(images),
    )


# ------------------------------------------------------------------------------------ bandwidth


def working_sets(caches: tuple[Cache, ...], threads: int, cores: int, room: int) -> tuple[int, ...]:
    """Half of each cache that ``threads`` have, and what no cache of all ``cores`` holds (B).

    Ascending, and no more than there is ``room`` for.
    """
    halves = [capacity // 2 for capacity in capacities(caches, threads).values()]
    beyond = BEYOND_CACHES * (last_capacity(caches, cores) or _LAST_CACHE)
    return tuple(sorted({min(each, room) for each in (*halves, beyond)}))


def _free_bytes() -> int:
    import psutil  # type: ignore[import-untyped]

    return int(psutil.virtual_memory().available)


def _moving(torch: Any, device: Device, operation: Peak, wanted: int) -> Instrument:
    each = _FLOAT_BYTES * _ARRAYS[operation]
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
    )


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


def _copying(threads: int, wanted: int) -> Instrument:
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


# ---------------------------------------------------------------------------------------- pages


def _page_mapping(moment: Moment) -> Ceiling:
    """Samples of mapping 64 MiB page by page, on one thread, as most faults of a framework happen.

    Raises ``MeasurementError`` where not every page faulted once.
    """
    pages = _PAGED // mmap.PAGESIZE
    durations = _durations(_touched, _PAGE_RUNS, timing.cpu_clock)
    check_faults(pages, [each.page_faults for each in durations if each.page_faults is not None])
    return Ceiling(
        operation="page_mapping",
        moment=moment,
        dtype="uint8",
        size=f"{pages} pages of {mmap.PAGESIZE} B",
        work=pages,
        work_unit="1",
        samples=tuple(each.wall for each in durations),
        instrument="mmap",
        working_set=_PAGED,
    )


def check_faults(pages: int, faults: list[int]) -> None:
    """Raise ``MeasurementError`` unless about as many ``faults`` as ``pages`` happened in each."""
    if not faults:
        raise MeasurementError("page mapping: the system does not count page faults")
    typical = statistics.median(faults)
    if not pages <= typical <= _MORE_FAULTS * pages:
        raise MeasurementError(
            f"page mapping: {pages} pages were touched, but {typical:g} page faults happened"
        )


def _touched() -> Any:
    """New private memory, one byte of each page of it written."""
    import numpy

    memory = mmap.mmap(-1, _PAGED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    numpy.frombuffer(memory, dtype=numpy.uint8)[:: mmap.PAGESIZE] = 1
    return memory
