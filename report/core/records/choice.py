"""Choose the records that a paper uses of each machine, the machine's role, and why others are not.

``data/editions.yaml`` or the user names the machines and their roles; without either the roles are
filled by rank.  The newest full run speaks for a machine.  Older full runs of the same measurement
are pooled with it, so that the scatter between runs shows; the pooled run with most attachments
speaks for all, since it has counts that others may lack.  The shards of a run are merged first; a
run with missing shards is not full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias

from report.core.errors import RecordError
from report.core.records.editions import EDITIONS, Edition, Role
from report.core.records.pooling import (
    DeterministicValues,
    deterministic_values,
    first_contradiction,
    missing_shards,
    runs_of,
    why_not_pooled,
)
from report.core.records.record import Head, Record
from report.core.records.store import Filed, Item, Kind_co, Listed, Stored

#: Roles that a machine of a device may take, in order of preference.
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
    """The records of one machine, and its roles; none if the machine is only compared.

    The first record of ``used`` speaks for the machine; the others are pooled with it.  ``left``
    are the unused records with the reason, newest first.  ``by`` is the option or file that named
    the records, empty where the newest run was chosen.
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
    """Choose the records that a paper uses of each of its machines, newest machine first.

    Per machine the newest run of the full plan wins, and older full runs of the same measurement
    are pooled with it; a quick or custom run is used only for a machine without a full one.  Files
    named by the ``edition`` or ``asked`` for by the user are used alone.  A machine of an asked
    file that has no role takes the first role that fits it.  Without an edition all machines are
    used.

    Raises ``RecordError`` for a name of no record, or for named records that cannot be pooled.
    """
    machines: dict[str, list[Listed]] = {}
    for item in sorted(runs_of(listed), key=_rank):
        machines.setdefault(item.record.environment.key, []).append(item)
    key_of = {f: key for key, items in machines.items() for item in items for f in item.files}
    named = {_USE: asked, _EDITION: edition.files if edition else ()}
    for by, files in named.items():
        for file in files:
            if file not in key_of:
                raise RecordError(f"{by}: no record {file}; correct the name.")
    original = _machine_by_role(edition, machines, key_of)
    final = _with_asked(original, [key_of[file] for file in asked], machines)
    compared = edition.compared if edition else machines
    choices = []
    for key in dict.fromkeys((*final.values(), *original.values(), *compared)):
        if key in machines:
            roles = tuple(role for role, machine in final.items() if machine == key)
            choices.append(replace(_of_machine(machines[key], named), roles=roles))
    return tuple(sorted(choices, key=_start_of_primary, reverse=True))


def _rank(item: Listed) -> tuple[bool, str, str]:
    """Order runs of one machine from worst to best."""
    return is_full(item), item.record.started, item.file


def _full_and_start(item: Listed) -> tuple[bool, str]:
    return is_full(item), item.record.started


def _start_of_primary(choice: Choice[Head]) -> str:
    return choice.primary.record.started


def default_roles(items: Iterable[Item]) -> dict[Role, Item]:
    """Assign roles without an edition: full runs first, then the newest.

    Without a CPU a GPU also plays the role ``cpu``, since sentences need a machine to describe.
    """
    ranked = sorted(items, key=_full_and_start, reverse=True)
    roles: dict[Role, Item] = {}
    for device in ("cpu", "cuda"):
        candidates = (item for item in ranked if item.record.environment.device == device)
        free = (role for role in _FREE[device] if role not in roles)
        roles |= dict(zip(free, candidates, strict=False))
    if "gpu" in roles:
        roles.setdefault("cpu", roles["gpu"])
    return roles


def _machine_by_role(
    edition: Edition | None, machines: _Machines, key_of: Mapping[str, str]
) -> dict[Role, str]:
    """Map each role to the key of its machine, which the edition names by key or by files."""
    if edition is None:
        best = default_roles(items[-1] for items in machines.values())
        return {role: item.record.environment.key for role, item in best.items()}
    machine_by_role: dict[Role, str] = {}
    for role, named in edition.roles.items():
        keys = {named} if isinstance(named, str) else {key_of[file] for file in named}
        if len(keys) != 1:
            raise RecordError(
                f"{_EDITION}: {role}: found records of {len(keys)} machines; name records of one."
            )
        (key,) = keys
        if key not in machines:
            raise RecordError(
                f"{_EDITION}: {role}: no record of the machine {named}; the machines are "
                f"{', '.join(machines) or 'none'}."
            )
        machine_by_role[role] = key
    return machine_by_role


def _with_asked(
    original: Mapping[Role, str], asked: Iterable[str], machines: _Machines
) -> dict[Role, str]:
    """Give each machine of ``asked`` without a role the first role that fits it."""
    machine_by_role, keys = dict(original), dict.fromkeys(asked)
    for key in keys:
        if key in machine_by_role.values():
            continue
        device = machines[key][-1].record.environment.device
        free = (role for role in _FREE[device] if machine_by_role.get(role) not in keys)
        if role := next(free, None):
            machine_by_role[role] = key
    return machine_by_role


def is_full(item: Listed) -> bool:
    """Tell whether a run has the full plan and all its shards."""
    return item.record.protocol.plan == "full" and not missing_shards(item)


def plan_text(item: Filed[Head]) -> str:
    """Name the plan of a run, with the number of its shards if some are missing."""
    plan = f"{item.record.protocol.plan} plan"
    if missing := missing_shards(item):
        return f"{len(item.parts):,} of {len(missing) + len(item.parts):,} shards of the {plan}"
    return plan


def describe_incomplete(item: Listed) -> str:
    """Describe an incomplete run."""
    if missing := missing_shards(item):
        return f"a sweep that lacks {len(missing):,} of {len(missing) + len(item.parts):,} shards"
    return f"a {item.record.protocol.plan} run"


def _of_machine(items: Sequence[Listed], named: Mapping[str, Sequence[str]]) -> Choice[Head]:
    """Choose among the records of one machine, which come in order of preference, best last.

    ``named`` maps an option or file to the records that it names; the first that names one wins.
    """
    newest = sorted(items, key=_start_and_file, reverse=True)
    for by, files in named.items():
        if chosen := [item for item in newest if not set(files).isdisjoint(item.files)]:
            _refuse_different(chosen, by)
            left = tuple((item, f"{by} names another") for item in newest if item not in chosen)
            return Choice(tuple(chosen), left, by)
    used: list[Listed] = []
    unused: list[tuple[Listed, str]] = []
    for item in newest:
        if item is not items[-1] and (why := _why_unused(items[-1], item)):
            unused.append((item, why))
        else:
            used.append(item)
    used.sort(key=_attachment_count, reverse=True)
    return Choice(tuple(used), tuple(unused))


def _start_and_file(item: Listed) -> tuple[str, str]:
    return item.record.started, item.file


def _attachment_count(item: Listed) -> int:
    return len(item.record.attachments)


def _refuse_different(named: Sequence[Listed], by: str) -> None:
    first, *others = named
    for other in others:
        if why := why_not_pooled(first.record, other.record):
            raise RecordError(
                f"{by}: {first.file} and {other.file} are both records of "
                f"{first.record.environment.key} and cannot be pooled, since the latter is {why}; "
                "name one of them."
            )


def _why_unused(best: Listed, item: Listed) -> str:
    """Say why a record is not pooled with the best one of its machine; empty if it is."""
    if not is_full(best):
        return "older"
    if not is_full(item):
        return f"{describe_incomplete(item)} beside a full one"
    why = why_not_pooled(best.record, item.record)
    return f"older and {why}" if why else ""


def without_contradictions(choice: Choice[Head], whole: Mapping[str, Stored]) -> Choice[Record]:
    """Load a choice from ``whole`` records by file, and merge the shards of each run.

    Runs and shards that contradict a deterministic value of earlier ones move to ``left``.
    """
    known: DeterministicValues = {}
    used: list[Stored] = []
    refused = []
    for item in choice.used:
        parts = []
        for part in item.shards:
            values = deterministic_values(whole[part.file].record)
            if why := first_contradiction(known, values):
                reason = f"not the same measurement: {why} as in {_short(choice.primary)}"
                refused.append((part, reason))
            else:
                parts.append(whole[part.file])
                known |= values
        used += runs_of(parts)
    return Choice(tuple(used), (*refused, *choice.left), choice.by, choice.roles)


# ---------------------------------------------------------------------------------------- words


def use_in_build(choices: Iterable[Choice[Head]], file: str) -> tuple[bool, str]:
    """Tell whether a build uses the record ``file``, and in which role or why not."""
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
    """Describe the record that speaks for its machine, and its roles."""
    item, *others = choice.used
    if choice.by:
        what = f"as {choice.by} names it" + (
            "" if is_full(item) else f", {describe_incomplete(item)}"
        )
    elif not is_full(item):
        what = f"{describe_incomplete(item)} that stands in for this machine, which has no full one"
    elif all(other.record.started <= item.record.started for other in others):
        what = "the newest full run of its machine"
    else:
        what = "a full run of its machine that kept more files than newer ones"
    roles = " and ".join(choice.roles)
    more = f", pooled with {len(others)} other run{'s' if others[1:] else ''}" if others else ""
    return f"used {f'as {roles}' if roles else 'for comparison'}, {what}{more}"


def _short(item: Listed) -> str:
    return item.file.rpartition("/")[2]
