"""The command and the pipeline: what is made, what stays, what is said, and the same bytes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import build
from report.engine import computing, pipeline
from report.engine.cache import INDEX
from report.engine.gather import choose
from report.engine.pipeline import ROOT, Request, choose_engine
from report.engine.programs import find_tex
from report.errors import RenderError
from report.records.store import read_record, write_record
from tests import factory, folders
from tests.factory import data_folder

STUDY = "conv_scaling"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return data_folder(tmp_path)


def example_record(data: Path) -> str:
    """Put a quick record of another machine into ``data``; returns its file relative to it."""
    (old,) = (ROOT / "tests" / "records").glob("*.zip")
    target = data / STUDY / old.name
    target.parent.mkdir()
    shutil.copyfile(old, target)
    return target.relative_to(data).as_posix()


def digests(folder: Path) -> dict[str, str]:
    return folders.digests(folder, {INDEX})


def built(out: Path, data: Path, *more: str) -> int:
    """One study, since all of them take minutes; the builds that are compared make them all."""
    return build.main([STUDY, "--out", str(out), "--data", str(data), "--engine", "typst", *more])


def another_record(data: Path, moment: str) -> Path:
    """A quick record of the same device as ``example_record``, started at ``moment``."""
    (old,) = (data / STUDY).glob("*.zip")
    record = msgspec.structs.replace(
        read_record(old, data).record,
        started=moment,
        finished="2026-12-31T00:00:00Z",
        attachments=(),
    )
    return write_record(record, data)


def test_an_altered_record_is_noted_and_a_bad_one_keeps_old_output(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no other one: else it is left out."""
    path = data / example_record(data)
    factory.edit(path, '"seed": 0', '"seed": 1')
    out = tmp_path / "out"
    for again in ("first", "second"):
        assert built(out, data, "--html") == 0
        note = f"note: data/{STUDY}/{path.name}: its content does not match the hash in its name"
        assert note in capsys.readouterr().out, f"the {again} build"
    heading = "Records that were changed after measurement"
    for page in (f"html/{STUDY}/index.html", f"quarto/{STUDY}/{STUDY}.qmd"):
        assert heading in (out / page).read_text("utf-8")
    values = json.loads((out / "values" / f"{STUDY}.json").read_text("utf-8"))
    assert {file for file, _ in values["altered"]} == {f"{STUDY}/{path.name}"}
    before = digests(out)
    factory.edit(path, '"time":"ns"', '"time":"ms"')
    assert built(out, data, "--html") == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith(f"error: data/{STUDY}/{path.name}: units.time: ")
    assert "found 'ms'" in error and "Traceback" not in error
    assert digests(out) == before


@pytest.mark.parametrize(
    ("moment", "old", "new"),
    [
        ("2026-12-01T00:00:00Z", '"seed": 0', '"seed": 1'),
        ("2020-01-01T00:00:00Z", "2020-01-01", "2026-12-01"),
        ("2020-01-01T00:00:00Z", '"plan": "quick"', '"plan": "full"'),
    ],
    ids=["newest", "newest by its edited start", "best by its edited plan"],
)
def test_an_altered_record_beside_another_is_left_out_unless_it_is_named(
    moment: str, old: str, new: str, data: Path
) -> None:
    """Which record is used may be what the edit has changed."""
    good = example_record(data)
    path = another_record(data, moment)
    factory.edit(path, old, new)
    chosen = choose(STUDY, data)
    assert chosen.runs == ((good,),)
    assert chosen.notices[0].startswith(f"left out: data/{STUDY}/{path.name}: its content does not")
    named = f"{STUDY}: {{roles: {{cpu: [{STUDY}/{path.name}]}}}}\n"
    (data / "editions.yaml").write_text(named, "utf-8")
    assert choose(STUDY, data).runs == ((f"{STUDY}/{path.name}",),)


def test_a_failing_study_does_not_stop_the_others(tmp_path: Path, data: Path) -> None:
    """Two studies of which the first fails: the second is built, and the summary says both."""
    (data / STUDY).mkdir()
    (data / STUDY / "no-record.zip").write_text("{}", "utf-8")
    out = tmp_path / "out"
    request = Request((STUDY, "conv_profiling"), ("html",), out, "typst", data=data)
    summary = pipeline.build(request, lambda words, share: None)
    assert [outcome.study for outcome in summary.outcomes] == [STUDY, "conv_profiling", "site"]
    assert [outcome.study for outcome in summary.failed] == [STUDY]
    assert "no-record.zip: found a name that is not" in str(summary.failed[0].failure)
    assert (out / "html" / "conv_profiling" / "index.html").exists()
    assert not (out / "html" / STUDY).exists()


def test_a_defect_is_one_sentence_without_debug(
    tmp_path: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(computing, "compute_usable", broken)
    assert built(tmp_path / "out", data, "--jobs", "1") == 1
    text = capsys.readouterr().err
    assert f"error: {STUDY}: ZeroDivisionError: division by zero" in text
    assert "Traceback" not in text
    assert built(tmp_path / "out", data, "--jobs", "1", "--debug") == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("build.py", "--html"), ("-m", "experiments", "list")])
def test_a_forgotten_environment_is_one_sentence(command: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, "-S", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert "activate" in line


def test_without_tex_auto_takes_typst_and_says_how_to_get_latex(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    lacking = find_tex({})["lacking"]
    engine, note = choose_engine("auto", lacking)
    assert engine == "typst"
    assert "apt-get install" in note
    with pytest.raises(RenderError, match="apt-get install"):
        choose_engine("latex", lacking)


def test_a_build_says_in_few_lines_what_it_made_from_which_records_and_by_what(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a pipe; the studies that are built here are two, and all six take a line each more."""
    file = example_record(data)
    another_record(data, "2020-01-01T00:00:00Z")
    where = ["--html", "--out", str(tmp_path / "out"), "--data", str(data)]
    template = f"templates/papers/{STUDY}.qmd.j2"
    assert build.main([template, "conv_profiling", *where]) == 0
    said = capsys.readouterr()
    assert said.err == "", "no progress where nobody looks on"
    _, *records, closing = said.out.splitlines()
    assert records == [
        f"{STUDY}: 2 records, 1 used; --explain lists them.",
        "conv_profiling: 0 records, 0 used.",
    ]
    assert "2 papers: 2 made, 0 current, 0 errors, 0 notes" in closing
    assert build.main([STUDY, "--explain", *where]) == 0
    assert f"data/{file}: used" in capsys.readouterr().out
    assert build.main([STUDY, "-q", *where]) == 0
    assert capsys.readouterr() == ("", "")
