"""``--use``: the records that the user names for one build, and making them the edition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from report.errors import RecordError
from report.records import ENDING
from report.studies import STUDIES

if TYPE_CHECKING:
    from report.records.choice import Choice, Choices
    from report.records.editions import Role
    from report.records.store import Listed

LATEST: Final = "latest"


def named_records(
    texts: Iterable[str], studies: Sequence[str], data: Path, here: Path
) -> dict[str, tuple[str, ...]]:
    """The records that ``texts`` name: study → files relative to ``data``.

    Each is a path relative to ``here`` or to ``data``, a part of the file name of one record, or
    ``latest``, which means the newest record of each of the ``studies``.  Raises ``RecordError``
    for one that names no record, several, or one of none of ``studies``.
    """
    found: dict[str, None] = {}
    for text in texts:
        new = _newest(studies, data) if text == LATEST else [_record(text, studies, data, here)]
        found |= dict.fromkeys(new)
    named = dict.fromkeys(file.partition("/")[0] for file in found)
    return {study: tuple(file for file in found if file.startswith(f"{study}/")) for study in named}


def _newest(studies: Iterable[str], data: Path) -> list[str]:
    """The newest record of each study that has any, by the time in its name."""
    every = (_records([study], data) for study in studies)
    if found := [max(files) for files in every if files]:
        return found
    raise RecordError(f"--use {LATEST}: no record of these studies in {data}; measure one first.")


def _record(text: str, studies: Sequence[str], data: Path, here: Path) -> str:
    """The file of the record that ``text`` names, relative to ``data``."""
    path = next((p for p in (here / text, data / text) if p.is_file()), None)
    file = _file_of(path, text, data) if path else _matching(text, studies, data)
    study = file.partition("/")[0]
    if study not in studies:
        raise RecordError(
            f"--use {text}: this is a record of {study}, which this build does not make; name "
            f"{study} among the studies."
        )
    return file


def _file_of(path: Path, text: str, data: Path) -> str:
    # The folder may be reached through links; a record may be one itself.
    place = path.parent.resolve() / path.name
    if not place.is_relative_to(data):
        raise RecordError(
            f"--use {text}: this file lies outside {data}; copy it to the folder of its study "
            "there, or name its data directory with --data."
        )
    file = place.relative_to(data).as_posix()
    if file not in _records(STUDIES, data):
        raise RecordError(f"--use {text}: this file is no record of a study; correct the name.")
    return file


def _matching(text: str, studies: Sequence[str], data: Path) -> str:
    """The only record with ``text`` in its name; those of the ``studies`` come first."""
    found = [file for file in _records(studies, data) if text in file]
    found = found or [file for file in _records(STUDIES, data) if text in file]
    if not found:
        raise RecordError(
            f"--use {text}: no such record in {data}; give its path, or a part of its name that "
            "no other has."
        )
    if len(found) > 1:
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        raise RecordError(
            f"--use {text}: {found[0]} and {found[1]}{more} have this in their names; give more "
            "of the one that you mean."
        )
    return found[0]


def _records(studies: Iterable[str], data: Path) -> list[str]:
    """The files of all records, relative to ``data``."""
    return [
        f"{study}/{path.name}"
        for study in studies
        for path in sorted((data / study).glob(f"*{ENDING}"))
        if not path.name.startswith(".")
    ]


def accept_records(study: str, data: Path, asked: Sequence[str]) -> Path:
    """Write to ``editions.yaml`` the roles that machines have with the records ``asked`` for.

    A machine has its role by its key, so that a later run there changes the paper, unless another
    than its newest full run was asked for.  Returns the file.  Raises ``RecordError`` for records
    that cannot be used, and for a quick run in the role of a full one.
    """
    from report.engine.gather import usable_records
    from report.records.choice import choices_of, is_full, kind
    from report.records.editions import ROLES, Edition, read_editions, write_edition

    edition = read_editions(data, STUDIES).get(study)
    listed, _ = usable_records(study, data, edition, asked)
    before, after = (choices_of(listed, data, edition, files) for files in ((), asked))
    old, new = _cast(before), _cast(after)
    for role, choice in new.items():
        was = old.get(role)
        if was and is_full(was.primary) and not is_full(choice.primary):
            raise RecordError(
                f"--use {choice.primary.file}: {kind(choice.primary)} does not replace the full "
                f"run in the role {role}; measure the full plan, or leave out --accept."
            )
    order = dict.fromkeys((*(edition.roles if edition else ()), *ROLES))
    newest = {_key(choice): max(choice.used, key=_started) for choice in choices_of(listed, data)}
    roles: dict[Role, str | tuple[str, ...]] = {}
    for role in (role for role in order if role in new):
        choice = new[role]
        is_newest = choice.by == "--use" and choice.used == (newest[_key(choice)],)
        by_key = is_newest or not choice.by
        roles[role] = _key(choice) if by_key else tuple(item.file for item in choice.used)
    compared = tuple(_key(choice) for choice in after if not choice.roles)
    date = max(choice.primary.record.started[:10] for choice in after)
    return write_edition(study, Edition(roles, compared, date), data)


def _cast(choices: Choices) -> dict[Role, Choice]:
    return {role: choice for choice in choices for role in choice.roles}


def _started(item: Listed) -> tuple[str, str]:
    return item.record.started, item.file


def _key(choice: Choice) -> str:
    return choice.primary.record.environment.key
