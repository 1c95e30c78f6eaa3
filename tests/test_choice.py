"""Choice of records and roles for a paper, pooling of runs, and merging of shards.

A role (``cpu``, ``second``, ``gpu``, …) is the place of a machine in the paper.  An edition names
the records or machines that have the roles of one paper.  A shard is a part of a run that was
measured by one of several jobs.  Gates detect bimodal, disturbed or impossible measurements.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.core.errors import RecordError
from report.core.records import choice as editions
from report.core.records import pooling
from report.core.records.choice import Edition, choices_of, use_in_build
from report.core.records.record import Attachment, Case, Record, Round, Shard
from report.core.records.store import Stored, record_name, write_record
from report.evaluation.gather import choose_records
from report.evidence.runs import Run
from report.instruments import gates
from report.instruments.counters.logs import CaseLogs, join_logs, pack
from report.instruments.judgement import Judgement, judge
from report.paper.machines import setup
from tests import factory

STUDY = "conv_scaling"
with_fields = msgspec.structs.replace


def old_run(day: int, key: str = "a", plan: str = "full", **machine: Any) -> Stored:
    """Return a run in the old format without rounds; such runs are not pooled."""
    started = f"2026-11-{day:02}T10:00:00Z"
    environment = factory.environment(key, **machine)
    return factory.stored(factory.record(started=started, machine=environment, plan=plan))


def run_in_rounds(day: int, **change: Any) -> Stored:
    """Return a run in rounds, on the device ``example-2t``."""
    return factory.stored(factory.measurement(f"2026-11-{day:02}T10:00:00Z", **change))


def with_part(stored: Stored, part: str, **change: Any) -> Stored:
    """Return the run with other fields in a part of the record."""
    new = with_fields(getattr(stored.record, part), **change)
    return factory.stored(with_fields(stored.record, **{part: new}))


def edition_of(*items: Stored, **roles: Any) -> Edition:
    """Return an edition with these records in the role ``cpu``, and with further roles."""
    return Edition({"cpu": tuple(item.file for item in items), **roles} if items else roles)


FULL, QUICK = old_run(1), old_run(2, plan="quick")
SEVERAL = (FULL, QUICK, old_run(3), old_run(2, "b"), old_run(9, "c"))


# Runs, edition, and the machine, day and plan of the used runs.
@pytest.mark.parametrize(("runs", "edition", "expected"), [
    # The newest full run represents a machine; machines outside an edition are not used.
    ((old_run(2), old_run(3), old_run(1)), None, ["a 03 full"]),
    ((FULL, QUICK), None, ["a 01 full"]),
    ((old_run(1, plan="custom"), QUICK), None, ["a 02 quick"]),
    ((FULL, old_run(3, "b")), None, ["b 03 full", "a 01 full"]),
    (SEVERAL, edition_of(FULL), ["a 01 full"]),
    (SEVERAL, edition_of(QUICK), ["a 02 quick"]),
    (SEVERAL, edition_of(cpu="a"), ["a 03 full"]),
    (SEVERAL, edition_of(FULL, second="b"), ["b 02 full", "a 01 full"]),
    (SEVERAL, Edition({"cpu": "b"}, compared=("a", "gone")), ["a 03 full", "b 02 full"]),
])  # fmt: skip
def test_used_records_by_machine_day_and_plan(
    runs: tuple[Stored, ...], edition: Edition | None, expected: list[str]
) -> None:
    """The choice does not depend on the order of files."""
    for items in (runs, runs[::-1]):
        records = [choice.primary.record for choice in choices_of(items, edition)]
        used = [f"{r.environment.key} {r.started[8:10]} {r.protocol.plan}" for r in records]
        assert used == expected


def test_two_roles_may_have_unpooled_records_of_one_machine() -> None:
    """Each role uses only the record that the edition names; the third record is not used."""
    first, second, third = old_run(1), old_run(2), old_run(3)
    edition = Edition({"cpu": (first.file,), "second": (third.file,)})
    choices = choices_of((first, second, third), edition)
    used_by_roles = {choice.roles: choice.used for choice in choices}
    assert used_by_roles == {("cpu",): (first,), ("second",): (third,)}


def test_invalid_editions_are_refused() -> None:
    first_of_a, only_of_b, second_of_a = old_run(1), old_run(2, "b"), old_run(3)
    runs = (first_of_a, only_of_b, second_of_a)
    for edition, message in (
        (edition_of(cpu="x"), "cpu: no record of the machine x; the machines are a, b"),
        (Edition({"gpu": ("x.json",)}), "no record x.json; correct the name"),
        (edition_of(first_of_a, only_of_b), "records of 2 machines"),
        (edition_of(first_of_a, second_of_a), "both records of a and cannot be pooled"),
        (Edition({"cpu": ()}), "records of 0 machines"),
    ):
        with pytest.raises(RecordError, match=message) as caught:
            choices_of(runs, edition)
        assert str(caught.value).startswith("data/editions.yaml: ")
    with pytest.raises(RecordError, match=r"--use: no record x\.json; correct the name"):
        choices_of(runs, requested=["x.json"])


def key_by_role(*items: Stored, edition: Edition | None = None, use: Any = ()) -> dict[str, str]:
    """Return the key of the machine in each role; ``use``: records that the user requests."""
    keys = {}
    for choice in choices_of(items, edition, [item.file for item in use]):
        keys |= dict.fromkeys(choice.roles, choice.primary.record.environment.key)
    return keys


#: One run of each machine: CPUs a, b and c, and GPUs g and h.
A, B, C = old_run(1, "a"), old_run(2, "b"), old_run(3, "c")
GPU_G, GPU_H = old_run(1, "g", gpu=factory.GPU), old_run(2, "h", gpu=factory.GPU)


def test_default_roles_follow_the_available_records() -> None:
    """Newer runs come first, and quick runs last."""
    five = [old_run(day, key) for day, key in enumerate("edcba", start=1)]
    assert key_by_role(*five) == {"cpu": "a", "second": "b", "third": "c", "fourth": "d"}
    assert key_by_role(A, old_run(9, "b", "quick")) == {"cpu": "a", "second": "b"}
    quick = old_run(3, "h", "quick", gpu=factory.GPU)
    assert key_by_role(A, GPU_G, quick) == {"cpu": "a", "gpu": "g", "third": "h"}
    assert key_by_role(GPU_G) == {"cpu": "g", "gpu": "g"}
    assert key_by_role() == {}


def test_requested_records_replace_records_in_roles() -> None:
    edition = Edition({"cpu": "a", "second": "b", "gpu": "g"})
    for use, expected in (
        ((C,), {"cpu": "c", "second": "b", "gpu": "g"}),
        ((B,), {"cpu": "a", "second": "b", "gpu": "g"}),
        ((GPU_H,), {"cpu": "a", "second": "b", "gpu": "h"}),
        ((C, A), {"cpu": "a", "second": "c", "gpu": "g"}),
    ):
        assert key_by_role(A, B, C, GPU_G, GPU_H, edition=edition, use=use) == expected
    choices = choices_of((A, B, C, GPU_G), edition, [C.file])
    assert [choice.roles for choice in choices if choice.primary is A] == [()], "it is compared"
    reason = "not used, data/editions.yaml names other machines"
    assert use_in_build(choices, GPU_H.file) == (False, reason)
    quick = old_run(9, "a", "quick")
    (choice,) = choices_of((A, old_run(8, "a"), quick), edition_of(A), [quick.file])
    assert (choice.primary, choice.named_by, choice.roles) == (quick, "--use", ("cpu",))


def test_rewriting_an_edition_keeps_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "editions.yaml"
    text = "# head\nconv_profiling:\n  # why\n  roles: {cpu: a}\n\ngpu_survey:\n  roles: {cpu: a}\n"
    path.write_text(text)
    edition = Edition({"cpu": "b", "gpu": ("conv_scaling/x.json",)}, ("c",), "2026-11-02")
    editions.write_edition(STUDY, edition, tmp_path)
    assert path.read_text().startswith(text)
    for study in (STUDY, "conv_profiling", "gpu_survey"):
        editions.write_edition(study, edition, tmp_path)
        assert editions.read_editions(tmp_path)[study] == edition
    assert path.read_text().startswith("# head\nconv_profiling:\n  roles:\n    cpu: b\n")


COUNTS = Attachment(name="lackey.json.gz", sha256="0" * 64, meaning="counts")
WITH_COUNTS = run_in_rounds(2, attachments=(COUNTS,))
NEW = run_in_rounds(3)


# Runs, days of the pooled runs, and the reason for a run's use by its day.
@pytest.mark.parametrize(("runs", "used", "reasons"), [
    ((run_in_rounds(1), NEW, run_in_rounds(2)), ["03", "02", "01"], {
        "03": "used as cpu machine, the newest full run of its machine, pooled with 2 other runs",
        "01": f"pooled with {NEW.file.partition('/')[2]}",
    }),
    ((with_part(run_in_rounds(1), "code", measuring_code="1" * 64), run_in_rounds(2)), ["02"],
     {"01": "not used, older and measured by other code"}),
    # The run with most attachments represents the pool.
    ((run_in_rounds(1), WITH_COUNTS, NEW), ["02", "03", "01"],
     {"02": "used as cpu machine, a full run of its machine that kept more files than newer ones, "
      "pooled with 2 other runs"}),
    # A run with other allocated bytes is not pooled.
    ((run_in_rounds(1, held=12288), run_in_rounds(2), NEW), ["03", "02"],
     {"01": "not used, not the same measurement: allocated_after is 16,384, not 12,288, for "
      "batch 4, layout contiguous, pass forward, subject layer as in "
      f"{NEW.file.partition('/')[2]}"}),
])  # fmt: skip
def test_runs_are_pooled(
    runs: tuple[Stored, ...], used: list[str], reasons: dict[str, str]
) -> None:
    file_by_day = {item.record.started[8:10]: item.file for item in runs}
    (choice,) = choices_of(runs)
    assert [item.file for item in choice.used] == [file_by_day[day] for day in used]
    for day, reason in reasons.items():
        assert use_in_build([choice], file_by_day[day]) == (day in used, reason)


HOST = factory.host(flags=("avx2",), machine="m1")
EQUAL_HOST = with_fields(HOST, machine="m2")
BASE = with_part(run_in_rounds(2), "environment", host=HOST)


# Part of the record, changed fields, and the reason against pooling with ``BASE``.
@pytest.mark.parametrize(("part", "change", "reason"), [
    # Different machines of one processor type are pooled, at any load.
    ("environment", {"host": EQUAL_HOST, "load_before": 9.0}, None),
    ("protocol", {"processes": {}}, "of a format that is not pooled"),
    ("code", {"measuring_code": "1" * 64}, "measured by other code"),
    ("protocol", {"seed": 1, "budget_s": 2.0}, "measured by another protocol (seed, budget_s)"),
    ("environment", {"threads": 1}, "measured with another threads"),
    ("environment", {"variables": {"A": "1"}}, "measured with another variables"),
    ("environment", {"host": None}, "measured with another host"),
])  # fmt: skip
def test_reasons_against_pooling(part: str, change: dict[str, Any], reason: str | None) -> None:
    assert pooling.why_not_pooled(BASE.record, with_part(BASE, part, **change).record) == reason


def test_values_that_vary_within_a_run_do_not_contradict() -> None:
    def values(*samples: int, **change: Any) -> pooling.DeterministicValues:
        case = factory.case(4, memory={"allocated_after": samples}, **change)
        return pooling.deterministic_values(factory.record([case]))

    contradiction = pooling.first_contradiction
    assert contradiction(values(1, 1), values(2, 2)) is not None
    assert contradiction(values(1, 1), values(1, 2)) is None
    assert contradiction(values(1), values(2, status="failed", reason="It broke.")) is None
    second = contradiction(values(1), values(1, layers=()))
    assert second is not None and second.startswith("other layers ran for batch 4, ")


def test_invalid_records_stop_only_their_machine(tmp_path: Path) -> None:
    data = factory.data_folder(tmp_path, run_in_rounds(1).record)
    (data / "editions.yaml").write_text("conv_scaling: {roles: {cpu: m-1t}}\n")
    for key, message in (("m-1t-cff32c", "no record of"), ("m-1t", "m-1t-0")):
        (data / STUDY / f"20261102T100000Z-{key}-00000000.json").write_bytes(b"")
        with pytest.raises(RecordError, match=message):
            choose_records(STUDY, data)


#: Digest of the plan of a run, which all its shards have.
SWEEP = "a" * 64


def shard_of(record: Record, number: int, of: int) -> Record:
    """Return the part of a record that shard ``number`` would have measured."""
    shard, cases, ceilings = Shard(number=number, of=of, sweep=SWEEP), [], []
    left_out = {"status": "unavailable", "reason": "This was left to another shard."}
    for index, case in enumerate(record.cases):
        # One shard also has the series without rounds.
        rounds = tuple(r for r in case.rounds if pooling.measures_process(shard, r.process))
        change: dict[str, Any] = {} if pooling.measures_case(shard, index) else {"series": {}}
        if change and not any(r.status == "ok" for r in rounds):
            change |= left_out
        cases.append(with_fields(case, rounds=rounds, **change))
    for ceiling in record.ceilings:  # each shard has a contiguous share of the samples
        n = len(ceiling.samples)
        share = ceiling.samples[(number - 1) * n // of : number * n // of]
        ceilings.append(with_fields(ceiling, samples=share))
    command = (*record.command, "--shard", f"{number}/{of}")
    parts = {"cases": tuple(cases), "ceilings": tuple(ceilings), "command": command}
    return with_fields(record, shard=shard, **parts)


def split(record: Record, of: int) -> list[Record]:
    return [shard_of(record, number, of) for number in range(1, of + 1)]


def whole_record(**change: Any) -> Record:
    """Return a record of four cases in eight processes; one case needs too much memory."""
    cases = []
    for batch in (1, 4, 16):
        rounds = factory.rounds([[1.0 + batch + process, 2.0] for process in range(8)])
        case = factory.case(batch, memory=factory.memory(batch, batch))
        cases.append(with_fields(case, rounds=rounds))
    cases.append(factory.case(64, status="out_of_memory", reason="It needs more memory."))
    plain = factory.record(cases)
    protocol = with_fields(plain.protocol, processes={"retained": 8}, budget_s=60.0)
    return with_fields(plain, **{"protocol": protocol, **change})


@given(st.integers(1, 8), st.randoms())
def test_shards_merge_to_the_whole_record_in_any_order(of: int, random: Any) -> None:
    record = whole_record()
    shards = [factory.stored(shard) for shard in split(record, of)]
    random.shuffle(shards)
    (run,) = pooling.runs_of(shards)
    assert pooling.missing_shards(run) == ()
    assert run.record == record
    if of > 2:
        (run,) = pooling.runs_of([s for s in shards if s.record.shard.number not in (2, of)])
        assert pooling.missing_shards(run) == (2, of)


def test_a_single_shard_is_described_as_a_shard(tmp_path: Path) -> None:
    """The table of machines, the list of records, and the reason of the build mention the shard."""
    shard = shard_of(whole_record(), number=3, of=10_000)
    chosen = choose_records(STUDY, factory.data_folder(tmp_path, shard))
    (stored,) = chosen.inputs.records
    cells = {row[0]: row[1] for row in setup([Run(stored, "x")]).rows}
    assert cells["Measured"] == "2026-11-01, 1 of 10,000 shards of the full plan"
    (row,) = chosen.listing
    assert row["plan"] == "full, shard 3 of 10,000"
    assert "a sweep that lacks 9,999 of 10,000 shards" in row["why"]


def test_the_newest_measurement_of_a_shard_is_used() -> None:
    record = whole_record()
    shards = [factory.stored(shard) for shard in split(record, 4)]
    newest = factory.stored(with_fields(shards[1].record, started="2026-11-02T10:00:00Z"))
    run, older = pooling.runs_of([*shards, newest])
    assert (run.parts[1], older.parts) == (newest, (shards[1],))
    assert (run.record.cases, run.record.started) == (record.cases, record.started)


@pytest.mark.parametrize(("processes_by_shard", "expected"), [
    # 8 processes are planned, and numbers from 9 on are repeats.
    # The k-th repeat of shard i of n becomes number 8 + n · (k - 1) + i.
    ([(1, 9), (2, 9)], [1, 2, 9, 10]),
    ([(7, 8, 9, 10), (8, 9)], [7, 8, 8, 9, 10, 11]),
    ([(9,), (), (9, 10)], [9, 11, 14]),
])  # fmt: skip
def test_repeats_in_several_shards_are_renumbered(
    processes_by_shard: list[tuple[int, ...]], expected: list[int]
) -> None:
    shards = []
    whole_shards = split(whole_record(), len(processes_by_shard))
    for shard, processes in zip(whole_shards, processes_by_shard, strict=True):
        rounds = tuple(factory.round_(n, {"time": (1.0,)}) for n in processes)
        shards.append(with_fields(shard, cases=(with_fields(shard.cases[0], rounds=rounds),)))
    assert [r.process for r in pooling.merge_shards(shards).cases[0].rounds] == expected


def test_shards_of_different_runs_are_not_merged() -> None:
    first, second = split(whole_record(), 2)
    for change in (
        {"shard": Shard(number=2, of=2, sweep="b" * 64)},
        {"shard": Shard(number=2, of=3, sweep=SWEEP)},
        {"shard": Shard(number=1, of=2, sweep=SWEEP), "started": "2026-11-02T10:00:00Z"},
        {"cases": second.cases[:2]},
        {"environment": with_fields(second.environment, threads=1)},
    ):
        shards = [factory.stored(first), factory.stored(with_fields(second, **change))]
        assert {run.files for run in pooling.runs_of(shards)} == {(s.file,) for s in shards}


def test_logs_of_shards_are_joined() -> None:
    logs = [CaseLogs(case=n, logs={"call": str(n)}) for n in range(4)]
    file = join_logs(pack("lackey", logs[::2]), pack("lackey", logs[1::2]), "here")
    assert file == pack("lackey", logs) == join_logs(file, file, "here")


def test_a_full_run_is_preferred_to_an_incomplete_sweep(tmp_path: Path) -> None:
    first_shard, second_shard = split(whole_record(started="2026-11-05T10:00:00Z"), 2)
    records = (whole_record(), first_shard, second_shard)
    data = factory.data_folder(tmp_path, whole_record(), first_shard)
    run, first, second = (f"{STUDY}/{record_name(record)}" for record in records)
    assert choose_records(STUDY, data).origin["records"] == [run]
    reason = "not used, a sweep that lacks 1 of 2 shards beside a full one"
    assert judge(STUDY, first, data) == Judgement(usable=True, used=False, explanation=reason)
    (row,) = (r for r in choose_records(STUDY, data, [first]).listing if r["file"] == first)
    assert row["why"] == "used as cpu machine, named by --use, a sweep that lacks 1 of 2 shards"
    write_record(second_shard, data)
    chosen = choose_records(STUDY, data)
    assert chosen.origin["records"] == [first, second, run] == [item.file for item in chosen.files]
    reason = "used as cpu machine, the newest full run of its machine, pooled with 1 other run"
    assert judge(STUDY, first, data).explanation == reason
    reason = f"merged with {first.partition('/')[2]}, shard 2 of 2"
    assert judge(STUDY, second, data).explanation == reason


def test_a_shard_that_contradicts_the_others_is_not_merged(tmp_path: Path) -> None:
    first, second = split(whole_record(), 2)
    without_layers = with_fields(second.cases[0], layers=())
    second = with_fields(second, cases=(without_layers, *second.cases[1:]))
    data = factory.data_folder(tmp_path, first, second)
    assert choose_records(STUDY, data).origin["records"] == [f"{STUDY}/{record_name(first)}"]
    judgement = judge(STUDY, f"{STUDY}/{record_name(second)}", data)
    reason = "not used, not the same measurement: other layers ran for batch 1, "
    assert not judgement.used and judgement.explanation.startswith(reason)


@pytest.mark.parametrize(("medians", "bimodal"), [
    ((1.35, 1.36, 1.4, 2.16, 2.2, 2.31), True),
    ((10.0, 12.0, 15.0, 2275.0, 9000.0, 13525.0), True),
    ((0.0, 0.0, 5000.0, 5100.0), True),
    ((0.0, 0.0, 3.0, 4.0), False),  # fewer page faults than one group needs
    ((1.0, 1.1, 1.2, 1.4, 1.6, 1.9), False),  # scattered without a gap
    ((1.0, 1.0, 1.0, 1.0, 1.0, 2.0), False),  # a single slow process
    ((*(1.0,) * 46, 1.3, 1.3), False),
    ((1.0, 1.3), True),
    ((1.0,), False),
])  # fmt: skip
def test_medians_in_two_groups_are_bimodal(medians: tuple[float, ...], bimodal: bool) -> None:
    assert gates.is_bimodal(medians) is bimodal


def round_of(time: float, process: int = 1, **change: Any) -> Round:
    return factory.round_(process, {"time": (time,)}, **change)


def record_of(*rounds: Round, **change: object) -> Record:
    """Return a record of one case with these rounds; ``change`` overrides fields of the record."""
    case = Case(factors={"size": 1}, rounds=rounds)
    return factory.measurement(cases=(case,), **change)


def test_disturbed_rounds_are_counted_among_watched_rounds() -> None:
    """Failed rounds, and rounds during which nothing watched other programs, do not count."""
    failed = round_of(1.0, status="failed", reason="It broke.", series={})
    disturbed, unwatched = round_of(1.0, disturbance="a test"), round_of(1.0, policy=None)
    assert gates.count_disturbed([record_of(round_of(1.0), disturbed, failed, unwatched)]) == (1, 2)
    assert gates.count_disturbed([record_of(unwatched, failed)]) is None
    without_proc = factory.environment(missing={"disturbance": "there is no /proc"})
    assert gates.count_disturbed([record_of(round_of(1.0), environment=without_proc)]) is None


def test_series_that_differ_by_more_than_20_percent_are_counted() -> None:
    def two_processes(time: float) -> gates.ProcessTimes:
        return gates.process_times(record_of(round_of(time, 1), round_of(time, 2)))

    reference, near, far = two_processes(1.0), two_processes(1.2), two_processes(1.21)
    assert gates.count_disagreeing(reference, reference) == 0
    assert gates.count_disagreeing(reference, near) == 0
    assert gates.count_disagreeing(reference, far) == gates.count_disagreeing(far, reference) == 1


@pytest.mark.parametrize(("peaks", "ending"), [
    ((100e9,), None),
    ((), None),
    ((250e9,), "peak of 250 GFLOP/s is more than the cores can compute, 198 GFLOP/s"),
    ((1.0,), "peak of 0 GFLOP/s; the machine was probably busy while the peak was measured"),
])  # fmt: skip
def test_peaks_above_the_cores_and_below_the_cases_are_impossible(
    peaks: tuple[float, ...], ending: str | None
) -> None:
    """``peaks`` in FLOP/s; ``ending`` of the message."""
    machine = factory.environment(host=factory.SERVER, threads=1)
    assert gates.highest_possible_rate(machine) == pytest.approx(198.4e9)
    plain = factory.ceiling("matrix_product", "before", 1.0)
    ceilings = tuple(with_fields(plain, work=10**9, samples=(1e9 / peak,)) for peak in peaks)
    message = gates.impossible_rate(factory.measurement(environment=machine, ceilings=ceilings))
    assert (message is None) == (ending is None)
    assert message is None or message.endswith(ending)
