"""What the papers would say differently: comparisons, other data, the text and the page."""

import os
import re
import shutil
from pathlib import Path

import msgspec
import pytest

import build
from report.commands.difference import (
    LIMIT,
    difference,
    find_data,
    lines,
    text_changes,
)
from report.core.errors import RecordError
from report.core.records.store import write_record
from report.engine.steps import BuildRequest
from tests import factory
from tests.test_conv_scaling import record as whole_record

STUDY = "conv_scaling"


MANUSCRIPT = r"""# Results

Calls take [2.5 \[2.4, 2.6\] ms](#v-time){.value} each. They see [@one] and @tbl-time.

| Network | Time (ms) |
| :--- | ---: |
| LeNet | [50](#v-time){.value} |
"""


def test_a_change_of_the_text_is_a_sentence_or_a_row_without_markup_of_numbers() -> None:
    for old, new, sentence, gone, come in (
        ("see [@one]", "see [@two]", "They see [@one] and @tbl-time.", "@one", "@two"),
        ("[50](#", "[60](#", "| LeNet | 50 |", "50", "60"),
        ("2.6", "2.7", "Calls take 2.5 [2.4, 2.6] ms each.", "2.6", "2.7"),
    ):
        (change,) = text_changes(MANUSCRIPT, MANUSCRIPT.replace(old, new))
        assert (change.old, change.new) == (sentence, sentence.replace(gone, come))
    assert text_changes(MANUSCRIPT, MANUSCRIPT.replace("(#v-time)", "(#v-other)")) == []


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory in a git repository, committed without a record."""
    data = factory.data_folder(tmp_path / "project")
    factory.commit(data.parent)
    return data


def test_revision_is_unpacked(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_record(factory.record(), data)
    monkeypatch.setenv("GIT_DIR", ".git")
    folder, words = find_data("HEAD", data, tmp_path)
    assert (folder / "devices.yaml").read_bytes() == (data / "devices.yaml").read_bytes()
    assert (data / STUDY).exists() and not (folder / STUDY).exists()
    assert re.fullmatch(r"revision HEAD, commit [0-9a-f]{12}", words)
    for name in ("nowhere", "HEAD~9", "-x", "--all", "", "a\0b", "HEAD:data"):
        with pytest.raises(RecordError, match="neither"):
            find_data(name, data, tmp_path)
    program = factory.write_files(
        tmp_path / "bin", {"git": b"#!/bin/sh\necho dubious owner >&2; false"}
    )
    (program / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(program), prepend=os.pathsep)
    with pytest.raises(RecordError, match=r"HEAD: .*dubious owner"):
        find_data("HEAD", data, tmp_path)


def test_another_record_changes_numbers_text_figures_and_the_page(tmp_path: Path) -> None:
    old = factory.data_folder(tmp_path / "old", whole_record())
    slower = msgspec.structs.replace(whole_record(slower=1.2), started="2026-12-01T10:00:00Z")
    data, out = factory.data_folder(tmp_path / "new", slower), tmp_path / "out"
    request = BuildRequest((STUDY, "conv_profiling"), ("html",), out, data=data)
    origins, (own, other) = difference(request, str(old), lambda words, share, why: None)
    changed = {kind: {change.name for change in found} for kind, found in own.parts.items()}
    numbers = changed["claims and numbers"]
    assert "value gain" in numbers and "cliff" in changed["figures"]
    assert not {"value macs", "value outputs", "value parameters"} & numbers, "theory stays"
    assert own.parts["places in the text"]
    assert not any(other.parts.values()), "nothing is built where the data are the same"
    text = "\n".join(lines(origins, (own, other), "PAGE"))
    page = (out / "diff" / "index.html").read_text("utf-8")
    for kind, found in own.parts.items():
        assert text.count(f"{len(found):,} {kind}") == bool(found)
        assert len(found) <= LIMIT or f"{len(found) - LIMIT} more" in text
    listed = ("claims and numbers", "places in the text")
    assert page.count("<tr><td>") == sum(len(own.parts[kind]) for kind in listed)
    assert text.startswith("old: directory ") and text.endswith("PAGE")
    assert not list(out.glob(".scratch-*")), "both builds are removed"


def test_the_first_records_of_a_study_are_shown_beside_nothing(data: Path, tmp_path: Path) -> None:
    new = factory.data_folder(tmp_path / "new", whole_record())
    request = BuildRequest((STUDY,), ("html",), tmp_path / "out", data=new)
    _, (own,) = difference(request, str(data), lambda words, share, why: None)
    assert {change.old for change in own.parts["figures"]} == {""}
    page = (tmp_path / "out" / "diff" / "index.html").read_text("utf-8")
    assert "There is no such figure with the old data" in page


def test_refused_data_are_a_sentence_for_each_side(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for study in (STUDY, "conv_profiling"):
        write_record(factory.record(study=study), data)
    other = Path(shutil.copytree(data, tmp_path / "other"))
    for folder in (data, other):
        (folder / "reported" / f"{STUDY}.json").write_text(f"{{{folder.name}", encoding="utf-8")
    where = ["--data", str(data), "--out", str(tmp_path / "out"), "--debug"]
    assert build.main([STUDY, "conv_profiling", "--diff", str(other), *where]) == 1
    said, page = capsys.readouterr(), (tmp_path / "out/diff/index.html").read_text("utf-8")
    for age in ("old", "new"):
        assert re.search(rf"{age} data: .*not valid JSON", said.out)
        assert f"Not built from the {age} data" in page
    assert "conv_profiling: its data are the same" in said.out and "Traceback" in said.err
