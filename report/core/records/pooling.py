"""Find records of one measurement: shards that form one run, and runs that are pooled.

Shard i of n measures the bytes, counts and files of every n-th case, beginning with the i-th, and
times all cases in every n-th process.  Each shard is thus a block: cases are compared within a
process, never between machines.  If a shard was measured twice, the newest record counts.

Two records may be pooled if their heads agree in code, protocol and environment, and their cases in
every deterministic value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from report.core.records.quantities import FIXED
from report.core.records.record import (
    Case,
    Ceiling,
    Head,
    Host,
    Level,
    Record,
    Round,
    Shard,
    Status,
)
from report.core.records.store import Stored

#: A case by its factors.
CaseKey: TypeAlias = frozenset[tuple[str, Level]]
#: Layers and deterministic quantities, by case and name: equal in every run of one measurement.
DeterministicValues: TypeAlias = dict[tuple[CaseKey, str], Any]
#: The option that makes a run a shard, as it stands in a record's command.
OPTION: Final = "--shard"
#: Fields of a host that identify a kind of machine, of which there may be several machines.
_KIND: Final = ("vendor", "family", "model", "stepping", "flags", "virtualisation")
#: Fields of an environment that change measurements; loads and names do not.
_CONDITIONS: Final = (
    "device", "key", "cpu", "gpu", "threads", "torch", "precision", "variables",
)  # fmt: skip


# -------------------------------------------------------------------------------------- pooling


def why_not_pooled(one: Head, other: Head) -> str | None:
    """Say why two heads are not runs of one measurement; None if they are.

    Records without processes per memory policy are never pooled, since their format does not say
    enough about how they were measured.
    """
    if not (one.protocol.processes and other.protocol.processes):
        return "of a format that is not pooled"
    if one.code.measuring_code != other.code.measuring_code:
        return "measured by other code"
    if changed := _differing(one.protocol, other.protocol, one.protocol.__struct_fields__):
        return f"measured by another protocol ({', '.join(changed)})"
    changed = _differing(one.environment, other.environment, _CONDITIONS)
    if _kind(one.environment.host) != _kind(other.environment.host):
        changed.append("host")
    return f"measured with another {', '.join(changed)}" if changed else None


def _differing(one: object, other: object, fields: Iterable[str]) -> list[str]:
    return [name for name in fields if getattr(one, name) != getattr(other, name)]


def _kind(host: Host | None) -> tuple[object, ...]:
    return () if host is None else tuple(getattr(host, name) for name in _KIND)


def deterministic_values(record: Record) -> DeterministicValues:
    """Collect the layers and deterministic quantities of each case that is ok.

    A quantity that varies within the run is left out, since it cannot contradict another run.
    """
    layers: DeterministicValues = {}
    values: defaultdict[tuple[CaseKey, str], set[float]] = defaultdict(set)
    for case in record.cases:
        if case.status != "ok":
            continue
        key = frozenset(case.factors.items())
        layers[key, "layers"] = case.layers
        ok_rounds = (round_.series for round_ in case.rounds if round_.status == "ok")
        for series in (case.series, *ok_rounds):
            for quantity, samples in series.items():
                if quantity in FIXED:
                    values[key, quantity].update(samples)
    unique = {key: samples.pop() for key, samples in values.items() if len(samples) == 1}
    return layers | unique


def first_contradiction(earlier: DeterministicValues, new: DeterministicValues) -> str | None:
    """Describe the first value that differs between runs of one measurement; None if none does.

    Layers, counts and byte sizes do not vary between runs; if one does, the runs must not be
    pooled.
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


# --------------------------------------------------------------------------------------- shards


def measures_case(shard: Shard | None, index: int) -> bool:
    """Tell whether a shard measures bytes and counts of the case at ``index`` (from 0)."""
    return shard is None or index % shard.of == shard.number - 1


def measures_process(shard: Shard | None, process: int) -> bool:
    """Tell whether a shard starts the process of this number (from 1), under any policy."""
    return measures_case(shard, process - 1)


def runs_of(records: Iterable[Stored]) -> tuple[Stored, ...]:
    """Merge the shards of each run into one record, at the place of its first shard.

    A second record of a shard starts another run, which further second records may join.
    """
    records = tuple(records)
    runs: list[list[Stored]] = []
    for stored in sorted(records, key=_start, reverse=True):
        for run in runs:
            if _fits(run, stored):
                run.append(stored)
                break
        else:
            runs.append([stored])
    places = {stored.file: place for place, stored in enumerate(records)}
    joined: dict[int, Stored] = {}
    for run in runs:
        first, place = run[0], min(places[stored.file] for stored in run)
        if first.record.shard:
            parts = tuple(sorted(run, key=_number))
            first = replace(parts[0], record=merged([part.record for part in parts]), parts=parts)
        joined[place] = first
    return tuple(joined[place] for place in sorted(joined))


def _start(stored: Stored) -> str:
    return stored.record.started


def _number(part: Stored) -> int:
    return part.record.shard.number if part.record.shard else 0


def _fits(run: Sequence[Stored], stored: Stored) -> bool:
    """Tell whether a record is a missing shard of a run."""
    one, other = run[0].record, stored.record
    if one.shard is None or other.shard is None:
        return False
    same_sweep = (one.shard.sweep, one.shard.of) == (other.shard.sweep, other.shard.of)
    is_new = other.shard.number not in map(_number, run)
    if not (same_sweep and is_new) or why_not_pooled(one, other):
        return False
    return [case.factors for case in one.cases] == [case.factors for case in other.cases]


def missing_shards(run: Stored) -> tuple[int, ...]:
    """Return the numbers of the shards that a run lacks; empty for a run without shards."""
    shards = [part.record.shard for part in run.parts if part.record.shard]
    if not shards:
        return ()
    present = {shard.number for shard in shards}
    return tuple(number for number in range(1, shards[0].of + 1) if number not in present)


# ------------------------------------------------------------------------------------- merging


def merged(parts: Sequence[Record]) -> Record:
    """Merge shards with the same cases into one run, whose samples are in the shards' order."""
    first = parts[0]
    missing = {k: v for p in reversed(parts) for k, v in p.environment.missing.items()}
    attachments = {
        attachment.name: attachment for part in reversed(parts) for attachment in part.attachments
    }
    return msgspec.structs.replace(
        first,
        started=min(part.started for part in parts),
        finished=max(part.finished for part in parts),
        command=without_option(first.command),
        environment=msgspec.structs.replace(first.environment, missing=missing),
        ceilings=merged_ceilings(ceiling for part in parts for ceiling in part.ceilings),
        cases=tuple(_case(parts, index) for index in range(len(first.cases))),
        attachments=tuple(attachments.values()),
        shard=None,
    )


def without_option(command: tuple[str, ...]) -> tuple[str, ...]:
    """Remove ``--shard`` and its argument from the command of a shard."""
    if OPTION not in command:
        return command
    at = command.index(OPTION)
    return (*command[:at], *command[at + 2 :])


def _case(parts: Sequence[Record], index: int) -> Case:
    """Merge one case: the series of the shard that measured it, with the rounds of all shards."""
    cases = [part.cases[index] for part in parts]
    own = next((part.cases[index] for part in parts if measures_case(part.shard, index)), None)
    if own is not None and own.status != "ok" and not own.rounds:
        return own  # one run would not have timed it either
    rounds = [
        msgspec.structs.replace(round_, process=_process(part, round_))
        for part in parts
        for round_ in part.cases[index].rounds
    ]
    plain = msgspec.structs.replace(
        own or cases[0],
        layers=next((case.layers for case in cases if case.layers), ()),
        rounds=tuple(sorted(rounds, key=attrgetter("process"))),
    )
    if not rounds:
        return plain
    status, reason = outcome(plain.rounds)
    return msgspec.structs.replace(plain, status=status, reason=reason)


def _process(part: Record, round_: Round) -> int:
    """Number a process within the whole run; repeats of disturbed ones follow those planned."""
    planned, shard = part.protocol.processes.get(round_.policy or "default", 0), part.shard
    repeat = round_.process - planned
    if repeat <= 0 or shard is None:
        return round_.process
    return planned + (repeat - 1) * shard.of + shard.number


def outcome(rounds: Sequence[Round]) -> tuple[Status, str | None]:
    """Status and reason of a timed case: ok if any round is ok, else the first round's."""
    if any(round_.status == "ok" for round_ in rounds):
        return "ok", None
    return rounds[0].status, rounds[0].reason


def merged_ceilings(ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """Merge equal ceilings, with all their samples."""
    samples: defaultdict[Ceiling, list[float]] = defaultdict(list)
    for ceiling in ceilings:
        samples[msgspec.structs.replace(ceiling, samples=())] += ceiling.samples
    return tuple(msgspec.structs.replace(key, samples=tuple(s)) for key, s in samples.items())
