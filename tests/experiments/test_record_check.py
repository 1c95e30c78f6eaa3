"""Whether a record can be handed in: real ones can, and each fault is named in its line."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from experiments.__main__ import main
from experiments.harness.record_check import checks_of
from report.records.record import Case, Record, Shard
from report.records.store import Stored, read_record
from tests import factory

DATA = Path(__file__).parents[2] / "data"
FILE = DATA / "conv_scaling" / "20261126T044924Z-amd-epyc-1t-cff32c-02a9bf49.zip"
SHARD = Shard(number=2, of=4, sweep="0" * 64)


changed = msgspec.structs.replace


@pytest.fixture(scope="module")
def good() -> Stored:
    return read_record(FILE, DATA)


def first(change: Callable[[Case], Case]) -> Callable[[Record], Record]:
    return lambda record: changed(record, cases=(change(record.cases[0]), *record.cases[1:]))


def quicker(case: Case) -> Case:
    """The same case in a thousandth of the time."""
    rounds = (
        changed(each, series={n: tuple(x / 1000 for x in s) for n, s in each.series.items()})
        for each in case.rounds
    )
    return changed(case, rounds=tuple(rounds))


def failed(case: Case) -> Case:
    return changed(case, status="failed", reason="It broke.", rounds=(), series={})


def levels(stored: Stored) -> dict[str, str]:
    return {check.topic: check.level for check in checks_of(stored, DATA)}


@pytest.mark.parametrize(
    ("topic", "level", "change"),
    [
        ("ceilings", "problem", first(quicker)),
        ("plan", "note", lambda record: changed(record, shard=SHARD)),
        ("ceilings", "note", lambda record: changed(record, ceilings=())),
        ("outcomes", "problem", first(failed)),
        ("plan", "note", lambda record: changed(record, cases=record.cases[1:])),
    ],
)
def test_each_fault_changes_its_line_alone(
    good: Stored, topic: str, level: str, change: Callable[[Record], Record]
) -> None:
    before, after = levels(good), levels(Stored(change(good.record), good.file))
    assert before[topic] == "ok"
    assert {name for name in after if after[name] != before[name]} == {topic}
    assert after[topic] == level


def handed_in(folder: Path) -> Iterator[tuple[Path, bool]]:
    """What students hand in, each in a folder of their own, and whether it is good."""
    for student in ("anna", "edited", "unpacked", "damaged"):
        (folder / student).mkdir()
        path = folder / student / FILE.name
        shutil.copy(FILE, path)
        match student:
            case "edited":
                factory.edit(path, "2026-11-26T04:49:24Z", "2026-11-26T04:49:25Z")
            case "damaged":
                factory.file_record(path, b"{}")
            case "unpacked":
                path.write_bytes(factory.text_of(FILE))
        yield path, student == "anna"
    yield folder / FILE.name, False


def test_of_a_class_the_good_ones_are_copied_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, data = dict(handed_in(tmp_path)), tmp_path / "data"
    for _ in range(2):
        assert main(["check", *map(str, files), "--into", str(data)]) == 1
        said = capsys.readouterr().out.splitlines()
        verdicts = [line.partition(": ")[2] for line in said if line.startswith("/")]
        expected = [f"{'can' if good else 'cannot'} be handed in" for good in files.values()]
        assert verdicts == expected
        assert sum(line.startswith("ok       copy") for line in said) == 1
        assert said[-1] == f"{len(files)} records: 1 can be handed in; {len(files) - 1} cannot."
    assert [path.read_bytes() for path in data.rglob("*.zip")] == [FILE.read_bytes()]


def test_one_record_is_told_check_by_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(FILE)]) == 0
    verdict, *checks = capsys.readouterr().out.splitlines()
    assert verdict == f"{FILE}: can be handed in" and 7 < len(checks) < 24
    files = {path.parent.name: path for path, _ in handed_in(tmp_path)}
    occupied = tmp_path / "a file where the folder belongs"
    occupied.touch()
    for path, words in (
        (files["edited"], "hand in the file that the experiment wrote"),
        (files["damaged"], "problem format"),
        (files[tmp_path.name], "No such file"),
        (FILE, "not copied"),
    ):
        assert main(["check", str(path), "--into", str(occupied)]) == 1
        assert words in " ".join(capsys.readouterr().out.split())
