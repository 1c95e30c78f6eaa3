"""What an exception means for the case in which it was raised."""

from __future__ import annotations

import re
from typing import Final

from experiments.harness.text import first_line
from report.errors import MeasurementError
from report.records.record import Status


class UnavailableError(MeasurementError):
    """This machine or this software cannot do what a case asks for; the message says what."""


_NO_MEMORY: Final = re.compile(
    r"can't allocate memory|not enough memory|cannot allocate memory|out of memory|"
    r"could not create a memory|bad_alloc|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
_ASKED: Final = re.compile(r"tried to allocate ([\d.,]+ ?(?:bytes|[KMGT]?i?B))", re.IGNORECASE)


def outcome_of(error: Exception) -> tuple[Status, str]:
    """The status of a case that raised ``error``, and the reason in one sentence."""
    if isinstance(error, UnavailableError):
        return "unavailable", first_line(str(error))
    if is_out_of_memory(error):
        asked = _ASKED.search(str(error))
        more = f" when {asked[1].replace('bytes', 'B')} more were asked for" if asked else ""
        return "out_of_memory", f"Memory ran out{more}."
    return "failed", f"{type(error).__name__}: {first_line(str(error))}"


def is_out_of_memory(error: Exception) -> bool:
    """Whether ``error`` is Python's, CUDA's or the CPU allocator's way to say it.

    CUDA's class is told by its name, so that this module needs no torch; the CPU allocator raises a
    plain ``RuntimeError``, which only its text tells from others.
    """
    named = {kind.__name__ for kind in type(error).__mro__} & {"MemoryError", "OutOfMemoryError"}
    return bool(named) or (isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error))))
