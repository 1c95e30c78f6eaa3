"""Checks of a machine, of a run's results, and of the records that students hand in."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pytest

from experiments import registry
from experiments.commands import checks
from experiments.commands.checks import CheckResult, checks_of
from experiments.commands.outcome import case_table, instability
from report.core.records.record import Case, Record, Shard
from report.core.records.store import Stored, read_record, write_record
from tests import factory
from tests.experiments.conftest import Ask
from tests.factory import DATA

GIB = 2**30
with_fields = msgspec.structs.replace


def processors(usable: int, cores: int | None, quota: float | None) -> CheckResult:
    """Check processors that are all usable; ``quota`` is a container's limit."""
    return checks.processors(usable, cores, total=usable, quota=quota)


@pytest.mark.parametrize(("check", "level", "words"), [
    (processors(2, cores=2, quota=None), "ok", "2 threads by default"),
    (processors(2, cores=None, quota=2.0), "ok", ""),
    (processors(8, cores=4, quota=None), "note", "--threads 4"),
    (processors(64, cores=64, quota=2.5), "problem", "--threads 2"),
    (processors(4, cores=4, quota=0.5), "problem", "--threads 1"),
    (checks.free_memory(10 * GIB, total=16 * GIB), "ok", "10.0 of 16.0 GiB"),
    (checks.free_memory(2 * GIB - 1, total=16 * GIB), "note", "large cases will run out"),
    (checks.free_memory(2 * GIB, total=16 * GIB, limit=16 * GIB), "ok", ""),
    (checks.free_memory(10 * GIB, total=16 * GIB, limit=GIB), "problem", "1.0 GiB in all"),
])  # fmt: skip
def test_a_check_returns_a_level_and_advice(check: CheckResult, level: str, words: str) -> None:
    assert check.level == level and words in check.text


def test_doctor_lists_problems_of_the_machine_and_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(checks.quiet, "unavailable", lambda: None)
    monkeypatch.setattr(checks.quiet, "observe_disturbance", lambda: "others used 2.0 of 2")
    code, out, _ = ask("doctor", "--records", tmp_path)
    *lines, last_line = out.splitlines()
    levels: dict[str, str] = {}
    for line in lines:
        if not line.startswith(" "):  # not the continuation of a text
            level, topic, *_ = line.split()
            levels[topic] = level
    assert levels["now"] == "problem" and levels["runs"] == "ok" and [*levels][-1] == "PyTorch"
    counts = Counter(levels.values())
    summary = f"problems: {counts['problem']}, notes: {counts['note']}."
    assert last_line == f"This machine can measure; {summary}"
    assert code == 0 and list(tmp_path.iterdir()) == []
    # Without PyTorch the exit code is 1; an unfinished run is listed.
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / ".20261120T100000Z-a-2t.journal.jsonl").write_text("")
    code, out, _ = ask("doctor", "--records", tmp_path)
    assert code == 1 and "unfinished: tiny (1)" in out


def test_the_case_table_shows_missing_values_as_a_dash() -> None:
    factors = {"batch": 1024, "samples": "layer"}  # a factor may have the name of a column
    series = {"time": (0.003, 0.001, 0.002), "allocated_peak": (718_900_000,) * 3}
    without_memory = Case(factors=factors, status="out_of_memory", reason="Memory ran out.")
    cases = (Case(factors=factors, series=series), without_memory)
    heading, complete, failed = case_table(cases).splitlines()
    assert heading.split()[:2] == ["batch", "samples"]
    assert complete.split()[2:] == ["2", "ms", "–", "3", "calls", "718.9", "MB", "ok"]
    assert failed.split()[2:7] == ["–", "–", "–", "–", "out_of_memory:"]
    assert heading.index("outcome") == complete.index("ok") == failed.index("out_of_memory")


def case_of_processes(*times: float, **change: Any) -> Case:
    """Return a case with one process per time (s); ``change`` sets fields of every process."""
    rounds = factory.rounds([time] for time in times)
    return Case(
        factors={"size": 1}, rounds=tuple(with_fields(round_, **change) for round_ in rounds)
    )


def test_unstable_and_disturbed_cases_are_named() -> None:
    good, bimodal = case_of_processes(1.0, 1.2), case_of_processes(0.001, 0.002, 0.0015)
    disturbed = case_of_processes(1.0, 1.0, disturbance="somebody")
    once_in_six = case_of_processes(*[1.0] * 6)
    once_in_six = with_fields(once_in_six, rounds=(disturbed.rounds[0], *once_in_six.rounds[1:]))
    failed = case_of_processes(1.0, status="failed", reason="It broke.", series={})
    assert instability([once_in_six, failed], listed=1) is None
    for cases, message in (
        ([good, bimodal], "1 of 2 results may be unstable: size=1 (processes in two groups, 1 ms"),
        ([disturbed] * 3, "3 of 3 results may be unstable: size=1 (somebody, memory retained) and"),
    ):
        assert str(instability(cases, listed=1)).startswith(message)


FILE = DATA / "conv_scaling" / "20261126T044924Z-amd-epyc-1t-cff32c-02a9bf49.json"


@pytest.fixture
def plan_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the cases of the study by those of ``FILE``, which has an older plan."""
    cases = tuple(case.factors for case in read_record(FILE, DATA).record.cases)
    study = replace(registry.load("conv_scaling"), cases=lambda levels: cases)
    monkeypatch.setattr(registry, "load", lambda name: study)


def change_first_case(record: Record, **changes: object) -> Record:
    first, *others = record.cases
    return with_fields(record, cases=(with_fields(first, **changes), *others))


def fail_first_case(record: Record, reason: str = "It broke.") -> Record:
    return change_first_case(record, status="failed", reason=reason, rounds=(), series={})


def speed_up_first_case(record: Record) -> Record:
    """Divide the times of the first case by 1000."""
    rounds = []
    for round_ in record.cases[0].rounds:
        times = tuple(seconds / 1000 for seconds in round_.samples("time"))
        rounds.append(with_fields(round_, series={**round_.series, "time": times}))
    return change_first_case(record, rounds=tuple(rounds))


@pytest.mark.usefixtures("plan_of_the_record")
def test_a_fault_changes_only_its_check() -> None:
    stored = read_record(FILE, DATA)
    before = {check.topic: check.level for check in checks_of(stored, DATA)}
    topics = "machine content files plan outcomes state quiet ceilings"
    assert before.keys() == {*topics.split()}
    shard = Shard(number=2, of=4, sweep="0" * 64)
    faults: tuple[tuple[str, str, Callable[[Record], Record]], ...] = (
        # The first case then computes faster than the measured peak rate of the machine.
        ("ceilings", "problem", speed_up_first_case),
        ("ceilings", "note", lambda record: with_fields(record, ceilings=())),
        ("outcomes", "problem", fail_first_case),
        ("plan", "note", lambda record: with_fields(record, shard=shard)),
        ("plan", "note", lambda record: with_fields(record, cases=record.cases[1:])),
    )
    for topic, level, change in faults:
        faulty = Stored(change(stored.record), stored.file)
        after = {check.topic: check.level for check in checks_of(faulty, DATA)}
        assert before[topic] == "ok" and after == {**before, topic: level}


def test_an_error_does_not_stop_other_checks(monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    monkeypatch.setattr(checks.gates, "count_disturbed", lambda records: 1 / 0)
    code, out, _ = ask("check", FILE, FILE)
    message = " ".join(out.split())
    assert code == 1
    # The message is printed for both files.
    assert message.count("cannot be used (ZeroDivisionError: division by zero)") == 2


@pytest.mark.usefixtures("plan_of_the_record")
def test_check_prints_markdown(tmp_path: Path, ask: Ask) -> None:
    """The time of a case is the median of eight processes; its interval is their range."""
    record = read_record(FILE, DATA).record
    medians = sorted(median(r.samples("time")) for r in record.cases[0].rounds_under("retained"))
    assert len(medians) == 8
    interval = f"{medians[0] * 1e6:.4g} µs to {medians[-1] * 1e6:.4g} µs"
    expected = f"{median(medians) * 1e6:.4g} µs {interval} 8 processes"
    code, markdown, _ = ask("check", FILE, "--markdown")
    assert markdown.startswith(f"### {FILE.name}: can be handed in\n\n- **note**, quiet: `")
    _, block, _ = markdown.split("```\n")
    _, first_row, *rows = block.splitlines()
    assert expected in " ".join(first_row.split())
    assert "\n- Machine: `AMD EPYC (Zen 3), 1 thread; " in markdown
    assert code == 0 and 1 + len(rows) == len(record.cases)
    # The characters that Markdown would interpret are inside a code span or block.
    failed = fail_first_case(record, reason="a|b `c` <d> @e")
    code, markdown, _ = ask("check", write_record(failed, tmp_path), "--markdown")
    assert code == 1 and "- **problem**, outcomes: `1 of 50 cases failed" in markdown
    assert "  –  failed: a|b 'c' <d> @e\n" in markdown
    assert "- **note**, files: `not beside the record: lackey.json.gz;" in markdown


def write_submissions(folder: Path) -> dict[str, tuple[str, str]]:
    """Write a folder per student; return student → expected use, and words of the printed note."""
    second = next((DATA / "conv_scaling").glob("*cff32c-e24f329b.json"))
    write_record(with_fields(read_record(second, DATA).record, attachments=()), folder / "second")
    other_study = next((DATA / "training_roofline").glob("*cff32c*.json"))
    foreign = with_fields(
        read_record(other_study, DATA).record, study="conv_scaling", attachments=()
    )
    write_record(foreign, folder / "foreign")
    for student in ("anna", "edited", "damaged", "linked", "moved/conv_profiling", "packed"):
        (folder / student).mkdir(parents=True)
        if student not in ("linked", "packed"):
            shutil.copy(FILE, folder / student)
    factory.replace_text(
        folder / "edited" / FILE.name, "2026-11-26T04:49:24Z", "2026-11-26T04:49:25Z"
    )
    (folder / "damaged" / FILE.name).write_bytes(FILE.read_bytes()[:-9])
    (folder / "linked" / FILE.name).symlink_to(FILE)
    (folder / "packed" / "run.zip").write_bytes(b"PK")
    return {
        "anna": ("paper, report", "not beside the record: lackey.json.gz"),
        "second": ("paper, report", "same machine as anna"),
        "damaged": ("nothing", "not valid JSON"),
        "edited": ("nothing", "hand in the file that the experiment wrote"),
        "foreign": ("nothing", "not of conv_scaling, but of training_roofline"),
        "linked": ("nothing", "is a link"),
        "moved": ("nothing", "a record of conv_scaling in a folder of conv_profiling"),
        "packed": ("nothing", "is packed; unpack it"),
    }


def test_collect_prints_a_row_per_submission(tmp_path: Path, ask: Ask) -> None:
    expected = write_submissions(tmp_path / "in")
    into, notes = tmp_path / "class", tmp_path / "notes"
    for run in ("first", "second"):
        code, out, _ = ask("collect", tmp_path / "in", "--into", into, "--notes", notes)
        assert code == 1
        head, *lines = out.splitlines()
        rows, summary, hints = lines[:8], lines[8], lines[9:]
        assert head.split()[:3] == ["who", "machine", "study"]
        assert len(hints) == (1 if run == "first" else 0), "site.yaml is written once"
        assert {row.split()[0] for row in rows} == expected.keys()
        # The two usable records are listed first.
        assert [" nothing " in row for row in rows] == [False] * 2 + [True] * 6
        for row in rows:
            use, words = expected[row.split()[0]]
            assert f"  {use}  " in row and words in row
        assert summary.startswith("8 files: 2 usable, 6 not")
    assert len(list(into.rglob("*.json"))) == 2
    assert "cannot be used" in (notes / "foreign.txt").read_text("utf-8")
    assert "# course:" in (into / "site.yaml").read_text("utf-8")


def test_collect_copies_a_single_file_and_follows_no_link(tmp_path: Path, ask: Ask) -> None:
    into = tmp_path / "class"
    assert ask("collect", FILE, "--into", into)[0] == 0
    # The record is copied with its attachments; a later run of the command replaces no file.
    copy = into / "conv_scaling" / FILE.name
    assert copy.read_bytes() == FILE.read_bytes()
    assert [path.name for path in copy.with_suffix("").iterdir()] == ["lackey.json.gz"]
    copy.write_bytes(b"another")
    assert ask("collect", FILE, "--into", into)[0] == 1
    assert copy.read_bytes() == b"another"
    # Neither the target folder nor a folder in it may be a link.
    elsewhere, linked, folder_with_link = (tmp_path / name for name in ("elsewhere", "a", "b"))
    elsewhere.mkdir()
    linked.symlink_to(elsewhere)
    assert ask("collect", FILE, "--into", linked)[0] == 1
    folder_with_link.mkdir()
    (folder_with_link / "conv_scaling").symlink_to(elsewhere)
    assert ask("collect", FILE, "--into", folder_with_link)[0] == 1
    assert list(elsewhere.iterdir()) == []


def test_collect_recognizes_a_copy_with_another_name_and_time(tmp_path: Path, ask: Ask) -> None:
    record = read_record(FILE, DATA).record
    machine = with_fields(record.environment, key="laptop", name="my laptop")
    renamed = with_fields(record, environment=machine, started="2026-11-26T04:49:23Z")
    renamed_file = write_record(with_fields(renamed, attachments=()), tmp_path / "in")
    code, out, _ = ask("collect", FILE, renamed_file, "--into", tmp_path / "new")
    assert code == 1 and "has the same ceilings and end time and samples as" in out
