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
            series={name: tuple(x / 1000 for x in found) for name, found in each.series.items()},
        )
        for each in case.rounds
    )
    return msgspec.structs.replace(case, rounds=rounds)


def failed(case: Case) -> Case:
    return msgspec.structs.replace(case, status="failed", reason="It broke.", rounds=(), series={})


def levels(stored: Stored) -> dict[str, str]:
    return {check.topic: check.level for check in checks_of(stored, DATA)}


@pytest.mark.parametrize(
    ("topic", "level", "change"),
    [
        ("ceilings", "problem", first(quicker)),
        ("plan", "note", lambda record: msgspec.structs.replace(record, shard=SHARD)),
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


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A record whose start was changed, as a student has handed it in."""
    path = tmp_path / "inbox" / FILE.name
    path.parent.mkdir()
    shutil.copy(FILE, path)
    factory.edit(path, "2026-11-26T04:49:24Z", "2026-11-26T04:49:25Z")
    return path


def test_one_record_is_told_check_by_check(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(FILE)]) == 0
    verdict, *checks = capsys.readouterr().out.splitlines()
    assert verdict == f"{FILE}: can be handed in" and 7 < len(checks) < 24
    assert main(["check", str(edited)]) == 1
    assert "hand in the file that the experiment wrote" in " ".join(capsys.readouterr().out.split())
    factory.file_record(edited, b"{}")
    assert main(["check", str(edited)]) == 1
    assert "problem  format" in capsys.readouterr().out


def test_of_a_class_the_good_ones_are_copied_once(
    edited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / FILE.name
    factory.file_record(alone, factory.text_of(FILE))
    data = tmp_path / "data"
    for _ in range(2):
        assert main(["check", str(FILE), str(edited), str(alone), "--into", str(data)]) == 1
        said = capsys.readouterr().out.splitlines()
        verdicts = [line.partition(": ")[2] for line in said if line.startswith("/")]
        assert verdicts == ["can be handed in", "cannot be handed in", "cannot be handed in"]
        assert sum(line.startswith("ok       copy") for line in said) == 1
        assert said[-1] == "3 records: 1 can be handed in; 2 cannot."
    assert read_record(data / "conv_scaling" / FILE.name, data).edited is False
    assert [path.read_bytes() for path in data.rglob("*.zip")] == [FILE.read_bytes()]


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file grows beyond 64 MiB: copying a device without end would fill the disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**26, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("target", ["/dev/zero", "../secret", "nowhere", "."])
def test_no_link_is_followed_and_the_next_student_is_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
) -> None:
    link, good = tmp_path / "anna" / FILE.name, tmp_path / "ben" / FILE.name
    for path in (link, good):
        path.parent.mkdir()
    (tmp_path / "secret").write_text("the teacher's")
    link.symlink_to(target)
    shutil.copy(FILE, good)
    data = tmp_path / "data"
    assert main(["check", str(link), str(good), "--into", str(data)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "2 records: 1 can be handed in; 1 cannot."
    assert [path for path in data.rglob("*.zip") if not path.is_symlink()] == [
        data / "conv_scaling" / FILE.name
    ]


def test_what_cannot_be_copied_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.write_text("a file where the folder belongs")
    assert main(["check", str(FILE), "--into", str(data)]) == 1
    assert "not copied" in capsys.readouterr().out
    assert main(["check", str(tmp_path / FILE.name)]) == 1
    assert "No such file" in " ".join(capsys.readouterr().out.split())
