"""Records on disk, with the files beside them: written once and whole, and never replaced."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.records import files
from report.records.filed import encode
from report.records.record import Attachment, Record
from report.records.store import (
    Stored,
    digest,
    list_records,
    packed,
    read_attachments,
    read_record,
    read_study,
    record_name,
    unpacked_files,
    write_record,
)
from tests import factory

FILES = {"lackey.json.gz": b"\x1f\x8b logs", "ncu.json.gz": b"more"}


def with_attachments() -> Record:
    named = tuple(
        Attachment(name=name, sha256=digest(content), meaning="what a counter printed")
        for name, content in FILES.items()
    )
    return msgspec.structs.replace(factory.record(), attachments=named)


def test_what_was_written_is_read_again_and_never_replaced(tmp_path: Path) -> None:
    record = with_attachments()
    path = write_record(record, tmp_path, FILES)
    assert path.name == f"20261101T100000Z-example-2t-{digest(encode(record))[:8]}.zip"
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    (stored,) = read_study("conv_scaling", tmp_path)
    sha256 = digest(path.read_bytes())
    assert stored == Stored(record, f"conv_scaling/{path.name}", sha256)
    assert read_attachments(stored, FILES, tmp_path) == FILES
    assert read_attachments(stored, ("other.*",), tmp_path) == {}
    with pytest.raises(RecordError, match="records are never replaced"):
        write_record(record, tmp_path)
    assert digest(path.read_bytes()) == sha256


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_writer_that_is_interrupted_or_has_no_room_leaves_nothing(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(descriptor: int) -> NoReturn:
        raise error

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises((RecordError, KeyboardInterrupt), match=r"No space left.*make room|^$"):
        write_record(factory.record(), tmp_path)
    assert list((tmp_path / "conv_scaling").iterdir()) == []


def test_altered_and_missing_files_are_named(tmp_path: Path) -> None:
    path = write_record(with_attachments(), tmp_path, FILES)
    stored, text = read_record(path, tmp_path), factory.text_of(path)
    for others, said in (
        ({**FILES, "ncu.json.gz": b"altered"}, r"ncu\.json\.gz: found other content than the rec"),
        ({}, r"ncu\.json\.gz.* in the archive; restore the file"),
    ):
        factory.file_record(path, text, others)
        with pytest.raises(RecordError, match=said):
            read_attachments(stored, ("ncu.*",), tmp_path)


@given(st.data())
def test_a_damaged_archive_is_refused_or_right(data: st.DataObject) -> None:
    """Whatever bytes change: one sentence, or the same content."""
    content = bytearray(packed(b"{}" * 50, FILES))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    try:
        found = unpacked_files(bytes(content), ("record.json", *FILES), "x.zip", "restore it")
    except RecordError as error:
        assert str(error).startswith("x.zip: ") and str(error).endswith("; restore it.")
    else:
        assert found == {"record.json": b"{}" * 50, **FILES}


def test_a_small_archive_that_holds_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_UNPACKED", 1000)
    found = unpacked_files(packed(bytes(1000)), ("record.json",), "x.zip", "")
    assert found == {"record.json": bytes(1000)}
    with pytest.raises(RecordError, match="more than 1,000 B"):
        unpacked_files(packed(bytes(1001)), ("record.json",), "x.zip", "restore it")


def test_a_study_is_read_oldest_first(tmp_path: Path) -> None:
    assert read_study("conv_scaling", tmp_path) == ()
    for day in (3, 1, 2):
        path = write_record(factory.record(started=f"2026-11-0{day}T10:00:00Z"), tmp_path)
    (tmp_path / "conv_scaling" / ".journal.zip").write_text("no record", encoding="utf-8")
    path.rename(tmp_path / "kept.zip")
    path.symlink_to("../kept.zip")
    days = [item.record.started[8:10] for item in read_study("conv_scaling", tmp_path)]
    assert days == ["01", "02", "03"]


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (Path.mkdir, "found no regular file"),
        (os.mkfifo, "found no regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "found no regular file"),
        (lambda path: path.symlink_to("nowhere"), "cannot be read"),
        (lambda path: path.symlink_to("../../elsewhere.zip"), "leads out of the data directory"),
    ],
    ids=["folder", "pipe", "device", "dangling link", "link out of data"],
)
def test_only_files_inside_the_data_directory_are_read(
    make: Any, complaint: str, tmp_path: Path
) -> None:
    factory.file_record(tmp_path / "elsewhere.zip", encode(factory.record()))
    path = tmp_path / "data" / "conv_scaling" / "20261101T100000Z-a-00000000.zip"
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(RecordError, match=complaint):
        list_records("conv_scaling", tmp_path / "data")


def test_a_record_is_compared_with_its_name(tmp_path: Path) -> None:
    """Also where no paper uses it: what it says decides which record is used."""
    path = write_record(factory.record(), tmp_path)
    factory.edit(path, '"plan": "full"', '"plan": "quick"')
    (listed,) = list_records("conv_scaling", tmp_path)
    assert listed.edited and read_record(path, tmp_path).edited


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("conv_scaling", "x.zip"),
        ("conv_scaling", "20261101T100000Z-a.zip"),
        ("another", record_name(factory.record())),
    ],
)
def test_a_bad_file_name_or_folder_is_refused(folder: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "data" / folder / name
    path.parent.mkdir(parents=True)
    factory.file_record(path, encode(factory.record()))
    with pytest.raises(RecordError, match=rf"^data/{folder}/{name}: .*; (give|move) the"):
        list_records(folder, tmp_path / "data")
