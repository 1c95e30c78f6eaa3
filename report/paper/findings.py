"""Findings of a study: the values, tables, figures and claims that its paper prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from report.core.missing import Missing
from report.core.records.choice import Role, default_roles
from report.core.records.network_operators import NetworkOperators
from report.core.records.reported import Devices, Reported
from report.core.records.store import Stored, StoredImport
from report.core.statistics.estimates import Estimate
from report.evidence.runs import AnyRun, device_labels
from report.paper.tables import Table
from report.paper.values import Evaluated, Value
from report.quantity.expression import Statement
from report.quantity.verdicts import Verdict
from report.theory.reconciliation import Reconciliation

if TYPE_CHECKING:
    from figures.panels import Drawing
    from report.evidence.audit import Check


@dataclass(frozen=True)
class Inputs:
    """Data that a study may read.

    ``records``: own records, one per device, newest first.  ``reported``: published numbers, read
    from ``reported_file``.  ``devices``: properties of known devices.  ``attachments``: record file
    → name of an attached file → its content, or the reason why it is missing.  ``imported``:
    records that others measured.  ``networks``: reads the captured operators of timm's CNNs.
    ``table``: reads a table beside the records by file name and row type.  ``roles``: role in the
    paper → record file.
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
        """Return each role's run, made by ``read(record, label)``, under its main memory policy."""
        runs = {}
        for stored, label in zip(self.records, device_labels(self.records), strict=True):
            runs[stored.file] = read(stored, label).under_main_policy()
        return {role: runs[stored.file] for role, stored in self.record_by_role.items()}

    def in_roles(self) -> Inputs:
        """Return these data with only the records that have a role, in the order of roles."""
        records = {stored.file: stored for stored in self.record_by_role.values()}
        return replace(self, records=tuple(records.values()))

    @property
    def files(self) -> tuple[str, ...]:
        """Files of all own records with their pooled runs and shards, then of imported records."""
        return (
            *self.shards(run.file for stored in self.records for run in stored.runs),
            *(item.file for item in self.imported),
        )

    def shards(self, files: Iterable[str]) -> tuple[str, ...]:
        """Replace the file of a run by the files of its shards; drop repeated files."""
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
class Claim:
    """A claim about the data, with its verdict and the numbers that decide it.

    ``because``: numbers and ranges, in words.  ``sentence``: the claim in the paper's words.
    ``compared``: a number per comparison, with both ends of the range in which the claim holds.
    ``title``: a sentence that can be read alone.  ``about``: kind of machine or publication.
    ``numbers``: ids of the values that the claim is about.

    Replication reports also print the other fields.  ``files``: sources of the numbers.
    ``effect``: number in ``unit`` of the only comparison, None if there are several.  ``measured``,
    ``expected``: short texts for tables.  ``reasons``: why comparisons do not hold.
    ``measured_count``: number of measured comparisons.  ``statements``: the comparisons, which
    cannot be pickled.
    """

    id: str
    verdict: Verdict
    because: str
    sentence: str = ""
    compared: tuple[tuple[Evaluated, float, float], ...] = ()
    title: str = ""
    about: str = ""
    numbers: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    effect: float | Missing | None = None
    unit: str = "1"
    measured: str = ""
    expected: str = ""
    reasons: tuple[str, ...] = ()
    measured_count: int = 0
    statements: tuple[Statement, ...] = field(default=(), compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields to pickle, without the statements."""
        return {**self.__dict__, "statements": ()}

    def as_json(self) -> dict[str, Any]:
        """Content of the claim in ``out/values/<study>.json``."""
        return {
            "title": self.title,
            "about": self.about,
            "sentence": self.sentence,
            "verdict": self.verdict,
            "because": self.because,
            "compared": [_comparison_json(*comparison) for comparison in self.compared],
        }


def _comparison_json(result: Evaluated, above: float, below: float) -> dict[str, Any]:
    """Return the number of a comparison with its interval and bounds; None for a missing part."""
    value = result.value if isinstance(result, Estimate) else result
    return {
        "number": None if isinstance(value, Missing) else float(value),
        "interval": [result.low, result.high] if isinstance(result, Estimate) else None,
        "above": above if math.isfinite(above) else None,
        "below": below if math.isfinite(below) else None,
    }


@dataclass(frozen=True)
class Findings:
    """Everything that a paper's template may print.

    ``facts``: plain texts, such as device names, and switches, but no numbers.  ``audits``: checks
    of the numbers that the source printed.  ``key_figure``: id of the figure in lists of papers.
    The mappings map ids to their content.
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
