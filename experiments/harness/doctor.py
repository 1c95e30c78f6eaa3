"""What this machine can measure, what disturbs it now, and what to install or set.

Each check is one line: ``ok``, ``note`` for what is worth knowing or would be better otherwise, and
``problem`` for what stands in the way, with what to do.  PyTorch comes last, since its import takes
seconds.
"""

from __future__ import annotations

import os
import platform
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from experiments.harness import limits, machine, policies, quiet, runtime
from experiments.harness.counting import TOOLS
from experiments.harness.environment import variables
from experiments.harness.journal import unfinished
from report.errors import MeasurementError

_GIB: Final = 2**30
#: What the largest quick run needs (B).
_LITTLE_MEMORY: Final = 2 * _GIB
#: Governors that let a clock fall between calls.
_SLOW: Final = ("powersave", "ondemand", "conservative")


class Check(NamedTuple):
    """One thing that was looked at, and what was found."""

    topic: str
    text: str
    level: Literal["ok", "note", "problem"] = "ok"

    def line(self) -> str:
        """The check in lines of at most 80 columns."""
        head = f"{self.level:<9}{self.topic:<12}"
        return textwrap.fill(
            head + self.text, 80, subsequent_indent=" " * len(head), break_on_hyphens=False
        )


def noted(topic: str, ok: str, note: str | None) -> Check:
    """A check that is ok, unless there is something to ``note``."""
    return Check(topic, note, "note") if note else Check(topic, ok)


def doctor(options: Namespace) -> int:
    """Look at everything and print it line by line; the exit code: 1 if nothing can be measured."""
    levels = []
    for check in chain(_machine(), _now(options.records), _torch()):
        print(check.line(), flush=True)
        levels.append(check.level)
    if check.level == "problem":
        print("Nothing can be measured here before PyTorch can be imported.")
        return 1
    problems, notes = levels.count("problem"), levels.count("note")
    print(f"This machine can measure; problems: {problems}, notes: {notes}.")
    return 0


def _machine() -> Iterator[Check]:
    """What stays as it is while this machine is used."""
    import psutil  # type: ignore[import-untyped]

    yield Check("Python", f"{platform.python_version()}, {machine.operating_system()}")
    given = [f"{n}={v}" for n, v in variables("cuda").items() if not n.endswith("_NUM_THREADS")]
    keep = "may change times or results; unset what you do not mean (records keep them)"
    none = "none is set that changes times or results"
    yield noted("variables", none, f"{', '.join(given)} {keep}" if given else None)
    yield Check("processor", machine.model_name(machine.cpuinfo()))
    cores, total = psutil.cpu_count(logical=False), os.cpu_count() or 1
    yield processors(runtime.cores_available(), cores, total, limits.processors())
    room = psutil.virtual_memory()
    yield free_memory(room.available, room.total, limits.memory())
    reasons = [policies.unavailable(policy, "cpu") for policy in ("retained", "jemalloc")]
    yield noted("policies", "all can be measured", "; ".join(filter(None, reasons)))
    governor = machine.governor() or "the system shows none"
    slow = f"{governor}; set another with: sudo cpupower frequency-set -g performance"
    yield noted("governor", governor, slow if governor in _SLOW else None)


def processors(usable: int, cores: int | None, total: int, quota: float | None) -> Check:
    """Processors that may be used, of ``total`` in the machine; ``cores`` are the physical ones.

    ``quota`` is how many a container may use at a time.
    """
    text = f"{usable} of {total} processors may be used; a run takes {usable} threads by default"
    if quota is not None and quota < usable:
        fit = max(1, int(quota))
        text = f"{text}, but the container may use {quota:g} at a time: give --threads {fit}"
        return Check("processors", text, "problem")
    if cores is not None and cores < total:
        text = f"{text}; they are {cores} cores with {total / cores:g} threads each: compare "
        return Check("processors", f"{text}--threads {max(1, usable * cores // total)}", "note")
    return Check("processors", text)


def free_memory(available: int, total: int, limit: int | None = None) -> Check:
    """Memory that a run can have (B); ``limit`` is that of a container."""
    text = f"{available / _GIB:.1f} of {total / _GIB:.1f} GiB free"
    if limit is not None and limit < total:
        text = f"{text}, but the container may use {limit / _GIB:.1f} GiB in all"
        return Check("memory", f"{text}; give it more, or measure small cases", "problem")
    less = f"{text}; larger cases will run out: close other programs"
    return noted("memory", text, less if available < _LITTLE_MEMORY else None)


def _now(records: Path) -> Iterator[Check]:
    """Runs that were not finished, what others do at this moment, and what can count."""
    counts = {path.name: sum(map(len, unfinished(path))) for path in records.glob("*")}
    left = ", ".join(f"{study} ({count})" for study, count in counts.items() if count)
    close = "continue with --resume, or make a record of it with: python -m experiments close STUDY"
    yield noted("runs", "none is unfinished", f"unfinished: {left}; {close}" if left else None)
    if (blind := quiet.unavailable()) is not None:
        yield Check("now", f"{blind}; close other programs before measuring", "note")
    elif (busy := quiet.watched()) is not None:
        yield Check("now", f"{busy}; close them, or run with --wait-quiet 10", "problem")
    else:
        yield Check("now", "others leave the processors alone")
    for device, tool in TOOLS.items():
        if device == "cpu" or shutil.which("nvidia-smi"):
            reason = tool.unavailable()
            no = f"cannot count here: {reason}" if reason else None
            yield noted(tool.NAME, "can count executed work", no)


def _torch() -> Iterator[Check]:
    """The GPUs that PyTorch finds, and PyTorch itself."""
    try:
        torch: Any = runtime.import_torch()
    except (MeasurementError, OSError) as error:
        yield Check("PyTorch", str(error), "problem")
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
    there = f"{names}; measure on it with --device cuda" if names else "none; measures on CPU"
    unseen = "a driver is here, but PyTorch finds no GPU: install a CUDA build of PyTorch"
    yield noted("GPU", there, unseen if not names and shutil.which("nvidia-smi") else None)
    capability = torch.backends.cpu.get_cpu_capability()
    yield Check("PyTorch", f"{torch.__version__}, uses {capability} on this processor")
