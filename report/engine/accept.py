"""Making the records of ``--use`` the edition of a paper: ``python build.py --use … --accept``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from report.engine.quarantine import usable_records
from report.errors import RecordError
from report.records.choice import Choice, Choices, choices_of, is_full, kind
from report.records.editions import ROLES, Edition, Role, read_editions, write_edition
from report.records.store import Listed
from report.studies import STUDIES


def accept_records(study: str, data: Path, asked: Sequence[str]) -> Path:
    """Write to ``editions.yaml`` the roles that machines have with the records ``asked`` for.

    A machine has its role by its key, so that a later run there changes the paper, unless another
    than its newest full run was asked for.  Returns the file.  Raises ``RecordError`` for records
    that cannot be used, and for a quick run in the role of a full one.
    """
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
