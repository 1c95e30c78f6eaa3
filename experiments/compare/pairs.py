"""Time a function and a baseline, each in its own process, and check every result.

The measuring process imports no code of users.  It shares memory and a socket with each function's
process.  The functions' processes share no files or memory with each other, and only one of them
runs at a time.  Two further processes create arguments (``maker``) and compute the expected results
(``oracle``).  Every call has new arguments.  A call is timed from the message with its arguments to
the answer, which is sent when the results are in shared memory.
"""

import ctypes
import gc
import mmap
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from resource import RUSAGE_SELF, getrusage
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
import psutil  # type: ignore[import-untyped]

from experiments.harness import worker
from experiments.harness.ceilings import working_sets
from experiments.harness.study import Session, UnavailableError
from experiments.harness.timing import CallTime, Workload, cpu_clock, repeat_calls
from experiments.machine import limits, processor, runtime
from report.core.errors import words_of
from report.core.records.record import Factors, SeriesByQuantity

#: Alignment of arrays (B), as allocators align.
_ALIGNMENT: Final = 64
#: Type of an array: NumPy's, torch's, or torch's with bfloat16.  NumPy has no bfloat16, so tensors
#: of this type are shared as 16-bit integers.
Kind: TypeAlias = Literal["numpy", "torch", "bfloat16"]
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
#: Longest time of a call (s).
_CALL_LIMIT_S: Final = 300.0
#: Longest message (B).
_MESSAGE_LIMIT_B: Final = 100_000
#: Relative tolerance for the processor time of a function.
_PROCESSOR_TIME_TOLERANCE: Final = 0.15
#: Relative tolerance between the measuring process's clock and the system's clock.
_CLOCK_TOLERANCE: Final = 0.05
#: Additional absolute tolerance (s): five ticks of the system's clock, of 10 ms each.
_ABSOLUTE_TOLERANCE_S: Final = 0.05
#: Option of Linux's prctl that makes a process the parent of its orphaned descendants.
_PR_SET_CHILD_SUBREAPER: Final = 36
#: Prefix of messages about failures that the compared function does not cause.
_NO_COMPARISON: Final = "no comparison: "


class Array(msgspec.Struct, frozen=True):
    """Place and type of an array in shared memory; ``strides``, ``offset`` and ``size`` in B."""

    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    size: int

    def view(self, memory: Bytes) -> Any:
        """Return a NumPy array that shares ``memory``; bfloat16 appears as 16-bit integers."""
        return np.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)

    def numbers(self, memory: Bytes) -> Any:
        """Return a NumPy array of the numbers; bfloat16 is copied to float32."""
        array = self.view(memory)
        if self.kind == "bfloat16":  # these bits are the upper half of a float32
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array


#: Argument or result: an array, or a plain value, which is sent in the message.
Value: TypeAlias = Array | bool | int | float | str | None
Values: TypeAlias = tuple[Value, ...]
_PLAIN_TYPES: Final = (bool, int, float, str, type(None))
#: Callable that loads a function by name; raises ``LookupError`` if the function does not exist.
Loader: TypeAlias = Callable[[str], Callable[..., Any]]
#: Answer to a call: its results and number of page faults, or the text of its error.
Answer: TypeAlias = tuple[Values, int] | str


def write_values(values: object, memory: Bytes) -> Values:
    """Copy arrays into ``memory``; ``values`` is one value, or a tuple or list of values.

    Returns the plain values, and for each array its place in memory.  Raises ``TypeError`` for
    other objects, and if the memory is too small.
    """
    written: Values = ()
    for value in values if isinstance(values, tuple | list) else (values,):
        # isinstance is not used: NumPy's float64, which is written as an array, is also a float.
        is_plain = type(value) in _PLAIN_TYPES
        written += (value if is_plain else _write_array(value, memory, end_of(written)),)
    return written


def _write_array(value: Any, memory: Bytes, offset: int) -> Array:
    """Copy an array of NumPy or torch into ``memory`` at ``offset`` (B)."""
    torch: Any = sys.modules.get("torch")
    kind: Kind = "numpy"
    if torch is not None and isinstance(value, torch.Tensor):
        kind, value = "torch", value.detach()
        if value.dtype == torch.bfloat16:
            kind, value = "bfloat16", value.view(torch.int16)
    source = np.asarray(value)
    if source.dtype.hasobject:
        raise TypeError(f"{type(value).__name__} is no array of numbers")
    # With order "K", the strides keep the axis order of the source, without gaps.
    strides = np.empty_like(source, order="K").strides
    array = Array(kind, source.dtype.str, source.shape, strides, offset, source.nbytes)
    array.view(memory)[...] = source
    return array


def end_of(values: Values) -> int:
    """Return the offset (B) of the first aligned byte after all arrays."""
    ends = [value.offset + value.size for value in values if isinstance(value, Array)]
    return -(-max(ends, default=0) // _ALIGNMENT) * _ALIGNMENT  # rounded up


def read_value(value: Value, memory: Bytes, *, double: bool = False) -> Any:
    """Return a plain value, or a view of ``memory`` as the NumPy array or tensor that was written.

    With ``double``, an array of floating-point numbers is copied in double precision instead.
    """
    if not isinstance(value, Array):
        return value
    array = value.numbers(memory) if double else value.view(memory)
    if double and array.dtype.kind in "fc":
        array = array.astype(np.result_type(array, np.float64))
    if value.kind == "numpy":
        return array
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if value.kind == "bfloat16" and not double else tensor


def numbers_of(values: Values, memory: Bytes) -> list[Any]:
    """Return all values as NumPy arrays."""
    return [v.numbers(memory) if isinstance(v, Array) else np.asarray(v) for v in values]


def result_fault(outputs: Sequence[Any], expected: Sequence[Any], tolerance: float) -> str | None:
    """Explain the first wrong shape or error above ``tolerance``; None if all results are right."""
    if len(outputs) != len(expected):
        return f"it returned {len(outputs)} results, not {len(expected)}"
    for number, (output, right) in enumerate(zip(outputs, expected, strict=True), 1):
        place = f" of result {number}" if len(outputs) > 1 else ""
        if output.shape != right.shape:
            return f"its shape is {output.shape}, not {right.shape}{place}"
        error = _relative_error(output, right)
        if error.max(initial=0.0) > tolerance:
            index = tuple(map(int, np.unravel_index(error.argmax(), error.shape)))
            values = f"{output[index]} instead of {right[index]}"
            return f"relative error {error[index]:.2g} at index {index}{place}: {values}"
    return None


def _relative_error(output: Any, right: Any) -> Any:
    """Return the relative error of each element of ``output``; ``right`` is the expected array.

    The error is divided by the magnitude of the expected element, or by the root mean square of all
    expected elements if this is larger.  If the elements are not floating-point numbers, unequal
    elements have an infinite error.  NaN is right where NaN is expected.
    """
    unequal = np.where(output == right, 0.0, np.inf)
    if right.dtype.kind not in "fc":
        return unequal
    right = right.astype(np.result_type(right, np.float64))
    finite = right[np.isfinite(right)]
    typical = np.linalg.norm(finite) / np.sqrt(max(finite.size, 1))
    with np.errstate(all="ignore"):
        relative = np.abs(output - right) / np.maximum(np.abs(right), typical)
    return np.where(np.isnan(output) & np.isnan(right), 0.0, np.fmin(unequal, relative))


def _serve(load: Loader, name: str, double: bool, connection: socket.socket, memory: Bytes) -> None:
    """Answer calls of a function until the measuring process closes the connection.

    A message holds the arguments of a call, or None for an empty call.  With ``double``, the
    function is called with arguments in double precision.
    """
    # Close all files except the standard streams (0 to 2) and the connection.
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    blocks, function = scattered_blocks(), None
    while message := connection.recv(_MESSAGE_LIMIT_B):
        arguments = msgspec.msgpack.decode(message, type=Values | None)
        answer: Answer = (), 0
        try:
            if function is None:
                function = load(name)
                _hook(load, name, "setup")()
                gc.disable()
            if arguments is not None:
                values = [read_value(value, memory[0], double=double) for value in arguments]
                faults = getrusage(RUSAGE_SELF).ru_minflt
                result = function(*values)
                faults = getrusage(RUSAGE_SELF).ru_minflt - faults
                answer = write_values(result, memory[1]), faults
        except BaseException as error:  # the code of users may raise anything, even SystemExit
            answer = words_of(error)
        connection.send(msgspec.msgpack.encode(answer))
    _hook(load, name, "teardown")()
    blocks.clear()


def scattered_blocks() -> list[bytearray]:
    """Allocate up to 1,000 blocks of random sizes, and return a random half; the rest is freed.

    The layout decides whether a heap returns freed pages to the system in every call or in none.
    The same layout in all processes would favour one function in all pairs; with random layouts
    this effect averages out.
    """
    generator = secrets.SystemRandom()  # forked processes would share the state of ``random``
    blocks = []
    for _ in range(generator.randrange(1000)):
        # glibc allocates blocks of up to 128 KiB from the heap.
        blocks.append(bytearray(int(100_000 ** generator.random())))
    generator.shuffle(blocks)
    return blocks[::2]


def _hook(load: Loader, name: str, kind: str) -> Callable[[], object]:
    """Load the setup or teardown (``kind``) of the function ``name`` from the function's file.

    It is the file's function ``KIND_FUNCTION`` or ``KIND``, or else a function that does nothing.
    """
    file, colon, function = name.rpartition(":")
    for hook in (f"{kind}_{function}", kind):
        with suppress(LookupError):
            return load(f"{file}{colon}{hook}")
    return lambda: None


@dataclass(frozen=True)
class FunctionProcess:
    """Process of a function, with the times of its answered calls.

    ``label`` is the beginning of error messages.  ``memory`` has two rows of bytes, which are
    shared with the process: arguments in row 0, results in row 1.
    """

    label: str
    process: psutil.Process
    socket: socket.socket
    memory: Bytes
    calls: list[CallTime] = field(default_factory=list)

    def call(self, arguments: Values | None, place: str = "") -> Values:
        """Let the process run until it answers; return the results of the call.

        If ``arguments`` is None, the process computes nothing.  If the call fails, raises
        ``UnavailableError`` with ``place``, which says which call it was.
        """
        request, reply = msgspec.msgpack.encode(arguments), b""
        answer: Answer = f"its process ended, or was silent for {_CALL_LIMIT_S:.0f} s"
        start = time.perf_counter_ns()
        with suppress(OSError):  # the process has ended, or does not answer in time
            os.kill(self.process.pid, signal.SIGCONT)
            self.socket.send(request)
            reply = self.socket.recv(_MESSAGE_LIMIT_B)
        wall_s = (time.perf_counter_ns() - start) / 1e9
        os.kill(self.process.pid, signal.SIGSTOP)
        if reply:
            answer = msgspec.msgpack.decode(reply, type=Answer)
        if isinstance(answer, str):
            raise UnavailableError(f"{self.label}failed{place}: {answer}")
        results, page_faults = answer
        self.calls.append(CallTime(wall_s, page_faults))
        return results

    def family(self) -> list[psutil.Process]:
        """Return the process and all its descendants."""
        return [self.process, *self.process.children(recursive=True)]

    def processor_s(self) -> float:
        """Return the processor time (s) of the process and its descendants so far."""
        used_s = 0.0
        for member in self.family():
            with suppress(psutil.Error):  # a descendant has just ended
                # User and system time of the process, and of its ended children.
                used_s += sum(member.cpu_times()[:4])
        return used_s


@contextmanager
def start(label: str, load: Loader, name: str, double: bool = False) -> Iterator[FunctionProcess]:
    """Start a process that calls the function ``name``; on exit, end it and its descendants.

    The process is stopped between calls.  Arguments and results may each fill an eighth of the
    available memory; pages are mapped only when written.  Raises ``UnavailableError`` if the
    function cannot be loaded or set up.
    """
    # Lets the measuring process wait for all descendants of the new process.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    pages = limits.available_memory() // 8 // mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * pages * mmap.PAGESIZE)
    rows = np.frombuffer(memory, np.uint8).reshape(2, -1)
    connection, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = worker.fork(partial(_serve, load, name, double, other_end, rows), worker.LIMIT_S)
    memory.madvise(mmap.MADV_DONTFORK)  # hides the memory from processes that start later
    other_end.close()
    connection.settimeout(_CALL_LIMIT_S)
    function = FunctionProcess(label, psutil.Process(pid), connection, rows)
    try:
        function.call(None, ": it could not be prepared")  # loads the function and sets it up
        function.calls.clear()
        yield function
        with suppress(OSError):  # the process has ended
            os.kill(pid, signal.SIGCONT)
            connection.shutdown(socket.SHUT_WR)  # lets the process tear down
            connection.recv(_MESSAGE_LIMIT_B)
    finally:
        connection.close()
        for member in function.family():
            with suppress(OSError):  # a child has ended and was already waited for
                os.kill(member.pid, signal.SIGKILL)
                os.waitpid(member.pid, 0)  # so that its processor time is added to this process's


def measure_pair(factors: Factors, session: Session, load: Loader) -> SeriesByQuantity:
    """Time alternate calls of a function and the baseline.

    ``factors`` names the function, the baseline, the reference and the function that creates
    inputs; ``load`` loads all four.  Function and baseline swap order from process to process, and
    from one pair of calls to the next.  Raises ``UnavailableError`` if a call fails or its result
    is wrong, if arguments repeat, if results never vary, if too many threads ran, or if clocks
    disagree.
    """
    names = ("function", "against", "reference", "inputs")
    function, baseline, reference, inputs = (str(factors[name]) for name in names)
    sides = [("", function), (f"{_NO_COMPARISON}the baseline: ", baseline)]
    # Every second process reverses the order.  The slice, applied again, restores the order.
    order = slice(None, None, 1 if session.process % 2 else -1)
    with ExitStack() as stack:
        enter = stack.enter_context
        maker = enter(start(f"{_NO_COMPARISON}{inputs}: ", load, inputs))
        # A reference other than the baseline is called in double precision.
        label, double = f"{_NO_COMPARISON}{reference}: ", reference != baseline
        oracle = enter(start(label, load, reference, double=double))
        for _ in range(9):  # empty calls, whose median time is the shortest time of a call
            oracle.call(None)
        round_trips, _ = zip(*oracle.calls, strict=True)
        ordered_sides = [enter(start(label, load, name)) for label, name in sides[order]]
        call_bytes = _Pair(factors, session, maker, oracle).call_alternately(ordered_sides)
    series: SeriesByQuantity = {"round_trip_time": round_trips, "call_bytes": (call_bytes,)}
    warmup = session.protocol.warmup_calls
    for prefix, side in zip(("", "baseline_"), ordered_sides[order], strict=True):
        times, page_faults = zip(*side.calls[warmup:], strict=True)
        series |= {f"{prefix}time": times, f"{prefix}page_faults": page_faults}
    return series


@dataclass
class _Pair:
    """Calls of function and baseline; ``maker`` creates arguments, ``oracle`` right results."""

    factors: Factors
    session: Session
    maker: FunctionProcess
    oracle: FunctionProcess
    argument_digests: set[int] = field(default_factory=set)
    result_digests: set[int] = field(default_factory=set)

    def call_alternately(self, sides: list[FunctionProcess]) -> int:
        """Call both functions until the time is spent; return the bytes of a call's values.

        The values are its arguments and results.  Raises ``UnavailableError`` as
        ``measure_pair`` does.
        """
        order, call_bytes = [*sides], list[int]()
        # A preloaded library may change perf_counter, but os.times makes a system call.
        clock_start, system_start = time.perf_counter(), os.times().elapsed
        used_before = [side.processor_s() for side in sides]

        def call_both() -> None:
            call_bytes.extend(map(self._call, order))
            order.reverse()

        for _ in range(self.session.protocol.warmup_calls):
            call_both()
        repeat_calls(Workload(call_both), self.session.protocol, cpu_clock)
        clock_s, system_s = time.perf_counter() - clock_start, os.times().elapsed - system_start
        if abs(clock_s - system_s) > _CLOCK_TOLERANCE * system_s + _ABSOLUTE_TOLERANCE_S:
            raise UnavailableError(
                f"{_NO_COMPARISON}{clock_s:.1f} s by the measuring process's clock were "
                f"{system_s:.1f} s by the system's; unset LD_PRELOAD"
            )
        for side, before_s in zip(sides, used_before, strict=True):
            used_s = side.processor_s() - before_s
            wall_s = sum(call.wall for call in side.calls)
            if fault := thread_fault(used_s, wall_s, self.session.threads):
                place = f"(process {self.session.process})"
                raise UnavailableError(f"{side.label}too many threads {place}: {fault}")
        if len(self.result_digests) == 1:
            raise UnavailableError(
                f"{_NO_COMPARISON}{self.factors['reference']} returned the same for all arguments, "
                "so that a function that computes nothing would be right; make other arguments"
            )
        return call_bytes[-1]

    def _call(self, side: FunctionProcess) -> int:
        """Time and check a call with new arguments; return the bytes of arguments and results."""
        oracle, seed = self.oracle, secrets.randbits(31)
        arguments = self.maker.call((seed,), f", seed {seed}")
        content = self.maker.memory[1, : end_of(arguments)]
        oracle.memory[0, : content.size] = content
        expected = oracle.call(arguments, f", seed {seed}")
        digest = _digest(arguments, content)
        if digest in self.argument_digests:
            raise UnavailableError(
                f"{_NO_COMPARISON}{self.factors['inputs']} returned the same arguments twice, so "
                "that results could be remembered; let them depend on its seed"
            )
        self.argument_digests.add(digest)
        self.result_digests.add(_digest(expected, oracle.memory[1]))
        side.memory[0, : content.size] = content
        # Previous results are overwritten, because a function could return them again.  A function
        # may return a type twice as wide as the oracle's, hence the factor 2.
        side.memory[1, : 2 * end_of(expected)] = 0xFF
        if self.factors["cold"]:  # --cold: empty the caches of all cores
            with ThreadPoolExecutor(self.session.threads) as pool:
                list(pool.map(np.sum, [_larger_than_caches()] * self.session.threads))
        place = f" (call {len(side.calls) + 1} of process {self.session.process}, seed {seed})"
        results = side.call(arguments, place)
        outputs = numbers_of(results, side.memory[1])
        right = numbers_of(expected, oracle.memory[1])
        reason = result_fault(outputs, right, float(self.factors["tolerance"]))
        if not np.array_equal(side.memory[0, : content.size], content):
            reason = "it changed its arguments"
        if reason:
            raise UnavailableError(f"{side.label}wrong result{place}: {reason}")
        return sum(value.size for value in (*arguments, *results) if isinstance(value, Array))


def _digest(values: Values, memory: Bytes) -> int:
    """Return a hash of values with the content of their arrays in ``memory``."""
    return hash((repr(values), memory[: end_of(values)].tobytes()))


def thread_fault(used_s: float, wall_s: float, threads: int) -> str | None:
    """Explain that calls used more than ``threads`` processors; return None if they did not."""
    allowed_s = (1 + _PROCESSOR_TIME_TOLERANCE) * threads * wall_s + _ABSOLUTE_TOLERANCE_S
    if used_s <= allowed_s:
        return None
    return f"it used {used_s / wall_s:.1f} processors, and --threads allows {threads}"


@cache
def _larger_than_caches() -> Any:
    """Allocate an array far larger than all caches; reading the array empties the caches."""
    limit = limits.available_memory() // 4
    *_, size = working_sets(processor.caches(), 1, runtime.cores_available(), largest=limit)
    return np.ones(size // 8)  # elements of float64 have 8 bytes
