"""Published tables of many networks beside the roofs of the cards: gains, shares, agreement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Literal, NamedTuple, TypeAlias

from report.evidence import published_gains as evidence
from report.evidence.devices import Devices
from report.evidence.network_families import CNNS, Family
from report.evidence.published_rates import Published, Row, Setting, published
from report.quantity.distribution import Distribution
from report.quantity.expression import Quantity, absent
from report.records import COUNTS
from report.records.imported_files import StoredImport
from report.records.network_counts import Counts

#: The ends of a class of the intensity of operators one by one (FLOP/B).
Ends: TypeAlias = tuple[float, float]


class Series(NamedTuple):
    """Gains of some families in the comparison ``id``."""

    label: str
    id: str
    families: tuple[Family, ...]


@dataclass(frozen=True, eq=False)
class Survey:
    """The tables, the roofs of the cards whose data sheets are known, and comparisons by id."""

    tables: Mapping[Setting, Published]
    roofs: Mapping[str, evidence.Roof]
    comparisons: Mapping[str, evidence.Comparison]

    @cache  # noqa: B019 (a survey lives as long as its paper is computed)
    def gain(
        self, id: str, families: tuple[Family, ...] = CNNS, ends: Ends = (0, inf)
    ) -> Distribution:
        """The gains in one comparison, of CNNs or other families, in one class of intensity."""

        def within(row: Row) -> bool:
            return bool(row.captured) and ends[0] <= row.intensity(fused=False) < ends[1]

        comparison = self.comparisons[id]
        if ends == (0, inf):
            return evidence.gains(comparison, self.tables, families)
        about = f", {' and '.join(families)}, {class_name(ends)}"
        found = evidence.gains(comparison, self.tables, families, within, about)
        return replace(found, files=(*found.files, COUNTS))

    def of(self, series: Series, ends: Ends) -> Distribution:
        """The gains of a series in one class of intensity."""
        return self.gain(series.id, series.families, ends)

    @cache  # noqa: B019
    def share(self, setting: Setting, *, fused: bool) -> Distribution:
        """The shares of the roof of CNNs in one setting."""
        roof = self.roofs.get(setting.device)
        return evidence.shares(self.tables.get(setting), roof, fused=fused)

    def over_ridge(self, setting: Setting) -> Distribution:
        """The eager intensities of CNNs over that at which both limits of the card meet."""
        return evidence.bounds(self.tables.get(setting), self.roofs.get(setting.device))

    def agreement(self, setting: Setting, count: str) -> Distribution:
        """A count of theory over the published one."""
        return evidence.agreement(self.tables.get(setting), count)

    def factor(self, id: str, what: Literal["bandwidth", "peak"]) -> Quantity:
        """By how much the data sheet's peak or bandwidth grows from one card to another."""
        names = self.comparisons[id].before.device, self.comparisons[id].after.device
        before, after = map(self.roofs.get, names)
        if before is None or after is None:
            return absent(what, "1", f"the data sheets of {' and '.join(names)} are not known")
        if what == "bandwidth":
            return after.memory / before.memory
        return after.arithmetic / before.arithmetic


def survey_of(
    imported: Iterable[StoredImport],
    networks: Iterable[Counts],
    devices: Devices,
    cards: Iterable[str],
    comparisons: Mapping[str, evidence.Comparison],
) -> Survey:
    """The survey of the imported records, with the roofs of ``cards``.

    Raises ``StudyError`` for a record that does not fit it.
    """
    roofs = {card: evidence.roof_of(card, devices) for card in cards}
    known = {card: roof for card, roof in roofs.items() if roof is not None}
    return Survey(published(imported, networks), known, comparisons)


def class_name(ends: Ends) -> str:
    """A class of intensity, as figures and tables call it."""
    low, high = ends
    return f"from {low:g} FLOP/B" if high == inf else f"{low:g} to {high:g} FLOP/B"
