"""Checks of a machine, of a run's results, and of submitted records."""

import re
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
from experiments.__main__ import main
from experiments.commands import checks
from experiments.commands.checks import CheckResult, checks_of
from experiments.commands.outcome import case_table, instability
from report.core.records.record import Case, Record, Shard
from report.core.records.store import Stored, read_record, write_record
from tests import factory
from tests.experiments.conftest import Ask
from tests.factory import DATA

GIB = 2**30
changed = msgspec.structs.replace


@pytest.mark.parametrize(("check", "level", "words"), [
    (checks.processors(2, 2, 2, None), "ok", "2 threads by default"),
    (checks.processors(2, None, 2, 2.0), "ok", ""),
    (checks.processors(8, 4, 8, None), "note", "--threads 4"),
    (checks.processors(64, 64, 64, 2.5), "problem", "--threads 2"),
    (checks.processors(4, 4, 4, 0.5), "problem", "--threads 1"),
    (checks.free_memory(10 * GIB, 16 * GIB), "ok", "10.0 of 16.0 GiB"),
    (checks.free_memory(2 * GIB - 1, 16 * GIB), "note", ""),
    (checks.free_memory(2 * GIB, 16 * GIB, 16 * GIB), "ok", ""),
    (checks.free_memory(10 * GIB, 16 * GIB, GIB), "problem", "1.0 GiB in all"),
])  # fmt: skip
def test_machine_checks_return_a_level_and_advice(
    check: CheckResult, level: str, words: str
) -> None:
    assert check.level == level and words in check.text


def test_doctor_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask) -> None:
    monkeypatch.setattr(checks.quiet, "unavailable", lambda: None)
    monkeypatch.setattr(checks.quiet, "watch", lambda: "others used 2.0 of 2")
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
    assert code == 0 and list(tmp_path.iterdir()) == [], "doctor writes no file"
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / ".20261120T100000Z-a-2t.journal.jsonl").write_text("")
    code, out, _ = ask("doctor", "--records", tmp_path)
    assert code == 1 and "unfinished: tiny (1)" in out


def test_the_case_table_shows_missing_values_as_a_dash() -> None:
    factors = {"batch": 1024, "samples": "layer"}  # a factor may be named like a column
    series = {"time": (0.003, 0.001, 0.002), "allocated_peak": (718_900_000,) * 3}
    without_memory = Case(factors=factors, status="out_of_memory", reason="Memory ran out.")
    cases = (Case(factors=factors, series=series), without_memory)
    heading, complete, failed = case_table(cases).splitlines()
    assert heading.split()[:2] == ["batch", "samples"]
    assert complete.split()[2:] == ["2", "ms", "–", "3", "calls", "718.9", "MB", "ok"]
    assert failed.split()[2:7] == ["–", "–", "–", "–", "out_of_memory:"]
    assert heading.index("outcome") == complete.index("ok") == failed.index("out_of_memory")


def case_of_processes(*medians: float, **change: Any) -> Case:
    """Return a case with one process per median; ``change`` applies to every process."""
    rounds = factory.rounds([median] for median in medians)
    return Case(factors={"size": 1}, rounds=tuple(changed(round_, **change) for round_ in rounds))


def test_unstable_and_disturbed_cases_are_named() -> None:
    good, bimodal = case_of_processes(1.0, 1.2), case_of_processes(0.001, 0.002, 0.0015)
    busy = case_of_processes(1.0, 1.0, disturbance="somebody")
    one_of_six = case_of_processes(*[1.0] * 6)
    one_of_six = changed(one_of_six, rounds=(busy.rounds[0], *one_of_six.rounds[1:]))
    failed = case_of_processes(1.0, status="failed", reason="It broke.", series={})
    for cases, message in (
        ([one_of_six, failed], "None"),
        ([good, bimodal], "1 of 2 results may be unstable: size=1 (processes in two groups, 1 ms"),
        ([busy] * 3, "3 of 3 results may be unstable: size=1 (somebody, memory retained) and 2 m"),
    ):
        assert str(instability(cases, listed=1)).startswith(message)


FILE = DATA / "conv_scaling" / "20261126T044924Z-amd-epyc-1t-cff32c-02a9bf49.json"


@pytest.fixture
def plan_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the cases of the study by those of ``FILE``, which has an older plan."""
    cases = tuple(case.factors for case in read_record(FILE, DATA).record.cases)
    study = replace(registry.load("conv_scaling"), cases=lambda levels: cases)
    monkeypatch.setattr(registry, "load", lambda name: study)


def change_first_case(**changes: object) -> Callable[[Record], Record]:
    return lambda r: changed(r, cases=(changed(r.cases[0], **changes), *r.cases[1:]))


def speed_up_first_case(record: Record) -> Record:
    """Divide the times of the first case by 1000."""
    rounds = []
    for round_ in record.cases[0].rounds:
        times = tuple(seconds / 1000 for seconds in round_.samples("time"))
        rounds.append(changed(round_, series={**round_.series, "time": times}))
    return change_first_case(rounds=tuple(rounds))(record)


@pytest.mark.usefixtures("plan_of_the_record")
def test_a_fault_changes_only_its_check() -> None:
    stored = read_record(FILE, DATA)
    before = {check.topic: check.level for check in checks_of(stored, DATA)}
    topics = "machine content files plan outcomes state quiet ceilings"
    assert before.keys() == {*topics.split()}
    failed = change_first_case(status="failed", reason="It broke.", rounds=(), series={})
    shard = Shard(number=2, of=4, sweep="0" * 64)
    faults: tuple[tuple[str, str, Callable[[Record], Record]], ...] = (
        ("ceilings", "problem", speed_up_first_case),
        ("ceilings", "note", lambda record: changed(record, ceilings=())),
        ("outcomes", "problem", failed),
        ("plan", "note", lambda record: changed(record, shard=shard)),
        ("plan", "note", lambda record: changed(record, cases=record.cases[1:])),
    )
    for topic, level, change in faults:
        faulty = Stored(change(stored.record), stored.file)
        after = {check.topic: check.level for check in checks_of(faulty, DATA)}
        assert before[topic] == "ok" and after == {**before, topic: level}


def test_an_unexpected_error_does_not_stop_other_checks(
    monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setattr(checks.gates, "count_disturbed", lambda records: 1 / 0)
    code, out, _ = ask("check", FILE, FILE)
    message = " ".join(out.split())
    assert code == 1
    assert message.count("cannot be used (ZeroDivisionError: division by zero)") == 2


@pytest.mark.usefixtures("plan_of_the_record")
def test_check_prints_markdown(tmp_path: Path, ask: Ask) -> None:
    """The expected row is the median of eight process medians, with their range as interval."""
    record = read_record(FILE, DATA).record
    medians = sorted(median(r.samples("time")) for r in record.cases[0].rounds_under("retained"))
    assert len(medians) == 8
    interval = f"{medians[0] * 1e6:.4g} µs to {medians[-1] * 1e6:.4g} µs"
    expected = f"subject=layer` | {median(medians) * 1e6:.4g} µs | {interval} | 8 processes |"
    code, markdown, _ = ask("check", FILE, "--markdown")
    assert markdown.startswith(f"### {FILE.name}: can be handed in\n\n- **note**, quiet: `")
    first_row, *_ = re.findall("^[|] `batch=1,.*", markdown, re.MULTILINE)
    assert expected in first_row
    assert "| Machine | `AMD EPYC (Zen 3), 1 thread; " in markdown
    assert code == 0 and markdown.count("\n| `batch=") == len(record.cases)
    failed = change_first_case(status="failed", reason="a|b `c` <d> @e", rounds=(), series={})
    code, markdown, _ = ask("check", write_record(failed(record), tmp_path), "--markdown")
    assert code == 1 and "- **problem**, outcomes: `1 of 50 cases failed" in markdown
    assert "subject=layer` | – | – | – | – | `failed: a\\|b 'c' <d> @e` |\n" in markdown
    assert "- **note**, files: `not beside the record: lackey.json.gz;" in markdown


def write_submissions(folder: Path) -> dict[str, tuple[str, str]]:
    """Write a folder per student; return the expected use and note by student."""
    second = next((DATA / "conv_scaling").glob("*cff32c-e24f329b.json"))
    write_record(changed(read_record(second, DATA).record, attachments=()), folder / "second")
    other_study = next((DATA / "training_roofline").glob("*cff32c*.json"))
    foreign = changed(read_record(other_study, DATA).record, study="conv_scaling", attachments=())
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


def test_collect_prints_a_row_per_submission(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = write_submissions(tmp_path / "in")
    into, notes = tmp_path / "class", tmp_path / "notes"
    command = ["collect", str(tmp_path / "in"), "--into", str(into), "--notes", str(notes)]
    for run in ("first", "second"):
        assert main(command) == 1
        head, *lines = capsys.readouterr().out.splitlines()
        rows, summary, notes_on_site = lines[:8], lines[8], lines[9:]
        assert head.split()[:3] == ["who", "machine", "study"]
        assert len(notes_on_site) == (1 if run == "first" else 0), "site.yaml is written once"
        assert {row.split()[0] for row in rows} == expected.keys()
        assert [" nothing " in row for row in rows] == [False] * 2 + [True] * 6
        for row in rows:
            use, words = expected[row.split()[0]]
            assert f"  {use}  " in row and words in row
        assert summary.startswith("8 files: 2 usable, 6 not")
    assert len(list(into.rglob("*.json"))) == 2
    assert "cannot be used" in (notes / "foreign.txt").read_text("utf-8")
    assert "# course:" in (into / "site.yaml").read_text("utf-8")


def test_collect_copies_a_single_file_and_follows_no_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "class"
    assert main(["collect", str(FILE), "--into", str(into)]) == 0
    # The record is copied with its attachments; a later run of the command replaces no file.
    copy = into / "conv_scaling" / FILE.name
    assert copy.read_bytes() == FILE.read_bytes()
    assert [path.name for path in copy.with_suffix("").iterdir()] == ["lackey.json.gz"]
    copy.write_bytes(b"another")
    assert main(["collect", str(FILE), "--into", str(into)]) == 1
    assert copy.read_bytes() == b"another"
    # Neither the target folder nor a folder in it may be a link.
    (tmp_path / "elsewhere").mkdir()
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / "elsewhere")
    assert main(["collect", str(FILE), "--into", str(linked)]) == 1
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "conv_scaling").symlink_to(tmp_path / "elsewhere")
    assert main(["collect", str(FILE), "--into", str(tmp_path / "half")]) == 1
    assert list((tmp_path / "elsewhere").iterdir()) == []
    # A copy under another name and start time is recognized.
    record = read_record(FILE, DATA).record
    machine = changed(record.environment, key="laptop", name="my laptop")
    renamed = changed(record, environment=machine, started="2026-11-26T04:49:23Z")
    renamed_file = write_record(changed(renamed, attachments=()), tmp_path / "in")
    capsys.readouterr()
    fresh = str(tmp_path / "fresh")
    assert main(["collect", str(FILE), str(renamed_file), "--into", fresh]) == 1
    assert "has the same ceilings and end time and samples as" in capsys.readouterr().out
