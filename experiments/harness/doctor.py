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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from experiments.harness import cgroups, host, machine, memory, policies, quiet, runtime, sensors
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


# ----------------------------------------------------------------------------------- the software


def packages(found: Mapping[str, str | None]) -> Check:
    """The packages that measuring needs beside PyTorch, with their versions."""
    lacking = sorted(name for name, version in found.items() if version is None)
    if lacking:
        text = f"not installed: {', '.join(lacking)}; install with: {runtime.INSTALL}"
        return Check("problem", "packages", text)
    known = ", ".join(f"{name} {version}" for name, version in sorted(found.items()))
    return Check("ok", "packages", known)


def torch_check(version: str | None, capability: str | None, why: str | None) -> Check:
    """PyTorch's version, and the vector instructions that it uses here or why it cannot start."""
    if version is None:
        return Check("problem", "PyTorch", f"not installed; install it with: {runtime.INSTALL}")
    if why is not None:
        return Check("problem", "PyTorch", f"{version} cannot be used: {why}")
    return Check("ok", "PyTorch", f"{version}, uses {capability} on this processor")


def settings(found: Mapping[str, str]) -> Check:
    """Environment variables that change times; a record keeps them."""
    if not found:
        return Check("ok", "variables", "none is set that changes times or results")
    said = ", ".join(f"{name}={value}" for name, value in found.items())
    text = f"{said} may change times or results; unset what you do not mean (records keep them)"
    return Check("note", "variables", text)


def c_library(name: str | None) -> Check:
    """The C library, and whether its memory policy can be set."""
    version = name.partition(" ")[2] if name and name.startswith("glibc ") else ""
    if policies.numbers(version) >= policies.TUNABLES_SINCE:
        return Check("ok", "C library", f"{name}; memory policies can be set")
    need = ".".join(map(str, policies.TUNABLES_SINCE))
    text = f"{name or 'unknown'}; memory policies can be set with glibc {need} or newer only"
    return Check("note", "C library", text)


def jemalloc(name: str | None) -> Check:
    """Whether jemalloc is there to be measured beside the C library's own allocator."""
    if name:
        return Check("ok", "jemalloc", f"{name}; can be measured beside the C library's allocator")
    return Check("note", "jemalloc", "not found; install it with: apt-get install libjemalloc2")


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


def page_faults(readable: bool) -> Check:
    """Whether the system counts the page faults of a process."""
    if readable:
        return Check("ok", "page faults", "counted by the system")
    return Check("note", "page faults", "not counted by this system; records will lack them")


def resident(reason: str | None) -> Check:
    """Whether the peak of resident memory can be measured."""
    if reason is None:
        return Check("ok", "peak memory", "the peak of resident memory can be measured")
    return Check("note", "peak memory", f"{reason}; records will lack it")


def governor(found: str | None) -> Check:
    """The frequency governor."""
    if found in ("performance", "schedutil", None):
        return Check("ok", "governor", found or "the system shows none")
    text = f"{found}; set another with: sudo cpupower frequency-set -g performance"
    return Check("note", "governor", text)


def virtual(found: str | None) -> Check:
    """Whether this is a virtual machine."""
    if found == host.NO_VIRTUALISATION:
        return Check("ok", "machine", "a real one")
    if found is None:
        return Check("note", "machine", "whether it is a virtual one is not known")
    text = f"a virtual one ({found}); neighbours that it does not see may disturb it"
    return Check("note", "machine", text)


def sensing(found: Iterable[str]) -> Check:
    """Which sensors of the processor can be read."""
    names = sorted(name.removeprefix("device_") for name in found)
    if names:
        return Check("ok", "sensors", f"{' and '.join(names)} of the processor can be read")
    return Check("note", "sensors", "no temperature or clock can be read; records will lack them")


def load_now(
    busy: str | None, names: Sequence[str], load: float | None, blind: str | None
) -> Check:
    """What disturbs now; ``blind`` is why nobody can tell."""
    if blind is not None:
        return Check("note", "now", f"{blind}; close other programs before measuring")
    average = "" if load is None else f"; load average {load:.2f}"
    if busy is None:
        return Check("ok", "now", f"others leave the processors alone{average}")
    who = f" ({', '.join(names)})" if names else ""
    text = f"{busy}{who}{average}; close them, or run with --wait-quiet 10"
    return Check("problem", "now", text)


# -------------------------------------------------------------------------- counters and the GPU


def counter(name: str, reason: str | None) -> Check:
    """Whether a program can count executed work."""
    if reason is None:
        return Check("ok", name, "can count executed work")
    return Check("note", name, f"cannot count here: {reason}")


def profiling_permission(params: str, root: bool) -> str | None:
    """Why NVIDIA's driver keeps its counters from this user, from its ``params``; None if not."""
    if root or "RmProfilingAdminOnly: 1" not in params:
        return None
    return (
        "the driver shows its counters to root only: run as root, or load the driver with "
        "NVreg_RestrictProfilingToAdminUsers=0"
    )


def gpu(names: Sequence[str], driver: bool, management: bool) -> Iterator[Check]:
    """The GPUs that PyTorch finds, and NVIDIA's management library beside them."""
    if not names:
        why = "a driver is here, but PyTorch finds no GPU: install a CUDA build of PyTorch"
        yield Check("note", "GPU", why) if driver else Check("ok", "GPU", "none; measures on CPU")
        return
    yield Check("ok", "GPU", f"{', '.join(names)}; measure on it with --device cuda")
    if not management:
        why = "not installed, so no clock, temperature or power: pip install nvidia-ml-py"
        yield Check("note", "NVML", why)


# ------------------------------------------------------------------------------------- the records


def disk(free: int) -> Check:
    """Room where the records go (B)."""
    text = f"{free / _GIB:.1f} GiB free in the folder of records"
    if free < _LITTLE_DISK:
        return Check("problem", "disk", f"{text}; make room, or give another with --records")
    return Check("ok", "disk", text)


def unfinished(found: Mapping[str, int]) -> Check:
    """Runs that were not finished, by study."""
    if not found:
        return Check("ok", "runs", "none is unfinished")
    said = ", ".join(f"{study} ({count})" for study, count in sorted(found.items()))
    text = f"unfinished: {said}; continue with --resume, or make a record of it with: "
    return Check("note", "runs", f"{text}python -m experiments close STUDY")


# ----------------------------------------------------------------------------------------- reading


def _checks(records: Path) -> Iterator[Check]:
    """Everything in the order of showing; what takes longest comes last."""
    yield Check("ok", "Python", f"{platform.python_version()}, {machine.operating_system()}")
    needed = packages({name: _version(name) for name in ("psutil", "rich")})
    yield needed
    yield settings(_set_by_hand())
    info = host.cpuinfo()
    found, _ = host.read_host(None)
    yield Check("ok", "processor", machine.model_name(info))
    if needed.level == "ok":
        yield from _by_psutil()
    yield c_library(found.c_library)
    library = policies.jemalloc()
    yield jemalloc(library.name if library else None)
    yield page_faults(importlib.util.find_spec("resource") is not None)
    yield resident(memory.resident_unavailable())
    yield governor(machine.governor())
    yield virtual(found.virtualisation)
    yield disk(shutil.disk_usage(_existing(records)).free)
    yield unfinished(_unfinished(records))
    yield _load_now()
    driver = _NVIDIA.exists() or shutil.which("nvidia-smi") is not None
    yield from _counters(driver)
    yield from _torch(driver)


def _set_by_hand() -> dict[str, str]:
    """Variables that change times, but for those that a run sets by itself."""
    by_run = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {name: value for name, value in variables().items() if name not in by_run}


def _by_psutil() -> Iterator[Check]:
    import psutil  # type: ignore[import-untyped]

    usable, total = runtime.cores_available(), os.cpu_count() or 1
    yield processors(usable, psutil.cpu_count(logical=False), total, cgroups.processors())
    room = psutil.virtual_memory()
    yield free_memory(room.available, room.total, cgroups.memory())
    yield sensing(sensors.available("cpu"))


def _load_now() -> Check:
    """What others do for a second."""
    if (blind := quiet.unavailable()) is not None:
        return load_now(None, (), machine.load(), blind)
    before, running = quiet.read(), quiet.processes()
    time.sleep(_WATCH_S)
    after, now = quiet.read(), quiet.processes()
    names = quiet.busiest(running, now, after.at_s - before.at_s)
    busy = quiet.busy_now(before, after, after.processors)
    return load_now(busy, names, machine.load(), None)


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
    version = _version("torch")
    if version is None:
        yield torch_check(None, None, None)
        return
    try:
        torch: Any = runtime.import_torch()
    except (MeasurementError, OSError) as error:
        yield torch_check(version, None, str(error))
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = [torch.cuda.get_device_name(index) for index in range(count)]
    yield from gpu(names, driver, importlib.util.find_spec("pynvml") is not None)
    yield torch_check(version, torch.backends.cpu.get_cpu_capability(), None)


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
