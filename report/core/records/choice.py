"""Which records a paper uses of each machine, which role it plays, and why others are not used.

``data/editions.yaml`` or the user names the machines and their roles; a folder that names none has
them filled from what is there.  One run speaks for a machine: its newest full one.  Further runs of
the same measurement are pooled with it, so that scatter between runs shows; the one among them that
kept most files beside it speaks for all, since it has the counts that others may lack.  The shards
of a run are merged before; as long as some are missing, it is no full one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias

from report.core.errors import RecordError
from report.core.records.editions import EDITIONS, Edition, Role
from report.core.records.pooling import contradiction, fixed, missing_shards, runs_of, unlike
from report.core.records.record import Head, Record
from report.core.records.store import Filed, Item, Kind_co, Listed, Stored

#: The roles that a machine takes, the first that is free.
_FREE: Final[Mapping[str, tuple[Role, ...]]] = {
    "cpu": ("cpu", "second", "third", "fourth"),
    "cuda": ("gpu", "third", "fourth"),
}
#: The runs of each machine by its key, the best last.
_Machines: TypeAlias = Mapping[str, Sequence[Listed]]
_USE: Final = "--use"
_EDITION: Final = f"data/{EDITIONS}"


@dataclass(frozen=True)
class Choice(Generic[Kind_co]):
    """The records of one machine, and the roles that it plays; none if it is only compared.

    Of those ``used`` the first speaks for the machine, and the others are pooled with it; ``left``
    are not used, each with the reason in a few words, newest first.  ``by`` is who named the
    records, where they are not the newest run.
    """

    used: tuple[Filed[Kind_co], ...]
    left: tuple[tuple[Listed, str], ...] = ()
    by: str = ""
    roles: tuple[Role, ...] = ()

    @property
    def primary(self) -> Filed[Kind_co]:
        """The record that speaks for the machine."""
        return self.used[0]


Choices: TypeAlias = tuple[Choice[Head], ...]


def choices_of(
    listed: Iterable[Listed], edition: Edition | None = None, asked: Sequence[str] = ()
) -> Choices:
    """The records that a paper uses of each of its machines, newest machine first.

    Of a machine the newest run of the full plan wins, and older full runs of the same measurement
    are pooled with it; a quick or custom run stands in only where a machine has no full one.  Files
    that are named, by the ``edition`` or ``asked`` for, are used alone.  What is asked for of a
    machine without a role takes the first role that fits it.  Without an edition all machines are
    used.  Raises ``RecordError`` for a name of no record, or for records that cannot be pooled.
    """
    machines: dict[str, list[Listed]] = {}
    for item in sorted(runs_of(listed), key=lambda i: (is_full(i), i.record.started, i.file)):
        machines.setdefault(item.record.environment.key, []).append(item)
    key_of = {f: key for key, items in machines.items() for item in items for f in item.files}
    named = {_USE: asked, _EDITION: edition.files if edition else ()}
    for by, file in ((by, file) for by, files in named.items() for file in files):
        if file not in key_of:
            raise RecordError(f"{by}: no record {file}; correct the name.")
    before = _cast(edition, machines, key_of)
    cast = _recast(before, [key_of[file] for file in asked], machines)
    keys = dict.fromkeys(
        (*cast.values(), *before.values(), *(edition.compared if edition else machines))
    )
    choices = (
        replace(
            _of_machine(machines[key], named),
            roles=tuple(role for role, who in cast.items() if who == key),
        )
        for key in keys
        if key in machines
    )
    return tuple(sorted(choices, key=lambda c: c.primary.record.started, reverse=True))


def filled(items: Iterable[Item]) -> dict[Role, Item]:
    """Who plays which role where nobody says so: full runs first, then the newest.

    Without a CPU a GPU plays its role too, so that sentences have something to speak of.
    """
    ranked = sorted(items, key=lambda i: (is_full(i), i.record.started), reverse=True)
    roles: dict[Role, Item] = {}
    for device in ("cpu", "cuda"):
        ours = (item for item in ranked if item.record.environment.device == device)
        free = (role for role in _FREE[device] if role not in roles)
        roles |= dict(zip(free, ours, strict=False))
    if "gpu" in roles:
        roles.setdefault("cpu", roles["gpu"])
    return roles


def _cast(
    edition: Edition | None, machines: _Machines, key_of: Mapping[str, str]
) -> dict[Role, str]:
    """The machine of each role by its key, as the edition names them or files of them."""
    if edition is None:
        best = filled(items[-1] for items in machines.values())
        return {role: item.record.environment.key for role, item in best.items()}
    cast: dict[Role, str] = {}
    for role, who in edition.roles.items():
        keys = {who} if isinstance(who, str) else {key_of[file] for file in who}
        if len(keys) != 1:
            raise RecordError(
                f"{_EDITION}: {role}: found records of {len(keys)} machines; name records of one."
            )
        (cast[role],) = keys
        if cast[role] not in machines:
            raise RecordError(
                f"{_EDITION}: {role}: no record of the machine {who}; the machines are "
                f"{', '.join(machines) or 'none'}."
            )
    return cast


def _recast(
    before: Mapping[Role, str], asked: Iterable[str], machines: _Machines
) -> dict[Role, str]:
    """The cast in which each machine of ``asked`` has a role, the first that fits it."""
    cast, keys = dict(before), dict.fromkeys(asked)
    for key in keys:
        if key not in cast.values():
            device = machines[key][-1].record.environment.device
            free = (role for role in _FREE[device] if cast.get(role) not in keys)
            if role := next(free, None):
                cast[role] = key
    return cast


def is_full(item: Listed) -> bool:
    """Whether a run is one of the full plan that lacks nothing."""
    return item.record.protocol.plan == "full" and not missing_shards(item)


def plan_text(item: Filed[Head]) -> str:
    """The plan of a run in words, with the number of its shards where some are missing."""
    plan = f"{item.record.protocol.plan} plan"
    if missing := missing_shards(item):
        return f"{len(item.parts):,} of {len(missing) + len(item.parts):,} shards of the {plan}"
    return plan


def kind(item: Listed) -> str:
    """What a run is that is no full one, in words."""
    if missing := missing_shards(item):
        return f"a sweep that lacks {len(missing):,} of {len(missing) + len(item.parts):,} shards"
    return f"a {item.record.protocol.plan} run"


def _of_machine(items: Sequence[Listed], named: Mapping[str, Sequence[str]]) -> Choice[Head]:
    """The choice among the records of one machine, in the order of preference, best last.

    ``named`` are files by who named them: what the user asks for wins over the edition.
    """
    newest = sorted(items, key=lambda item: (item.record.started, item.file), reverse=True)
    for by, files in named.items():
        if ours := [item for item in newest if not set(files).isdisjoint(item.files)]:
            _refuse_unlike(ours, by)
            left = tuple((item, f"{by} names another") for item in newest if item not in ours)
            return Choice(tuple(ours), left, by)
    best = items[-1]
    why = {item.file: _why_left(best, item) for item in newest if item is not best}
    left = tuple((item, why[item.file]) for item in newest if why.get(item.file))
    used = [item for item in newest if not why.get(item.file)]
    used.sort(key=lambda item: len(item.record.attachments), reverse=True)
    return Choice(tuple(used), left)


def _refuse_unlike(named: Sequence[Listed], by: str) -> None:
    first, *others = named
    for other in others:
        if why := unlike(first.record, other.record):
            raise RecordError(
                f"{by}: {first.file} and {other.file} are both records of "
                f"{first.record.environment.key} and cannot be pooled, since the latter is {why}; "
                "name one of them."
            )


def _why_left(best: Listed, item: Listed) -> str:
    """Why a record is not used beside the best one of its machine; nothing if it is."""
    if not is_full(best):
        return "older"
    if not is_full(item):
        return f"{kind(item)} beside a full one"
    why = unlike(best.record, item.record)
    return f"older and {why}" if why else ""


def agreeing(choice: Choice[Head], whole: Mapping[str, Stored]) -> Choice[Record]:
    """The choice with ``whole`` records, by their files, and with shards merged.

    Runs and shards that found another value of what is always the same are left out.
    """
    known: dict[Any, Any] = {}
    used: list[Stored] = []
    refused = []
    for item in choice.used:
        parts = []
        for part in item.shards:
            found = fixed(whole[part.file].record)
            if why := contradiction(known, found):
                words = f"not the same measurement: {why} as in {_short(choice.primary)}"
                refused.append((part, words))
            else:
                parts.append(whole[part.file])
                known |= found
        used += runs_of(parts)
    return Choice(tuple(used), (*refused, *choice.left), choice.by, choice.roles)


# ---------------------------------------------------------------------------------------- words


def fate(choices: Iterable[Choice[Head]], file: str) -> tuple[bool, str]:
    """Whether a build uses the record ``file``, and as what or why not, in a few words."""
    for choice in choices:
        if choice.primary.file == file:
            return True, _role_of(choice)
        for item, why in choice.left:
            if file in item.files:
                return False, f"not used, {why}"
        for item in choice.used:
            if item.file == file:
                return True, f"pooled with {_short(choice.primary)}"
            for part in item.parts:
                if part.file == file and (shard := part.record.shard):
                    of = f"shard {shard.number} of {shard.of}"
                    return True, f"merged with {_short(item)}, {of}"
    return False, f"not used, {_EDITION} names other machines"


def _role_of(choice: Choice[Head]) -> str:
    """What the record is that speaks for its machine, and in which role."""
    item, *others = choice.used
    if choice.by:
        what = f"as {choice.by} names it" + ("" if is_full(item) else f", {kind(item)}")
    elif not is_full(item):
        what = f"{kind(item)} that stands in for this machine, which has no full one"
    elif all(other.record.started <= item.record.started for other in others):
        what = "the newest full run of its machine"
    else:
        what = "a full run of its machine that kept more files than newer ones"
    roles = " and ".join(choice.roles)
    more = f", pooled with {len(others)} other run{'s' if others[1:] else ''}" if others else ""
    return f"used {f'as {roles}' if roles else 'for comparison'}, {what}{more}"


def _short(item: Listed) -> str:
    return item.file.rpartition("/")[2]
