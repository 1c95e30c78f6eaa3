"""Peaks of memory that theory predicts, against those that torch's allocator shows here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from experiments.theory.survey.sample import LEARNED, OF_STUDIES, SAMPLE
from report.errors import MeasurementError
from report.theory.workspaces import Conditions, Layout, vector_block

if TYPE_CHECKING:
    from torch import nn

    from experiments.harness.operators import Input
    from report.theory.network import Theory

Outcome: TypeAlias = Literal["equal", "at least", "wrong"]
LAYOUTS: Final[tuple[Layout, ...]] = ("contiguous", "channels_last")
#: Images a call; one alone goes to other kernels.
_BATCH: Final = 2
#: Pixels a side where a network takes them, so that many networks are measured in little time.
_SMALL: Final = 64


class Peak(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One network in one layout: the bytes measured, and those predicted then.

    ``may_take_more`` are the operators that make the prediction an "at least".
    """

    network: str
    layout: Layout
    shape: tuple[int, ...]
    measured: int
    predicted: int
    may_take_more: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """Complete predictions must be met to the byte, others must not be above."""
        if self.may_take_more:
            return "at least" if self.predicted <= self.measured else "wrong"
        return "equal" if self.predicted == self.measured else "wrong"

    @property
    def learned(self) -> bool:
        """Whether a rule of workspaces was learned from this network."""
        source, _, name = self.network.partition(":")
        return source == "study" or name in LEARNED


class Peaks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that was measured on one machine, and what decides about workspaces there."""

    processor: str
    capability: str
    threads: int
    versions: dict[str, str]
    peaks: tuple[Peak, ...]

    @property
    def conditions(self) -> Conditions:
        """How PyTorch ran."""
        return Conditions(threads=self.threads, block=vector_block(self.capability))


def read_peaks(path: Path) -> Peaks:
    """What ``write_peaks`` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Peaks)


def write_peaks(path: Path, peaks: Peaks) -> None:
    """One line a peak, so that a change in one is a change in a line."""
    head = msgspec.json.encode(msgspec.structs.replace(peaks, peaks=()))
    lines = b",\n".join(msgspec.json.encode(each) for each in peaks.peaks)
    path.write_bytes(head.removesuffix(b"]}") + b"\n" + lines + b"\n]}\n")


def here(peaks: tuple[Peak, ...]) -> Peaks:
    """Peaks measured by this process."""
    import torch

    from experiments.harness.host import cpuinfo
    from experiments.harness.machine import model_name
    from experiments.theory.networks import import_timm

    return Peaks(
        processor=model_name(cpuinfo()),
        capability=torch.backends.cpu.get_cpu_capability(),
        threads=torch.get_num_threads(),
        versions={"torch": str(torch.__version__), "timm": import_timm().__version__},
        peaks=peaks,
    )


def wanted() -> tuple[tuple[str, Layout], ...]:
    """Each network of the sample in both layouts."""
    names = (*(f"study:{name}" for name in OF_STUDIES), *(f"timm:{n}" for n in SAMPLE))
    return tuple((name, layout) for layout in LAYOUTS for name in names)


def predicted(
    build: Callable[[], nn.Module], shape: tuple[int, ...], layout: Layout, conditions: Conditions
) -> Theory:
    """What theory says of one call; raises ``MeasurementError`` for what cannot be captured."""
    from experiments.harness.operators import Input, capture
    from report.theory.network import Theory

    given: Input = Input(shape, channels_last=layout == "channels_last")
    return Theory(capture(lambda: laid_out(build(), layout), [given]).network, conditions)


def predicted_again(peak: Peak, conditions: Conditions) -> Peak:
    """The same measurement beside what theory says of it today.

    Raises ``MeasurementError`` for what cannot be captured any more.
    """
    from experiments.theory.networks import network

    named = network(peak.network)
    found = predicted(named.build, peak.shape, peak.layout, conditions)
    assert found.peak is not None
    return msgspec.structs.replace(
        peak, predicted=found.peak.total, may_take_more=found.may_take_more
    )


def laid_out(module: nn.Module, layout: Layout) -> nn.Module:
    """A module for evaluation, with its parameters in ``layout``."""
    import torch

    made = module.eval()
    return made.to(memory_format=torch.channels_last) if layout == "channels_last" else made


def measured(build: Callable[[], nn.Module], shape: tuple[int, ...], layout: Layout) -> int:
    """The most bytes that are alive during one call, parameters and input among them."""
    import torch

    from experiments.harness import memory, passes
    from experiments.harness.workload import Workload

    def workload() -> Workload:
        module, source = laid_out(build(), layout), torch.randn(shape)
        if layout == "channels_last":
            source = source.contiguous(memory_format=torch.channels_last)
        return passes.forward(module, source)

    return memory.profiled(workload).peak


def peak(name: str, layout: Layout) -> Peak:
    """One network, predicted and measured."""
    from experiments.theory.networks import network

    named, conditions = network(name), here(()).conditions
    own = OF_STUDIES.get(name.partition(":")[2], (_BATCH, *named.image))
    small = (_BATCH, named.image[0], _SMALL, _SMALL)
    shape = own if name.startswith("study:") else small
    try:
        found = predicted(named.build, shape, layout, conditions)
    except MeasurementError:  # it takes its own size alone
        shape = own
        found = predicted(named.build, shape, layout, conditions)
    assert found.peak is not None
    return Peak(
        network=name,
        layout=layout,
        shape=shape,
        measured=measured(named.build, shape, layout),
        predicted=found.peak.total,
        may_take_more=found.may_take_more,
    )
