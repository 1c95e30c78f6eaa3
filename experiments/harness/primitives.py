"""Which primitives of oneDNN compute a call, as oneDNN itself tells, and with which instructions.

oneDNN reads the variables when it is first used in a process, so that each log comes from a child
of its own.  It is that of one warm call: what the first call does besides, such as making kernels,
stands in no time that is reported.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Final

from experiments.harness.memory import redirected
from experiments.harness.study import CaseFile, Factors, Session
from experiments.harness.timing import Build
from experiments.harness.worker import can_fork, fork
from report.errors import MeasurementError
from report.instruments import onednn

#: Makes oneDNN print a line a primitive.
VERBOSE: Final[Mapping[str, str]] = {"ONEDNN_VERBOSE": "1"}
#: Keeps oneDNN from wider vectors than AVX2's, as a processor does that lackey plays.
AVX2: Final[Mapping[str, str]] = {"ONEDNN_MAX_CPU_ISA": "AVX2"}

_PREFIX: Final = b"onednn_verbose,"
_CALLED: Final = b",primitive,exec,"


def log_files(build: Build, factors: Factors, session: Session) -> Iterator[CaseFile]:
    """What oneDNN tells of a call, with all instructions and with AVX2's alone.

    To be asked for before this process uses oneDNN.
    """
    if not can_fork(session.device):
        return
    for kind, variables in ((onednn.NATIVE, {}), (onednn.AVX2, AVX2)):
        yield CaseFile(
            onednn.log_file(factors, kind),
            f"what oneDNN prints of one warm call with its {kind} instructions",
            log_of(build, {**VERBOSE, **variables}),
        )


def log_of(build: Build, variables: Mapping[str, str]) -> bytes:
    """What oneDNN prints about itself, and about one warm call, in a child with ``variables``.

    Raises ``MeasurementError`` where the child fails.
    """
    with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as warm:

        def act() -> None:
            os.environ.update(variables)
            workload = build()
            _print_into(first, workload.call)
            workload.reset()
            _print_into(warm, workload.call)

        _, status = os.waitpid(fork(act), 0)
        if status:
            raise MeasurementError("The call whose primitives oneDNN is asked for fails.")
        about = [line for line in _lines(first) if _CALLED not in line]
        return b"".join((*about, *(line for line in _lines(warm) if _CALLED in line)))


def _print_into(stream: IO[bytes], call: Callable[[], object]) -> None:
    with redirected(sys.stdout, 1, stream):
        call()


def _lines(stream: IO[bytes]) -> list[bytes]:
    """oneDNN's lines of what was printed."""
    stream.seek(0)
    return [line for line in stream.read().splitlines(True) if line.startswith(_PREFIX)]
