"""Comparison of builds in two environments and of builds from old and new data; artifacts.

An artifact is an archive of one paper's code, data and outputs, for reviewers.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from ast import literal_eval
from pathlib import Path

import msgspec
import pytest
import yaml

import build
from report.commands.artifact import places_of, split_name
from report.commands.console import announcer
from report.commands.difference import CHANGE_LIMIT, difference, find_data, lines, text_changes
from report.commands.verify import ENVIRONMENTS, ONLY_BYTES, build_twice, compare
from report.core.errors import OutputError, RecordError, RenderError
from report.core.records.store import write_record
from report.engine.cache import DIGESTS, digest_lines
from report.engine.steps import ROOT, BuildRequest
from report.studies import STUDIES
from tests import factory, tiny
from tests.degraded import slower_record, small_record
from tests.render.conftest import needs_latex
from tests.test_class import machine

SCALING = "conv_scaling"
#: A build script that writes the value of a Python expression and a copy of the data.
BUILD = """
import argparse, locale, os, sys, time
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path)
parser.add_argument("--data", type=Path)
options, _ = parser.parse_known_args()
out, data = options.out, options.data
(out / "html").mkdir(parents=True)
(out / "manifest.json").write_text("{}")
(out / ".index.json").write_text(os.getcwd())
(out / "html" / "data").write_bytes((data / "record").read_bytes())
(out / "html" / "page").write_bytes(b"first line\\n" + repr((EXPRESSION)).encode())
"""


def project_of(folder: Path, expression: str) -> Path:
    """Write a project whose page contains the value of a Python expression."""
    program = BUILD.replace("EXPRESSION", expression)
    files = dict.fromkeys((f"{name}/file" for name in ("report", "figures", "templates")), b"")
    data = {"data/record": b"measured", "data/devices.yaml": b""}
    return factory.write_files(folder / "project", {"build.py": program, **data, **files})


def compare_builds(folder: Path, data: Path | None = None) -> tuple[dict[str, str], list[str]]:
    """Build the project in ``folder`` in two environments.

    Return the digests of the first build's files, and the names of files that differ.
    """
    project = folder / "project"
    request = BuildRequest(("study",), ("html",), folder / "out", data=data or project / "data")
    return build_twice(request, project, announcer(quiet=True))


#: Expressions with another value in each environment.
VARYING = ("os.getcwd()", "time.tzname", "os.environ['LC_ALL']", "hash('a')", "os.umask(0)")


def test_builds_with_unequal_bytes_are_reported(tmp_path: Path) -> None:
    project_of(tmp_path, ", ".join(VARYING))
    _, differing = compare_builds(tmp_path)
    assert differing == ["html/page"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".lock", "verify"}
    values = []
    for folder, *_ in ENVIRONMENTS.values():
        _, page = (tmp_path / "out/verify" / folder / "out/html/page").read_text().split("\n")
        values.append(literal_eval(page))
    assert all(first != second for first, second in zip(*values, strict=True)), values


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_manifest_of_equal_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables of the user are not passed to the builds, the user's data are."""
    for name in ("PYTHONINSPECT", "LC_NUMERIC", "LANGUAGE"):
        monkeypatch.setenv(name, "mine")
    names = "[p.name for p in data.parent.glob('*data/*')]"
    project_of(tmp_path, f"sorted({names}), 'mine' in os.environ.values()")
    data = factory.write_files(tmp_path / "alone", {"record": b"of mine"})
    (data / "broken link").symlink_to("nowhere")
    files, differences = compare_builds(tmp_path, data)
    # The project's own data, a record and a list of devices, are copied beside the user's record.
    page = b"first line\n(['devices.yaml', 'record', 'record'], False)"
    outputs = {"html/data": b"of mine", "html/page": page, "manifest.json": b"{}"}
    assert not differences
    assert files == {name: hashlib.sha256(text).hexdigest() for name, text in outputs.items()}
    out = factory.write_files(tmp_path / "out", outputs)
    for content, exit_code in ((page, 0), (b"of other papers", 1)):
        factory.write_files(out, {"html/page": content})
        check = ["sha256sum", "--check", "--strict", DIGESTS]
        assert subprocess.run(check, cwd=out, check=False).returncode == exit_code


def test_failed_builds_and_files_that_cannot_be_copied_are_one_sentence(tmp_path: Path) -> None:
    project = project_of(tmp_path, "sys.exit('error: x.bib: not there')")
    with pytest.raises(RenderError, match=r"the first build failed: x\.bib"):
        compare_builds(tmp_path)
    os.mkfifo(pipe := project / "data" / "pipe")
    message = rf"^{pipe}: cannot be copied \(.* is a named pipe\); make"
    with pytest.raises(OutputError, match=message):
        compare_builds(tmp_path)
    (project / "build.py").unlink()
    with pytest.raises(OutputError, match=r"/build\.py: cannot be copied \(No such file or direc"):
        compare_builds(tmp_path)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]


@needs_latex
def test_a_paper_has_the_same_bytes_in_both_environments(tmp_path: Path) -> None:
    project, out = tiny.write_project(tmp_path / "project"), tmp_path / "out"
    data = project / "data"
    request = BuildRequest((tiny.STUDY,), ("html", "pdf"), out, engine="latex", data=data)
    files, differences = build_twice(request, project, announcer(quiet=True))
    assert files and not differences


MANUSCRIPT = r"""# Results

Calls take [2.5 \[2.4, 2.6\] ms](#v-time){.value} each. They see [@one] and @tbl-time.

| Network | Time (ms) |
| :--- | ---: |
| LeNet | [50](#v-time){.value} |
"""


def test_changes_of_text_are_sentences_without_markup() -> None:
    """Changes of link targets and of table cells are no changes of text."""
    for old, new, sentence, removed, added in (
        ("see [@one]", "see [@two]", "They see [@one] and @tbl-time.", "@one", "@two"),
        ("2.6", "2.7", "Calls take 2.5 [2.4, 2.6] ms each.", "2.6", "2.7"),
    ):
        (change,) = text_changes(MANUSCRIPT, MANUSCRIPT.replace(old, new))
        assert (change.old, change.new) == (sentence, sentence.replace(removed, added))
    for old, new in (("(#v-time)", "(#v-other)"), ("[50](#", "[60](#")):
        assert text_changes(MANUSCRIPT, MANUSCRIPT.replace(old, new)) == []


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a committed data folder without records in a git repository."""
    data = factory.data_folder(tmp_path / "project")
    factory.commit_all(data.parent)
    return data


def test_commits_are_unpacked(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that were written after the commit are not in the unpacked folder."""
    write_record(factory.record(study=SCALING), data)
    monkeypatch.setenv("GIT_DIR", ".git")  # as in a git hook
    folder, description = find_data("HEAD", data, tmp_path)
    assert (folder / "devices.yaml").read_bytes() == (data / "devices.yaml").read_bytes()
    assert (data / SCALING).exists() and not (folder / SCALING).exists()
    assert re.fullmatch(r"revision HEAD, commit [0-9a-f]{12}", description)
    for revision in ("nowhere", "HEAD~9", "-x", "--all", "", "a\0b", "HEAD:data"):
        with pytest.raises(RecordError, match="neither"):
            find_data(revision, data, tmp_path)
    git = factory.write_program(tmp_path / "bin/git", "#!/bin/sh\necho dubious owner >&2; false")
    monkeypatch.setenv("PATH", str(git.parent), prepend=os.pathsep)
    with pytest.raises(RecordError, match=r"HEAD: .*dubious owner"):
        find_data("HEAD", data, tmp_path)


def show_no_progress(words: str, share: float, why: str) -> None:
    """Take the place of a function that prints the progress of a build."""


def test_another_record_changes_numbers_text_figures_and_the_page(tmp_path: Path) -> None:
    """One study has its first record, one has another record, and one has the same records."""
    old = factory.data_folder(tmp_path / "old", small_record(SCALING))
    slower = msgspec.structs.replace(
        slower_record(SCALING, 1.2), started="2026-12-01T10:00:00Z", finished="2026-12-02T10:00:00Z"
    )
    first = small_record("tuning_tips")
    data, out = factory.data_folder(tmp_path / "new", slower, first), tmp_path / "out"
    request = BuildRequest((SCALING, "conv_profiling", "tuning_tips"), ("html",), out, data=data)
    origins, (scaling, profiling, tips) = difference(request, str(old), show_no_progress)
    numbers = {change.name for change in scaling.parts["claims and numbers"]}
    assert "value gain" in numbers
    assert not {"value macs", "value outputs", "value parameters"} & numbers, "theory stays"
    assert "cliff" in {change.name for change in scaling.parts["figures"]}
    assert scaling.parts["places in the text"]
    assert not any(profiling.parts.values()), "studies with the same data are not built"
    assert {change.old for change in tips.parts["figures"]} == {""}
    text = "\n".join(lines(origins, (scaling, profiling), "PAGE"))
    page = (out / "diff" / "index.html").read_text("utf-8")
    assert "There is no such figure with the old data" in page
    for kind, changes in scaling.parts.items():
        assert text.count(f"{len(changes):,} {kind}") == bool(changes)
        assert len(changes) <= CHANGE_LIMIT or f"{len(changes) - CHANGE_LIMIT} more" in text
    rows = 0
    for study in (scaling, tips):
        rows += len(study.parts["claims and numbers"]) + len(study.parts["places in the text"])
    assert page.count("<tr><td>") == rows
    assert text.startswith("old: directory ") and text.endswith("PAGE")
    assert not list(out.glob(".scratch-*")), "both builds are removed"


def test_invalid_old_data_and_invalid_new_data_are_one_sentence_each(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for study in (SCALING, "conv_profiling"):
        write_record(factory.record(study=study), data)
    other = Path(shutil.copytree(data, tmp_path / "other"))
    for folder in (data, other):
        factory.write_files(folder, {f"reported/{SCALING}.json": f"{{{folder.name}"})
    arguments = ["--data", str(data), "--out", str(tmp_path / "out"), "--debug"]
    assert build.main([SCALING, "conv_profiling", "--diff", str(other), *arguments]) == 1
    output, page = capsys.readouterr(), (tmp_path / "out/diff/index.html").read_text("utf-8")
    for age in ("old", "new"):
        assert re.search(rf"{age} data: .*not valid JSON", output.out)
        assert f"Not built from the {age} data" in page
    assert "conv_profiling: its data are the same" in output.out and "Traceback" in output.err


STUDY = tiny.STUDY
#: The author of the test paper, in place of the project's name.
AUTHOR = """\
author:
  - name: Guido van Example
    affiliation: University of Examples
    orcid: 0000-0002-1825-0097
doi: 10.5281/zenodo.1234
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a committed project of one study, with the artifact."""
    project = tiny.write_project(tmp_path_factory.mktemp("artifact") / "project")
    for name in ("pyproject.toml", ".gitignore"):
        shutil.copyfile(ROOT / name, project / name)
    template = project / tiny.TEMPLATE
    before, _, after = template.read_text("utf-8").partition("author:\n")
    template.write_text(before + AUTHOR + after.partition("\n")[2], "utf-8")
    factory.commit_all(project)
    result = tiny.build(project, "--artifact")
    assert result.code == 0, result.output
    assert "data/site.yaml: lacks 'url: " in result.output, "an archived site needs an address"
    assert "orcid" not in result.output
    return project


def test_the_archive_builds_the_same_site_without_git(project: Path, tmp_path: Path) -> None:
    path = project / "out" / "artifact" / STUDY / f"{STUDY}-artifact.tar.gz"
    content = path.read_bytes()
    assert tiny.build(project, "--artifact").code == 0
    assert path.read_bytes() == content, "the same bytes"
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"{STUDY}-artifact"
    assert not (unpacked / ".git").exists()
    assert tiny.build(unpacked).code == 0
    published = (unpacked / "published" / DIGESTS).read_text("utf-8")
    assert (unpacked / "out" / "html" / DIGESTS).read_text("utf-8") == published
    digests = factory.digests(unpacked / "published", {DIGESTS})
    assert published == digest_lines(digests), "every file of the site, and no other"
    result = tiny.build(unpacked, "--artifact")
    assert result.code == 2 and "run it in a git checkout" in result.output
    result = tiny.build(unpacked, "--verify-against", f"published/{DIGESTS}")
    assert result.code == 0 and f"{len(digests)} files: 0 differ" in result.output


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


def test_the_section_or_figure_of_a_claim_is_named() -> None:
    """Empty links with the id of a claim mark where the document makes the claim."""
    lines = ("# Method {#sec-m}", "[]{#claim-a}A", "![[]{#claim-b}B](b){#fig-b}", "Text", "# End")
    document = "\n".join((*lines, "[]{#claim-c}C"))
    expected = {"a": "section “Method”", "b": "Figure 1", "c": "section “End”"}
    assert places_of(document) == expected


def test_names_of_persons_are_split() -> None:
    assert split_name("Ada B. Example") == {"given": "Ada B.", "family": "Example"}
    assert split_name("Ludwig van der Rohe") == {"given": "Ludwig", "family": "van der Rohe"}
    for name in ("Aristotle", "The ridgepoint project"):
        assert split_name(name) == {"given": "", "family": name}


def test_reasons_of_differences(tmp_path: Path) -> None:
    """Only the digests decide which files differ; the contents explain the difference."""
    old, new = (factory.write_files(tmp_path / name, {}) for name in ("old", "new"))
    names = ("a/index.html", "a/values.json", "a/records/r.json", "index.html")
    old_digests = dict.fromkeys(names, "0")
    for folder, number in ((old, 1.5), (new, 1.6)):
        factory.write_files(folder, {"a/values.json": json.dumps({"v": {"gain": number}})})
    new_numbers = "its numbers (v.gain 1.5 → 1.6)"
    page, values, record, index = ({name: "1"} for name in names)
    for new_digests, expected in (
        ({}, {}),
        (page, {"a/index.html": ONLY_BYTES}),
        (page | index, {"a/index.html": ONLY_BYTES, "index.html": ONLY_BYTES}),
        (values | index, {"a/values.json": new_numbers, "index.html": new_numbers}),
        (values | record, dict.fromkeys(("a/records/r.json", "a/values.json"), "its records")),
    ):
        reasons = compare(old_digests, old_digests | new_digests, old, new)
        assert {name: reason for name, reason in reasons.items() if reason} == expected
    (old / "a/values.json").unlink()
    reason = compare(old_digests, old_digests | values, old, new)["a/values.json"]
    assert reason.startswith("its numbers or its")


def test_a_class_workflow_writes_a_comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands of docs/course.yml, with replacements for make and GitHub's ``gh``."""
    pytest.importorskip("torch")
    checkout = tmp_path / "checkout"
    others = [study for study in STUDIES if study != SCALING]
    for name in ("report", "figures", "templates", "experiments"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", checkout / "data", ignore=shutil.ignore_patterns(*others))
    shutil.copyfile(ROOT / "build.py", checkout / "build.py")
    factory.write_files(checkout, {"class/README": b"The records of a class."})
    factory.commit_all(checkout)
    git = ("git", "-C", str(checkout))
    subprocess.run([*git, "update-ref", "refs/remotes/origin/main", "HEAD"], check=True)
    record = machine(SCALING, number=1)
    code = msgspec.structs.replace(record.code, commit="1" * 40, measuring_code="1" * 64)
    write_record(msgspec.structs.replace(record, code=code), checkout / "class")
    factory.commit_all(checkout)
    programs = {
        "bin/make": "#!/bin/sh\n",
        "bin/gh": '#!/bin/sh\ncat "$5" > comment.txt\n',
        ".venv/bin/python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
    }
    for name, script in programs.items():
        factory.write_program(checkout / name, script)
    monkeypatch.setenv("PATH", str(checkout / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("NUMBER", "7")
    workflow = yaml.safe_load((ROOT / "docs" / "course.yml").read_text("utf-8"))
    for step in workflow["jobs"]["build"]["steps"]:
        if "run" in step and step.get("if") != "github.event_name != 'pull_request'":
            subprocess.run(["bash", "-e", "-c", step["run"]], cwd=checkout, check=True)
    comment = (checkout / "comment.txt").read_text("utf-8")
    assert "can be handed in" in comment and " claims" in comment.splitlines()[-1]
    assert (checkout / "site" / "class" / "index.html").is_file()
