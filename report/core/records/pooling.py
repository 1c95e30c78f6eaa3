"""Which records are one measurement: shards that make one run, and runs that are pooled.

Shard i of n measures by itself every n-th case, beginning with the i-th (its bytes, counts and
files), and every n-th process of all cases, so that each shard is a block: cases are compared
within a process, never between machines.  Of a shard that was measured twice the newest counts.

Heads tell most of whether two records are runs of one measurement: what measured, how, and on what.
Whole records tell the rest: what is the same in every run must be the same in these two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from report.core.records.quantities import FIXED
from report.core.records.record import (
    Case,
    Ceiling,
    Factor,
    Head,
    Host,
    Record,
    Round,
    Shard,
    Status,
)
from report.core.records.store import Filed, Item

#: A case by its factors.
Key: TypeAlias = frozenset[tuple[str, Factor]]
#: What must be the same in every run of one measurement, by its case and its name.
Fixed: TypeAlias = dict[tuple[Key, str], Any]
#: The option of a run that makes it a shard, as a record's command names it.
OPTION: Final = "--shard"
#: What of a host tells one kind of machine from another; the same kind may have several machines.
_KIND: Final = ("vendor", "family", "model", "stepping", "flags", "virtualisation")
#: What of an environment changes what is measured; loads and names do not.
_CONDITIONS: Final = (
    "device", "key", "cpu", "gpu", "threads", "torch", "precision", "variables",
)  # fmt: skip


# --------------------------------------------------------------------------- of one measurement


def unlike(one: Head, other: Head) -> str | None:
    """Why these are not runs of one measurement, in a few words; None if they are.

    Only measurements in rounds of processes under memory policies are pooled, since nothing tells
    what older ones have in common.
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


def fixed(record: Record) -> Fixed:
    """What is the same in every run of one measurement: the layers and values of each good case.

    What varies within a run says nothing about another, and is left out.
    """
    found: dict[tuple[Key, str], set[float]] = {}
    layers: Fixed = {}
    for case in (case for case in record.cases if case.status == "ok"):
        key = frozenset(case.factors.items())
        layers[key, "layers"] = case.layers
        well = (each.series for each in case.rounds if each.status == "ok")
        for series in (case.series, *well):
            for quantity in (name for name in series if name in FIXED):
                found.setdefault((key, quantity), set()).update(series[quantity])
    return layers | {place: values.pop() for place, values in found.items() if len(values) == 1}


def contradiction(known: Fixed, found: Fixed) -> str | None:
    """What a run found otherwise than is known of its measurement, the first; None if nothing."""
    for (key, name), value in found.items():
        first = known.get((key, name), value)
        if first != value:
            what = (
                "other layers ran" if name == "layers" else f"{name} is {value:,}, not {first:,},"
            )
            return f"{what} for {', '.join(f'{factor} {level}' for factor, level in sorted(key))}"
    return None


# ------------------------------------------------------------------------------ which make one run


def measures_case(shard: Shard | None, index: int) -> bool:
    """Whether a run measures the case at ``index`` (from 0) by itself, beside its times."""
    return shard is None or index % shard.of == shard.number - 1


def measures_process(shard: Shard | None, process: int) -> bool:
    """Whether a run starts the process of this number (from 1), under any policy."""
    return measures_case(shard, process - 1)


def runs_of(items: Iterable[Item]) -> tuple[Item, ...]:
    """The items in their order, where the shards of one run are one: the first, with its parts.

    A further record of a shard makes a run of its own, or with others of its kind.
    """
    items = tuple(items)
    place = {item.file: number for number, item in enumerate(items)}
    runs: list[list[Item]] = []
    for item in sorted(items, key=lambda item: item.record.started, reverse=True):
        for run in runs:
            if _fits(run, item):
                run.append(item)
                break
        else:
            runs.append([item])
    runs.sort(key=lambda run: min(place[item.file] for item in run))
    return tuple(run[0] if run[0].record.shard is None else _joined(run) for run in runs)


def _fits(run: Sequence[Item], item: Item) -> bool:
    """Whether an item is a further shard of a run."""
    one, other = run[0].record, item.record
    if one.shard is None or other.shard is None:
        return False
    same_sweep = (one.shard.sweep, one.shard.of) == (other.shard.sweep, other.shard.of)
    alike = [case.factors for case in one.cases] == [case.factors for case in other.cases]
    is_new = other.shard.number not in map(_number, run)
    return same_sweep and is_new and alike and unlike(one, other) is None


def _joined(parts: Iterable[Item]) -> Item:
    """Shards of one run as one item: whole records merged, of heads that of the first shard."""
    ordered = sorted(parts, key=_number)
    records = [part.record for part in ordered if isinstance(part.record, Record)]
    record = merged(records) if records else ordered[0].record
    return replace(ordered[0], record=record, parts=tuple(ordered))


def _number(part: Filed[Head]) -> int:
    return part.record.shard.number if part.record.shard else 0


def missing_shards(item: Filed[Head]) -> tuple[int, ...]:
    """The shards that a run lacks, by their numbers; none of a run that was measured at once."""
    shards = [part.record.shard for part in item.parts if part.record.shard]
    there = {shard.number for shard in shards}
    return tuple(n for shard in shards[:1] for n in range(1, shard.of + 1) if n not in there)


# ------------------------------------------------------------------------------------- merging


def merged(parts: Sequence[Record]) -> Record:
    """The run that shards make together, in their order.

    Its values are those of one run of the same samples.  All parts have the same cases.
    """
    first = parts[0]
    missing = {k: v for p in reversed(parts) for k, v in p.environment.missing.items()}
    attachments = {each.name: each for part in reversed(parts) for each in part.attachments}
    return msgspec.structs.replace(
        first,
        started=min(part.started for part in parts),
        finished=max(part.finished for part in parts),
        command=without_option(first.command),
        environment=msgspec.structs.replace(first.environment, missing=missing),
        ceilings=merged_ceilings(each for part in parts for each in part.ceilings),
        cases=tuple(_case(parts, index) for index in range(len(first.cases))),
        attachments=tuple(attachments.values()),
        shard=None,
    )


def without_option(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command of the whole run."""
    if OPTION not in command:
        return command
    at = command.index(OPTION)
    return (*command[:at], *command[at + 2 :])


def _case(parts: Sequence[Record], index: int) -> Case:
    """One case of the run: what its shard measured by itself, with the rounds of all."""
    cases = [part.cases[index] for part in parts]
    own = next((part.cases[index] for part in parts if measures_case(part.shard, index)), None)
    if own is not None and own.status != "ok" and not own.rounds:
        return own  # not timed either, had it been one run
    rounds = [
        msgspec.structs.replace(round_, process=_process(part, round_))
        for part in parts
        for round_ in part.cases[index].rounds
    ]
    plain = msgspec.structs.replace(
        own or cases[0],
        layers=next((case.layers for case in cases if case.layers), ()),
        rounds=tuple(sorted(rounds, key=lambda round_: round_.process)),
    )
    if not rounds:
        return plain
    status, reason = outcome(plain.rounds)
    return msgspec.structs.replace(plain, status=status, reason=reason)


def _process(part: Record, round_: Round) -> int:
    """The number of a process in the run, beyond those planned if it repeats what was disturbed."""
    planned, shard = part.protocol.processes.get(round_.policy or "default", 0), part.shard
    repeat = round_.process - planned
    if repeat <= 0 or shard is None:
        return round_.process
    return planned + (repeat - 1) * shard.of + shard.number


def outcome(rounds: Sequence[Round]) -> tuple[Status, str | None]:
    """That of a case that was measured in rounds: ok if one of them is, else that of the first."""
    if any(round_.status == "ok" for round_ in rounds):
        return "ok", None
    return rounds[0].status, rounds[0].reason


def merged_ceilings(ceilings: Iterable[Ceiling]) -> tuple[Ceiling, ...]:
    """Return each ceiling once, with the samples of all times that it was measured."""
    samples: dict[Ceiling, tuple[float, ...]] = {}
    for ceiling in ceilings:
        key = msgspec.structs.replace(ceiling, samples=())
        samples[key] = (*samples.get(key, ()), *ceiling.samples)
    return tuple(msgspec.structs.replace(key, samples=samples[key]) for key in samples)
