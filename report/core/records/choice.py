"""Choose the records of each machine that a paper uses, and the role of the machine.

``data/editions.yaml`` or the user assigns roles to machines; otherwise roles follow from the rank
of the runs.  The newest full run of a machine is used.  Older full runs of the same measurement are
pooled with it, so that papers show the scatter between runs.  The pooled run with most attachments
is the primary record, since other runs may lack its counts.  A run with missing shards is not full.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from report.core.errors import RecordError, unwritable
from report.core.records import pooling
from report.core.records.store import Stored, start_and_file
from report.core.records.strict import read_strictly, refuse_first

#: Roles of machines: sentences use ``cpu``, ``second`` and ``gpu``; tables show all roles.
Role: TypeAlias = Literal[
    "cpu", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "gpu"
]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
#: Device → roles that its machines may have, in order of preference.
_ROLES_OF_DEVICE: Final[Mapping[str, tuple[Role, ...]]] = {
    "cpu": ("cpu", "second", "third", "fourth"),
    "cuda": ("gpu", "third", "fourth"),
}
EDITIONS: Final = "editions.yaml"
#: The option that names records, and below the file that names records, for messages.
USE: Final = "--use"
_EDITION: Final = f"data/{EDITIONS}"
_REMEDY: Final = (
    "write a study as «conv_scaling: {roles: {cpu: <device key>, gpu: [<record>.json]}}»"
)
#: Key of a machine → its runs, best last.
_Machines: TypeAlias = Mapping[str, Sequence[Stored]]

# ------------------------------------------------------------------------------------- editions


class Edition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machines of one paper.

    ``roles``: role → device key (for the newest full run of the device, with all runs pooled), or
    files of records relative to the data directory; tables show roles in this order.
    ``compared``: keys of devices that appear only in the comparison of all machines.
    ``date``: day of the edition; a paper with a newer run has the day of that run.
    """

    roles: dict[Role, str | tuple[str, ...]]
    compared: tuple[str, ...] = ()
    date: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """All files of records that the roles name."""
        named = (files for files in self.roles.values() if not isinstance(files, str))
        return tuple(chain.from_iterable(named))


def read_editions(data: Path, studies: Collection[str] | None = None) -> dict[str, Edition]:
    """Read the editions of a data directory by study; empty without a file.

    Raises ``RecordError`` for an invalid file, or for a name outside ``studies`` (if given).
    """
    path = data / EDITIONS
    if not path.exists():
        return {}
    file: Any = dict[str, Edition] | None
    editions: dict[str, Edition] = read_strictly(path, file, _REMEDY, data) or {}
    for study, edition in editions.items():
        if studies is not None and study not in studies:
            remedy = f"the studies are {', '.join(studies)}"
            refuse_first([f"{study}: found a name that is no study"], path, remedy)
        if "cpu" not in edition.roles:
            remedy = "give this role to the machine that sentences describe"
            refuse_first([f"{study}.roles: cpu is missing"], path, remedy)
    return editions


def write_edition(study: str, edition: Edition, data: Path) -> Path:
    """Replace the edition of ``study`` in ``data/editions.yaml``; other lines stay unchanged.

    Returns the path of the file.  Raises ``OutputError`` if it cannot be written.
    """
    import yaml

    path = data / EDITIONS
    content: Mapping[str, Any] = {study: msgspec.to_builtins(edition)}
    block = yaml.safe_dump(content, sort_keys=False, width=100)
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        # A study ends before the next line that begins with neither a space nor a hash.
        old = re.search(rf"^{study}:.*\n(?:[ \t#].*\n|\n)*", text, re.MULTILINE)
        begin, end = old.span() if old else (len(text), len(text))
        path.write_text(f"{text[:begin]}{block}{text[end:]}", "utf-8", newline="\n")
    except OSError as error:
        raise unwritable(error, place=path) from error
    return path


# --------------------------------------------------------------------------------------- choice


@dataclass(frozen=True)
class Choice:
    """The records of one machine that a paper uses.

    ``used``: the primary record, then the records pooled with it.  ``left``: unused records with
    the reason, newest first.  ``by``: the option or file that named the records; empty if the
    newest run was chosen.  ``roles``: empty if the machine is only compared.
    """

    used: tuple[Stored, ...]
    left: tuple[tuple[Stored, str], ...] = ()
    by: str = ""
    roles: tuple[Role, ...] = ()

    @property
    def primary(self) -> Stored:
        """The record that single numbers of the machine come from."""
        return self.used[0]

    @property
    def key(self) -> str:
        """The key of the machine."""
        return self.primary.record.environment.key


Choices: TypeAlias = tuple[Choice, ...]


def choices_of(
    records: Iterable[Stored], edition: Edition | None = None, requested: Sequence[str] = ()
) -> Choices:
    """Choose the records of each machine that a paper uses, newest machine first.

    The newest full run of a machine is used, pooled with older full runs of the same measurement.
    A quick or custom run is used only if the machine has no full run.  If ``edition`` or
    ``requested`` (by the user) names files of a machine, only these are used.  A machine without a
    role gets the first suitable role if a file is requested.  Without edition, all machines count.

    Raises ``RecordError`` for a name of no record, or for named records that cannot be pooled.
    """
    machines: dict[str, list[Stored]] = {}
    for run in sorted(pooling.runs_of(records), key=_rank):
        machines.setdefault(run.record.environment.key, []).append(run)
    key_of = {f: key for key, runs in machines.items() for run in runs for f in run.files}
    named = {USE: requested, _EDITION: edition.files if edition else ()}
    for by, files in named.items():
        for file in files:
            if file not in key_of:
                raise RecordError(f"{by}: no record {file}; correct the name.")
    if edition:
        _separate_roles(edition, machines, key_of)
    original = _machine_by_role(edition, machines, key_of)
    final = _with_requested(original, [key_of[file] for file in requested], machines)
    compared = edition.compared if edition else machines
    choices = []
    for key in dict.fromkeys((*final.values(), *original.values(), *compared)):
        if key in machines:
            choice = _without_contradictions(_of_machine(machines[key], named))
            roles = tuple(role for role, machine in final.items() if machine == key)
            choices.append(replace(choice, roles=roles))
    return tuple(sorted(choices, key=attrgetter("primary.record.started"), reverse=True))


def _separate_roles(
    edition: Edition, machines: dict[str, list[Stored]], key_of: dict[str, str]
) -> None:
    """Enter a machine twice in ``machines`` if two roles name different records of it.

    A paper can thus use runs of one machine that measured different cases.
    """
    earlier = set[str]()
    for role, files in edition.roles.items():
        keys = set() if isinstance(files, str) else {key_of[file] for file in files}
        for key in keys & earlier:
            of_role = [run for run in machines[key] if not {*files}.isdisjoint(run.files)]
            machines[key] = [run for run in machines[key] if run not in of_role]
            machines[f"{key} as {role}"] = of_role
            key_of |= dict.fromkeys(files, f"{key} as {role}")
        earlier |= keys


def _rank(run: Stored) -> tuple[bool, str, str]:
    """Return the sort key of a run; the best run of a machine sorts last."""
    return is_full(run), *start_and_file(run)


def default_roles(runs: Iterable[Stored]) -> dict[Role, Stored]:
    """Assign roles without an edition: full runs first, then the newest.

    Without a CPU a GPU also has the role ``cpu``, the machine that sentences describe.
    """
    ranked = sorted(runs, key=_rank, reverse=True)
    roles: dict[Role, Stored] = {}
    for device in ("cpu", "cuda"):
        candidates = (run for run in ranked if run.record.environment.device == device)
        free = (role for role in _ROLES_OF_DEVICE[device] if role not in roles)
        roles |= dict(zip(free, candidates, strict=False))
    if "gpu" in roles:
        roles.setdefault("cpu", roles["gpu"])
    return roles


def _machine_by_role(
    edition: Edition | None, machines: _Machines, key_of: Mapping[str, str]
) -> dict[Role, str]:
    """Map each role to the key of its machine; without an edition by the rank of the runs."""
    if edition is None:
        best = default_roles(runs[-1] for runs in machines.values())
        return {role: run.record.environment.key for role, run in best.items()}
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


def _with_requested(
    original: Mapping[Role, str], requested: Iterable[str], machines: _Machines
) -> dict[Role, str]:
    """Assign the first suitable role to each requested machine without a role."""
    machine_by_role, keys = dict(original), dict.fromkeys(requested)
    for key in keys:
        if key in machine_by_role.values():
            continue
        device = machines[key][-1].record.environment.device
        free = (role for role in _ROLES_OF_DEVICE[device] if machine_by_role.get(role) not in keys)
        if role := next(free, None):
            machine_by_role[role] = key
    return machine_by_role


def _of_machine(runs: Sequence[Stored], named: Mapping[str, Sequence[str]]) -> Choice:
    """Choose among the ``runs`` of one machine, best last.

    ``named``: option or file → records.  The first entry with a record of this machine decides.
    """
    newest = sorted(runs, key=start_and_file, reverse=True)
    for by, files in named.items():
        if chosen := [run for run in newest if not set(files).isdisjoint(run.files)]:
            for other in chosen[1:]:
                if why := pooling.why_not_pooled(chosen[0].record, other.record):
                    raise RecordError(
                        f"{by}: {chosen[0].file} and {other.file} are both records of "
                        f"{other.record.environment.key} and cannot be pooled, since the latter "
                        f"is {why}; name one of them."
                    )
            left = tuple((run, f"{by} names another") for run in newest if run not in chosen)
            return Choice(tuple(chosen), left, by)
    reasons = {run.file: _why_unused(runs[-1], run) for run in newest}
    used = [run for run in newest if not reasons[run.file]]
    used.sort(key=lambda run: len(run.record.attachments), reverse=True)
    left = tuple((run, reasons[run.file]) for run in newest if reasons[run.file])
    return Choice(tuple(used), left)


def _why_unused(best: Stored, run: Stored) -> str:
    """Return why ``run`` is not pooled with the ``best`` run; empty if it is pooled."""
    if run is best:
        return ""
    if not is_full(best):
        return "older"
    if not is_full(run):
        return f"{describe_incomplete(run)} beside a full one"
    why = pooling.why_not_pooled(best.record, run.record)
    return f"older and {why}" if why else ""


def _without_contradictions(choice: Choice) -> Choice:
    """Move runs and shards to ``left`` whose deterministic values contradict earlier runs."""
    known: pooling.DeterministicValues = {}
    used: list[Stored] = []
    refused: list[tuple[Stored, str]] = []
    for run in choice.used:
        agreeing: list[Stored] = []
        for part in run.shards:
            values = pooling.deterministic_values(part.record)
            if why := pooling.first_contradiction(known, values):
                reason = f"not the same measurement: {why} as in {_file_name(choice.primary)}"
                refused.append((part, reason))
            else:
                agreeing.append(part)
                known |= values
        used += [run] if len(agreeing) == len(run.shards) else pooling.runs_of(agreeing)
    return replace(choice, used=tuple(used), left=(*refused, *choice.left))


# ---------------------------------------------------------------------------------------- words


def is_full(run: Stored) -> bool:
    """Tell whether a run measured the full plan and lacks no shard."""
    return run.record.protocol.plan == "full" and not pooling.missing_shards(run)


def plan_text(run: Stored) -> str:
    """Name the plan of a run, with the number of shards if some are missing."""
    plan = f"{run.record.protocol.plan} plan"
    if missing := pooling.missing_shards(run):
        return f"{len(run.parts):,} of {len(missing) + len(run.parts):,} shards of the {plan}"
    return plan


def describe_incomplete(run: Stored) -> str:
    """Describe a run that is not full: its plan, or the number of missing shards."""
    if missing := pooling.missing_shards(run):
        return f"a sweep that lacks {len(missing):,} of {len(missing) + len(run.parts):,} shards"
    return f"a {run.record.protocol.plan} run"


def use_in_build(choices: Iterable[Choice], file: str) -> tuple[bool, str]:
    """Return whether a build uses the record ``file``, and its role or the reason why not."""
    for choice in choices:
        if choice.primary.file == file:
            return True, _role_of(choice)
        for run, why in choice.left:
            if file in run.files:
                return False, f"not used, {why}"
        for run in choice.used:
            if run.file == file:
                return True, f"pooled with {_file_name(choice.primary)}"
            for part in run.parts:
                if part.file == file and (shard := part.record.shard):
                    of = f"shard {shard.number} of {shard.of}"
                    return True, f"merged with {_file_name(run)}, {of}"
    return False, f"not used, {_EDITION} names other machines"


def _role_of(choice: Choice) -> str:
    """Describe why the primary record of a machine was chosen, and its roles."""
    run, *others = choice.used
    if choice.by:
        what = f"as {choice.by} names it"
        what += "" if is_full(run) else f", {describe_incomplete(run)}"
    elif not is_full(run):
        what = f"{describe_incomplete(run)} that stands in for this machine, which has no full one"
    elif all(other.record.started <= run.record.started for other in others):
        what = "the newest full run of its machine"
    else:
        what = "a full run of its machine that kept more files than newer ones"
    roles = " and ".join(choice.roles)
    more = f", pooled with {len(others)} other run{'s' if others[1:] else ''}" if others else ""
    return f"used {f'as {roles}' if roles else 'for comparison'}, {what}{more}"


def _file_name(run: Stored) -> str:
    return run.file.rpartition("/")[2]
