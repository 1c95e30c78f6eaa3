"""Whole networks after one tensor was freed: pages, time, and the memory that stays in use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from report.core.missing import Missing
from report.core.records.record import Level, Policy
from report.paper.study import Content
from report.quantity.expression import Quantity, Statement, absent
from report.quantity.operations import largest, smallest
from report.studies.conv_scaling.runs import Run
from report.theory import heap


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

    def gain(self) -> Quantity:
        """Divide the time of a call by that after the tensor was freed."""
        returned = self.run.under("default")
        return returned.series("time", self.plain) / returned.series("time", self.after)

    def baseline(self, policy: Policy) -> Quantity:
        """Divide the time of a call by that under a policy that keeps memory."""
        returned, kept = self.run.under("default"), self.run.under(policy)
        return returned.series("time", self.plain) / kept.series("time", self.plain)

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
            "Pages": self.pages(self.plain),
            "Pages, freed": self.pages(self.after),
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
    gains = [network.gain() for network in networks if network.fits]
    if not gains:
        nothing = absent("gain", "1", "no run freed a tensor before networks")
        return {"cured_least": nothing, "cured_most": nothing, "held": nothing}
    held = largest(*(network.held() for network in networks))
    return {"cured_least": smallest(*gains), "cured_most": largest(*gains), "held": held}


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
