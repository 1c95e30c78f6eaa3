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
from report.core.text.escape import markdown
from report.evidence.runs import AnyRun, labels
from report.paper.tables import Table
from report.paper.values import Evaluated, Value
from report.quantity.expression import Statement
from report.quantity.verdicts import Verdict
from report.theory.reconciliation import Reconciliation

if TYPE_CHECKING:
    from figures.panels import Drawing
    from report.evidence.audit import Check


def _no_table(name: str, row: type[Any]) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Inputs:
    """Data that a study may read: its records, one per device and newest first, and more.

    ``reported`` are published numbers, and ``imported`` are records that others measured.
    ``attachments`` maps the file of each record to the attached files that the study asks for:
    name → content, or why it is missing.  ``networks`` reads the operators of timm's CNNs, which
    theory captured.  ``table`` reads a table beside the records, by its file name and row type.
    ``roles`` maps each role of the edition to the file of its record.
    """

    records: tuple[Stored, ...]
    reported: Reported
    reported_file: str
    devices: Devices
    attachments: Mapping[str, Mapping[str, bytes | Missing]] = field(default_factory=dict)
    imported: tuple[StoredImport, ...] = ()
    networks: Callable[[], tuple[NetworkOperators, ...]] = tuple
    table: Callable[[str, type[Any]], tuple[Any, ...]] = _no_table
    roles: Mapping[Role, str] = field(default_factory=dict)

    @cached_property
    def record_by_role(self) -> dict[Role, Stored]:
        """Record in each role, in the order in which tables list roles.

        If the record of the role ``cpu`` is gone, all roles are filled from the other records.
        """
        records = {stored.file: stored for stored in self.records}
        named = {role: records[file] for role, file in self.roles.items() if file in records}
        return named if "cpu" in named else default_roles(self.records)

    def runs(self, read: Callable[[Stored, str], AnyRun]) -> dict[Role, AnyRun]:
        """Read the record in each role by ``read``, under its main memory policy."""
        labelled = zip(self.records, labels(self.records), strict=True)
        runs = {stored.file: read(stored, label).under_main_policy() for stored, label in labelled}
        return {role: runs[stored.file] for role, stored in self.record_by_role.items()}

    def in_roles(self) -> Inputs:
        """Keep only the records that have a role, in the order of the roles."""
        records = {stored.file: stored for stored in self.record_by_role.values()}
        return replace(self, records=tuple(records.values()))

    @property
    def files(self) -> tuple[str, ...]:
        """Files of all records, each followed by the files of the runs pooled with it."""
        return (
            *self.shards(run.file for stored in self.records for run in stored.runs),
            *(item.file for item in self.imported),
        )

    def shards(self, files: Iterable[str]) -> tuple[str, ...]:
        """Replace the file of each run that was measured in shards by the files of all shards."""
        shards = {run.file: run.files for stored in self.records for run in stored.runs}
        return tuple(dict.fromkeys(part for file in files for part in shards.get(file, (file,))))


@dataclass(frozen=True)
class Figure:
    """A numbered figure; ``id`` starts with ``fig-`` and names its files without that prefix.

    Caption and alternative text are plain text, from the template.
    """

    id: str
    drawing: Drawing
    caption: str = ""
    alt: str = ""

    @property
    def name(self) -> str:
        """File name without its extension."""
        return self.id.removeprefix("fig-")

    def as_markdown(self, caption: str) -> str:
        """Write the figure in Quarto markdown, with a ``caption`` in markdown.

        The path has no extension, since each output format adds its own.
        """
        wide = " .wide" if self.drawing.wide else ""
        alt = markdown(self.alt)
        return f'![{caption}](figures/{self.name}){{#{self.id}{wide} fig-alt="{alt}"}}'


@dataclass(frozen=True)
class Claim:
    """A claim about the data, with its verdict and the numbers that decide it.

    ``compared`` has these numbers, each with both ends of the range in which the claim holds.
    ``title`` can be read alone, ``sentence`` is the claim in the paper's words, and ``about`` names
    the kind of machine or publication that it is about.  ``numbers`` are the ids of the values that
    it decides.

    Reports on other machines print more.  ``files`` are those that the numbers come from, and
    ``effect`` in ``unit`` is the number of a claim of one comparison.  ``measured`` and
    ``expected`` are short texts for tables, and ``reasons`` say of each comparison that does not
    hold why.  ``formulas`` are those of all comparisons, of which ``known`` were measured.
    ``statements`` are the comparisons; they are not pickled, since operations have no names.
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
    formulas: tuple[str, ...] = ()
    known: int = 0
    statements: tuple[Statement, ...] = field(default=(), compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle all fields but the statements."""
        return {**self.__dict__, "statements": ()}

    def as_json(self) -> dict[str, Any]:
        """Content of the claim in ``out/values/<study>.json``."""
        return {
            "title": self.title,
            "about": self.about,
            "sentence": self.sentence,
            "verdict": self.verdict,
            "because": self.because,
            "compared": [_compared(*comparison) for comparison in self.compared],
        }


def _compared(result: Evaluated, above: float, below: float) -> dict[str, Any]:
    """Describe a comparison: the number with its interval, and the bounds; None if unknown."""
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

    ``facts`` are plain texts and switches (device names, whether anything was measured); numbers
    belong in ``values``; ``audits`` are the checks of the source's printed numbers.
    ``key_figure`` is the id of the figure that lists of papers show.
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
