"""All tables of the survey with what is computed of them, each once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from report.evidence.network_families import CNNS
from report.evidence.published_gains import Roof, by_name_alone, gains, roof_of, shares
from report.evidence.published_rates import TRANSFERS, Published, Row, Setting, published
from report.paper.findings import Inputs
from report.quantity.distribution import Distribution
from report.quantity.expression import Leaf, Quantity, absent, exact
from report.studies.gpu_survey.settings import CARDS, COMPARISONS


@dataclass(frozen=True, eq=False)
class Survey:
    """The published tables and the roofs of the cards whose data sheets are known."""

    tables: Mapping[Setting, Published]
    roofs: Mapping[str, Roof]

    @property
    def files(self) -> tuple[str, ...]:
        """The records of all tables."""
        return tuple(table.file for table in self.tables.values())

    @property
    def measured(self) -> bool:
        """Whether any network has a rate."""
        return any(table.rows for table in self.tables.values())

    @cache  # noqa: B019 (a survey lives as long as its paper is computed)
    def gain(self, id: str) -> Distribution:
        """The gains of CNNs in one comparison."""
        return gains(COMPARISONS[id], self.tables)

    @cached_property
    def alone(self) -> Distribution:
        """The gains between two versions of PyTorch if rows are matched by name alone."""
        return by_name_alone(COMPARISONS["torch_210"], self.tables)

    @cache  # noqa: B019
    def share(self, setting: Setting, transfers: int = TRANSFERS) -> Distribution:
        """The shares of the roof of CNNs in one setting."""
        roof = self.roofs.get(setting.device)
        return shares(self.tables.get(setting), roof, transfers=transfers)

    def sheet_gains(self, before: str, after: str) -> dict[str, Quantity]:
        """How the peak of arithmetic and the bandwidth grow from one card to another."""
        old, new = self.roofs.get(before), self.roofs.get(after)
        if old is None or new is None:
            nothing = absent("data sheet", "1", f"no data sheet of {before} and {after} is known")
            return {"peak": nothing, "bandwidth": nothing}
        return {"peak": new.arithmetic / old.arithmetic, "bandwidth": new.memory / old.memory}

    def row(self, setting: Setting, network: str, image: int) -> Row | None:
        """The row of a network with the largest batch; None if it is not published."""
        rows = self.tables[setting].rows if setting in self.tables else ()
        found = [row for row in rows if (row.network, row.image) == (network, image)]
        return max(found, key=lambda row: row.batch, default=None)

    def rate(self, setting: Setting, network: str, image: int) -> Leaf:
        """Images a second: one sample, printed as published."""
        row, name = self.row(setting, network, image), f"rate({network}, {image} px)"
        if row is None:
            return absent(name, "image/s", f"{network} at {image} px is not published for it")
        return exact(name, "image/s", row.rate, self.tables[setting].file)

    def networks(self, cnns: bool) -> int:
        """How many networks have a time in any table, all of them or the CNNs."""
        rows = (row for table in self.tables.values() for row in table.rows)
        return len({row.network for row in rows if not cnns or row.family in CNNS})


def survey_of(inputs: Inputs) -> Survey:
    """The survey of the imported records; raises ``StudyError`` for one that does not fit it."""
    roofs = {card: roof_of(card, inputs.devices) for card in CARDS}
    known = {card: roof for card, roof in roofs.items() if roof is not None}
    return Survey(published(inputs.imported), known)
