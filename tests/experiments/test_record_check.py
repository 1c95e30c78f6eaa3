"""Whether a record can be handed in: real ones can, and each fault is named in its line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from experiments.__main__ import main
from experiments.harness.record_check import checks_of
from report.records.record import Case, Record
from report.records.store import Stored, read_record

DATA = Path(__file__).parents[2] / "data"
FILE = DATA / "conv_scaling" / "20261122T173825Z-intel-xeon-1t-10bc99-50be89e7.json"


@pytest.fixture(scope="module")
def good() -> Stored:
    return read_record(FILE, DATA)


def first(change: Callable[[Case], Case]) -> Callable[[Record], Record]:
    return lambda record: msgspec.structs.replace(
        record, cases=(change(record.cases[0]), *record.cases[1:])
    )


def quicker(case: Case) -> Case:
    """The same case in a thousandth of the time."""
    rounds = tuple(
        msgspec.structs.replace(
            each,
            series=tuple(
                msgspec.structs.replace(one, samples=tuple(x / 1000 for x in one.samples))
                for one in each.series
            ),
        )
        for each in case.rounds
    )
    return msgspec.structs.replace(case, rounds=rounds)


def failed(case: Case) -> Case:
    return msgspec.structs.replace(case, status="failed", reason="It broke.", rounds=(), series=())


def levels(stored: Stored) -> dict[str, str]:
    return {check.topic: check.level for check in checks_of(stored)}


@pytest.mark.parametrize(
    ("topic", "level", "change"),
    [
        ("ceilings", "problem", first(quicker)),
        ("ceilings", "note", lambda record: msgspec.structs.replace(record, ceilings=())),
        ("outcomes", "problem", first(failed)),
        ("plan", "note", lambda record: msgspec.structs.replace(record, cases=record.cases[1:])),
    ],
)
def test_each_fault_changes_its_line_alone(
    good: Stored, topic: str, level: str, change: Callable[[Record], Record]
) -> None:
    before, after = levels(good), levels(Stored(change(good.record), good.file))
    assert before[topic] == "ok"
    assert {name for name in after if after[name] != before[name]} == {topic}
    assert after[topic] == level


def test_the_command_reads_files_and_exits_with_1_for_one_that_was_edited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(FILE)]) == 0
    assert capsys.readouterr().out.endswith("It can be handed in.\n")
    (folder := tmp_path / "conv_scaling").mkdir()
    edited = folder / FILE.name
    shutil.copy(FILE, edited)
    edited.write_text(
        edited.read_text("utf-8").replace("2026-11-22T17:38:25Z", "2026-11-22T17:38:26Z")
    )
    assert main(["check", str(FILE), str(edited)]) == 1
    assert "hand in the file that the experiment wrote" in " ".join(capsys.readouterr().out.split())
    edited.write_text("{}")
    assert main(["check", str(edited)]) == 1
    assert "problem  format" in capsys.readouterr().out
