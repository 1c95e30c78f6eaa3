"""What published rates say of networks: gains of a change, and shares of a card's roof.

Each network counts once.  Rows are compared only where they share network, image extent and batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from report.evidence.devices import Devices
from report.evidence.network_families import CNNS, Family
from report.evidence.published_rates import TRANSFERS, Published, Row, Setting, once
from report.quantity.distribution import Distribution
from report.quantity.expression import Leaf, exact

# --------------------------------------------------------------------------------------- gains


@dataclass(frozen=True)
class Comparison:
    """A change from one setting to another; ``name`` is what figures and tables call it."""

    name: str
    before: Setting
    after: Setting


def gains(
    comparison: Comparison,
    tables: Mapping[Setting, Published],
    families: Collection[Family] = CNNS,
) -> Distribution:
    """Rate after over rate before, of pairs with the same network, image extent and batch size."""
    before, after = (tables.get(each) for each in (comparison.before, comparison.after))
    name = f"gain({comparison.name})"
    if before is None or after is None:
        return Distribution(name, {}, ())
    pairs = once(row for row in before.rows if row.family in families and row.key in after.by_key)
    found = {row.network: after.by_key[row.key].rate / row.rate for row in pairs}
    return Distribution(name, found, (before.file, after.file))


def by_name_alone(comparison: Comparison, tables: Mapping[Setting, Published]) -> Distribution:
    """The same for CNNs as a reader finds them who looks for a name and takes the last row."""
    before, after = (tables.get(each) for each in (comparison.before, comparison.after))
    if before is None or after is None:
        return Distribution("gain by name alone", {}, ())
    both = (row for row in before.rows if row.family in CNNS and row.network in after.last)
    found = {row.network: after.last[row.network].rate / row.rate for row in both}
    return Distribution("gain by name alone", found, (before.file, after.file))


# --------------------------------------------------------------------------------------- roofs


@dataclass(frozen=True)
class Roof:
    """The data-sheet roof of a card in half precision: ``peak`` in FLOP/s, ``bandwidth`` in B/s."""

    device: str
    peak: float
    bandwidth: float

    @property
    def arithmetic(self) -> Leaf:
        """The peak of arithmetic as a quantity."""
        return exact(f"peak({self.device})", "FLOP/s", self.peak, "devices.yaml")

    @property
    def memory(self) -> Leaf:
        """The peak of memory as a quantity."""
        return exact(f"bandwidth({self.device})", "B/s", self.bandwidth, "devices.yaml")

    def share(self, row: Row, transfers: int = TRANSFERS) -> float:
        """Achieved rate over what the roof allows at the row's intensity."""
        return row.work / min(self.peak, self.bandwidth * row.intensity(transfers))


def roof_of(device: str, devices: Devices) -> Roof | None:
    """The roof of the card; None where no data sheet was compared."""
    known = devices.find(device)
    peak, memory = (known.peak("float16"), known.peak("memory")) if known else (None, None)
    return Roof(device, peak.rate, memory.rate) if peak and memory else None


def shares(
    table: Published | None,
    roof: Roof | None,
    within: Callable[[Row], bool] = lambda row: True,
    transfers: int = TRANSFERS,
    about: str = "",
) -> Distribution:
    """Shares of the roof of the CNNs of a table for which ``within``, in words ``about``, holds."""
    if table is None or roof is None:
        return Distribution("share of the roof", {}, ())
    rows = [row for row in counted(table) if within(row)]
    setting = table.setting
    name = f"share({setting.device}, compiler {setting.compiler}, {transfers} transfers{about})"
    found = {row.network: roof.share(row, transfers) for row in rows}
    return Distribution(name, found, (table.file, "devices.yaml"))


def counted(table: Published) -> Sequence[Row]:
    """The CNNs of a table, each once, whose counts are printed with digits enough."""
    return once(row for row in table.rows if row.family in CNNS and row.counted)
