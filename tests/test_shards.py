"""Runs that were measured in shards: split a record, and what is read is that record again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.engine.gather import choose
from report.instruments.counters.logs import CaseLogs, joined_logs, pack
from report.records.choice import choices_of, fate
from report.records.pooling import (
    measures_case,
    measures_process,
    merged,
    missing_shards,
    runs_of,
    whole,
)
from report.records.record import Attachment, Case, Ceiling, Record, Shard
from report.records.store import Stored, list_records, record_name, write_record
from tests import factory

SWEEP = "a" * 64
changed = msgspec.structs.replace


def part(record: Record, number: int, of: int) -> Record:
    """What shard ``number`` would have measured, had it found the same samples."""
    shard = Shard(number=number, of=of, sweep=SWEEP)

    def case(index: int, found: Case) -> Case:
        rounds = tuple(r for r in found.rounds if measures_process(shard, r.process))
        if measures_case(shard, index):
            return changed(found, rounds=rounds)
        if any(r.status == "ok" for r in rounds):
            return changed(found, rounds=rounds, series={})
        reason = "This was left to another shard."
        return changed(found, rounds=rounds, series={}, status="unavailable", reason=reason)

    def ceiling(each: Ceiling) -> Ceiling:
        """A run of samples for each shard, in their order."""
        n = len(each.samples)
        return changed(each, samples=each.samples[(number - 1) * n // of : number * n // of])

    return changed(
        record,
        cases=tuple(case(index, found) for index, found in enumerate(record.cases)),
        ceilings=tuple(map(ceiling, record.ceilings)),
        command=(*record.command, "--shard", f"{number}/{of}"),
        shard=shard,
    )


def split(record: Record, of: int) -> list[Record]:
    return [part(record, number, of) for number in range(1, of + 1)]


def timed(**change: Any) -> Record:
    """A made-up record of four cases in eight processes, one of which never fits into memory."""
    cases = [
        changed(
            factory.case(batch, memory=factory.memory(batch, batch)),
            rounds=factory.rounds([[1.0 + batch + k, 2.0] for k in range(8)]),
        )
        for batch in (1, 4, 16)
    ]
    cases += [factory.case(64, status="out_of_memory", reason="It needs more memory.")]
    plain = factory.record(cases)
    protocol = changed(plain.protocol, processes={"retained": 8}, budget_s=60.0)
    return changed(plain, **{"protocol": protocol, **change})


@given(st.integers(0, 30), st.integers(1, 8))
def test_every_case_and_process_belongs_to_one_shard(index: int, of: int) -> None:
    shards = [Shard(number=n, of=of, sweep=SWEEP) for n in range(1, of + 1)]
    mine = [shard.number for shard in shards if measures_case(shard, index)]
    assert mine == [s.number for s in shards if measures_process(s, index + 1)] == [index % of + 1]
    assert measures_case(None, index) and measures_process(None, index + 1)


def number(item: Stored) -> int:
    assert item.record.shard is not None
    return item.record.shard.number


@given(st.integers(1, 8), st.randoms())
def test_the_shards_of_a_record_merge_to_that_record_in_any_order(of: int, random: Any) -> None:
    record = timed()
    items = [factory.stored(one) for one in split(record, of)]
    random.shuffle(items)
    (run,) = runs_of(items)
    assert missing_shards(run) == ()
    assert whole(run).record == record
    if of > 2:
        (run,) = runs_of([each for each in items if number(each) not in (2, of)])
        assert missing_shards(run) == (2, of)


def test_of_a_shard_that_was_measured_twice_the_newest_counts() -> None:
    parts = [factory.stored(one) for one in split(timed(), 4)]
    again = factory.stored(changed(parts[1].record, started="2026-11-02T10:00:00Z"))
    run, left = runs_of([*parts, again])
    assert (run.parts[1], left.parts) == (again, (parts[1],))
    assert whole(run).record.cases == timed().cases


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        # Of eight planned processes; those beyond repeat what was disturbed.
        ([(1, 9), (2, 9)], [1, 2, 9, 10]),
        ([(7, 8, 9, 10), (8, 9)], [7, 8, 8, 9, 10, 11]),
        ([(9,), (), (9, 10)], [9, 11, 14]),
    ],
)
def test_processes_that_repeat_what_was_disturbed_have_numbers_of_their_own(
    own: list[tuple[int, ...]], expected: list[int]
) -> None:
    parts = []
    for each, numbers in zip(split(timed(), len(own)), own, strict=True):
        rounds = tuple(factory.round_(n, {"time": (1.0,)}) for n in numbers)
        parts.append(changed(each, cases=(changed(each.cases[0], rounds=rounds),)))
    assert [r.process for r in merged(parts).cases[0].rounds] == expected


def test_shards_of_unlike_runs_are_not_merged() -> None:
    one, other = split(timed(), 2)
    for change in (
        {"shard": Shard(number=2, of=2, sweep="b" * 64)},
        {"shard": Shard(number=2, of=3, sweep=SWEEP)},
        {"shard": Shard(number=1, of=2, sweep=SWEEP), "started": "2026-11-02T10:00:00Z"},
        {"cases": other.cases[:2]},
        {"code": changed(other.code, measuring_code="1" * 64)},
        {"environment": changed(other.environment, threads=1)},
    ):
        items = [factory.stored(one), factory.stored(changed(other, **change))]
        assert [run.files for run in runs_of(items)] == [(found.file,) for found in items]


def test_the_logs_of_two_shards_are_one_file() -> None:
    logs = [CaseLogs(case=n, logs={"call": str(n)}) for n in range(4)]
    named = Attachment(name="lackey.json.gz", sha256="0" * 64, meaning="counts")
    parts = [changed(one, attachments=(named,)) for one in split(timed(), 2)]
    assert merged(parts).attachments == (named,)
    whole_file = joined_logs(pack("lackey", logs[::2]), pack("lackey", logs[1::2]), "here")
    assert whole_file == pack("lackey", logs)
    assert joined_logs(whole_file, whole_file, "here") == whole_file


# -------------------------------------------------------------------------------- choice and words


def test_a_whole_run_wins_over_a_newer_sweep_that_lacks_a_shard(tmp_path: Path) -> None:
    one, other = split(timed(started="2026-11-05T10:00:00Z"), 2)
    data = factory.data_folder(tmp_path, timed(), one)
    run, first, second = (f"conv_scaling/{record_name(r)}" for r in (timed(), one, other))
    assert choose("conv_scaling", data).runs == ((run,),)
    assert _fate(data, first) == (
        False,
        "not used, an incomplete sweep beside a full one, merged from 1 of 2 shards, missing 2",
    )
    write_record(other, data)
    assert choose("conv_scaling", data).runs == ((first, second, run),)
    assert _fate(data, first)[1] == (
        "used as cpu, the newest full run of its machine, merged from 2 shards, pooled with 1 "
        "other run"
    )
    name = first.partition("/")[2]
    assert _fate(data, second)[1] == f"merged with {name}, shard 2 of 2, merged from 2 shards"


def _fate(data: Path, file: str) -> tuple[bool, str]:
    return fate(choices_of(list_records("conv_scaling", data), data), file)


def test_a_shard_that_contradicts_the_others_is_not_merged(tmp_path: Path) -> None:
    one, other = split(timed(), 2)
    odd = changed(other, cases=(changed(other.cases[0], layers=()), *other.cases[1:]))
    data = factory.data_folder(tmp_path, one, odd)
    first, second = (f"conv_scaling/{record_name(r)}" for r in (one, odd))
    assert choose("conv_scaling", data).runs == ((first,),)
    used, words = _fate(data, second)
    name = first.partition("/")[2]
    assert not used
    assert words.startswith("not used, not the same measurement: other layers ran for batch 1, ")
    assert words.endswith(f" as in {name}")
