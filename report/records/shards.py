"""Runs that were measured in shards: which records make one run, and the run that they make.

Shard i of n measures by itself every n-th case, beginning with the i-th (its bytes, counts and
files), and every n-th process of all cases, so that each shard is a block: cases are compared
within a process, never between machines.  A shard that was measured twice adds its processes as
replicates; what is measured once a case comes from its first record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import msgspec

from report.records.pooling import contradiction, unlike
from report.records.record import (
    Attachment,
    Case,
    Ceiling,
    Head,
    Policy,
    Record,
    Round,
    Shard,
    Status,
)
from report.records.store import Item, Named, Stored

#: The option of a run that makes it a shard, as a record's command names it.
OPTION: Final = "--shard"

#: A process of one shard, and its number in the run that the shards make.
_Numbers: TypeAlias = dict[tuple[Policy | None, int], int]


def measures_case(shard: Shard | None, index: int) -> bool:
    """Whether a run measures the case at ``index`` (from 0) by itself, beside its times."""
    return shard is None or index % shard.of == shard.number - 1


def measures_process(shard: Shard | None, process: int) -> bool:
    """Whether a run starts the process of this number (from 1), under any policy."""
    return shard is None or (process - 1) % shard.of == shard.number - 1


# ------------------------------------------------------------------------------ which make one run


def runs_of(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items in their order, where the shards of one run are one: the first, with its parts."""
    runs: list[list[Item]] = []
    for item in items:
        group = next((run for run in runs if _is_one_run(run[0].record, item.record)), None)
        if group is None:
            runs.append([item])
        else:
            group.append(item)
    return tuple(run[0] if run[0].record.shard is None else joined(run) for run in runs)


def _is_one_run(one: Record | Head, other: Record | Head) -> bool:
    if one.shard is None or other.shard is None:
        return False
    same = (one.shard.sweep, one.shard.of) == (other.shard.sweep, other.shard.of)
    return same and unlike(one, other) is None


def joined(parts: Iterable[Item]) -> Item:
    """Shards of one run as one item, that of the first shard; whole records are not merged yet."""
    first, *others = sorted(parts, key=_place)
    return first.with_parts((first, *others))


def _place(item: Named) -> tuple[int, str, str]:
    return (_shard_of(item.record).number, item.record.started, item.file)


def _shard_of(record: Record | Head) -> Shard:
    if record.shard is None:
        raise ValueError(f"a whole run of {record.study} taken for a shard")
    return record.shard


def missing_shards(item: Named) -> tuple[int, ...]:
    """The shards that a run lacks, by their numbers; none of a run that was measured at once."""
    if not item.parts:
        return ()
    there = {_shard_of(part.record).number for part in item.parts}
    of = _shard_of(item.record).of
    return tuple(number for number in range(1, of + 1) if number not in there)


def conflict(parts: Sequence[Record], further: Record) -> str | None:
    """Why a shard cannot be merged with ``parts`` in a few words; None if it can."""
    for part in parts:
        if [case.factors for case in part.cases] != [case.factors for case in further.cases]:
            return "its cases are others"
        if found := contradiction(part, further):
            return found
    return None


# ------------------------------------------------------------------------------------- merging


def whole(stored: Stored) -> Stored:
    """The same with the merged record, where the item has parts."""
    if not stored.parts:
        return stored
    return replace(stored, record=merged([part.record for part in stored.parts]))


def merged(parts: Sequence[Record]) -> Record:
    """The run that shards make together, in the order of ``joined``.

    Its values are those of one run of the same samples.  All parts have the same cases.
    """
    first, originals = parts[0], tuple(_originals(parts))
    numbers = _numbers(parts)
    shards = [_shard_of(part) for part in parts]
    return msgspec.structs.replace(
        first,
        started=min(part.started for part in parts),
        finished=max(part.finished for part in parts),
        command=without_option(first.command),
        environment=msgspec.structs.replace(
            first.environment,
            missing={k: v for p in reversed(parts) for k, v in p.environment.missing.items()},
        ),
        ceilings=_ceilings(parts),
        cases=tuple(
            _case(index, shards, cases, numbers)
            for index, cases in enumerate(zip(*(part.cases for part in parts), strict=True))
        ),
        attachments=_attachments(originals),
        shard=None,
    )


def _originals(parts: Iterable[Record]) -> Iterator[Record]:
    """The first record of each shard."""
    seen: set[int] = set()
    for part in parts:
        number = _shard_of(part).number
        if number not in seen:
            yield part
        seen.add(number)


def first_parts(stored: Stored) -> tuple[Stored, ...]:
    """The records from which the files beside a run come: the first of each shard."""
    kept = {id(record) for record in _originals(part.record for part in stored.parts)}
    return tuple(p for p in stored.parts if id(p.record) in kept) if stored.parts else (stored,)


def without_option(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command of the whole run."""
    if OPTION not in command:
        return command
    at = command.index(OPTION)
    return (*command[:at], *command[at + 2 :])


def _numbers(parts: Sequence[Record]) -> list[_Numbers]:
    """The number in the run of each process of each part, from 1 under each policy.

    Planned processes come first, then those of shards that were measured again, then those that
    repeat what was disturbed.
    """
    planned = parts[0].protocol.processes
    seen: list[int] = []
    found = set()
    for index, part in enumerate(parts):
        number = _shard_of(part).number
        copy = seen.count(number)
        seen.append(number)
        for case in part.cases:
            for round_ in case.rounds:
                repeats = round_.process > planned.get(round_.policy or "default", 0)
                found.add((round_.policy, repeats, copy, round_.process, index))
    numbers: list[_Numbers] = [{} for _ in parts]
    for policy in {key[0] for key in found}:
        mine = sorted((key for key in found if key[0] == policy), key=lambda key: key[1:])
        for count, (_, _, _, process, index) in enumerate(mine, start=1):
            numbers[index][policy, process] = count
    return numbers


def _case(
    index: int, shards: Sequence[Shard], cases: Sequence[Case], numbers: Sequence[_Numbers]
) -> Case:
    """One case of the run: what its shard measured by itself, with the rounds of all."""
    pairs = zip(shards, cases, strict=True)
    own = next((case for shard, case in pairs if measures_case(shard, index)), None)
    if own is not None and own.status != "ok" and not own.rounds:
        return own  # not timed either, had it been one run
    rounds = _rounds(cases, numbers)
    plain = msgspec.structs.replace(
        own or cases[0],
        layers=next((case.layers for case in cases if case.layers), ()),
        rounds=rounds,
    )
    if not rounds:
        return plain
    status, reason = outcome(rounds)
    return msgspec.structs.replace(plain, status=status, reason=reason)


def _rounds(cases: Sequence[Case], numbers: Sequence[_Numbers]) -> tuple[Round, ...]:
    found = [
        msgspec.structs.replace(round_, process=numbered[round_.policy, round_.process])
        for case, numbered in zip(cases, numbers, strict=True)
        for round_ in case.rounds
    ]
    return tuple(sorted(found, key=lambda round_: round_.process))


def outcome(rounds: Sequence[Round]) -> tuple[Status, str | None]:
    """That of a case that was measured in rounds: ok if one of them is, else that of the first."""
    if any(round_.status == "ok" for round_ in rounds):
        return "ok", None
    return rounds[0].status, rounds[0].reason


def _ceilings(parts: Iterable[Record]) -> tuple[Ceiling, ...]:
    """Each ceiling once, with the samples of all parts."""
    found: dict[Ceiling, tuple[float, ...]] = {}
    for part in parts:
        for each in part.ceilings:
            key = msgspec.structs.replace(each, samples=())
            found[key] = (*found.get(key, ()), *each.samples)
    return tuple(msgspec.structs.replace(key, samples=found[key]) for key in found)


def _attachments(parts: Iterable[Record]) -> tuple[Attachment, ...]:
    """The files of all parts by their names, each once."""
    found: dict[str, Attachment] = {}
    for part in parts:
        for each in part.attachments:
            found.setdefault(each.name, each)
    return tuple(found.values())
