"""What a study is to the harness: factors, plans, and how one case is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from experiments.harness.workload import Workload
from report.errors import MeasurementError
from report.records.layers import Layer
from report.records.record import Factor as Level
from report.records.record import Protocol, Series

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
        """Samples, time budget and ceilings in words."""
        p = self.protocol
        ceilings = "no ceilings" if self.ceilings == "none" else f"{self.ceilings} ceilings"
        return (
            f"{p.minimum_samples} to {p.maximum_samples} samples and about "
            f"{p.case_budget_s:g} s a case, {ceilings}"
        )


def _plan(
    name: Literal["full", "quick"],
    minimum: int,
    maximum: int,
    budget: float,
    size: CeilingSize,
) -> Plan:
    return Plan(
        Protocol(
            plan=name,
            seed=SEED,
            warmup_calls=3,
            minimum_samples=minimum,
            maximum_samples=maximum,
            case_budget_s=budget,
            timer=UNSET,
        ),
        size,
    )


def replanned(plan: Plan, *, warmup: int, minimum: int, maximum: int, budget: float) -> Plan:
    """``plan`` with other counts of calls and another budget (s) for each case."""
    protocol = msgspec.structs.replace(
        plan.protocol,
        warmup_calls=warmup,
        minimum_samples=minimum,
        maximum_samples=maximum,
        case_budget_s=budget,
    )
    return replace(plan, protocol=protocol)


FULL: Final = _plan("full", minimum=30, maximum=200, budget=5.0, size="large")
QUICK: Final = _plan("quick", minimum=10, maximum=30, budget=0.3, size="small")


@dataclass(frozen=True)
class Session:
    """What measuring a case needs to know of the run; ``images`` is the folder of ``--data``."""

    device: Device
    protocol: Protocol
    images: Path | None = None


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
    ``measure`` runs a case and returns its series; what it raises becomes the case's outcome.
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
    measure: Callable[[Factors, Session], tuple[Series, ...]]
    effort: Callable[[Factors], float]
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
