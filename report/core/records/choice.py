"""Choose the records of each machine that a paper uses, and the roles of the machine.

A role says how a paper uses a machine: ``cpu`` is the processor that sentences describe, ``second``
another processor to compare with, ``gpu`` the GPU.  ``data/editions.yaml`` or the user assigns the
roles.  Without such an edition the machines with the newest full runs get the roles.

The newest full run of a machine is used.  Older full runs of the same measurement are pooled with
the newest, so that papers show the scatter between runs.  The pooled run with most attachments
(files of counters and profilers) is the primary record, since other runs may lack its counts.  A
sweep may be split into shards, which are measured as separate runs; a run with missing shards is
not full.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from report.core.errors import RecordError, unwritable
from report.core.records import EDITIONS, pooling
from report.core.records.store import Stored, start_and_file
from report.core.records.strict import read_strictly, refuse_first

#: Roles of machines: sentences describe ``cpu``, ``second`` and ``gpu``; tables show all roles.
Role: TypeAlias = Literal[
    "cpu", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "gpu",
]  # fmt: skip
ROLES: Final[tuple[Role, ...]] = get_args(Role)
#: Device (CPU or GPU) → roles that its machines may have, in order of preference.
_ROLES_OF_DEVICE: Final[Mapping[str, tuple[Role, ...]]] = {
    "cpu": ("cpu", "second", "third", "fourth"),
    "cuda": ("gpu", "third", "fourth"),
}
#: The option with which a user names records to use.
USE_OPTION: Final = "--use"
#: The file that names records to use, as messages call it.
_EDITIONS_FILE: Final = f"data/{EDITIONS}"
_REMEDY: Final = (
    "write a study as «conv_scaling: {roles: {cpu: <device key>, gpu: [<record>.json]}}»"
)


class Edition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machines of one paper.

    ``roles``: role → key of a machine (whose newest full run is used, pooled with older ones), or
    files of records relative to the data directory; tables show roles in this order.
    ``compared``: keys of machines that appear only in the comparison of all machines.
    ``date``: day that the paper prints, unless a run that it uses is newer.
    """

    roles: dict[Role, str | tuple[str, ...]]
    compared: tuple[str, ...] = ()
    date: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """All files of records that the roles name."""
        files: list[str] = []
        for machine in self.roles.values():
            if not isinstance(machine, str):
                files += machine
        return tuple(files)


def read_editions(data: Path, studies: Collection[str] | None = None) -> dict[str, Edition]:
    """Read the editions of a data directory by study; empty if there is no file of editions.

    Raises ``RecordError`` for an invalid file, an edition without the role ``cpu``, or a name that
    is not in ``studies`` (unless None).
    """
    path = data / EDITIONS
    if not path.exists():
        return {}
    file_type: Any = dict[str, Edition] | None
    editions: dict[str, Edition] = read_strictly(path, file_type, _REMEDY, data) or {}
    for study, edition in editions.items():
        if studies is not None and study not in studies:
            remedy = f"the studies are {', '.join(studies)}"
            refuse_first([f"{study}: found a name that is no study"], path, remedy)
        if "cpu" not in edition.roles:
            remedy = "give this role to the machine that sentences describe"
            refuse_first([f"{study}.roles: cpu is missing"], path, remedy)
    return editions


def write_edition(study: str, edition: Edition, data: Path) -> Path:
    """Replace or append the edition of ``study`` in the file of editions; keep all other lines.

    Returns the path of the file.  Raises ``OutputError`` if it cannot be read or written.
    """
    import yaml

    path = data / EDITIONS
    content: Mapping[str, Any] = {study: msgspec.to_builtins(edition)}
    block = yaml.safe_dump(content, sort_keys=False, width=100)
    try:
        text = path.read_text("utf-8") if path.exists() else ""
        # An edition ends before the next line that begins with another character than space or #.
        old = re.search(rf"^{study}:.*\n(?:[ \t#].*\n|\n)*", text, re.MULTILINE)
        before, after = (text[: old.start()], text[old.end() :]) if old else (text, "")
        path.write_text(f"{before}{block}{after}", "utf-8", newline="\n")
    except OSError as error:
        raise unwritable(error, place=path) from error
    return path


@dataclass(frozen=True)
class Choice:
    """The records of one machine that a paper uses.

    ``used``: the primary record, then the records pooled with it.  ``unused``: other records of the
    machine, each with the reason.  ``named_by``: option or file that names the used records; empty
    if the newest run was chosen.  ``roles``: empty if the machine is only compared.
    """

    used: tuple[Stored, ...]
    unused: tuple[tuple[Stored, str], ...] = ()
    named_by: str = ""
    roles: tuple[Role, ...] = ()

    @property
    def primary(self) -> Stored:
        """The record from which a paper takes numbers that are not pooled."""
        return self.used[0]

    @property
    def key(self) -> str:
        """The key of the machine, such as ``nvidia-h100-80gb-hbm3-af2555``."""
        return self.primary.record.environment.key


Choices: TypeAlias = tuple[Choice, ...]


def choices_of(
    records: Iterable[Stored], edition: Edition | None = None, requested: Sequence[str] = ()
) -> Choices:
    """Choose the records of each machine that a paper uses, newest machine first.

    The newest full run of a machine is used, pooled with older full runs of the same measurement.
    A quick or custom run is used only if the machine has no full run.  If ``requested`` (by the
    user) or else ``edition`` names files of a machine, only these are used.  A machine without a
    role gets the first suitable role if one of its files is requested.  Without an edition, papers
    use all machines.

    Raises ``RecordError`` for a file or a machine that does not exist, for a role with records of
    several machines, and for named records of one machine that cannot be pooled.
    """
    machines: dict[str, list[Stored]] = {}
    for run in sorted(pooling.runs_of(records), key=_rank):
        machines.setdefault(run.record.environment.key, []).append(run)
    key_of_file: dict[str, str] = {}
    for key, runs in machines.items():
        for run in runs:
            key_of_file |= dict.fromkeys(run.files, key)
    files_named_by = {USE_OPTION: requested, _EDITIONS_FILE: edition.files if edition else ()}
    for option_or_file, files in files_named_by.items():
        for file in files:
            if file not in key_of_file:
                raise RecordError(f"{option_or_file}: no record {file}; correct the name.")
    if edition:
        original_roles = _machine_by_role(edition, machines, key_of_file)
        compared_keys: Iterable[str] = edition.compared
    else:
        best_runs = default_roles(runs[-1] for runs in machines.values())
        original_roles = {role: run.record.environment.key for role, run in best_runs.items()}
        compared_keys = machines
    requested_keys = [key_of_file[file] for file in requested]
    machine_by_role = _with_roles_for_requested(original_roles, requested_keys, machines)
    # A machine that lost its role to a requested machine is still compared.
    keys = dict.fromkeys((*machine_by_role.values(), *original_roles.values(), *compared_keys))
    choices = []
    for key in keys:
        if key in machines:
            choice = _without_contradictions(_choose_for_machine(machines[key], files_named_by))
            roles = tuple(role for role, machine in machine_by_role.items() if machine == key)
            choices.append(replace(choice, roles=roles))
    return tuple(sorted(choices, key=attrgetter("primary.record.started"), reverse=True))


def _rank(run: Stored) -> tuple[bool, str, str]:
    """Return the sort key of a run: full runs last, newer runs after older ones."""
    return is_full(run), *start_and_file(run)


def default_roles(runs: Iterable[Stored]) -> dict[Role, Stored]:
    """Assign roles without an edition, first to full runs, and among these to newer runs.

    ``runs`` has one run per machine.  If all are runs of GPUs, the first also gets the role
    ``cpu``, since sentences describe the machine with this role.
    """
    ranked = sorted(runs, key=_rank, reverse=True)
    roles: dict[Role, Stored] = {}
    for device in ("cpu", "cuda"):
        candidates = [run for run in ranked if run.record.environment.device == device]
        free_roles = [role for role in _ROLES_OF_DEVICE[device] if role not in roles]
        roles |= dict(zip(free_roles, candidates, strict=False))
    if "gpu" in roles:
        roles.setdefault("cpu", roles["gpu"])
    return roles


def _machine_by_role(
    edition: Edition, machines: dict[str, list[Stored]], key_of_file: dict[str, str]
) -> dict[Role, str]:
    """Map each role of ``edition`` to the key of its machine.

    A machine is split in two if two roles name different records of the machine, so that a paper
    can use runs that measured different cases.  The records of the second role get the key «machine
    as role» in ``machines`` and in ``key_of_file``.
    """
    machine_by_role: dict[Role, str] = {}
    keys_of_named_files = set[str]()
    for role, key_or_files in edition.roles.items():
        if isinstance(key_or_files, str):
            key = key_or_files
            if key not in machines:
                raise RecordError(
                    f"{_EDITIONS_FILE}: {role}: no record of the machine {key}; the machines are "
                    f"{', '.join(machines) or 'none'}."
                )
            machine_by_role[role] = key
            continue
        keys = {key_of_file[file] for file in key_or_files}
        if len(keys) != 1:
            raise RecordError(
                f"{_EDITIONS_FILE}: {role}: found records of {len(keys)} machines; name records "
                "of one."
            )
        (key,) = keys
        machine_by_role[role] = key
        if key in keys_of_named_files:
            machine_by_role[role] = f"{key} as {role}"
            named = [run for run in machines[key] if not {*key_or_files}.isdisjoint(run.files)]
            machines[key] = [run for run in machines[key] if run not in named]
            machines[f"{key} as {role}"] = named
            key_of_file |= dict.fromkeys(key_or_files, f"{key} as {role}")
        keys_of_named_files.add(key)
    return machine_by_role


def _with_roles_for_requested(
    original_roles: Mapping[Role, str],
    requested_keys: Sequence[str],
    machines: Mapping[str, Sequence[Stored]],
) -> dict[Role, str]:
    """Give each requested machine a role that suits its device, if it has none.

    It may replace a machine that is not requested.
    """
    machine_by_role = dict(original_roles)
    for key in requested_keys:
        if key in machine_by_role.values():
            continue
        device = machines[key][-1].record.environment.device
        for role in _ROLES_OF_DEVICE[device]:
            if machine_by_role.get(role) not in requested_keys:
                machine_by_role[role] = key
                break
    return machine_by_role


def _choose_for_machine(
    runs: Sequence[Stored], files_named_by: Mapping[str, Sequence[str]]
) -> Choice:
    """Choose among the ``runs`` of one machine, which are in the order of ``_rank``.

    ``files_named_by``: option or file → records that it names.  The first entry with a record of
    this machine decides; without such an entry all full runs that can be pooled are used.
    """
    newest_first = sorted(runs, key=start_and_file, reverse=True)
    for option_or_file, files in files_named_by.items():
        chosen = [run for run in newest_first if not set(files).isdisjoint(run.files)]
        if not chosen:
            continue
        newest, *older = chosen
        for run in older:
            if reason := pooling.why_not_pooled(newest.record, run.record):
                raise RecordError(
                    f"{option_or_file}: {newest.file} and {run.file} are both records of "
                    f"{run.record.environment.key} and cannot be pooled, since the latter "
                    f"is {reason}; name one of them."
                )
        others = [run for run in newest_first if run not in chosen]
        unused = [(run, f"{option_or_file} names another") for run in others]
        return Choice(tuple(chosen), tuple(unused), option_or_file)
    used: list[Stored] = []
    unused = []
    for run in newest_first:
        if reason := _why_not_pooled(runs[-1], run):
            unused.append((run, reason))
        else:
            used.append(run)
    used.sort(key=lambda run: len(run.record.attachments), reverse=True)
    return Choice(tuple(used), tuple(unused))


def _why_not_pooled(newest: Stored, run: Stored) -> str:
    """Return why ``run`` is not pooled with ``newest``, the newest full run; empty if it is.

    ``newest`` is the newest run of the machine if none is full.
    """
    if run is newest:
        return ""
    if not is_full(newest):
        return "older"
    if not is_full(run):
        return f"{describe_incomplete(run)} beside a full one"
    reason = pooling.why_not_pooled(newest.record, run.record)
    return f"older and {reason}" if reason else ""


def _without_contradictions(choice: Choice) -> Choice:
    """Move shards whose layers, counts or bytes contradict earlier ones to ``unused``.

    A run without shards counts as one shard here.
    """
    earlier_values: pooling.DeterministicValues = {}
    used: list[Stored] = []
    refused: list[tuple[Stored, str]] = []
    for run in choice.used:
        agreeing: list[Stored] = []
        for shard in run.shards:
            values = pooling.deterministic_values(shard.record)
            if difference := pooling.first_contradiction(earlier_values, values):
                primary = Path(choice.primary.file).name
                reason = f"not the same measurement: {difference} as in {primary}"
                refused.append((shard, reason))
            else:
                agreeing.append(shard)
                earlier_values |= values
        if len(agreeing) == len(run.shards):
            used.append(run)
        else:
            used += pooling.runs_of(agreeing)
    return replace(choice, used=tuple(used), unused=(*refused, *choice.unused))


def is_full(run: Stored) -> bool:
    """Tell whether a run measured the full plan and lacks no shard."""
    return run.record.protocol.plan == "full" and not pooling.missing_shards(run)


def plan_text(run: Stored) -> str:
    """Name the plan of a run, with the number of shards if some are missing."""
    plan = f"{run.record.protocol.plan} plan"
    missing = pooling.missing_shards(run)
    if not missing:
        return plan
    present = len(run.parts)
    return f"{present:,} of {present + len(missing):,} shards of the {plan}"


def describe_incomplete(run: Stored) -> str:
    """Describe a run that is not full: its plan, or the number of missing shards."""
    if missing := pooling.missing_shards(run):
        return f"a sweep that lacks {len(missing):,} of {len(missing) + len(run.parts):,} shards"
    return f"a {run.record.protocol.plan} run"


def use_in_build(choices: Iterable[Choice], file: str) -> tuple[bool, str]:
    """Return whether a build uses the record ``file``, and how it is used or why it is not."""
    for choice in choices:
        if choice.primary.file == file:
            return True, _describe_use(choice)
        for run, reason in choice.unused:
            if file in run.files:
                return False, f"not used, {reason}"
        for run in choice.used:
            if run.file == file:
                return True, f"pooled with {Path(choice.primary.file).name}"
            for part in run.parts:
                shard = part.record.shard
                if part.file == file and shard:
                    number = f"shard {shard.number} of {shard.of}"
                    return True, f"merged with {Path(run.file).name}, {number}"
    return False, f"not used, {_EDITIONS_FILE} names other machines"


def _describe_use(choice: Choice) -> str:
    """Describe the roles of a machine's primary record, and why it was chosen."""
    run, *others = choice.used
    if choice.named_by:
        reason = f"named by {choice.named_by}"
        if not is_full(run):
            reason += f", {describe_incomplete(run)}"
    elif not is_full(run):
        incomplete = describe_incomplete(run)
        reason = f"{incomplete} that stands in for this machine, which has no full one"
    elif all(other.record.started <= run.record.started for other in others):
        reason = "the newest full run of its machine"
    else:
        reason = "a full run of its machine that kept more files than newer ones"
    use = f"as {' and '.join(choice.roles)} machine" if choice.roles else "for comparison"
    pooled = ""
    if others:
        pooled = f", pooled with {len(others)} other run{'s' if len(others) > 1 else ''}"
    return f"used {use}, {reason}{pooled}"
