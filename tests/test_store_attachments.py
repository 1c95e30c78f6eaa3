"""Files beside a record: whole before it appears, named by their digests, never replaced."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest

from report.errors import RecordError
from report.records import store
from report.records.filed import encode, parse
from report.records.record import Attachment, Record
from report.records.store import digest, read_attachment, read_record, read_study, write_record
from tests import factory

FILES = {"lackey.json.gz": b"\x1f\x8b logs", "perf.json.gz": b"more"}


def with_attachments(files: dict[str, bytes] = FILES) -> Record:
    named = tuple(
        Attachment(name=name, sha256=digest(content), meaning="what a counter printed")
        for name, content in files.items()
    )
    return msgspec.structs.replace(factory.record(), attachments=named)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = write_record(with_attachments(), tmp_path, FILES)
    (stored,) = read_study("conv_scaling", tmp_path)
    assert stored.untouched
    assert {name: read_attachment(stored, name, tmp_path) for name in FILES} == FILES
    assert sorted(item.name for item in path.parent.iterdir()) == [path.stem, path.name]


def test_a_record_without_files_makes_no_folder(tmp_path: Path) -> None:
    path = write_record(factory.record(), tmp_path)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "lackey.json.gz"),
        ({**FILES, "perf.json.gz": b"other"}, "perf.json.gz"),
        ({**FILES, "extra.gz": b""}, "extra.gz"),
    ],
)
def test_only_the_files_that_the_record_names_are_written(
    tmp_path: Path, given: dict[str, bytes], name: str
) -> None:
    with pytest.raises(RecordError, match=f"attachment {name} is not the one that the record"):
        write_record(with_attachments(), tmp_path, given)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_whole_before_the_record_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    place = store._place

    def watched(scratch: Path, target: Path) -> None:
        folder = target.with_suffix("")
        if target.suffix == ".json":
            seen.append(sorted(item.name for item in folder.iterdir()))
        place(scratch, target)

    monkeypatch.setattr(store, "_place", watched)
    write_record(with_attachments(), tmp_path, FILES)
    assert seen == [sorted(FILES)]


def test_a_folder_that_is_there_is_never_touched(tmp_path: Path) -> None:
    record = with_attachments()
    path = write_record(record, tmp_path, FILES)
    path.unlink()
    mine = path.with_suffix("") / "perf.json.gz"
    mine.write_bytes(b"mine")
    with pytest.raises(RecordError, match="exists already and records are never replaced"):
        write_record(record, tmp_path, FILES)
    assert mine.read_bytes() == b"mine"
    assert not path.exists()


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = store._place

    def full(scratch: Path, target: Path) -> None:
        if target.suffix == ".json":
            raise OSError(errno.ENOSPC, "No space left on device")
        place(scratch, target)

    monkeypatch.setattr(store, "_place", full)
    with pytest.raises(RecordError, match="No space left on device"):
        write_record(with_attachments(), tmp_path, FILES)
    assert list((tmp_path / "conv_scaling").iterdir()) == []


def test_altered_missing_and_unknown_files_are_told(tmp_path: Path) -> None:
    path = write_record(with_attachments(), tmp_path, FILES)
    stored = read_record(path, tmp_path)
    file = path.with_suffix("") / "perf.json.gz"
    file.write_bytes(b"altered")
    with pytest.raises(RecordError, match=r"perf\.json\.gz: found other content than the record"):
        read_attachment(stored, "perf.json.gz", tmp_path)
    file.unlink()
    with pytest.raises(RecordError, match=r"perf\.json\.gz: cannot be read .*; restore the file"):
        read_attachment(stored, "perf.json.gz", tmp_path)
    with pytest.raises(RecordError, match=r"the record has no attachment ncu\.csv; mend the name"):
        read_attachment(stored, "ncu.csv", tmp_path)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".hidden", "a/b", "", "A.gz", "a..b"])
def test_a_name_cannot_leave_the_folder(name: str) -> None:
    record = with_attachments()
    (first, _) = record.attachments
    bad = msgspec.structs.replace(record, attachments=(msgspec.structs.replace(first, name=name),))
    with pytest.raises(RecordError, match=r"attachments\[0\]\.name"):
        parse(encode(bad), "a file")


def test_a_name_stands_once() -> None:
    record = with_attachments()
    bad = msgspec.structs.replace(record, attachments=record.attachments[:1] * 2)
    with pytest.raises(RecordError, match=r"attachments: found the name lackey\.json\.gz twice"):
        parse(encode(bad), "a file")
