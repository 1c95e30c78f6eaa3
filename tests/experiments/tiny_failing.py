"""The tiny study with cases that fail or attach files; the factor ``way`` is the way to do so."""

import os
import signal
from dataclasses import replace

from tiny_study import STUDY as PLAIN

from experiments.harness.study import CaseFile, Factor, Levels, Session, UnavailableError
from report.core.records.layers import Flatten
from report.core.records.record import Factors, SeriesByQuantity

LAYER = Flatten(name="f", input_shape=(1, 2, 2), output_shape=(1, 4), dtype="float32")


class OutOfMemoryError(RuntimeError):
    """Replaces torch.OutOfMemoryError, which the harness recognizes by its name."""


NO_MEMORY = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes. Error"
#: Way to fail → raised error (None: the process ends), and status and reason in the record.
WAYS: dict[str, tuple[Exception | None, str, str]] = {
    "no cpu memory": (RuntimeError(f"[enforce fail at alloc_cpu.cpp:127] {NO_MEMORY} code 12"),
                      "out_of_memory", "Memory ran out when 400 B more were asked for."),
    "no gpu memory": (OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has"),
                      "out_of_memory", "Memory ran out when 2.00 GiB more were asked for."),
    "no memory": (MemoryError(), "out_of_memory", "Memory ran out."),
    "cannot": (UnavailableError("This cannot be."), "unavailable", "This cannot be."),
    "raise": (ValueError("no such thing in /home/somebody/thing.py\nmore"),
              "failed", "ValueError: no such thing in thing.py"),
    "die": (None, "failed", "killed, most likely for lack of memory"),
    "exit": (None, "failed", "ended with exit code 3"),
}  # fmt: skip
REASONS = {way: (status, reason) for way, (_, status, reason) in WAYS.items()}
#: Ways to attach files; the two CLASHING ways write different files of the same name.
FILES = ("own file", "another file", "same file", "same file again", "no file")
CLASHING = ("clashing file", "clashing file again")


def memory(factors: Factors, session: Session) -> SeriesByQuantity:
    """Fail in the way of the case, if it is one of ``WAYS``."""
    way = str(factors["way"])
    error, *_ = WAYS.get(way, (None,))
    if error:
        raise error
    if way == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "exit":
        os._exit(3)
    return {"time": (0.00025,)}


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """Return the file of the case, if its way is one of ``FILES`` or ``CLASHING``, or fail."""
    match str(factors["way"]).removesuffix(" again"):
        case "own file" | "another file" as way:
            return (CaseFile(f"trace-{way[:3]}", "what it holds", b"\x00\xff"),)
        case "same file":
            return (CaseFile("images.json", "what it holds", b"1,797 digits"),)
        case "clashing file":
            return (CaseFile("trace", "what it holds", str(factors["way"]).encode()),)
        case "no file":
            raise MemoryError
    return ()


def cases(levels: Levels) -> tuple[Factors, ...]:
    """Return a case per way; the CLASHING ways are left out unless exactly two ways are chosen."""
    ways = levels["way"]
    return tuple({"way": way} for way in ways if len(ways) == 2 or way not in CLASHING)


STUDY = replace(
    PLAIN,
    factors=(Factor("way", ("well", *REASONS, *FILES, *CLASHING, "well again")),),
    cases=cases,
    plan=replace(PLAIN.plan, memory=memory, files=files, layers=lambda factors: (LAYER,)),
)
