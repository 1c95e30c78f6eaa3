"""Ceilings of the machine: peak arithmetic, bandwidth and page mapping, in a new process.

A process that has measured cases reaches lower peaks than a new process, since its allocator and
thread pools are in use.

**Arithmetic.**  No network may be faster than the peak.  On a CPU PyTorch computes matrix products
with MKL (on x86) and convolutions with oneDNN.  A 3 × 3 convolution of 256 channels was fastest on
an AMD processor with AVX-512, and MKL's product was fastest on an Intel processor with AMX.  The
convolution and the products of MKL and oneDNN are measured, and the largest rate is the peak.  On a
GPU cuDNN may choose an algorithm with fewer multiplications than theory counts.  Then a rate that
is computed from theory's count may exceed the peak.

**Bandwidth.**  Caches are several times as fast as memory.  So each operation runs repeatedly over
working sets of two kinds: half the size of each cache, and far larger than all caches.  A *working
set* comprises all arrays of all threads.  The counted bytes are the bytes that the program reads
and writes, without the lines that a cache reads before overwriting them.  ``copy`` is ``a = b``;
``triad`` is ``a = b + s·c`` (McCalpin's STREAM); ``read`` writes nothing (on a CPU ``torch.dot``,
which was faster than ``torch.sum``).  A call of PyTorch costs 1 to 3 µs, which is too long for
small caches; for them, one call of ``numpy.copyto`` per thread copies a block many times.

**Pages.**  A sample maps 64 MiB of private memory, without huge pages, and writes one byte of each
page, like an allocator that has returned its memory to the system.
"""

import importlib
import mmap
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from experiments.harness import timing
from experiments.harness.journal import Ceilings
from experiments.harness.study import SEED, CeilingSize, Device
from experiments.harness.timing import CallTime, Workload
from experiments.machine import processor, quiet, runtime
from report.core.records.record import (
    Cache,
    Ceiling,
    Moment,
    PeakOperation,
    WorkUnit,
    cache_bytes_by_level,
    last_cache_bytes,
)
from report.instruments.gates import BEYOND_CACHES

#: Number of timed calls per ceiling; in papers, the fastest call is the peak.
TIMED_CALLS: Final[dict[CeilingSize, int]] = {"large": 12, "small": 8}
#: Number of timed calls that map pages.
_PAGE_CALLS: Final = 20
#: Number of calls before the timed calls.
_WARMUP_CALLS: Final = 2
#: Number of timed calls during a run; of so many calls, some find a quiet processor.
_REMEASURED_CALLS: Final = 100
#: Sides of the matrices during a run, where a call takes about 1 ms.
_REMEASURED_SIDES: Final = (256, 512)

#: Sides of the square matrices; products exceed 80 FLOP/B, above any CPU's ridge point.
SIDES: Final[dict[tuple[Device, CeilingSize], tuple[int, ...]]] = {
    ("cpu", "large"): (512, 1024, 2048),
    ("cpu", "small"): (1024,),
    ("cuda", "large"): (4096, 8192),
    ("cuda", "small"): (4096,),
}
#: Images of the convolution; a GPU needs many images to occupy all its units.
_IMAGES: Final[dict[Device, int]] = {"cpu": 8, "cuda": 256}
#: Channels of the convolution's input and output, side of its input, side of its kernel.
_CHANNELS, _SIDE, _KERNEL = 256, 28, 3
#: Vector extensions with bfloat16 products; without them bfloat16 is slower than float32.
_BFLOAT16_EXTENSIONS: Final = frozenset({"avx512_bf16", "amx_bf16"})
#: Compute capability of Ampere, NVIDIA's first generation with bfloat16 and TF32.
_AMPERE_CAPABILITY: Final = (8, 0)

_FLOAT_BYTES: Final = 4
#: Assumed size of the last-level cache if the system does not show it (B).
DEFAULT_CACHE_BYTES: Final = 32 * 2**20
#: Working set on a GPU, far larger than its cache (B).
_GPU_WORKING_SET: Final = 2**30
#: Smallest working set (B) for which the time of calling PyTorch is negligible.
_SMALLEST_FOR_TORCH: Final = 4 * 2**20
#: Bytes that a thread moves in one call of repeated copies; such a call takes some ms.
_COPIED_BYTES: Final = 2**28

_MAPPED_BYTES: Final = 64 * 2**20
#: Largest accepted number of page faults per page; page tables and Python cause a few faults.
_MAX_FAULTS_PER_PAGE: Final = 1.02


class Program(NamedTuple):
    """Function to time (``call``), its work per call, and the facts that describe it in records."""

    call: Callable[[], object]
    operation: PeakOperation
    instrument: str
    size: str
    work: int
    dtype: str = "float32"
    work_unit: WorkUnit = "FLOP"
    working_set: int | None = None

    def durations(self, device: Device, calls: int) -> list[CallTime]:
        """Time ``calls`` calls after a warm-up."""
        workload, clock = Workload(self.call), timing.CLOCKS[device]
        return [clock(workload) for _ in range(_WARMUP_CALLS + calls)][_WARMUP_CALLS:]

    def ceiling(self, moment: Moment, durations: Sequence[CallTime]) -> Ceiling:
        """Return the ceiling (peak rate) for a record, with ``durations`` as its samples."""
        facts = self._asdict()
        del facts["call"]
        samples = tuple(duration.wall for duration in durations)
        return Ceiling(moment=moment, samples=samples, **facts)


def measure(device: Device, threads: int, size: CeilingSize, moment: Moment) -> Ceilings:
    """Measure all peak rates in this process; at the moment ``during``, only arithmetic."""
    torch = runtime.start_torch(device, threads)
    torch.manual_seed(SEED)
    calls, sides, images = TIMED_CALLS[size], SIDES[device, size], _IMAGES[device]
    if moment == "during" and device == "cpu":
        calls, sides, images = _REMEASURED_CALLS, _REMEASURED_SIDES, 1
    ceilings: list[Ceiling] = []
    reason = None
    start = quiet.read_counters()
    with torch.device(device), torch.no_grad(), timing.garbage_collection_off():
        # Programs are generated one by one, so that only one has its arrays in memory.
        programs = _arithmetic_programs(torch, device, sides, images)
        if moment != "during":
            programs = chain(programs, _bandwidth_programs(torch, device, threads))
        for program in programs:
            ceilings.append(program.ceiling(moment, program.durations(device, calls)))
        if device == "cpu" and moment != "during":
            durations = _PAGE_MAPPING.durations(device, _PAGE_CALLS)
            reason = page_problem([duration.page_faults or 0 for duration in durations])
            if reason is None:
                ceilings.append(_PAGE_MAPPING.ceiling(moment, durations))
    cause = quiet.describe_disturbance(start, quiet.read_counters(), threads)
    replace = msgspec.structs.replace
    described = tuple(replace(ceiling, disturbance=cause) for ceiling in ceilings)
    return Ceilings(ceilings=described, reason=reason)


def _arithmetic_programs(
    torch: Any, device: Device, sides: tuple[int, ...], images: int
) -> Iterator[Program]:
    """Yield products and a convolution in each type that the device can multiply."""
    for dtype in _dtypes(torch, device):
        tf32 = dtype == "tfloat32"  # TF32 is a mode of torch.float32, not a type
        torch_dtype = torch.float32 if tf32 else getattr(torch, dtype)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        for side in sides:
            for name, call in _products(torch, torch_dtype, device, side):
                size = f"{side}x{side}x{side}"
                yield Program(call, "matrix_product", name, size, 2 * side**3, dtype)
        yield _convolution(torch, images, dtype, torch_dtype)


def _dtypes(torch: Any, device: Device) -> tuple[str, ...]:
    """List float32, and bfloat16 and TF32 if the device has fast products in these types."""
    if device == "cuda":
        has_tf32 = torch.cuda.get_device_capability() >= _AMPERE_CAPABILITY
        return ("float32", "bfloat16", "tfloat32") if has_tf32 else ("float32",)
    has_bfloat16 = _BFLOAT16_EXTENSIONS & set(processor.cpu().vector_extensions)
    # The environment variable ONEDNN_MAX_CPU_ISA can forbid instructions that the processor has.
    if has_bfloat16 and torch.backends.mkldnn.is_available():
        has_bfloat16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return ("float32", "bfloat16") if has_bfloat16 else ("float32",)


def _products(
    torch: Any, torch_dtype: Any, device: Device, side: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name and a call of each function that multiplies square matrices."""
    left = torch.randn(side, side).to(torch_dtype)
    right = torch.randn(side, side).to(torch_dtype)
    out = torch.empty(side, side, dtype=torch_dtype)
    yield "torch.mm", partial(torch.mm, left, right, out=out)
    if device == "cpu" and torch.backends.mkldnn.is_available():
        mkldnn: Any = importlib.import_module("torch.utils.mkldnn")
        linear = mkldnn.to_mkldnn(torch.nn.Linear(side, side, bias=False), torch_dtype)
        yield "oneDNN product", partial(linear, left.float().to_mkldnn(torch_dtype))


def _convolution(torch: Any, batch: int, dtype: str, torch_dtype: Any) -> Program:
    """Build a convolution in channels_last, a layout that oneDNN and cuDNN need not reorder."""
    channels, layout = _CHANNELS, torch.channels_last
    layer = torch.nn.Conv2d(channels, channels, _KERNEL, bias=False).to(torch_dtype)
    layer = layer.to(memory_format=layout)
    images = torch.randn(batch, channels, _SIDE, _SIDE).to(torch_dtype).to(memory_format=layout)
    size = f"{batch}x{channels}x{_SIDE}x{_SIDE}, {_KERNEL}x{_KERNEL} to {channels} channels"
    elements = batch * channels * (_SIDE - _KERNEL + 1) ** 2  # of the output, without padding
    work = elements * 2 * channels * _KERNEL**2
    return Program(partial(layer, images), "convolution", "torch.nn.Conv2d", size, work, dtype)


def _bandwidth_programs(torch: Any, device: Device, threads: int) -> Iterator[Program]:
    """Yield the programs that measure bandwidth, for each working set."""
    sizes: tuple[int, ...] = (_GPU_WORKING_SET,)
    cache_size = 0
    if device == "cpu":
        import psutil  # type: ignore[import-untyped]

        caches = processor.caches()
        largest = int(psutil.virtual_memory().available) // 4
        sizes = working_sets(caches, threads, runtime.cores_available(), largest)
        cache_size = last_cache_bytes(caches, threads) or 0
    for working_set in sizes:
        if working_set >= _SMALLEST_FOR_TORCH:
            yield from _torch_programs(torch, device, working_set)
        if working_set <= cache_size:
            yield from _repeated_copies(threads, working_set)


def working_sets(
    caches: tuple[Cache, ...], threads: int, cores: int, largest: int
) -> tuple[int, ...]:
    """Return the sizes (B) of working sets, none of them above ``largest``.

    One is half of each level's caches of ``threads`` cores, one far above those of all ``cores``.
    """
    sizes = [capacity // 2 for capacity in cache_bytes_by_level(caches, threads).values()]
    sizes.append(BEYOND_CACHES * (last_cache_bytes(caches, cores) or DEFAULT_CACHE_BYTES))
    return tuple(sorted({min(size, largest) for size in sizes}))


def _torch_programs(torch: Any, device: Device, working_set: int) -> Iterator[Program]:
    """Yield PyTorch's copy, read and triad; arrays are written first, which maps their pages."""

    def arrays(count: int) -> list[Any]:
        elements = -(-working_set // (_FLOAT_BYTES * count))  # rounded up
        return [torch.ones(elements) for _ in range(count)]

    def program(
        call: Callable[[], object], name: PeakOperation, instrument: str, *moved: Any
    ) -> Program:
        """Return a program whose call reads or writes every element of ``moved`` once."""
        size = f"{len(moved[0])} elements"
        work = _FLOAT_BYTES * sum(len(array) for array in moved)
        return Program(call, name, instrument, size, work, work_unit="B", working_set=work)

    a, b = arrays(2)
    yield program(partial(a.copy_, b), "copy", "torch.copy_", a, b)
    if device == "cpu":
        yield program(partial(torch.dot, a, b), "read", "torch.dot", a, b)
    else:  # the summed tensor has as many elements as a and b together
        yield program(torch.ones(2 * len(a)).sum, "read", "torch.sum", a, b)
    a, b, c = arrays(3)
    yield program(partial(torch.add, b, c, alpha=3.0, out=a), "triad", "torch.add", a, b, c)


def _repeated_copies(threads: int, working_set: int) -> Iterator[Program]:
    """Yield a program in which each thread copies a block many times.

    The blocks of all threads are the working set.  A block is the only element of a NumPy array
    with a stride of 0, which repeats the element.
    """
    import numpy as np

    block_bytes = working_set // (2 * threads)
    copies = -(-_COPIED_BYTES // (2 * block_bytes))  # rounded up

    def repeated_block() -> Any:
        element = np.ones(block_bytes, np.uint8).view(np.dtype((np.void, block_bytes)))
        return np.lib.stride_tricks.as_strided(element, (copies,), (0,))

    blocks = [repeated_block() for _ in range(2 * threads)]
    targets, sources = blocks[:threads], blocks[threads:]
    with ThreadPoolExecutor(threads) as pool:

        def copy_all() -> None:
            list(pool.map(np.copyto, targets, sources))

        call = partial(np.copyto, targets[0], sources[0]) if threads == 1 else copy_all
        size = f"{block_bytes // _FLOAT_BYTES} elements a thread"
        total = 2 * block_bytes * threads
        work = total * copies
        yield Program(call, "copy", "numpy.copyto", size, work, work_unit="B", working_set=total)


#: Number of pages that a call maps.
_PAGES: Final = _MAPPED_BYTES // mmap.PAGESIZE


def _map_pages() -> Any:
    """Map new private memory, and write one byte of each page."""
    import numpy

    memory = mmap.mmap(-1, _MAPPED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    numpy.frombuffer(memory, dtype=numpy.uint8)[:: mmap.PAGESIZE] = 1
    return memory


def page_problem(faults: Sequence[int]) -> str | None:
    """Explain why calls with these ``faults`` time more than page mapping; None if they do not."""
    typical = statistics.median(faults)
    if _PAGES <= typical <= _MAX_FAULTS_PER_PAGE * _PAGES:
        return None
    return f"page mapping: {_PAGES} pages were touched, but {typical:g} page faults happened"


#: Page mapping on one thread, where most page faults of a framework happen, too.
_PAGE_MAPPING: Final = Program(
    _map_pages, "page_mapping", "mmap", f"{_PAGES} pages of {mmap.PAGESIZE} B", _PAGES,
    dtype="uint8", work_unit="1", working_set=_MAPPED_BYTES,
)  # fmt: skip
