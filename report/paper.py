"""What a study finds: the values, tables, figures and claims that its paper is written from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from report.devices import Devices
from report.escape import markdown
from report.reconciliation import Reconciliation
from report.reported import Reported
from report.store import Stored
from report.tables import Table
from report.values import Value

if TYPE_CHECKING:
    from figures.canvas import Drawing

Verdict: TypeAlias = Literal["supported", "refuted", "undecided", "not measured"]


@dataclass(frozen=True)
class Inputs:
    """All that a study may read: its records (one a device, newest first) and published numbers.

    ``attachments`` are the files beside the records that the study asks for: record → name →
    content as it lies on disk.
    """

    records: tuple[Stored, ...]
    reported: Reported
    reported_file: str
    devices: Devices
    attachments: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know of the records that were used."""
        edited = (
            f"data/{item.file}: its content does not match the hash in its name, so it was edited "
            "after it was measured; restore it with git, or run the experiment again."
            for item in self.records
            if not item.untouched
        )
        short = (
            f"data/{item.file}: a {item.record.protocol.plan} run stands in for this device, "
            "which has no full one."
            for item in self.records
            if item.record.protocol.plan != "full"
        )
        return (*edited, *short)


@dataclass(frozen=True)
class Figure:
    """A numbered figure; ``id`` starts with ``fig-`` and names its files without that prefix.

    Caption and alternative text are plain text.
    """

    id: str
    caption: str
    alt: str
    drawing: Drawing
    sources: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file name without its ending."""
        return self.id.removeprefix("fig-")

    def as_markdown(self) -> str:
        """The figure in Quarto markdown; the path has no ending, each format knows its own."""
        caption, alt = markdown(self.caption), markdown(self.alt)
        wide = " .wide" if self.drawing.wide else ""
        return f'![{caption}](figures/{self.name}){{#{self.id}{wide} fig-alt="{alt}"}}'


@dataclass(frozen=True)
class Claim:
    """A sentence that the data must support, with the verdict and the numbers it rests on."""

    id: str
    sentence: str
    verdict: Verdict
    because: str
    values: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The claim for ``out/values/<study>.json``."""
        return {
            "sentence": self.sentence,
            "verdict": self.verdict,
            "because": self.because,
            "values": list(self.values),
        }


@dataclass(frozen=True)
class Findings:
    """Everything that a paper's template may print.

    ``facts`` are plain texts and switches (device names, whether anything was measured); numbers
    belong in ``values``.
    """

    values: Mapping[str, Value]
    tables: Mapping[str, Table]
    figures: Mapping[str, Figure]
    claims: Mapping[str, Claim] = field(default_factory=dict)
    reconciliations: Mapping[str, Reconciliation] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self, study: str, records: tuple[str, ...]) -> dict[str, Any]:
        """The content of ``out/values/<study>.json``."""
        return {
            "study": study,
            "records": list(records),
            "values": {key: value.as_json() for key, value in self.values.items()},
            "tables": {key: table.as_json() for key, table in self.tables.items()},
            "figures": {
                key: {"caption": f.caption, "alt": f.alt, "sources": list(f.sources)}
                for key, f in self.figures.items()
            },
            "claims": {key: claim.as_json() for key, claim in self.claims.items()},
            "reconciliations": {key: r.as_json() for key, r in self.reconciliations.items()},
        }
