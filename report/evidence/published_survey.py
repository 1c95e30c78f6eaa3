"""Published tables of many networks beside the roofs of the cards: gains, shares, agreement.

Each network counts once.  Rows are compared only where they share network, image extent, number of
parameters and, unless a comparison says otherwise, batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Literal, NamedTuple, TypeAlias

from report.evidence.devices import Devices
from report.evidence.published_rates import (
    CNNS,
    Family,
    Published,
    Row,
    Setting,
    counted,
    once,
    published,
)
from report.quantity.distribution import NO_TABLE, Distribution
from report.quantity.expression import Quantity, absent, exact
from report.records import COUNTS
from report.records.imported_files import StoredImport
from report.records.network_counts import Counts

#: The ends of a class of the intensity of operators one by one (FLOP/B).
Ends: TypeAlias = tuple[float, float]
EVERY: Ends = (0, inf)


class Series(NamedTuple):
    """Gains of some families in the comparison ``id``."""

    label: str
    id: str
    families: tuple[Family, ...]


@dataclass(frozen=True)
class Comparison:
    """A change from one setting to another; ``name`` is what figures and tables call it.

    Batch sizes are equal unless they may be ``any_batch``.
    """

    name: str
    before: Setting
    after: Setting
    any_batch: bool = False

    def key(self, row: Row) -> tuple[str | int, ...]:
        """What two rows share that it compares."""
        return row.key[:-1] if self.any_batch else row.key


@dataclass(frozen=True)
class Roof:
    """The data-sheet roof of a card in half precision: ``peak`` in FLOP/s, ``bandwidth`` in B/s."""

    device: str
    peak: float
    bandwidth: float

    def share(self, row: Row, *, fused: bool = True) -> float:
        """Achieved rate over what the roof allows at the row's intensity."""
        return row.work / min(self.peak, self.bandwidth * row.intensity(fused=fused))


@dataclass(frozen=True, eq=False)
class Survey:
    """The tables, the roofs of the cards whose data sheets are known, and comparisons by id."""

    tables: Mapping[Setting, Published]
    roofs: Mapping[str, Roof]
    comparisons: Mapping[str, Comparison]

    @cache  # noqa: B019 (a survey lives as long as its paper is computed)
    def gain(
        self, id: str, families: tuple[Family, ...] = CNNS, ends: Ends = EVERY
    ) -> Distribution:
        """Rate after over rate before in one comparison, of pairs of rows of ``families``.

        Of a class of intensity they are those alone whose operators theory has captured.
        """
        comparison = self.comparisons[id]
        before, after = (self.tables.get(each) for each in (comparison.before, comparison.after))
        about = "" if ends == EVERY else f", {' and '.join(families)}, {class_name(ends)}"
        name, theory = f"gain({comparison.name}{about})", () if ends == EVERY else (COUNTS,)
        if before is None or after is None:
            return Distribution(name, {}, theory, NO_TABLE)
        others = {comparison.key(row): row for row in after.rows}

        def paired(row: Row) -> bool:
            other = others.get(comparison.key(row))
            if other is None or row.family not in families:
                return False
            if row.printed.parameters != other.printed.parameters:
                return False
            within = row.captured and ends[0] <= row.intensity(fused=False) < ends[1]
            return ends == EVERY or bool(within)

        gains = {
            row.network: others[comparison.key(row)].rate / row.rate
            for row in once(filter(paired, before.rows))
        }
        return Distribution(name, gains, (before.file, after.file, *theory))

    def of(self, series: Series, ends: Ends) -> Distribution:
        """The gains of a series in one class of intensity."""
        return self.gain(series.id, series.families, ends)

    @cache  # noqa: B019
    def share(self, setting: Setting, *, fused: bool) -> Distribution:
        """The shares of the roof of CNNs in one setting.

        Without ``fused`` operators, of those alone that theory has captured.
        """
        table, roof = self.tables.get(setting), self.roofs.get(setting.device)
        if table is None or roof is None:
            return Distribution("share of the roof", {}, (), NO_TABLE)
        rows = [row for row in counted(table) if fused or row.captured]
        traffic = "fused" if fused else "each operator's"
        name = f"share({setting.device}, compiler {setting.compiler}, {traffic} traffic)"
        shares = {row.network: roof.share(row, fused=fused) for row in rows}
        theory = (COUNTS,) if any(row.captured for row in rows) else ()
        return Distribution(name, shares, (table.file, "devices.yaml", *theory))

    def over_ridge(self, setting: Setting) -> Distribution:
        """The eager intensities of CNNs over that at which both limits of the card meet."""
        table, roof = self.tables.get(setting), self.roofs.get(setting.device)
        if table is None or roof is None:
            return Distribution("intensity over the ridge", {}, ())
        ridge = roof.peak / roof.bandwidth
        ratios = {
            row.network: row.intensity(fused=False) / ridge
            for row in counted(table)
            if row.captured
        }
        name = f"intensity over the ridge({roof.device})"
        return Distribution(name, ratios, (table.file, "devices.yaml", COUNTS))

    def agreement(self, setting: Setting, count: str) -> Distribution:
        """A count of theory, a field of ``Work``, over the published one, of CNNs with both."""
        table = self.tables.get(setting)
        name = f"{count.replace('_', ' ')} by theory over published"
        if table is None:
            return Distribution(name, {}, ())
        ratios = {
            row.network: getattr(row.captured, count) / getattr(row.printed, count)
            for row in counted(table)
            if row.captured and row.printed.precise
        }
        return Distribution(name, ratios, (table.file, COUNTS))

    def factor(self, id: str, what: Literal["bandwidth", "peak"]) -> Quantity:
        """By how much the data sheet's peak or bandwidth grows from one card to another."""
        names = self.comparisons[id].before.device, self.comparisons[id].after.device
        before, after = map(self.roofs.get, names)
        if before is None or after is None:
            return absent(what, "1", f"the data sheets of {' and '.join(names)} are not known")
        unit = "B/s" if what == "bandwidth" else "FLOP/s"
        new, old = (
            exact(f"{what}({roof.device})", unit, getattr(roof, what), "devices.yaml")
            for roof in (after, before)
        )
        return new / old


def survey_of(
    imported: Iterable[StoredImport],
    networks: Iterable[Counts],
    devices: Devices,
    cards: Iterable[str],
    comparisons: Mapping[str, Comparison],
) -> Survey:
    """The survey of the imported records, with the roofs of ``cards``.

    Raises ``StudyError`` for a record that does not fit it.
    """
    roofs = {}
    for card in cards:
        known = devices.find(card)
        peak, memory = (known.peak("float16"), known.peak("memory")) if known else (None, None)
        if peak and memory:
            roofs[card] = Roof(card, peak.rate, memory.rate)
    return Survey(published(imported, networks), roofs, comparisons)


def class_name(ends: Ends) -> str:
    """A class of intensity, as figures and tables call it."""
    low, high = ends
    return f"from {low:g} FLOP/B" if high == inf else f"{low:g} to {high:g} FLOP/B"
