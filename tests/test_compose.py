"""From the data directory to a paper's source folder, and finished files put in place."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from report.engine.gather import gather
from report.records.record import Attachment
from report.records.store import digest, write_record
from tests import factory
from tests.papers import compose

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "templates" / "papers"


def files(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_the_pictures_of_an_author_lie_beside_the_template(tmp_path: Path) -> None:
    """Links are left: they may lead to any file of the machine."""
    papers, secret = tmp_path / "papers", tmp_path / "secret.png"
    shutil.copytree(PAPERS, papers)
    (papers / "conv_scaling").mkdir()
    (papers / "conv_scaling" / "setup.png").write_bytes(b"own")
    secret.write_bytes(b"secret")
    (papers / "conv_scaling" / "linked.png").symlink_to(secret)
    compose("conv_scaling", factory.data_folder(tmp_path), papers, tmp_path / "one")
    assert files(tmp_path / "one" / "pictures") == {"setup.png": b"own"}


def test_only_the_attachments_that_a_study_asks_for_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"trace.layer-64.json.gz": b"trace", "lackey.json.gz": b"logs"}
    named = tuple(
        Attachment(name=name, sha256=digest(content), meaning="x")
        for name, content in files.items()
    )
    record = msgspec.structs.replace(
        factory.record(started="2026-12-01T10:00:00Z"), attachments=named
    )
    data = factory.data_folder(tmp_path, factory.record())
    file = write_record(record, data, files).relative_to(data).as_posix()
    assert gather("conv_scaling", data).attachments[file] == {}
    monkeypatch.setattr("report.studies.conv_scaling.ATTACHMENTS", ("trace.*.json.gz",))
    found = gather("conv_scaling", data)
    assert found.attachments[file] == {"trace.layer-64.json.gz": b"trace"}
