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
    found: dict[str, dict[str, None]] = {}
    for text in texts:
        new = _newest(studies, data) if text == LATEST else [_record(text, studies, data, here)]
        for file in new:
            found.setdefault(file.partition("/")[0], {})[file] = None
    return {study: tuple(files) for study, files in found.items()}


def _newest(studies: Iterable[str], data: Path) -> list[str]:
    """The newest record of each study that has any, by the time in its name."""
    every = (_records([study], data) for study in studies)
    if found := [max(files) for files in every if files]:
        return found
    raise RecordError(f"--use {LATEST}: no record of these studies in {data}; measure one first.")


def _record(text: str, studies: Sequence[str], data: Path, here: Path) -> str:
    """The file of the record that ``text`` names; records of the ``studies`` come first."""
    # The folder may be reached through links; a record may be one itself.
    paths = (path.parent.resolve() / path.name for path in (here / text, data / text))
    place = next((path for path in paths if path.is_file()), None)
    for among in (studies, STUDIES):
        records = _records(among, data)
        found = [f for f in records if (data / f == place if place else text in f)]
        if found:
            break
    else:
        raise RecordError(
            f"--use {text}: no such record in {data}; give the path of one that lies there, or a "
            "part of its name that no other has."
        )
    if len(found) > 1:
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        raise RecordError(
            f"--use {text}: {found[0]} and {found[1]}{more} have this in their names; give more "
            "of the one that you mean."
        )
    study = found[0].partition("/")[0]
    if study not in studies:
        raise RecordError(
            f"--use {text}: this is a record of {study}, which this build does not make; name "
            f"{study} among the studies."
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
