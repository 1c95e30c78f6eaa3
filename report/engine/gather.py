"""Reading all that a study's paper is made from; the only reader of ``data/`` in a build."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from report.engine.quarantine import usable_imports, usable_records
from report.evidence.case_checks import check_layers
from report.evidence.devices import read_devices
from report.evidence.imported_runs import attributions
from report.evidence.reported import read_reported
from report.evidence.runs import labels
from report.instruments.counters.logs import joined_logs
from report.paper.findings import Inputs
from report.paper.listing import listing, unusable
from report.records import COUNTS, pins
from report.records.choice import is_full
from report.records.imported_files import StoredImport, read_import
from report.records.network_counts import read_counts
from report.records.shards import first_parts, runs_of, whole
from report.records.store import (
    Listed,
    Stored,
    digest,
    parts_of,
    read_attachments,
    read_record,
)
from report.records.strict import no_cycles
from report.records.usage import Choices, choices_of
from report.studies import STUDIES, attachments_of, names_left_runs


@dataclass(frozen=True)
class Origin:
    """What a paper says of the data that it comes from.

    ``records`` and ``reported`` are files relative to the data directory, ``devices`` the names of
    the machines, ``measured`` the day of the newest run, None where there is none.  ``altered`` are
    all records of the study, used or not, that are not what their names say: (file, in which way).
    ``asked`` are the records that this build alone uses, since the user named them.  ``imported``
    are the attributions of what others measured, as ``Attribution.as_json`` gives them.
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
    records and their attachments, file relative to the data directory → SHA-256 in hexadecimal.
    ``preferred`` are the files of machines that the user named.  ``left`` are full runs that the
    paper names without using them: the files of each, and the reason.
    ``notices`` are what is wrong with records; ``listing`` says of every one what became of it.
    """

    origin: Origin
    runs: tuple[tuple[str, ...], ...]
    digests: dict[str, str]
    notices: tuple[str, ...]
    imported: tuple[str, ...] = ()
    listing: Sequence[Mapping[str, Any]] = ()
    preferred: tuple[str, ...] = ()
    left: tuple[tuple[tuple[str, ...], str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """What tells one choice from another; notices tell nothing of the numbers."""
        return {
            "runs": [list(files) for files in self.runs],
            "imported": list(self.imported),
            "preferred": list(self.preferred),
            "left": [[list(files), why] for files, why in self.left],
            "digests": self.digests,
            "origin": asdict(self.origin),
        }


def gather(study: str, data: Path) -> Inputs:
    """The inputs of ``study`` from the data directory.

    Uses the newest full record of each device with the runs that are pooled with it, or the ones
    that ``pins.yaml`` names.  Raises ``RecordError`` for the first file that cannot be used.
    """
    chosen = choose(study, data)
    return load(study, data, chosen.runs, chosen.imported, chosen.preferred, chosen.left)


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
    reason.  Raises ``RecordError`` for a pin or a wish that cannot be used, and for a bad record
    without a good one.
    """
    pinned = read_pins(data).get(study, ())
    listed, quarantined = usable_records(study, data, pinned, asked, faulty)
    choices = choices_of(listed, data, pinned, asked)
    imported, lost = usable_imports(study, data, faulty)
    quarantined += lost
    primary = (part for choice in choices for part in parts_of(choice.primary))
    read: list[Listed | StoredImport] = [*primary, *imported]
    beside = {
        f"{item.file.removesuffix('.json')}/{name}": digest(content)
        for item in read
        for name, content in read_attachments(item, attachments_of(study), data).items()
    }
    left = [each for choice in choices for each in choice.left if is_full(each[0])]
    named = left if names_left_runs(study) else []
    used: list[Listed | StoredImport] = [
        part
        for item in (*(i for choice in choices for i in choice.used), *(i for i, _ in named))
        for part in parts_of(item)
    ]
    there: list[Listed | StoredImport] = [*listed, *imported]
    return Chosen(
        origin=_origin(study, choices, there, data),
        runs=tuple(tuple(f for item in choice.used for f in item.files) for choice in choices),
        digests={**{item.file: item.sha256 for item in (*used, *imported)}, **beside},
        notices=(*(each.notice for each in quarantined), *_alterations(there)),
        imported=tuple(item.file for item in imported),
        listing=(
            *listing(listed, choices, imported),
            *(unusable(each.file, each.notice) for each in quarantined),
        ),
        preferred=tuple(choice.primary.file for choice in choices if choice.by != "rule"),
        left=tuple((item.files, why) for item, why in named),
    )


@no_cycles()
def load(
    study: str,
    data: Path,
    runs: Iterable[Sequence[str]],
    imported: Iterable[str] = (),
    preferred: Iterable[str] = (),
    left: Iterable[tuple[Sequence[str], str]] = (),
) -> Inputs:
    """The inputs of ``study`` with these runs of each device; raises ``RecordError``."""
    patterns = attachments_of(study)
    wanted = frozenset(preferred)
    own = tuple(replace(_pooled(files, data), named=not wanted.isdisjoint(files)) for files in runs)
    theirs = tuple(read_import(data / file, data) for file in imported)
    return Inputs(
        records=own,
        reported=read_reported(data / "reported" / f"{study}.json"),
        reported_file=_reported(study, data),
        devices=read_devices(data / "devices.yaml"),
        attachments={
            **{item.file: _of_shards(item, patterns, data) for item in own},
            **{item.file: read_attachments(item, patterns, data) for item in theirs},
        },
        imported=theirs,
        networks=read_counts(data / COUNTS) if theirs else (),
        left=tuple((_pooled(files, data), why) for files, why in left),
    )


def _pooled(files: Sequence[str], data: Path) -> Stored:
    """The run of a device with the others of its measurement, shards merged."""
    read = (check_layers(read_record(data / file, data)) for file in files)
    first, *others = map(whole, runs_of(read))
    return replace(first, others=tuple(others))


def _origin(
    study: str,
    choices: Choices,
    there: Sequence[Listed | StoredImport],
    data: Path,
) -> Origin:
    used = [item for choice in choices for item in choice.used]
    imported = [item for item in there if isinstance(item, StoredImport)]
    files = (*(f for item in used for f in item.files), *(item.file for item in imported))
    return Origin(
        records=files,
        devices=labels([choice.primary for choice in choices]),
        measured=max((item.record.started[:10] for item in used), default=None),
        reported=_reported(study, data),
        altered=tuple((i.file, way) for i in there for way in i.alterations),
        asked=tuple(f for c in choices if c.by == "use" for i in c.used for f in i.files),
        imported=tuple(each.as_json() for each in attributions(imported)),
    )


def _alterations(listed: Iterable[Listed | StoredImport]) -> Iterator[str]:
    """Which records are not what their experiment wrote, used or not."""
    for item in listed:
        if item.alterations:
            yield (
                f"data/{item.file}: {' and '.join(item.alterations)}, so it was edited or renamed "
                "after it was measured; restore it with git, or run the experiment again."
            )


def _reported(study: str, data: Path) -> str:
    """The file of published values; nothing where the study repeats nobody's."""
    file = f"reported/{study}.json"
    return file if os.path.lexists(data / file) else ""


def _of_shards(stored: Stored, patterns: tuple[str, ...], data: Path) -> dict[str, bytes]:
    """The files beside a run; of a merged one, those of the first record of each shard.

    What was counted of its cases is joined; other files belong to one case, and so to one shard.
    """
    found: dict[str, bytes] = {}
    for part in first_parts(stored):
        for name, content in read_attachments(part, patterns, data).items():
            place = f"{part.file.removesuffix('.json')}/{name}"
            found[name] = joined_logs(found[name], content, place) if name in found else content
    return found


def read_pins(data: Path) -> dict[str, tuple[str, ...]]:
    """The records that the user pinned, as ``report.records.pins`` reads them for all studies."""
    return pins.read_pins(data, STUDIES)
