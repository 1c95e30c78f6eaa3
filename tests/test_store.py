"""Records on disk: written once and whole, and never replaced."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import pytest

from report.errors import RecordError
from report.records.filed import content_hash, encode
from report.records.store import (
    Stored,
    list_records,
    read_record,
    read_study,
    record_name,
    write_record,
)
from tests import factory


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_the_name_says_when_where_and_what() -> None:
    record = factory.record()
    assert record_name(record) == f"20261101T100000Z-example-2t-{content_hash(record)}.json"


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    record = factory.record()
    path = write_record(record, tmp_path)
    assert path == tmp_path / "conv_scaling" / record_name(record)
    assert read_record(path, tmp_path) == Stored(record, f"conv_scaling/{path.name}")
    assert hidden(path.parent) == []


def test_others_may_read_a_record(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        path = write_record(factory.record(), tmp_path)
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_record_is_never_replaced(tmp_path: Path) -> None:
    record = factory.record()
    path = write_record(record, tmp_path)
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(RecordError, match="exists already and records are never replaced"):
        write_record(record, tmp_path)
    assert path.read_text(encoding="utf-8") == "mine"
    assert hidden(path.parent) == []


def no_links(code: int) -> Any:
    def link(source: Path, target: Path) -> None:
        raise OSError(code, os.strerror(code))

    return link


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK])
def test_without_hard_links_nothing_is_replaced_either(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_links(code))
    record = factory.record()
    path = write_record(record, tmp_path)
    assert path.read_bytes() == encode(record) + b"\n"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(RecordError, match="records are never replaced"):
        write_record(record, tmp_path)
    assert path.read_text(encoding="utf-8") == "mine"
    assert hidden(path.parent) == []


def write_at_once(folder: str, links: bool, start: Any, answers: Any) -> None:
    """In a process of its own: write one record when the others do."""
    if not links:
        os.link = no_links(errno.EPERM)
    start.wait()
    try:
        write_record(factory.record(), Path(folder))
        answers.put("written")
    except RecordError:
        answers.put("refused")


@pytest.mark.parametrize("links", [True, False])
def test_of_two_writers_one_wins(links: bool, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    start, answers = context.Barrier(2), context.Queue()
    writers = [
        context.Process(target=write_at_once, args=(str(tmp_path), links, start, answers))
        for _ in range(2)
    ]
    for writer in writers:
        writer.start()
    outcome = sorted(answers.get(timeout=20) for _ in writers)
    for writer in writers:
        writer.join(timeout=20)
    assert outcome == ["refused", "written"]
    (path,) = (tmp_path / "conv_scaling").iterdir()
    assert path.read_bytes() == encode(factory.record()) + b"\n"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "conv_scaling").write_text("a file", encoding="utf-8")
    with pytest.raises(RecordError, match=r"cannot be written \(.+\); make room"):
        write_record(factory.record(), tmp_path)


def test_an_interrupted_writer_leaves_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_record(factory.record(), tmp_path)
    assert list((tmp_path / "conv_scaling").iterdir()) == []


# --------------------------------------------------------------------------------------- reading


def test_an_edited_record_is_noticed(tmp_path: Path) -> None:
    path = write_record(factory.record(), tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"seed": 0', '"seed": 1'), encoding="utf-8")
    assert not read_record(path, tmp_path).untouched


@pytest.mark.parametrize(
    "layout",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: json.dumps(json.loads(text), indent=4),
        lambda text: json.dumps(json.loads(text), separators=(",", ":")),
        lambda text: json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False),
    ],
    ids=["line ends", "indent", "compact", "order"],
)
def test_another_layout_is_no_edit(layout: Any, tmp_path: Path) -> None:
    path = write_record(factory.record(), tmp_path)
    path.write_bytes(layout(path.read_text(encoding="utf-8")).encode())
    assert read_record(path, tmp_path).untouched


def test_a_study_is_read_oldest_first(tmp_path: Path) -> None:
    for day in (3, 1, 2):
        write_record(factory.record(started=f"2026-11-0{day}T10:00:00Z"), tmp_path)
    (tmp_path / "conv_scaling" / ".journal.json").write_text("no record", encoding="utf-8")
    days = [item.record.started[8:10] for item in read_study("conv_scaling", tmp_path)]
    assert days == ["01", "02", "03"]


def test_a_study_without_records_is_empty(tmp_path: Path) -> None:
    assert read_study("conv_scaling", tmp_path) == ()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (Path.mkdir, "found a folder where a file belongs"),
        (os.mkfifo, "found a named pipe where a file belongs"),
        (lambda path: path.symlink_to("/dev/zero"), "found a device where a file belongs"),
        (lambda path: path.symlink_to("nowhere"), "cannot be read"),
        (lambda path: path.symlink_to("../../elsewhere.json"), "leads out of the data directory"),
    ],
    ids=["folder", "pipe", "device", "dangling link", "link out of data"],
)
def test_only_files_inside_the_data_directory_are_read(
    make: Any, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.json").write_bytes(encode(factory.record()))
    path = tmp_path / "data" / "conv_scaling" / "20261101T100000Z-a-00000000.json"
    path.parent.mkdir(parents=True)
    make(path)
    for read in (read_study, list_records):
        with pytest.raises(RecordError, match=complaint):
            read("conv_scaling", tmp_path / "data")


def test_a_link_within_the_data_directory_is_followed(tmp_path: Path) -> None:
    path = write_record(factory.record(), tmp_path)
    path.rename(tmp_path / "kept.json")
    path.symlink_to("../kept.json")
    assert len(read_study("conv_scaling", tmp_path)) == 1


@pytest.mark.parametrize(
    ("change", "alteration"),
    [
        (lambda text: text.replace('"plan": "full"', '"plan": "quick"'), "does not match the hash"),
        (lambda text: text.replace("2026-11-01T10", "2026-11-30T10"), "its start is 20261130T"),
        (lambda text: text.replace('"example-2t"', '"other-2t"'), "its device is other-2t"),
        (lambda text: text.replace('"status": "ok"', '"status": "x"'), "does not match the hash"),
    ],
    ids=["plan", "start", "device", "case"],
)
def test_a_listed_record_is_compared_with_its_name(
    change: Any, alteration: str, tmp_path: Path
) -> None:
    """Also where no paper uses it: what it says decides which record is used."""
    path = write_record(factory.record(), tmp_path)
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    (listed,) = list_records("conv_scaling", tmp_path)
    assert any(alteration in way for way in listed.alterations)


def test_a_renamed_record_is_noticed(tmp_path: Path) -> None:
    path = write_record(factory.record(), tmp_path)
    path.rename(path.with_name(path.name.replace("20261101T", "20261201T")))
    (listed,) = list_records("conv_scaling", tmp_path)
    assert listed.alterations == (
        "its start is 20261101T100000Z and its name says 20261201T100000Z",
    )
    assert not read_record(path.parent / Path(listed.file).name, tmp_path).untouched


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"plan": "full"', '"plan": "half"', "protocol.plan: found 'half'"),
        ('"study": "conv_scaling"', '"study": "other"', "in the folder 'conv_scaling'"),
        ('"schema": 3', '"schema": 9', "schema: found version 9"),
        ('"cases": [', '"cases": [,', "not valid JSON"),
    ],
)
def test_a_broken_head_is_told_even_of_a_record_that_is_not_used(
    old: str, new: str, told: str, tmp_path: Path
) -> None:
    path = write_record(factory.record(), tmp_path)
    write_record(factory.record(started="2026-11-02T10:00:00Z"), tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(RecordError, match=re.escape(told)):
        list_records("conv_scaling", tmp_path)
