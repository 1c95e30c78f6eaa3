"""Which primitives of oneDNN compute a call, as oneDNN itself tells, and with which instructions.

oneDNN reads both variables when it is first used in a process.  The log is that of one warm call:
what the first call does besides, such as making kernels, stands in no time that is reported.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Final

from experiments.harness.redirection import redirected
from experiments.harness.workload import Build

#: Makes oneDNN print a line a primitive.
VERBOSE: Final[Mapping[str, str]] = {"ONEDNN_VERBOSE": "1"}
#: Keeps oneDNN from wider vectors than AVX2's, as a processor does that lackey plays.
AVX2: Final[Mapping[str, str]] = {"ONEDNN_MAX_CPU_ISA": "AVX2"}

_PREFIX: Final = b"onednn_verbose,"
_CALLED: Final = b",primitive,exec,"


def log_of(build: Build) -> bytes:
    """What oneDNN prints about itself, and about one warm call, of a process with ``VERBOSE``."""
    workload = build()
    first = _printed(workload.call)
    workload.reset()
    warm = _printed(workload.call)
    about = [line for line in first if _CALLED not in line]
    return b"".join(line + b"\n" for line in (*about, *(x for x in warm if _CALLED in x)))


def _printed(call: Callable[[], object]) -> list[bytes]:
    """oneDNN's lines of what a call prints on the standard output of the process."""
    with tempfile.TemporaryFile() as stream:
        with redirected(sys.stdout, 1, stream):
            call()
        stream.seek(0)
        return [line for line in stream.read().splitlines() if line.startswith(_PREFIX)]
