"""The judge: hands out arguments, holds the clock, and reads every result.

The judge imports no code of users.  Each function has a process of its own, and so has a clerk, who
makes arguments and right results.  The judge shares memory and a socket with each process, which
inherits neither files nor memory of any other, and is stopped unless it is its turn.  Every call
has arguments that no process has seen before.  The time of a call runs from the judge's message to
the answer, after which the results are in memory.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import mmap
import os
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
from typing import Any, Final, Literal, TypeAlias

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

#: Longest time of one turn (s), and longest message (B).
_LIMIT_S: Final = 300.0
_LONGEST: Final = 100_000
#: Turns in which a process does nothing, whose median is the court's own time.
_EMPTY_TURNS: Final = 9
#: A function may use this many times its threads and some ticks more, for the rounding of clocks.
_MORE_TIME: Final = 1.15
_LEAST_TIME_S: Final = 0.05
#: The judge's clock may differ from the system's by this share, and by some ticks of 10 ms.
_CLOCKS: Final = 0.05
_TICKS_S: Final = 0.05
#: Loads a function by its name; None if there is no such function.
Loader: TypeAlias = Callable[[str], Callable[..., Any] | None]
#: Option of prctl that makes a process the new parent of orphans below it (Linux).
_SUBREAPER: Final = 36
#: Beginning of reasons that lie neither in the candidate nor in its results.
_NONE: Final = "no comparison: "


# ------------------------------------------------------------------------ processes of functions


class CourtMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A turn, and its answer: a call's arguments and results, or the ``error`` of its code.

    Results are written from ``offset`` on.  A clerk makes the arguments of a call from the
    ``seed``; without one it does nothing.
    """

    kind: Literal["prepare", "call", "finish"] = "call"
    seed: int | None = None
    arguments: tuple[ArgumentValue, ...] = ()
    results: tuple[ArgumentValue, ...] = ()
    offset: int = 0
    error: str | None = None


@dataclass
class Contestant:
    """Program of a process that calls the function of a name."""

    name: str
    load: Loader

    def prepare(self) -> None:
        """Load the function, and call the function ``setup_FUNCTION`` or ``setup`` beside it."""
        self.function = loaded(self.load, self.name)
        self.call_hook("setup")
        gc.disable()

    def call(self, turn: CourtMessage, memory: Bytes) -> CourtMessage:
        """Call the function, and copy its results into the memory."""
        results = self.function(*(arrays.read(value, memory) for value in turn.arguments))
        return CourtMessage(results=arrays.write(parts(results), memory, turn.offset))

    def call_hook(self, kind: str) -> None:
        """Call the function ``KIND_FUNCTION`` or ``KIND`` of the same file, if there is one."""
        file, colon, function = self.name.rpartition(":")
        specific, shared = (f"{file}{colon}{name}" for name in (f"{kind}_{function}", kind))
        if hook := self.load(specific) or self.load(shared):
            hook()


@dataclass
class Clerk(Contestant):
    """Program of the clerk; a reference is called in float64 unless it is the baseline itself."""

    inputs: str
    double: bool

    def call(self, turn: CourtMessage, memory: Bytes) -> CourtMessage:
        """Write the arguments of a seed, and the right results behind them."""
        if turn.seed is None:
            return CourtMessage()
        values = parts(loaded(self.load, self.inputs)(turn.seed))
        arguments = arrays.write(values, memory, 0)
        results = self.function(*(map(_in_double, values) if self.double else values))
        return CourtMessage(
            arguments=arguments,
            results=arrays.write(parts(results), memory, arrays.end(arguments)),
        )


def parts(values: object) -> tuple[Any, ...]:
    """Return arguments or results as a tuple."""
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def _in_double(value: Any) -> Any:
    """Convert an array of floating-point numbers to double precision."""
    if not any(kind in str(getattr(value, "dtype", "")) for kind in ("float", "complex")):
        return value
    numpy_like = hasattr(value, "astype")
    return value.astype(np.result_type(value, np.float64)) if numpy_like else value.double()


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


def _serve(program: Contestant, own: socket.socket, memory: Bytes) -> None:
    """Take turns until the judge closes the socket."""
    os.closerange(3, own.fileno())
    os.closerange(own.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    while message := own.recv(_LONGEST):
        turn, answer = msgspec.msgpack.decode(message, type=CourtMessage), CourtMessage()
        try:
            match turn.kind:
                case "prepare":
                    program.prepare()
                case "call":
                    answer = program.call(turn, memory)
                case "finish":
                    program.call_hook("teardown")
        except BaseException as error:  # the code of users may raise anything, even SystemExit
            answer = CourtMessage(error=words_of(error))
        own.send(msgspec.msgpack.encode(answer))


@dataclass
class Party:
    """A process as the judge sees it, with the times of its calls (s)."""

    label: str
    pid: int
    socket: socket.socket
    memory: Bytes
    times: list[float] = field(default_factory=list)

    def turn(self, turn: CourtMessage) -> tuple[float, CourtMessage]:
        """Let the process take a turn; return its time by the judge's clock (s), and its answer."""
        ended = f"its process ended, or did not answer within {_LIMIT_S:.0f} s"
        message, reply = map(msgspec.msgpack.encode, (turn, CourtMessage(error=ended)))
        start = time.perf_counter_ns()
        with suppress(OSError):  # it has ended, or does not answer in time
            os.kill(self.pid, signal.SIGCONT)
            self.socket.send(message)
            reply = self.socket.recv(_LONGEST) or reply
        end = time.perf_counter_ns()
        os.kill(self.pid, signal.SIGSTOP)
        return (end - start) / 1e9, msgspec.msgpack.decode(reply, type=CourtMessage)

    def processor_s(self) -> float:
        """Return the processor time of the process and its children (s), by the system's clocks."""
        used = 0.0
        with suppress(psutil.Error, OSError):
            process = psutil.Process(self.pid)
            for member in (process, *process.children(recursive=True)):
                # The clock of all threads of another process (Linux, clock_getcpuclockid).
                used += time.clock_gettime((~member.pid << 3) | 2)
                used += sum(member.cpu_times()[2:4])  # of its ended children
        return used


@contextmanager
def started(label: str, program: Contestant) -> Iterator[Party]:
    """Start a process that takes turns; on leaving, end it with its children.

    Its memory could hold a quarter of the machine's, and takes room only where it is written.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)  # so that it can wait for children of the process
    memory = mmap.mmap(-1, limits.available_memory() // 4)
    content = np.frombuffer(memory, np.uint8)
    judge, own = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = worker.fork(partial(_serve, program, own, content), worker.LIMIT_S)
    memory.madvise(mmap.MADV_DONTFORK)  # so that processes that start later do not have it
    own.close()
    judge.settimeout(_LIMIT_S)
    try:
        yield Party(label, pid, judge, content)
    finally:
        judge.close()
        children: list[psutil.Process] = []
        with suppress(psutil.Error):
            children += psutil.Process(pid).children(recursive=True)
        for number in (pid, *(child.pid for child in children)):
            with suppress(OSError):  # a child has ended, and another process waited for it
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)  # so that its processor time counts as this run's


# ------------------------------------------------------------------------------------- the judge


class Court:
    """One candidate and the baseline, in one process of the run."""

    def __init__(self, factors: Factors, session: Session, load: Loader) -> None:
        self._factors, self._session, self._load = factors, session, load
        self._handed_out, self._right = set[int](), set[int]()

    def measure(self) -> SeriesByQuantity:
        """Time both functions; raises ``UnavailableError`` at the first call that is wrong."""
        names = ("function", "against", "reference", "inputs")
        function, baseline, reference, inputs = (str(self._factors[name]) for name in names)
        with ExitStack() as processes:

            def begin(label: str, program: Contestant) -> Party:
                party = processes.enter_context(started(label, program))
                if error := party.turn(CourtMessage("prepare"))[1].error:
                    raise UnavailableError(f"{label}failed: it could not be prepared: {error}")
                return party

            clerk = Clerk(reference, self._load, inputs, reference != baseline)
            self._clerk = begin(f"{_NONE}{inputs} or the reference {reference}: ", clerk)
            sides = [("", function), (f"{_NONE}the baseline: ", baseline)]
            in_turn = slice(None, None, 1 if self._session.process % 2 else -1)
            parties = [begin(label, Contestant(n, self._load)) for label, n in sides[in_turn]]
            candidate, other = parties[in_turn]
            empty = tuple(self._clerk.turn(CourtMessage())[0] for _ in range(_EMPTY_TURNS))
            bytes_of_call = self._take_turns(candidate, other)
            for party in (candidate, other):
                party.turn(CourtMessage("finish"))
        if len(self._right) == 1:
            raise UnavailableError(
                f"{_NONE}{reference} returned the same for all arguments, so that a function that "
                "computes nothing would be right; make other arguments"
            )
        warm = self._session.protocol.warmup_calls
        return {
            "time": tuple(candidate.times[warm:]),
            "baseline_time": tuple(other.times[warm:]),
            "round_trip_time": empty,
            "call_bytes": (bytes_of_call,),
        }

    def _take_turns(self, *parties: Party) -> int:
        """Call both functions in turn; return the bytes of a call's arguments and results.

        The order of the two is reversed with each call, and with each process.
        """
        protocol, process = self._session.protocol, self._session.process
        clocks = time.perf_counter(), os.times().elapsed
        used = [party.processor_s() for party in parties]
        call, moved, end = 0, 0, float("inf")
        fewest = protocol.warmup_calls + protocol.minimum_samples
        most = protocol.warmup_calls + protocol.maximum_samples
        while call < fewest or (call < most and time.monotonic() < end):
            if call == protocol.warmup_calls:
                end = time.monotonic() + protocol.case_budget_s
            call += 1
            for party in parties if (call + process) % 2 else parties[::-1]:
                moved = self._call(party, call)
        _refuse_clock(*clocks)
        for party, before in zip(parties, used, strict=True):
            if fault := self.thread_fault(party.processor_s() - before, sum(party.times)):
                raise UnavailableError(
                    f"{party.label}too many threads (process {process}): {fault}"
                )
        return moved

    def _call(self, party: Party, number: int) -> int:
        """Time and check one call; return the bytes of its arguments and results."""
        seed, right = self._new_case()
        end = arrays.end(right.arguments)
        party.memory[:end] = self._clerk.memory[:end]
        # Spoil the results of the call before; new ones may be of a type twice as wide.
        party.memory[end : 2 * arrays.end(right.results)] = 0xFF
        if self._factors["cold"]:
            _empty_caches(self._session.threads)
        seconds, answer = party.turn(CourtMessage(arguments=right.arguments, offset=end))
        where = f"(call {number} of process {self._session.process}, seed {seed})"
        if answer.error is not None:
            raise UnavailableError(f"{party.label}failed {where}: {answer.error}")
        if fault := self._fault(answer, right, party.memory):
            raise UnavailableError(f"{party.label}wrong result {where}: {fault}")
        party.times.append(seconds)
        values = (*right.arguments, *answer.results)
        return sum(value.size for value in values if isinstance(value, Array))

    def _new_case(self) -> tuple[int, CourtMessage]:
        """Let the clerk make arguments and right results, with the seed that makes them."""
        seed = secrets.randbits(31)
        _, right = self._clerk.turn(CourtMessage(seed=seed))
        if right.error is not None:
            raise UnavailableError(f"{self._clerk.label}failed, seed {seed}: {right.error}")
        memory, end = self._clerk.memory, arrays.end(right.arguments)
        arguments = zlib.crc32(memory[:end].data, zlib.crc32(repr(right.arguments).encode()))
        if arguments in self._handed_out:
            raise UnavailableError(
                f"{_NONE}{self._factors['inputs']} returned the same arguments twice, so that "
                "results could be remembered; let them depend on its seed"
            )
        self._handed_out.add(arguments)
        results = zlib.crc32(repr(right.results).encode())
        self._right.add(zlib.crc32(memory[end : arrays.end(right.results)].data, results))
        return seed, right

    def _fault(self, answer: CourtMessage, right: CourtMessage, memory: Bytes) -> str | None:
        """Explain what is wrong with the results in ``memory``; None if they are right."""
        expected_memory, end = self._clerk.memory, arrays.end(right.arguments)
        if not np.array_equal(memory[:end], expected_memory[:end]):
            return "it changed its arguments"
        if len(answer.results) != len(right.results):
            return f"it returned {len(answer.results)} results, not {len(right.results)}"
        pairs = zip(answer.results, right.results, strict=True)
        for number, (result, right_result) in enumerate(pairs, 1):
            of = f" of result {number}" if len(answer.results) > 1 else ""
            output = arrays.numbers(result, memory)
            expected = arrays.numbers(right_result, expected_memory)
            if output.shape != expected.shape:
                return f"its shape is {output.shape}, not {expected.shape}{of}"
            error, index = arrays.worst_error(output, expected)
            if error > float(self._factors["tolerance"]):
                values = f"{output[index]} instead of {expected[index]}"
                return f"relative error {error:.2g} at index {index}{of}: {values}"
        return None

    def thread_fault(self, used_s: float, wall_s: float) -> str | None:
        """Explain that a function used more processors than it has threads; None if it did not."""
        threads = self._session.threads
        if used_s <= _MORE_TIME * threads * wall_s + _LEAST_TIME_S:
            return None
        return f"it used {used_s / wall_s:.1f} processors, and --threads allows {threads}"


def _refuse_clock(start_s: float, start_of_system_s: float) -> None:
    """Raise ``UnavailableError`` if the judge's clock runs unlike the system's."""
    clock = time.perf_counter() - start_s
    system = os.times().elapsed - start_of_system_s  # by a call of the system, not of a library
    if abs(clock - system) > _CLOCKS * system + _TICKS_S:
        raise UnavailableError(
            f"{_NONE}{clock:.1f} s by the judge's clock were {system:.1f} s by the system's; unset "
            "LD_PRELOAD"
        )


def _empty_caches(threads: int) -> None:
    """Read memory far larger than all caches, on as many threads as a call has."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.sum, [_larger_than_caches()] * threads))


@cache
def _larger_than_caches() -> Any:
    last = last_capacity(processor.caches(), runtime.cores_available()) or LAST_CACHE
    return np.ones(BEYOND_CACHES * last // 8)
