"""Choice of records and roles for a paper, pooling of runs, and merging of shards.

Also the gates that detect bimodal, disturbed, contradicting or impossible measurements.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.core.errors import RecordError
from report.core.records import pooling
from report.core.records.choice import (
    Edition,
    choices_of,
    read_editions,
    use_in_build,
    write_edition,
)
from report.core.records.record import Attachment, Case, Ceiling, Record, Round, Shard
from report.core.records.store import Stored, record_name, write_record
from report.engine.gather import Chosen, choose
from report.evidence.runs import Run
from report.instruments import gates
from report.instruments.counters.logs import CaseLogs, joined_logs, pack
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


def named(*items: Stored, **roles: Any) -> Edition:
    """Return an edition with these records in the role ``cpu``, and with further roles."""
    return Edition({"cpu": tuple(item.file for item in items), **roles} if items else roles)


# --------------------------------------------------------------------------- records in use

OLD, QUICK, OTHER = run(1), run(2, plan="quick"), run(2, "b")
SEVERAL = (OLD, QUICK, run(3), OTHER, run(9, "c"))
CHOICES: tuple[tuple[tuple[Stored, ...], Edition | None, list[str]], ...] = (
    # The newest full run represents a machine; machines outside an edition are not used.
    ((run(2), run(3), run(1)), None, ["a 03 full"]),
    ((run(1), run(2, plan="quick")), None, ["a 01 full"]),
    ((run(1, plan="custom"), run(2, plan="quick")), None, ["a 02 quick"]),
    ((run(1, "a"), run(3, "b")), None, ["b 03 full", "a 01 full"]),
    (SEVERAL, named(OLD), ["a 01 full"]),
    (SEVERAL, named(QUICK), ["a 02 quick"]),
    (SEVERAL, named(cpu="a"), ["a 03 full"]),
    (SEVERAL, named(OLD, second="b"), ["b 02 full", "a 01 full"]),
    (SEVERAL, Edition({"cpu": "b"}, compared=("a", "gone")), ["a 03 full", "b 02 full"]),
)


@pytest.mark.parametrize(("runs", "edition", "expected"), CHOICES)
def test_used_records_by_machine_day_and_plan(
    runs: tuple[Stored, ...], edition: Edition | None, expected: list[str]
) -> None:
    """The choice does not depend on the order of files."""
    for items in (runs, runs[::-1]):
        records = [choice.primary.record for choice in choices_of(items, edition)]
        used = [f"{r.environment.key} {r.started[8:10]} {r.protocol.plan}" for r in records]
        assert used == expected


def test_two_roles_may_have_unpooled_records_of_one_machine() -> None:
    """The two records are used alone; the machine's third record is not used."""
    items = (run(1), run(2), run(3))
    edition = Edition({"cpu": (items[0].file,), "second": (items[2].file,)})
    found = {choice.roles: choice.used for choice in choices_of(items, edition)}
    assert found == {("cpu",): (items[0],), ("second",): (items[2],)}


def test_invalid_editions_are_refused() -> None:
    items = (run(1), run(2, "b"), run(3, "a"))
    for edition, words in (
        (named(cpu="x"), "cpu: no record of the machine x; the machines are a, b"),
        (Edition({"gpu": ("x.json",)}), "no record x.json; correct the name"),
        (named(items[0], items[1]), "records of 2 machines"),
        (named(items[0], items[2]), "both records of a and cannot be pooled"),
        (Edition({"cpu": ()}), "records of 0 machines"),
    ):
        with pytest.raises(RecordError, match=words) as caught:
            choices_of(items, edition)
        assert str(caught.value).startswith("data/editions.yaml: ")
    with pytest.raises(RecordError, match=r"--use: no record x\.json; correct the name"):
        choices_of(items, requested=["x.json"])


# ------------------------------------------------------------------------------------------ roles


def key_by_role(*items: Stored, edition: Edition | None = None, use: Any = ()) -> dict[str, str]:
    found = choices_of(items, edition, [item.file for item in use])
    return {role: c.primary.record.environment.key for c in found for role in c.roles}


A, B, C = run(1, "a"), run(2, "b"), run(3, "c")
G, H = run(1, "g", gpu=factory.GPU), run(2, "h", gpu=factory.GPU)


def test_default_roles_follow_the_available_records() -> None:
    five = [run(day, key) for day, key in enumerate("edcba", start=1)]
    assert key_by_role(*five) == {"cpu": "a", "second": "b", "third": "c", "fourth": "d"}
    assert key_by_role(A, run(9, "b", "quick")) == {"cpu": "a", "second": "b"}
    quick = run(3, "h", "quick", gpu=factory.GPU)
    assert key_by_role(A, G, quick) == {"cpu": "a", "gpu": "g", "third": "h"}
    assert key_by_role(G) == {"cpu": "g", "gpu": "g"}
    assert key_by_role() == {}


def test_requested_records_replace_the_role_of_their_machine() -> None:
    edition = Edition({"cpu": "a", "second": "b", "gpu": "g"})
    for use, expected in (
        ((C,), {"cpu": "c", "second": "b", "gpu": "g"}),
        ((B,), {"cpu": "a", "second": "b", "gpu": "g"}),
        ((H,), {"cpu": "a", "second": "b", "gpu": "h"}),
        ((C, A), {"cpu": "a", "second": "c", "gpu": "g"}),
    ):
        assert key_by_role(A, B, C, G, H, edition=edition, use=use) == expected
    found = choices_of((A, B, C, G), edition, [C.file])
    assert [choice.roles for choice in found if choice.primary is A] == [()], "it is compared"
    assert use_in_build(found, H.file) == (
        False,
        "not used, data/editions.yaml names other machines",
    )
    quick = run(9, "a", "quick")
    (choice,) = choices_of((A, run(8, "a"), quick), named(A), [quick.file])
    assert (choice.primary, choice.by, choice.roles) == (quick, "--use", ("cpu",))


def test_rewriting_an_edition_keeps_other_lines(tmp_path: Path) -> None:
    path = tmp_path / "editions.yaml"
    text = "# head\nconv_profiling:\n  # why\n  roles: {cpu: a}\n\ngpu_survey:\n  roles: {cpu: a}\n"
    path.write_text(text)
    edition = Edition({"cpu": "b", "gpu": ("conv_scaling/x.json",)}, ("c",), "2026-11-02")
    write_edition(STUDY, edition, tmp_path)
    assert path.read_text().startswith(text)
    for study in (STUDY, "conv_profiling", "gpu_survey"):
        write_edition(study, edition, tmp_path)
        assert read_editions(tmp_path)[study] == edition
    assert path.read_text().startswith("# head\nconv_profiling:\n  roles:\n    cpu: b\n")


# ---------------------------------------------------------------------------------------- pooling

COUNTS = Attachment(name="lackey.json.gz", sha256="0" * 64, meaning="counts")
COUNTED = measured(2, attachments=(COUNTS,))
NEW = measured(3)
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
    # The pooled run with most attachments represents all.
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


@pytest.mark.parametrize(("runs", "used", "fates"), POOLED)
def test_runs_are_pooled(runs: tuple[Stored, ...], used: list[str], fates: dict[str, str]) -> None:
    files = {item.record.started[8:10]: item.file for item in runs}
    (choice,) = choices_of(runs)
    assert [item.record.started[8:10] for item in choice.used] == used
    for day, words in fates.items():
        assert use_in_build([choice], files[day]) == (day in used, words)


HOST, TWIN = (factory.host(flags=("avx2",), machine=machine) for machine in ("m1", "m2"))
BASE = replaced(measured(2), "environment", host=HOST)
UNLIKE: tuple[tuple[str, dict[str, Any], str | None], ...] = (
    # Different machines of one processor type are pooled, at any load.
    ("environment", {"host": TWIN, "load_before": 9.0}, None),
    ("protocol", {"processes": {}}, "of a format that is not pooled"),
    ("code", {"measuring_code": "1" * 64}, "measured by other code"),
    ("protocol", {"seed": 1, "budget_s": 2.0}, "measured by another protocol (seed, budget_s)"),
    ("environment", {"threads": 1}, "measured with another threads"),
    ("environment", {"variables": {"A": "1"}}, "measured with another variables"),
    ("environment", {"host": None}, "measured with another host"),
)


@pytest.mark.parametrize(("part", "change", "why"), UNLIKE)
def test_reasons_against_pooling(part: str, change: dict[str, Any], why: str | None) -> None:
    assert pooling.why_not_pooled(BASE.record, replaced(BASE, part, **change).record) == why


def test_values_that_vary_within_a_run_do_not_contradict() -> None:
    def held(*samples: int, **change: Any) -> Record:
        return factory.record([factory.case(4, memory={"allocated_after": samples}, **change)])

    def compared(one: Record, other: Record) -> str | None:
        return pooling.first_contradiction(
            pooling.deterministic_values(one), pooling.deterministic_values(other)
        )

    assert compared(held(1, 1), held(2, 2)) is not None
    assert compared(held(1, 1), held(1, 2)) is None
    assert compared(held(1), held(2, status="failed", reason="It broke.")) is None
    other = compared(held(1), held(1, layers=()))
    assert other is not None and other.startswith("other layers ran for batch 4, ")


def runs_used(chosen: Chosen) -> list[list[str]]:
    """Return the files by device, the representative file first."""
    return [[f for run in stored.runs for f in run.files] for stored in chosen.inputs.records]


@pytest.mark.parametrize(("key", "text"), [("m-1t", "m-1t-0"), ("m-1t-cff32c", "no record of")])
def test_a_bad_record_stops_only_papers_of_its_machine(tmp_path: Path, key: str, text: str) -> None:
    data = factory.data_folder(tmp_path, measured(1).record)
    (data / STUDY / f"20261102T100000Z-{key}-00000000.json").write_bytes(b"")
    (data / "editions.yaml").write_text("conv_scaling: {roles: {cpu: m-1t}}\n")
    with pytest.raises(RecordError, match=text):
        choose(STUDY, data)


# ------------------------------------------------------------------------------------------ shards

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

    def ceiling(each: Ceiling) -> Ceiling:
        """Return the shard's contiguous share of the samples."""
        n = len(each.samples)
        return changed(each, samples=each.samples[(number - 1) * n // of : number * n // of])

    return changed(
        record,
        cases=tuple(part_of_case(index, case) for index, case in enumerate(record.cases)),
        ceilings=tuple(map(ceiling, record.ceilings)),
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
    items = [factory.stored(one) for one in split(record, of)]
    random.shuffle(items)
    (run,) = pooling.runs_of(items)
    assert pooling.missing_shards(run) == ()
    assert run.record == record
    if of > 2:
        (run,) = pooling.runs_of(
            [each for each in items if each.record.shard.number not in (2, of)]
        )
        assert pooling.missing_shards(run) == (2, of)


def test_a_single_shard_is_described_as_a_shard(tmp_path: Path) -> None:
    """In the table of machines, in the list of records, and in the reason of the build."""
    chosen = choose(STUDY, factory.data_folder(tmp_path, shard_of(timed(), 3, 10_000)))
    (stored,) = chosen.inputs.records
    cells = {row[0]: row[1] for row in setup([Run(stored, "x")]).rows}
    assert cells["Measured"] == "2026-11-01, 1 of 10,000 shards of the full plan"
    (listed,) = chosen.listing
    assert listed["plan"] == "full, shard 3 of 10,000"
    assert "a sweep that lacks 9,999 of 10,000 shards" in listed["why"]


def test_the_newest_measurement_of_a_shard_counts() -> None:
    parts = [factory.stored(one) for one in split(timed(), 4)]
    again = factory.stored(changed(parts[1].record, started="2026-11-02T10:00:00Z"))
    run, left = pooling.runs_of([*parts, again])
    assert (run.parts[1], left.parts) == (again, (parts[1],))
    assert (run.record.cases, run.record.started) == (timed().cases, timed().started)


@pytest.mark.parametrize(("shards", "expected"), [
    # Eight processes are planned; processes from 9 on repeat disturbed ones.
    ([(1, 9), (2, 9)], [1, 2, 9, 10]),
    ([(7, 8, 9, 10), (8, 9)], [7, 8, 8, 9, 10, 11]),
    ([(9,), (), (9, 10)], [9, 11, 14]),
])  # fmt: skip
def test_repeats_are_numbered(shards: list[tuple[int, ...]], expected: list[int]) -> None:
    parts = []
    for part, numbers in zip(split(timed(), len(shards)), shards, strict=True):
        rounds = tuple(factory.round_(n, {"time": (1.0,)}) for n in numbers)
        parts.append(changed(part, cases=(changed(part.cases[0], rounds=rounds),)))
    assert [r.process for r in pooling.merged(parts).cases[0].rounds] == expected


def test_shards_of_different_runs_are_not_merged() -> None:
    one, other = split(timed(), 2)
    for change in (
        {"shard": Shard(number=2, of=2, sweep="b" * 64)},
        {"shard": Shard(number=2, of=3, sweep=SWEEP)},
        {"shard": Shard(number=1, of=2, sweep=SWEEP), "started": "2026-11-02T10:00:00Z"},
        {"cases": other.cases[:2]},
        {"environment": changed(other.environment, threads=1)},
    ):
        items = [factory.stored(one), factory.stored(changed(other, **change))]
        assert [run.files for run in pooling.runs_of(items)] == [(found.file,) for found in items]


def test_logs_of_shards_are_joined() -> None:
    logs = [CaseLogs(case=n, logs={"call": str(n)}) for n in range(4)]
    file = joined_logs(pack("lackey", logs[::2]), pack("lackey", logs[1::2]), "here")
    assert file == pack("lackey", logs) == joined_logs(file, file, "here")


def test_a_full_run_is_preferred_to_an_incomplete_sweep(tmp_path: Path) -> None:
    one, other = split(timed(started="2026-11-05T10:00:00Z"), 2)
    data = factory.data_folder(tmp_path, timed(), one)
    run, first, second = (f"{STUDY}/{record_name(r)}" for r in (timed(), one, other))
    assert runs_used(choose(STUDY, data)) == [[run]]
    lacking = "not used, a sweep that lacks 1 of 2 shards beside a full one"
    assert judge(STUDY, first, data) == Judgement(usable=True, used=False, words=lacking)
    named = choose(STUDY, data, [first]).listing
    assert [each["why"] for each in named if each["file"] == first] == [
        "used as cpu, as --use names it, a sweep that lacks 1 of 2 shards"
    ]
    write_record(other, data)
    found = choose(STUDY, data)
    assert runs_used(found) == [[first, second, run]]
    assert found.origin["records"] == [first, second, run] == [item.file for item in found.files]
    assert judge(STUDY, first, data).words == (
        "used as cpu, the newest full run of its machine, pooled with 1 other run"
    )
    name = first.partition("/")[2]
    assert judge(STUDY, second, data).words == f"merged with {name}, shard 2 of 2"


def test_a_shard_that_contradicts_the_others_is_not_merged(tmp_path: Path) -> None:
    one, other = split(timed(), 2)
    odd = changed(other, cases=(changed(other.cases[0], layers=()), *other.cases[1:]))
    data = factory.data_folder(tmp_path, one, odd)
    first, second = (f"{STUDY}/{record_name(r)}" for r in (one, odd))
    assert runs_used(choose(STUDY, data)) == [[first]]
    judgement = judge(STUDY, second, data)
    assert not judgement.used
    assert judgement.words.startswith(
        "not used, not the same measurement: other layers ran for batch 1, "
    )


# ------------------------------------------------------------------------------------------- gates


@pytest.mark.parametrize(("medians", "bimodal"), [
    ((1.35, 1.36, 1.4, 2.16, 2.2, 2.31), True),
    ((10.0, 12.0, 15.0, 2275.0, 9000.0, 13525.0), True),
    ((0.0, 0.0, 5000.0, 5100.0), True),
    ((0.0, 0.0, 3.0, 4.0), False),  # so few page faults count as none
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
    loud, unwatched = round_of(1.0, disturbance="a test"), round_of(1.0, policy=None)
    assert gates.disturbed([timed_in(round_of(1.0), loud, failed, unwatched)]) == (1, 2)
    assert gates.disturbed([timed_in(unwatched, failed)]) is None
    blind = factory.environment(missing={"disturbance": "there is no /proc"})
    assert gates.disturbed([timed_in(round_of(1.0), environment=blind)]) is None


def test_series_that_differ_by_a_fifth_are_counted() -> None:
    one, near, far = (timed_in(*(round_of(t, n) for n in (1, 2))) for t in (1.0, 1.2, 1.21))
    assert gates.disagreeing(one, one) == gates.disagreeing(one, near) == 0
    assert gates.disagreeing(one, far) == gates.disagreeing(far, one) == 1


@pytest.mark.parametrize(("rates", "why"), [
    ((100e9,), None),
    ((), None),
    ((250e9,), "peak of 250 GFLOP/s is more than the cores can compute, 198 GFLOP/s"),
    ((1.0,), "peak of 0 GFLOP/s; the machine was probably busy while the peak was measured"),
])  # fmt: skip
def test_impossible_rates_are_a_problem(rates: tuple[float, ...], why: str | None) -> None:
    machine = factory.environment(host=factory.SERVER, threads=1)
    assert gates.most_possible(machine) == pytest.approx(198.4e9)
    plain = factory.ceiling("matrix_product", "before", 1.0)
    ceilings = tuple(changed(plain, work=10**9, samples=(1e9 / r,)) for r in rates)
    found = gates.problem(factory.measurement(environment=machine, ceilings=ceilings))
    assert found == why or (why and found and found.endswith(why))
