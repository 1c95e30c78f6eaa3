"""Every kind of change remakes what depends on it, and nothing else, and leaves nothing stale.

Each test changes one thing in a copy of the project that has been built, builds again, and
compares: the steps that ran with those that had to, and all of ``out/`` with a build from nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from report.engine.pipeline import ROOT
from report.records.store import read_record, write_record
from report.render.shell import OVERVIEWS
from tests import folders
from tests.factory import data_folder

ONE, OTHER = "conv_scaling", "training_roofline"
BOTH = (ONE, OTHER)
#: Pages that list something of all papers, and the search through them.
OF_THE_SITE = {f"html/{n}" for n in (*OVERVIEWS, "search-index.js")}
FORMATS = ("manuscript", "convert", "html", "tex", "pdf", "bundle")

Change = Callable[[Path], None]


def build(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``python build.py`` of a copy of the project, in Typst, which is always there."""
    finished = subprocess.run(
        [sys.executable, "build.py", *BOTH, "--engine", "typst", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "packages")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished


def ran(project: Path, *arguments: str) -> set[str]:
    """The steps that a build runs, as ``--explain`` names them."""
    lines = build(project, "--explain", *arguments).stdout.splitlines()
    return {line.partition(": ")[0] for line in lines if "/" in line.partition(": ")[0]} - {
        line for line in lines if line.startswith(("out/", "  data/"))
    }


def digests(project: Path, out: str = "out") -> dict[str, str]:
    """The digest of every file that a build is answerable for."""
    return folders.digests(project / out, {".index.json", ".lock"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one old record, built."""
    project = write_project(tmp_path_factory.mktemp("built") / "project")
    build(project)
    return project


def write_project(project: Path) -> Path:
    """Copy the project to a new folder, with one old record and nothing built."""
    project.mkdir()
    for name in ("report", "figures", "templates"):
        shutil.copytree(ROOT / name, project / name)
    shutil.copyfile(ROOT / "build.py", project / "build.py")
    data = data_folder(project)
    (old,) = (ROOT / "tests" / "records" / "v1").glob("*.json")
    (data / ONE).mkdir()
    shutil.copyfile(old, data / ONE / old.name)
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """The built project in another place, so that each test may change it."""
    return shutil.copytree(built, tmp_path / "project")


def replace(file: str, old: str, new: str) -> Change:
    """Change a text file in one place."""

    def change(project: Path) -> None:
        path = project / file
        text = path.read_text("utf-8")
        assert old in text, f"{old!r} is not in {file}"
        path.write_text(text.replace(old, new, 1), "utf-8")

    return change


def slower(project: Path) -> None:
    """A record whose times are twice as long, under the same name."""
    (path,) = (project / "data" / ONE).glob("*.json")
    folders.double_times(path)


def another_typst(project: Path) -> None:
    (project / "packages" / "typst-99.0.dist-info").mkdir(parents=True)


def of(study: str, *names: str) -> set[str]:
    return {f"{study}/{name}" for name in names}


def figures_of(project: Path, study: str) -> set[str]:
    steps = json.loads((project / "out" / "manifest.json").read_text("utf-8"))["steps"]
    return {id for id in steps if id.startswith(f"{study}/figure/")}


def test_nothing_changed_runs_nothing(project: Path) -> None:
    assert "Nothing to do" in build(project).stdout, "a copy has other times, and the same content"
    assert ran(project) == set()


def test_touching_a_file_runs_nothing(project: Path) -> None:
    for path in project.rglob("*.py"):
        path.touch()
    (project / "data" / "references.bib").touch()
    assert ran(project) == set()


def test_another_font_draws_and_prints_again(project: Path) -> None:
    replace("templates/fonts/README", "Fonts", "Typefaces")(project)
    papers = {f"{study}/{name}" for study in BOTH for name in ("convert", "pdf")}
    assert ran(project) == papers.union(*(figures_of(project, study) for study in BOTH))


#: What is changed, the steps that must run beside figures, and the study whose figures may change.
#: Lists of studies are made again where the words of an abstract change, which its numbers decide.
CHANGES: dict[str, tuple[Change, set[str], str | None]] = {
    "record": (slower, of(ONE, "study", "samples", *FORMATS) | {"site/quarto"}, ONE),
    "reported value": (
        replace(f"data/reported/{ONE}.json", "[16, 2433280]", "[16, 2433288]"),
        of(ONE, "study", *FORMATS) | {"site/quarto"},
        ONE,
    ),
    "device peak": (
        replace("data/devices.yaml", "value: 8.1, unit", "value: 9.1, unit"),
        of(ONE, "study") | of(OTHER, "study", *FORMATS) | {"site/quarto"},
        OTHER,
    ),
    "bibliography": (
        replace("data/references.bib", "title = {", "title = {New: "),
        of(ONE, *FORMATS) | of(OTHER, *FORMATS) | {"site/quarto"},
        None,
    ),
    "prose": (
        replace(f"templates/papers/{ONE}.qmd.j2", "\n# ", "\nAnother word.\n\n# "),
        of(ONE, *FORMATS) | {"site/quarto"},
        None,
    ),
    "page template": (
        replace("templates/html/page.html", "<main", '<main data-new="1"'),
        of(ONE, "convert", "html") | of(OTHER, "convert", "html") | {"site/index"},
        None,
    ),
    "LaTeX style": (
        replace("templates/latex/ridgepoint.sty", "\n", "\n% another comment\n"),
        of(ONE, "tex", "bundle") | of(OTHER, "tex", "bundle"),
        None,
    ),
    "Lua filter": (
        replace("templates/filter/html.lua", "\n", "\n-- another comment\n"),
        of(ONE, "convert") | of(OTHER, "convert"),
        None,
    ),
    "helper two imports away": (
        replace("report/text/format.py", "\nfrom ", "\n# another comment\nfrom "),
        {"site/quarto"} | {f"{study}/{name}" for study in BOTH for name in ("study", *FORMATS[:4])},
        None,
    ),
    "package version": (another_typst, {f"{study}/pdf" for study in BOTH}, None),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_remakes_what_depends_on_it(project: Path, kind: str) -> None:
    change, needed, drawn = CHANGES[kind]
    before = digests(project)
    change(project)
    steps = ran(project)
    figures = {step for step in steps if "/figure/" in step}
    listed = steps & {"site/index"}
    assert steps - figures - (listed - needed) == needed
    assert bool(listed - needed) <= any(step.endswith("/manuscript") for step in steps)
    assert figures <= (figures_of(project, drawn) if drawn else set())
    after = digests(project)
    build(project, "--out", "fresh")
    fresh = digests(project, "fresh")
    assert after == fresh, "nothing is stale"
    changed = {name for name in after if before.get(name) != after[name]} - {"manifest.json"}
    studies = {step.partition("/")[0] for step in needed}
    elsewhere = {
        name
        for name in changed
        if not studies & set(Path(name.removesuffix(".gz")).with_suffix("").parts)
    }
    others = {name for name in elsewhere if not name.startswith(("quarto/", "html/records/"))}
    assert others <= OF_THE_SITE
    assert ran(project) == set()


def test_a_drawing_function_remakes_all_that_it_draws(project: Path) -> None:
    before = digests(project)
    titled = "axes.set_title('x'); axes.set_xlabel("
    replace("figures/drawing/scaling.py", "axes.set_xlabel(", titled)(project)
    steps = ran(project)
    every = figures_of(project, ONE) | figures_of(project, OTHER)
    assert {step for step in steps if "/figure/" in step} == every
    assert not steps & (of(ONE, "study") | of(OTHER, "study"))
    after = digests(project)
    build(project, "--out", "fresh")
    assert after == digests(project, "fresh")
    assert before[f"html/{ONE}/figures/rate.svg"] != after[f"html/{ONE}/figures/rate.svg"]
    assert before[f"values/{ONE}.json"] == after[f"values/{ONE}.json"]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        (f"pdf/{ONE}.pdf", f"{ONE}/pdf"),
        (f"html/{ONE}/figures/rate.svg", f"{ONE}/html"),
        (f"qmd/{ONE}/figures/rate.svg", f"{ONE}/figure/rate"),
        (f"values/{ONE}.json", f"{ONE}/manuscript"),
        ("html/index.html", "site/index"),
    ],
)
@pytest.mark.parametrize("harm", ["deleted", "edited"])
def test_an_output_that_was_deleted_or_edited_is_made_again(
    project: Path, name: str, step: str, harm: str
) -> None:
    before = digests(project)
    path = project / "out" / name
    if harm == "deleted":
        path.unlink()
    else:
        content = path.read_bytes()
        path.write_bytes(content[:-9] + b"x" + content[-8:])
    assert ran(project) == {step}
    assert digests(project) == before


def test_a_record_that_no_paper_uses_stops_at_reading(project: Path) -> None:
    """An older run of the same machine: the paper is not made again, and the site lists the run."""
    data = project / "data"
    (path,) = (data / ONE).glob("*.json")
    record = read_record(path, data).record
    older = msgspec.structs.replace(record, started="2001-01-01T00:00:00Z", attachments=())
    write_record(older, data)
    before = digests(project)
    assert ran(project) == {f"{ONE}/study", "site/index"}
    after = digests(project)
    changed = {name for name in after if before.get(name) != after[name]}
    listed = {f".steps/{ONE}/records.json", "html/records.html", "html/search-index.js"}
    pages = {name for name in changed if name.startswith("html/records/")}
    assert changed <= {"manifest.json", *listed, *pages}


def test_dry_run_tells_and_does_nothing(project: Path) -> None:
    slower(project)
    before = digests(project)
    told = build(project, "--dry-run").stdout
    (path,) = (project / "data" / ONE).glob("*.json")
    assert f"{ONE}/study: data/{ONE}/{path.name} changed" in told
    assert f"{ONE}/html: if " in told
    assert OTHER not in told
    assert digests(project) == before
