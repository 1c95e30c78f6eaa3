"""Findings of a study: the values, tables, figures and claims that its paper prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from report.core.missing import Missing
from report.core.records.choice import Role, default_roles
from report.core.records.network_operators import NetworkOperators
from report.core.records.reported import Devices, Reported
from report.core.records.store import Stored, StoredImport
from report.evidence.runs import AnyRun, device_labels
from report.paper.claims import Claim
from report.paper.tables import Table
from report.paper.values import Value
from report.theory.reconciliation import Reconciliation

if TYPE_CHECKING:
    from figures.panels import Drawing
    from report.evidence.audit import Check


@dataclass(frozen=True)
class Inputs:
    """Data that a study may read.

    ``records``: own records, one per device, newest first.  ``reported``: published numbers, read
    from ``reported_file``.  ``devices``: properties of known devices.  ``attachments``: record file
    → name of an attached file → content, or why it is missing.  ``imported``: records that others
    measured.  ``networks``: function that reads the captured operators of timm's CNNs.  ``table``:
    function that reads a table beside the records, by file name and row type.  ``roles``: role in
    the paper, such as ``cpu`` → record file.
    """

    records: tuple[Stored, ...]
    reported: Reported
    reported_file: str
    devices: Devices
    attachments: Mapping[str, Mapping[str, bytes | Missing]] = field(default_factory=dict)
    imported: tuple[StoredImport, ...] = ()
    networks: Callable[[], tuple[NetworkOperators, ...]] = tuple
    table: Callable[[str, type[Any]], tuple[Any, ...]] = lambda name, row: ()
    roles: Mapping[Role, str] = field(default_factory=dict)

    @cached_property
    def record_by_role(self) -> dict[Role, Stored]:
        """Record by role, in the order in which tables list roles.

        If ``roles`` names no existing record for the role ``cpu``, all roles get default records.
        """
        records = {stored.file: stored for stored in self.records}
        by_role = {role: records[file] for role, file in self.roles.items() if file in records}
        return by_role if "cpu" in by_role else default_roles(self.records)

    def runs(self, read: Callable[[Stored, str], AnyRun]) -> dict[Role, AnyRun]:
        """Return a run per role: ``read(record, label)``, reduced to its main memory policy."""
        runs = {}
        for stored, label in zip(self.records, device_labels(self.records), strict=True):
            runs[stored.file] = read(stored, label).under_main_policy()
        return {role: runs[stored.file] for role, stored in self.record_by_role.items()}

    def in_roles(self) -> Inputs:
        """Return these data with only those records that have a role, in the order of roles."""
        records = {stored.file: stored for stored in self.record_by_role.values()}
        return replace(self, records=tuple(records.values()))

    @property
    def files(self) -> tuple[str, ...]:
        """Files of all shards of all runs that own records pool, then files of imported records."""
        return (
            *self.shards(run.file for stored in self.records for run in stored.runs),
            *(item.file for item in self.imported),
        )

    def shards(self, files: Iterable[str]) -> tuple[str, ...]:
        """Replace the file of a run by the files of its shards; return each file once."""
        shards = {run.file: run.files for stored in self.records for run in stored.runs}
        return tuple(dict.fromkeys(part for file in files for part in shards.get(file, (file,))))


@dataclass(frozen=True)
class Figure:
    """A numbered figure; its ``id`` is ``fig-`` and its file name without extension.

    Caption and alternative text are plain text from the template.
    """

    id: str
    drawing: Drawing
    caption: str = ""
    alt: str = ""

    @property
    def name(self) -> str:
        """File name without its extension."""
        return self.id.removeprefix("fig-")


@dataclass(frozen=True)
class Findings:
    """Everything that a paper's template may print; the mappings are by id.

    ``facts``: plain texts, such as device names, and true or false, but no numbers.  ``audits``:
    checks of the numbers that the source printed.  ``key_figure``: id of the figure that lists of
    papers show.
    """

    values: Mapping[str, Value]
    tables: Mapping[str, Table]
    figures: Mapping[str, Figure]
    claims: Mapping[str, Claim] = field(default_factory=dict)
    reconciliations: Mapping[str, Reconciliation] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    audits: Sequence[Check] = ()
    key_figure: str = ""

    @property
    def shown_figure(self) -> Figure | None:
        """The key figure, or the first figure if these data cannot draw the key figure."""
        return self.figures.get(self.key_figure) or next(iter(self.figures.values()), None)

    @property
    def drawings(self) -> dict[str, Drawing]:
        """The drawing of each figure, by the figure's name."""
        return {figure.name: figure.drawing for figure in self.figures.values()}

    def as_json(self, study: str, records: tuple[str, ...]) -> dict[str, Any]:
        """Content of ``out/values/<study>.json``."""
        return {
            "study": study,
            "records": list(records),
            "values": {key: value.as_json() for key, value in self.values.items()},
            "tables": {key: table.as_json() for key, table in self.tables.items()},
            "figures": {
                key: {"caption": f.caption, "alt": f.alt} for key, f in self.figures.items()
            },
            "claims": {key: claim.as_json() for key, claim in self.claims.items()},
            "reconciliations": {key: r.as_json() for key, r in self.reconciliations.items()},
            "audits": [check.as_json() for check in self.audits],
        }
