"""What this machine can measure, what disturbs it now, and what to install or set.

Each check is one line: ``ok``, ``note`` for what is worth knowing or would be better otherwise, and
``problem`` for what stands in the way, with what to do.  A check is a pure function of what was
read; reading is at the end of this module.  PyTorch comes last, since its import takes seconds.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from experiments.harness import cgroups, host, machine, policies, quiet, runtime
from experiments.harness.counting import TOOLS
from experiments.harness.journal import journals
from experiments.harness.text import text_of
from experiments.harness.variables import variables
from report.errors import MeasurementError

Level: TypeAlias = Literal["ok", "note", "problem"]

_WIDTH: Final = 80
_TOPIC: Final = 12
_GIB: Final = 2**30
#: What the largest quick run needs (B).
_LITTLE_MEMORY: Final = 2 * _GIB
#: Traces of a full run take some hundred MB (B).
_LITTLE_DISK: Final = _GIB
_WATCH_S: Final = 1.0

_NVIDIA: Final = Path("/proc/driver/nvidia/params")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, and what was found."""

    level: Level
    topic: str
    text: str

    def line(self) -> str:
        """The check in lines of at most 80 columns."""
        head = f"{self.level:<9}{self.topic:<{_TOPIC}}"
        return textwrap.fill(
            self.text,
            _WIDTH,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
        )


def doctor(records: Path, say: Callable[[str], None]) -> int:
    """Look at everything and say it line by line; the exit code: 1 if nothing can be measured."""
    done = []
    for check in _checks(records):
        say(check.line())
        done.append(check)
    say(verdict(done))
    return 1 if any(check.level == "problem" and check.topic == "PyTorch" for check in done) else 0


def verdict(done: Sequence[Check]) -> str:
    """The last line."""
    problems, notes = (sum(c.level == level for c in done) for level in ("problem", "note"))
    if any(check.level == "problem" and check.topic == "PyTorch" for check in done):
        return "Nothing can be measured here before PyTorch can be imported."
    return f"This machine can measure; problems: {problems}, notes: {notes}."


def _either(good: object, topic: str, yes: str, no: str) -> Check:
    """A check that is ok, or worth a note."""
    return Check("ok", topic, yes) if good else Check("note", topic, no)


# ------------------------------------------------------------------------------------ the machine


def processors(usable: int, cores: int | None, total: int, quota: float | None) -> Check:
    """Processors that may be used, of ``total`` in the machine; ``cores`` are the physical ones.

    ``quota`` is how many a container may use at a time.
    """
    text = f"{usable} of {total} processors may be used; a run takes {usable} threads by default"
    if quota is not None and quota < usable:
        fit = max(1, int(quota))
        text = f"{text}, but the container may use {quota:g} at a time: give --threads {fit}"
        return Check("problem", "processors", text)
    if cores is not None and cores < total:
        text = f"{text}; they are {cores} cores with {total / cores:g} threads each: compare "
        return Check("note", "processors", f"{text}--threads {max(1, usable * cores // total)}")
    return Check("ok", "processors", text)


def free_memory(available: int, total: int, limit: int | None = None) -> Check:
    """Memory that a run can have (B); ``limit`` is that of a container."""
    text = f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB free"
    if limit is not None and limit < total:
        text = f"{text}, but the container may use {limit / _GIB:.1f} GiB in all"
        return Check("problem", "memory", f"{text}; give it more, or measure small cases")
    if available < _LITTLE_MEMORY:
        return Check("note", "memory", f"{text}; larger cases will run out: close other programs")
    return Check("ok", "memory", text)


# -------------------------------------------------------------------------- counters and the GPU


def counter(name: str, reason: str | None) -> Check:
    """Whether a program can count executed work."""
    return _either(reason is None, name, "can count executed work", f"cannot count here: {reason}")


def profiling_permission(params: str, root: bool) -> str | None:
    """Why NVIDIA's driver keeps its counters from this user, from its ``params``; None if not."""
    if root or "RmProfilingAdminOnly: 1" not in params:
        return None
    return (
        "the driver shows its counters to root only: run as root, or load the driver with "
        "NVreg_RestrictProfilingToAdminUsers=0"
    )


# ------------------------------------------------------------------------------------- the records


def disk(free: int) -> Check:
    """Room where the records go (B)."""
    text = f"{free / _GIB:.1f} GiB free in the folder of records"
    if free < _LITTLE_DISK:
        return Check("problem", "disk", f"{text}; make room, or give another with --records")
    return Check("ok", "disk", text)


# ----------------------------------------------------------------------------------------- reading


def _checks(records: Path) -> Iterator[Check]:
    """Everything in the order of showing; what takes longest comes last."""
    yield Check("ok", "Python", f"{platform.python_version()}, {machine.operating_system()}")
    needed = {name: _version(name) for name in ("psutil", "rich")}
    lacking = [name for name, version in needed.items() if version is None]
    if lacking:
        text = f"not installed: {', '.join(lacking)}; install with: {runtime.INSTALL}"
        yield Check("problem", "packages", text)
    else:
        yield Check("ok", "packages", ", ".join(f"{n} {v}" for n, v in needed.items()))
    by_run = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    given = ", ".join(f"{n}={value}" for n, value in variables().items() if n not in by_run)
    yield _either(
        not given,
        "variables",
        "none is set that changes times or results",
        f"{given} may change times or results; unset what you do not mean (records keep them)",
    )
    yield Check("ok", "processor", machine.model_name(host.cpuinfo()))
    if not lacking:
        yield from _by_psutil()
    yield from _of_system()
    yield disk(shutil.disk_usage(_existing(records)).free)
    left = ", ".join(f"{study} ({count})" for study, count in _unfinished(records).items())
    resume = (
        "continue with --resume, or make a record of it with: python -m experiments close STUDY"
    )
    yield _either(not left, "runs", "none is unfinished", f"unfinished: {left}; {resume}")
    yield _load_now()
    driver = _NVIDIA.exists() or shutil.which("nvidia-smi") is not None
    yield from _counters(driver)
    yield from _torch(driver)


def _of_system() -> Iterator[Check]:
    """What the C library and the system can do, and whether the machine is a real one."""
    found, _ = host.read_host(None)
    version = (found.c_library or "").removeprefix("glibc ")
    need = ".".join(map(str, policies.TUNABLES_SINCE))
    yield _either(
        policies.numbers(version) >= policies.TUNABLES_SINCE,
        "C library",
        f"{found.c_library}; memory policies can be set",
        f"{found.c_library or 'unknown'}; memory policies need glibc {need} or newer",
    )
    jemalloc = policies.jemalloc()
    yield _either(
        jemalloc,
        "jemalloc",
        f"{jemalloc and jemalloc.name}; can be measured beside the C library's allocator",
        "not found; install it with: apt-get install libjemalloc2",
    )
    faults = importlib.util.find_spec("resource") is not None
    none = "not counted by this system; records will lack them"
    yield _either(faults, "page faults", "counted by the system", none)
    governor = machine.governor()
    yield _either(
        governor in ("performance", "schedutil", None),
        "governor",
        governor or "the system shows none",
        f"{governor}; set another with: sudo cpupower frequency-set -g performance",
    )
    virtual = found.virtualisation or "unknown whether"
    neighbours = f"a virtual one ({virtual}); neighbours that it does not see may disturb it"
    yield _either(virtual == host.NO_VIRTUALISATION, "machine", "a real one", neighbours)


def _by_psutil() -> Iterator[Check]:
    import psutil  # type: ignore[import-untyped]

    usable, total = runtime.cores_available(), os.cpu_count() or 1
    yield processors(usable, psutil.cpu_count(logical=False), total, cgroups.processors())
    room = psutil.virtual_memory()
    yield free_memory(room.available, room.total, cgroups.memory())


def _load_now() -> Check:
    """What others do for a second."""
    load = machine.load()
    average = "" if load is None else f"; load average {load:.2f}"
    if (blind := quiet.unavailable()) is not None:
        return Check("note", "now", f"{blind}; close other programs before measuring")
    before, running = quiet.read(), quiet.processes()
    time.sleep(_WATCH_S)
    after, now = quiet.read(), quiet.processes()
    busy = quiet.busy_now(before, after, after.processors)
    if busy is None:
        return Check("ok", "now", f"others leave the processors alone{average}")
    names = ", ".join(quiet.busiest(running, now, after.at_s - before.at_s))
    who = f" ({names})" if names else ""
    text = f"{busy}{who}{average}; close them, or run with --wait-quiet 10"
    return Check("problem", "now", text)


def _counters(driver: bool) -> Iterator[Check]:
    """The programs that count; those of a GPU only where there is a driver."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    for tool in TOOLS:
        if tool.device == "cpu":
            yield counter(tool.name, tool.unavailable())
        elif driver:
            refused = profiling_permission(text_of(_NVIDIA), root)
            yield counter(tool.name, tool.unavailable() or refused)


def _torch(driver: bool) -> Iterator[Check]:
    """The GPUs that PyTorch finds, NVIDIA's management library beside them, and PyTorch itself."""
    version = _version("torch")
    if version is None:
        yield Check("problem", "PyTorch", f"not installed; install it with: {runtime.INSTALL}")
        return
    try:
        torch: Any = runtime.import_torch()
    except (MeasurementError, OSError) as error:
        yield Check("problem", "PyTorch", f"{version} cannot be used: {error}")
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    if names:
        yield Check("ok", "GPU", f"{names}; measure on it with --device cuda")
    else:
        unseen = "a driver is here, but PyTorch finds no GPU: install a CUDA build of PyTorch"
        yield _either(not driver, "GPU", "none; measures on CPU", unseen)
    if names and importlib.util.find_spec("pynvml") is None:
        why = "not installed, so no clock, temperature or power: pip install nvidia-ml-py"
        yield Check("note", "NVML", why)
    capability = torch.backends.cpu.get_cpu_capability()
    yield Check("ok", "PyTorch", f"{version}, uses {capability} on this processor")


def _unfinished(records: Path) -> dict[str, int]:
    folders = [path for path in records.iterdir() if path.is_dir()] if records.is_dir() else []
    found = {folder.name: len(journals(folder)) for folder in folders}
    return {study: count for study, count in found.items() if count}


def _existing(path: Path) -> Path:
    """``path``, or the folder above it that exists already."""
    absolute = path.resolve()
    return next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())


def _version(name: str) -> str | None:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None
