"""Find records of one measurement: shards that form one run, and runs that are pooled.

A sweep may be split into n shards, one per machine of the same kind.  Shard i measures bytes,
counts and files of the cases i, i + n, i + 2n and so on.  Several processes measure times, each of
them the times of all cases; shard i starts the processes i, i + n, i + 2n and so on.  Cases are
thus compared within a process, never between machines.  If a shard was measured twice, the newest
record counts.

Two records may be pooled if code, protocol, environment and all deterministic values are equal.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from report.core.records.layers import Layer
from report.core.records.quantities import FIXED
from report.core.records.record import (
    Attachment,
    Case,
    Ceiling,
    Head,
    Level,
    Record,
    Round,
    Shard,
    Status,
)
from report.core.records.store import Stored

#: (factors of a case, quantity or ``layers``) → value that is equal in every run of a measurement.
DeterministicValues: TypeAlias = dict[tuple[frozenset[tuple[str, Level]], str], Any]
#: Option that makes a run a shard; part of the command in its record.
SHARD_OPTION: Final = "--shard"
#: Fields of a host that are equal on all machines of one kind.
_HOST_FIELDS: Final = ("vendor", "family", "model", "stepping", "flags", "virtualisation")
#: Fields of an environment that affect measurements; others, such as loads and names, do not.
_ENVIRONMENT_FIELDS: Final = (
    "device", "key", "cpu", "gpu", "threads", "torch", "precision", "variables",
)  # fmt: skip


def why_not_pooled(one: Head, other: Head) -> str | None:
    """Describe why run ``other`` must not be pooled with run ``one``; None if it may be.

    The description completes «the run is …».  Records of old formats, which do not state the number
    of processes, are never pooled.
    """
    if not (one.protocol.processes and other.protocol.processes):
        return "of a format that is not pooled"
    if one.code.measuring_code != other.code.measuring_code:
        return "measured by other code"
    if fields := _unequal_fields(one.protocol, other.protocol, one.protocol.__struct_fields__):
        return f"measured by another protocol ({', '.join(fields)})"
    fields = _unequal_fields(one.environment, other.environment, _ENVIRONMENT_FIELDS)
    if _unequal_fields(one.environment.host, other.environment.host, _HOST_FIELDS):
        fields.append("host")
    return f"measured with another {', '.join(fields)}" if fields else None


def _unequal_fields(one: object, other: object, fields: Iterable[str]) -> list[str]:
    """List the names in ``fields`` for which two objects have different values, or only one has."""
    return [name for name in fields if getattr(one, name, ()) != getattr(other, name, ())]


def deterministic_values(record: Record) -> DeterministicValues:
    """Collect the layers and deterministic quantities of all cases with status ok.

    A quantity that varies within the run is left out, since it cannot contradict another run.
    """
    values: DeterministicValues = {}
    for case in record.cases:
        if case.status != "ok":
            continue
        key = frozenset(case.factors.items())
        values[key, "layers"] = case.layers
        distinct: defaultdict[str, set[float]] = defaultdict(set)
        ok_rounds = (round_.series for round_ in case.rounds if round_.status == "ok")
        for series in (case.series, *ok_rounds):
            for quantity, samples in series.items():
                if quantity in FIXED:
                    distinct[quantity].update(samples)
        for quantity, distinct_values in distinct.items():
            if len(distinct_values) == 1:
                values[key, quantity] = distinct_values.pop()
    return values


def first_contradiction(earlier: DeterministicValues, new: DeterministicValues) -> str | None:
    """Describe the first value that differs between two runs of one measurement, or return None.

    Layers, counts and byte sizes of one measurement never vary; runs in which they differ must not
    be pooled.
    """
    for (factors, quantity), value in new.items():
        earlier_value = earlier.get((factors, quantity), value)
        if earlier_value == value:
            continue
        case = ", ".join(f"{factor} {level}" for factor, level in sorted(factors))
        if quantity == "layers":
            return f"other layers ran for {case}"
        return f"{quantity} is {value:,}, not {earlier_value:,}, for {case}"
    return None


def measures_case(shard: Shard | None, index: int) -> bool:
    """Tell whether a shard (or a run without shards) measures bytes and counts of a case.

    ``index``: position of the case in the plan, from 0.
    """
    return shard is None or index % shard.of == shard.number - 1


def measures_process(shard: Shard | None, process: int) -> bool:
    """Tell whether a shard starts process number ``process`` (from 1) of every memory policy."""
    return measures_case(shard, process - 1)


def runs_of(records: Iterable[Stored]) -> tuple[Stored, ...]:
    """Merge the shards of each run into one record; return runs with the newest shards first.

    If a shard was measured twice, its older record is part of a second run.
    """
    runs: list[list[Stored]] = []
    for stored in sorted(records, key=attrgetter("record.started"), reverse=True):
        for run in runs:
            if _is_missing_shard(run, stored):
                run.append(stored)
                break
        else:
            runs.append([stored])
    merged_runs: list[Stored] = []
    for run in runs:
        parts = tuple(sorted(run, key=_shard_number))
        if parts[0].record.shard:
            record = merge_shards([part.record for part in parts])
            merged_runs.append(replace(parts[0], record=record, parts=parts))
        else:
            merged_runs.append(parts[0])
    return tuple(merged_runs)


def _is_missing_shard(run: Sequence[Stored], stored: Stored) -> bool:
    """Tell whether a record is a shard of the same sweep as ``run``, and ``run`` lacks it."""
    one, other = run[0].record, stored.record
    if one.shard is None or other.shard is None or why_not_pooled(one, other):
        return False
    same_sweep = (one.shard.sweep, one.shard.of) == (other.shard.sweep, other.shard.of)
    is_new = all(other.shard.number != _shard_number(part) for part in run)
    same_cases = [case.factors for case in one.cases] == [case.factors for case in other.cases]
    return same_sweep and is_new and same_cases


def _shard_number(part: Stored) -> int:
    """Return the number of a shard (from 1); 0 for a run without shards."""
    return part.record.shard.number if part.record.shard else 0


def missing_shards(run: Stored) -> tuple[int, ...]:
    """Return the numbers of the shards that a run lacks; empty for a run without shards."""
    shard = run.parts[0].record.shard if run.parts else None
    if shard is None:
        return ()
    present = {_shard_number(part) for part in run.parts}
    return tuple(number for number in range(1, shard.of + 1) if number not in present)


def merge_shards(shards: Sequence[Record]) -> Record:
    """Merge shards with the same cases into one run; samples follow the order of ``shards``."""
    first = shards[0]
    missing: dict[str, str] = {}
    attachments: dict[str, Attachment] = {}
    for shard in reversed(shards):  # entries of earlier shards replace entries of later shards
        missing |= shard.environment.missing
        attachments |= {attachment.name: attachment for attachment in shard.attachments}
    return msgspec.structs.replace(
        first,
        started=min(shard.started for shard in shards),
        finished=max(shard.finished for shard in shards),
        command=without_option(first.command, SHARD_OPTION),
        environment=msgspec.structs.replace(first.environment, missing=missing),
        ceilings=merge_ceilings(chain.from_iterable(shard.ceilings for shard in shards)),
        cases=tuple(_merge_case(shards, index) for index in range(len(first.cases))),
        attachments=tuple(attachments.values()),
        shard=None,
    )


def without_option(command: tuple[str, ...], option: str) -> tuple[str, ...]:
    """Remove an option and its argument from the command of a run."""
    if option in command:
        position = command.index(option)
        return (*command[:position], *command[position + 2 :])
    return tuple(word for word in command if not word.startswith(f"{option}="))


def _merge_case(shards: Sequence[Record], index: int) -> Case:
    """Merge case ``index``: series from the shard that measured them, rounds from all shards."""
    merged_case = shards[0].cases[index]
    rounds: list[Round] = []
    layers: tuple[Layer, ...] = ()
    for shard in shards:
        case = shard.cases[index]
        if measures_case(shard.shard, index):
            if case.status != "ok" and not case.rounds:
                return case  # a run without shards would not have timed this case either
            merged_case = case
        layers = layers or case.layers
        rounds += [_renumber_process(round_, shard) for round_ in case.rounds]
    rounds.sort(key=attrgetter("process"))
    merged_case = msgspec.structs.replace(merged_case, layers=layers, rounds=tuple(rounds))
    if not rounds:
        return merged_case
    status, reason = outcome_of_rounds(rounds)
    return msgspec.structs.replace(merged_case, status=status, reason=reason)


def _renumber_process(round_: Round, record: Record) -> Round:
    """Give the process of a round of a shard its number within the whole run.

    Planned processes already have this number.  Each shard numbers the processes that repeat
    disturbed ones after the planned processes; here they get numbers that differ between shards.
    """
    planned = record.protocol.processes.get(round_.policy or "default", 0)
    repeat = round_.process - planned
    if repeat <= 0 or record.shard is None:
        return round_
    process = planned + (repeat - 1) * record.shard.of + record.shard.number
    return msgspec.structs.replace(round_, process=process)


def outcome_of_rounds(rounds: Sequence[Round]) -> tuple[Status, str | None]:
    """Return status and reason of a timed case: ok if any round is ok, else the first round's."""
    if any(round_.status == "ok" for round_ in rounds):
        return "ok", None
    return rounds[0].status, rounds[0].reason


def merge_ceilings(ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """Merge ceilings (measured peaks) that differ only in their samples, and join the samples."""
    samples_of_ceiling: defaultdict[Ceiling, list[float]] = defaultdict(list)
    for ceiling in ceilings:
        without_samples = msgspec.structs.replace(ceiling, samples=())
        samples_of_ceiling[without_samples] += ceiling.samples
    return tuple(
        msgspec.structs.replace(ceiling, samples=tuple(samples))
        for ceiling, samples in samples_of_ceiling.items()
    )
