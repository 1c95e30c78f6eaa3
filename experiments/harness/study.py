"""Definition of a study for the harness: factors, plans, and how to measure one case.

A case is a combination of levels (values) of the study's factors, such as the batch size.  A plan
says how a full and a quick run measure the cases.  Under a memory policy, the C library keeps freed
memory or returns it to the system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from experiments.machine.text import factors_text
from report.core.errors import MeasurementError, UsageError
from report.core.records.layers import Layer
from report.core.records.record import (
    FEWEST_PROCESSES,
    Factors,
    Level,
    Policy,
    Protocol,
    SeriesByQuantity,
)
from report.theory.conditions import Layout

if TYPE_CHECKING:
    import torch
    from torch import nn

Device: TypeAlias = Literal["cpu", "cuda"]
#: Size of the operations that measure peak rates (ceilings).
CeilingSize: TypeAlias = Literal["large", "small", "none"]
#: Cases whose executed operations are counted; ``auto`` means as many cases as minutes allow.
CounterChoice: TypeAlias = Literal["none", "auto", "all"]
#: Memory policies under which a case is timed: all of the plan, its main policy, none, or a list.
Policies: TypeAlias = Literal["every", "main", "none"] | tuple[Policy, ...]
#: Levels of each factor.
Levels: TypeAlias = Mapping[str, tuple[Level, ...]]

#: Seed of all random inputs and weights.
SEED: Final = 0
#: Largest number that ``--set`` accepts; much larger tensors have sizes that exceed 64 bits.
_LARGEST_COUNT: Final = 10**9


class UnavailableError(MeasurementError):
    """This machine or its software cannot run a case; the message says why."""


@dataclass(frozen=True)
class Factor:
    """Factor that distinguishes cases, with its levels in a full run.

    ``quick`` are the levels in a quick run (by default the same).  ``--set`` also accepts levels
    ``on_request``, and with ``any_count`` all whole numbers from 1 to 10⁹.
    """

    name: str
    levels: tuple[Level, ...]
    quick: tuple[Level, ...] = ()
    any_count: bool = False
    on_request: tuple[Level, ...] = ()

    @property
    def possible(self) -> tuple[Level, ...]:
        """Levels that ``--set`` accepts, without the numbers that ``any_count`` allows."""
        return (*self.levels, *self.on_request)

    def parse(self, text: str) -> Level:
        """Return the level written as ``text``; raise ``UsageError`` if there is none."""
        for level in self.possible:
            if text == str(level):
                return level
        digits = text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST_COUNT))
        if self.any_count and digits and 1 <= int(text) <= _LARGEST_COUNT:
            return int(text)
        possible = f"whole numbers from 1 to {_LARGEST_COUNT:,}"
        if not self.any_count:
            possible = ", ".join(map(str, self.possible))
        raise UsageError(f"--set {self.name}: {text!r} is not possible; possible are {possible}.")


#: Default settings of a full run.  Minimum and maximum of six processes bound a median with 96.9 %
#: confidence.  For eight processes it is 99.2 %, enough for a joint statement on six medians.
FULL: Final = Protocol(
    plan="full",
    seed=SEED,
    warmup_calls=2,
    minimum_samples=5,
    maximum_samples=30,
    case_budget_s=0.5,
    timer="one call a sample: time.perf_counter_ns, or CUDA events that are synchronised after it",
    processes={"retained": 8, "default": 6, "jemalloc": 2},
    budget_s=900.0,
)
#: Default settings of a quick run.
QUICK: Final = msgspec.structs.replace(
    FULL,
    plan="quick",
    maximum_samples=15,
    case_budget_s=0.1,
    processes={"retained": FEWEST_PROCESSES},
    budget_s=45.0,
)


@dataclass(frozen=True)
class Session:
    """Settings of the run for measuring a case.

    ``images`` is the absolute path that ``--data`` names, ``threads`` the number of computing
    threads.  ``process`` is the number of the process among those that time cases under one memory
    policy, from 1; it is 0 in the process that measures memory.
    """

    device: Device
    protocol: Protocol
    images: str | None = None
    threads: int = 1
    process: int = 0


class CaseFile(msgspec.Struct, frozen=True):
    """File of a case in the record's folder; ``meaning`` describes the content for readers."""

    name: str
    meaning: str
    content: bytes


#: Kind of call (see ``Subject``), or a function to call instead.
Mode: TypeAlias = Literal["forward", "forward_backward", "step"] | Callable[[], object]
Precision: TypeAlias = Literal["float32", "tfloat32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Subject:
    """Computation of one call of a case.

    ``module`` is called with ``inputs``, whose first axis counts images.  The ``mode`` is one of:

    - ``forward``: a forward pass without gradients;
    - ``forward_backward``: both passes, the second from a fixed random gradient of the output;
    - ``step``: a training step of stochastic gradient descent on the cross entropy;
    - a function, which is called instead of the module.

    ``convert`` returns the module that runs in place of ``module``, for example compiled; the
    record contains the layers of ``module``.  ``name`` is the layer's name in the record if
    ``module`` is a single layer.
    """

    module: nn.Module
    inputs: torch.Tensor
    mode: Mode = "forward"
    layout: Layout = "contiguous"
    precision: Precision = "float32"
    convert: Callable[[nn.Module], nn.Module] | None = None
    name: str = "layer"


def all_combinations(levels: Levels) -> tuple[Factors, ...]:
    """Combine every level of each factor with every level of the other factors."""
    combinations = product(*levels.values())
    return tuple(dict(zip(levels, combination, strict=True)) for combination in combinations)


@dataclass(frozen=True)
class Plan:
    """Measurement settings of a study's cases, where the defaults do not fit.

    - ``quick_claims``: titles of the claims (statements of the paper that records are tested
      against) that a quick run can decide.  They compare cases under the memory policies of the
      quick plan.
    - ``margin``: smallest relative difference that matters to these claims.  A full run measures as
      many pairs of processes as are needed to detect this difference.
    - ``full`` and ``quick``: settings of both kinds of run.  ``ceilings`` is the size of the
      operations that measure peak rates in a full run; ``large`` becomes ``small`` in a quick run.
    - ``timed_under``: memory policies under which cases are timed.  ``counts_work``: whether
      the executed work of cases is counted.  ``imports``: modules that a process imports before its
      first case (cases with the same imports share a process).  All three are either constants
      or functions of the case.
    - ``memory`` and ``times`` replace the harness's measurements.  ``memory`` runs once per case,
      and ``times`` runs in each of several processes.  An exception becomes the case's outcome.
    - ``layers`` describes the layers of a case in place of its module.
    - ``files`` returns files of a case for the record's folder.
    - ``images`` is the level of the factor ``dataset`` for the user's own images (``--data``).
    """

    quick_claims: tuple[str, ...] = ()
    margin: float | None = None
    full: Protocol = FULL
    quick: Protocol = QUICK
    ceilings: CeilingSize = "large"
    timed_under: Policies | Callable[[Factors], Policies] = "every"
    counts_work: bool | Callable[[Factors], bool] = True
    memory: Callable[[Factors, Session], SeriesByQuantity] | None = None
    times: Callable[[Factors, Session], SeriesByQuantity] | None = None
    layers: Callable[[Factors], tuple[Layer, ...]] | None = None
    files: Callable[[Factors, Session], tuple[CaseFile, ...]] | None = None
    imports: tuple[str, ...] | Callable[[Factors, Session], tuple[str, ...]] = ("torch",)
    images: str | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Question of a study, and the cases that answer the question.

    ``subject`` builds the computation of a case; None if ``plan.memory`` or ``plan.times`` measures
    instead.  Before each call, the harness sets torch's seed and default device, which is the
    measured device or, to capture layers, the meta device.  ``cases`` selects the combinations of
    levels to measure, in order; by default all.  ``case_name`` names a case in the progress of a
    run.  ``on_gpu`` is the experiment to run on a GPU instead of this one, if it differs.
    """

    subject: Callable[[Factors], Subject] | None
    factors: tuple[Factor, ...]
    cases: Callable[[Levels], tuple[Factors, ...]] = all_combinations
    case_name: Callable[[Factors], str] = factors_text
    name: str
    question: str
    plan: Plan = Plan()
    on_gpu: Experiment | None = None

    @property
    def has_times(self) -> bool:
        """Whether a run times the cases."""
        return self.subject is not None or self.plan.times is not None

    def policies(self, factors: Factors, protocol: Protocol) -> tuple[Policy, ...]:
        """Return the memory policies of a protocol under which a case is timed."""
        choice, planned = self.plan.timed_under, tuple(protocol.processes)
        policies = choice(factors) if callable(choice) else choice
        if policies == "none" or not self.has_times:
            return ()
        if policies == "main":  # for cases that compare no policies
            policies = ("retained",) if "retained" in planned else planned[:1]
        return tuple(policy for policy in planned if policies == "every" or policy in policies)

    def processes(self, protocol: Protocol, pairs: int) -> dict[Policy, int]:
        """Return the number of processes per policy: at least ``pairs`` under compared policies."""
        processes = dict(protocol.processes)
        for policy in processes.keys() & self.plan.quick.processes:
            processes[policy] = max(processes[policy], pairs)
        return processes

    def counts_work(self, factors: Factors) -> bool:
        """Return whether the executed work of a case is counted."""
        choice = self.plan.counts_work
        return choice(factors) if callable(choice) else choice

    def imports(self, factors: Factors, session: Session) -> tuple[str, ...]:
        """Return the modules that a process imports before a case."""
        choice = self.plan.imports
        return choice(factors, session) if callable(choice) else choice

    def levels(self, *, quick: bool) -> Levels:
        """Return each factor's levels that a full or ``quick`` run measures without ``--set``."""
        levels = {}
        for factor in self.factors:
            levels[factor.name] = factor.quick if quick and factor.quick else factor.levels
        return levels

    def with_gpu(self, **changes: Any) -> Experiment:
        """Return the study with an experiment for a GPU, in which ``changes`` replace fields."""
        return replace(self, on_gpu=replace(self, **changes))

    def on(self, device: Device) -> Experiment:
        """Return the study's experiment for ``device``."""
        return self.on_gpu if device == "cuda" and self.on_gpu is not None else self
