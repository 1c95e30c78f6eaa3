"""What published rates say of networks: gains of a change, and shares of a card's roof.

Each network counts once.  Rows are compared only where they share network, image extent, number of
parameters and, unless a comparison says otherwise, batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from report.evidence.devices import Devices
from report.evidence.network_families import CNNS, Family
from report.evidence.published_rates import Published, Row, Setting, once
from report.quantity.distribution import NO_TABLE, Distribution
from report.quantity.expression import Leaf, exact
from report.records import COUNTS

# --------------------------------------------------------------------------------------- gains


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


def gains(
    comparison: Comparison,
    tables: Mapping[Setting, Published],
    families: Collection[Family] = CNNS,
    within: Callable[[Row], bool] = lambda row: True,
    about: str = "",
) -> Distribution:
    """Rate after over rate before, of pairs with the same network, image extent and batch size.

    Those of ``families`` for which ``within``, in words ``about``, holds.  Both rows have the same
    published number of parameters.
    """
    before, after = (tables.get(each) for each in (comparison.before, comparison.after))
    name = f"gain({comparison.name}{about})"
    if before is None or after is None:
        return Distribution(name, {}, (), NO_TABLE)
    others = {comparison.key(row): row for row in after.rows}

    def paired(row: Row) -> bool:
        other = others.get(comparison.key(row))
        if other is None or row.family not in families:
            return False
        return row.printed.parameters == other.printed.parameters and within(row)

    found = {
        row.network: others[comparison.key(row)].rate / row.rate
        for row in once(filter(paired, before.rows))
    }
    return Distribution(name, found, (before.file, after.file))


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

    def share(self, row: Row, *, fused: bool = True) -> float:
        """Achieved rate over what the roof allows at the row's intensity."""
        return row.work / min(self.peak, self.bandwidth * row.intensity(fused=fused))


def roof_of(device: str, devices: Devices) -> Roof | None:
    """The roof of the card; None where no data sheet was compared."""
    known = devices.find(device)
    peak, memory = (known.peak("float16"), known.peak("memory")) if known else (None, None)
    return Roof(device, peak.rate, memory.rate) if peak and memory else None


def shares(
    table: Published | None,
    roof: Roof | None,
    within: Callable[[Row], bool] = lambda row: True,
    *,
    fused: bool = True,
    about: str = "",
) -> Distribution:
    """Shares of the roof of the CNNs of a table for which ``within``, in words ``about``, holds.

    Without ``fused`` operators, of those alone that theory has captured.
    """
    if table is None or roof is None:
        return Distribution("share of the roof", {}, (), NO_TABLE)
    rows = [row for row in counted(table) if within(row) and (fused or row.captured)]
    setting, traffic = table.setting, "fused" if fused else "each operator's"
    name = f"share({setting.device}, compiler {setting.compiler}, {traffic} traffic{about})"
    found = {row.network: roof.share(row, fused=fused) for row in rows}
    theory = (COUNTS,) if any(row.captured for row in rows) else ()
    return Distribution(name, found, (table.file, "devices.yaml", *theory))


def counted(table: Published) -> Sequence[Row]:
    """The CNNs of a table, each once, whose counts have digits enough; those of theory first."""
    rows = [row for row in table.rows if row.family in CNNS and row.counted]
    captured = {row.network for row in rows if row.captured}
    return once(row for row in rows if row.captured or row.network not in captured)


def bounds(table: Published | None, roof: Roof | None) -> Distribution:
    """Intensities of operators one by one, over the intensity at which both limits meet."""
    if table is None or roof is None:
        return Distribution("intensity over the ridge", {}, ())
    rows = (row for row in counted(table) if row.captured)
    ridge = roof.peak / roof.bandwidth
    found = {row.network: row.intensity(fused=False) / ridge for row in rows}
    return Distribution(
        f"intensity over the ridge({roof.device})", found, (table.file, "devices.yaml", COUNTS)
    )


def agreement(table: Published | None, count: str) -> Distribution:
    """A count of theory, a field of ``Work``, over the published one, of CNNs that have both."""
    name = f"{count.replace('_', ' ')} by theory over published"
    if table is None:
        return Distribution(name, {}, ())
    found = {
        row.network: getattr(row.captured, count) / getattr(row.printed, count)
        for row in counted(table)
        if row.captured and row.printed.precise
    }
    return Distribution(name, found, (table.file, COUNTS))
