"""Which primitives of oneDNN compute a call, as oneDNN itself tells, and with which instructions.

oneDNN reads both variables when it is first used in a process.  The log is that of one warm call:
what the first call does besides, such as making kernels, stands in no time that is reported.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from experiments.harness import isolated, runtime
from experiments.harness.redirection import redirected
from experiments.harness.study import CaseFile, Factors, Session
from experiments.harness.workload import Build
from report.instruments import onednn

#: A study's own function, at the top of its module, that gives ``log_of`` one of its cases.
LogCase: TypeAlias = Callable[[Factors, Session], bytes]

#: Makes oneDNN print a line a primitive.
VERBOSE: Final[Mapping[str, str]] = {"ONEDNN_VERBOSE": "1"}
#: Keeps oneDNN from wider vectors than AVX2's, as a processor does that lackey plays.
AVX2: Final[Mapping[str, str]] = {"ONEDNN_MAX_CPU_ISA": "AVX2"}

_PREFIX: Final = b"onednn_verbose,"
_CALLED: Final = b",primitive,exec,"


def log_files(log_case: LogCase, factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """What oneDNN tells of a call, with all instructions and with AVX2's alone.

    ``log_case`` runs in processes of its own.
    """
    return tuple(
        CaseFile(
            onednn.log_file(factors, kind),
            f"what oneDNN prints of one warm call with its {kind} instructions",
            isolated.run(partial(log_case, factors, session), {**VERBOSE, **variables}),
        )
        for kind, variables in ((onednn.NATIVE, {}), (onednn.AVX2, AVX2))
    )


def log_of(session: Session, build: Build) -> bytes:
    """What oneDNN prints about itself, and about one warm call, of a process with ``VERBOSE``."""
    runtime.start_torch(session.device, session.threads)
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
