"""Reading all that a study's paper is made from; the only reader of ``data/`` in a build."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from report.engine.quarantine import usable_imports, usable_records
from report.evidence.attributions import attributions
from report.evidence.case_checks import check_layers
from report.evidence.devices import read_devices
from report.evidence.reported import read_reported
from report.evidence.runs import labels
from report.instruments.counters.logs import joined_logs
from report.paper.findings import Inputs
from report.paper.listing import listing, unusable
from report.records import OPERATORS
from report.records.choice import Choices, choices_of
from report.records.editions import ROLES, Role, read_editions
from report.records.files import shared
from report.records.imported import ImportedRecord
from report.records.network_operators import read_operators
from report.records.shards import runs_of, whole
from report.records.store import (
    EDITED,
    Filed,
    Stored,
    read_attachments,
    read_import,
    read_record,
)
from report.records.strict import no_cycles
from report.studies import STUDIES, attachments_of


@dataclass(frozen=True)
class Origin:
    """What a paper says of the data that it comes from.

    ``records`` and ``reported`` are files relative to the data directory, ``devices`` the names of
    the machines, ``measured`` the day of the edition or of a newer run, None where there is
    neither.  ``altered`` are all records of the study, used or not, that are not what their names
    say: (file, in which way).  ``asked`` are the records that this build alone uses, since the user
    named them.  ``imported`` are the ``attributions`` of what others measured.
    """

    records: Sequence[str]
    devices: Sequence[str]
    measured: str | None
    reported: str
    altered: Sequence[tuple[str, str]] = ()
    asked: Sequence[str] = ()
    imported: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Chosen:
    """The records that a paper uses, newest device first, and all that it reads beside them.

    ``runs`` are the files of each device: the one that speaks for it, then those that are pooled
    with it; ``imported`` are the files of what others measured.  ``digests`` are those of the
    records, file relative to the data directory → SHA-256 in hexadecimal.
    ``roles`` are the records of the machines that the paper describes, by role.
    ``notices`` are what is wrong with records; ``listing`` says of every one what became of it.
    """

    origin: Origin
    runs: tuple[tuple[str, ...], ...]
    digests: dict[str, str]
    notices: tuple[str, ...]
    imported: tuple[str, ...] = ()
    listing: Sequence[Mapping[str, Any]] = ()
    roles: Mapping[Role, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What tells one choice from another; notices tell nothing of the numbers."""
        return {
            "runs": [list(files) for files in self.runs],
            "imported": list(self.imported),
            "roles": dict(self.roles),
            "digests": self.digests,
            "origin": asdict(self.origin),
        }


def gather(study: str, data: Path) -> Inputs:
    """The inputs of ``study`` from the data directory.

    Uses the machines that ``editions.yaml`` names, else all that are there.  Raises ``RecordError``
    for the first file that cannot be used.
    """
    return load(study, data, choose(study, data))


@no_cycles()
def choose(
    study: str,
    data: Path,
    asked: Sequence[str] = (),
    faulty: Mapping[str, str] = MappingProxyType({}),
) -> Chosen:
    """The records that the paper of ``study`` uses, by the heads of all that there are.

    ``asked`` are records that the user wants in this build, relative to ``data``.  Bad records are
    left out as ``report.engine.quarantine`` says, and so are the ``faulty`` ones, each for its
    reason.  Raises ``RecordError`` for a named record that cannot be used, for a role without a
    machine, and for a bad record without a good one.
    """
    edition = read_editions(data, STUDIES).get(study)
    listed, quarantined = usable_records(study, data, edition, asked, faulty)
    choices = choices_of(listed, data, edition, asked)
    imported, lost = usable_imports(study, data, faulty)
    quarantined += lost
    used = [part for choice in choices for item in choice.used for part in item.shards]
    there: list[Filed[Any]] = [*listed, *imported]
    return Chosen(
        origin=_origin(study, choices, there, data, edition.date if edition else None),
        runs=tuple(tuple(f for item in choice.used for f in item.files) for choice in choices),
        digests={item.file: item.sha256 for item in (*used, *imported)},
        notices=(*(each.notice for each in quarantined), *_alterations(there)),
        imported=tuple(item.file for item in imported),
        listing=(
            *listing(listed, choices, imported),
            *(unusable(each.file, each.notice) for each in quarantined),
        ),
        roles={
            role: choice.primary.file
            for role in (edition.roles if edition else {}) | dict.fromkeys(ROLES)
            for choice in choices
            if role in choice.roles
        },
    )


@no_cycles()
def load(study: str, data: Path, chosen: Chosen) -> Inputs:
    """The inputs of ``study`` with the records that were chosen; raises ``RecordError``."""
    patterns = attachments_of(study)
    own = tuple(_pooled(files, data) for files in chosen.runs)
    theirs = tuple(read_import(data / file, data) for file in chosen.imported)
    return Inputs(
        records=own,
        reported=read_reported(shared(f"reported/{study}.json", data)),
        reported_file=_reported(study, data),
        devices=read_devices(shared("devices.yaml", data)),
        attachments={
            **{item.file: _of_shards(item, patterns, data) for item in own},
            **{item.file: read_attachments(item, patterns, data) for item in theirs},
        },
        imported=theirs,
        networks=read_operators(shared(OPERATORS, data)) if theirs else (),
        roles=chosen.roles,
    )


def _pooled(files: Sequence[str], data: Path) -> Stored:
    """The run of a device with the others of its measurement, shards merged."""
    read = (check_layers(read_record(data / file, data)) for file in files)
    first, *others = map(whole, runs_of(read))
    return replace(first, others=tuple(others))


def _origin(
    study: str,
    choices: Choices,
    there: Sequence[Filed[Any]],
    data: Path,
    date: str | None,
) -> Origin:
    used = [item for choice in choices for item in choice.used]
    imported = [item for item in there if isinstance(item.record, ImportedRecord)]
    files = (*(f for item in used for f in item.files), *(item.file for item in imported))
    return Origin(
        records=files,
        devices=labels([choice.primary for choice in choices]),
        measured=max(filter(None, (date, *(i.record.started[:10] for i in used))), default=None),
        reported=_reported(study, data),
        altered=tuple((i.file, EDITED) for i in there if i.edited),
        asked=tuple(f for c in choices if c.by == "--use" for i in c.used for f in i.files),
        imported=attributions(imported),
    )


def _alterations(listed: Iterable[Filed[Any]]) -> Iterator[str]:
    """Which records are not what their experiment wrote, used or not."""
    for item in listed:
        if item.edited:
            yield (
                f"data/{item.file}: {EDITED}, so it was edited "
                "after it was measured; restore it with git, or run the experiment again."
            )


def _reported(study: str, data: Path) -> str:
    """The file of published values; nothing where the study repeats nobody's."""
    file = f"reported/{study}.json"
    return file if os.path.lexists(shared(file, data)) else ""


def _of_shards(stored: Stored, patterns: tuple[str, ...], data: Path) -> dict[str, bytes]:
    """The files beside a run; of a merged one, those of all its shards.

    What was counted of its cases is joined; other files belong to one case, and so to one shard.
    """
    found: dict[str, bytes] = {}
    for part in stored.shards:
        for name, content in read_attachments(part, patterns, data).items():
            place = f"{part.file}/{name}"
            found[name] = joined_logs(found[name], content, place) if name in found else content
    return found
