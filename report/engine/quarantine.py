"""Records that cannot be used are left out with a note, so that one bad file stops no paper.

A record is left out if it cannot be read (cut off, of another tool or study, too large), if a file
that the paper needs is not beside it, if its cases are none of this study, if the study cannot be
computed from it, or if its content is not what its experiment wrote.  So are records of others.
A record that ``editions.yaml`` or ``--use`` names is an error instead; so is a bad record where the
study, or a machine that plays a role, has no good one: an empty paper must not replace a full one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from report.errors import RecordError, RidgepointError
from report.evidence.case_checks import check_layers
from report.records import IMPORTED
from report.records.choice import NoMachineError, choose_records
from report.records.editions import EDITIONS, Edition
from report.records.store import (
    EDITED,
    Listed,
    StoredImport,
    import_paths,
    read_attachments,
    read_import,
    read_record,
    survey_records,
)
from report.studies import attachments_of, check_of


@dataclass(frozen=True)
class Quarantined:
    """A record that is left out: its file relative to the data directory, and why."""

    file: str
    why: str

    @property
    def notice(self) -> str:
        """The sentence that tells the user."""
        return f"left out: {self.why}"


def usable_records(
    study: str,
    data: Path,
    edition: Edition | None = None,
    asked: Sequence[str] = (),
    faulty: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[Listed, ...], tuple[Quarantined, ...]]:
    """The records that a paper may use, and those that are left out.

    Of the former, those that the paper would use were read as a whole; ``faulty`` are files that
    the study could not be computed from, with the reason.  Raises ``RecordError`` for a bad record
    that is named, or that has no good one beside it.
    """
    listed, refused = survey_records(study, data)
    named = {*(edition.files if edition else ()), *asked}
    own = {file: why for file, why in faulty.items() if f"/{IMPORTED}/" not in file}
    bad = [Quarantined(file, why) for file, why in {**own, **refused}.items()]
    listed = tuple(item for item in listed if item.file not in faulty)
    _refuse_named(bad, named)
    try:
        while broken := tuple(_broken(study, listed, data, edition, asked)):
            _refuse_named(broken, named)
            bad += broken
            left_out = {each.file for each in broken}
            listed = tuple(item for item in listed if item.file not in left_out)
    except NoMachineError as error:
        raise next(
            (RecordError(b.why) for b in bad if f"-{error.key}-" in b.file), error
        ) from error
    untouched = tuple(i for i in listed if not i.edited or i.file in named)
    if untouched:
        bad += [Quarantined(i.file, _edited(i)) for i in listed if i not in untouched]
    elif bad and not listed:
        raise RecordError(bad[0].why)
    return untouched or listed, tuple(bad)


def usable_imports(
    study: str, data: Path, faulty: Mapping[str, str]
) -> tuple[tuple[StoredImport, ...], tuple[Quarantined, ...]]:
    """The imported records that a paper may use, read as a whole, and those that are left out.

    Raises ``RecordError`` for a bad one where there is no good one.
    """
    good: list[StoredImport] = []
    bad: list[Quarantined] = []
    for path in import_paths(study, data):
        file = path.relative_to(data).as_posix()
        try:
            if file in faulty:
                raise RecordError(faulty[file])
            item = read_import(path, data)
            read_attachments(item, attachments_of(study), data)
            good.append(item)
        except RecordError as error:
            bad.append(Quarantined(file, _naming(file, str(error))))
    if bad and not good:
        raise RecordError(bad[0].why)
    return tuple(good), tuple(bad)


def _edited(item: Listed) -> str:
    return (
        f"data/{item.file}: {EDITED}, so it was edited after it was measured; restore it with git, "
        f"run the experiment again, or name it in data/{EDITIONS} to use it as it is."
    )


def _refuse_named(bad: Iterable[Quarantined], named: Collection[str]) -> None:
    for each in bad:
        if each.file in named:
            raise RecordError(each.why)


def _broken(
    study: str,
    listed: Collection[Listed],
    data: Path,
    edition: Edition | None,
    asked: Sequence[str],
) -> Iterator[Quarantined]:
    """The records among those that a paper would use which cannot be used after all."""
    for choice in choose_records(listed, edition, asked):
        for item in (part for used in choice.used for part in used.shards):
            try:
                check_of(study)(check_layers(read_record(data / item.file, data)))
                if item.file in choice.primary.files:
                    read_attachments(item, attachments_of(study), data)
            except RidgepointError as error:
                yield Quarantined(item.file, _naming(item.file, str(error)))


def _naming(file: str, why: str) -> str:
    """The sentence with the file at its beginning, where it does not name it."""
    return why if f"data/{file}" in why else f"data/{file}: {why}"
