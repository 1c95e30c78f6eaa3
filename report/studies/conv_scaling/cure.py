"""Whole networks after one tensor was freed: pages, time, and the memory that stays in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from report.core.missing import Missing
from report.core.records.record import Level, Policy
from report.paper.study import Content
from report.quantity.expression import Quantity, Statement, absent, exact, named
from report.quantity.operations import largest
from report.studies.conv_scaling import theory
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
        """Tell if glibc should keep all that a call allocates, by its peak and the threshold."""
        peak = self.run.grown("allocated_peak", self.plain, since="allocated_before")
        trimming = heap.raised_trimming(self.elements)
        return not isinstance(peak, Missing) and heap.keeps_freed(peak, trimming)

    def pages(self, factors: Mapping[str, Level]) -> Quantity:
        """Pages that a call maps."""
        return self.run.under("default").series("page_faults", factors)

    def median_pages(self, factors: Mapping[str, Level]) -> Quantity:
        """Median of the pages of processes, without its interval."""
        return self._chosen_pages(factors, median)

    def top(self) -> Quantity:
        """Free memory at the top of the heap, in the process that maps the fewest pages (B)."""
        pages = self._chosen_pages(self.after, min)
        return named("free top", pages * theory.PAGE + theory.RESERVE)

    def _chosen_pages(
        self, factors: Mapping[str, Level], choose: Callable[[Sequence[float]], float]
    ) -> Quantity:
        processes = self.run.under("default").by_process("page_faults", factors)
        if isinstance(processes, Missing):
            return absent("pages", "1", processes.reason)
        pages = choose([process.median for process in processes])
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
            "Fits": "yes" if self.fits else "no",
            "Pages": self.median_pages(self.plain),
            "Pages, freed": self.median_pages(self.after),
            "Tensor freed": self.gain(),
            "Memory kept": self.baseline("retained"),
            "jemalloc": self.baseline("jemalloc"),
            "Held (MB)": self.held(),
            "Held, kept (MB)": self.held("retained"),
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
    names = ("small_gain", "small_trained", "large_gain", "large_kept", "large_jemalloc")
    if not networks:
        nothing = absent("gain", "1", "no run freed a tensor before networks")
        return dict.fromkeys((*names, "large_top", "held"), nothing)
    small, trained = select(networks, SMALL, "inference"), select(networks, SMALL, "training")
    large = select(networks, LARGE, "inference")
    baselines = [large.baseline(policy) for policy in KEEPING]
    gains = dict(zip(names, (small.gain(), trained.gain(), large.gain(), *baselines), strict=True))
    held = largest(*(network.held() for network in networks))
    return {**gains, "large_top": large.top(), "held": held}


def select(networks: tuple[Cure, ...], name: str, mode: str) -> Cure:
    """Return one network in one mode."""
    sought = {"network": name, "mode": mode}
    return next(network for network in networks if sought.items() <= network.plain.items())


def without_pages(networks: tuple[Cure, ...], few: int) -> Iterator[Statement]:
    """State that no call maps more than a ``few`` pages after a tensor was freed, if calls fit."""
    for network in networks:
        if network.fits:
            yield network.pages(network.after) < few


def faster(networks: tuple[Cure, ...], margin: float) -> Iterator[Statement]:
    """State that a freed tensor speeds up each network whose calls fit."""
    for network in networks:
        if network.fits:
            yield network.gain() > 1 + margin


def cured_small(networks: tuple[Cure, ...], few: int, margin: float) -> Iterator[Statement]:
    """State that the small network maps no pages, and its inference gains more than ``margin``."""
    for mode in ("inference", "training"):
        small = select(networks, SMALL, mode)
        yield small.pages(small.after) < few
    yield select(networks, SMALL, "inference").gain() > 1 + margin


def uncured_large(networks: tuple[Cure, ...], margin: float) -> Iterator[Statement]:
    """State that the large network gains from usual remedies, but not from a freed tensor."""
    large = select(networks, LARGE, "inference")
    yield large.gain().near(1, within=margin)
    for policy in KEEPING:
        yield large.baseline(policy) > 1 + margin


def four_outputs(networks: tuple[Cure, ...]) -> Iterator[Statement]:
    """State that the large network's free top is four outputs, more than the threshold."""
    top = select(networks, LARGE, "inference").top()
    yield (top / theory.FOUR_OUTPUTS).exactly(1)
    yield top / theory.RAISED > 1
