"""Which records a paper uses of each machine, which role it plays, and why others are not used.

``data/editions.yaml`` or the user names the machines and their roles; a folder that names none has
them filled from what is there.  One run speaks for a machine: its newest full one.  Further runs of
the same measurement are pooled with it, so that scatter between runs shows; the one among them that
kept most files beside it speaks for all, since it has the counts that others may lack.  The shards
of a run are merged before; as long as some are missing, it is no full one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias

from report.errors import RecordError
from report.records.editions import EDITIONS, Edition, Role
from report.records.pooling import contradiction, unlike
from report.records.record import Record
from report.records.shards import conflict, joined, merged, missing_shards, runs_of
from report.records.store import Item, Named

#: The roles that a machine takes, the first that is free.
_FREE: Final[Mapping[str, tuple[Role, ...]]] = {
    "cpu": ("cpu", "second", "third", "fourth"),
    "cuda": ("gpu", "third", "fourth"),
}
#: The runs of each machine by its key, the best last.
_Machines: TypeAlias = Mapping[str, Sequence[Item]]


class NoMachineError(RecordError):
    """An edition gives a role to a machine of which there is no record."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Choice(Generic[Item]):
    """The records of one machine, and the roles that it plays; none if it is only compared.

    ``primary`` speaks for the machine, ``others`` are further runs that are pooled with it, and
    ``left`` are not used, each with the reason in a few words; all newest first.  ``by`` is who
    named the records, where they are not the newest run.
    """

    primary: Item
    others: tuple[Item, ...] = ()
    left: tuple[tuple[Item, str], ...] = ()
    by: str = ""
    roles: tuple[Role, ...] = ()

    @property
    def used(self) -> tuple[Item, ...]:
        """All records that the paper is computed from."""
        return (self.primary, *self.others)


def choose_records(
    stored: Iterable[Item], edition: Edition | None = None, asked: Sequence[str] = ()
) -> tuple[Choice[Item], ...]:
    """The records that a paper uses of each of its machines, newest machine first.

    Of a machine the newest run of the full plan wins, and older full runs of the same measurement
    are pooled with it; a quick or custom run stands in only where a machine has no full one.  Files
    that are named, by the ``edition`` or ``asked`` for, are used alone.  What is asked for of a
    machine without a role takes the first role that fits it.  Without an edition all machines are
    used.  Raises ``RecordError`` for a name of no record, or for records that cannot be pooled.
    """
    machines: dict[str, list[Item]] = {}
    for item in sorted(runs_of(stored), key=_preference):
        machines.setdefault(item.record.environment.key, []).append(item)
    places = {f: key for key, items in machines.items() for item in items for f in item.files}
    named = dict.fromkeys(asked, "--use")
    if edition:
        cast, compared = _as_named(edition, machines, places)
        named = {**dict.fromkeys(edition.files, f"data/{EDITIONS}"), **named}
    else:
        cast = {role: _key(item) for role, item in filled(i[-1] for i in machines.values()).items()}
        compared = [*machines]
    keys = dict.fromkeys(_place(file, places, "--use") for file in asked)
    displaced = _recast(cast, keys, machines)
    choices = (
        replace(
            _of_machine(machines[key], named),
            roles=tuple(role for role, who in cast.items() if who == key),
        )
        for key in dict.fromkeys((*cast.values(), *displaced, *compared))
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


def _key(item: Named) -> str:
    return item.record.environment.key


def _as_named(
    edition: Edition, machines: _Machines[Item], places: Mapping[str, str]
) -> tuple[dict[Role, str], Iterable[str]]:
    """The machine of each role, and those that are only compared, by their keys."""
    cast: dict[Role, str] = {}
    for role, who in edition.roles.items():
        if not isinstance(who, str):
            keys = dict.fromkeys(_place(file, places, f"data/{EDITIONS}") for file in who)
            if len(keys) != 1:
                raise RecordError(
                    f"data/{EDITIONS}: {role}: found records of {len(keys)} machines; name records "
                    "of one."
                )
            cast[role] = next(iter(keys))
        elif who in machines:
            cast[role] = who
        else:
            raise NoMachineError(
                who,
                f"data/{EDITIONS}: {role}: no record of the machine {who}; the machines are "
                f"{', '.join(machines) or 'none'}.",
            )
    return cast, edition.compared


def _place(file: str, places: Mapping[str, str], by: str) -> str:
    """The key of the machine whose record ``file`` is."""
    if file not in places:
        raise RecordError(f"{by}: no record {file}; correct the name.")
    return places[file]


def _recast(
    cast: dict[Role, str], keys: Iterable[str], machines: _Machines[Item]
) -> tuple[str, ...]:
    """Give each machine of ``keys`` a role in ``cast``; returns those that lost one."""
    asked = dict.fromkeys(keys)
    before = tuple(cast.values())
    for key in asked:
        if key not in cast.values():
            device = machines[key][-1].record.environment.device
            free = (role for role in _FREE[device] if cast.get(role) not in asked)
            if role := next(free, None):
                cast[role] = key
    return tuple(key for key in before if key not in cast.values())


def _preference(item: Named) -> tuple[bool, str, str]:
    return (is_full(item), item.record.started, item.file)


def is_full(item: Named) -> bool:
    """Whether a run is one of the full plan that lacks nothing."""
    return item.record.protocol.plan == "full" and not missing_shards(item)


def kind(item: Named) -> str:
    """What a run is that is no full one, in words."""
    if missing_shards(item):
        return "an incomplete sweep"
    return f"a {item.record.protocol.plan} run"


def _of_machine(items: Sequence[Item], named: Mapping[str, str]) -> Choice[Item]:
    """The choice among the records of one machine, in the order of preference, best last.

    ``named`` are files and who named them; what the user asks for wins over the edition.
    """
    for by in ("--use", f"data/{EDITIONS}"):
        files = {file for file, who in named.items() if who == by}
        if ours := [item for item in items if not files.isdisjoint(item.files)]:
            return _exactly(items, ours, by)
    primary, *rest = reversed(items)
    reasons = {item.file: _why_left(primary, item) for item in rest}
    used = [primary, *(item for item in rest if not reasons[item.file])]
    fullest = max(used, key=lambda item: (len(item.record.attachments), *_preference(item)))
    return Choice(
        fullest,
        tuple(item for item in used if item is not fullest),
        tuple((item, reasons[item.file]) for item in _newest_first(rest) if reasons[item.file]),
    )


def _exactly(items: Sequence[Item], named: Sequence[Item], by: str) -> Choice[Item]:
    """Exactly the records that the user named."""
    primary, *others = _newest_first(named)
    for other in others:
        if why := unlike(primary.record, other.record):
            raise RecordError(
                f"{by}: {primary.file} and {other.file} are both records of {_key(primary)} and "
                f"cannot be pooled, since the latter is {why}; name one of them."
            )
    taken = {item.file for item in named}
    left = (item for item in _newest_first(items) if item.file not in taken)
    return Choice(primary, tuple(others), tuple((i, f"{by} names another") for i in left), by)


def _newest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.record.started, item.file), reverse=True)


def _why_left(primary: Named, item: Named) -> str:
    """Why a record is not used beside the one that speaks for its device; nothing if it is."""
    if is_full(primary) and not is_full(item):
        return f"{kind(item)} beside a full {'run' if missing_shards(item) else 'one'}"
    if not is_full(primary):
        return "older"
    why = unlike(primary.record, item.record)
    return f"older and {why}" if why else ""


def without_contradictions(choice: Choice[Item], read: Callable[[Item], Record]) -> Choice[Item]:
    """The choice less the runs and shards that found another value of what is always the same.

    ``read`` gives the record of a file; it is not called where nothing is pooled or merged.
    """
    if not (choice.others or any(len(item.parts) > 1 for item in choice.used)):
        return choice
    (primary, first, lost), *agreed = (_agreed(item, read) for item in choice.used)
    choice = replace(
        choice,
        primary=primary,
        others=tuple(item for item, _, _ in agreed),
        left=(*lost, *(each for *_, more in agreed for each in more), *choice.left),
    )
    found = {item.file: contradiction(first, record) for item, record, _ in agreed}
    refused = tuple(
        (item, f"not the same measurement: {found[item.file]} as in {short(choice.primary)}")
        for item in choice.others
        if found[item.file]
    )
    kept = tuple(item for item in choice.others if not found[item.file])
    return replace(choice, others=kept, left=(*refused, *choice.left))


def _agreed(
    item: Item, read: Callable[[Item], Record]
) -> tuple[Item, Record, tuple[tuple[Item, str], ...]]:
    """A run of the shards that agree, its record, and the other shards with the reason."""
    if not item.parts:
        return item, read(item), ()
    kept: list[Item] = []
    records: list[Record] = []
    refused = []
    for part in item.parts:
        record = read(part)
        if why := conflict(records, record):
            refused.append((part, f"not merged with {short(item)}: {why} as there"))
        else:
            kept.append(part)
            records.append(record)
    return joined(kept), merged(records), tuple(refused)


def short(item: Named) -> str:
    """The name of a record's file without its folder."""
    return item.file.rpartition("/")[2]
