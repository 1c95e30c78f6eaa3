"""Choice of records and roles for a paper, pooling of runs, and merging of shards.

A role (``cpu``, ``second``, ``gpu``, …) is the place of a machine in the paper.  An edition is the
list of records or machines that have the roles of one paper.
Gates detect bimodal, disturbed, contradicting or impossible measurements.
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
from report.core.records.record import Attachment, Case, Ceiling, Record, Round, Shard
from report.core.records.store import Stored, record_name, write_record
from report.evaluation.gather import Chosen, choose_records
from report.evidence.runs import Run
from report.instruments import gates
from report.instruments.counters.logs import CaseLogs, join_logs, pack
from report.instruments.judgement import Judgement, judge
from report.paper.machines import setup
from tests import factory

STUDY = "conv_scaling"
changed = msgspec.structs.replace


def run(day: int, key: str = "a", plan: str = "full", **machine: Any) -> Stored:
    """Return a run in the old format without rounds."""
    started = f"2026-11-{day:02}T10:00:00Z"
    environment = factory.environment(key, **machine)
    return factory.stored(factory.record(started=started, machine=environment, plan=plan))


def measured(day: int, **change: Any) -> Stored:
    """Return a run in rounds, on the device ``example-2t``."""
    return factory.stored(factory.measurement(f"2026-11-{day:02}T10:00:00Z", **change))


def replaced(stored: Stored, part: str, **change: Any) -> Stored:
    """Return the run with other fields in a part of the record."""
    new = changed(getattr(stored.record, part), **change)
    return factory.stored(changed(stored.record, **{part: new}))


def edition_of(*items: Stored, **roles: Any) -> Edition:
    """Return an edition with these records in the role ``cpu``, and with further roles."""
    return Edition({"cpu": tuple(item.file for item in items), **roles} if items else roles)


OLD, QUICK, OTHER = run(1), run(2, plan="quick"), run(2, "b")
SEVERAL = (OLD, QUICK, run(3), OTHER, run(9, "c"))
USED_RECORDS: tuple[tuple[tuple[Stored, ...], Edition | None, list[str]], ...] = (
    # The newest full run represents a machine; machines outside an edition are not used.
    ((run(2), run(3), run(1)), None, ["a 03 full"]),
    ((run(1), run(2, plan="quick")), None, ["a 01 full"]),
    ((run(1, plan="custom"), run(2, plan="quick")), None, ["a 02 quick"]),
    ((run(1, "a"), run(3, "b")), None, ["b 03 full", "a 01 full"]),
    (SEVERAL, edition_of(OLD), ["a 01 full"]),
    (SEVERAL, edition_of(QUICK), ["a 02 quick"]),
    (SEVERAL, edition_of(cpu="a"), ["a 03 full"]),
    (SEVERAL, edition_of(OLD, second="b"), ["b 02 full", "a 01 full"]),
    (SEVERAL, Edition({"cpu": "b"}, compared=("a", "gone")), ["a 03 full", "b 02 full"]),
)


@pytest.mark.parametrize(("runs", "edition", "expected"), USED_RECORDS)
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
    items = (run(1), run(2), run(3))
    edition = Edition({"cpu": (items[0].file,), "second": (items[2].file,)})
    used_by_roles = {choice.roles: choice.used for choice in choices_of(items, edition)}
    assert used_by_roles == {("cpu",): (items[0],), ("second",): (items[2],)}


def test_invalid_editions_are_refused() -> None:
    items = (run(1), run(2, "b"), run(3, "a"))
    for edition, words in (
        (edition_of(cpu="x"), "cpu: no record of the machine x; the machines are a, b"),
        (Edition({"gpu": ("x.json",)}), "no record x.json; correct the name"),
        (edition_of(items[0], items[1]), "records of 2 machines"),
        (edition_of(items[0], items[2]), "both records of a and cannot be pooled"),
        (Edition({"cpu": ()}), "records of 0 machines"),
    ):
        with pytest.raises(RecordError, match=words) as caught:
            choices_of(items, edition)
        assert str(caught.value).startswith("data/editions.yaml: ")
    with pytest.raises(RecordError, match=r"--use: no record x\.json; correct the name"):
        choices_of(items, requested=["x.json"])


def key_by_role(*items: Stored, edition: Edition | None = None, use: Any = ()) -> dict[str, str]:
    """Return the key of the machine in each role; ``use``: records that the user requests."""
    keys = {}
    for choice in choices_of(items, edition, [item.file for item in use]):
        keys |= dict.fromkeys(choice.roles, choice.primary.record.environment.key)
    return keys


A, B, C = run(1, "a"), run(2, "b"), run(3, "c")
GPU_G, GPU_H = run(1, "g", gpu=factory.GPU), run(2, "h", gpu=factory.GPU)


def test_default_roles_follow_the_available_records() -> None:
    five = [run(day, key) for day, key in enumerate("edcba", start=1)]
    assert key_by_role(*five) == {"cpu": "a", "second": "b", "third": "c", "fourth": "d"}
    assert key_by_role(A, run(9, "b", "quick")) == {"cpu": "a", "second": "b"}
    quick = run(3, "h", "quick", gpu=factory.GPU)
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
    assert use_in_build(choices, GPU_H.file) == (
        False,
        "not used, data/editions.yaml names other machines",
    )
    quick = run(9, "a", "quick")
    (choice,) = choices_of((A, run(8, "a"), quick), edition_of(A), [quick.file])
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
COUNTED = measured(2, attachments=(COUNTS,))
NEW = measured(3)
#: Runs, days of the pooled runs, and the reason for a run's use by its day.
POOLED: tuple[tuple[tuple[Stored, ...], list[str], dict[str, str]], ...] = (
    (
        (measured(1), NEW, measured(2)),
        ["03", "02", "01"],
        {
            "03": "used as cpu, the newest full run of its machine, pooled with 2 other runs",
            "01": f"pooled with {NEW.file.partition('/')[2]}",
        },
    ),
    (
        (replaced(measured(1), "code", measuring_code="1" * 64), measured(2)),
        ["02"],
        {"01": "not used, older and measured by other code"},
    ),
    # The run with most attachments represents the pool.
    (
        (measured(1), COUNTED, NEW),
        ["02", "03", "01"],
        {"02": "used as cpu, a full run of its machine that kept more files than newer ones, "
         "pooled with 2 other runs"},
    ),
    # A run with other allocated bytes is not pooled.
    (
        (measured(1, held=12288), measured(2), NEW),
        ["03", "02"],
        {"01": "not used, not the same measurement: allocated_after is 16,384, not 12,288, for "
         "batch 4, layout contiguous, pass forward, subject layer as in "
         f"{NEW.file.partition('/')[2]}"},
    ),
)  # fmt: skip


@pytest.mark.parametrize(("runs", "used", "reasons"), POOLED)
def test_runs_are_pooled(
    runs: tuple[Stored, ...], used: list[str], reasons: dict[str, str]
) -> None:
    file_by_day = {item.record.started[8:10]: item.file for item in runs}
    (choice,) = choices_of(runs)
    assert [item.file for item in choice.used] == [file_by_day[day] for day in used]
    for day, reason in reasons.items():
        assert use_in_build([choice], file_by_day[day]) == (day in used, reason)


HOST = factory.host(flags=("avx2",), machine="m1")
TWIN = changed(HOST, machine="m2")
BASE = replaced(measured(2), "environment", host=HOST)
#: Part of the record, changed fields, and the reason against pooling.
POOLING: tuple[tuple[str, dict[str, Any], str | None], ...] = (
    # Different machines of one processor type are pooled, at any load.
    ("environment", {"host": TWIN, "load_before": 9.0}, None),
    ("protocol", {"processes": {}}, "of a format that is not pooled"),
    ("code", {"measuring_code": "1" * 64}, "measured by other code"),
    ("protocol", {"seed": 1, "budget_s": 2.0}, "measured by another protocol (seed, budget_s)"),
    ("environment", {"threads": 1}, "measured with another threads"),
    ("environment", {"variables": {"A": "1"}}, "measured with another variables"),
    ("environment", {"host": None}, "measured with another host"),
)


@pytest.mark.parametrize(("part", "change", "reason"), POOLING)
def test_reasons_against_pooling(part: str, change: dict[str, Any], reason: str | None) -> None:
    assert pooling.why_not_pooled(BASE.record, replaced(BASE, part, **change).record) == reason


def test_values_that_vary_within_a_run_do_not_contradict() -> None:
    def record(*samples: int, **change: Any) -> Record:
        return factory.record([factory.case(4, memory={"allocated_after": samples}, **change)])

    def contradiction(first: Record, second: Record) -> str | None:
        return pooling.first_contradiction(
            pooling.deterministic_values(first), pooling.deterministic_values(second)
        )

    assert contradiction(record(1, 1), record(2, 2)) is not None
    assert contradiction(record(1, 1), record(1, 2)) is None
    assert contradiction(record(1), record(2, status="failed", reason="It broke.")) is None
    second = contradiction(record(1), record(1, layers=()))
    assert second is not None and second.startswith("other layers ran for batch 4, ")


def runs_used(chosen: Chosen) -> list[list[str]]:
    """Return the files by device, the representative file first."""
    files = []
    for stored in chosen.inputs.records:
        files.append([file for run in stored.runs for file in run.files])
    return files


@pytest.mark.parametrize(("key", "text"), [("m-1t", "m-1t-0"), ("m-1t-cff32c", "no record of")])
def test_a_bad_record_stops_only_papers_of_its_machine(tmp_path: Path, key: str, text: str) -> None:
    data = factory.data_folder(tmp_path, measured(1).record)
    (data / STUDY / f"20261102T100000Z-{key}-00000000.json").write_bytes(b"")
    (data / "editions.yaml").write_text("conv_scaling: {roles: {cpu: m-1t}}\n")
    with pytest.raises(RecordError, match=text):
        choose_records(STUDY, data)


SWEEP = "a" * 64


def shard_of(record: Record, number: int, of: int) -> Record:
    """Return the part of a record that shard ``number`` would have measured."""
    shard = Shard(number=number, of=of, sweep=SWEEP)

    def part_of_case(index: int, case: Case) -> Case:
        rounds = tuple(r for r in case.rounds if pooling.measures_process(shard, r.process))
        if pooling.measures_case(shard, index):
            return changed(case, rounds=rounds)
        if any(r.status == "ok" for r in rounds):
            return changed(case, rounds=rounds, series={})
        reason = "This was left to another shard."
        return changed(case, rounds=rounds, series={}, status="unavailable", reason=reason)

    def part_of_ceiling(ceiling: Ceiling) -> Ceiling:
        """Return the shard's contiguous share of the samples."""
        n = len(ceiling.samples)
        begin, end = (number - 1) * n // of, number * n // of
        return changed(ceiling, samples=ceiling.samples[begin:end])

    return changed(
        record,
        cases=tuple(part_of_case(index, case) for index, case in enumerate(record.cases)),
        ceilings=tuple(map(part_of_ceiling, record.ceilings)),
        command=(*record.command, "--shard", f"{number}/{of}"),
        shard=shard,
    )


def split(record: Record, of: int) -> list[Record]:
    return [shard_of(record, number, of) for number in range(1, of + 1)]


def timed(**change: Any) -> Record:
    """Return a record of four cases in eight processes; one case needs too much memory."""
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


@given(st.integers(1, 8), st.randoms())
def test_shards_merge_to_the_whole_record_in_any_order(of: int, random: Any) -> None:
    record = timed()
    items = [factory.stored(shard) for shard in split(record, of)]
    random.shuffle(items)
    (run,) = pooling.runs_of(items)
    assert pooling.missing_shards(run) == ()
    assert run.record == record
    if of > 2:
        present = [item for item in items if item.record.shard.number not in (2, of)]
        (run,) = pooling.runs_of(present)
        assert pooling.missing_shards(run) == (2, of)


def test_a_single_shard_is_described_as_a_shard(tmp_path: Path) -> None:
    """The table of machines, the list of records, and the reason of the build mention the shard."""
    chosen = choose_records(STUDY, factory.data_folder(tmp_path, shard_of(timed(), 3, 10_000)))
    (stored,) = chosen.inputs.records
    cells = {row[0]: row[1] for row in setup([Run(stored, "x")]).rows}
    assert cells["Measured"] == "2026-11-01, 1 of 10,000 shards of the full plan"
    (listed,) = chosen.listing
    assert listed["plan"] == "full, shard 3 of 10,000"
    assert "a sweep that lacks 9,999 of 10,000 shards" in listed["why"]


def test_the_newest_measurement_of_a_shard_counts() -> None:
    parts = [factory.stored(shard) for shard in split(timed(), 4)]
    newest = factory.stored(changed(parts[1].record, started="2026-11-02T10:00:00Z"))
    run, older = pooling.runs_of([*parts, newest])
    assert (run.parts[1], older.parts) == (newest, (parts[1],))
    assert (run.record.cases, run.record.started) == (timed().cases, timed().started)


@pytest.mark.parametrize(("shards", "expected"), [
    # Numbers of the processes of each shard; 8 are planned, and numbers from 9 on are repeats.
    # The k-th repeat of shard i of n becomes number 8 + n · (k - 1) + i.
    ([(1, 9), (2, 9)], [1, 2, 9, 10]),
    ([(7, 8, 9, 10), (8, 9)], [7, 8, 8, 9, 10, 11]),
    ([(9,), (), (9, 10)], [9, 11, 14]),
])  # fmt: skip
def test_repeats_are_renumbered(shards: list[tuple[int, ...]], expected: list[int]) -> None:
    parts = []
    for part, numbers in zip(split(timed(), len(shards)), shards, strict=True):
        rounds = tuple(factory.round_(n, {"time": (1.0,)}) for n in numbers)
        parts.append(changed(part, cases=(changed(part.cases[0], rounds=rounds),)))
    assert [r.process for r in pooling.merge_shards(parts).cases[0].rounds] == expected


def test_shards_of_different_runs_are_not_merged() -> None:
    first, second = split(timed(), 2)
    for change in (
        {"shard": Shard(number=2, of=2, sweep="b" * 64)},
        {"shard": Shard(number=2, of=3, sweep=SWEEP)},
        {"shard": Shard(number=1, of=2, sweep=SWEEP), "started": "2026-11-02T10:00:00Z"},
        {"cases": second.cases[:2]},
        {"environment": changed(second.environment, threads=1)},
    ):
        items = [factory.stored(first), factory.stored(changed(second, **change))]
        assert {run.files for run in pooling.runs_of(items)} == {(item.file,) for item in items}


def test_logs_of_shards_are_joined() -> None:
    logs = [CaseLogs(case=n, logs={"call": str(n)}) for n in range(4)]
    file = join_logs(pack("lackey", logs[::2]), pack("lackey", logs[1::2]), "here")
    assert file == pack("lackey", logs) == join_logs(file, file, "here")


def test_a_full_run_is_preferred_to_an_incomplete_sweep(tmp_path: Path) -> None:
    first_shard, second_shard = split(timed(started="2026-11-05T10:00:00Z"), 2)
    data = factory.data_folder(tmp_path, timed(), first_shard)
    run, first, second = (f"{STUDY}/{record_name(r)}" for r in (timed(), first_shard, second_shard))
    assert runs_used(choose_records(STUDY, data)) == [[run]]
    reason = "not used, a sweep that lacks 1 of 2 shards beside a full one"
    assert judge(STUDY, first, data) == Judgement(usable=True, used=False, explanation=reason)
    listing = choose_records(STUDY, data, [first]).listing
    assert [row["why"] for row in listing if row["file"] == first] == [
        "used as cpu, named by --use, a sweep that lacks 1 of 2 shards"
    ]
    write_record(second_shard, data)
    chosen = choose_records(STUDY, data)
    assert runs_used(chosen) == [[first, second, run]]
    assert chosen.origin["records"] == [first, second, run] == [item.file for item in chosen.files]
    assert judge(STUDY, first, data).explanation == (
        "used as cpu, the newest full run of its machine, pooled with 1 other run"
    )
    name = first.partition("/")[2]
    assert judge(STUDY, second, data).explanation == f"merged with {name}, shard 2 of 2"


def test_a_shard_that_contradicts_the_others_is_not_merged(tmp_path: Path) -> None:
    first, second = split(timed(), 2)
    second = changed(second, cases=(changed(second.cases[0], layers=()), *second.cases[1:]))
    data = factory.data_folder(tmp_path, first, second)
    assert runs_used(choose_records(STUDY, data)) == [[f"{STUDY}/{record_name(first)}"]]
    judgement = judge(STUDY, f"{STUDY}/{record_name(second)}", data)
    assert not judgement.used
    assert judgement.explanation.startswith(
        "not used, not the same measurement: other layers ran for batch 1, "
    )


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


def timed_in(*rounds: Round, **change: object) -> Record:
    case = Case(factors={"size": 1}, rounds=rounds)
    return factory.measurement(cases=(case,), **change)


def test_only_watched_rounds_count_as_undisturbed() -> None:
    failed = round_of(1.0, status="failed", reason="It broke.", series={})
    disturbed, unwatched = round_of(1.0, disturbance="a test"), round_of(1.0, policy=None)
    assert gates.count_disturbed([timed_in(round_of(1.0), disturbed, failed, unwatched)]) == (1, 2)
    assert gates.count_disturbed([timed_in(unwatched, failed)]) is None
    without_proc = factory.environment(missing={"disturbance": "there is no /proc"})
    assert gates.count_disturbed([timed_in(round_of(1.0), environment=without_proc)]) is None


def test_series_that_differ_by_more_than_20_percent_are_counted() -> None:
    def two_processes(time: float) -> gates.ProcessTimes:
        return gates.process_times(timed_in(round_of(time, 1), round_of(time, 2)))

    reference, near, far = two_processes(1.0), two_processes(1.2), two_processes(1.21)
    assert gates.count_disagreeing(reference, reference) == 0
    assert gates.count_disagreeing(reference, near) == 0
    assert gates.count_disagreeing(reference, far) == gates.count_disagreeing(far, reference) == 1


@pytest.mark.parametrize(("rates", "expected"), [
    ((100e9,), None),
    ((), None),
    ((250e9,), "peak of 250 GFLOP/s is more than the cores can compute, 198 GFLOP/s"),
    ((1.0,), "peak of 0 GFLOP/s; the machine was probably busy while the peak was measured"),
])  # fmt: skip
def test_impossible_rates_are_a_problem(rates: tuple[float, ...], expected: str | None) -> None:
    machine = factory.environment(host=factory.SERVER, threads=1)
    assert gates.highest_possible_rate(machine) == pytest.approx(198.4e9)
    plain = factory.ceiling("matrix_product", "before", 1.0)
    ceilings = tuple(changed(plain, work=10**9, samples=(1e9 / rate,)) for rate in rates)
    problem = gates.impossible_rate(factory.measurement(environment=machine, ceilings=ceilings))
    if expected is None:
        assert problem is None
    else:
        assert problem is not None and problem.endswith(expected)
