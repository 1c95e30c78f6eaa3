"""Artifacts and their citation, builds beside a published site, and the pipeline of a course."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from report.commands.artifact import places_of, split_name
from report.commands.verify import compare
from report.core.records.store import write_record
from report.engine.cache import DIGESTS, digest_lines
from report.engine.steps import ROOT
from report.studies import STUDIES
from tests import factory, tiny
from tests.test_class import STUDY as CLASS_STUDY
from tests.test_class import machine

STUDY = tiny.STUDY
AUTHOR = """\
author:
  - name: Guido van Example
    affiliation: University of Examples
    orcid: 0000-0002-1825-0097
doi: 10.5281/zenodo.1234
"""
BYTES = "only its bytes (text, fonts or versions of programs)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed project of one study, with its artifact."""
    project = tiny.write_project(tmp_path_factory.mktemp("artifact") / "project")
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copyfile(ROOT / name, project / name)
    template = project / tiny.TEMPLATE
    before, _, after = template.read_text("utf-8").partition("author:\n")
    template.write_text(before + AUTHOR + after.partition("\n")[2], "utf-8")
    factory.commit(project)
    ended = tiny.build(project, "--artifact")
    assert ended.code == 0, ended.said
    assert "data/site.yaml: lacks 'url: " in ended.said and "orcid" not in ended.said
    return project


def test_the_archive_builds_the_same_site_without_git(project: Path, tmp_path: Path) -> None:
    folder = project / "out" / "artifact" / STUDY
    content = (folder / f"{STUDY}-artifact.tar.gz").read_bytes()
    assert tiny.build(project, "--artifact").code == 0
    assert (folder / f"{STUDY}-artifact.tar.gz").read_bytes() == content, "the same bytes"
    with tarfile.open(folder / f"{STUDY}-artifact.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"{STUDY}-artifact"
    assert not (unpacked / ".git").exists()
    assert tiny.build(unpacked).code == 0
    published = (unpacked / "published" / DIGESTS).read_text("utf-8")
    assert (unpacked / "out" / "html" / DIGESTS).read_text("utf-8") == published
    digests = factory.digests(unpacked / "published", {DIGESTS})
    assert published == digest_lines(digests), "every file of the site, and no other"
    ended = tiny.build(unpacked, "--artifact")
    assert ended.code == 2 and "run it in a git checkout" in ended.said
    ended = tiny.build(unpacked, "--verify-against", f"published/{DIGESTS}")
    assert ended.code == 0 and f"{len(digests)} files: 0 differ" in ended.said


def test_citation_and_appendix(project: Path) -> None:
    folder = project / "out" / "artifact" / STUDY
    cff = yaml.safe_load((folder / "CITATION.cff").read_text("utf-8"))
    (author,) = cff["authors"]
    assert (author["given-names"], author["family-names"]) == ("Guido", "van Example")
    assert author["orcid"] == "https://orcid.org/0000-0002-1825-0097"
    assert (cff["title"], cff["license"], len(cff["commit"])) == ("A tiny paper", "MIT", 40)
    assert cff["doi"] == "10.5281/zenodo.1234"
    zenodo = json.loads((folder / ".zenodo.json").read_text("utf-8"))
    assert zenodo["creators"][0]["name"] == "van Example, Guido"
    codemeta = json.loads((folder / "codemeta.json").read_text("utf-8"))
    assert codemeta["author"][0]["affiliation"]["name"] == "University of Examples"
    appendix = (folder / "artifact-appendix.md").read_text("utf-8")
    assert "## Expected results" in appendix and "supported" in appendix
    assert "1 run of" in appendix and "min" in appendix, "the time of the record"
    assert "**Archived:** https://doi.org/10.5281/zenodo.1234" in appendix
    assert re.search(r"\*\* \(section “[^”]+”\): ", appendix), "a claim names its section"
    latex = (folder / "artifact-appendix.tex").read_text("utf-8")
    assert r"\section{Artifact appendix}" in latex and "Shaded" not in latex


def test_claims_name_their_figure_or_section() -> None:
    lines = ("# Method {#sec-m}", "[]{#claim-a}A", "![[]{#claim-b}B](b){#fig-b}", "Text", "# End")
    document = "\n".join((*lines, "[]{#claim-c}C"))
    expected = {"a": "section “Method”", "b": "Figure 1", "c": "section “End”"}
    assert places_of(document) == expected


def test_names() -> None:
    assert split_name("Ada B. Example") == {"given": "Ada B.", "family": "Example"}
    assert split_name("Ludwig van der Rohe") == {"given": "Ludwig", "family": "van der Rohe"}
    for name in ("Aristotle", "The ridgepoint project"):
        assert split_name(name) == {"given": "", "family": name}


def test_reasons_of_differences(tmp_path: Path) -> None:
    old, new = (factory.write_files(tmp_path / name, {}) for name in ("old", "new"))
    names = ("a/index.html", "a/values.json", "a/records/r.json", "index.html")
    same = dict.fromkeys(names, "0")
    for folder, number in ((old, 1.5), (new, 1.6)):
        factory.write_files(folder, {"a/values.json": json.dumps({"v": {"gain": number}}).encode()})
    numbers = "its numbers (v.gain 1.5 → 1.6)"
    page, values, record, index = ({name: "1"} for name in names)
    for changed, expected in (
        ({}, {}),
        (page, {"a/index.html": BYTES}),
        (page | index, {"a/index.html": BYTES, "index.html": BYTES}),
        (values | index, {"a/values.json": numbers, "index.html": numbers}),
        (values | record, dict.fromkeys(("a/records/r.json", "a/values.json"), "its records")),
    ):
        reasons = compare(same, same | changed, old, new)
        assert {name: reason for name, reason in reasons.items() if reason} == expected
    (old / "a/values.json").unlink()
    assert compare(same, same | values, old, new)["a/values.json"].startswith("its numbers or its")


def test_the_pipeline_of_a_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a pull request, in order, with stand-ins for make and GitHub."""
    pytest.importorskip("torch")
    course = tmp_path / "course"
    others = [study for study in STUDIES if study != CLASS_STUDY]
    for name in ("report", "figures", "templates", "experiments", "data"):
        ignored = others if name == "data" else ["__pycache__"]
        shutil.copytree(ROOT / name, course / name, ignore=shutil.ignore_patterns(*ignored))
    shutil.copyfile(ROOT / "build.py", course / "build.py")
    factory.write_files(course, {"class/README": b"The records of a class."})
    factory.commit(course)
    git = ("git", "-C", str(course))
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    write_record(machine(CLASS_STUDY, 1), course / "class")
    factory.commit(course)
    programs = {
        "bin/make": "#!/bin/sh\n",
        "bin/gh": '#!/bin/sh\ncat "$5" > said.txt\n',
        ".venv/bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
    }
    factory.write_files(course, {name: text.encode() for name, text in programs.items()})
    for name in programs:
        (course / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(course / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("NUMBER", "7")
    workflow = yaml.safe_load((ROOT / "docs" / "course.yml").read_text("utf-8"))
    for step in workflow["jobs"]["build"]["steps"]:
        if "run" in step and step.get("if") != "github.event_name != 'pull_request'":
            subprocess.run(["bash", "-e", "-c", step["run"]], cwd=course, check=True)
    comment = (course / "said.txt").read_text("utf-8")
    assert "can be handed in" in comment and " claims" in comment.splitlines()[-1]
    assert (course / "site" / "class" / "index.html").is_file()
