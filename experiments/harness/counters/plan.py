"""What the program that counts is told, and what it tells; shared by both sides."""

from __future__ import annotations

from importlib import import_module
from typing import TypeAlias

import msgspec

from experiments.harness.study import Counting, Factors


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A case to count: its place in the run, and one call or two (see ``Counting.calls``).

    ``multiply_adds`` are expected of one call; they only tell the time left.
    """

    case: int
    factors: Factors
    calls: int
    multiply_adds: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All cases of one process, at most ``at_once`` of them at the same time.

    ``module`` is the Python module of the study.  ``threads`` are those of torch on the host while
    a GPU, whose compute capability is given, does the work; on a CPU one thread is counted.
    """

    module: str
    warm_up: Factors
    at_once: int
    jobs: tuple[Job, ...]
    threads: int = 1
    compute_capability: str | None = None


def counting_of(plan: Plan) -> Counting:
    """How the study of a plan makes its cases."""
    counting = import_module(plan.module).STUDY.counting
    assert isinstance(counting, Counting)
    return counting


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """torch is imported and warm."""


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The process ``pid``, which ran ``role`` of a case, has ended well."""

    case: int
    role: str
    pid: int


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """What a process of a case raised, or how it ended; the first to be told is the cause."""

    case: int
    error: str


class Done(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """All processes of a case have ended; ``error`` says what went wrong."""

    case: int
    error: str | None


Message: TypeAlias = Ready | Ended | Failed | Done


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A case has run; what was counted of it is told when the program ends."""

    case: int


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A case is counted: what was printed, by what ran, or the reason why there is nothing."""

    case: int
    logs: dict[str, str]
    reason: str | None


#: What a counter tells while it runs; None is a second in which nothing happened.
Event: TypeAlias = Ready | Ran | Counted | None
