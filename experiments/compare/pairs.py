"""Time a function and the baseline in two separate processes, and check every result.

The measuring process imports no code of users.  It shares memory and a socket with each function's
process.  These processes inherit no files or memory of each other, and only one runs at a time.  A
third process computes arguments and expected results.  Every call has new arguments.  A call is
timed from the message to the answer; by then the results are in shared memory.
"""

import ctypes
import gc
import mmap
import os
import random
import secrets
import signal
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from resource import RUSAGE_SELF, getrusage
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import psutil  # type: ignore[import-untyped]

from experiments.harness import worker
from experiments.harness.ceilings import working_sets
from experiments.harness.study import Session, UnavailableError
from experiments.harness.timing import Workload, cpu_clock, repeat_calls
from experiments.machine import limits, processor, runtime
from report.core.errors import words_of
from report.core.records.record import Factors, Level, SeriesByQuantity

#: Alignment of arrays (B), like that of allocators.
_ALIGNMENT: Final = 64
#: Type that NumPy lacks; the bits of a bfloat16 are the upper half of a float32.
_BFLOAT16: Final = "bfloat16"
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
#: Longest time of a call (s), and longest message (B).
_CALL_LIMIT_S, _MESSAGE_LIMIT_B = 300.0, 100_000
#: Number of empty calls; their median time is the shortest possible time of a call.
_EMPTY_CALLS: Final = 9
#: Relative tolerances of processor time and of clocks, and absolute tolerance of both (s).
_TIME_TOLERANCE, _CLOCK_TOLERANCE, _TICKS_S = 0.15, 0.05, 0.05
#: Option of Linux's prctl that makes a process the parent of its orphaned descendants.
_SUBREAPER: Final = 36
#: Largest number and size (B) of random blocks; glibc allocates blocks of this size from the heap.
_MOST_BLOCKS, _LARGEST_BLOCK_B = 1000, 100_000
#: Prefix of failures for which the compared function is not responsible.
_NO_COMPARISON: Final = "no comparison: "


class Array(msgspec.Struct, frozen=True):
    """Array at ``offset`` in shared memory; ``strides`` and ``size`` are in bytes."""

    is_tensor: bool
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    size: int

    def view(self, memory: Bytes) -> Any:
        """Return an array of NumPy without copying; elements of bfloat16 as integers."""
        dtype = "int16" if self.dtype == _BFLOAT16 else self.dtype
        return np.ndarray(self.shape, dtype, memory, self.offset, self.strides)


#: Argument or result: an array, or a plain value, which is sent in the message.
Value: TypeAlias = Array | bool | int | float | str | None
Values: TypeAlias = tuple[Value, ...]
_PLAIN: Final = (bool, int, float, str, type(None))
#: Function that loads a function by name; raises ``LookupError`` if the function does not exist.
Loader: TypeAlias = Callable[[str], Callable[..., Any]]
#: Arguments, results, number of page faults and error (None: no error) of a call.
Answer: TypeAlias = tuple[Values, Values, int, str | None]


def write_values(values: object, memory: Bytes, offset: int = 0) -> Values:
    """Copy a value, or all values of a tuple or list, into ``memory`` from ``offset`` on.

    Raises ``TypeError`` for objects, and if the memory is too small.
    """
    torch: Any = sys.modules.get("torch")
    written: Values = ()
    for value in values if isinstance(values, tuple | list) else (values,):
        if type(value) in _PLAIN:  # NumPy's float64 is a float too
            written += (value,)
            continue
        is_tensor = torch is not None and isinstance(value, torch.Tensor)
        is_bfloat16 = is_tensor and value.dtype == torch.bfloat16
        tensor = value.view(torch.int16) if is_bfloat16 else value
        source = tensor.detach().numpy() if is_tensor else np.asarray(value)
        if source.dtype.hasobject:
            raise TypeError(f"{type(value).__name__} is no array of numbers")
        dtype = _BFLOAT16 if is_bfloat16 else source.dtype.str
        # With order "K", the copy has the axis order of the source, without gaps.
        strides = np.empty_like(source, order="K").strides
        array = Array(is_tensor, dtype, source.shape, strides, offset, source.nbytes)
        array.view(memory)[...] = source
        written += (array,)
        offset = end_of(written)
    return written


def end_of(values: Values) -> int:
    """Return the offset of the first aligned byte after all arrays."""
    ends = [value.offset + value.size for value in values if isinstance(value, Array)]
    return -(-max(ends, default=0) // _ALIGNMENT) * _ALIGNMENT


def read_value(value: Value, memory: Bytes, *, double: bool = False) -> Any:
    """Return a plain value, or a view as an array of the library (NumPy or PyTorch) of the writer.

    With ``double``, return a copy in which floating-point numbers have double precision.
    """
    if not isinstance(value, Array):
        return value
    array = value.view(memory)
    if double:
        array = numbers_of(value, memory)
        precision = np.float64 if array.dtype.kind in "fc" else array.dtype
        array = array.astype(np.result_type(array, precision))
    if not value.is_tensor:
        return array
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if value.dtype == _BFLOAT16 and not double else tensor


def numbers_of(value: Value, memory: Bytes) -> Any:
    """Return an array of either library, or a plain value, as an array of NumPy."""
    if not isinstance(value, Array):
        return np.asarray(value)
    array = value.view(memory)
    return (array.astype(np.uint32) << 16).view("float32") if value.dtype == _BFLOAT16 else array


def result_fault(
    results: Values, memory: Bytes, expected: Values, right_memory: Bytes, tolerance: Level
) -> str | None:
    """Explain the first wrong result; None if all results are right.

    The error of an element is relative to the larger of two magnitudes: the expected element, and
    the root mean square of all expected elements.  Elements that are not floating-point numbers
    must be equal; otherwise the error is infinite.
    """
    if len(results) != len(expected):
        return f"it returned {len(results)} results, not {len(expected)}"
    for number, (result, right_result) in enumerate(zip(results, expected, strict=True), 1):
        place = f" of result {number}" if len(results) > 1 else ""
        output, right = numbers_of(result, memory), numbers_of(right_result, right_memory)
        if output.shape != right.shape:
            return f"its shape is {output.shape}, not {right.shape}{place}"
        error = np.where(output == right, 0.0, np.inf)
        if right.dtype.kind in "fc":
            magnitude = np.abs(right).astype(np.float64)
            finite = magnitude[np.isfinite(magnitude)]
            typical = np.sqrt(np.sum(finite**2) / max(finite.size, 1))
            with np.errstate(all="ignore"):
                difference = np.abs(output - right.astype(np.result_type(right, np.float64)))
                relative = difference / np.maximum(magnitude, typical)
            both_nan = np.isnan(output) & np.isnan(right)
            error = np.where(both_nan, 0.0, np.fmin(error, relative))
        if error.max(initial=0.0) > float(tolerance):
            index = tuple(map(int, np.unravel_index(error.argmax(), error.shape)))
            values = f"{output[index]} instead of {right[index]}"
            return f"relative error {error[index]:.2g} at index {index}{place}: {values}"
    return None


def _serve(
    load: Loader, names: tuple[str, ...], double: bool, connection: socket.socket, memory: Bytes
) -> None:
    """Answer calls of the first function until the other end shuts down; None is an empty call.

    A second function, if named, computes the arguments from the received values.  With ``double``,
    the first function is called with copies in double precision.
    """
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    blocks, functions = scattered_blocks(), list[Callable[..., Any]]()
    while message := connection.recv(_MESSAGE_LIMIT_B):
        arguments = msgspec.msgpack.decode(message, type=Values | None)
        inputs: Any = ()
        results: Values = ()
        faults, reason = 0, None
        try:
            if not functions:
                functions += map(load, names)
                _hook(load, names[0], "setup")()
                gc.disable()
            if arguments is not None:
                for make in functions[1:]:
                    inputs = make(*arguments)
                    arguments = write_values(inputs, memory)
                values = [read_value(value, memory, double=double) for value in arguments]
                faults = getrusage(RUSAGE_SELF).ru_minflt
                result = functions[0](*values)
                faults = getrusage(RUSAGE_SELF).ru_minflt - faults
                results = write_values(result, memory, end_of(arguments))
                write_values(inputs, memory)  # restores arguments that the function changed
        except BaseException as error:  # the code of users may raise anything, even SystemExit
            reason = words_of(error)
        connection.send(msgspec.msgpack.encode((arguments or (), results, faults, reason)))
    _hook(load, names[0], "teardown")()
    blocks.clear()


def scattered_blocks() -> list[bytearray]:
    """Allocate blocks of random sizes and free a random half, so that heap layouts vary.

    The layout decides if a heap returns freed pages to the system in every call or in no call.  One
    layout in all processes would favour one side in all pairs; random layouts average out.
    """
    generator = random.Random()  # seeded by the system, differently in each process
    count = generator.randrange(_MOST_BLOCKS)
    blocks = [bytearray(int(_LARGEST_BLOCK_B ** generator.random())) for _ in range(count)]
    generator.shuffle(blocks)
    return blocks[::2]


def _hook(load: Loader, name: str, kind: str) -> Callable[[], object]:
    """Load ``KIND_FUNCTION`` or ``KIND`` from the same file, else a function without effect."""
    file, colon, function = name.rpartition(":")
    for hook in (f"{kind}_{function}", kind):
        with suppress(LookupError):
            return load(f"{file}{colon}{hook}")
    return tuple


@dataclass(frozen=True)
class FunctionProcess:
    """Process of a function; ``label`` begins messages of failures, ``times`` (s) are of calls."""

    label: str
    process: psutil.Process
    socket: socket.socket
    memory: Bytes
    times: list[float] = field(default_factory=list)
    page_faults: list[int] = field(default_factory=list)

    def call(self, request: Values | None, place: str = "") -> tuple[Values, Values]:
        """Let the process run until it answers; return the arguments and results of the call.

        If the call fails, raises ``UnavailableError`` with the ``place`` of the call.
        """
        sent, message = msgspec.msgpack.encode(request), b""
        start = time.perf_counter_ns()
        with suppress(OSError):  # the process has ended, or does not answer in time
            os.kill(self.process.pid, signal.SIGCONT)
            self.socket.send(sent)
            message = self.socket.recv(_MESSAGE_LIMIT_B)
        self.times.append((time.perf_counter_ns() - start) / 1e9)
        os.kill(self.process.pid, signal.SIGSTOP)
        silent: Answer = ((), (), 0, f"its process ended, or was silent for {_CALL_LIMIT_S:.0f} s")
        answer = msgspec.msgpack.decode(message, type=Answer) if message else silent
        arguments, results, page_faults, error = answer
        if error is not None:
            raise UnavailableError(f"{self.label}failed{place}: {error}")
        self.page_faults.append(page_faults)
        return arguments, results

    def family(self) -> list[psutil.Process]:
        """Return the process and all its children."""
        return [self.process, *self.process.children(recursive=True)]

    def processor_s(self) -> float:
        """Return the processor time of the process and its children (s) as the system counts it."""
        used = 0.0
        for member in self.family():
            with suppress(psutil.Error):
                used += sum(member.cpu_times()[:4])  # includes ended children
        return used


@contextmanager
def start(label: str, load: Loader, *names: str, double: bool = False) -> Iterator[FunctionProcess]:
    """Start a process of a function; on exit, end the process and its children.

    The process is stopped between calls.  The shared memory has a quarter of the available size;
    pages are mapped only when written.  Raises ``UnavailableError`` if the function cannot be
    loaded or set up.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # so that this process can wait for its children
    memory = mmap.mmap(-1, limits.available_memory() // 4)
    content = np.frombuffer(memory, np.uint8)
    connection, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = worker.fork(partial(_serve, load, names, double, other_end, content), worker.LIMIT_S)
    memory.madvise(mmap.MADV_DONTFORK)  # hides the memory from processes that start later
    other_end.close()
    connection.settimeout(_CALL_LIMIT_S)
    function = FunctionProcess(label, psutil.Process(pid), connection, content)
    try:
        function.call(None, ": it could not be prepared")
        yield replace(function, times=[], page_faults=[])
        with suppress(OSError):  # the process has ended
            os.kill(pid, signal.SIGCONT)
            connection.shutdown(socket.SHUT_WR)  # lets the process tear down
            connection.recv(_MESSAGE_LIMIT_B)
    finally:
        connection.close()
        for member in function.family():
            with suppress(OSError):  # a child has ended and was already waited for
                os.kill(member.pid, signal.SIGKILL)
                os.waitpid(member.pid, 0)  # so that its processor time counts as this run's


def measure_pair(factors: Factors, session: Session, load: Loader) -> SeriesByQuantity:
    """Time alternate calls of a function and the baseline.

    ``factors`` name the function, the baseline, the reference and the function that creates inputs;
    ``load`` loads all four.  The order of function and baseline is reversed with each process and
    with each call.  Raises ``UnavailableError`` at the first wrong result.
    """
    names = ("function", "against", "reference", "inputs")
    function, baseline, reference, inputs = (str(factors[name]) for name in names)
    is_separate, warmup = reference != baseline, session.protocol.warmup_calls
    source = f"{_NO_COMPARISON}{inputs} or {reference}: "
    sides = [("", function), (f"{_NO_COMPARISON}the baseline: ", baseline)]
    order = slice(None, None, 1 if session.process % 2 else -1)
    with ExitStack() as stack:
        enter = stack.enter_context
        oracle = enter(start(source, load, reference, inputs, double=is_separate))
        for _ in range(_EMPTY_CALLS):
            oracle.call(None)
        series: SeriesByQuantity = {"round_trip_time": tuple(oracle.times)}
        started = [enter(start(label, load, name)) for label, name in sides[order]]
        series["call_bytes"] = (_Pair(factors, session, oracle).call_alternately(started),)
    for prefix, side in zip(("", "baseline_"), started[order], strict=True):
        series[f"{prefix}time"] = tuple(side.times[warmup:])
        series[f"{prefix}page_faults"] = tuple(side.page_faults[warmup:])
    return series


@dataclass
class _Pair:
    """Calls of a pair; ``oracle`` computes arguments and expected results, with their checksums."""

    factors: Factors
    session: Session
    oracle: FunctionProcess
    argument_digests: set[int] = field(default_factory=set)
    result_digests: set[int] = field(default_factory=set)

    def call_alternately(self, sides: list[FunctionProcess]) -> int:
        """Call both functions until the time is spent; return the bytes that a call moves.

        Raises ``UnavailableError`` if a function used too many threads, or clocks disagree.
        """
        order, moved = [*sides], list[int]()
        clock, system = time.perf_counter(), os.times().elapsed
        used = [side.processor_s() for side in sides]

        def call_both() -> None:
            moved.extend(map(self._call, order))
            order.reverse()

        for _ in range(self.session.protocol.warmup_calls):
            call_both()
        repeat_calls(Workload(call_both), self.session.protocol, cpu_clock)
        # The system's clock is read by a system call, not by a library.
        clock, system = time.perf_counter() - clock, os.times().elapsed - system
        if abs(clock - system) > _CLOCK_TOLERANCE * system + _TICKS_S:
            raise UnavailableError(
                f"{_NO_COMPARISON}{clock:.1f} s by the measuring process's clock were "
                f"{system:.1f} s by the system's; unset LD_PRELOAD"
            )
        for side, before in zip(sides, used, strict=True):
            used_s, place = side.processor_s() - before, f"(process {self.session.process})"
            if fault := thread_fault(used_s, sum(side.times), self.session.threads):
                raise UnavailableError(f"{side.label}too many threads {place}: {fault}")
        if len(self.result_digests) == 1:
            raise UnavailableError(
                f"{_NO_COMPARISON}{self.factors['reference']} returned the same for all arguments, "
                "so that a function that computes nothing would be right; make other arguments"
            )
        return moved[-1]

    def _call(self, side: FunctionProcess) -> int:
        """Time and check a call with new arguments; return the bytes of arguments and results."""
        seed, memory, right_memory = secrets.randbits(31), side.memory, self.oracle.memory
        arguments, expected = self.oracle.call((seed,), f", seed {seed}")
        middle, end = end_of(arguments), end_of(expected)
        digest = zlib.crc32(right_memory[:middle].data, zlib.crc32(repr(arguments).encode()))
        if digest in self.argument_digests:
            raise UnavailableError(
                f"{_NO_COMPARISON}{self.factors['inputs']} returned the same arguments twice, so "
                "that results could be remembered; let them depend on its seed"
            )
        self.argument_digests.add(digest)
        digest = zlib.crc32(right_memory[middle:end].data, zlib.crc32(repr(expected).encode()))
        self.result_digests.add(digest)
        memory[:middle] = right_memory[:middle]
        # Overwrite the results of the previous call; new results may have a type twice as wide.
        memory[middle : 2 * end] = 0xFF
        if self.factors["cold"]:
            with ThreadPoolExecutor(self.session.threads) as pool:
                list(pool.map(np.sum, [_larger_than_caches()] * self.session.threads))
        place = f" (call {len(side.times) + 1} of process {self.session.process}, seed {seed})"
        _, results = side.call(arguments, place)
        reason = result_fault(results, memory, expected, right_memory, self.factors["tolerance"])
        if not np.array_equal(memory[:middle], right_memory[:middle]):
            reason = "it changed its arguments"
        if reason:
            raise UnavailableError(f"{side.label}wrong result{place}: {reason}")
        return sum(value.size for value in (*arguments, *results) if isinstance(value, Array))


def thread_fault(used_s: float, wall_s: float, threads: int) -> str | None:
    """Explain that a function used more processors than ``threads``; None if it did not."""
    if used_s <= (1 + _TIME_TOLERANCE) * threads * wall_s + _TICKS_S:
        return None
    return f"it used {used_s / wall_s:.1f} processors, and --threads allows {threads}"


@cache
def _larger_than_caches() -> Any:
    """Allocate an array far larger than all caches; reading the array empties the caches."""
    size = limits.available_memory() // 4
    return np.ones(working_sets(processor.caches(), 1, runtime.cores_available(), size)[-1] // 8)
