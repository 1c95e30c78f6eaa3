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

DATA = Path(__file__).parents[2] / "data"
FILE = DATA / "conv_scaling" / "20261122T173825Z-intel-xeon-1t-10bc99-50be89e7.json"
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
    shutil.copytree(FILE.with_suffix(""), path.with_suffix(""))
    path.write_text(FILE.read_text("utf-8").replace("2026-11-22T17:38:25Z", "2026-11-22T17:38:26Z"))
    return path


def test_one_record_is_told_check_by_check(
    edited: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(FILE)]) == 0
    said = capsys.readouterr().out
    assert said.endswith("It can be handed in.\n") and len(said.splitlines()) < 24
    assert main(["check", str(edited)]) == 1
    assert "hand in the file that the experiment wrote" in " ".join(capsys.readouterr().out.split())
    edited.write_text("{}")
    assert main(["check", str(edited)]) == 1
    assert "problem  format" in capsys.readouterr().out


def test_a_class_takes_a_line_each_and_the_good_ones_are_copied_once(
    edited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / FILE.name
    shutil.copy(FILE, alone)
    data = tmp_path / "data"
    for again in ("copied to", "is there:"):
        assert main(["check", str(FILE), str(edited), str(alone), "--into", str(data)]) == 1
        good, copied, bad, without, closing = capsys.readouterr().out.splitlines()
        assert good.split()[:2] == ["note", str(FILE)], "its processes disagree"
        assert "Intel Xeon" in good, "the label of its machine"
        assert again in copied
        assert bad.split()[:2] == ["problem", str(edited)] and "content:" in bad
        assert bad.endswith("hand in the file that the experiment wrote"), "the whole reason"
        assert "is not beside the record; hand it in too" in without
        assert closing == "3 records: 1 can be handed in, 1 of them with notes; 2 cannot."
    assert read_record(data / "conv_scaling" / FILE.name, data).untouched
    assert len([*data.rglob("*.json")]) == 1 and len([*data.rglob("*.gz")]) > 0


def handed_in(folder: Path) -> Path:
    """A good record with its files, as a student has handed it in."""
    shutil.copytree(FILE.with_suffix(""), folder / FILE.stem)
    return Path(shutil.copy(FILE, folder / FILE.name))


def link_beside(path: Path, target: str) -> None:
    (path.with_suffix("") / "notes.txt").symlink_to(target)


def link_of_named(path: Path, target: str) -> None:
    named = next(each for each in path.with_suffix("").iterdir())
    named.unlink()
    named.symlink_to(target)


def link_of_folder(path: Path, target: str) -> None:
    shutil.rmtree(path.with_suffix(""))
    path.with_suffix("").symlink_to(target)


def link_of_record(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


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
@pytest.mark.parametrize(
    ("change", "copied"),
    [(link_beside, True), (link_of_named, False), (link_of_folder, False), (link_of_record, False)],
)
def test_no_link_is_followed_and_the_next_student_is_looked_at(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path, str], None],
    copied: bool,
    target: str,
) -> None:
    students = []
    for name in ("anna", "ben"):
        (tmp_path / name).mkdir()
        students.append(handed_in(tmp_path / name))
    (tmp_path / "secret").write_text("the teacher's")
    change(students[0], target)
    data = tmp_path / "data"
    code = main(["check", *map(str, students), "--into", str(data)])
    said = capsys.readouterr().out.splitlines()
    assert code == (0 if copied else 1)
    assert len(said) == (5 if copied else 4), "a line a student and one for each copy"
    assert "is there" in said[-2] if copied else "copied to" in said[-2]
    names = {item.name for item in read_record(FILE, DATA).record.attachments}
    assert {path.name for path in (data / "conv_scaling" / FILE.stem).iterdir()} == names
    assert not [path for path in data.rglob("*") if path.is_symlink()]


def test_what_cannot_be_copied_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.write_text("a file where the folder belongs")
    assert main(["check", str(FILE), "--into", str(data)]) == 1
    assert "not copied" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "nosuch.json")]) == 1
    assert "there is no such file" in " ".join(capsys.readouterr().out.split())
