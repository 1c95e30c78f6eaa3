"""What a study is to the harness: factors, plans, and how one case is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from report.errors import MeasurementError, UsageError
from report.records.layers import Layer
from report.records.record import Factor as Level
from report.records.record import Measured, Protocol

if TYPE_CHECKING:
    import torch
    from torch import nn

Device: TypeAlias = Literal["cpu", "cuda"]
CeilingSize: TypeAlias = Literal["large", "small", "none"]
Layout: TypeAlias = Literal["contiguous", "channels_last"]
CounterChoice: TypeAlias = Literal["none", "auto"]
#: All memory policies of the plan, that of the studies alone (``retained`` where it is), or none.
Policies: TypeAlias = Literal["every", "main", "none"]
Factors: TypeAlias = dict[str, Level]
Levels: TypeAlias = Mapping[str, tuple[Level, ...]]

#: Every random input and weight of every study starts from this seed.
SEED: Final = 0
#: The largest count of ``--set``: tensors of more bytes than 64 bits can count begin not far above.
_LARGEST: Final = 10**9


class UnavailableError(MeasurementError):
    """This machine or this software cannot do what a case asks for; the message says what."""


@dataclass(frozen=True)
class Factor:
    """Something that is varied.

    ``levels`` are those of the full plan, and of the quick one too unless ``quick`` names others.
    ``any_count`` says that ``--set`` takes any whole number up to 10⁹, not only these levels.
    """

    name: str
    levels: tuple[Level, ...]
    quick: tuple[Level, ...] = ()
    any_count: bool = False

    def parse(self, text: str) -> Level:
        """The level that ``text`` names; raises ``UsageError`` that lists what is possible."""
        named = {str(level): level for level in self.levels}
        if text in named:
            return named[text]
        digits = text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST))
        if self.any_count and digits and 1 <= int(text) <= _LARGEST:
            return int(text)
        possible = f"whole numbers from 1 to {_LARGEST:,}" if self.any_count else ", ".join(named)
        raise UsageError(f"--set {self.name}: {text!r} is not possible; possible are {possible}.")


#: The lowest and the highest of six processes bound a median at 96.9 %; of eight at 99.2 %, so that
#: a statement on six medians at once still reaches 95 %.
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
QUICK: Final = msgspec.structs.replace(
    FULL,
    plan="quick",
    maximum_samples=15,
    case_budget_s=0.1,
    processes={"retained": 2, "default": 1},
    budget_s=60.0,
)


@dataclass(frozen=True)
class Session:
    """What measuring a case needs to know of the run; ``images`` is the whole path of ``--data``.

    ``threads`` are those that compute.  ``process`` counts those that measure the case, from 1; 0
    is the run's own.
    """

    device: Device
    protocol: Protocol
    images: str | None = None
    threads: int = 1
    process: int = 0


class CaseFile(msgspec.Struct, frozen=True):
    """A file that a case leaves beside the record; ``meaning`` tells a reader what it holds."""

    name: str
    meaning: str
    content: bytes


Mode: TypeAlias = Literal["forward", "forward_backward", "step"] | Callable[[], object]
Precision: TypeAlias = Literal["float32", "tfloat32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Subject:
    """What one call of a case computes.

    ``module`` takes ``inputs``, the images of the call along their first axis.  The mode is
    ``forward`` under ``torch.no_grad()``; ``forward_backward`` with gradients, of a fixed random
    gradient of the output; ``step``, one of training by stochastic gradient descent on the cross
    entropy; or a function that is called instead.
    ``executed`` turns the module into the one that runs, for example a compiled one; the record
    keeps the layers as they stand.  ``name`` is that of a module that is a layer itself.
    """

    module: nn.Module
    inputs: torch.Tensor
    mode: Mode = "forward"
    layout: Layout = "contiguous"
    precision: Precision = "float32"
    executed: Callable[[nn.Module], nn.Module] | None = None
    name: str = "layer"


@dataclass(frozen=True)
class Study:
    """A question with the cases that answer it.

    ``subject`` gives what a case computes; it is called with torch's seed set and with tensors on
    the device by default, and on tensors without memory for the layers of a case.  ``cases`` turns
    the levels of each factor into the combinations to measure, in order; by default these are all.
    All else is there for studies whose cases differ among themselves:

    - ``memory`` and ``times`` measure in place of the harness, the one once, the other in each of
      several processes; what they raise becomes the case's outcome.  ``timed_under`` tells under
      which memory policies processes time a case.
    - ``files`` gives what a case leaves beside the record.
    - ``is_counted`` tells whose executed work is counted.
    - ``imports`` names what a process imports before its first case; cases that need the same
      share one.
    - ``layers`` gives those of cases without a module.
    - ``images`` names the data set that a folder given as ``--data`` holds, as the level of the
      factor ``dataset``.
    - ``full`` and ``quick`` say how thoroughly to measure, ``ceilings`` which ones of the machine
      a full run needs; a quick one measures small ones.
    - ``on_gpu`` is what of all this is otherwise where a GPU measures.
    """

    name: str
    question: str
    factors: tuple[Factor, ...]
    subject: Callable[[Factors], Subject] | None = None
    cases: Callable[[Levels], tuple[Factors, ...]] = lambda levels: tuple(
        dict(zip(levels, chosen, strict=True)) for chosen in product(*levels.values())
    )
    layers: Callable[[Factors], tuple[Layer, ...]] | None = None
    memory: Callable[[Factors, Session], Measured] | None = None
    times: Callable[[Factors, Session], Measured] | None = None
    files: Callable[[Factors, Session], tuple[CaseFile, ...]] = lambda factors, session: ()
    timed_under: Callable[[Factors], Policies] = lambda factors: "every"
    is_counted: Callable[[Factors], bool] = lambda factors: True
    imports: Callable[[Factors, Session], tuple[str, ...]] = lambda factors, session: ("torch",)
    images: str | None = None
    full: Protocol = FULL
    quick: Protocol = QUICK
    ceilings: CeilingSize = "large"
    on_gpu: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_times(self) -> bool:
        """Whether anything is measured again and again."""
        return self.subject is not None or self.times is not None

    def levels(self, *, quick: bool) -> Levels:
        """The levels that a plan measures without ``--set``."""
        return {f.name: (quick and f.quick) or f.levels for f in self.factors}

    def on(self, device: Device) -> Study:
        """The study as it is measured on ``device``."""
        return replace(self, **self.on_gpu) if device == "cuda" else self
