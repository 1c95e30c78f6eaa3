"""Choosing and reading all that a paper is made from; the only reader of ``data/`` in a build.

A record is left out with a notice, so that one bad file stops no paper, if it cannot be read (cut
off, of another tool or study, too large), if a file that the paper needs is not beside it, if its
cases are none of this study, if the study cannot be computed from it, or if its content is not what
its experiment wrote.  So are records of others.  A record that ``editions.yaml`` or ``--use`` names
is an error instead; so is a bad record where the study, or a machine that plays a role, has no good
one: an empty paper must not replace a full one.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from report.errors import RecordError, RidgepointError
from report.evidence.case_checks import check_layers
from report.evidence.devices import read_devices
from report.evidence.reported import read_reported
from report.evidence.runs import labels
from report.instruments.counters.logs import joined_logs
from report.paper.findings import Inputs
from report.paper.listing import attributions, listing, unusable
from report.records import IMPORTED, OPERATORS
from report.records.choice import Choices, choices_of, choose_records
from report.records.editions import EDITIONS, ROLES, Edition, read_editions
from report.records.files import shared
from report.records.network_operators import read_operators
from report.records.pooling import runs_of, whole
from report.records.store import (
    EDITED,
    Listed,
    Stored,
    StoredImport,
    each_read_once,
    read_attachments,
    read_record,
    survey_imports,
    survey_records,
)
from report.records.strict import no_cycles
from report.studies import STUDIES, attachments_of


@dataclass(frozen=True)
class Chosen:
    """All that a paper is computed from, and what it says of its records.

    ``notices`` are what is wrong with records; ``listing`` says of every one what became of it.

    ``origin`` is what the paper says of its data: ``records`` and ``reported``, files relative to
    the data directory, ``devices``, the names of the machines, ``measured``, the day of the edition
    or of a newer run, ``altered``, all records of the study, used or not, that are not what their
    names say, with the way, ``asked``, those that this build alone uses, and ``imported``, the
    attributions of what others measured.
    """

    inputs: Inputs
    origin: Mapping[str, Any]
    notices: tuple[str, ...]
    listing: Sequence[Mapping[str, Any]]

    @property
    def files(self) -> tuple[Stored | StoredImport, ...]:
        """All records that are used, as their files hold them."""
        runs = (run for stored in self.inputs.records for run in stored.runs)
        return (*(part for run in runs for part in run.shards), *self.inputs.imported)


@no_cycles()
@each_read_once()
def choose(
    study: str,
    data: Path,
    asked: Sequence[str] = (),
    faulty: Mapping[str, str] = MappingProxyType({}),
) -> Chosen:
    """The records that the paper of ``study`` uses, and all else that it reads.

    ``asked`` are records that the user wants in this build, relative to ``data``; ``faulty`` ones
    are left out, each for its reason.  Raises ``RecordError`` for a named record that cannot be
    used, for a role without a machine, and for a bad record without a good one.
    """
    edition = read_editions(data, STUDIES).get(study)
    listed, bad = usable_records(study, data, edition, asked, faulty)
    choices = choices_of(listed, data, edition, asked)
    imported, lost = _usable_imports(study, data, faulty)
    left_out = {file: f"left out: {why}" for file, why in (bad | lost).items()}
    altered = [item.file for item in (*listed, *imported) if item.edited]
    used = [file for choice in choices for item in choice.used for file in item.files]
    return Chosen(
        inputs=_inputs(study, data, edition, choices, imported),
        origin={
            **_origin(study, data, edition, choices),
            "records": [*used, *(item.file for item in imported)],
            "altered": [(file, EDITED) for file in altered],
            "imported": attributions(imported),
        },
        notices=(
            *left_out.values(),
            *(_edited(file, "or run the experiment again") for file in altered),
        ),
        listing=(
            *listing(listed, choices, imported),
            *(unusable(file, why) for file, why in left_out.items()),
        ),
    )


def _origin(study: str, data: Path, edition: Edition | None, choices: Choices) -> dict[str, Any]:
    """What a paper says of its own records, and whether it repeats published values."""
    days = [item.record.started[:10] for choice in choices for item in choice.used]
    if edition and edition.date:
        days.append(edition.date)
    named = (item for choice in choices if choice.by == "--use" for item in choice.used)
    return {
        "devices": labels([choice.primary for choice in choices]),
        "measured": max(days, default=None),
        "reported": _reported(study, data),
        "asked": [file for item in named for file in item.files],
    }


def _edited(file: str, remedy: str) -> str:
    return (
        f"data/{file}: {EDITED}, so it was edited after it was measured; restore it with git, "
        f"{remedy}."
    )


def usable_records(
    study: str,
    data: Path,
    edition: Edition | None = None,
    asked: Sequence[str] = (),
    faulty: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[Listed, ...], dict[str, str]]:
    """The records that a paper may use, and those that are left out, each with the reason.

    Of the former, those that the paper would use were read as a whole; ``faulty`` are files that
    the study could not be computed from.  Raises ``RecordError`` for a bad record that is named, or
    that has no good one beside it.
    """
    listed, refused = survey_records(study, data)
    bad = {file: why for file, why in faulty.items() if f"/{IMPORTED}/" not in file} | refused
    named = {*(edition.files if edition else ()), *asked}
    while True:
        _refuse(why for file, why in bad.items() if file in named)
        listed = tuple(item for item in listed if item.file not in bad)
        there = {item.record.environment.key for item in listed}
        roles = edition.roles.values() if edition else ()
        lost = {who for who in roles if isinstance(who, str)} - there
        # A key may be the beginning of another's; it stands between the time and the hash.
        _refuse(w for file, w in bad.items() if file.partition("-")[2].rpartition("-")[0] in lost)
        if not (broken := dict(_broken(study, listed, data, edition, asked))):
            break
        bad |= broken
    untouched = tuple(i for i in listed if not i.edited or i.file in named)
    if untouched:
        remedy = f"run the experiment again, or name it in data/{EDITIONS} to use it as it is"
        bad |= {i.file: _edited(i.file, remedy) for i in listed if i not in untouched}
    elif bad and not listed:
        raise RecordError(next(iter(bad.values())))
    return untouched or listed, bad


def _broken(
    study: str,
    listed: Collection[Listed],
    data: Path,
    edition: Edition | None,
    asked: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """The records among those that a paper would use which cannot be used after all, and why."""
    for choice in choose_records(listed, edition, asked):
        for item in (part for used in choice.used for part in used.shards):
            try:
                check_layers(read_record(data / item.file, data))
                if item.file in choice.primary.files:
                    read_attachments(item, attachments_of(study), data)
            except RidgepointError as error:
                yield item.file, _naming(item.file, str(error))


def _usable_imports(
    study: str, data: Path, faulty: Mapping[str, str]
) -> tuple[tuple[StoredImport, ...], dict[str, str]]:
    """The imported records that a paper may use, read as a whole, and those that are left out.

    Raises ``RecordError`` for a bad one where there is no good one.
    """
    found, bad = survey_imports(study, data)
    for item in found:
        try:
            read_attachments(item, attachments_of(study), data)
        except RecordError as error:
            bad[item.file] = _naming(item.file, str(error))
    bad |= {item.file: faulty[item.file] for item in found if item.file in faulty}
    good = tuple(item for item in found if item.file not in bad)
    if not good:
        _refuse(bad.values())
    return good, bad


def _refuse(reasons: Iterable[str]) -> None:
    """Raise the first of the reasons, if there is any."""
    for why in reasons:
        raise RecordError(why)


def _naming(file: str, why: str) -> str:
    """The sentence with the file at its beginning, where it does not name it."""
    return why if f"data/{file}" in why else f"data/{file}: {why}"


def _inputs(
    study: str,
    data: Path,
    edition: Edition | None,
    choices: Choices,
    imported: tuple[StoredImport, ...],
) -> Inputs:
    """The inputs of ``study`` with the records that were chosen; raises ``RecordError``."""
    patterns = attachments_of(study)
    own = tuple(_pooled([f for i in choice.used for f in i.files], data) for choice in choices)
    return Inputs(
        records=own,
        reported=read_reported(shared(f"reported/{study}.json", data)),
        reported_file=_reported(study, data),
        devices=read_devices(shared("devices.yaml", data)),
        attachments={
            **{item.file: _of_shards(item, patterns, data) for item in own},
            **{item.file: read_attachments(item, patterns, data) for item in imported},
        },
        imported=imported,
        networks=read_operators(shared(OPERATORS, data)) if imported else (),
        roles={
            role: choice.primary.file
            for role in (edition.roles if edition else {}) | dict.fromkeys(ROLES)
            for choice in choices
            if role in choice.roles
        },
    )


def _pooled(files: Sequence[str], data: Path) -> Stored:
    """The run of a device with the others of its measurement, shards merged."""
    read = (check_layers(read_record(data / file, data)) for file in files)
    first, *others = map(whole, runs_of(read))
    return replace(first, others=tuple(others))


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
