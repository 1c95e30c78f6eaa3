"""Time a function and the baseline, each in a process of its own, and check every result.

The measuring process imports no code of users.  It shares memory and a socket with each process,
which inherits neither files nor memory of any other, and is stopped while others run.  The heap of
each begins with another random layout, so that its luck is not the same in every pair.  A third
process makes arguments and right results.  Every call has arguments that no process has seen
before.  The time of a call runs from the message to the answer, after which the results are in
memory.
"""

import ctypes
import gc
import importlib.util
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
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import psutil  # type: ignore[import-untyped]

from experiments.compare import arrays
from experiments.compare.arrays import ArgumentValue, Array, Bytes
from experiments.harness import worker
from experiments.harness.ceilings import LAST_CACHE
from experiments.harness.study import Session, UnavailableError
from experiments.machine import limits, processor, runtime
from report.core.errors import words_of
from report.core.records.record import Factors, SeriesByQuantity, last_capacity
from report.instruments.gates import BEYOND_CACHES

#: Longest time of a call (s), and longest message (B).
_CALL_LIMIT_S: Final = 300.0
_MESSAGE_LIMIT_B: Final = 100_000
#: Messages without a call, whose median time is the least that a call can take.
_EMPTY_MESSAGES: Final = 9
#: Some ticks of the system's clocks (s), by which two times may differ.
_TICKS_S: Final = 0.05
#: Processor time may exceed that of all threads, and clocks may differ, by these shares as well.
_TIME_TOLERANCE, _CLOCK_TOLERANCE = 0.15, 0.05
#: Loads a function by its name; None if there is no such function.
Loader: TypeAlias = Callable[[str], Callable[..., Any] | None]
#: Option of prctl that makes a process the new parent of orphans below it (Linux).
_SUBREAPER: Final = 36
#: Most blocks that scatter a heap, and their largest size (B), which glibc takes from the heap.
_MOST_BLOCKS, _LARGEST_BLOCK_B = 1000, 100_000
#: Beginning of reasons that lie neither in the function nor in its results.
_NO_COMPARISON: Final = "no comparison: "


class CallMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call, and its answer: arguments and results, or the ``error`` of its code.

    Results are written from ``offset`` on.  The process of the reference makes the arguments from
    the ``seed``.  The answer to a message without a call is empty.
    """

    seed: int | None = None
    arguments: tuple[ArgumentValue, ...] | None = None
    results: tuple[ArgumentValue, ...] = ()
    offset: int = 0
    error: str | None = None


@dataclass
class Program:
    """Program of a process that calls the function ``name``.

    If ``inputs`` names a function, that one makes the arguments.  With ``double``, floating-point
    arguments are converted to double precision.
    """

    name: str
    load: Loader
    inputs: str = ""
    double: bool = False

    def prepare(self) -> None:
        """Scatter the heap, load the functions, and call ``setup_FUNCTION`` or ``setup``."""
        self.blocks = scattered_blocks()
        self.function = loaded(self.load, self.name)
        self.make = loaded(self.load, self.inputs) if self.inputs else None
        self.call_hook("setup")
        gc.disable()

    def call(self, message: CallMessage, memory: Bytes) -> CallMessage:
        """Call the function, and copy its results into the memory, behind the arguments made."""
        arguments, offset = message.arguments, message.offset
        if arguments is not None:
            values = [arrays.read(value, memory) for value in arguments]
        elif self.make and message.seed is not None:
            values = [*parts(self.make(message.seed))]
            arguments = arrays.write(values, memory, 0)
            offset = arrays.end(arguments)
        else:
            return CallMessage()
        results = self.function(*(map(_in_double, values) if self.double else values))
        return CallMessage(
            arguments=arguments if self.make else None,
            results=arrays.write(parts(results), memory, offset),
        )

    def call_hook(self, kind: str) -> None:
        """Call the function ``KIND_FUNCTION`` or ``KIND`` of the same file, if there is one."""
        file, colon, function = self.name.rpartition(":")
        specific, shared = (f"{file}{colon}{name}" for name in (f"{kind}_{function}", kind))
        if hook := self.load(specific) or self.load(shared):
            hook()


def scattered_blocks() -> list[bytearray]:
    """Allocate blocks of random sizes and free a random half, so that layouts of heaps vary.

    By its layout a heap returns freed pages to the system in every call or in none.  Processes that
    start alike have one layout, which favours one side in all pairs; random ones average out.
    """
    chance = random.Random()  # seeded by the system, so that no two processes are alike
    count = chance.randrange(_MOST_BLOCKS)
    blocks = [bytearray(int(_LARGEST_BLOCK_B ** chance.random())) for _ in range(count)]
    chance.shuffle(blocks)
    return blocks[::2]


def parts(values: object) -> tuple[Any, ...]:
    """Return arguments or results as a tuple."""
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _in_double(value: Any) -> Any:
    """Convert an array of floating-point numbers to double precision."""
    if not any(kind in str(getattr(value, "dtype", "")) for kind in ("float", "complex")):
        return value
    is_array = hasattr(value, "astype")
    return value.astype(np.result_type(value, np.float64)) if is_array else value.double()


@cache
def _module(path: Path) -> Any:
    """Import a file, which can import modules beside it."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # where pickle and dataclasses look for it
    spec.loader.exec_module(module)
    return module


def from_file(folder: Path, name: str) -> Callable[..., Any] | None:
    """Load the function ``FILE.py:FUNCTION`` of a folder; None if the file has none."""
    file, _, function = name.rpartition(":")
    return getattr(_module(folder / file), function, None)


def loaded(load: Loader, name: str) -> Callable[..., Any]:
    """Load a function; raises ``LookupError`` without one."""
    function = load(name)
    if not callable(function):
        raise LookupError("{} has no function {!r}".format(*name.rpartition(":")[::2]))
    return function


def _serve(program: Program, connection: socket.socket, memory: Bytes) -> None:
    """Prepare, answer calls until the other end shuts down, and tear down."""
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    action: Callable[[], CallMessage | None] = program.prepare
    while True:
        try:
            answer = action() or CallMessage()
        except BaseException as error:  # the code of users may raise anything, even SystemExit
            answer = CallMessage(error=words_of(error))
        connection.send(msgspec.msgpack.encode(answer))
        if not (message := connection.recv(_MESSAGE_LIMIT_B)):
            break
        call = msgspec.msgpack.decode(message, type=CallMessage)
        action = partial(program.call, call, memory)
    program.call_hook("teardown")


@dataclass
class FunctionProcess:
    """A process as the measuring process sees it, with times (s) and page faults of its calls."""

    label: str
    pid: int
    socket: socket.socket
    memory: Bytes
    times: list[float] = field(default_factory=list)
    page_faults: list[int] = field(default_factory=list)

    def call(self, message: CallMessage | None = None) -> tuple[float, CallMessage]:
        """Let the process run until it answers a message; return the time (s) and the answer.

        Without a message, the process answers when it is prepared.
        """
        request, answer = msgspec.msgpack.encode(message) if message else b"", b""
        start = time.perf_counter_ns()
        with suppress(OSError):  # it has ended, or does not answer in time
            os.kill(self.pid, signal.SIGCONT)
            if request:
                self.socket.send(request)
            answer = self.socket.recv(_MESSAGE_LIMIT_B)
        seconds = (time.perf_counter_ns() - start) / 1e9
        os.kill(self.pid, signal.SIGSTOP)
        if not answer:
            reason = f"its process ended, or did not answer within {_CALL_LIMIT_S:.0f} s"
            return seconds, CallMessage(error=reason)
        return seconds, msgspec.msgpack.decode(answer, type=CallMessage)

    def finish(self) -> None:
        """Let the process tear down and end."""
        with suppress(OSError):
            os.kill(self.pid, signal.SIGCONT)
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.recv(_MESSAGE_LIMIT_B)

    def faults_so_far(self) -> int:
        """Return the number of page faults, of all threads, that needed no reading from a disk."""
        with suppress(OSError):  # it has ended, and the reason is its answer
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[7])  # counted behind the program's name, see proc(5)
        return 0

    def processor_s(self) -> float:
        """Return the processor time of the process and its children (s), by the system's clocks."""
        used = 0.0
        with suppress(psutil.Error):
            process = psutil.Process(self.pid)
            for member in (process, *process.children(recursive=True)):
                used += sum(member.cpu_times()[:4])  # of the process and its ended children
        return used


@contextmanager
def start_function(label: str, program: Program) -> Iterator[FunctionProcess]:
    """Start a process, stopped when it is prepared; on leaving, end it with its children.

    Its memory could hold a quarter of the machine's, and takes room only where it is written.
    Raises ``UnavailableError`` if the program cannot be prepared.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # so that this process can wait for its children
    memory = mmap.mmap(-1, limits.available_memory() // 4)
    content = np.frombuffer(memory, np.uint8)
    connection, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = worker.fork(partial(_serve, program, other_end, content), worker.LIMIT_S)
    memory.madvise(mmap.MADV_DONTFORK)  # so that processes that start later do not have it
    other_end.close()
    connection.settimeout(_CALL_LIMIT_S)
    try:
        process = FunctionProcess(label, pid, connection, content)
        if error := process.call()[1].error:
            raise UnavailableError(f"{label}failed: it could not be prepared: {error}")
        yield process
    finally:
        connection.close()
        children: list[psutil.Process] = []
        with suppress(psutil.Error):
            children += psutil.Process(pid).children(recursive=True)
        for number in (pid, *(child.pid for child in children)):
            with suppress(OSError):  # a child has ended, and another process waited for it
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)  # so that its processor time counts as this run's


def measure_pair(factors: Factors, session: Session, load: Loader) -> SeriesByQuantity:
    """Time a function and the baseline, called one after the other.

    ``factors`` name them, the reference and the maker of inputs, which ``load`` loads.  Raises
    ``UnavailableError`` at the first call that is wrong.
    """
    names = ("function", "against", "reference", "inputs")
    function, baseline, reference, inputs = (str(factors[name]) for name in names)
    sides = [("", function), (f"{_NO_COMPARISON}the baseline: ", baseline)]
    order = slice(None, None, 1 if session.process % 2 else -1)
    with ExitStack() as processes:
        role = "baseline" if reference == baseline else "reference"
        label = f"{_NO_COMPARISON}{inputs} or the {role} {reference}: "
        program = Program(reference, load, inputs, double=reference != baseline)
        pair = _Pair(factors, session, processes.enter_context(start_function(label, program)))
        started = [
            processes.enter_context(start_function(label, Program(name, load)))
            for label, name in sides[order]
        ]
        candidate, other = started[order]
        empty_times = tuple(pair.reference.call(CallMessage())[0] for _ in range(_EMPTY_MESSAGES))
        bytes_of_call = pair.call_alternately(candidate, other)
        candidate.finish()
        other.finish()
    if len(pair.result_digests) == 1:
        raise UnavailableError(
            f"{_NO_COMPARISON}{reference} returned the same for all arguments, so that a function "
            "that computes nothing would be right; make other arguments"
        )
    warmup = session.protocol.warmup_calls
    return {
        "time": tuple(candidate.times[warmup:]),
        "baseline_time": tuple(other.times[warmup:]),
        "page_faults": tuple(candidate.page_faults[warmup:]),
        "baseline_page_faults": tuple(other.page_faults[warmup:]),
        "round_trip_time": empty_times,
        "call_bytes": (bytes_of_call,),
    }


@dataclass
class _Pair:
    """Conditions of the calls, and digests of all arguments and right results so far."""

    factors: Factors
    session: Session
    reference: FunctionProcess
    argument_digests: set[int] = field(default_factory=set)
    result_digests: set[int] = field(default_factory=set)

    def call_alternately(self, *sides: FunctionProcess) -> int:
        """Call both functions one after the other; return the bytes that a call moves.

        The order of the two is reversed with each call, and with each process.
        """
        protocol, process = self.session.protocol, self.session.process
        clocks = time.perf_counter(), os.times().elapsed
        used = [side.processor_s() for side in sides]
        number, bytes_of_call, end = 0, 0, float("inf")
        fewest = protocol.warmup_calls + protocol.minimum_samples
        most = protocol.warmup_calls + protocol.maximum_samples
        while number < fewest or (number < most and time.monotonic() < end):
            if number == protocol.warmup_calls:
                end = time.monotonic() + protocol.case_budget_s
            number += 1
            for side in sides if (number + process) % 2 else sides[::-1]:
                bytes_of_call = self._call(side, number)
        _refuse_clock(*clocks)
        for side, before in zip(sides, used, strict=True):
            used_s = side.processor_s() - before
            if fault := thread_fault(used_s, sum(side.times), self.session.threads):
                raise UnavailableError(f"{side.label}too many threads (process {process}): {fault}")
        return bytes_of_call

    def _call(self, side: FunctionProcess, number: int) -> int:
        """Time and check one call; return the bytes of its arguments and results."""
        seed, right = self._new_arguments()
        arguments, memory = right.arguments or (), side.memory
        end = arrays.end(arguments)
        memory[:end] = self.reference.memory[:end]
        # Spoil the results of the call before; new ones may be of a type twice as wide.
        memory[end : 2 * arrays.end(right.results)] = 0xFF
        if self.factors["cold"]:
            _empty_caches(self.session.threads)
        faults = side.faults_so_far()
        seconds, answer = side.call(CallMessage(arguments=arguments, offset=end))
        side.page_faults.append(side.faults_so_far() - faults)
        place = f"(call {number} of process {self.session.process}, seed {seed})"
        if answer.error is not None:
            raise UnavailableError(f"{side.label}failed {place}: {answer.error}")
        if fault := self._fault(answer, right, memory):
            raise UnavailableError(f"{side.label}wrong result {place}: {fault}")
        side.times.append(seconds)
        values = (*arguments, *answer.results)
        return sum(value.size for value in values if isinstance(value, Array))

    def _new_arguments(self) -> tuple[int, CallMessage]:
        """Let the reference's process make arguments and right results from a new seed."""
        seed = secrets.randbits(31)
        _, right = self.reference.call(CallMessage(seed=seed))
        if right.error is not None:
            raise UnavailableError(f"{self.reference.label}failed, seed {seed}: {right.error}")
        end = arrays.end(right.arguments or ())
        digest = self._digest(right.arguments, slice(end))
        if digest in self.argument_digests:
            raise UnavailableError(
                f"{_NO_COMPARISON}{self.factors['inputs']} returned the same arguments twice, so "
                "that results could be remembered; let them depend on its seed"
            )
        self.argument_digests.add(digest)
        results = slice(end, arrays.end(right.results))
        self.result_digests.add(self._digest(right.results, results))
        return seed, right

    def _digest(self, values: object, place: slice) -> int:
        return zlib.crc32(self.reference.memory[place].data, zlib.crc32(repr(values).encode()))

    def _fault(self, answer: CallMessage, right: CallMessage, memory: Bytes) -> str | None:
        """Explain what is wrong with the results in ``memory``; None if they are right."""
        expected_memory, end = self.reference.memory, arrays.end(right.arguments or ())
        if not np.array_equal(memory[:end], expected_memory[:end]):
            return "it changed its arguments"
        if len(answer.results) != len(right.results):
            return f"it returned {len(answer.results)} results, not {len(right.results)}"
        pairs = zip(answer.results, right.results, strict=True)
        for number, (result, right_result) in enumerate(pairs, 1):
            place = f" of result {number}" if len(answer.results) > 1 else ""
            output = arrays.numbers(result, memory)
            expected = arrays.numbers(right_result, expected_memory)
            if output.shape != expected.shape:
                return f"its shape is {output.shape}, not {expected.shape}{place}"
            error, index = arrays.worst_error(output, expected)
            if error > float(self.factors["tolerance"]):
                values = f"{output[index]} instead of {expected[index]}"
                return f"relative error {error:.2g} at index {index}{place}: {values}"
        return None


def thread_fault(used_s: float, wall_s: float, threads: int) -> str | None:
    """Explain that a function used more processors than it has threads; None if it did not."""
    if used_s <= (1 + _TIME_TOLERANCE) * threads * wall_s + _TICKS_S:
        return None
    return f"it used {used_s / wall_s:.1f} processors, and --threads allows {threads}"


def _refuse_clock(start_s: float, start_of_system_s: float) -> None:
    """Raise ``UnavailableError`` if the measuring process's clock runs unlike the system's."""
    clock = time.perf_counter() - start_s
    system = os.times().elapsed - start_of_system_s  # by a call of the system, not of a library
    if abs(clock - system) > _CLOCK_TOLERANCE * system + _TICKS_S:
        raise UnavailableError(
            f"{_NO_COMPARISON}{clock:.1f} s by the measuring process's clock were {system:.1f} s "
            "by the system's; unset LD_PRELOAD"
        )


def _empty_caches(threads: int) -> None:
    """Read memory far larger than all caches, on as many threads as a call has."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.sum, [_larger_than_caches()] * threads))


@cache
def _larger_than_caches() -> Any:
    last = last_capacity(processor.caches(), runtime.cores_available()) or LAST_CACHE
    return np.ones(BEYOND_CACHES * last // 8)
