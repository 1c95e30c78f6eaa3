"""``--check`` and ``--accept``: stale output, verdicts, audits that fail newly, typed results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import build
from report.commands.check import EXPECTED, Expected, differences, faults, read_expected
from report.engine.pipeline import ROOT, Request
from report.errors import RecordError
from tests.factory import data_folder

STUDY = "backend_speedup"
VERDICTS = st.sampled_from(["supported", "refuted", "undecided", "not measured"])
NAMES = st.text("abc", min_size=1, max_size=3)
RESULTS = st.builds(
    Expected, st.dictionaries(NAMES, VERDICTS), st.lists(NAMES, unique=True).map(tuple)
)


@given(RESULTS)
def test_what_is_accepted_is_no_difference(now: Expected) -> None:
    assert list(differences(STUDY, now, now)) == []


@given(RESULTS, RESULTS)
def test_every_other_verdict_and_every_new_failure_is_told(old: Expected, new: Expected) -> None:
    told = list(differences(STUDY, old, new))
    changed = [claim for claim in old.claims if old.claims[claim] != new.claims.get(claim)]
    assert len(told) == len(changed) + len(set(new.audits) - set(old.audits))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study without records, built as a page."""
    folder = tmp_path_factory.mktemp("check")
    data_folder(folder)
    assert build.main(arguments(folder)) == 0
    return folder


def arguments(folder: Path, *more: str) -> list[str]:
    places = ["--out", str(folder / "out"), "--data", str(folder / "data")]
    return [STUDY, "--html", "--jobs", "1", *places, *more]


def request_for(folder: Path) -> Request:
    return Request((STUDY,), ("html",), folder / "out", "typst", data=folder / "data")


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "check")


def test_a_whole_build_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(arguments(folder, "--accept")) == 0
    assert build.main(arguments(folder, "--check")) == 0
    assert capsys.readouterr().out.strip().splitlines()[-1].endswith(EXPECTED)


def test_without_expectations_only_what_is_stale_counts(folder: Path) -> None:
    assert faults(request_for(folder)) == ()
    (folder / "out" / "html" / STUDY / "index.html").unlink()
    missing, *_, after = faults(request_for(folder))
    assert missing == f"{STUDY}/document is stale: html/{STUDY}/index.html is missing."
    assert after == f"site/index is stale: it follows from {STUDY}/document."


def test_nothing_is_written(folder: Path) -> None:
    def times() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}

    (folder / "data" / "references.bib").write_text("", "utf-8")
    before = times()
    assert build.main(arguments(folder, "--check")) == 1
    assert times() == before


def test_another_verdict_is_found_also_in_what_is_not_built_yet(folder: Path) -> None:
    build.main(arguments(folder, "--accept"))
    path = folder / "data" / EXPECTED
    expected = read_expected(folder / "data")[STUDY]
    claim, verdict = next(iter(expected.claims.items()))
    path.write_text(path.read_text("utf-8").replace(f"{claim}: {verdict}", f"{claim}: other"))
    told = f"{STUDY}: the claim {claim} is {verdict}; it was other."
    assert faults(request_for(folder)) == (told,)
    shutil.rmtree(folder / "out")
    assert told in faults(request_for(folder))


def test_a_typed_result_is_found(folder: Path, tmp_path: Path) -> None:
    papers = shutil.copytree(ROOT / "templates" / "papers", tmp_path / "papers")
    template = papers / f"{STUDY}.qmd.j2"
    template.write_text(template.read_text("utf-8") + "\nIt took 93.1 ms.\n", "utf-8")
    found = faults(request_for(folder)._replace(papers=papers))
    assert any("the number 93.1 is typed into the prose" in fault for fault in found)


def test_an_expectation_of_no_study_is_refused(folder: Path) -> None:
    (folder / "data" / EXPECTED).write_text("no_study: {}\n", "utf-8")
    with pytest.raises(RecordError, match="no_study: found a name that is no study"):
        faults(request_for(folder))
