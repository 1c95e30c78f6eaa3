"""Runs that were measured in shards: split a record, and what is read is that record again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.engine.gather import choose
from report.instruments.counters.logs import (
    CaseLogs,
    joined_logs,
    pack,
)
from report.records.record import Attachment, Case, Ceiling, Record, Shard
from report.records.shards import (
    conflict,
    measures_case,
    measures_process,
    merged,
    missing_shards,
    runs_of,
    whole,
)
from report.records.store import Stored, record_name, write_record
from tests import factory

SWEEP = "a" * 64


def part(record: Record, number: int, of: int) -> Record:
    """What shard ``number`` would have measured, had it found the same samples."""
    shard = Shard(number=number, of=of, sweep=SWEEP)

    def case(index: int, found: Case) -> Case:
        rounds = tuple(r for r in found.rounds if measures_process(shard, r.process))
        if measures_case(shard, index):
            return msgspec.structs.replace(found, rounds=rounds)
        left = {"status": "unavailable", "reason": "This was left to another shard.", "series": ()}
        if any(r.status == "ok" for r in rounds):
            left |= {"status": "ok", "reason": None}
        return msgspec.structs.replace(found, rounds=rounds, **left)  # type: ignore[arg-type]

    return msgspec.structs.replace(
        record,
        cases=tuple(case(index, found) for index, found in enumerate(record.cases)),
        ceilings=tuple(ceilings(record.ceilings, shard)),
        command=(*record.command, "--shard", f"{number}/{of}"),
        shard=shard,
    )


def ceilings(found: Iterable[Ceiling], shard: Shard) -> Iterable[Ceiling]:
    """A run of samples for each shard, in their order."""
    for each in found:
        n = len(each.samples)
        first = (shard.number - 1) * n // shard.of
        samples = each.samples[first : shard.number * n // shard.of]
        yield msgspec.structs.replace(each, samples=samples)


def split(record: Record, of: int) -> list[Record]:
    return [part(record, number, of) for number in range(1, of + 1)]


def timed(times: int, **change: Any) -> Record:
    """A made-up record of four cases in eight processes, one of which never fits into memory."""
    cases = [
        msgspec.structs.replace(
            factory.case(batch, memory=factory.memory(batch, batch)),
            rounds=factory.rounds([[1.0 + batch + k, 2.0] for k in range(times)]),
        )
        for batch in (1, 4, 16)
    ]
    cases += [factory.case(64, status="out_of_memory", reason="It needs more memory.")]
    plain = factory.record(cases)
    protocol = msgspec.structs.replace(plain.protocol, processes={"retained": 8}, budget_s=60.0)
    return msgspec.structs.replace(plain, **{"protocol": protocol, **change})


def item(record: Record) -> Stored:
    return factory.stored(record)


# ------------------------------------------------------------------------------------- merging


@given(st.integers(1, 30), st.integers(1, 8), st.integers(1, 20))
def test_every_case_and_process_belongs_to_one_shard(cases: int, of: int, processes: int) -> None:
    shards = [Shard(number=n, of=of, sweep=SWEEP) for n in range(1, of + 1)]
    for index in range(cases):
        assert sum(measures_case(shard, index) for shard in shards) == 1
    for process in range(1, processes + 1):
        assert sum(measures_process(shard, process) for shard in shards) == 1


@given(st.integers(1, 8), st.randoms())
def test_the_shards_of_a_record_merge_to_that_record_in_any_order(of: int, random: Any) -> None:
    record = timed(8)
    items = [item(one) for one in split(record, of)]
    random.shuffle(items)
    (run,) = runs_of(items)
    assert missing_shards(run) == ()
    assert whole(run).record == record


# ----------------------------------------------------------------------- replicates and conflicts


def test_of_a_shard_that_was_measured_twice_the_newest_counts() -> None:
    parts = [item(one) for one in split(timed(8), 4)]
    again = item(msgspec.structs.replace(parts[1].record, started="2026-11-02T10:00:00Z"))
    run, left = runs_of([*parts, again])
    assert (run.parts[1], left.parts) == (again, (parts[1],))
    assert whole(run).record.cases == timed(8).cases


def test_processes_that_repeat_what_was_disturbed_have_numbers_of_their_own() -> None:
    parts = split(timed(8), 2)
    extra = factory.round_(9, {"time": (1.0,)})
    parts = [
        msgspec.structs.replace(
            each,
            cases=(
                msgspec.structs.replace(
                    each.cases[0], rounds=(*each.cases[0].rounds, extra), status="ok", reason=None
                ),
                *each.cases[1:],
            ),
        )
        for each in parts
    ]
    assert [r.process for r in merged(parts).cases[0].rounds] == list(range(1, 11))


@pytest.mark.parametrize("what", ["sweep", "of", "code", "threads"])
def test_shards_of_unlike_runs_are_not_merged(what: str) -> None:
    one, other = split(timed(8), 2)
    change: dict[str, Any] = {
        "sweep": {"shard": Shard(number=2, of=2, sweep="b" * 64)},
        "of": {"shard": Shard(number=2, of=3, sweep=SWEEP)},
        "code": {"code": msgspec.structs.replace(other.code, measuring_code="1" * 64)},
        "threads": {"environment": msgspec.structs.replace(other.environment, threads=1)},
    }[what]
    items = (item(one), item(msgspec.structs.replace(other, **change)))
    assert [run.files for run in runs_of(items)] == [(found.file,) for found in items]


def test_other_cases_and_other_bytes_are_conflicts() -> None:
    one, other = split(timed(8), 2)
    assert conflict([one], other) is None
    assert conflict([one], msgspec.structs.replace(other, cases=other.cases[:2])) is not None
    twin = msgspec.structs.replace(
        one, cases=(factory.case(1, memory=factory.memory(2, 2)), *one.cases[1:])
    )
    assert str(conflict([one], twin)).startswith("allocated_after is 4,098, not 4,097,")


def test_the_logs_of_two_shards_are_one_file() -> None:
    logs = [CaseLogs(case=n, logs={"call": str(n)}) for n in range(4)]
    record = timed(8)
    named = Attachment(name="lackey.json.gz", sha256="0" * 64, meaning="counts")
    parts = [msgspec.structs.replace(one, attachments=(named,)) for one in split(record, 2)]
    assert merged(parts).attachments == (named,)
    whole_file = joined_logs(pack("lackey", logs[::2]), pack("lackey", logs[1::2]), "here")
    assert whole_file == pack("lackey", logs)
    assert joined_logs(whole_file, whole_file, "here") == whole_file


# ------------------------------------------------------------------------------- choice and lines


def saved(folder: Path, *records: Record) -> tuple[Path, list[str]]:
    data = factory.data_folder(folder)
    return data, [f"conv_scaling/{write_record(record, data).name}" for record in records]


def test_a_whole_run_wins_over_a_newer_sweep_that_lacks_a_shard(tmp_path: Path) -> None:
    parts = split(timed(8, started="2026-11-05T10:00:00Z"), 2)
    data, files = saved(tmp_path, timed(8), parts[0])
    assert choose("conv_scaling", data).runs == ((files[0],),)
    write_record(parts[1], data)
    assert choose("conv_scaling", data).runs == (
        (files[1], f"conv_scaling/{record_name(parts[1])}", files[0]),
    )
