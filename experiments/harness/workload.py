"""A case as something that can be called again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Workload:
    """Model and inputs in memory, ready to run.

    ``call`` runs once and returns what must stay alive while memory is read.  ``reset`` undoes what
    a call leaves behind (gradients), so that every call starts from the same state; it is never
    timed.
    """

    call: Callable[[], object]
    reset: Callable[[], None]


#: Makes a workload from nothing: the same tensors, from the same seed, every time.
Build: TypeAlias = Callable[[], Workload]
