"""What a study finds: the values, tables, figures and claims that its paper is written from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from report.core.missing import Missing
from report.core.records.choice import filled
from report.core.records.devices import Devices
from report.core.records.editions import Role
from report.core.records.network_operators import NetworkOperators
from report.core.records.reported import Reported
from report.core.records.store import Stored, StoredImport
from report.core.text.escape import markdown
from report.evidence.runs import AnyRun, labels
from report.paper.tables import Table
from report.paper.values import Finding, Value
from report.quantity.verdicts import Verdict
from report.theory.reconciliation import Reconciliation

if TYPE_CHECKING:
    from figures.panels import Drawing
    from report.evidence.audit import Check


@dataclass(frozen=True)
class Inputs:
    """All that a study may read: its records (one a device, newest first) and published numbers.

    ``imported`` are records of what others measured, which are never among its own.
    ``networks`` reads the operators of timm's CNNs, from theory.
    ``attachments`` are the files beside the records that the study asks for: record → name →
    content as it lies on disk, or why it is missing.  ``roles`` are the files of the records that
    play one, as the edition has them.
    """

    records: tuple[Stored, ...]
    reported: Reported
    reported_file: str
    devices: Devices
    attachments: Mapping[str, Mapping[str, bytes | Missing]] = field(default_factory=dict)
    imported: tuple[StoredImport, ...] = ()
    networks: Callable[[], tuple[NetworkOperators, ...]] = tuple
    roles: Mapping[Role, str] = field(default_factory=dict)

    @cached_property
    def cast(self) -> dict[Role, Stored]:
        """The record in each role, in the order of tables.

        Filled from what is there where the machine that sentences are about is gone.
        """
        records = {stored.file: stored for stored in self.records}
        named = {role: records[file] for role, file in self.roles.items() if file in records}
        return named if "cpu" in named else filled(self.records)

    def runs(self, kind: Callable[[Stored, str], AnyRun]) -> dict[Role, AnyRun]:
        """The run in each role, under the memory policy that it is about."""
        named = zip(self.records, labels(self.records), strict=True)
        made = {stored.file: kind(stored, label).as_measured() for stored, label in named}
        return {role: made[stored.file] for role, stored in self.cast.items()}

    def in_roles(self) -> Inputs:
        """The inputs with the records that play a role alone, in the order of the roles."""
        records = {stored.file: stored for stored in self.cast.values()}
        return replace(self, records=tuple(records.values()))

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all records, each followed by those that are pooled with it."""
        return (
            *self.shards(run.file for stored in self.records for run in stored.runs),
            *(each.file for each in self.imported),
        )

    def shards(self, files: Iterable[str]) -> tuple[str, ...]:
        """The ``files``, each run that was measured in shards as all of these."""
        whole = {run.file: run.files for stored in self.records for run in stored.runs}
        return tuple(dict.fromkeys(part for file in files for part in whole.get(file, (file,))))


@dataclass(frozen=True)
class Figure:
    """A numbered figure; ``id`` starts with ``fig-`` and names its files without that prefix.

    Caption and alternative text are plain text, which the template has.
    """

    id: str
    drawing: Drawing
    caption: str = ""
    alt: str = ""

    @property
    def name(self) -> str:
        """The file name without its ending."""
        return self.id.removeprefix("fig-")

    def as_markdown(self, caption: str) -> str:
        """The figure in Quarto markdown, as is its ``caption``.

        The path has no ending, since each format knows its own.
        """
        wide = " .wide" if self.drawing.wide else ""
        alt = markdown(self.alt)
        return f'![{caption}](figures/{self.name}){{#{self.id}{wide} fig-alt="{alt}"}}'


@dataclass(frozen=True)
class Claim:
    """What the data must support, with the verdict, the numbers it rests on, and the words.

    ``compared`` are these numbers, each with the ends of the range in which the claim holds.
    ``title`` can be read alone, ``sentence`` is where the paper states the claim, and ``about``
    says of what kind of machine or publication it speaks.
    """

    id: str
    verdict: Verdict
    because: str
    sentence: str = ""
    compared: tuple[tuple[Finding, float, float], ...] = ()
    title: str = ""
    about: str = ""

    def as_json(self) -> dict[str, Any]:
        """The claim for ``out/values/<study>.json``."""
        return {
            "title": self.title,
            "about": self.about,
            "sentence": self.sentence,
            "verdict": self.verdict,
            "because": self.because,
        }


@dataclass(frozen=True)
class Findings:
    """Everything that a paper's template may print.

    ``facts`` are plain texts and switches (device names, whether anything was measured); numbers
    belong in ``values``; ``audits`` are the checks of what the source printed.  ``key_figure`` is
    the id of the figure that stands for the paper where papers are listed.
    """

    values: Mapping[str, Value]
    tables: Mapping[str, Table]
    figures: Mapping[str, Figure]
    claims: Mapping[str, Claim] = field(default_factory=dict)
    reconciliations: Mapping[str, Reconciliation] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    audits: Sequence[Check] = ()
    key_figure: str = ""

    def as_json(self, study: str, records: tuple[str, ...]) -> dict[str, Any]:
        """The content of ``out/values/<study>.json``."""
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
