"""What a study is to the harness: factors, plans, and how one case is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from experiments.harness.text import period_text
from experiments.harness.workload import Workload
from report.errors import MeasurementError
from report.records.layers import Layer
from report.records.record import Factor as Level
from report.records.record import Policy, Protocol, Series

if TYPE_CHECKING:
    pass

Device: TypeAlias = Literal["cpu", "cuda"]
CeilingSize: TypeAlias = Literal["large", "small", "none"]
CounterChoice: TypeAlias = Literal["none", "auto", "all"]
Factors: TypeAlias = dict[str, Level]
Levels: TypeAlias = Mapping[str, tuple[Level, ...]]

#: Every random input and weight of every study starts from this seed.
SEED: Final = 0
#: The timer of a plan that leaves it to the harness, which takes that of the device.
UNSET: Final = "unset"


class UsageError(MeasurementError):
    """The command line asks for something that does not exist; the message lists what does."""


@dataclass(frozen=True)
class Factor:
    """Something that is varied.

    ``levels`` are those of the full plan and ``quick`` those of the quick one.  ``any_count`` says
    that ``--set`` takes any whole number from 1 on, not only these levels.
    """

    name: str
    levels: tuple[Level, ...]
    quick: tuple[Level, ...]
    any_count: bool = False

    def parse(self, text: str) -> Level:
        """The level that ``text`` names; raises ``UsageError`` that lists what is possible."""
        named = {str(level): level for level in self.levels}
        if text in named:
            return named[text]
        if self.any_count and text.isascii() and text.isdigit() and int(text) >= 1:
            return int(text)
        possible = "whole numbers from 1 on" if self.any_count else ", ".join(named)
        raise UsageError(f"--set {self.name}: {text!r} is not possible; possible are {possible}.")


@dataclass(frozen=True)
class Plan:
    """How thoroughly to measure; ``summary`` says it in words for ``list``."""

    protocol: Protocol
    ceilings: CeilingSize

    @property
    def summary(self) -> str:
        """Processes, samples, time budget and ceilings in words."""
        p = self.protocol
        ceilings = "no ceilings" if self.ceilings == "none" else f"{self.ceilings} ceilings"
        most = "" if p.budget_s is None else f"{period_text(p.budget_s)} at most, "
        return (
            f"each in {_listed(p.processes)} ({p.minimum_samples} to {p.maximum_samples} "
            f"samples, about {p.case_budget_s:g} s in each), {most}{ceilings}"
        )


def _listed(processes: Mapping[Policy, int]) -> str:
    """``6 processes with memory retained, 2 with default and 1 with jemalloc``."""
    (policy, count), *others = processes.items()
    parts = [f"{count} processes with memory {policy}", *(f"{n} with {p}" for p, n in others)]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


#: The lowest and the highest of six processes bound a median at 96.9 %; of eight at 99.2 %, so that
#: a statement on six medians at once still reaches 95 %.
FULL: Final = Plan(
    Protocol(
        plan="full",
        seed=SEED,
        warmup_calls=2,
        minimum_samples=5,
        maximum_samples=30,
        case_budget_s=0.5,
        timer=UNSET,
        processes={"retained": 8, "default": 6, "jemalloc": 2},
        budget_s=900.0,
    ),
    "large",
)
QUICK: Final = Plan(
    Protocol(
        plan="quick",
        seed=SEED,
        warmup_calls=2,
        minimum_samples=5,
        maximum_samples=15,
        case_budget_s=0.1,
        timer=UNSET,
        processes={"retained": 2, "default": 1},
        budget_s=60.0,
    ),
    "small",
)


def replanned(plan: Plan, **changes: Any) -> Plan:
    """``plan`` with other fields of its protocol."""
    return replace(plan, protocol=msgspec.structs.replace(plan.protocol, **changes))


@dataclass(frozen=True)
class Session:
    """What measuring a case needs to know of the run; ``images`` is the folder of ``--data``.

    ``threads`` are those that compute.  ``process`` counts those that measure the case, from 1; 0
    is the run's own.
    """

    device: Device
    protocol: Protocol
    images: Path | None = None
    threads: int = 1
    process: int = 0


@dataclass(frozen=True)
class CaseFile:
    """A file that a case leaves beside the record; ``meaning`` tells a reader what it holds."""

    name: str
    meaning: str
    content: bytes


@dataclass(frozen=True)
class Counting:
    """How the executed work of a study's cases is counted; imports torch only when called.

    ``workload`` makes a case on a device.  ``multiply_adds`` are those expected of one call, for
    the time left.  ``calls`` says how often a case is called under a program that makes it a
    thousand times slower: 0 leaves it out, 2 takes apart what the first call does besides; the
    second argument asks for all that can be counted, however long it lasts.  ``calls_on_gpu`` says
    the same for a GPU, whose counters only replay each kernel some times.  ``warm_up`` is a small
    case that uses what most cases use.
    """

    workload: Callable[[Factors, Device], Workload]
    multiply_adds: Callable[[Factors], int]
    calls: Callable[[Factors, bool], int]
    warm_up: Factors
    calls_on_gpu: Callable[[Factors, bool], int] = lambda factors, thorough: 2


@dataclass(frozen=True)
class Study:
    """A question with the cases that answer it.

    ``cases`` turns the levels of each factor into the combinations to measure, in order.
    ``layers`` gives the geometry of the layers of a case without running it on the device.
    ``measure`` returns what the run's own process finds of a case, such as its bytes; what it
    raises becomes the case's outcome.  ``timed`` returns what each of several processes finds of
    it, such as its times, of the cases that ``is_timed`` names; None where nothing is.  Under the
    memory policies beside that of the studies only those ``under_every_policy`` are.  Those
    processes have imported torch, unless ``uses_torch`` says that the cases choose their library,
    and the modules of ``imports``, so that no case pays for what all need.  Where ``alike`` tells
    cases apart, those for which it returns the same share such a process, which calls ``begin``
    with the first of them for what they need.
    ``effort`` estimates how long a case lasts relative to others; it serves only the time left.
    ``files`` are called after ``measure``, for what belongs beside the record, such as a trace.
    ``counting`` is None where the executed work is not counted.
    ``prepare`` is called once before anything is measured; what it raises ends the run, since it
    holds for every case: a data set that cannot be read.
    ``on_gpu`` is the study as a GPU measures it, where other cases fit; None if it is the same.
    ``images`` names the data set that a folder given as ``--data`` holds, as the level of the
    factor ``dataset``; it is None where a study reads no images.
    """

    name: str
    question: str
    factors: tuple[Factor, ...]
    measures: tuple[str, ...]
    cases: Callable[[Levels], tuple[Factors, ...]]
    layers: Callable[[Factors], tuple[Layer, ...]]
    effort: Callable[[Factors], float]
    measure: Callable[[Factors, Session], tuple[Series, ...]] = lambda factors, session: ()
    timed: Callable[[Factors, Session], tuple[Series, ...]] | None = None
    is_timed: Callable[[Factors], bool] = lambda factors: True
    under_every_policy: Callable[[Factors], bool] = lambda factors: True
    uses_torch: bool = True
    imports: tuple[str, ...] = ()
    alike: Callable[[Factors], object] = lambda factors: None
    begin: Callable[[Factors, Session], None] = lambda factors, session: None
    files: Callable[[Factors, Session], tuple[CaseFile, ...]] | None = None
    counting: Counting | None = None
    prepare: Callable[[Session], None] | None = None
    images: str | None = None
    full: Plan = FULL
    quick: Plan = QUICK
    on_gpu: Study | None = None

    def on(self, device: Device) -> Study:
        """The study as it is measured on ``device``."""
        return self if device == "cpu" or self.on_gpu is None else self.on_gpu
