"""Layers and networks after one tensor was freed: pages, time, and memory that stays in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from figures.panels import Scaling
from report.core.missing import Missing
from report.core.records.record import Level, Policy
from report.paper.plots import points
from report.paper.study import Content
from report.quantity.expression import Quantity, Statement, absent, exact
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.moved import FEW
from report.studies.conv_scaling.runs import Run
from report.theory import heap

#: The networks, and the policies that practitioners use to keep memory.
SMALL: Final = "MNIST CNN"
LARGE: Final = "ResNet-18"
KEEPING: Final[tuple[Policy, ...]] = ("retained", "jemalloc")


@dataclass(frozen=True)
class Cure:
    """Calls of a network as they are, and after a tensor of ``elements`` was freed."""

    run: Run
    plain: Mapping[str, Level]
    elements: int

    @property
    def after(self) -> Mapping[str, Level]:
        """Factors of the case with the freed tensor."""
        return {**self.plain, "freed": self.elements}

    @property
    def fits(self) -> bool:
        """Tell if the peak of a call, by PyTorch's allocator, is below the raised threshold."""
        peak = self.run.grown("allocated_peak", self.plain, since="allocated_before")
        trimming = heap.raised_trimming(self.elements)
        return not isinstance(peak, Missing) and heap.keeps_freed(peak, trimming)

    def pages(self, factors: Mapping[str, Level]) -> Quantity:
        """Median of the pages of processes, without its interval."""
        processes = self.run.under("default").by_process("page_faults", factors)
        if isinstance(processes, Missing):
            return absent("pages", "1", processes.reason)
        pages = median([process.median for process in processes])
        return exact("pages", "1", round(pages), self.run.file)

    def gain(self) -> Quantity:
        """Divide the time of a call by that after the tensor was freed."""
        returned = self.run.under("default")
        return returned.series("time", self.plain) / returned.series("time", self.after)

    def baseline(self, policy: Policy) -> Quantity:
        """Divide the time of a call by that under a policy that keeps memory."""
        returned, keeping = self.run.under("default"), self.run.under(policy)
        return returned.series("time", self.plain) / keeping.series("time", self.plain)

    def held(self, policy: Policy | None = None) -> Quantity:
        """Memory that the process holds between calls, less that by default (B)."""
        returned = self.run.under("default")
        before = returned.series("resident_before", self.plain)
        if policy is None:
            return returned.series("resident_before", self.after) - before
        return self.run.under(policy).series("resident_before", self.plain) - before

    def row(self) -> Mapping[str, Content]:
        """The row of a table."""
        return {
            "Network": str(self.plain["network"]),
            "Mode": str(self.plain["mode"]),
            "Peak below threshold": "yes" if self.fits else "no",
            "Pages": self.pages(self.plain),
            "Pages after": self.pages(self.after),
            "Tensor freed": self.gain(),
            "Memory kept": self.baseline("retained"),
            "jemalloc": self.baseline("jemalloc"),
            "More held, freed (MB)": self.held(),
            "More held, kept (MB)": self.held("retained"),
        }


def cures(run: Run) -> tuple[Cure, ...]:
    """Return the networks of a run that were measured with a freed tensor, in order."""
    networks = []
    for case in run.stored.record.cases:
        if case.factors.get("subject") == "cure" and "freed" in case.factors:
            plain = {name: level for name, level in case.factors.items() if name != "freed"}
            networks.append(Cure(run, plain, int(case.factors["freed"])))
    return tuple(networks)


def values(networks: tuple[Cure, ...]) -> dict[str, Quantity]:
    """Return the numbers of the text."""
    names = ("small_gain", "small_held", "large_gain", "large_kept", "large_jemalloc")
    if not networks:
        return dict.fromkeys(names, absent("gain", "1", "no run freed a tensor before networks"))
    small, large = select(networks, SMALL, "inference"), select(networks, LARGE, "inference")
    baselines = [large.baseline(policy) for policy in KEEPING]
    quantities = (small.gain(), small.held(), large.gain(), *baselines)
    return dict(zip(names, quantities, strict=True))


def select(networks: tuple[Cure, ...], name: str, mode: str) -> Cure:
    """Return one network in one mode."""
    sought = {"network": name, "mode": mode}
    return next(network for network in networks if sought.items() <= network.plain.items())


def cured_small(networks: tuple[Cure, ...], margin: float) -> Iterator[Statement]:
    """State that the small network maps no pages, and its inference gains more than ``margin``."""
    for mode in ("inference", "training"):
        small = select(networks, SMALL, mode)
        yield small.pages(small.after) < FEW
    yield select(networks, SMALL, "inference").gain() > 1 + margin


def uncured_large(networks: tuple[Cure, ...], margin: float) -> Iterator[Statement]:
    """State that the large network gains from usual remedies, but not from a freed tensor."""
    large = select(networks, LARGE, "inference")
    yield large.pages(large.after) > FEW
    yield large.gain().near(1, within=margin)
    for policy in KEEPING:
        yield large.baseline(policy) > 1 + margin


# ------------------------------------------------------------------------------ over batch sizes


@dataclass(frozen=True)
class Sweep:
    """The layer and ResNet-18 over batch sizes, with and without a freed tensor, in one ``run``."""

    run: Run

    def cases(self, network: str) -> Iterator[tuple[int, int]]:
        """Yield elements of the freed tensor (0: none) and batch size of each case."""
        for case in self.run.stored.record.cases:
            levels = case.factors
            if levels.get("subject") == "sweep" and levels["network"] == network:
                yield int(levels.get("freed", 0)), int(levels["batch"])

    def series(self, quantity: str, network: str, batch: int, elements: int) -> Quantity:
        """A series of a case."""
        return self.run.series(quantity, _factors(network, batch, elements))

    def share(self, network: str, batch: int, elements: int) -> Quantity:
        """Share of the processes whose calls map pages."""
        share = self.run.share_mapping(_factors(network, batch, elements), FEW)
        name = f"processes that map pages at {batch} images"
        if isinstance(share, Missing):
            return absent(name, "1", share.reason)
        return exact(name, "1", share, self.run.file)

    def gain(self, batch: int) -> Quantity:
        """Divide the time of the layer's call by that after a tensor was freed."""
        before, after = (self.series("time", "layer", batch, n) for n in (0, theory.FREED))
        return before / after


def _factors(network: str, batch: int, elements: int) -> dict[str, Any]:
    freed = {"freed": elements} if elements else {}
    return {"subject": "sweep", "network": network, "batch": batch, **freed}


def sweep(run: Run) -> Sweep | None:
    """Return the sweep of a run, if it has one."""
    swept = Sweep(run.under("default"))
    return swept if [*swept.cases("layer")] else None


def layer_as_predicted(swept: Sweep, margin: float) -> Iterator[Statement]:
    """State where the layer maps pages before and after a tensor was freed, and that calls gain."""
    for elements, batch in swept.cases("layer"):
        share = swept.share("layer", batch, elements)
        if elements and batch <= theory.CURED:
            yield share.exactly(0)
            if batch > theory.LAST_WITHOUT:
                yield swept.gain(batch) > 1 + margin
        elif batch > theory.ALL_AFTER or (not elements and batch > theory.LAST_WITHOUT):
            yield share.exactly(1)


def network_as_predicted(swept: Sweep) -> Iterator[Statement]:
    """State that ResNet-18 maps pages from the predicted batch on, after tensors were freed."""
    for elements, batch in swept.cases(LARGE):
        share = swept.share(LARGE, batch, elements)
        if elements == 0:
            yield share.exactly(1)
        else:
            yield share.exactly(int(batch > theory.network_start(elements)))


def effect(swept: Sweep) -> Iterator[Scaling]:
    """Draw time and pages of an image of the layer, before and after a tensor was freed."""
    for quantity, label, unit in (
        ("time", "Time of an image (µs)", "µs"),
        ("page_faults", "Pages an image", "1"),
    ):
        drawn: tuple[Any, ...] = ()
        for number, (name, elements) in enumerate(
            {"As it is": 0, "Tensor freed": theory.FREED}.items()
        ):
            batches = sorted(batch for n, batch in swept.cases("layer") if n == elements)
            over = {b: swept.series(quantity, "layer", b, elements) / b for b in batches}
            drawn += points(name, over, unit, series=1 - number, joined=True)
        ticks = (4.0, 16.0, 64.0, 256.0)
        axes = ("Batch size (images)", label)
        yield Scaling(*axes, drawn, x_ticks=ticks, y_scale="linear", y_from_zero=True)
