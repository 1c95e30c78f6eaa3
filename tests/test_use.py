"""``build.py --use``: a paper from a record that the data directory would not choose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import build
from report.engine.gather import choose
from report.engine.use import named_records
from report.errors import RecordError
from report.records.editions import Edition, read_editions
from report.records.record import Record
from report.records.store import record_name, write_record
from report.studies import STUDIES
from tests import factory

STUDY = "conv_scaling"
FULL = factory.record(factory.layer_cases((1, 4)))
QUICK = factory.record(
    factory.layer_cases((1, 4), time=lambda batch: 3e-4 * batch),
    started="2026-11-02T10:00:00Z",
    plan="quick",
)
ELSEWHERE = factory.record([], started="2026-11-03T10:00:00Z", study="conv_profiling")


def file_of(record: Record) -> str:
    return f"{record.study}/{record_name(record)}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return factory.data_folder(tmp_path, FULL, QUICK, ELSEWHERE)


def made(data: Path, *more: str) -> int:
    out = ["--out", str(data.parent / "out"), "--data", str(data)]
    return build.main([STUDY, "--html", "--jobs", "1", *out, *more])


# ----------------------------------------------------------------------------- which one is meant


def test_a_record_is_named_by_a_path_or_by_a_part_of_its_name(data: Path, tmp_path: Path) -> None:
    file = file_of(QUICK)
    link = tmp_path / "link"
    link.symlink_to(data)
    for text, here in (
        (f"data/{file}", tmp_path),
        (str(data / file), Path("/")),
        (str(link / file), Path("/")),
        (file, Path("/")),
        (file.removesuffix(".zip"), Path("/")),
        ("20261102", Path("/")),
    ):
        assert named_records([text], [STUDY], data, here) == {STUDY: (file,)}
    assert named_records([file, "20261102", "20261101"], [STUDY], data, Path("/")) == {
        STUDY: (file, file_of(FULL))
    }
    latest = named_records(["latest"], [STUDY, "conv_profiling", "gpu_survey"], data, Path("/"))
    assert latest == {STUDY: (file,), "conv_profiling": (file_of(ELSEWHERE),)}
    assert named_records(["20261103"], STUDIES, data, Path("/")) == {
        "conv_profiling": (file_of(ELSEWHERE),)
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nothing", "no such record in"),
        ("latest", "no record of these studies in"),
        ("example-2t", f"{file_of(FULL)} and {file_of(QUICK)} have this in their names"),
        ("20261103", "a record of conv_profiling, which this build does not make"),
        (file_of(ELSEWHERE), "a record of conv_profiling, which this build does not make"),
        ("devices.yaml", "no such record in"),
        ("other.json", "no such record in"),
    ],
)
def test_a_record_that_cannot_be_meant_is_refused(
    text: str, told: str, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text("{}")
    studies = ["gpu_survey"] if text == "latest" else [STUDY]
    with pytest.raises(RecordError) as caught:
        named_records([text], studies, data, tmp_path)
    assert str(caught.value).startswith(f"--use {text}: ")
    assert told in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# ------------------------------------------------------------------------------------ the build


def test_a_build_uses_it_says_so_and_the_next_one_does_not(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = data.parent / "out"

    def values() -> bytes:
        return (out / "values" / f"{STUDY}.json").read_bytes()

    def page() -> str:
        return (out / "html" / STUDY / "index.html").read_text("utf-8")

    assert made(data) == 0
    committed, plain_page, manifest = values(), page(), (out / "manifest.json").read_bytes()
    assert b"asked" not in committed
    capsys.readouterr()

    assert made(data, "--use", "20261102", "--dry-run") == 0
    why = f"{STUDY}/study: what --use names changed from none to {file_of(QUICK)}"
    assert why in capsys.readouterr().out
    assert made(data, "--use", "20261102") == 0
    told = capsys.readouterr().out
    found = json.loads(values())
    assert found["records"] == found["asked"] == [file_of(QUICK)]
    assert "chosen by --use" in page()
    assert "chosen by --use" not in plain_page
    assert f"{STUDY}: 2 records, 1 used" in told
    assert file_of(QUICK) not in told
    assert made(data, "--use", "20261102", "--explain") == 0
    told = capsys.readouterr().out
    assert "Nothing to do" in told
    assert f"data/{file_of(QUICK)}: used as cpu, as --use names it" in told
    assert f"data/{file_of(FULL)}: not used, --use names another" in told

    assert made(data, "--check") == 1
    why = f"{STUDY}/study is stale: what --use names changed from {file_of(QUICK)} to none."
    assert why in capsys.readouterr().out
    assert made(data) == 0
    assert (values(), page()) == (committed, plain_page)
    assert (out / "manifest.json").read_bytes() == manifest


def test_what_is_accepted_is_the_edition(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new machine, then a run on it, then a quick one, which displaces neither."""
    machine = factory.environment("other-1t")
    first, again, quick = (
        factory.record(
            factory.layer_cases((1, 4)), machine, started=f"2026-11-0{day}T10:00:00Z", plan=plan
        )
        for day, plan in ((5, "full"), (6, "full"), (7, "quick"))
    )
    (data / "editions.yaml").write_text(f"{STUDY}: {{roles: {{cpu: example-2t}}}}\n")
    write_record(first, data)
    command = [STUDY, "--data", str(data), "--out", str(data.parent / "out"), "--use", "latest"]
    assert choose(STUDY, data).inputs.roles == {"cpu": file_of(FULL)}, (
        "nobody has named the new machine"
    )
    assert build.main([*command, "--accept"]) == 0
    assert read_editions(data)[STUDY] == Edition(
        {"cpu": "other-1t"}, compared=("example-2t",), date="2026-11-05"
    )
    assert choose(STUDY, data).inputs.roles == {"cpu": file_of(first)}
    write_record(again, data)
    assert choose(STUDY, data).inputs.roles == {"cpu": file_of(again)}, (
        "a later run changes the paper"
    )
    write_record(quick, data)
    before = (data / "editions.yaml").read_bytes()
    assert choose(STUDY, data).inputs.roles == {"cpu": file_of(again)}
    assert choose(STUDY, data, [file_of(quick)]).inputs.roles == {"cpu": file_of(quick)}
    capsys.readouterr()
    assert build.main([*command, "--accept"]) == 1
    assert "does not replace the full run in the role cpu" in capsys.readouterr().err
    assert (data / "editions.yaml").read_bytes() == before
